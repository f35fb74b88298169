//! What was measured of a test, before it becomes JSON.

use std::net::SocketAddr;

use crate::iperf3::parameters::{TestDirection, TestParameters, TestTransport};
use crate::iperf3::results::{CpuUse, ServerOutput};

/// Which end of the test tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestRole {
    /// The client, which was told to connect to that host and port.
    Client {
        /// As it was given.
        host: String,
        /// Its port.
        port: u16,
    },
    /// The server, to which a client has connected from there.
    Server {
        /// The client's end of the connection for control.
        client: SocketAddr,
    },
}

/// What was known when the test began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentStart {
    /// The program and its version. Some readers expect `iperf 3.` at its beginning.
    pub version: String,
    /// The kernel, as `uname -a` tells it.
    pub system: String,
    /// When, s since 1970.
    pub unix_seconds: u64,
    /// Which end this is.
    pub role: TestRole,
    /// Of the test.
    pub cookie: String,
    /// What was asked for.
    pub asked: TestParameters,
    /// Longest segment of the connection for control, bytes.
    pub mss: u32,
    /// Size of the streams' buffers for sending, bytes.
    pub send_buffer: u32,
    /// Size of their buffers for receiving, bytes.
    pub receive_buffer: u32,
}

/// Where a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPath {
    /// What tells the stream from others; iperf3 has the number of its socket there.
    pub socket: u32,
    /// This end.
    pub local: SocketAddr,
    /// The other one.
    pub remote: SocketAddr,
}

/// What the kernel said of a sender's connection at the end of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpReadings {
    /// Segments sent again in the interval.
    pub retransmits: u64,
    /// Congestion window, bytes.
    pub congestion_window: u64,
    /// The receiver's window, bytes.
    pub send_window: u64,
    /// Smoothed round trip, µs.
    pub rtt: u64,
    /// Its variation, µs.
    pub rtt_variation: u64,
    /// Path MTU, bytes.
    pub path_mtu: u64,
}

/// What was counted of datagrams in an interval, or on the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UdpReadings {
    /// Sent, or those that should have arrived.
    pub packets: u64,
    /// Of these, those that did not.
    pub lost: u64,
    /// Arrived after a later one.
    pub out_of_order: u64,
    /// At its end, s.
    pub jitter: f64,
}

/// What a stream carried between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamInterval {
    /// Its beginning, s after the start of the test or the end of the warm-up.
    pub start: f64,
    /// Its end.
    pub end: f64,
    /// It was in the warm-up.
    pub omitted: bool,
    /// Sent, or received.
    pub bytes: u64,
    /// Of a sender over TCP, if the kernel tells.
    pub tcp: Option<TcpReadings>,
    /// Over UDP.
    pub udp: UdpReadings,
}

/// What one end knows of a stream on the whole, without its warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamTotals {
    /// How long it took, s.
    pub seconds: f64,
    /// Sent, or received.
    pub bytes: u64,
    /// Segments sent again, of a sender over TCP who knows.
    pub retransmits: Option<u64>,
    /// Over UDP.
    pub udp: UdpReadings,
}

/// Everything about a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamReadings {
    /// Where it goes.
    pub path: StreamPath,
    /// Whether this end sends.
    pub sends: bool,
    /// What this end saw, in the order of time; all streams have the same intervals.
    pub intervals: Vec<StreamInterval>,
    /// What this end knows at the end; nothing of a test that did not get so far.
    pub local: Option<StreamTotals>,
    /// What the other end said.
    pub remote: Option<StreamTotals>,
}

/// A test as it is told: by [`json`](Self::json).
#[derive(Clone, Debug, PartialEq)]
pub struct TestDocument {
    /// What was known when it began.
    pub start: DocumentStart,
    /// All streams, in the order of their numbers.
    pub streams: Vec<StreamReadings>,
    /// This end's processor.
    pub cpu: CpuUse,
    /// The other end's.
    pub remote_cpu: CpuUse,
    /// This end's congestion control.
    pub congestion: Option<String>,
    /// The other end's.
    pub remote_congestion: Option<String>,
    /// What the server would print.
    pub server_output: Option<ServerOutput>,
    /// Why the test did not come to its end.
    pub error: Option<String>,
}

impl TestDocument {
    pub(super) fn is_tcp(&self) -> bool {
        self.start.asked.transport == TestTransport::Tcp
    }

    /// The two halves of a test, or the one it has, as iperf3 orders them: what the client sends, and then what the server
    /// does. The names of sums of the second half of two end differently.
    pub(super) fn halves(&self) -> Vec<DirectionStreams<'_>> {
        let client = matches!(self.start.role, TestRole::Client { .. });
        let half = |up: bool, second: bool| DirectionStreams {
            sends: up == client,
            second,
            streams: self.streams.iter().filter(|stream| stream.sends == (up == client)).collect(),
        };
        match self.start.asked.direction {
            TestDirection::Upload => vec![half(true, false)],
            TestDirection::Download => vec![half(false, false)],
            TestDirection::Both => vec![half(true, false), half(false, true)],
        }
    }
}

/// The streams of one direction.
pub(super) struct DirectionStreams<'a> {
    /// Whether this end sends.
    pub sends: bool,
    /// It is the second of two.
    pub second: bool,
    pub streams: Vec<&'a StreamReadings>,
}
