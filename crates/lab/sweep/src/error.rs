//! Errors of sweeps. Each message says what the user can do.

use std::io;
use std::path::{Path, PathBuf};

use netrig_runner::RunnerError;
use netrig_store::StoreError;

/// An error of a sweep. Shards that were published stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The folder is not that of a sweep.
    #[error("{} is not the folder of a sweep ({why})", path.display())]
    NotASweep {
        /// The folder.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
    /// The folder has other files.
    #[error("{} has files that are not of a sweep; name an empty folder, or one that does not exist", .0.display())]
    Occupied(PathBuf),
    /// The folder belongs to another sweep.
    #[error(
        "{} belongs to another sweep, {theirs}, and this one is {ours}: they differ in the experiment, in what was set, or in the \
         build; name another folder, or remove it", path.display()
    )]
    OtherSweep {
        /// The folder.
        path: PathBuf,
        /// The sweep that it has.
        theirs: String,
        /// The sweep that was asked for.
        ours: String,
    },
    /// The sweep was split by another build of netrig.
    #[error(
        "the sweep in {} was split by netrig {theirs}, and this is netrig {ours}: runs of two builds are not mixed; use {}",
        path.display(), path.join("netrig").display()
    )]
    OtherBuild {
        /// The folder.
        path: PathBuf,
        /// The build of the sweep.
        theirs: String,
        /// This build.
        ours: String,
    },
    /// The sweep has no such chunk.
    #[error("the sweep in {} has no chunk {chunk}; it has {known}", path.display())]
    NoChunk {
        /// The folder.
        path: PathBuf,
        /// The chunk that was asked for.
        chunk: u32,
        /// The number of its chunks.
        known: usize,
    },
    /// Another process submits this sweep.
    #[error("another netrig submits the sweep in {}", .0.display())]
    Busy(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot {act} {}: {source}", path.display())]
    Io {
        /// What was tried: `write`.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The experiment of the folder cannot be read.
    #[error("the experiment of {} cannot be read: {why}", path.display())]
    Experiment {
        /// The folder.
        path: PathBuf,
        /// The faults.
        why: String,
    },
    /// A store or a shard failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runs could not be made.
    #[error(transparent)]
    Runner(#[from] RunnerError),
}

impl SweepError {
    /// For an act on a file.
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }
}
