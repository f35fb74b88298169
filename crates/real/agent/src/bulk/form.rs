//! How the datagrams of a flow begin.

use netrig_core::Instant;

use crate::datagram::STAMP_LEN;

/// What stands at the beginning of each datagram of a flow: its number, from 0, and when it was sent.
///
/// netrig's own have the [`Stamp`](crate::Stamp). Protocols of others have forms of their own; all else about their datagrams
/// is the same.
pub trait Form: std::fmt::Debug + Send + Sync {
    /// Writes the beginning of a datagram over zeros. Of one that is shorter only as much is sent as there is room for.
    fn write(&self, number: u64, sent: Instant, head: &mut [u8; STAMP_LEN]);

    /// Number and time of sending of a datagram; nothing if it is not the flow's.
    fn read(&self, datagram: &[u8]) -> Option<(u64, Instant)>;
}
