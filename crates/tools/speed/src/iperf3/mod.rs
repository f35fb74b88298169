//! What iperf3 speaks: its clients can use a server of ours, and our client its servers.
//!
//! A test has one connection for control and one connection, or one address of datagrams, for each stream. Whichever way
//! the data goes, the client opens them all and ends the test; the server says which state comes next, by one byte.
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
//! [`ServerSession`] and [`ClientSession`] are the two ends of the connection for control. They are given bytes and the time,
//! and say what to send and what to do; who has the sockets opens the streams and moves the data. Sessions share nothing, so
//! that a server may have as many as it likes: the [`Cookie`] tells to which a connection of data belongs. Datagrams have no
//! cookie, so of all sessions of one address only one opens streams at a time ([`OpeningTurns`]).
//!
//! The form is that of iperf3 3.12, and was compared with it; what later versions added is understood and, where older ones
//! do not mind, said. There is no other description of it than the program (BSD licence).

mod client;
mod code;
mod cookie;
pub mod datagram;
mod document;
mod error;
mod inbox;
mod number;
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
pub use parameters::{ParameterError, TestDirection, TestLimits, TestParameters, TestTransport};
pub use results::{CpuUse, ResultsError, ServerOutput, StreamResult, TestResults};
pub use server::{ServerEvent, ServerSession};
pub use state::TestState;
pub use turns::OpeningTurns;

/// The port on which a server listens by default, of TCP and UDP.
pub const PORT: u16 = 5201;

/// Streams of a test in one direction, at most.
pub const MOST_STREAMS: u32 = 128;

/// How long a test lasts if nothing is said, s.
pub const DEFAULT_TIME: u32 = 10;

/// Bytes of a block over TCP if nothing is said.
pub const DEFAULT_TCP_LEN: u32 = 128 * 1024;

/// Bytes of a datagram if nothing is said.
pub const DEFAULT_UDP_LEN: u32 = 1460;

/// The rate of a stream over UDP if nothing is said to the client, bit/s.
pub const DEFAULT_UDP_RATE: u64 = 1024 * 1024;

/// The number of a test's `nth` stream, from 0. The first is 1 and the second 3: what began as a slip in the first releases
/// is kept, for both ends count alike.
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
