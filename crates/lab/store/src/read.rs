//! Queries of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use netrig_core::{Duration, Instant};
use netrig_experiment::{Balance, Cut, MeasuredValue, Point, RunOutcome};
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Params, Row, Rows, Transaction};
use serde::de::DeserializeOwned;

use crate::provenance::digest;
use crate::write::factors;
use crate::{
    ExperimentId, NoteLine, ProvenanceId, RunEnd, Store, StoreError, StoredResponse, StoredRun, TimeSeries,
    parquet_file,
};

/// One version of an experiment file in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentEntry {
    /// The key in this store. Later versions have higher keys.
    pub id: ExperimentId,
    /// The experiment's name.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// When the file was added: UTC, `2026-11-21T08:00:00Z`.
    pub added: String,
    /// Number of runs of this version in the store, over all builds and substrates.
    pub runs: u64,
}

/// One replication of one point of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Replication {
    /// The level of every factor.
    pub point: Point,
    /// The number of the replication, from 1.
    pub number: u32,
    /// Version and commit of the netrig that made the run.
    pub build: String,
    /// The run.
    pub run: StoredRun,
}

/// A consistent state of a store. While this value exists, all queries read the same state, and each query costs less.
#[derive(Debug)]
pub struct StoreSnapshot<'a> {
    _transaction: Transaction<'a>,
}

/// The columns that [`bare_run`] reads, in this order.
const RUN: &str = "run.id, run.identity, run.substrate, run.seed, run.status, run.why, run.offered, \
                   run.duplicated, run.delivered, run.dropped, run.inside, run.events, run.lateness_ns, \
                   run.took_s, run.finished, run.provenance, run.lasted_ns, \
                   run.deterministic, run.remarks";
const RUN_COLUMNS: usize = 19;

