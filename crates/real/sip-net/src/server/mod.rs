//! Servers of `netrig-sip` at real sockets.
//!
//! [`SocketsOrder`] says where one listens: [`Sockets::open`], then a server that knows where that is
//! ([`netrig_sip::server::ServerOrder`]), then [`Sockets::serve`]. One thread runs all of it; [`PartitionedSockets`] are those of
//! several threads, each with a partition of the server's state.
//!
//! What peers can make it keep is bounded: transactions, users, connections, bytes of each and of all. A peer that sends what
//! is no SIP, drips bytes, or takes nothing of what is sent to it, loses its connection.

mod connections;
mod datagrams;
mod handover;
mod names;
mod order;
mod partitioned;
mod sockets;
mod tally;
mod unsent;

pub use connections::Limits;
pub use names::{NameError, Names};
pub use order::{ServeError, SocketsOrder};
pub use partitioned::PartitionedSockets;
pub use sockets::Sockets;
pub use tally::{ConnectionTally, Messages, Reasons, Tally};
