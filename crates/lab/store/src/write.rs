//! What goes in.

use netrig_experiment::{MeasuredValue, Point, RunOutcome};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params, params};

use crate::provenance::digest;
use crate::{End, Entry, Response, Series, Store, StoreError, parquet_file};

/// An experiment file in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExperimentId(pub(crate) i64);

/// A run of the store that is also a replication of a point of another experiment, or of another point.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Every factor with its level.
    pub point: &'a Point,
    /// From 1.
    pub replication: u32,
    /// The run.
    pub identity: &'a str,
}

/// What became of a run that was handed to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is in the store now.
    Stored,
    /// Another process had recorded a valid run of the same identity before; that one stays, and this
    /// one's values are forgotten.
    AlreadyThere,
}

impl Store {
    /// Keeps an experiment file; the same text under the same name is kept once.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn add_experiment(&mut self, name: &str, file: &str) -> Result<ExperimentId, StoreError> {
        let digest = digest(file);
        self.connection
            .execute(
                "INSERT OR IGNORE INTO experiment (name, digest, file) VALUES (?, ?, ?)",
                [name, &digest, file],
            )
            .and_then(|_| {
                self.connection.query_row(
                    "SELECT id FROM experiment WHERE name = ? AND digest = ?",
                    [name, &digest],
                    |row| row.get(0),
                )
            })
            .map(ExperimentId)
            .map_err(|e| self.failed(e))
    }

    /// Records a run: all of it or, on an error, nothing. Once this returns, the run survives the end of
    /// this process.
    ///
    /// A valid run is never replaced. One that failed or was invalid gives way to the next attempt.
    ///
    /// # Errors
    /// If the store cannot be written ([`StoreError::Full`], [`StoreError::Locked`], ..), or a time series
    /// has no Parquet form.
    pub fn record(&mut self, entry: &Entry) -> Result<Recorded, StoreError> {
        let series = entry.series.iter().map(|s| Ok((s, parquet_file::encode(s)?)));
        let series: Vec<(&Series, Vec<u8>)> = series.collect::<Result<_, StoreError>>()?;
        record(&mut self.connection, entry, &series).map_err(|e| self.failed(e))
    }

    /// Says that runs of the store are replications of points of `experiment` too.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn enrol<'a>(
        &mut self,
        experiment: ExperimentId,
        members: impl IntoIterator<Item = Member<'a>>,
    ) -> Result<(), StoreError> {
        let enrolled = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for member in members {
                let id: Option<i64> = transaction
                    .prepare_cached("SELECT id FROM run WHERE identity = ?")?
                    .query_row([member.identity], |row| row.get(0))
                    .optional()?;
                if let Some(id) = id {
                    enrol(&transaction, experiment, member.point, member.replication, id)?;
                }
            }
            transaction.commit()
        })();
        enrolled.map_err(|e| self.failed(e))
    }
}

fn record(
    connection: &mut Connection,
    entry: &Entry,
    series: &[(&Series, Vec<u8>)],
) -> rusqlite::Result<Recorded> {
    // Immediate: two processes that record at the same moment queue up here, where SQLite waits, and not at
    // the commit, where it would give up.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (id, recorded) = match put_run(&transaction, entry)? {
        Some(id) => {
            put_parts(&transaction, id, entry, series)?;
            (id, Recorded::Stored)
        }
        None => {
            let id = transaction
                .prepare_cached("SELECT id FROM run WHERE identity = ?")?
                .query_row([&entry.identity], |row| row.get(0))?;
            (id, Recorded::AlreadyThere)
        }
    };
    enrol(&transaction, entry.experiment, &entry.point, entry.replication, id)?;
    transaction.commit()?;
    Ok(recorded)
}

