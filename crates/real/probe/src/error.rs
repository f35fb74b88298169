//! Errors of probes, as sentences for the user.

use std::io;
use std::net::SocketAddr;

use netrig_traffic::ClipError;

use netrig_host::frames::FrameError;
use netrig_host::socket::SocketError;

/// Result of an operation of a probe.
pub type ProbeResult<T = ()> = Result<T, ProbeError>;

/// Why a probe could not measure.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The request is invalid.
    #[error("{0}")]
    Request(String),
    /// The kernel refused a socket.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// Packets cannot be sent to the target.
    #[error("cannot send to {target}: {source}; {advice}")]
    Send {
        /// Destination of the packets.
        target: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
        /// Advice to the user.
        advice: &'static str,
    },
    /// The connection to the far end failed.
    #[error(
        "cannot connect to {target}: {source}; does a firewall let TCP through, and is `netrig probe reflect` running there?"
    )]
    Connect {
        /// Address of the far end.
        target: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The far end failed or behaved unexpectedly.
    #[error("{target}: {why}; {advice}")]
    FarEnd {
        /// Address of the far end.
        target: SocketAddr,
        /// The reason.
        why: String,
        /// Advice to the user.
        advice: &'static str,
    },
    /// The far end refused the probe, or a connection to it was refused.
    #[error("{target} refuses: {why}")]
    Refused {
        /// Address of the far end.
        target: SocketAddr,
        /// The reason, as the far end gave it.
        why: String,
    },
    /// The far end sent an unexpected message.
    #[error("the far end sent an unexpected message: {0}")]
    Unexpected(&'static str),
    /// A system call failed that normally succeeds.
    #[error("{what}: {source}")]
    Kernel {
        /// Name of the call or option.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The FTP session failed, or the server sent an invalid reply.
    #[error("FTP with {target}, {step}: {why}")]
    Ftp {
        /// The server.
        target: SocketAddr,
        /// The step of the session that failed.
        step: &'static str,
        /// The reason.
        why: String,
    },
    /// The clip cannot be sent.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// ffmpeg is not installed.
    #[error("ffmpeg is needed to decode video and is not installed; on Debian: apt-get install ffmpeg")]
    NoFfmpeg,
    /// ffmpeg failed.
    #[error("ffmpeg: {0}")]
    Ffmpeg(String),
    /// The probe was interrupted before it had a result.
    #[error("the probe was interrupted")]
    Interrupted,
    /// A thread of the probe ended in a panic.
    #[error("a thread of the probe panicked")]
    Panicked,
    /// The control connection failed.
    #[error("the connection to the far end: {0}")]
    Control(#[from] FrameError),
    /// A statistic could not be computed.
    #[error("a statistic could not be computed: {0}")]
    Statistics(#[from] netrig_stats::StatsError),
}

impl ProbeError {
    /// Returns a function that wraps the error of a failed system call. `what` is the name of the call or option.
    pub(crate) fn kernel(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Kernel { what, source }
    }

    /// The error of a failed send. The advice depends on the error number.
    pub(crate) fn send(target: SocketAddr, source: io::Error) -> Self {
        let advice = match source.raw_os_error() {
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
                "this host has no route there: see `ip route get`"
            }
            Some(libc::EACCES | libc::EPERM) => "a firewall of this host or a broadcast address forbids it",
            Some(libc::EMSGSIZE) => "the packet is too long for the interface: choose a smaller --size",
            Some(libc::EADDRNOTAVAIL) => "the source address does not belong to this host",
            Some(libc::EINVAL) => {
                "the source address cannot reach it: loopback addresses reach only this host"
            }
            _ => "check whether the interface is up",
        };
        Self::Send { target, source, advice }
    }
}
