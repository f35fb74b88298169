//! Merges the runs of another store.
//!
//! Runs are matched by their identities only, so a merge needs no other state and can be repeated. A valid run is never
//! replaced. A failed or invalid run is replaced by a valid run of the same identity. Two valid runs of one identity
//! must agree to the last bit.
//!
//! The other store is attached to the connection of this store, so that rows are copied and compared within SQLite.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use crate::store::log_of;
use crate::{Store, StoreError};

/// Cache of pages while runs are merged, KiB. Identities are random, so an added run may change any page of the index
/// of identities.
const CACHE: i64 = 128 << 10;

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
/// The names of the columns, separated by commas.
fn column_list() -> String {
    COLUMNS.map(|(column, _)| column).join(", ")
}

/// The columns of a response, without the row id of its run.
const RESPONSE: &str = "name, unit, value, why, discarded, too_short";

/// The tables with the parts of a run, and the columns of each table without the row id of the run.
const PARTS: [(&str, &str); 3] = [
    ("response", RESPONSE),
    ("series", "subject, quantity, unit, samples, parquet"),
    ("note", "line, at_ns, subject, text"),
];

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
        let here = self.path().to_owned();
        let failed = |error| MergeError::Here(StoreError::new(&here, error));
        self.connection.pragma_update(None, "cache_size", -CACHE).map_err(failed)?;
        self.connection.pragma_update(None, "temp_store", "MEMORY").map_err(failed)?;
        self.connection
            .execute("ATTACH ? AS theirs", [other.address()])
            .map_err(|error| MergeError::There(other.failed(error)))?;
        let merged = self.merge_attached(other, &repeats);
        self.connection.execute_batch("DETACH theirs; PRAGMA foreign_keys = on").map_err(failed)?;
        merged
    }

    /// Adds the runs of `other`, which is attached as `theirs`.
    fn merge_attached(
        &mut self,
        other: &Self,
        repeats: &dyn Fn(&str) -> bool,
    ) -> Result<MergeOutcome, MergeError> {
        let here = self.path().to_owned();
        let failed = |error| MergeError::Here(StoreError::new(&here, error));
        // The merge itself finds the rows to which references refer.
        self.connection.pragma_update(None, "foreign_keys", false).map_err(failed)?;
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let outcome = merge(&transaction, repeats).map_err(|error| match error.sqlite_error_code() {
            // Both stores have the same constraints, so a row that this store refuses is wrong in the other store.
            Some(ErrorCode::ConstraintViolation) => MergeError::There(other.damaged(error.to_string())),
            _ => match other.check() {
                Ok(()) => failed(error),
                Err(damage) => MergeError::There(damage),
            },
        })?;
        if !outcome.different.is_empty() {
            return Ok(MergeOutcome { different: outcome.different, ..MergeOutcome::default() });
        }
        transaction.commit().map_err(failed)?;
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

/// Maps the row ids of runs, provenances and experiments that both stores have from the other store to this store.
const MAPS: &str = "
    CREATE TEMP TABLE provenance_map (there INTEGER PRIMARY KEY, here INTEGER NOT NULL);
    CREATE TEMP TABLE experiment_map (there INTEGER PRIMARY KEY, here INTEGER NOT NULL);
    CREATE TEMP TABLE run_map (there INTEGER PRIMARY KEY, here INTEGER NOT NULL)";

const UNMAPS: &str = "DROP TABLE provenance_map; DROP TABLE experiment_map; DROP TABLE run_map";

/// Adds the rows of provenances and experiments that only the other store has, and fills their maps.
const SHARED: &str = "
    INSERT OR IGNORE INTO main.provenance (digest, build, os, kernel, cpu, cpus, host, settings, first_seen)
        SELECT digest, build, os, kernel, cpu, cpus, host, settings, first_seen FROM theirs.provenance ORDER BY id;
    INSERT INTO provenance_map
        SELECT b.id, a.id FROM theirs.provenance AS b JOIN main.provenance AS a USING (digest);
    INSERT OR IGNORE INTO main.experiment (name, digest, file, added)
        SELECT name, digest, file, added FROM theirs.experiment ORDER BY id;
    INSERT INTO experiment_map
        SELECT b.id, a.id FROM theirs.experiment AS b JOIN main.experiment AS a USING (name, digest)";

/// Adds the replications of the other store. ?1 is the offset of the row ids of new runs.
const REPLICATIONS: &str = "
    INSERT OR IGNORE INTO main.replication (experiment, factors, number, run)
    SELECT experiment_map.here, factors, number, coalesce(run_map.here, new.id)
    FROM theirs.replication AS b
    JOIN experiment_map ON experiment_map.there = b.experiment
    LEFT JOIN run_map ON run_map.there = b.run
    LEFT JOIN main.run AS new ON new.id = b.run + ?1
    WHERE coalesce(run_map.here, new.id) IS NOT NULL
    ORDER BY b.experiment, b.factors, b.number, b.run";

/// Merges the store that is attached as `theirs` into `main`.
fn merge(to: &Transaction<'_>, repeats: &dyn Fn(&str) -> bool) -> rusqlite::Result<MergeOutcome> {
    let number = |query: &str| to.query_row(query, [], |row| row.get::<_, i64>(0));
    to.execute_batch(MAPS)?;
    to.execute_batch(SHARED)?;
    // A run that only the other store has gets its row id there plus this offset.
    let offset = number("SELECT max(0, coalesce(max(id), 0)) FROM main.run")?;
    let (runs, columns) = (number("SELECT count(*) FROM theirs.run WHERE id > 0")?, column_list());
    let values = columns.replace("provenance", "provenance_map.here");
    let added = to.execute(
        &format!(
            "INSERT INTO main.run (id, {columns}) SELECT b.id + ?1, {values} FROM theirs.run AS b
             LEFT JOIN provenance_map ON provenance_map.there = b.provenance
             WHERE b.id > 0 ORDER BY b.id ON CONFLICT (identity) DO NOTHING"
        ),
        [offset],
    )?;
    for (table, columns) in PARTS {
        to.execute(
            &format!(
                "INSERT INTO main.{table} (run, {columns}) SELECT run + ?1, {columns} FROM theirs.{table} AS b
                 WHERE b.run > 0 AND EXISTS (SELECT 1 FROM main.run WHERE id = b.run + ?1)"
            ),
            [offset],
        )?;
    }
    let mut outcome = MergeOutcome { added: added as u64, ..MergeOutcome::default() };
    if outcome.added < runs.cast_unsigned() {
        to.execute(
            "INSERT INTO run_map SELECT b.id, a.id FROM theirs.run AS b JOIN main.run AS a USING (identity) WHERE a.id <= ?1",
            [offset],
        )?;
        compare(to, repeats, &mut outcome)?;
    }
    to.execute(REPLICATIONS, [offset])?;
    to.execute_batch(UNMAPS)?;
    Ok(outcome)
}

/// Compares the runs that both stores have, replaces those that are valid in the other store only, and counts them.
fn compare(
    to: &Transaction<'_>,
    repeats: &dyn Fn(&str) -> bool,
    outcome: &mut MergeOutcome,
) -> rusqlite::Result<()> {
    let compared = COLUMNS.iter().filter(|(_, must_agree)| *must_agree);
    let same_run = compared.map(|(column, _)| format!("a.{column} IS b.{column}")).collect::<Vec<_>>();
    let same_response = RESPONSE.split(", ").map(|column| format!("x.{column} IS y.{column}"));
    // `IS` compares reals to the last bit: SQLite stores neither a negative zero nor a value that is not a number.
    let mut read = to.prepare(&format!(
        "SELECT there, here, a.substrate, a.status = 'ok', b.status = 'ok', {}
             AND (SELECT count(*) FROM main.response WHERE run = here)
                 = (SELECT count(*) FROM theirs.response WHERE run = there)
             AND NOT EXISTS (
                 SELECT 1 FROM theirs.response AS y LEFT JOIN main.response AS x ON x.run = here AND x.name = y.name
                 WHERE y.run = there AND NOT ({}))
         FROM run_map JOIN theirs.run AS b ON b.id = there JOIN main.run AS a ON a.id = here ORDER BY there",
        same_run.join(" AND "),
        same_response.collect::<Vec<_>>().join(" AND "),
    ))?;
    let mut rows = read.query([])?;
    let mut replaced: Vec<(i64, i64)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (there, here): (i64, i64) = (row.get(0)?, row.get(1)?);
        match (row.get(3)?, row.get(4)?) {
            (_, false) => outcome.ignored += 1,
            (false, true) => replaced.push((there, here)),
            (true, true) if !repeats(row.get_ref(2)?.as_str()?) => outcome.kept += 1,
            (true, true) if row.get(5)? => outcome.equal += 1,
            (true, true) => {
                outcome.different.push(difference(to, there, here)?);
                if outcome.different.len() == MergeOutcome::MOST_DIFFERENT {
                    return Ok(());
                }
            }
        }
    }
    outcome.replaced = replaced.len() as u64;
    let columns = column_list();
    let values = columns.replace("provenance", "(SELECT here FROM provenance_map WHERE there = provenance)");
    let mut update = to.prepare(&format!(
        "UPDATE main.run SET ({columns}) = (SELECT {values} FROM theirs.run WHERE id = ?1) WHERE id = ?2"
    ))?;
    for (there, here) in replaced {
        update.execute([there, here])?;
        for (table, columns) in PARTS {
            to.prepare_cached(&format!("DELETE FROM main.{table} WHERE run = ?"))?.execute([here])?;
            to.prepare_cached(&format!(
                "INSERT INTO main.{table} (run, {columns}) SELECT ?2, {columns} FROM theirs.{table} WHERE run = ?1"
            ))?
            .execute([there, here])?;
        }
    }
    Ok(())
}