/// The run's place, unless a valid run of its identity is there already.
fn put_run(connection: &Connection, entry: &Entry) -> rusqlite::Result<Option<i64>> {
    let outcome = match &entry.end {
        End::Finished(outcome) => Some(outcome),
        End::Failed(_) => None,
    };
    let status = match (outcome, entry.end.is_valid()) {
        (None, _) => "failed",
        (Some(_), true) => "ok",
        (Some(_), false) => "invalid",
    };
    let balance = outcome.map(|o| o.balance);
    connection
        .prepare_cached(
            "INSERT INTO run (identity, substrate, seed, status, why, offered, duplicated, delivered, dropped,
                              inside, events, lateness_ns, lasted_ns, took_s, provenance, deterministic,
                              remarks)
             VALUES (:identity, :substrate, :seed, :status, :why, :offered, :duplicated, :delivered, :dropped,
                     :inside, :events, :lateness_ns, :lasted_ns, :took_s, :provenance, :deterministic,
                     :remarks)
             ON CONFLICT (identity) DO UPDATE SET
                 status = excluded.status, why = excluded.why, offered = excluded.offered,
                 duplicated = excluded.duplicated, delivered = excluded.delivered,
                 dropped = excluded.dropped, inside = excluded.inside, events = excluded.events,
                 lateness_ns = excluded.lateness_ns, lasted_ns = excluded.lasted_ns, took_s = excluded.took_s,
                 finished = excluded.finished, provenance = excluded.provenance,
                 deterministic = excluded.deterministic, remarks = excluded.remarks
             WHERE run.status <> 'ok'
             RETURNING id",
        )?
        .query_row(
            named_params! {
                ":identity": entry.identity,
                ":substrate": entry.substrate,
                ":seed": entry.seed.cast_signed(),
                ":status": status,
                ":why": entry.end.why(),
                ":offered": balance.map(|b| b.offered.cast_signed()),
                ":duplicated": balance.map(|b| b.duplicated.cast_signed()),
                ":delivered": balance.map(|b| b.delivered.cast_signed()),
                ":dropped": balance.map(|b| b.dropped.cast_signed()),
                ":inside": balance.map(|b| b.inside.cast_signed()),
                ":events": outcome.map(|o| o.events.cast_signed()),
                ":lateness_ns": outcome.map(|o| o.lateness.as_nanos().cast_signed()),
                ":lasted_ns": outcome.and_then(|o| o.lasted).map(|end| end.as_nanos().cast_signed()),
                ":took_s": entry.took,
                ":provenance": entry.provenance.0,
                ":deterministic": outcome.is_some_and(|o| o.deterministic),
                ":remarks": outcome.and_then(remarks),
            },
            |row| row.get(0),
        )
        .optional()
}

/// What stands beside the figures of a run as the JSON that stands in the store, if anything does.
fn remarks(outcome: &RunOutcome) -> Option<String> {
    let remarks = &outcome.remarks;
    (!remarks.is_empty()).then(|| serde_json::to_string(remarks).expect("sentences always have a JSON form"))
}

/// What belongs to a run, in place of what an earlier attempt may have left.
fn put_parts(
    connection: &Connection,
    run: i64,
    entry: &Entry,
    series: &[(&Series, Vec<u8>)],
) -> rusqlite::Result<()> {
    for table in ["response", "series", "note"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?"))?.execute([run])?;
    }
    let mut put = connection.prepare_cached(
        "INSERT INTO response (run, name, unit, value, why, discarded, too_short) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for (name, Response { unit, measured }) in &entry.responses {
        let (value, why, cut) = match measured {
            MeasuredValue::Value { value, warm_up } => (Some(*value), None, *warm_up),
            MeasuredValue::NotMeasured(why) => (None, Some(why), None),
        };
        let discarded = cut.map(|cut| cut.discarded as i64);
        put.execute(params![run, name, unit, value, why, discarded, cut.map(|cut| cut.too_short)])?;
    }
    let mut put = connection.prepare_cached(
        "INSERT INTO series (run, subject, quantity, unit, samples, parquet) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    for (series, file) in series {
        put.execute(params![
            run,
            series.subject,
            series.quantity,
            series.unit,
            series.samples.len() as i64,
            file
        ])?;
    }
    let mut put = connection
        .prepare_cached("INSERT INTO note (run, line, at_ns, subject, text) VALUES (?, ?, ?, ?, ?)")?;
    for (line, note) in entry.notes.iter().enumerate() {
        put.execute(params![run, line as i64, note.at.as_nanos().cast_signed(), note.subject, note.text])?;
    }
    Ok(())
}

fn enrol(
    connection: &Connection,
    experiment: ExperimentId,
    point: &Point,
    replication: u32,
    run: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO replication (experiment, factors, number, run) VALUES (?, ?, ?, ?)",
        )?
        .execute(params![experiment.0, factors(point), replication, run])
        .map(drop)
}

/// The levels as the JSON object that stands in the store: the factors in the order of their names.
fn factors(point: &Point) -> String {
    serde_json::to_string(point).expect("a map of strings always has a JSON form")
}
