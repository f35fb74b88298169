//! The document that `iperf3 -J` prints, of whatever was measured, for programs that read it.

mod rows;

use std::net::SocketAddr;

use serde::Serialize;
use serde_json::Value;

use self::rows::{End as EndRows, Rows, interval_rows};
use super::parameters::{Direction, Parameters, Transport};
use super::results::{Cpu, ServerOutput};

/// Which end of the test tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
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
pub struct Start {
    /// The program and its version. Some readers expect `iperf 3.` at its beginning.
    pub version: String,
    /// The kernel, as `uname -a` tells it.
    pub system: String,
    /// When, s since 1970.
    pub unix_seconds: u64,
    /// Which end this is.
    pub role: Role,
    /// Of the test.
    pub cookie: String,
    /// What was asked for.
    pub asked: Parameters,
    /// Longest segment of the connection for control, bytes.
    pub mss: u32,
    /// Size of the streams' buffers for sending, bytes.
    pub send_buffer: u32,
    /// Size of their buffers for receiving, bytes.
    pub receive_buffer: u32,
}

/// Where a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
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
pub struct Interval {
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
pub struct End {
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
    pub path: Path,
    /// Whether this end sends.
    pub sends: bool,
    /// What this end saw, in the order of time; all streams have the same intervals.
    pub intervals: Vec<Interval>,
    /// What this end knows at the end; nothing of a test that did not get so far.
    pub local: Option<End>,
    /// What the other end said.
    pub remote: Option<End>,
}

/// A test as it is told: by [`json`](Self::json).
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What was known when it began.
    pub start: Start,
    /// All streams, in the order of their numbers.
    pub streams: Vec<StreamReadings>,
    /// This end's processor.
    pub cpu: Cpu,
    /// The other end's.
    pub remote_cpu: Cpu,
    /// This end's congestion control.
    pub congestion: Option<String>,
    /// The other end's.
    pub remote_congestion: Option<String>,
    /// What the server would print.
    pub server_output: Option<ServerOutput>,
    /// Why the test did not come to its end.
    pub error: Option<String>,
}

#[derive(Serialize)]
struct Whole<'a> {
    start: Started<'a>,
    intervals: Vec<Rows>,
    end: EndRows<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_data: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_output_json: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_output_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Started<'a> {
    connected: Vec<Connected>,
    version: &'a str,
    system_info: &'a str,
    timestamp: Timestamp,
    #[serde(flatten)]
    peer: Peer,
    cookie: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_mss: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_mss_default: Option<u32>,
    target_bitrate: u64,
    sock_bufsize: u32,
    sndbuf_actual: u32,
    rcvbuf_actual: u32,
    test_start: TestStart,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Peer {
    ConnectingTo { host: String, port: u16 },
    AcceptedConnection { host: String, port: u16 },
}

#[derive(Serialize)]
struct Timestamp {
    time: String,
    timesecs: u64,
}

#[derive(Serialize)]
struct Connected {
    socket: u32,
    local_host: String,
    local_port: u16,
    remote_host: String,
    remote_port: u16,
}

#[derive(Serialize)]
struct TestStart {
    protocol: &'static str,
    num_streams: u32,
    blksize: u32,
    omit: u32,
    duration: u32,
    bytes: u64,
    blocks: u64,
    reverse: u8,
    tos: u8,
    target_bitrate: u64,
}

impl Document {
    /// As JSON, with iperf3's names in its order. `Infinity` and the like, which JSON has not, are 0.
    pub fn json(&self) -> String {
        let asked = &self.start.asked;
        let (json, text) = match &self.server_output {
            Some(ServerOutput::Json(json)) => (Some(json), None),
            Some(ServerOutput::Text(text)) => (None, Some(text.as_str())),
            None => (None, None),
        };
        let whole = Whole {
            start: self.started(),
            intervals: interval_rows(self),
            end: EndRows::new(self),
            title: asked.title.as_deref(),
            extra_data: asked.extra_data.as_deref(),
            server_output_json: json,
            server_output_text: text,
            error: self.error.as_deref(),
        };
        // A structure of numbers and texts always has a form.
        serde_json::to_string_pretty(&whole).unwrap_or_default()
    }

    fn started(&self) -> Started<'_> {
        let Start { asked, .. } = &self.start;
        let tcp = asked.transport == Transport::Tcp;
        let connected = |stream: &StreamReadings| {
            let Path { socket, local, remote } = stream.path;
            let host = |address: SocketAddr| address.ip().to_canonical().to_string();
            Connected {
                socket,
                local_host: host(local),
                local_port: local.port(),
                remote_host: host(remote),
                remote_port: remote.port(),
            }
        };
        Started {
            connected: self.streams.iter().map(connected).collect(),
            version: &self.start.version,
            system_info: &self.start.system,
            timestamp: Timestamp {
                time: http_date(self.start.unix_seconds),
                timesecs: self.start.unix_seconds,
            },
            peer: match &self.start.role {
                Role::Client { host, port } => Peer::ConnectingTo { host: host.clone(), port: *port },
                Role::Server { client } => Peer::AcceptedConnection {
                    host: client.ip().to_canonical().to_string(),
                    port: client.port(),
                },
            },
            cookie: &self.start.cookie,
            tcp_mss: Some(asked.mss).filter(|mss| tcp && *mss > 0),
            tcp_mss_default: Some(self.start.mss).filter(|_| tcp && asked.mss == 0),
            target_bitrate: asked.rate,
            sock_bufsize: asked.window,
            sndbuf_actual: self.start.send_buffer,
            rcvbuf_actual: self.start.receive_buffer,
            test_start: TestStart {
                protocol: if tcp { "TCP" } else { "UDP" },
                num_streams: asked.parallel,
                blksize: asked.len,
                omit: asked.omit,
                duration: asked.time,
                bytes: asked.bytes,
                blocks: asked.blocks,
                reverse: (asked.direction == Direction::Download).into(),
                tos: asked.tos,
                target_bitrate: asked.rate,
            },
        }
    }

    fn is_tcp(&self) -> bool {
        self.start.asked.transport == Transport::Tcp
    }

    /// The two halves of a test, or the one it has, as iperf3 orders them: what the client sends, and then what the server
    /// does. The names of sums of the second half of two end differently.
    fn halves(&self) -> Vec<Half<'_>> {
        let client = matches!(self.start.role, Role::Client { .. });
        let half = |up: bool, second: bool| Half {
            sends: up == client,
            second,
            streams: self.streams.iter().filter(|stream| stream.sends == (up == client)).collect(),
        };
        match self.start.asked.direction {
            Direction::Upload => vec![half(true, false)],
            Direction::Download => vec![half(false, false)],
            Direction::Both => vec![half(true, false), half(false, true)],
        }
    }
}

/// The streams of one direction.
struct Half<'a> {
    /// Whether this end sends.
    sends: bool,
    /// It is the second of two.
    second: bool,
    streams: Vec<&'a StreamReadings>,
}

/// A moment as HTTP's headers have it (RFC 9110 section 5.6.7).
fn http_date(unix_seconds: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // 400 years always have as many days.
    let (mut year, mut day) = (1970 + days / 146_097 * 400, days % 146_097);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    for len in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < len {
            break;
        }
        day -= len;
        month += 1;
    }
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT", day + 1, MONTHS[month])
}

#[cfg(test)]
mod tests;
