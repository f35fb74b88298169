//! Errors of building, using and removing a testbed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use netrig_experiment::{RunError, Unsupported};

/// A missing requirement of a testbed, and its consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRequirement {
    /// What is missing, for example `no CAP_NET_RAW`.
    pub what: String,
    /// The consequence for testbeds.
    pub why: String,
}

impl fmt::Display for MissingRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Why a testbed could not be built, used or removed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The machine or the user lacks requirements of a testbed.
    #[error("this machine cannot hold a testbed of namespaces: {}; `--on sim` needs none of it", sentences(.0))]
    Incapable(Vec<MissingRequirement>),
    /// A file or folder with this path exists and does not belong to netrig.
    #[error("{} exists already and does not belong to this testbed; nothing was built", .0.display())]
    Collision(PathBuf),
    /// The identity of the testbed is invalid.
    #[error("`{0}` is not a valid name of a testbed: use 1 to 16 lower-case letters and digits")]
    Id(String),
    /// The kernel refused a request.
    #[error("cannot {action} in {place}: {source}")]
    Refused {
        /// The request.
        action: String,
        /// The namespace or folder.
        place: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The value of a setting that was read back is not the value that was written.
    #[error("{setting} in {place} is `{found}` after it was set to `{asked}`")]
    NotTaken {
        /// The sysctl or option.
        setting: String,
        /// The namespace.
        place: String,
        /// The value that was written.
        asked: String,
        /// The value that was read back.
        found: String,
    },
    /// An offload cannot be switched off. Frames would have partial checksums, or would be longer than on a wire.
    #[error("the offloads {} of interface {interface} in {place} cannot be switched off", .offloads.join(", "))]
    Offloads {
        /// The interface.
        interface: String,
        /// The namespace.
        place: String,
        /// Names of the offloads as in `ethtool -k`.
        offloads: Vec<String>,
    },
    /// The kernel's answer cannot be parsed.
    #[error("cannot {action} in {place}: the kernel's answer is unreadable: {why}")]
    Unreadable {
        /// The request.
        action: String,
        /// The namespace.
        place: String,
        /// Why the answer is invalid.
        why: String,
    },
    /// The journal is damaged or was not written by netrig. Nothing that it names is removed.
    #[error("{} is not a valid journal of a testbed: {why}", .path.display())]
    Journal {
        /// The path of the journal.
        path: PathBuf,
        /// Why the journal is invalid.
        why: String,
    },
    /// The limits of a node cannot be set.
    #[error("{place}: {why}")]
    Unlimited {
        /// The namespace.
        place: String,
        /// The missing requirement.
        why: String,
    },
    /// There is no such node.
    #[error("the testbed has no node {0}")]
    NoNode(usize),
    /// Processes in a namespace of the testbed survived SIGKILL.
    #[error("processes {} in the testbed's namespaces did not end within {seconds} s of SIGKILL", numbers(.pids))]
    Immortal {
        /// Process IDs.
        pids: Vec<i32>,
        /// How long the testbed waited, s.
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

/// Adds context to an error of the kernel: the attempted action and its place.
pub(crate) trait ErrorContext<T> {
    /// Adds the action and the place, which is the name of a namespace or the path of a folder.
    fn context(self, place: &str, action: impl FnOnce() -> String) -> Result<T, TestbedError>;

    /// Adds the action and the path of a file or folder.
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
