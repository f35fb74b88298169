//! What applications send, and what a connection tells its user.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::Instant;

/// Application data.
///
/// `Fill` is a length only: bulk traffic costs a simulator no bytes, and an agent writes zeros for it.
/// `Bytes` is content that the peer reads (SIP messages, probes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// So many bytes of no interest.
    Fill(u64),
    /// These bytes.
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

    /// Takes the first `n` bytes off, or all if there are fewer.
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

/// A datagram as its sender's carrier numbered and stamped it: what an answer to it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramId {
    /// Counted by the sending end from 0.
    pub number: u64,
    /// When it was given to the network, by the sender's clock.
    pub sent: Instant,
}

/// The number of a stream within a connection (RFC 9260 section 1.3); TCP has only stream 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both ends closed and everything arrived.
    Finished,
    /// The peer aborted (RST, ABORT).
    Aborted,
    /// Retransmissions were exhausted.
    TimedOut,
    /// The peer refused to open.
    Refused,
}

/// What a connection tells its user, be it a model or a kernel's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// The handshake is done; data may flow both ways.
    Connected {
        /// The other end.
        peer: SocketAddr,
    },
    /// Little is left unsent. Sending is never refused, or an open-loop source would be slowed by what it
    /// measures; a source that wants to keep the connection busy waits for this.
    Writable,
    /// Data for the user. Message borders are not told: any piece, or several, of what was sent.
    Received {
        /// The stream it came on.
        stream: StreamId,
        /// The data.
        data: Data,
    },
    /// The peer will send nothing more (TCP's FIN); this end may still send, and should close when it is done. A protocol
    /// without half-closed connections (SCTP) never says it.
    PeerFinished,
    /// The connection is over; nothing follows.
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