impl Store {
    /// Every version of every experiment file, in the order in which they were added.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn experiments(&self) -> Result<Vec<ExperimentEntry>, StoreError> {
        let list = || -> rusqlite::Result<Vec<_>> {
            self.connection
                .prepare_cached(
                    "SELECT id, name, digest, added,
                            (SELECT count(*) FROM replication WHERE experiment = experiment.id)
                     FROM experiment ORDER BY id",
                )?
                .query_map([], |row| {
                    Ok(ExperimentEntry {
                        id: ExperimentId(row.get(0)?),
                        name: row.get(1)?,
                        digest: row.get(2)?,
                        added: row.get(3)?,
                        runs: row.get::<_, i64>(4)?.cast_unsigned(),
                    })
                })?
                .collect()
        };
        list().map_err(|e| self.failed(e))
    }

    /// Starts to read one consistent state of the store.
    ///
    /// # Errors
    /// If the store cannot be read, or this process already reads or writes it.
    pub fn snapshot(&self) -> Result<StoreSnapshot<'_>, StoreError> {
        let transaction = self.connection.unchecked_transaction().map_err(|e| self.failed(e))?;
        Ok(StoreSnapshot { _transaction: transaction })
    }

    /// The experiment file with this name and text, if the store has it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn experiment(&self, name: &str, file: &str) -> Result<Option<ExperimentId>, StoreError> {
        self.connection
            .query_row(
                "SELECT id FROM experiment WHERE name = ? AND digest = ?",
                [name, &digest(file)],
                |row| row.get(0),
            )
            .optional()
            .map(|id| id.map(ExperimentId))
            .map_err(|e| self.failed(e))
    }

    /// The text of an experiment file.
    ///
    /// # Errors
    /// If the store cannot be read, or has no such experiment.
    pub fn experiment_file(&self, id: ExperimentId) -> Result<String, StoreError> {
        self.connection
            .query_row("SELECT file FROM experiment WHERE id = ?", [id.0], |row| row.get(0))
            .optional()
            .map_err(|e| self.failed(e))?
            .ok_or_else(|| self.damaged(format!("it has no experiment {}", id.0)))
    }

    /// The run with this identity; `None` if the store does not have it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn run(&self, identity: &str) -> Result<Option<StoredRun>, StoreError> {
        let run = || -> rusqlite::Result<_> {
            let found = self
                .connection
                .prepare_cached(&format!("SELECT {RUN} FROM run WHERE identity = ?"))?
                .query_row([identity], bare_run)
                .optional()?;
            found.map(|(id, run)| self.with_responses(id, run)).transpose()
        };
        run().map_err(|e| self.failed(e))
    }

    /// The identity of each run, and its wall-clock duration in seconds.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn durations(&self) -> Result<Vec<(String, f64)>, StoreError> {
        let list = || -> rusqlite::Result<_> {
            self.connection
                .prepare("SELECT identity, took_s FROM run")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        };
        list().map_err(|e| self.failed(e))
    }

    /// The mean wall-clock duration, in seconds, of the valid runs at each point of an experiment, for one substrate
    /// and one build.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn mean_durations(
        &self,
        experiment: ExperimentId,
        substrate: &str,
        build: &str,
    ) -> Result<BTreeMap<Point, f64>, StoreError> {
        let list = || -> rusqlite::Result<BTreeMap<_, _>> {
            self.connection
                .prepare(
                    "SELECT replication.factors, avg(run.took_s)
                     FROM replication JOIN run ON run.id = replication.run
                     JOIN provenance ON provenance.id = run.provenance
                     WHERE replication.experiment = ? AND run.substrate = ? AND provenance.build = ? AND run.status = 'ok'
                     GROUP BY replication.factors",
                )?
                .query_map((experiment.0, substrate, build), |row| Ok((json(row, 0)?, row.get(1)?)))?
                .collect()
        };
        list().map_err(|e| self.failed(e))
    }

    /// The runs at a point of an experiment, each with its replication number.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn runs_at(
        &self,
        experiment: ExperimentId,
        point: &Point,
    ) -> Result<Vec<(u32, StoredRun)>, StoreError> {
        let mut found = Vec::new();
        let which = "WHERE replication.experiment = ?1 AND replication.factors = ?2";
        self.each_run(which, (experiment.0, factors(point)), |_, replication| {
            found.push((replication.number, replication.run));
            ControlFlow::Continue(())
        })
        .map_err(|e| self.failed(e))?;
        Ok(found)
    }

    /// Calls `take` with each replication of an experiment, sorted by point, replication, and order of recording.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn each_replication(
        &self,
        experiment: ExperimentId,
        mut take: impl FnMut(Replication),
    ) -> Result<(), StoreError> {
        self.each_run("WHERE replication.experiment = ?1", [experiment.0], |_, replication| {
            take(replication);
            ControlFlow::Continue(())
        })
        .map_err(|e| self.failed(e))
    }

    /// Calls `take` with each replication of an experiment, in the order in which the runs were recorded, and with the
    /// index of its point among the points so far. For a million runs this takes half the time of
    /// [`Self::each_replication`], because rows that are neighbours in the file are read together.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn each_recorded(
        &self,
        experiment: ExperimentId,
        take: impl FnMut(usize, Replication),
    ) -> Result<(), StoreError> {
        self.read_recorded(experiment, take).map_err(|e| self.failed(e))
    }

    fn read_recorded(
        &self,
        experiment: ExperimentId,
        mut take: impl FnMut(usize, Replication),
    ) -> rusqlite::Result<()> {
        let (first, last): (Option<i64>, Option<i64>) = self.connection.query_row(
            "SELECT min(run), max(run) FROM replication WHERE experiment = ?",
            [experiment.0],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let mut runs = self.connection.prepare_cached(&format!(
            "SELECT {RUN}, replication.factors, replication.number, provenance.build
             FROM replication INDEXED BY replication_of_run CROSS JOIN run ON run.id = replication.run
             CROSS JOIN provenance ON provenance.id = run.provenance
             WHERE replication.experiment = ?1 AND replication.run BETWEEN ?2 AND ?3 ORDER BY replication.run"
        ))?;
        let mut responses = self.connection.prepare_cached(
            "SELECT run, name, unit, value, why, discarded, too_short FROM response
             WHERE run BETWEEN ?1 AND ?2 ORDER BY run, name",
        )?;
        let mut responses = responses.query((first, last))?;
        responses.advance()?;
        let mut runs = runs.query((experiment.0, first, last))?;
        let mut points: BTreeMap<String, (usize, Point)> = BTreeMap::new();
        // The last replication, with the row id of its run and the index of its point. Replications may share a run.
        let mut held: Option<(i64, usize, Replication)> = None;
        while let Some(row) = runs.next()? {
            let (id, mut run) = bare_run(row)?;
            let factors = row.get_ref(RUN_COLUMNS)?.as_str()?;
            let (number, build) = (row.get(RUN_COLUMNS + 1)?, row.get(RUN_COLUMNS + 2)?);
            let (index, point) = match points.get(factors) {
                Some((index, point)) => (*index, point.clone()),
                None => {
                    let (index, point) = (points.len(), json::<Point>(row, RUN_COLUMNS)?);
                    points.insert(factors.to_owned(), (index, point.clone()));
                    (index, point)
                }
            };
            run.responses = match &held {
                Some((same, _, replication)) if *same == id => replication.run.responses.clone(),
                _ => responses_of(&mut responses, id)?,
            };
            if let Some((_, index, replication)) =
                held.replace((id, index, Replication { point, number, build, run }))
            {
                take(index, replication);
            }
        }
        if let Some((_, index, replication)) = held {
            take(index, replication);
        }
        Ok(())
    }

    /// All replications of an experiment, sorted by substrate, point, replication, and order of recording.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn replications(&self, experiment: ExperimentId) -> Result<Vec<Replication>, StoreError> {
        let mut list = Vec::new();
        self.each_replication(experiment, |replication| list.push(replication))?;
        list.sort_by(|a, b| a.run.substrate.cmp(&b.run.substrate));
        Ok(list)
    }

    /// The first `most` replications of an experiment, sorted by point, replication, and order of recording.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn first_replications(
        &self,
        experiment: ExperimentId,
        most: usize,
    ) -> Result<Vec<Replication>, StoreError> {
        let mut list = Vec::new();
        self.each_run("WHERE replication.experiment = ?1", [experiment.0], |_, replication| {
            if list.len() == most {
                return ControlFlow::Break(());
            }
            list.push(replication);
            ControlFlow::Continue(())
        })
        .map_err(|e| self.failed(e))?;
        Ok(list)
    }

    /// The builds of netrig that produced the runs of an experiment.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn builds(&self, experiment: ExperimentId) -> Result<BTreeSet<String>, StoreError> {
        let list = || -> rusqlite::Result<BTreeSet<_>> {
            self.connection
                .prepare_cached(
                    "SELECT DISTINCT provenance.build FROM provenance WHERE provenance.id IN (
                         SELECT run.provenance FROM replication JOIN run ON run.id = replication.run
                         WHERE replication.experiment = ?)",
                )?
                .query_map([experiment.0], |row| row.get(0))?
                .collect()
        };
        list().map_err(|e| self.failed(e))
    }

    /// The run whose identity has this prefix, as a replication of the last experiment that contains it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`], [`StoreError::SeveralRuns`]; or if the store cannot be read.
    pub fn replication(&self, identity: &str) -> Result<(ExperimentId, Replication), StoreError> {
        let mut found = Vec::new();
        self.each_run(
            "WHERE substr(run.identity, 1, length(?1)) = ?1",
            [identity],
            |experiment, replication| {
                found.push((experiment, replication));
                ControlFlow::Continue(())
            },
        )
        .map_err(|e| self.failed(e))?;
        let Some(last) = found.pop() else { return Err(StoreError::NoSuchRun(identity.to_owned())) };
        if found.iter().any(|(_, other)| other.run.identity != last.1.run.identity) {
            return Err(StoreError::SeveralRuns(identity.to_owned()));
        }
        Ok(last)
    }

    /// The time series of a run; empty if none were requested.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn series(&self, identity: &str) -> Result<Vec<TimeSeries>, StoreError> {
        let list = || -> rusqlite::Result<Vec<(TimeSeries, Vec<u8>)>> {
            self.connection
                .prepare_cached(
                    "SELECT subject, quantity, series.unit, parquet FROM series
                     JOIN run ON run.id = series.run WHERE run.identity = ? ORDER BY subject, quantity",
                )?
                .query_map([identity], |row| {
                    let series = TimeSeries {
                        subject: row.get(0)?,
                        quantity: row.get(1)?,
                        unit: row.get(2)?,
                        samples: Vec::new(),
                    };
                    Ok((series, row.get(3)?))
                })?
                .collect()
        };
        let mut all = Vec::new();
        for (mut series, file) in list().map_err(|e| self.failed(e))? {
            series.samples = parquet_file::decode(file)
                .map_err(|e| self.damaged(format!("a time series of run {identity}: {e}")))?;
            all.push(series);
        }
        Ok(all)
    }

    /// The time line of a run; empty if it was not requested.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn notes(&self, identity: &str) -> Result<Vec<NoteLine>, StoreError> {
        let list = || -> rusqlite::Result<Vec<_>> {
            self.connection
                .prepare_cached(
                    "SELECT at_ns, subject, text FROM note
                     JOIN run ON run.id = note.run WHERE run.identity = ? ORDER BY line",
                )?
                .query_map([identity], |row| {
                    Ok(NoteLine {
                        at: Instant::from_nanos(unsigned(row, 0)?),
                        subject: row.get(1)?,
                        text: row.get(2)?,
                    })
                })?
                .collect()
        };
        list().map_err(|e| self.failed(e))
    }

    /// Calls `take` with each replication that `which` selects, sorted by experiment, point, replication, and order of
    /// recording.
    fn each_run(
        &self,
        which: &str,
        parameters: impl Params,
        mut take: impl FnMut(ExperimentId, Replication) -> ControlFlow<()>,
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {RUN}, replication.experiment, replication.factors, replication.number, provenance.build,
                    response.name, response.unit, response.value, response.why, response.discarded, response.too_short
             FROM replication JOIN run ON run.id = replication.run
             JOIN provenance ON provenance.id = run.provenance
             LEFT JOIN response ON response.run = run.id
             {which}
             ORDER BY replication.experiment, replication.factors, replication.number, replication.run, response.name"
        ))?;
        let mut rows = statement.query(parameters)?;
        // The rows of a replication are consecutive, one for each response. All replications of a point share the same
        // `Point`.
        let mut last: Option<(i64, ExperimentId, Replication)> = None;
        let mut shared = (String::new(), Point::default());
        while let Some(row) = rows.next()? {
            let (run, experiment) = (row.get(0)?, ExperimentId(row.get(RUN_COLUMNS)?));
            let factors = row.get_ref(RUN_COLUMNS + 1)?.as_str()?;
            let number = row.get(RUN_COLUMNS + 2)?;
            let is_same = |(id, of, replication): &(i64, ExperimentId, Replication)| {
                (*id, *of, replication.number) == (run, experiment, number) && shared.0 == factors
            };
            if !last.as_ref().is_some_and(is_same) {
                if let Some((_, experiment, replication)) = last.take()
                    && take(experiment, replication).is_break()
                {
                    return Ok(());
                }
                if shared.0 != factors {
                    shared = (factors.to_owned(), json(row, RUN_COLUMNS + 1)?);
                }
                let build = row.get(RUN_COLUMNS + 3)?;
                let replication =
                    Replication { point: shared.1.clone(), number, build, run: bare_run(row)?.1 };
                last = Some((run, experiment, replication));
            }
            if let Some((.., replication)) = &mut last
                && let Some((name, response)) = response(row, RUN_COLUMNS + 4)?
            {
                replication.run.responses.insert(name, response);
            }
        }
        if let Some((_, experiment, replication)) = last {
            // This is the last replication, so the result of `take` has no effect.
            let _ = take(experiment, replication);
        }
        Ok(())
    }

    fn with_responses(&self, id: i64, mut run: StoredRun) -> rusqlite::Result<StoredRun> {
        run.responses = self
            .connection
            .prepare_cached(
                "SELECT name, unit, value, why, discarded, too_short FROM response WHERE run = ?",
            )?
            .query_map([id], |row| response(row, 0))?
            .filter_map(Result::transpose)
            .collect::<rusqlite::Result<_>>()?;
        Ok(run)
    }
}

