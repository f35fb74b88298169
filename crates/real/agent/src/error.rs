//! What can keep an agent from doing what it was told.

use netrig_host::socket::SocketError;
use netrig_host::sysctl::SysctlError;

/// Most files of a run that an agent transfers by FTP: each takes a thread of its own, and its server a process.
pub const MOST_TRANSFERS: usize = 256;

/// Why an agent could not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// What was told cannot be done.
    #[error("flow `{flow}`: {why}")]
    Order {
        /// The flow's name.
        flow: String,
        /// What is wrong.
        why: String,
    },
    /// A run without a sampling interval.
    #[error("the sampling interval must be above zero")]
    NoInterval,
    /// More flows of FTP than one agent has threads for.
    #[error("{0} flows of FTP; {MOST_TRANSFERS} are the most")]
    TooManyTransfers(usize),
    /// Every port that an association of the flow can have is another's.
    #[error("flow `{flow}`: all ports of its {associations} associations are in use")]
    NoPort {
        /// The flow's name.
        flow: String,
        /// How many there are.
        associations: usize,
    },
    /// A socket is not as it was asked for.
    #[error("flow `{flow}`: {source}")]
    Socket {
        /// The flow's name.
        flow: String,
        /// What is wrong.
        source: SocketError,
    },
    /// A setting of the kernel is not as it was asked for.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// The kernel refused a call that it always grants.
    #[error("{what}: {source}")]
    Kernel {
        /// Which.
        what: &'static str,
        /// What it answered.
        source: std::io::Error,
    },
    /// A thread of the run ended in a panic.
    #[error("a thread of the run panicked")]
    Panicked,
}

impl AgentError {
    /// The kernel refused `what`.
    pub(crate) fn kernel(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Kernel { what, source }
    }
}
