//! Why a probe could not measure, as sentences for the person who asked.

use std::io;
use std::net::SocketAddr;

use crate::SocketError;
use crate::control::ControlError;

/// Why a probe could not measure.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Request(String),
    /// The kernel refused a socket.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// Packets cannot be sent to the target.
    #[error("cannot send to {target}: {source}; {advice}")]
    Send {
        /// Whom.
        target: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// The far end is not there, or not what it should be.
    #[error("{target}: {why}; {advice}")]
    FarEnd {
        /// Where.
        target: SocketAddr,
        /// What happened.
        why: String,
        /// What to do.
        advice: &'static str,
    },
    /// The kernel refused a call that it always grants.
    #[error("{what}: {source}")]
    Kernel {
        /// Which.
        what: &'static str,
        /// What it answered.
        source: io::Error,
    },
    /// The stream to the far end broke.
    #[error("the connection to the far end: {0}")]
    Control(#[from] ControlError),
    /// A number that is none.
    #[error("a statistic of what was measured: {0}")]
    Statistics(#[from] netrig_stats::StatsError),
}

impl ProbeError {
    /// The kernel refused `what`.
    pub(crate) fn kernel(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Kernel { what, source }
    }

    /// Sending failed.
    pub(crate) fn send(target: SocketAddr, source: io::Error) -> Self {
        let advice = match source.raw_os_error() {
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
                "this host has no route there: see `ip route get`"
            }
            Some(libc::EACCES | libc::EPERM) => "a firewall of this host or a broadcast address forbids it",
            Some(libc::EMSGSIZE) => "the packet is too long for the interface: choose a smaller --size",
            Some(libc::EADDRNOTAVAIL) => "the source address is none of this host's",
            Some(libc::EINVAL) => "the source address cannot reach it: loopback only reaches this host",
            _ => "see whether the interface is up",
        };
        Self::Send { target, source, advice }
    }
}
