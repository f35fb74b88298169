//! What a client and a server of the meter say to each other.
//!
//! The control connection is TLS; frames are those of the agent's control protocol, a length and JSON. The client opens all
//! connections, whichever way data goes, and all of them to one port of the server, so that neither an address translator nor a
//! firewall on its side has to know of the meter:
//!
//! | first bytes | is |
//! |---|---|
//! | `0x16` (TLS) | the control connection of a session |
//! | a [`Cookie`](crate::iperf3::Cookie) and a zero | a client of iperf3, or a stream of its test |
//! | `GET `, `HEAD ` or `POST ` | HTTP: ndt7's WebSocket, an object, or what the server has counted |
//! | [`Preamble`] over TCP | a connection that carries data of a phase |
//! | [`Preamble`] over UDP | "send here": answered with the same bytes, to the host of the control connection only |
//! | [`EchoDatagram`] over UDP | comes back at once, to the host of a control connection only |
//!
//! A session is greeted ([`greeting`]), waits until it is let in ([`admission`](crate::admission)), and then goes through
//! phases, one at a time: prepared, connected, begun, ended, reported. [`SpeedSession`] is the server's side of that order: it
//! says what each word of the client means, and which words mean nothing.

mod clock;
mod echo;
pub mod greeting;
mod keyring;
mod opening;
mod preamble;
mod session;
mod words;

pub use clock::clock_mark;
pub use echo::{ECHO_LEN, EchoDatagram};
pub use keyring::{Keyring, KeyringError};
pub use opening::ConnectionOpening;
pub use preamble::{PREAMBLE_LEN, Preamble, SessionToken};
pub use session::{SessionAction, SpeedSession, Violation};
pub(crate) use words::LONGEST_INTERVAL;
pub use words::{
    Budget, Carrier, DataDirection, DatagramCounts, DatagramLoad, Datagrams, EndReport, FromClient,
    FromServer, MOST_STREAMS, MeasurementPhase, PhaseError, SHORTEST_INTERVAL, StreamCounts,
};

/// The version of the protocol: both sides must have the same.
pub const VERSION: u32 = 2;

/// Connections that a client may have underway to see how the path responds, beside its session's.
pub const MOST_PROBES: usize = 12;

/// What a server says, in the place of its part of the handshake, to a client for whom it has no room: an alert of TLS
/// (`access_denied`, RFC 8446 section 6).
pub const TLS_ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// The port, of TCP and of UDP, at which a server listens by default.
pub const PORT: u16 = 8621;
