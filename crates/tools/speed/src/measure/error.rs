//! Why nothing was measured.

use std::io;
use std::net::SocketAddr;

use netrig_core::Duration;
use netrig_host::frames::FrameError;

use crate::admission::AdmissionRefusal;
use crate::protocol::PhaseError;
use crate::protocol::greeting::GreetingError;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    /// Nobody is there.
    #[error("no connection to {server}: {source}")]
    Connect {
        /// Where.
        server: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// It does not speak TLS as a server of this meter does, or is not whom we trust.
    #[error("no TLS with {server}: {source}; is it `netrig speed serve` that listens there?")]
    Tls {
        /// Where.
        server: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// It did not greet us as it should.
    #[error("{server} does not let us in: {source}")]
    Greeting {
        /// Where.
        server: SocketAddr,
        /// Why.
        source: GreetingError,
    },
    /// It turned us away.
    #[error("the server turns us away: {0}")]
    Refused(AdmissionRefusal),
    /// It cannot go on.
    #[error("the server has broken off: {why}")]
    Failed {
        /// Why, in its words.
        why: String,
    },
    /// It has closed the control connection before it was done.
    #[error(
        "the connection was closed from the other side in the middle of it: the server was ended, or has failed"
    )]
    Closed,
    /// The control connection broke, or the server sent a malformed message.
    #[error("the control connection: {0}")]
    Control(#[source] FrameError),
    /// The server sent a message that is not expected at this point of a session.
    #[error("the control connection: the server sent an unexpected message")]
    OutOfOrder,
    /// It would not be over before the server ends it.
    #[error(
        "this takes {needs} at least, and the server lets a session last {lasts}: make it shorter (--time), or ask its operator for \
         more (--max-time)"
    )]
    TooLong {
        /// What it takes at least.
        needs: Duration,
        /// What it may take.
        lasts: Duration,
    },
    /// It tells of a phase what cannot be.
    #[error("{server} reports what cannot be: {what}; it is no server of this meter, or is broken")]
    Report {
        /// Where.
        server: SocketAddr,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It does not answer datagrams.
    #[error("{server} answers no datagram: {source}; is its port open for UDP, too?")]
    NoDatagrams {
        /// Where.
        server: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// It does not answer.
    #[error("{server} has stopped answering")]
    Silent {
        /// Where.
        server: SocketAddr,
    },
    /// What was asked for cannot be carried.
    #[error(transparent)]
    Phase(PhaseError),
    /// This end cannot carry data.
    #[error("data could not be carried: {0}")]
    Carrying(#[source] io::Error),
    /// Somebody interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl From<FrameError> for SpeedError {
    fn from(error: FrameError) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match &error {
            FrameError::Stream(broke)
                if matches!(broke.kind(), UnexpectedEof | ConnectionReset | BrokenPipe) =>
            {
                Self::Closed
            }
            _ => Self::Control(error),
        }
    }
}
