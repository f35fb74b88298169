//! The forms (schema versions) of the store, and the upgrade from an old form to the current one.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::StoreError;

/// The value of `PRAGMA application_id` in a netrig store: `netr` in ASCII.
pub(crate) const APPLICATION_ID: i32 = 0x6e65_7472;

/// The script at index n upgrades form n to form n + 1. Published scripts never change.
const SCRIPTS: [&str; 4] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];

/// The form that this version of netrig writes.
pub(crate) const FORM: u32 = SCRIPTS.len() as u32;

/// The result of [`look`] at a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFile {
    /// The file is empty or does not exist.
    Empty,
    /// The file is a store of this form, which is known.
    Form(u32),
}

/// Examines the file without changing it. The transaction shows a consistent state: if another process creates the
/// store, the creation has not begun or is complete.
pub(crate) fn look(connection: &Connection, path: &Path) -> Result<StoreFile, StoreError> {
    let moment = connection.unchecked_transaction().map_err(|e| StoreError::new(path, e))?;
    look_within(&moment, path)
}

/// Examines the file within a transaction.
fn look_within(connection: &Transaction<'_>, path: &Path) -> Result<StoreFile, StoreError> {
    let pragma = |name| -> Result<i64, StoreError> {
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|e| StoreError::new(path, e))
    };
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|e| StoreError::new(path, e))?;
    let (application, form) = (pragma("application_id")?, pragma("user_version")?);
    if application == 0 && form == 0 && tables == 0 {
        return Ok(StoreFile::Empty);
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(StoreError::NotAStore(path.to_owned()));
    }
    match u32::try_from(form) {
        Ok(form) if (1..=FORM).contains(&form) => Ok(StoreFile::Form(form)),
        Ok(theirs) if theirs > FORM => Err(StoreError::Newer { path: path.to_owned(), theirs, ours: FORM }),
        _ => Err(StoreError::Damaged { path: path.to_owned(), what: format!("its form is {form}") }),
    }
}

/// Upgrades the file to the form of this version, in one transaction. If two processes do this at the same time, one
/// waits and then finds that the file is upgraded.
pub(crate) fn bring_up(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let or = |e| StoreError::new(path, e);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(or)?;
    let done = match look_within(&transaction, path)? {
        StoreFile::Empty => 0,
        StoreFile::Form(form) => form,
    };
    for script in SCRIPTS.iter().skip(done as usize) {
        transaction.execute_batch(script).map_err(or)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(or)?;
    transaction.pragma_update(None, "user_version", FORM).map_err(or)?;
    transaction.commit().map_err(or)
}
