//! Reads files that users name. All commands use these functions, which limit the length of a file and the time of a
//! read.
//!
//! A path on the command line ([`read`]) names a regular file or a pipe. A path inside an experiment ([`read_inside`])
//! names a regular file in the experiment's folder, because the experiment may come from another person. A file with a
//! secret ([`read_secret`]) is refused if other users of the machine can read it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::transient_error::is_transient;

/// Maximum length of a file with settings (zones, scripts, environments, lists of keys), bytes.
pub const LONGEST_SETTINGS: u64 = 16 << 20;
/// Maximum length of a file with data (captures, clips, lists of users, results), bytes.
pub const LONGEST_DATA: u64 = 256 << 20;
/// Maximum length of a file with a key or a password, bytes.
pub const LONGEST_SECRET: u64 = 1 << 20;

/// Maximum time until the writer of a pipe has written all bytes and closed the pipe.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum UserFileError {
    /// The system could not open or read the file.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The type of the file is not accepted.
    #[error("it is {kind}, and only {expected} is read here")]
    Kind {
        /// The type of the file, with an article.
        kind: &'static str,
        /// The accepted types, with an article.
        expected: &'static str,
    },
    /// The file is longer than the limit.
    #[error("it is longer than {limit} bytes, the most that is read of such a file")]
    TooLong {
        /// Maximum length, bytes.
        limit: u64,
    },
    /// The file is outside of the experiment's folder.
    #[error(
        "it is `{}`, outside of the experiment's folder `{}`; copy the file into that folder and name the copy",
        file.display(), folder.display()
    )]
    Outside {
        /// The file, after its symbolic links are resolved.
        file: PathBuf,
        /// The folder, after its symbolic links are resolved.
        folder: PathBuf,
    },
    /// The writer of a pipe did not close it in time.
    #[error("its writer has not closed the pipe within {} s; write to a file first, and name the file", after.as_secs_f64())]
    Silent {
        /// How long the reader has waited.
        after: Duration,
    },
    /// The file is not UTF-8 text.
    #[error("byte {at} is not UTF-8 text")]
    NotText {
        /// Offset of the first byte that is not text.
        at: usize,
    },
    /// Other users can read the file, which must be secret.
    #[error("other users can read it (its mode is {mode:03o}), so it is no secret; `chmod 600 {}` makes it one", file.display())]
    OpenToOthers {
        /// The file.
        file: PathBuf,
        /// The permissions of the file.
        mode: u32,
    },
}

/// Reads the file or pipe that a path on the command line names.
///
/// # Errors
/// If the file cannot be read, is not a regular file or a pipe, or has more than `limit` bytes; also if the writer of a
/// pipe does not close it within a minute.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, UserFileError> {
    read_within(path, limit, PATIENCE)
}

/// Reads a text like [`read`].
///
/// # Errors
/// The errors of [`read`], and an error if the file is not UTF-8 text.
pub fn read_text(path: &Path, limit: u64) -> Result<String, UserFileError> {
    as_text(read(path, limit)?)
}

/// Reads a file that an experiment names. After symbolic links are resolved, it must be a regular file in the
/// experiment's folder or in a subfolder.
///
/// # Errors
/// If the file is not such a file, cannot be read, or has more than `limit` bytes.
pub fn read_inside(folder: &Path, name: &str, limit: u64) -> Result<Vec<u8>, UserFileError> {
    // The path `experiment.toml` has an empty path as its folder.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (file, folder) = (folder.join(name).canonicalize()?, folder.canonicalize()?);
    let (opened, _) = open_regular(&file, "a regular file of the experiment's folder")?;
    if !file.starts_with(&folder) {
        return Err(UserFileError::Outside { file, folder });
    }
    up_to(opened, limit)
}

/// Reads a text like [`read_inside`].
///
/// # Errors
/// The errors of [`read_inside`], and an error if the file is not UTF-8 text.
pub fn read_text_inside(folder: &Path, name: &str, limit: u64) -> Result<String, UserFileError> {
    as_text(read_inside(folder, name, limit)?)
}

