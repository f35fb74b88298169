//! Opens a store.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::StoreError;
use crate::schema::{self, FORM, StoreFile};

/// Longest time to wait for a transaction of another process. Transactions of netrig take milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Cache of pages, KiB. The runs of a point are spread over many pages, and the next point uses the same pages.
const CACHE: i64 = 32 << 10;

/// An open store. Several processes may open the same store, and all may write.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// Whether no process changes the file.
    is_sealed: bool,
}

impl Store {
    /// Opens the store at `path` for reading and writing. Creates a store that does not exist, and upgrades a store of
    /// an older form (schema version).
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::Newer`] (both leave the file as it is),
    /// [`StoreError::CannotOpen`], [`StoreError::ReadOnly`], [`StoreError::Full`], [`StoreError::Locked`],
    /// [`StoreError::Damaged`], or another error of SQLite.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_patiently(path, PATIENCE)
    }

    pub(crate) fn open_patiently(path: &Path, patience: Duration) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        check_kind(path)?;
        let mut connection =
            Connection::open_with_flags(path, flags).map_err(|e| StoreError::new(path, e))?;
        connection.busy_timeout(patience).map_err(|e| StoreError::new(path, e))?;
        let found = schema::look(&connection, path)?;
        if connection.is_readonly("main").map_err(|e| StoreError::new(path, e))? {
            return Err(StoreError::ReadOnly(path.to_owned()));
        }
        write_ahead(&connection, patience).map_err(|e| StoreError::new(path, e))?;
        if found != StoreFile::Form(FORM) {
            schema::bring_up(&mut connection, path)?;
        }
        Self::prepared(connection, path, false)
    }

    /// Opens the store at `path` for reading only. The folder of the store may be read-only.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is no store, [`StoreError::Older`] if it has an older form (schema version),
    /// and otherwise the errors of [`Store::open`].
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        check_kind(path)?;
        let (connection, is_sealed) = match Self::connect_to_read(path, path) {
            // A write-ahead log needs two files beside the store, which SQLite cannot create in a read-only
            // folder. If there is no log, no process is writing, and the log is not needed.
            Err(StoreError::CannotOpen { .. } | StoreError::ReadOnly(_)) if !log_of(path).exists() => {
                (Self::connect_to_read(path, &uri(path, IMMUTABLE))?, true)
            }
            other => (other?, false),
        };
        Self::prepared(connection, path, is_sealed)
    }

    /// Opens a store that is closed and that no process changes any more. Takes no lock, because a network file system
    /// may have none.
    ///
    /// # Errors
    /// As [`Store::open_read_only`].
    pub fn open_sealed(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        check_kind(path)?;
        Self::prepared(Self::connect_to_read(path, &uri(path, IMMUTABLE))?, path, true)
    }

    fn connect_to_read(path: &Path, address: &Path) -> Result<Connection, StoreError> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(address, flags).map_err(|e| StoreError::new(path, e))?;
        connection.busy_timeout(PATIENCE).map_err(|e| StoreError::new(path, e))?;
        match schema::look(&connection, path)? {
            StoreFile::Form(FORM) => Ok(connection),
            StoreFile::Form(theirs) => Err(StoreError::Older { path: path.to_owned(), theirs, ours: FORM }),
            StoreFile::Empty => Err(StoreError::Missing(path.to_owned())),
        }
    }

    fn prepared(connection: Connection, path: &Path, is_sealed: bool) -> Result<Self, StoreError> {
        let store = Self { connection, path: path.to_owned(), is_sealed };
        // NORMAL: SQLite writes the log at each transaction and syncs it at checkpoints. The kernel keeps a
        // committed transaction even if the process ends.
        store.connection.pragma_update(None, "synchronous", "NORMAL").map_err(|e| store.failed(e))?;
        store.connection.pragma_update(None, "foreign_keys", true).map_err(|e| store.failed(e))?;
        store.connection.set_prepared_statement_cache_capacity(64);
        store.connection.pragma_update(None, "cache_size", -CACHE).map_err(|e| store.failed(e))?;
        // The plan of a query does not depend on its parameters. Otherwise SQLite would plan each query for a point
        // again.
        store
            .connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .map_err(|e| store.failed(e))?;
        Ok(store)
    }

    /// The path of the store file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The URI by which another connection attaches the store for reading only.
    pub(crate) fn address(&self) -> String {
        let access = if self.is_sealed { IMMUTABLE } else { "mode=ro" };
        uri(&self.path, access).to_string_lossy().into_owned()
    }

    /// Translates an error of SQLite for this store.
    pub(crate) fn failed(&self, error: rusqlite::Error) -> StoreError {
        StoreError::new(&self.path, error)
    }

    /// An error for inconsistent contents.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.into() }
    }
}

/// Refuses a path that is not a regular file before SQLite opens it. If it is a pipe, SQLite would wait forever for a
/// writer.
fn check_kind(path: &Path) -> Result<(), StoreError> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    let kind = metadata.file_type();
    let kind = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(StoreError::CannotOpen {
        path: path.to_owned(),
        reason: format!("it is {kind}, and a store is a regular file"),
    })
}

/// Enables the write-ahead log. This needs a lock once in the lifetime of a file. SQLite does not wait for this lock,
/// so this function retries.
fn write_ahead(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    const STEP: Duration = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        let switched =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match switched {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && waited < patience => {
                std::thread::sleep(STEP);
                waited += STEP;
            }
            other => return other.map(drop),
        }
    }
}

/// The path of the write-ahead log beside the store.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// The parameter of SQLite's URI for a file that no process changes.
const IMMUTABLE: &str = "immutable=1";

/// SQLite's URI for a file, with a parameter. Characters that are special in URIs are escaped.
fn uri(path: &Path, parameter: &str) -> PathBuf {
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{escaped}?{parameter}").into()
}
