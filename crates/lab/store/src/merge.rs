//! Merges the runs of another store.
//!
//! Runs are matched by their identities only, so a merge needs no other state and can be repeated. A valid run is never
//! replaced. A failed or invalid run is replaced by a valid run of the same identity. Two valid runs of one identity
//! must agree to the last bit.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::types::Value;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Rows, Statement, Transaction, TransactionBehavior,
    params_from_iter,
};

use crate::store::log_of;
use crate::{Store, StoreError};

/// Cache of pages while runs are merged, KiB. Identities are random, so an added run may change any page of the index
/// of identities.
const CACHE: i64 = 64 << 10;

/// Longest time to wait for another process when a store is closed.
const CLOSES: Duration = Duration::from_secs(1);

/// The result of [`Store::merge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeOutcome {
    /// Runs that this store did not have.
    pub added: u64,
    /// Runs that replaced a failed or an invalid run of this store.
    pub replaced: u64,
    /// Runs that are valid in both stores and equal.
    pub equal: u64,
    /// Runs that are valid in both stores, on a substrate whose runs do not repeat. This store keeps its own run.
    pub kept: u64,
    /// Failed or invalid runs of the other store for which this store already has a run.
    pub ignored: u64,
    /// Runs that are valid in both stores with different results, at most [`Self::MOST_DIFFERENT`]. If there are any,
    /// nothing was merged.
    pub different: Vec<RunDifference>,
}

impl MergeOutcome {
    /// A merge stops at this number of differences, because two stores that disagree may do so in all of their runs.
    pub const MOST_DIFFERENT: usize = 20;
}

impl std::ops::AddAssign for MergeOutcome {
    fn add_assign(&mut self, other: Self) {
        let Self { added, replaced, equal, kept, ignored, different } = other;
        self.added += added;
        self.replaced += replaced;
        self.equal += equal;
        self.kept += kept;
        self.ignored += ignored;
        self.different.extend(different);
    }
}

/// Two valid runs of the same identity with different results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDifference {
    /// The identity.
    pub identity: String,
    /// The name of the first response, or of the first column of the run, that differs.
    pub what: String,
    /// The value in this store.
    pub here: String,
    /// The value in the other store.
    pub there: String,
}

/// The columns of a run, and whether two runs of one identity must agree in them, if the substrate repeats.
const COLUMNS: [(&str, bool); 18] = [
    ("identity", false),
    ("substrate", false),
    ("seed", false),
    ("status", false),
    ("why", false),
    ("offered", true),
    ("duplicated", true),
    ("delivered", true),
    ("dropped", true),
    ("inside", true),
    ("events", true),
    ("lateness_ns", false),
    ("took_s", false),
    ("finished", false),
    ("provenance", false),
    ("lasted_ns", true),
    ("deterministic", true),
    ("remarks", false),
];
const IDENTITY: usize = index("identity");
const SUBSTRATE: usize = index("substrate");
const STATUS: usize = index("status");
const PROVENANCE: usize = index("provenance");

/// The index of a column in `COLUMNS`. A name that is not there does not compile.
const fn index(name: &str) -> usize {
    let mut index = 0;
    while !COLUMNS[index].0.as_bytes().eq_ignore_ascii_case(name.as_bytes()) {
        index += 1;
    }
    index
}

/// The names of the columns, separated by commas.
fn column_list() -> String {
    COLUMNS.map(|(column, _)| column).join(", ")
}

/// The tables with the parts of a run, and the columns of each table without the row id of the run.
const PARTS: [(&str, &str); 3] = [
    ("response", "name, unit, value, why, discarded, too_short"),
    ("series", "subject, quantity, unit, samples, parquet"),
    ("note", "line, at_ns, subject, text"),
];

/// The index of the responses in `PARTS`.
const RESPONSES: usize = 0;