/// The first difference of two runs of one identity.
fn difference(to: &Connection, there: i64, here: i64) -> rusqlite::Result<RunDifference> {
    let row = |store: &str, run: i64| -> rusqlite::Result<Vec<Value>> {
        let read = format!("SELECT {} FROM {store}.run WHERE id = ?", column_list());
        to.prepare_cached(&read)?
            .query_row([run], |row| (0..COLUMNS.len()).map(|column| row.get(column)).collect())
    };
    let responses = |store: &str, run: i64| -> rusqlite::Result<Vec<Vec<Value>>> {
        let read = format!("SELECT {RESPONSE} FROM {store}.response WHERE run = ? ORDER BY name");
        let columns = RESPONSE.split(',').count();
        to.prepare_cached(&read)?
            .query_map([run], |row| (0..columns).map(|column| row.get(column)).collect())?
            .collect()
    };
    let (mine, theirs) = (row("main", here)?, row("theirs", there)?);
    let columns = COLUMNS.iter().zip(mine.iter().zip(&theirs));
    let mut different = columns
        .filter(|((_, must_agree), (mine, theirs))| *must_agree && mine != theirs)
        .map(|((column, _), (mine, theirs))| ((*column).to_owned(), mine.clone(), theirs.clone()));
    let in_responses = || -> rusqlite::Result<_> {
        Ok(first_difference(&responses("main", here)?, &responses("theirs", there)?))
    };
    let (what, here, there) = match different.next() {
        Some(column) => column,
        None => in_responses()?.unwrap_or(("responses".to_owned(), Value::Null, Value::Null)),
    };
    Ok(RunDifference { identity: shown(&mine[0]), what, here: shown(&here), there: shown(&there) })
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
