//! Why the store cannot do something, each with what to do about it.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

/// Why the store cannot do something. Whatever was recorded before stays recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is a database of another program, or no database at all.
    #[error("{} is not a netrig store; name another file with --store", .0.display())]
    NotAStore(PathBuf),
    /// A later netrig has written it.
    #[error(
        "{} has form {theirs}, and this netrig knows forms up to {ours}; use the netrig that wrote it, or \
         name another file with --store", path.display()
    )]
    Newer {
        /// The store.
        path: PathBuf,
        /// The form that it has.
        theirs: u32,
        /// The newest form that we know.
        ours: u32,
    },
    /// An earlier netrig has written it, and it was opened for reading only.
    #[error(
        "{} has form {theirs} and must be brought to form {ours} before it can be read: open it for writing \
         once, with `netrig run --store`", path.display()
    )]
    Older {
        /// The store.
        path: PathBuf,
        /// The form that it has.
        theirs: u32,
        /// The form that we read.
        ours: u32,
    },
    /// There is nothing to read.
    #[error("there is no store at {}; run an experiment first, or name its file with --store", .0.display())]
    Missing(PathBuf),
    /// The file or its folder does not exist, is no file, or may not be opened.
    #[error("cannot open the store {}: {reason}; name another file with --store", path.display())]
    CannotOpen {
        /// The store.
        path: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// The file or its folder may not be written.
    #[error(
        "the store {} cannot be written; make the file and its folder writable, or name another file with \
         --store", .0.display()
    )]
    ReadOnly(PathBuf),
    /// There is no room left. What was recorded before is safe.
    #[error(
        "no room left on the disk for the store {}; free some space and run again: finished runs are kept",
        .0.display()
    )]
    Full(PathBuf),
    /// Another process holds it for longer than we were willing to wait.
    #[error(
        "the store {} is held by another process; close what has it open (a database shell in a \
         transaction?) and run again: finished runs are kept", .0.display()
    )]
    Locked(PathBuf),
    /// Its contents make no sense.
    #[error(
        "the store {} is damaged ({what}); keep a copy, and try `sqlite3 {} .recover`",
        path.display(), path.display()
    )]
    Damaged {
        /// The store.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Anything else that SQLite reports.
    #[error("the store {} failed: {source}", path.display())]
    Sqlite {
        /// The store.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// No run has an identity that begins so.
    #[error("the store has no run `{0}`; `netrig list` prints what it has")]
    NoSuchRun(String),
    /// More than one has.
    #[error("several runs begin with `{0}`; give more of the identity")]
    SeveralRuns(String),
    /// A table or a time series could not be written as Parquet.
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// An exported table could not be written.
    #[error("cannot write the table: {0}")]
    Output(#[from] std::io::Error),
}

impl StoreError {
    /// What `error` means for the store at `path`.
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
            // The index of the write-ahead log is the first thing that needs room.
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

/// What keeps us from opening `path`, in more words than SQLite's "unable to open database file". Nothing, if it
/// could be opened or is not there yet.
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

/// Whether a file can be made in `folder`, where the store and its log must lie. Permissions do not tell (the disk
/// may be mounted to be read only), so we try.
fn may_be_written(folder: &Path) -> bool {
    let probe = folder.join(format!(".netrig-probe-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    if made.is_ok() {
        // An empty file that cannot be removed again harms nobody.
        let _ = std::fs::remove_file(&probe);
    }
    !made.is_err_and(|e| matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem))
}
