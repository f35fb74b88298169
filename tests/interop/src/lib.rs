//! netrig's SCTP in real time over raw IP between network namespaces, for tests with third-party implementations.
//!
//! * [`Driver`] is netrig's end in real time: the sans-I/O association or listener, raw sockets, a clock, and one
//!   [`netrig_link::Line`] per path and direction. The lines lose packets by named random streams.
//! * [`Network`] has two namespaces joined by one veth pair per path.
//! * [`Peer`] is usrsctp in the other namespace (`peer/usrsctp_peer.c`).
//! * [`Capture`] captures every packet, and [`Findings`] has the results of Wireshark's dissector.
//!
//! All of this needs root on Linux. [`Tools::find`] prints the requirements that a machine does not meet.
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

/// Number of streams in each direction.
pub const STREAMS: u16 = 5;
