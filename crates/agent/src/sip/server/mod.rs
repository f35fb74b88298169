//! Servers of `netrig-sip` at real sockets.
//!
//! [`ServerOrder`] says which server, [`SocketsOrder`] where it listens: [`Sockets::open`], then
//! [`ServerOrder::server`] with where that is, then [`Sockets::serve`]. One thread carries all of it.
//!
//! What peers can make it keep is bounded: transactions, users, connections, bytes of each and of all. A peer that sends what
//! is no SIP, drips bytes, or takes nothing of what is sent to it, loses its connection.

mod connections;
mod datagrams;
mod delay;
mod names;
mod role;
mod sockets;
mod tally;

pub use connections::Limits;
pub use delay::ResponseDelay;
pub use names::{NameError, Names};
pub use role::{Role, RoleError, ServerOrder, User};
pub use sockets::{ServeError, Sockets, SocketsOrder};
pub use tally::{ConnectionTally, Messages, Reasons, Tally};