impl Store {
    /// Adds the runs of another store, in one transaction. A run that is in both stores is compared if `repeats` is
    /// true for its substrate.
    ///
    /// # Errors
    /// If the other store is damaged, or one of the two stores fails. Then nothing is merged.
    pub fn merge(
        &mut self,
        other: &Self,
        repeats: impl Fn(&str) -> bool,
    ) -> Result<MergeOutcome, MergeError> {
        other.check().map_err(MergeError::There)?;
        let _snapshot = other.snapshot().map_err(MergeError::There)?;
        let mut outcome = MergeOutcome::default();
        self.connection
            .pragma_update(None, "cache_size", -CACHE)
            .map_err(|e| MergeError::Here(self.failed(e)))?;
        let here = self.path().to_owned();
        let failed = |error| MergeError::Here(StoreError::new(&here, error));
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        merge(&transaction, &other.connection, &repeats, &mut outcome).map_err(|error| match error {
            // Both stores have the same constraints, so a row that this store refuses is wrong in the other store.
            FailedSide::Here(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                MergeError::There(other.damaged(error.to_string()))
            }
            FailedSide::Here(error) => MergeError::Here(StoreError::new(&here, error)),
            FailedSide::There(error) => MergeError::There(other.failed(error)),
        })?;
        if outcome.different.is_empty() {
            transaction.commit().map_err(failed)?;
        } else {
            drop(transaction);
            outcome = MergeOutcome { different: outcome.different, ..MergeOutcome::default() };
        }
        Ok(outcome)
    }

    /// Closes the store so that its file is complete, without a write-ahead log beside it.
    ///
    /// # Errors
    /// If the log cannot be written back, or another process has the store open.
    pub fn close(self) -> Result<(), StoreError> {
        self.connection.busy_timeout(CLOSES).map_err(|error| self.failed(error))?;
        let mode: String = self
            .connection
            .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))
            .map_err(|error| self.failed(error))?;
        if mode != "delete" {
            return Err(StoreError::Locked(self.path().to_owned()));
        }
        let path = self.path().to_owned();
        self.connection.close().map_err(|(_, error)| StoreError::new(&path, error))
    }

    /// Checks the pages of the file. A truncated file is damaged.
    fn check(&self) -> Result<(), StoreError> {
        let found: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| self.failed(error))?;
        if found != "ok" {
            return Err(self.damaged(found));
        }
        // SQLite reads a truncated last page as a page that ends with zeros.
        let pages = |name| -> Result<u64, StoreError> {
            let value: i64 = self
                .connection
                .pragma_query_value(None, name, |row| row.get(0))
                .map_err(|error| self.failed(error))?;
            Ok(value.cast_unsigned())
        };
        let expected = pages("page_count")? * pages("page_size")?;
        let length = std::fs::metadata(self.path()).map_or(0, |metadata| metadata.len());
        // If the store is still being written, some pages may be in the log only.
        if length < expected && !log_of(self.path()).exists() {
            return Err(self.damaged(format!("it has {length} of {expected} bytes")));
        }
        Ok(())
    }
}

/// Why a merge failed. Nothing was merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// This store cannot be written.
    #[error(transparent)]
    Here(StoreError),
    /// The other store cannot be read.
    #[error(transparent)]
    There(StoreError),
}

/// An error of SQLite, and the store in which it happened.
enum FailedSide {
    Here(rusqlite::Error),
    There(rusqlite::Error),
}

/// Maps row ids of the other store to row ids of this store.
type RowIds = BTreeMap<i64, i64>;

fn merge(
    to: &Transaction<'_>,
    from: &Connection,
    repeats: &dyn Fn(&str) -> bool,
    outcome: &mut MergeOutcome,
) -> Result<(), FailedSide> {
    let mut statements = Vec::new();
    for (table, columns) in PARTS {
        let key = columns.split(',').next().unwrap_or_default();
        let read = format!("SELECT run, {columns} FROM {table} ORDER BY run, {key}");
        statements.push(from.prepare(&read).map_err(FailedSide::There)?);
    }
    let mut parts = Vec::new();
    for (statement, (table, columns)) in statements.iter_mut().zip(PARTS) {
        parts.push(PartTable::new(to, statement, table, columns)?);
    }
    let columns = column_list();
    let here = |sql: String| to.prepare(&sql).map_err(FailedSide::Here);
    let set = COLUMNS.map(|(column, _)| format!("{column} = ?")).join(", ");
    let merging = MergeInProgress {
        find: here(format!("SELECT id, {columns} FROM run WHERE identity = ?"))?,
        insert: here(format!("INSERT INTO run ({columns}) VALUES (?{})", ", ?".repeat(COLUMNS.len() - 1)))?,
        update: here(format!("UPDATE run SET {set} WHERE id = ?"))?,
        to,
        from,
        parts,
        outcome,
        repeats,
    };
    merging.merge()
}

