//! Errors of an agent.

use netrig_host::socket::SocketError;
use netrig_host::sysctl::SysctlError;

/// Most files of a run that an agent transfers by FTP: each needs a thread of its own, and a process for its server.
pub const MOST_TRANSFERS: usize = 256;

/// The result of what an agent does.
pub type AgentResult<T = ()> = Result<T, AgentError>;

/// Why an agent could not carry out its order.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// An order that cannot be carried out.
    #[error("flow `{flow}`: {why}")]
    Order {
        /// The flow's name.
        flow: String,
        /// The reason.
        why: String,
    },
    /// A run without a sampling interval.
    #[error("the sampling interval must be above zero")]
    NoInterval,
    /// More FTP flows than one agent has threads for.
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
    /// Maps an error of the system call `what`.
    pub(crate) fn kernel(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Kernel { what, source }
    }
}
