//! Errors of a measurement.

use std::io;
use std::net::SocketAddr;

use netrig_core::Duration;
use netrig_host::frames::FrameError;

use crate::admission::AdmissionRefusal;
use crate::protocol::PhaseError;
use netrig_probe::greeting::GreetingError;

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
    #[error("{server} refuses the greeting: {source}")]
    Greeting {
        /// The address of the server.
        server: SocketAddr,
        /// The cause.
        source: GreetingError,
    },
    /// The server refused the session.
    #[error("the server refuses the session: {0}")]
    Refused(AdmissionRefusal),
    /// The server ended the session.
    #[error("the server ended the session: {why}")]
    Failed {
        /// The reason that the server gave.
        why: String,
    },
    /// The server closed the control connection during the measurement.
    #[error("the server closed the connection during the measurement: it was stopped, or has failed")]
    Closed,
    /// The control connection broke, or the server sent a malformed message.
    #[error("the control connection: {0}")]
    Control(#[source] FrameError),
    /// The server sent a message that is not expected at this point of a session.
    #[error("the control connection: the server sent an unexpected message")]
    OutOfOrder,
    /// The measurement takes longer than the server allows.
    #[error(
        "the measurement takes at least {needs}, and the server limits a session to {lasts}: shorten it (--time), or ask the \
         operator for a higher limit (--max-time)"
    )]
    TooLong {
        /// Minimum duration of the measurement.
        needs: Duration,
        /// Maximum duration of a session at this server.
        lasts: Duration,
    },
    /// The server sent impossible readings.
    #[error("{server} reports impossible readings: {what}; it is not a server of netrig, or is faulty")]
    Report {
        /// The address of the server.
        server: SocketAddr,
        /// What is wrong with the readings.
        what: &'static str,
    },
    /// The server does not answer datagrams.
    #[error("{server} answers no datagrams: {source}; is its port open for UDP, too?")]
    NoDatagrams {
        /// The address of the server.
        server: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The server does not answer on the control connection.
    #[error("{server} no longer answers")]
    Silent {
        /// The address of the server.
        server: SocketAddr,
    },
    /// The ordered phase is invalid.
    #[error(transparent)]
    Phase(PhaseError),
    /// This end failed to send or receive data.
    #[error("sending or receiving data failed: {0}")]
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