/// A merge in progress.
struct MergeInProgress<'a> {
    to: &'a Transaction<'a>,
    from: &'a Connection,
    find: Statement<'a>,
    insert: Statement<'a>,
    update: Statement<'a>,
    parts: Vec<PartTable<'a>>,
    outcome: &'a mut MergeOutcome,
    repeats: &'a dyn Fn(&str) -> bool,
}

/// A table with parts of runs: a cursor over the rows of the other store, sorted by run, and the statements for this
/// store.
struct PartTable<'a> {
    rows: Rows<'a>,
    /// The number of columns without the row id of the run.
    columns: usize,
    mine: Statement<'a>,
    delete: Statement<'a>,
    insert: Statement<'a>,
}

impl<'a> PartTable<'a> {
    fn new(
        to: &'a Transaction<'_>,
        theirs: &'a mut Statement<'_>,
        table: &str,
        columns: &str,
    ) -> Result<Self, FailedSide> {
        let count = columns.split(',').count();
        let here = |sql: String| to.prepare(&sql).map_err(FailedSide::Here);
        let mut rows = theirs.query([]).map_err(FailedSide::There)?;
        rows.advance().map_err(FailedSide::There)?;
        Ok(Self {
            rows,
            columns: count,
            mine: here(format!("SELECT run, {columns} FROM {table} WHERE run = ? ORDER BY 2, 3"))?,
            delete: here(format!("DELETE FROM {table} WHERE run = ?"))?,
            insert: here(format!("INSERT INTO {table} (run, {columns}) VALUES (?{})", ", ?".repeat(count)))?,
        })
    }

    /// The parts of the run with this row id in the other store. Calls must be in the order of row ids.
    fn theirs(&mut self, run: i64) -> rusqlite::Result<Vec<Vec<Value>>> {
        let mut found = Vec::new();
        while let Some(row) = self.rows.get() {
            let of: i64 = row.get(0)?;
            if of > run {
                break;
            }
            if of == run {
                found.push((1..=self.columns).map(|column| row.get(column)).collect::<Result<_, _>>()?);
            }
            self.rows.advance()?;
        }
        Ok(found)
    }

    /// The parts of the run with this row id in this store.
    fn mine(&mut self, run: i64) -> rusqlite::Result<Vec<Vec<Value>>> {
        let columns = self.columns;
        self.mine.query_map([run], |row| (1..=columns).map(|column| row.get(column)).collect())?.collect()
    }
}