/// Reads the columns of [`RUN`]. Returns the row id and the run without its responses.
fn bare_run(row: &Row<'_>) -> rusqlite::Result<(i64, StoredRun)> {
    let why: Option<String> = row.get(5)?;
    let end = match row.get_ref(4)?.as_str()? {
        "failed" => RunEnd::Failed(why.unwrap_or_default()),
        _ => RunEnd::Finished(RunOutcome {
            balance: Balance {
                offered: unsigned(row, 6)?,
                duplicated: unsigned(row, 7)?,
                delivered: unsigned(row, 8)?,
                dropped: unsigned(row, 9)?,
                inside: unsigned(row, 10)?,
            },
            events: unsigned(row, 11)?,
            lateness: Duration::from_nanos(unsigned(row, 12)?),
            lasted: row.get::<_, Option<i64>>(16)?.map(|ns| Duration::from_nanos(ns.cast_unsigned())),
            invalid: why,
            moved: None,
            remarks: if matches!(row.get_ref(18)?, ValueRef::Null) { Vec::new() } else { json(row, 18)? },
            deterministic: row.get(17)?,
        }),
    };
    let run = StoredRun {
        identity: row.get(1)?,
        substrate: row.get(2)?,
        seed: unsigned(row, 3)?,
        end,
        responses: BTreeMap::new(),
        took: row.get(13)?,
        finished: row.get(14)?,
        provenance: ProvenanceId(row.get(15)?),
    };
    Ok((row.get(0)?, run))
}

