//! What can go wrong while a testbed is built, used or removed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use netrig_experiment::{RunError, Unsupported};

/// Something that is missing, with what cannot be done without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRequirement {
    /// What is missing: `CAP_NET_RAW`.
    pub what: String,
    /// What follows from it.
    pub why: String,
}

impl fmt::Display for MissingRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// What was done, where, and what the kernel said.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The machine or the user may not do what a testbed needs.
    #[error("this machine cannot hold a testbed of namespaces: {}; `--on sim` needs none of it", sentences(.0))]
    Incapable(Vec<MissingRequirement>),
    /// Something of that name is there, and it is not ours.
    #[error("{} exists already and is not ours: it stays, and nothing was built", .0.display())]
    Collision(PathBuf),
    /// An identity that cannot be part of file names.
    #[error("`{0}` cannot name a testbed: up to 16 small letters and digits can")]
    Id(String),
    /// The kernel refused.
    #[error("cannot {action} in {place}: {source}")]
    Refused {
        /// What was tried.
        action: String,
        /// The namespace or folder.
        place: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel took a value and has another one.
    #[error("{setting} in {place} is `{found}` after it was set to `{asked}`")]
    NotTaken {
        /// The sysctl or option.
        setting: String,
        /// The namespace.
        place: String,
        /// What was written.
        asked: String,
        /// What was read back.
        found: String,
    },
    /// An offload that stays on: frames that the router forwards would carry partial checksums, or be longer than any
    /// that a line carries.
    #[error("the offloads {} of interface {interface} in {place} cannot be switched off", .offloads.join(", "))]
    Offloads {
        /// The interface.
        interface: String,
        /// The namespace.
        place: String,
        /// Their names as `ethtool -k` has them.
        offloads: Vec<String>,
    },
    /// The kernel's answer has no meaning that is known here.
    #[error("{place}: the kernel's answer when asked to {action} cannot be read: {why}")]
    Unreadable {
        /// What was tried.
        action: String,
        /// The namespace.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// A journal that was not written here, or is damaged: nothing of it is believed, nothing removed.
    #[error("{} is no journal of a testbed: {why}", .path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A node cannot be limited as it shall be.
    #[error("{place}: {why}")]
    Unlimited {
        /// The namespace.
        place: String,
        /// What is missing.
        why: String,
    },
    /// There is no such node.
    #[error("the testbed has no node {0}")]
    NoNode(usize),
    /// Processes in a namespace of ours that would not die.
    #[error("processes {} in the testbed's namespaces did not end within {seconds} s of SIGKILL", numbers(.pids))]
    Immortal {
        /// Their numbers.
        pids: Vec<i32>,
        /// How long they were given.
        seconds: u64,
    },
}

impl From<TestbedError> for RunError {
    fn from(error: TestbedError) -> Self {
        Self::because(error)
    }
}

pub(crate) fn unsupported<T>(why: String) -> Result<T, Unsupported> {
    Err(Unsupported(why))
}

fn sentences(missing_requirements: &[MissingRequirement]) -> String {
    missing_requirements.iter().map(MissingRequirement::to_string).collect::<Vec<_>>().join("; ")
}

fn numbers(pids: &[i32]) -> String {
    pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
}

/// Says of an error of the kernel what was tried and where.
pub(crate) trait ErrorContext<T> {
    /// `place` is a namespace or a folder.
    fn context(self, place: &str, action: impl FnOnce() -> String) -> Result<T, TestbedError>;

    /// The same of a file.
    fn path_context(self, path: &Path, action: &str) -> Result<T, TestbedError>
    where
        Self: Sized,
    {
        self.context(&path.display().to_string(), || action.to_owned())
    }
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn context(self, place: &str, action: impl FnOnce() -> String) -> Result<T, TestbedError> {
        self.map_err(|source| TestbedError::Refused {
            action: action(),
            place: place.to_owned(),
            source: source.into(),
        })
    }
}