impl MergeInProgress<'_> {
    fn merge(mut self) -> Result<(), FailedSide> {
        let provenances = self.shared(
            "SELECT id, digest, build, os, kernel, cpu, cpus, host, settings, first_seen FROM provenance",
            "INSERT OR IGNORE INTO provenance (digest, build, os, kernel, cpu, cpus, host, settings, first_seen)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            "SELECT id FROM provenance WHERE digest = ?1",
        )?;
        let experiments = self.shared(
            "SELECT id, name, digest, file, added FROM experiment ORDER BY id",
            "INSERT OR IGNORE INTO experiment (name, digest, file, added) VALUES (?, ?, ?, ?)",
            "SELECT id FROM experiment WHERE name = ?1 AND digest = ?2",
        )?;
        let runs = self.runs(&provenances)?;
        self.replications(&experiments, &runs)
    }

    /// Copies rows that both stores may have. The first column of `read` is the row id. `find` finds a copied row by
    /// the columns after the row id.
    fn shared(&self, read: &str, write: &str, find: &str) -> Result<RowIds, FailedSide> {
        let mut ids = RowIds::new();
        let mut read = self.from.prepare(read).map_err(FailedSide::There)?;
        let columns = read.column_count();
        let mut rows = read.query([]).map_err(FailedSide::There)?;
        while let Some(row) = rows.next().map_err(FailedSide::There)? {
            let id: i64 = row.get(0).map_err(FailedSide::There)?;
            let values = (1..columns).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>();
            let values = values.map_err(FailedSide::There)?;
            let put = || -> rusqlite::Result<i64> {
                self.to.prepare_cached(write)?.execute(params_from_iter(&values))?;
                let mut find = self.to.prepare_cached(find)?;
                let keys = find.parameter_count();
                find.query_row(params_from_iter(&values[..keys]), |row| row.get(0))
            };
            ids.insert(id, put().map_err(FailedSide::Here)?);
        }
        Ok(ids)
    }

    fn runs(&mut self, provenances: &RowIds) -> Result<RowIds, FailedSide> {
        let mut ids = RowIds::new();
        let columns = column_list();
        let mut read = self
            .from
            .prepare(&format!("SELECT id, {columns} FROM run ORDER BY id"))
            .map_err(FailedSide::There)?;
        let mut rows = read.query([]).map_err(FailedSide::There)?;
        while let Some(row) = rows.next().map_err(FailedSide::There)? {
            let id: i64 = row.get(0).map_err(FailedSide::There)?;
            let values = (1..=COLUMNS.len()).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>();
            let mut values = values.map_err(FailedSide::There)?;
            if let Value::Integer(theirs) = values[PROVENANCE] {
                values[PROVENANCE] = provenances.get(&theirs).copied().into();
            }
            ids.insert(id, self.run(id, &values)?);
            if self.outcome.different.len() == MergeOutcome::MOST_DIFFERENT {
                break;
            }
        }
        Ok(ids)
    }

    /// Merges a run. Returns its row id in this store.
    fn run(&mut self, there: i64, values: &[Value]) -> Result<i64, FailedSide> {
        let mine = self
            .find
            .query_row([&values[IDENTITY]], |row| {
                let mine = (1..=COLUMNS.len()).map(|column| row.get(column));
                Ok((row.get(0)?, mine.collect::<rusqlite::Result<Vec<Value>>>()?))
            })
            .optional()
            .map_err(FailedSide::Here)?;
        let is_valid = |values: &[Value]| values[STATUS] == Value::Text("ok".to_owned());
        let Some((here, mine)) = mine else {
            self.insert.execute(params_from_iter(values)).map_err(FailedSide::Here)?;
            let here = self.to.last_insert_rowid();
            self.copy_parts(there, here)?;
            self.outcome.added += 1;
            return Ok(here);
        };
        match (is_valid(&mine), is_valid(values)) {
            (true, true) => self.compare(there, here, &mine, values)?,
            (false, true) => {
                let id = Value::Integer(here);
                let values = values.iter().chain([&id]);
                self.update.execute(params_from_iter(values)).map_err(FailedSide::Here)?;
                for part in &mut self.parts {
                    part.delete.execute([here]).map_err(FailedSide::Here)?;
                }
                self.copy_parts(there, here)?;
                self.outcome.replaced += 1;
            }
            (_, false) => self.outcome.ignored += 1,
        }
        Ok(here)
    }

    /// Copies the responses, series and notes of a run.
    fn copy_parts(&mut self, there: i64, here: i64) -> Result<(), FailedSide> {
        for part in &mut self.parts {
            for values in part.theirs(there).map_err(FailedSide::There)? {
                let values = [Value::Integer(here)].into_iter().chain(values);
                part.insert.execute(params_from_iter(values)).map_err(FailedSide::Here)?;
            }
        }
        Ok(())
    }

    /// Compares two valid runs of the same identity.
    fn compare(&mut self, there: i64, here: i64, mine: &[Value], theirs: &[Value]) -> Result<(), FailedSide> {
        if matches!(&mine[SUBSTRATE], Value::Text(substrate) if !(self.repeats)(substrate)) {
            self.outcome.kept += 1;
            return Ok(());
        }
        let responses = &mut self.parts[RESPONSES];
        let my_responses = responses.mine(here).map_err(FailedSide::Here)?;
        let their_responses = responses.theirs(there).map_err(FailedSide::There)?;
        let differs = |column: &usize| COLUMNS[*column].1 && mine[*column] != theirs[*column];
        let column = (0..COLUMNS.len()).find(differs);
        let difference = column
            .map(|column| (COLUMNS[column].0.to_owned(), mine[column].clone(), theirs[column].clone()))
            .or_else(|| first_difference(&my_responses, &their_responses));
        match difference {
            None => self.outcome.equal += 1,
            Some((what, here, there)) => self.outcome.different.push(RunDifference {
                identity: shown(&mine[IDENTITY]),
                what,
                here: shown(&here),
                there: shown(&there),
            }),
        }
        Ok(())
    }

    fn replications(&self, experiments: &RowIds, runs: &RowIds) -> Result<(), FailedSide> {
        let mut read = self
            .from
            .prepare("SELECT experiment, factors, number, run FROM replication ORDER BY experiment, factors, number, run")
            .map_err(FailedSide::There)?;
        let mut rows = read.query([]).map_err(FailedSide::There)?;
        let mut put = self
            .to
            .prepare_cached(
                "INSERT OR IGNORE INTO replication (experiment, factors, number, run) VALUES (?, ?, ?, ?)",
            )
            .map_err(FailedSide::Here)?;
        while let Some(row) = rows.next().map_err(FailedSide::There)? {
            let read = || -> rusqlite::Result<(i64, Value, Value, i64)> {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            };
            let (experiment, factors, number, run) = read().map_err(FailedSide::There)?;
            // If runs differ, the merge stopped before it reached the remaining runs.
            let (Some(experiment), Some(run)) = (experiments.get(&experiment), runs.get(&run)) else {
                continue;
            };
            put.execute((experiment, factors, number, run)).map_err(FailedSide::Here)?;
        }
        Ok(())
    }
}

