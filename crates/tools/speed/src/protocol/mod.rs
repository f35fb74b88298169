//! The protocol between a client and a server of the meter.
//!
//! The control connection is TLS. Its frames are those of the agent's control protocol: a length and JSON. The client opens all
//! connections, for both directions of data, to one port of the server. Neither an address translator nor a firewall at the client
//! then needs a rule for the meter:
//!
//! | first bytes | meaning |
//! |---|---|
//! | `0x16` (TLS) | the control connection of a session |
//! | a [`Cookie`](crate::iperf3::Cookie) and a zero | a client of iperf3, or a stream of its test |
//! | `GET `, `HEAD ` or `POST ` | HTTP: ndt7's WebSocket, an object, or what the server has counted |
//! | [`Preamble`] over TCP | a connection that carries data of a phase |
//! | [`Preamble`] over UDP | "send here": answered with the same bytes, to the host of the control connection only |
//! | [`EchoDatagram`] over UDP | comes back at once, to the host of a control connection only |
//!
//! A session starts with a [greeting](netrig_probe::greeting) and waits for its admission ([`admission`](crate::admission)). It then goes
//! through phases, one at a time: prepared, connected, begun, ended, reported. [`SpeedSession`] is the server's side of that order: it
//! maps each message of the client to an action or to a violation.

mod clock;
mod echo;
mod opening;
mod preamble;
mod session;
mod words;

pub use clock::clock_mark;
pub use echo::{ECHO_LEN, EchoDatagram};
pub use netrig_bulk::{Datagrams, EndReport};
use netrig_probe::greeting::{GreetedProtocol, ServerGreeting};
pub use netrig_probe::{Keyring, KeyringError};
pub use opening::ConnectionOpening;
pub use preamble::{PREAMBLE_LEN, Preamble, SessionToken};
pub use session::{SessionAction, SpeedSession, Violation};
pub(crate) use words::LONGEST_INTERVAL;
pub use words::{
    Budget, Carrier, ConnectionCounts, DataDirection, DatagramCounts, DatagramLoad, FromClient, FromServer,
    MOST_STREAMS, MeasurementPhase, PhaseError, SHORTEST_INTERVAL,
};

/// The protocol. The channel binding of its greeting is that of the TLS connection.
pub static SPEED: GreetedProtocol = GreetedProtocol {
    name: "speed",
    version: 2,
    prefixes: [b"netrig speed client", b"netrig speed server"],
    refusal: ServerGreeting::Failed,
};

/// The label of the exporter of the channel binding (RFC 9266 section 2).
pub const EXPORTER: &[u8] = b"EXPORTER-Channel-Binding";

/// The most concurrent connections of a client for responsiveness probes, in addition to its session.
pub const MOST_PROBES: usize = 12;

/// The TLS alert `access_denied` (RFC 8446 section 6), which a server without room sends instead of its handshake.
pub const TLS_ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// The default port of a server, for TCP and UDP.
pub const PORT: u16 = 8621;
