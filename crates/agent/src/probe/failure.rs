//! Why a transfer, a call or a video could not be measured.

use std::io;
use std::net::SocketAddr;

use netrig_traffic::ClipError;

use crate::SocketError;
use crate::control::ControlError;

/// Why a transfer, a call or a video could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProbeFailure {
    /// The far end cannot be reached.
    #[error("cannot connect to {target}: {source}; is `netrig probe reflect` running there?")]
    Connect {
        /// Where it should be.
        target: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The far end refused, in its own words.
    #[error("{target} refuses: {why}")]
    Refused {
        /// Where it is.
        target: SocketAddr,
        /// Its words.
        why: String,
    },
    /// The connection to the far end broke, or what came over it cannot be understood.
    #[error("the far end: {0}")]
    Control(#[from] ControlError),
    /// What the far end said means nothing here.
    #[error("the far end said what was not asked for: {0}")]
    Unexpected(&'static str),
    /// A socket is not as it was asked for.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A step failed.
    #[error("{what}: {source}")]
    Step {
        /// Which.
        what: &'static str,
        /// What the kernel answered.
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
    /// Somebody ended it before its time.
    #[error("it was interrupted")]
    Interrupted,
    /// A thread of the probe ended in a panic.
    #[error("a thread of the probe panicked")]
    Panicked,
}

impl ProbeFailure {
    /// A step failed.
    pub(crate) fn step(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Step { what, source }
    }
}
