//! The protocol of iperf3. iperf3 clients can use netrig's server, and netrig's client can use iperf3 servers.
//!
//! A test has a control connection and, for each stream, a connection or a source address of datagrams. The client
//! opens the streams of both directions, and ends the test. The server announces each new state with one byte.
//!
//! ```text
//! client                                     server
//!   cookie, 37 bytes ───────────────────────▶
//!   ◀─────────────────────────────────────── PARAM_EXCHANGE
//!   length, parameters as JSON ─────────────▶
//!   ◀─────────────────────────────────────── CREATE_STREAMS
//!   opens its streams ══════════════════════▶   TCP: the cookie; UDP: four bytes, which are answered by four
//!   ◀─────────────────────────────────────── TEST_START, TEST_RUNNING
//!   ◀═════════════ data ════════════════════▶
//!   TEST_END ───────────────────────────────▶   closes its streams
//!   ◀─────────────────────────────────────── EXCHANGE_RESULTS
//!   length, results as JSON ────────────────▶
//!   ◀──────────────── length, results as JSON, DISPLAY_RESULTS
//!   IPERF_DONE ─────────────────────────────▶
//! ```
//!
//! [`ServerSession`] and [`ClientSession`] are the two ends of the control connection. Their inputs are bytes and the
//! time, and their outputs are bytes and events. The owner of the sockets opens the streams and transfers the data.
//! Sessions share no state, so a server can have many of them. The [`Cookie`] assigns a data connection to its session.
//! Datagrams have no cookie, so only one session per address opens UDP streams at a time ([`OpeningTurns`]).
//!
//! The messages are those of iperf3 3.12 and were compared with it. Additions of later versions are understood, and are
//! sent if older versions ignore them. The only specification of the protocol is the program itself (BSD licence).

mod cjson;
mod client;
mod code;
mod cookie;
pub mod datagram;
mod document;
mod error;
mod inbox;
mod parameters;
mod results;
mod server;
mod state;
mod turns;

pub use client::{ClientEvent, ClientSession};
pub use code::{Iperf3Code, Iperf3Refusal};
pub use cookie::{COOKIE_LEN, Cookie};
pub use document::{
    DocumentStart, StreamInterval, StreamPath, StreamReadings, StreamTotals, TcpReadings, TestDocument,
    TestRole, UdpReadings,
};
pub use error::{SessionError, SessionPhase};
pub use parameters::{ParameterError, TestLimits, TestParameters, TestTransport};
pub use results::{CpuUse, ResultsError, ServerOutput, StreamResult, TestResults};
pub use server::{ServerEvent, ServerSession};
pub use state::TestState;
pub use turns::OpeningTurns;

/// The default port of a server, for TCP and UDP.
pub const PORT: u16 = 5201;

/// Maximum number of streams of a test in one direction.
pub const MOST_STREAMS: u32 = 128;

/// Default duration of a test, s.
pub const DEFAULT_TIME: u32 = 10;

/// Default size of a TCP block, bytes.
pub const DEFAULT_TCP_LEN: u32 = 128 * 1024;

/// Default payload of a datagram, bytes.
pub const DEFAULT_UDP_LEN: u32 = 1460;

/// The identifier of the `nth` stream, counted from 0. The first is 1 and the second is 3. This error of the first
/// releases of iperf3 is kept, because both ends must use the same numbers.
pub const fn stream_id(nth: u32) -> u32 {
    if nth == 0 { 1 } else { nth + 2 }
}

#[cfg(test)]
mod session_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_as_iperf3_does() {
        let ids: Vec<_> = (0..5).map(stream_id).collect();
        assert_eq!(ids, [1, 3, 4, 5, 6]);
    }
}
