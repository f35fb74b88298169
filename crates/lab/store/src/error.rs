//! Errors of the store. Each message says what the user can do about the error.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

/// An error of the store. Runs that were recorded before stay recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is a database of another program, or no database at all.
    #[error("{} is not a netrig store; name another file with --store", .0.display())]
    NotAStore(PathBuf),
    /// A later version of netrig has written the store, with a newer form (schema version).
    #[error(
        "{} has form {theirs}, but this version of netrig knows forms up to {ours}; use the netrig that wrote it, \
         or name another file with --store", path.display()
    )]
    Newer {
        /// The store.
        path: PathBuf,
        /// The form of the store.
        theirs: u32,
        /// The newest form that this version of netrig can read.
        ours: u32,
    },
    /// An earlier version of netrig has written the store with an older form (schema version), and the store was opened
    /// for reading only.
    #[error(
        "{} has form {theirs} and must be upgraded to form {ours} before it can be read; open it for writing \
         once, with `netrig run --store`", path.display()
    )]
    Older {
        /// The store.
        path: PathBuf,
        /// The form of the store.
        theirs: u32,
        /// The form that this version of netrig reads.
        ours: u32,
    },
    /// There is no store to read.
    #[error("there is no store at {}; run an experiment first, or name its file with --store", .0.display())]
    Missing(PathBuf),
    /// The file or its folder does not exist, is not a regular file, or may not be opened.
    #[error("cannot open the store {}: {reason}; name another file with --store", path.display())]
    CannotOpen {
        /// The store.
        path: PathBuf,
        /// The reason why it cannot be opened.
        reason: String,
    },
    /// The file or its folder may not be written.
    #[error(
        "the store {} cannot be written; make the file and its folder writable, or name another file with \
         --store", .0.display()
    )]
    ReadOnly(PathBuf),
    /// The disk is full. Runs that were recorded before are kept.
    #[error(
        "no space is left on the disk for the store {}; free some space and run again: finished runs are kept",
        .0.display()
    )]
    Full(PathBuf),
    /// Another process holds a lock for longer than the store waits.
    #[error(
        "the store {} is locked by another process; close the program that has it open (a database shell in a \
         transaction?) and run again: finished runs are kept", .0.display()
    )]
    Locked(PathBuf),
    /// The contents of the store are inconsistent.
    #[error(
        "the store {} is damaged ({what}); keep a copy, and try `sqlite3 {} .recover`",
        path.display(), path.display()
    )]
    Damaged {
        /// The store.
        path: PathBuf,
        /// The inconsistency.
        what: String,
    },
    /// Any other error of SQLite.
    #[error("the store {} failed: {source}", path.display())]
    Sqlite {
        /// The store.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// No run has an identity with this prefix.
    #[error("the store has no run `{0}`; `netrig list` prints its contents")]
    NoSuchRun(String),
    /// Several runs have an identity with this prefix.
    #[error("the identities of several runs begin with `{0}`; give more characters")]
    SeveralRuns(String),
    /// A table or a time series could not be written as Parquet.
    #[error("cannot write Parquet: {0}")]
    Parquet(parquet::errors::ParquetError),
    /// An exported table could not be written.
    #[error("cannot write the table: {0}")]
    Output(#[from] std::io::Error),
}

impl From<parquet::errors::ParquetError> for StoreError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        match error {
            // The output below Parquet failed, for example because of a full disk or a closed pipe.
            parquet::errors::ParquetError::External(source) => match source.downcast() {
                Ok(source) => Self::Output(*source),
                Err(other) => Self::Parquet(parquet::errors::ParquetError::External(other)),
            },
            other => Self::Parquet(other),
        }
    }
}

impl StoreError {
    /// What is wrong with a store that the user named by its path. Unlike the message, the text has no advice about
    /// `--store`.
    pub fn fault(&self) -> String {
        match self {
            Self::NotAStore(_) => "it is not a netrig store".to_owned(),
            Self::Missing(path) if path.exists() => {
                "it has no runs: it is empty, or its write-ahead log (-wal) is not beside it".to_owned()
            }
            Self::Missing(_) => "there is no such file".to_owned(),
            Self::Damaged { what, .. } => format!("it is damaged ({what})"),
            Self::CannotOpen { reason, .. } => format!("it cannot be opened: {reason}"),
            other => other.to_string(),
        }
    }

    /// Translates an error of SQLite at the store `path`.
    pub(crate) fn new(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let Some(code) = error.sqlite_error_code() else {
            return match error {
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..) => Self::Damaged { path, what: error.to_string() },
                _ => Self::Sqlite { path, source: error },
            };
        };
        if error.sqlite_error().is_some_and(|e| e.extended_code == ffi::SQLITE_IOERR_SHMSIZE) {
            // If the disk is full, the index of the write-ahead log fails first.
            return Self::Full(path);
        }
        match code {
            ErrorCode::NotADatabase => Self::NotAStore(path),
            ErrorCode::DatabaseCorrupt => Self::Damaged { path, what: error.to_string() },
            ErrorCode::ReadOnly => Self::ReadOnly(path),
            ErrorCode::DiskFull => Self::Full(path),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Locked(path),
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied => match obstacle(&path) {
                Some(reason) => Self::CannotOpen { path, reason },
                None if may_be_written(folder_of(&path)) => {
                    Self::CannotOpen { path, reason: error.to_string() }
                }
                None => Self::ReadOnly(path),
            },
            _ => Self::Sqlite { path, source: error },
        }
    }
}

/// The reason why `path` cannot be opened, because SQLite reports only "unable to open database file". `None` if it can
/// be opened or does not exist yet.
fn obstacle(path: &Path) -> Option<String> {
    let folder = folder_of(path);
    match std::fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("the folder {} does not exist", folder.display()))
        }
        Err(error) => Some(error.to_string()),
        Ok(found) if !found.is_dir() => Some(format!("{} is not a folder", folder.display())),
        Ok(_) => {
            let error = OpenOptions::new().append(true).open(path).err()?;
            (error.kind() != ErrorKind::NotFound).then(|| error.to_string())
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file can be created in `folder`, as the store and its log need. The function tries to create a file,
/// because permissions are not enough to decide: the disk may be mounted read-only.
fn may_be_written(folder: &Path) -> bool {
    let probe = folder.join(format!(".netrig-probe-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    if made.is_ok() {
        // If the empty file cannot be removed, it causes no harm.
        let _ = std::fs::remove_file(&probe);
    }
    !made.is_err_and(|e| matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem))
}
