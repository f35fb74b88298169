//! The header of the datagrams of a flow.

use netrig_core::Instant;

use crate::datagram::STAMP_LEN;

/// Writes and reads the header of each datagram of a flow: its sequence number, from 0, and when it was sent.
///
/// netrig's own datagrams begin with a [`DatagramStamp`](crate::DatagramStamp). Other protocols, such as that of
/// iperf3, have their own headers.
pub trait DatagramFormat: std::fmt::Debug + Send + Sync {
    /// Writes the header into `head`, which contains zeros. If the datagram is shorter than `head`, only the first
    /// bytes of `head` are sent.
    fn write(&self, number: u64, sent: Instant, head: &mut [u8; STAMP_LEN]);

    /// Sequence number and send time of a datagram; `None` if the datagram does not belong to the flow.
    fn read(&self, datagram: &[u8]) -> Option<(u64, Instant)>;
}
