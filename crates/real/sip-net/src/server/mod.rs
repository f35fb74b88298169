//! Servers of `netrig-sip` on real sockets.
//!
//! [`SocketsOrder`] has the listening addresses. [`Sockets::open`] opens them, [`netrig_sip::server::ServerOrder`]
//! makes a server for the resulting addresses, and [`Sockets::serve`] runs it on one thread. [`PartitionedSockets`] are
//! the sockets of several threads, each with a partition of the server's state.
//!
//! The state that peers can create is limited: transactions, users, connections, and the memory of each connection and
//! of all together. If a peer sends invalid bytes, sends too slowly or does not receive, its connection is closed.

mod connections;
mod datagrams;
mod handover;
mod names;
mod order;
mod partitioned;
mod sockets;
mod tally;
mod text;
mod unsent;

pub use connections::Limits;
pub use names::{NameError, Names};
pub use order::{ServeError, SocketsOrder};
pub use partitioned::PartitionedSockets;
pub use sockets::Sockets;
pub use tally::{ConnectionTally, Messages, Tally};
pub use text::ServerDocument;
