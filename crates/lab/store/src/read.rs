//! Queries of the store.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Duration, Instant};
use netrig_experiment::{Balance, Cut, MeasuredValue, Point, RunOutcome};
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row};
use serde::de::DeserializeOwned;

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
    /// Time at which it was added: UTC, `2026-11-21T08:00:00Z`.
    pub added: String,
    /// Number of its runs in the store, of all builds and substrates.
    pub runs: u64,
}

/// One replication of one point of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Replication {
    /// The level of every factor.
    pub point: Point,
    /// The number of the replication, from 1.
    pub number: u32,
    /// Version and commit of netrig that made it.
    pub build: String,
    /// The run.
    pub run: StoredRun,
}

/// The columns that [`bare_run`] reads, in this order.
const RUN: &str = "run.id, run.identity, run.substrate, run.seed, run.status, run.why, run.offered, \
                   run.duplicated, run.delivered, run.dropped, run.inside, run.events, run.lateness_ns, \
                   run.took_s, run.finished, run.provenance, run.lasted_ns, \
                   run.deterministic, run.remarks";
const RUN_COLUMNS: usize = 19;

impl Store {
    /// Every version of every experiment file, in the order of their addition.
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

    /// The sum of the durations of all runs, s of wall clock.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn time_spent(&self) -> Result<f64, StoreError> {
        let sum = self.connection.query_row("SELECT total(took_s) FROM run", [], |row| row.get(0));
        sum.map_err(|e| self.failed(e))
    }

    /// The mean duration of the valid runs of each point of an experiment on a substrate by a build, s of wall clock.
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

    /// All replications of an experiment, sorted by substrate, point, replication, and order of recording.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn replications(&self, experiment: ExperimentId) -> Result<Vec<Replication>, StoreError> {
        self.first_replications(experiment, u32::MAX)
    }

    /// The first `most` replications of [`Store::replications`].
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn first_replications(
        &self,
        experiment: ExperimentId,
        most: u32,
    ) -> Result<Vec<Replication>, StoreError> {
        let list = || -> rusqlite::Result<Vec<_>> {
            let sql = replications(
                "WHERE replication.experiment = ?
                 ORDER BY run.substrate, replication.factors, replication.number, run.id LIMIT ?",
            );
            let mut statement = self.connection.prepare_cached(&sql)?;
            let mut rows = statement.query((experiment.0, most))?;
            let mut list = Vec::new();
            while let Some(row) = rows.next()? {
                list.push(self.with_point(row)?);
            }
            Ok(list)
        };
        list().map_err(|e| self.failed(e))
    }

    /// The builds of netrig that made the runs of an experiment.
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

    /// The run whose identity has this prefix, as a replication of the last experiment with it.
    ///
    /// # Errors
    /// [`StoreError::NoSuchRun`], [`StoreError::SeveralRuns`]; or if the store cannot be read.
    pub fn replication(&self, identity: &str) -> Result<(ExperimentId, Replication), StoreError> {
        let list = || -> rusqlite::Result<Vec<_>> {
            let sql = replications(
                "WHERE substr(run.identity, 1, length(?1)) = ?1
                 ORDER BY replication.experiment, replication.factors, replication.number, run.id",
            );
            let mut statement = self.connection.prepare_cached(&sql)?;
            let mut rows = statement.query([identity])?;
            let mut list = Vec::new();
            while let Some(row) = rows.next()? {
                list.push((ExperimentId(row.get(RUN_COLUMNS + 3)?), self.with_point(row)?));
            }
            Ok(list)
        };
        let mut found = list().map_err(|e| self.failed(e))?;
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

    /// Reads a row of [`replications`].
    fn with_point(&self, row: &Row<'_>) -> rusqlite::Result<Replication> {
        let (id, run) = bare_run(row)?;
        Ok(Replication {
            point: json(row, RUN_COLUMNS)?,
            number: row.get(RUN_COLUMNS + 1)?,
            build: row.get(RUN_COLUMNS + 2)?,
            run: self.with_responses(id, run)?,
        })
    }

    fn with_responses(&self, id: i64, mut run: StoredRun) -> rusqlite::Result<StoredRun> {
        run.responses = self
            .connection
            .prepare_cached(
                "SELECT name, unit, value, why, discarded, too_short FROM response WHERE run = ?",
            )?
            .query_map([id], |row| {
                Ok((row.get(0)?, StoredResponse { unit: row.get(1)?, measured: measured(row)? }))
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(run)
    }
}

/// A query for the columns of [`RUN`], then point, number, build and experiment of replications. `which` selects and sorts.
fn replications(which: &str) -> String {
    format!(
        "SELECT {RUN}, replication.factors, replication.number, provenance.build, replication.experiment
         FROM replication JOIN run ON run.id = replication.run
         JOIN provenance ON provenance.id = run.provenance
         {which}"
    )
}

/// Reads the columns of [`RUN`]: the run's row id, and the run without its responses.
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

/// Reads columns 2 to 5 of a response.
fn measured(row: &Row<'_>) -> rusqlite::Result<MeasuredValue> {
    let Some(value) = row.get(2)? else { return Ok(MeasuredValue::NotMeasured(row.get(3)?)) };
    let warm_up = match row.get::<_, Option<i64>>(4)? {
        Some(discarded) => Some(Cut {
            discarded: usize::try_from(discarded)
                .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(4, discarded))?,
            too_short: row.get(5)?,
        }),
        None => None,
    };
    Ok(MeasuredValue::Value { value, warm_up })
}

/// Reads an unsigned number, which SQLite stores as a signed one with the same 64 bits.
fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(e))
    })
}
