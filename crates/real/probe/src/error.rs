//! Why a probe could not measure, as sentences for the person who asked.

use std::io;
use std::net::SocketAddr;

use netrig_traffic::ClipError;

use netrig_host::frames::FrameError;
use netrig_host::socket::SocketError;

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
    /// Nobody can be reached there.
    #[error(
        "cannot connect to {target}: {source}; does a firewall let TCP through, and is `netrig probe reflect` running there?"
    )]
    Connect {
        /// Where somebody should be.
        target: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The far end is not what it should be.
    #[error("{target}: {why}; {advice}")]
    FarEnd {
        /// Where.
        target: SocketAddr,
        /// What happened.
        why: String,
        /// What to do.
        advice: &'static str,
    },
    /// The far end, or a connection to it, said no in its own words.
    #[error("{target} refuses: {why}")]
    Refused {
        /// Where it is.
        target: SocketAddr,
        /// Its words.
        why: String,
    },
    /// What the far end said means nothing here.
    #[error("the far end said what was not asked for: {0}")]
    Unexpected(&'static str),
    /// The kernel refused a call that it always grants.
    #[error("{what}: {source}")]
    Kernel {
        /// Which.
        what: &'static str,
        /// What it answered.
        source: io::Error,
    },
    /// FTP went wrong, or its server said what no server says.
    #[error("FTP with {target}, {step}: {why}")]
    Ftp {
        /// The server.
        target: SocketAddr,
        /// At which step.
        step: &'static str,
        /// What was wrong.
        why: String,
    },
    /// A clip that cannot be sent.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// ffmpeg is needed.
    #[error("ffmpeg is needed to decode video, and it is not here; on Debian: apt-get install ffmpeg")]
    NoFfmpeg,
    /// ffmpeg failed.
    #[error("ffmpeg: {0}")]
    Ffmpeg(String),
    /// Somebody ended it before there was anything to tell.
    #[error("it was interrupted")]
    Interrupted,
    /// A thread of the probe ended in a panic.
    #[error("a thread of the probe panicked")]
    Panicked,
    /// The stream to the far end broke.
    #[error("the connection to the far end: {0}")]
    Control(#[from] FrameError),
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
