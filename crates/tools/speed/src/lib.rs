//! The access-speed meter. It measures the rate of a line and its delay under load, and finds what limited the
//! measurement.
//!
//! The client asks a server for a test over a control connection. Data is sent over connections that the client has
//! opened, or in datagrams, and each end measures what it *receives*. The result is a sentence on what limited the
//! measurement, with the counters that prove it. It is derived from the counts of both ends.
//!
//! * **Protocols convert bytes to bytes.** All protocols are state machines without sockets. Tests and fuzzers run the
//!   same code as a server.
//! * **No unrequested traffic.** Datagrams go only to an address that has requested them over TCP and has proved that
//!   it receives them.
//! * **The memory of a server is bounded** for any behaviour of its clients. A client beyond the limits waits in a
//!   queue of bounded length, or is refused.
//!
//! Start from [`measure::measure`] (the client) and [`serve::Server`]. Their protocol is in [`protocol`].
//!
//! The meter never changes interfaces, routes or settings of the host. `tune` only recommends settings. Sockets, clocks
//! and threads are used only in the modules `carry`, `control`, `flows`, `measure` and `serve`. A lint forbids them in
//! all other modules.
#![deny(unsafe_code)]

pub mod admission;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it drives the agent's sockets")]
pub mod carry;
pub mod cause;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it speaks over a socket")]
mod control;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it drives the agent's sockets")]
pub mod flows;
pub mod iperf3;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it calls a server, over sockets")]
pub mod measure;
pub mod meter;
pub mod ndt7;
pub mod protocol;
pub mod request;
pub mod responsiveness;
pub mod search;
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it serves clients, over sockets")]
pub mod serve;
pub mod tune;
