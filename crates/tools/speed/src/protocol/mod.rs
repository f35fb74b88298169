//! The protocol between a client and a server of the meter.
//!
//! The control connection is TLS. Its frames have the format of the agent's control protocol: a length and JSON. The
//! client opens all connections, for both directions of data, to one port of the server. An address translator or a
//! firewall at the client then needs no rule for the meter. The server detects the protocol of a connection or datagram
//! by its first bytes:
//!
//! | first bytes | meaning |
//! |---|---|
//! | `0x16` (TLS) | the control connection of a session |
//! | a [`Cookie`](crate::iperf3::Cookie) and a zero | a client of iperf3, or a stream of its test |
//! | `GET `, `HEAD ` or `POST ` | HTTP: ndt7's WebSocket, an object, or the server's counters |
//! | [`Preamble`] over TCP | a connection that carries data of a phase |
//! | [`Preamble`] over UDP | a request for datagrams: answered with the same bytes, only to the host of the control connection |
//! | [`EchoDatagram`] over UDP | answered immediately, only to the host of a control connection |
//!
//! A session starts with a [greeting](netrig_probe::greeting) and waits for its admission
//! ([`admission`](crate::admission)). It then goes through phases, one at a time: each is prepared, connected, begun,
//! ended and reported. [`SpeedSession`] is the server's side of this sequence. It maps each message of the client to an
//! action or to a violation.

mod clock;
mod echo;
mod opening;
mod preamble;
mod session;
mod words;

pub use clock::clock_mark;
pub use echo::{ECHO_LEN, EchoDatagram};
pub use netrig_bulk::{ConnectionCounts, Datagrams, EndReport};
use netrig_probe::greeting::{GreetedProtocol, ServerGreeting};
pub use netrig_probe::{Keyring, KeyringError};
pub use opening::ConnectionOpening;
pub use preamble::{PREAMBLE_LEN, Preamble, SessionToken};
pub use session::{SessionAction, SpeedSession, Violation};
pub(crate) use words::LONGEST_INTERVAL;
pub use words::{
    Budget, COUNTS_IN_A_FRAME, Carrier, DataDirection, DatagramCounts, DatagramLoad, FromClient, FromServer,
    MOST_STREAMS, MeasurementPhase, PhaseError, SHORTEST_INTERVAL,
};

/// Name, version, proof prefixes and refusal message of the speed protocol. Its greeting uses the channel binding of
/// the TLS connection.
pub static SPEED: GreetedProtocol = GreetedProtocol {
    name: "speed",
    version: 2,
    prefixes: [b"netrig speed client", b"netrig speed server"],
    refusal: ServerGreeting::Failed,
};

/// The exporter label of the channel binding (RFC 9266 section 2).
pub const EXPORTER: &[u8] = b"EXPORTER-Channel-Binding";

/// Maximum number of concurrent connections of a client for responsiveness probes, in addition to its session.
pub const MOST_PROBES: usize = 12;

/// The TLS alert `access_denied` (RFC 8446 section 6), which a server at its limit sends instead of its handshake.
pub const TLS_ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// The default port of a server, for TCP and UDP.
pub const PORT: u16 = 8621;
