//! The far end of a transfer, a call or a video: it receives data and reports what arrived and when.
//!
//! A probe connects to a [`FarEnd`](super::FarEnd) over TCP, authenticates, and announces what it will send. The
//! receiver opens a socket, states its port, and sends a report after all data have arrived. It sends no datagrams. It
//! accepts datagrams and connections only from the address of the probe. It keeps at most [`MOST_BYTES`] for each
//! probe, and [`MOST_BYTES_TOGETHER`] for all probes.
//!
//! Start from [`Remote`], the near end's connection to a receiver.

mod protocol;
mod remote;
mod server;

use netrig_core::Duration;

pub use protocol::ReceivedDatagram;
pub(super) use remote::ReceivedDatagrams;
pub use remote::Remote;
pub(super) use server::{generous, serve};

/// Maximum number of bytes of datagrams that a receiver keeps for one probe, including book-keeping. If a probe exceeds
/// it, the receiver ends the request with an error.
pub const MOST_BYTES: usize = 64 << 20;

/// Maximum number of bytes that a far end keeps for all probes together: received datagrams, records of streams and
/// buffers of transfers. If no memory is left for a probe, the probe is refused or ended.
pub const MOST_BYTES_TOGETHER: usize = 256 << 20;

/// Maximum number of connections of one transfer. Each has a thread. A request for more is refused.
pub const MOST_CONNECTIONS: u16 = 64;

/// Maximum duration of one probe.
pub const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
