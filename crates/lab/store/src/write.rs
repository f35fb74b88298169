//! Records experiments and runs.

use netrig_experiment::{MeasuredValue, Point, RunOutcome};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, named_params, params};

use crate::provenance::digest;
use crate::{ExperimentId, RunEnd, RunEntry, Store, StoreError, StoredResponse, TimeSeries, parquet_file};

/// An existing run that is added as a replication of another experiment or of another point.
#[derive(Clone, Debug)]
pub struct Enrolment<'a> {
    /// The level of every factor.
    pub point: Point,
    /// The number of the replication, from 1.
    pub replication: u32,
    /// The identity of the run.
    pub identity: &'a str,
}

/// The result of [`Store::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOutcome {
    /// The run is in the store now.
    Stored,
    /// The store already had a valid run of this identity, from another process. The store keeps that run and discards
    /// the values of the new run.
    AlreadyThere,
}

impl Store {
    /// Adds an experiment file. The same text under the same name is stored once.
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

    /// Records a run in one transaction. After the function returns, the run remains recorded even if this process
    /// ends.
    ///
    /// A valid run is never replaced. A failed or invalid run is replaced by the next attempt.
    ///
    /// # Errors
    /// If the store cannot be written ([`StoreError::Full`], [`StoreError::Locked`], ..), or a time series
    /// cannot be encoded as Parquet.
    pub fn record(&mut self, entry: &RunEntry) -> Result<RecordOutcome, StoreError> {
        let series = entry.series.iter().map(|s| Ok((s, parquet_file::encode(s)?)));
        let series: Vec<(&TimeSeries, Vec<u8>)> = series.collect::<Result<_, StoreError>>()?;
        record(&mut self.connection, entry, &series).map_err(|e| self.failed(e))
    }

    /// Adds existing runs as replications of points of `experiment`. Unknown identities are ignored.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn enrol<'a>(
        &mut self,
        experiment: ExperimentId,
        members: impl IntoIterator<Item = Enrolment<'a>>,
    ) -> Result<(), StoreError> {
        let enrolled = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for member in members {
                let id: Option<i64> = transaction
                    .prepare_cached("SELECT id FROM run WHERE identity = ?")?
                    .query_row([member.identity], |row| row.get(0))
                    .optional()?;
                if let Some(id) = id {
                    enrol(&transaction, experiment, &member.point, member.replication, id)?;
                }
            }
            transaction.commit()
        })();
        enrolled.map_err(|e| self.failed(e))
    }
}

fn record(
    connection: &mut Connection,
    entry: &RunEntry,
    series: &[(&TimeSeries, Vec<u8>)],
) -> rusqlite::Result<RecordOutcome> {
    // Immediate: if two processes record at the same time, one waits here for the other. At the commit SQLite would
    // fail instead of waiting.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (id, recorded) = match put_run(&transaction, entry)? {
        Some(id) => {
            put_parts(&transaction, id, entry, series)?;
            (id, RecordOutcome::Stored)
        }
        None => {
            let id = transaction
                .prepare_cached("SELECT id FROM run WHERE identity = ?")?
                .query_row([&entry.identity], |row| row.get(0))?;
            (id, RecordOutcome::AlreadyThere)
        }
    };
    enrol(&transaction, entry.experiment, &entry.point, entry.replication, id)?;
    transaction.commit()?;
    Ok(recorded)
}

/// Inserts or replaces the run. Returns its row id, or `None` if a valid run of this identity exists.
fn put_run(connection: &Connection, entry: &RunEntry) -> rusqlite::Result<Option<i64>> {
    let outcome = match &entry.end {
        RunEnd::Finished(outcome) => Some(outcome),
        RunEnd::Failed(_) => None,
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

/// The remarks of a run as JSON for the store; `None` if there are none.
fn remarks(outcome: &RunOutcome) -> Option<String> {
    let remarks = &outcome.remarks;
    (!remarks.is_empty()).then(|| serde_json::to_string(remarks).expect("sentences always have a JSON form"))
}

/// Replaces the responses, series and notes of a run. An earlier attempt may have left some.
fn put_parts(
    connection: &Connection,
    run: i64,
    entry: &RunEntry,
    series: &[(&TimeSeries, Vec<u8>)],
) -> rusqlite::Result<()> {
    for table in ["response", "series", "note"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?"))?.execute([run])?;
    }
    let mut put = connection.prepare_cached(
        "INSERT INTO response (run, name, unit, value, why, discarded, too_short) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for (name, StoredResponse { unit, measured }) in &entry.responses {
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

/// The levels as a JSON object, as the store keeps it, sorted by the names of the factors.
pub(crate) fn factors(point: &Point) -> String {
    serde_json::to_string(point).expect("a map of strings always has a JSON form")
}