/// Reads a key or a password from a file or a pipe. Other users must not be able to read the file. If root owns the
/// file, its group may read it, as in `/etc/ssl/private`.
///
/// # Errors
/// The errors of [`read`], and an error if other users can read the file.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, UserFileError> {
    let opened = OpenedFile::new(path)?;
    opened.hidden(path)?;
    opened.read(LONGEST_SECRET, PATIENCE)
}

/// Reads a text that may contain secrets. The second result is the error of [`read_secret`] if other users can read the
/// file; the caller must then refuse secrets in the text.
///
/// # Errors
/// The errors of [`read_text`].
pub fn read_guarded(path: &Path, limit: u64) -> Result<(String, Result<(), UserFileError>), UserFileError> {
    let opened = OpenedFile::new(path)?;
    let hidden = opened.hidden(path);
    Ok((as_text(opened.read(limit, PATIENCE)?)?, hidden))
}

/// Opens a regular file. Does not wait if the path names another type of file, such as a pipe.
///
/// # Errors
/// If the file cannot be opened or is not a regular file. The error uses `expected` as the description of the expected
/// file.
pub fn open_regular(path: &Path, expected: &'static str) -> Result<(File, Metadata), UserFileError> {
    let opened = OpenedFile::of(path, expected, Metadata::is_file)?;
    Ok((opened.file, opened.metadata))
}

fn read_within(path: &Path, limit: u64, patience: Duration) -> Result<Vec<u8>, UserFileError> {
    OpenedFile::new(path)?.read(limit, patience)
}

struct OpenedFile {
    file: File,
    metadata: Metadata,
}

impl OpenedFile {
    /// Opens a regular file or a pipe.
    fn new(path: &Path) -> Result<Self, UserFileError> {
        Self::of(path, "a regular file or a pipe", |metadata| {
            metadata.is_file() || metadata.file_type().is_fifo()
        })
    }

    fn of(
        path: &Path,
        expected: &'static str,
        is_read: fn(&Metadata) -> bool,
    ) -> Result<Self, UserFileError> {
        let held = |metadata: &Metadata| match is_read(metadata) {
            true => Ok(()),
            false => Err(UserFileError::Kind { kind: kind(metadata), expected }),
        };
        // The type is checked before the file is opened, because opening a device can have side effects.
        held(&std::fs::metadata(path)?)?;
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let metadata = file.metadata()?;
        held(&metadata)?;
        Ok(Self { file, metadata })
    }

    /// Refuses a regular file that other users can read.
    fn hidden(&self, path: &Path) -> Result<(), UserFileError> {
        let open_to = if self.metadata.uid() == 0 { 0o007 } else { 0o077 };
        let mode = self.metadata.mode() & 0o777;
        if self.metadata.is_file() && mode & open_to != 0 {
            return Err(UserFileError::OpenToOthers { file: path.to_owned(), mode });
        }
        Ok(())
    }

    fn read(self, limit: u64, patience: Duration) -> Result<Vec<u8>, UserFileError> {
        if self.metadata.is_file() {
            return up_to(self.file, limit);
        }
        let until = Instant::now() + patience;
        let (mut bytes, mut piece) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !is_readable(&self.file, left)? {
                return Err(UserFileError::Silent { after: patience });
            }
            match (&self.file).read(&mut piece) {
                Ok(0) => return Ok(bytes),
                Ok(len) => bytes.extend_from_slice(&piece[..len]),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if bytes.len() as u64 > limit {
                return Err(UserFileError::TooLong { limit });
            }
        }
    }
}

/// Reads a regular file. The file may grow during the read, so the limit is applied to the bytes that are read.
fn up_to(file: File, limit: u64) -> Result<Vec<u8>, UserFileError> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(UserFileError::TooLong { limit }) } else { Ok(bytes) }
}

