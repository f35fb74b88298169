//! The far end of a transfer, a call or a video: takes what is sent, and tells what came and when.
//!
//! Who probes connects to a [`FarEnd`](super::FarEnd) over TCP, is let in, and says what will come; the receiver opens a
//! socket for it, says where, and when all has come reports. It sends no datagram to anybody, takes datagrams and connections
//! only from the address of who asked, and keeps no more than [`MOST_BYTES`], of all probes [`MOST_BYTES_TOGETHER`].
//!
//! Start from [`Remote`], the near end.

mod protocol;
mod remote;
mod server;

use netrig_core::Duration;

pub use protocol::ReceivedDatagram;
pub(super) use remote::ReceivedDatagrams;
pub use remote::Remote;
pub(super) use server::{generous, serve};

/// Bytes of datagrams that a receiver keeps for one probe, book-keeping included: beyond that it refuses to go on.
pub const MOST_BYTES: usize = 64 << 20;

/// Bytes that a far end keeps for all of its probes together: what they send it, what it tells of their streams, and what it
/// reads their transfers into. A probe for which there is no room is refused, or does not go on.
pub const MOST_BYTES_TOGETHER: usize = 256 << 20;

/// Connections that a receiver takes for one transfer, each with a thread of its own: who asks for more is refused.
pub const MOST_CONNECTIONS: u16 = 64;

/// The longest that one probe may last.
pub const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
