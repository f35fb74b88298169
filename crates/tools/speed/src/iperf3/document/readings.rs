//! The content of a document before it becomes JSON.

use std::net::SocketAddr;

use serde::Serialize;

use crate::iperf3::parameters::{TestParameters, TestTransport};
use crate::iperf3::results::{CpuUse, ServerOutput};
use crate::protocol::DataDirection;

/// The end of the test that writes the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum TestRole {
    /// The client, with the host and port to which it connected.
    #[serde(rename = "connecting_to")]
    Client {
        /// The host as the user gave it.
        host: String,
        /// The port.
        port: u16,
    },
    /// The server, with the host and port of its client on the control connection.
    #[serde(rename = "accepted_connection")]
    Server {
        /// The address of the host.
        host: String,
        /// The port.
        port: u16,
    },
}

/// The start section of the document: properties of the test that are known when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentStart {
    /// The program and its version. Some readers expect the text to begin with `iperf 3.`.
    pub version: String,
    /// The kernel, as printed by `uname -a`.
    pub system: String,
    /// The time, s since 1970.
    pub unix_seconds: u64,
    /// The end of the test that writes the document.
    pub role: TestRole,
    /// The cookie of the test.
    pub cookie: String,
    /// The requested parameters.
    pub asked: TestParameters,
    /// Maximum segment size of the control connection, bytes.
    pub mss: u32,
    /// Size of the streams' send buffers, bytes.
    pub send_buffer: u32,
    /// Size of the streams' receive buffers, bytes.
    pub receive_buffer: u32,
}

/// The endpoints of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPath {
    /// Identifier of the stream. iperf3 uses the number of its socket.
    pub socket: u32,
    /// The address of this end.
    pub local: SocketAddr,
    /// The address of the peer.
    pub remote: SocketAddr,
}

/// Kernel counters of a sender's connection at the end of an interval. In documents, they have iperf3's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TcpReadings {
    /// Segments retransmitted in the interval. Rows without the other counters have them, too.
    #[serde(skip)]
    pub retransmits: u64,
    /// Congestion window, bytes.
    #[serde(rename = "snd_cwnd")]
    pub congestion_window: u64,
    /// The receiver's window, bytes.
    #[serde(rename = "snd_wnd")]
    pub send_window: u64,
    /// Smoothed round-trip time, µs.
    pub rtt: u64,
    /// Variation of the round-trip time, µs.
    #[serde(rename = "rttvar")]
    pub rtt_variation: u64,
    /// Path MTU, bytes.
    #[serde(rename = "pmtu")]
    pub path_mtu: u64,
}

/// Counts of datagrams in an interval or in the whole test.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UdpReadings {
    /// Datagrams sent, or expected by the receiver.
    pub packets: u64,
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams out of order.
    pub out_of_order: u64,
    /// Jitter at the end of the interval, s.
    pub jitter: f64,
}

/// The data of a stream between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamInterval {
    /// Start of the interval, s after the start of the test or the end of the warm-up.
    pub start: f64,
    /// End of the interval, s after the same origin.
    pub end: f64,
    /// Whether the interval is in the warm-up.
    pub omitted: bool,
    /// Bytes sent or received.
    pub bytes: u64,
    /// Counters of a TCP sender, if the kernel reports them.
    pub tcp: Option<TcpReadings>,
    /// Counts of datagrams; zero for TCP.
    pub udp: UdpReadings,
}

/// Totals of a stream at one end, without the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamTotals {
    /// Duration without the warm-up, s.
    pub seconds: f64,
    /// Bytes sent or received.
    pub bytes: u64,
    /// Segments retransmitted, for a TCP sender that counts them.
    pub retransmits: Option<u64>,
    /// Counts of datagrams; zero for TCP.
    pub udp: UdpReadings,
}

/// All readings of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamReadings {
    /// The endpoints.
    pub path: StreamPath,
    /// Whether this end sends.
    pub sends: bool,
    /// The intervals of this end in the order of time. All streams have the same intervals.
    pub intervals: Vec<StreamInterval>,
    /// The totals of this end. `None` if the test ended early.
    pub local: Option<StreamTotals>,
    /// The totals of the peer, if it has reported them.
    pub remote: Option<StreamTotals>,
}

/// The content of a document. [`json`](Self::json) writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TestDocument {
    /// The start section.
    pub start: DocumentStart,
    /// All streams in the order of their numbers.
    pub streams: Vec<StreamReadings>,
    /// Processor use of this end.
    pub cpu: CpuUse,
    /// Processor use of the peer.
    pub remote_cpu: CpuUse,
    /// Congestion control of this end.
    pub congestion: Option<String>,
    /// Congestion control of the peer.
    pub remote_congestion: Option<String>,
    /// The output of the server, if it was requested and received.
    pub server_output: Option<ServerOutput>,
    /// Why the test ended early, if it did.
    pub error: Option<String>,
}

impl TestDocument {
    pub(super) fn is_tcp(&self) -> bool {
        self.start.asked.transport == TestTransport::Tcp
    }

    /// The directions of a test in the order of iperf3: first the data that the client sends, then the data that the
    /// server sends. Sums of the second direction have other names.
    pub(super) fn halves(&self) -> Vec<DirectionStreams<'_>> {
        let client = matches!(self.start.role, TestRole::Client { .. });
        let half = |up: bool, second: bool| DirectionStreams {
            sends: up == client,
            second,
            streams: self.streams.iter().filter(|stream| stream.sends == (up == client)).collect(),
        };
        match self.start.asked.direction {
            DataDirection::Up => vec![half(true, false)],
            DataDirection::Down => vec![half(false, false)],
            DataDirection::Both => vec![half(true, false), half(false, true)],
        }
    }
}

/// The streams of one direction.
pub(super) struct DirectionStreams<'a> {
    /// Whether this end sends.
    pub sends: bool,
    /// Whether this is the second direction of a bidirectional test.
    pub second: bool,
    pub streams: Vec<&'a StreamReadings>,
}
