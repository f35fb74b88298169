//! Errors of a measurement.

use std::io;
use std::net::SocketAddr;

use netrig_core::Duration;
use netrig_host::frames::FrameError;

use crate::admission::AdmissionRefusal;
use crate::protocol::PhaseError;
use crate::protocol::greeting::GreetingError;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    /// The connection failed.
    #[error("no connection to {server}: {source}")]
    Connect {
        /// The address of the server.
        server: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The TLS handshake failed, or the certificate is not trusted.
    #[error("no TLS with {server}: {source}; is it `netrig speed serve` that listens there?")]
    Tls {
        /// The address of the server.
        server: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The greeting failed.
    #[error("{server} does not let us in: {source}")]
    Greeting {
        /// The address of the server.
        server: SocketAddr,
        /// The cause.
        source: GreetingError,
    },
    /// The server refused the session.
    #[error("the server turns us away: {0}")]
    Refused(AdmissionRefusal),
    /// The server ended the session.
    #[error("the server has broken off: {why}")]
    Failed {
        /// The reason that the server gave.
        why: String,
    },
    /// The server closed the control connection during the measurement.
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
    /// The measurement takes longer than the server allows.
    #[error(
        "this takes {needs} at least, and the server lets a session last {lasts}: make it shorter (--time), or ask its operator for \
         more (--max-time)"
    )]
    TooLong {
        /// The shortest duration of the measurement.
        needs: Duration,
        /// The longest duration of a session.
        lasts: Duration,
    },
    /// The server sent impossible readings.
    #[error("{server} reports what cannot be: {what}; it is no server of this meter, or is broken")]
    Report {
        /// The address of the server.
        server: SocketAddr,
        /// What is wrong with them.
        what: &'static str,
    },
    /// The server answers no datagrams.
    #[error("{server} answers no datagram: {source}; is its port open for UDP, too?")]
    NoDatagrams {
        /// The address of the server.
        server: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The server does not answer on the control connection.
    #[error("{server} has stopped answering")]
    Silent {
        /// The address of the server.
        server: SocketAddr,
    },
    /// The ordered phase is invalid.
    #[error(transparent)]
    Phase(PhaseError),
    /// This end failed to carry data.
    #[error("data could not be carried: {0}")]
    Carrying(#[source] io::Error),
    /// The user interrupted the measurement.
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
