//! netrig's SCTP in real time, over raw IP between network namespaces, for tests against third-party implementations.
//!
//! * [`Driver`] is the real-time end: the sans-IO association or listener, raw sockets, a clock, and one
//!   [`netrig_link::Line`] per path and direction, where packets are lost by named chance.
//! * [`Network`] is two namespaces joined by as many veth pairs as there are paths.
//! * [`Peer`] is usrsctp in the other namespace (`peer/usrsctp_peer.c`).
//! * [`Capture`] writes down every packet, and [`Findings`] is what Wireshark's dissector says of them.
//!
//! Everything here runs as root on Linux; [`Tools::find`] says what a machine lacks.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the driver is where real time, sockets and files belong"
)]

mod capture;
mod driver;
mod journal;
mod network;
mod peer;
mod record;
mod socket;
mod tools;

pub use capture::{Capture, Findings, write_capture};
pub use driver::{Action, Driver, Step, User};
pub use network::{Namespace, Network, Side};
pub use peer::{Peer, Plan, Said};
pub use record::{Outcome, PathTally};
pub use tools::Tools;

/// Streams in each direction.
pub const STREAMS: u16 = 5;
