//! Application data, and the events of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::Instant;

/// Application data.
///
/// `Fill` has only a length: bulk traffic takes no memory in a simulator, and an agent sends zeros for it.
/// `Bytes` has content that the peer reads (SIP messages, probes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Number of bytes whose content does not matter.
    Fill(u64),
    /// Bytes with content.
    Bytes(Arc<[u8]>),
}

impl Data {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Fill(n) => *n,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Removes and returns the first `n` bytes, or all bytes if there are fewer.
    pub fn split_front(&mut self, n: u64) -> Data {
        match self {
            Self::Fill(left) => {
                let taken = n.min(*left);
                *left -= taken;
                Self::Fill(taken)
            }
            Self::Bytes(bytes) => {
                let cut = usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
                let front = Self::Bytes(bytes[..cut].into());
                *bytes = bytes[cut..].into();
                front
            }
        }
    }
}

/// Number and time stamp of a datagram, set by its sender. An answer to the datagram repeats them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramId {
    /// Sequence number of the sending end, from 0.
    pub number: u64,
    /// Time at which the sender gave it to the network, by the sender's clock.
    pub sent: Instant,
}

/// The number of a stream within a connection (RFC 9260 section 1.3); TCP has only stream 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// The reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both ends closed and everything arrived.
    Finished,
    /// The peer aborted (RST, ABORT).
    Aborted,
    /// Retransmissions were exhausted.
    TimedOut,
    /// The peer refused the connection.
    Refused,
}

/// An event of a connection for its user. The connection may be a model or a kernel's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// The handshake is complete; both ends may send.
    Connected {
        /// The other end.
        peer: SocketAddr,
    },
    /// Little unsent data is left. A connection never refuses data. Otherwise the measured system would slow down an
    /// open-loop source. A source that keeps the connection busy waits for this event.
    Writable,
    /// Data for the user. Message boundaries are not kept: the data may be part of a message, or parts of several.
    Received {
        /// The stream of the data.
        stream: StreamId,
        /// The data.
        data: Data,
    },
    /// The peer sends no more data (TCP's FIN). This end may still send, and should close when it has sent everything. A
    /// protocol without half-closed connections (SCTP) has no such event.
    PeerFinished,
    /// The connection has ended; no event follows.
    Closed(CloseReason),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_conserves_bytes() {
        for mut data in [Data::Fill(10), Data::Bytes(Arc::from(*b"0123456789"))] {
            let front = data.split_front(4);
            assert_eq!((front.size(), data.size()), (4, 6));
            assert_eq!(data.split_front(99).size(), 6);
            assert_eq!(data.size(), 0);
        }
    }
}
