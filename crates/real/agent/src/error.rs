//! Errors of an agent.

use netrig_host::socket::SocketError;
use netrig_host::sysctl::SysctlError;

/// Maximum number of FTP transfers of an agent in a run. Each transfer needs its own thread, and its server a process.
pub const MOST_TRANSFERS: usize = 256;

/// The result of an operation of an agent.
pub type AgentResult<T = ()> = Result<T, AgentError>;

/// Why an agent could not execute its order.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The order cannot be executed.
    #[error("flow `{flow}`: {why}")]
    Order {
        /// The flow's name.
        flow: String,
        /// The reason.
        why: String,
    },
    /// The sampling interval of the run is zero.
    #[error("the sampling interval must be above zero")]
    NoInterval,
    /// The run has more FTP flows than [`MOST_TRANSFERS`].
    #[error("{0} flows use FTP; {MOST_TRANSFERS} are the most")]
    TooManyTransfers(usize),
    /// All ports that the flow's associations may use are in use.
    #[error("flow `{flow}`: all ports of its {associations} associations are in use")]
    NoPort {
        /// The flow's name.
        flow: String,
        /// Number of open associations.
        associations: usize,
    },
    /// A socket could not be opened with its options.
    #[error("flow `{flow}`: {source}")]
    Socket {
        /// The flow's name.
        flow: String,
        /// The error of the socket.
        source: SocketError,
    },
    /// A kernel setting could not be set.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// A system call failed that succeeds in normal operation.
    #[error("{what}: {source}")]
    Kernel {
        /// The system call.
        what: &'static str,
        /// Its error.
        source: std::io::Error,
    },
    /// A thread of the run panicked.
    #[error("a thread of the run panicked")]
    Panicked,
}

impl AgentError {
    /// Returns a function that makes an [`AgentError::Kernel`] from an error of the system call `what`.
    pub(crate) fn kernel(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Kernel { what, source }
    }
}
