//! Bulk data over sockets that stand: what the ends of a meter send, and what they receive.
//!
//! Who asks for it has opened the connections, by whatever protocol; what is carried is zeros, which nobody reads, and at
//! stated intervals there is a [`Reading`] of what has gone through and of what the kernel says about each connection.
//!
//! It decides neither how long it goes on nor what a reading means.
//!
//! Start from [`Streams`].

mod effort;
mod host;
mod streams;

pub use effort::Effort;
pub use host::{HostCounters, HostReport, ProcessorShare};
pub use streams::{Carried, Direction, End, Reading, StreamOrder, Streams};
