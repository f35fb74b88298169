//! Why a message is not sent, and why a connection ends.

use std::io;
use std::net::SocketAddr;

use netrig_sip::Host;
use netrig_sip::server::Source;

use super::names::NameError;
use crate::StreamError;

/// Why a message is not sent. The reasons are counted by their text, so the texts have no variable parts with many
/// values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SendError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("nothing listens over {} at an address of {}", .0.transport.name(), version(.0.address))]
    NoSocket(Source),
    #[error("too many responses wait")]
    TooManyWait,
    #[error("no room in the socket")]
    NoRoomInSocket,
    #[error("the queue to another thread is full")]
    NoRoomInThread,
    #[error("{0}")]
    Kernel(io::ErrorKind),
    #[error("the connection is gone")]
    NoConnection,
    #[error("the limit of connections is reached")]
    TooManyConnections,
    #[error("no certificate can be for {0}")]
    NoServerName(Host),
    #[error("there is no TLS")]
    NoTls,
    #[error(transparent)]
    Ended(#[from] ConnectionEnd),
}

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectionEnd {
    #[error("its peer had proved nothing, and another connection needed the slot")]
    GaveWay,
    #[error("its address had reached its limit of connections, and it carried no request")]
    Refused,
    #[error("the peer has closed the connection")]
    Closed,
    #[error("the received bytes are not SIP")]
    NoSip,
    #[error("the peer did not read the sent data")]
    NotTaken,
    #[error("the peer did not finish its handshake")]
    HalfHandshake,
    #[error("the peer did not finish a message")]
    HalfMessage,
    #[error("the connection was idle for too long")]
    Idle,
    #[error("the memory limit of all connections was reached")]
    NoRoom,
    #[error("{0}")]
    Kernel(io::ErrorKind),
    /// The error text of the TLS library.
    #[error("{0}")]
    Tls(String),
}

impl From<&StreamError> for ConnectionEnd {
    fn from(error: &StreamError) -> Self {
        match error {
            StreamError::Io(error) => Self::Kernel(error.kind()),
            StreamError::Framing(_) => Self::NoSip,
            StreamError::Full { .. } => Self::NotTaken,
            StreamError::NoRoom { .. } => Self::NoRoom,
            StreamError::Closed => Self::Closed,
            StreamError::Tls(_) => Self::Tls(error.to_string()),
        }
    }
}

const fn version(address: SocketAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
