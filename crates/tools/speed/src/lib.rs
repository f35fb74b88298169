//! The access-speed meter: how fast a line is, how long packets take while it is busy, and what limited the measurement.
//!
//! A meter is two agents and a verdict. The client asks a server for a test over a control connection; data goes over
//! connections and datagrams that the client opened, and each end measures what it *receives*. What was found, at both
//! ends, becomes one sentence with the counter that proves it.
//!
//! * **Protocols are bytes in, bytes out.** Our own and those of others are state machines that know no socket, so that
//!   tests and fuzzers drive the very code that a server runs.
//! * **Nobody is sent anything unasked.** Datagrams go only to an address that has asked for them over TCP and has shown
//!   that it receives there.
//! * **A server's memory is bounded** whatever its clients do: who comes beyond the limits waits in a queue of stated length,
//!   or is told to come later.
//!
//! Start from [`measure::measure`], the client, and [`serve::Server`]; what both say is [`protocol`].
//!
//! It never touches interfaces, routes or the settings of the host: `tune` says what to set, and sets nothing.
//! The modules that drive sockets, clocks and threads are `carry`, `flows`, `measure`, `serve` and `talk`; a lint keeps all others
//! from them.
#![deny(unsafe_code)]

pub mod admission;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it drives the agent's sockets")]
pub mod carry;
pub mod cause;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it drives the agent's sockets")]
pub mod flows;
pub mod iperf3;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it calls a server, over sockets")]
pub mod measure;
pub mod meter;
pub mod ndt7;
pub mod protocol;
mod quantities;
pub mod responsiveness;
pub mod search;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it serves clients, over sockets")]
pub mod serve;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it speaks over a socket")]
mod talk;
pub mod tune;