/// Waits until a pipe has bytes to read or is closed. Returns `false` if the time `left` has passed first.
fn is_readable(file: &File, left: Duration) -> io::Result<bool> {
    let mut waited = [PollFd::new(file, PollFlags::IN)];
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match poll(&mut waited, Some(&left)) {
        Ok(0) => Ok(false),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn as_text(bytes: Vec<u8>) -> Result<String, UserFileError> {
    String::from_utf8(bytes).map_err(|error| UserFileError::NotText { at: error.utf8_error().valid_up_to() })
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "another kind of file",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    fn told<T: std::fmt::Debug>(result: Result<T, UserFileError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn an_experiment_names_regular_files_of_its_folder_only() {
        let above = folder();
        let own = above.path().join("own");
        fs::create_dir_all(own.join("deep")).unwrap();
        fs::write(own.join("deep/a"), "inside").unwrap();
        fs::write(above.path().join("b"), "outside").unwrap();
        symlink("deep/a", own.join("to-inside")).unwrap();
        symlink("../b", own.join("to-outside")).unwrap();
        symlink("/dev/zero", own.join("to-device")).unwrap();
        symlink(&own, above.path().join("same")).unwrap();
        pipe(&own.join("pipe"));
        let _socket = UnixListener::bind(own.join("socket")).unwrap();
        let read = |name: &str| read_inside(&own, name, 100);
        for name in ["deep/a", "to-inside", "deep/../deep/a", own.join("deep/a").to_str().unwrap()] {
            assert_eq!(read(name).unwrap(), b"inside", "{name}");
        }
        assert_eq!(read_inside(&above.path().join("same"), "deep/a", 100).unwrap(), b"inside");
        for name in ["../b", "to-outside", above.path().join("b").to_str().unwrap()] {
            let told = told(read(name));
            assert!(told.contains("outside of the experiment's folder") && told.contains("copy"), "{told}");
        }
        let kinds = [("/dev/zero", "a device"), ("to-device", "a device"), ("pipe", "a pipe")];
        for (name, kind) in [("socket", "a socket"), ("deep", "a folder")].into_iter().chain(kinds) {
            let told = told(read(name));
            assert!(told.starts_with(&format!("it is {kind}, and only a regular file")), "{name}: {told}");
        }
        assert!(told(read("none")).contains("No such file"));
    }

    #[test]
    fn no_more_is_read_than_the_limit() {
        let folder = folder();
        let file = folder.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert!(told(read(&file, 4)).contains("longer than 4 bytes"));
        assert!(told(read_inside(folder.path(), "file", 4)).contains("longer than 4 bytes"));
        assert!(
            told(read(Path::new("/dev/zero"), 4)).starts_with("it is a device, and only a regular file or")
        );
        fs::write(&file, b"ab\xff").unwrap();
        assert_eq!(told(read_text(&file, 5)), "byte 2 is not UTF-8 text");
    }

    #[test]
    fn a_pipe_on_the_command_line_is_read_up_to_its_end_its_limit_or_the_deadline() {
        let folder = folder();
        let path = folder.path().join("pipe");
        pipe(&path);
        let patience = Duration::from_millis(50);
        // The pipe has no writer.
        assert!(told(read_within(&path, 9, patience)).contains("has not closed the pipe within 0.05 s"));
        let came = std::thread::scope(|scope| {
            scope.spawn(|| fs::write(&path, "hello").unwrap());
            read(&path, 9)
        });
        assert_eq!(came.unwrap(), b"hello");
        // The writer does not close the pipe.
        let mut writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        writer.write_all(b"x").unwrap();
        assert!(told(read_within(&path, 9, patience)).contains("has not closed the pipe"));
        writer.write_all(b"0123456789").unwrap();
        assert!(told(read(&path, 9)).contains("longer than 9 bytes"));
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let folder = folder();
        let file = folder.path().join("key");
        fs::write(&file, "secret").unwrap();
        let with = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            read_secret(&file)
        };
        for mode in [0o600, 0o400] {
            assert_eq!(with(mode).unwrap(), b"secret");
        }
        for mode in [0o644, 0o604, 0o602] {
            let told = told(with(mode));
            assert!(
                told.contains(&format!("its mode is {mode:o}")) && told.contains("`chmod 600 "),
                "{told}"
            );
        }
        // The group of a file may read it if root owns the file.
        let is_root = fs::metadata(&file).unwrap().uid() == 0;
        assert_eq!(with(0o640).is_ok(), is_root);
    }
}