/// Reads the responses of a run from rows that are sorted by run, with the run in the first column.
fn responses_of(rows: &mut Rows<'_>, id: i64) -> rusqlite::Result<BTreeMap<String, StoredResponse>> {
    let mut responses = BTreeMap::new();
    while let Some(row) = rows.get() {
        let of: i64 = row.get(0)?;
        if of > id {
            break;
        }
        if of == id {
            responses.extend(response(row, 1)?);
        }
        rows.advance()?;
    }
    Ok(responses)
}

/// Reads a response from the six columns that begin at `first`. `None` if the run has no response.
fn response(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<(String, StoredResponse)>> {
    let Some(name) = row.get(first)? else { return Ok(None) };
    let measured = match row.get(first + 2)? {
        None => MeasuredValue::not(row.get::<_, String>(first + 3)?),
        Some(value) => MeasuredValue::Value { value, warm_up: cut(row, first + 4)? },
    };
    Ok(Some((name, StoredResponse { unit: row.get(first + 1)?, measured })))
}

/// Reads the number of values that MSER-5 removed. `None` if MSER-5 was not requested.
fn cut(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Cut>> {
    let Some(discarded) = row.get::<_, Option<i64>>(first)? else { return Ok(None) };
    let out_of_range = |_| rusqlite::Error::IntegralValueOutOfRange(first, discarded);
    Ok(Some(Cut {
        discarded: usize::try_from(discarded).map_err(out_of_range)?,
        too_short: row.get(first + 1)?,
    }))
}

/// Reads an unsigned number. SQLite stores it as a signed number with the same 64 bits.
fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(e))
    })
}
