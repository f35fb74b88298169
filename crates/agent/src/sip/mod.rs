//! SIP over real sockets: servers of `netrig-sip` where others can reach them.
//!
//! [`ServerOrder`] says which server, [`SocketsOrder`] where it listens: [`Sockets::open`], then
//! [`ServerOrder::server`] with where that is, then [`Sockets::serve`]. One thread carries all of it. [`SipStream`] is a
//! connection that carries SIP messages, for whoever has one.
//!
//! What peers can make it keep is bounded: transactions, users, connections, bytes of each and of all. A peer that sends what
//! is no SIP, drips bytes, or takes nothing of what is sent to it, loses its connection.

mod connections;
mod datagrams;
mod delay;
mod names;
mod point;
mod role;
mod sockets;
mod stream;
#[cfg(test)]
mod stream_tests;
mod tally;
pub mod tls;

pub use connections::Limits;
pub use delay::ResponseDelay;
pub use names::{NameError, Names};
pub use point::{ListeningPoint, PointError};
pub use role::{Role, RoleError, ServerOrder, User};
pub use sockets::{ServeError, Sockets, SocketsOrder};
pub use stream::{Bounds, SipStream, StreamError, Turn, server_name};
pub use tally::{ConnectionTally, Messages, Reasons, Tally};