/// The first response that differs, with its values in this and in the other store. Values are compared to the last
/// bit.
fn first_difference(mine: &[Vec<Value>], theirs: &[Vec<Value>]) -> Option<(String, Value, Value)> {
    let name = |row: &Vec<Value>| shown(&row[0]);
    let theirs: BTreeMap<String, &Vec<Value>> = theirs.iter().map(|row| (name(row), row)).collect();
    let mine: BTreeMap<String, &Vec<Value>> = mine.iter().map(|row| (name(row), row)).collect();
    let names = mine.keys().chain(theirs.keys().filter(|name| !mine.contains_key(*name)));
    for name in names {
        let (Some(here), Some(there)) = (mine.get(name), theirs.get(name)) else {
            let is_there = |row: Option<&&Vec<Value>>| {
                Value::Text(if row.is_some() { "measured" } else { "not there" }.to_owned())
            };
            return Some((name.clone(), is_there(mine.get(name)), is_there(theirs.get(name))));
        };
        if let Some((here, there)) = here.iter().zip(there.iter()).find(|(here, there)| !is_same(here, there))
        {
            return Some((name.clone(), here.clone(), there.clone()));
        }
    }
    None
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Real(one), Value::Real(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_copies_every_column() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("netrig.db")).unwrap();
        let columns = |table: &str| -> Vec<String> {
            let mut read = store.connection.prepare("SELECT name FROM pragma_table_info(?)").unwrap();
            let names =
                read.query_map([table], |row| row.get(0)).unwrap().collect::<Result<Vec<String>, _>>();
            names.unwrap().into_iter().filter(|name| !["id", "run"].contains(&name.as_str())).collect()
        };
        assert_eq!(columns("run").join(", "), column_list());
        for (table, list) in PARTS {
            assert_eq!(columns(table).join(", "), list, "{table}");
        }
    }
}
