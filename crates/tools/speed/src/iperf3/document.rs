//! The JSON document that `iperf3 -J` prints. Other programs read it.

mod readings;
mod rows;

use std::net::SocketAddr;

use serde::Serialize;
use time::OffsetDateTime;

pub use self::readings::{
    DocumentStart, StreamInterval, StreamPath, StreamReadings, StreamTotals, TcpReadings, TestDocument,
    TestRole, UdpReadings,
};
use self::rows::{JsonEnd, JsonInterval, interval_rows};
use super::parameters::TestTransport;
use super::results::{ServerOutput, output};
use crate::protocol::DataDirection;

#[derive(Serialize)]
struct JsonDocument<'a> {
    start: JsonStart<'a>,
    intervals: Vec<JsonInterval>,
    end: JsonEnd<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_data: Option<&'a str>,
    #[serde(flatten, serialize_with = "output::serialize")]
    server_output: &'a Option<ServerOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonStart<'a> {
    connected: Vec<Connected>,
    version: &'a str,
    system_info: &'a str,
    timestamp: Timestamp,
    #[serde(flatten)]
    role: &'a TestRole,
    cookie: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_mss: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_mss_default: Option<u32>,
    target_bitrate: u64,
    sock_bufsize: u32,
    sndbuf_actual: u32,
    rcvbuf_actual: u32,
    test_start: JsonTestStart,
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
struct JsonTestStart {
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

impl TestDocument {
    /// The document as JSON, with iperf3's names, in iperf3's order. Infinite and undefined numbers, which JSON does
    /// not have, are 0.
    pub fn json(&self) -> String {
        let asked = &self.start.asked;
        let whole = JsonDocument {
            start: self.started(),
            intervals: interval_rows(self),
            end: JsonEnd::new(self),
            title: asked.title.as_deref(),
            extra_data: asked.extra_data.as_deref(),
            server_output: &self.server_output,
            error: self.error.as_deref(),
        };
        // Serialising numbers and text cannot fail.
        serde_json::to_string_pretty(&whole).unwrap_or_default()
    }

    fn started(&self) -> JsonStart<'_> {
        let DocumentStart { asked, .. } = &self.start;
        let tcp = asked.transport == TestTransport::Tcp;
        let connected = |stream: &StreamReadings| {
            let StreamPath { socket, local, remote } = stream.path;
            let host = |address: SocketAddr| address.ip().to_canonical().to_string();
            Connected {
                socket,
                local_host: host(local),
                local_port: local.port(),
                remote_host: host(remote),
                remote_port: remote.port(),
            }
        };
        JsonStart {
            connected: self.streams.iter().map(connected).collect(),
            version: &self.start.version,
            system_info: &self.start.system,
            timestamp: Timestamp {
                time: http_date(self.start.unix_seconds),
                timesecs: self.start.unix_seconds,
            },
            role: &self.start.role,
            cookie: &self.start.cookie,
            tcp_mss: Some(asked.mss).filter(|mss| tcp && *mss > 0),
            tcp_mss_default: Some(self.start.mss).filter(|_| tcp && asked.mss == 0),
            target_bitrate: asked.rate,
            sock_bufsize: asked.window,
            sndbuf_actual: self.start.send_buffer,
            rcvbuf_actual: self.start.receive_buffer,
            test_start: JsonTestStart {
                protocol: if tcp { "TCP" } else { "UDP" },
                num_streams: asked.parallel,
                blksize: asked.len,
                omit: asked.omit,
                duration: asked.time,
                bytes: asked.bytes,
                blocks: asked.blocks,
                reverse: (asked.direction == DataDirection::Down).into(),
                tos: asked.tos,
                target_bitrate: asked.rate,
            },
        }
    }
}

/// Formats a time as in HTTP headers (RFC 9110 section 5.6.7).
fn http_date(unix_seconds: u64) -> String {
    let date =
        i64::try_from(unix_seconds).ok().and_then(|time| OffsetDateTime::from_unix_timestamp(time).ok());
    let date = date.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let [weekday, month] = [date.weekday().to_string(), date.month().to_string()];
    let (hour, minute, second) = date.to_hms();
    format!(
        "{}, {:02} {} {} {hour:02}:{minute:02}:{second:02} GMT",
        &weekday[..3],
        date.day(),
        &month[..3],
        date.year()
    )
}

#[cfg(test)]
mod tests;
