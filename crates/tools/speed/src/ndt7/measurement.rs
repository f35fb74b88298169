//! Measurements that each end sends as JSON in a text message.

use serde::{Deserialize, Serialize};

use super::Ndt7Test;

/// A measurement. All fields are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Measurement {
    /// Counts of the program that sends or receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_info: Option<AppInfo>,
    /// The endpoints of the test. Only servers send them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_info: Option<ConnectionInfo>,
    /// The end that measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<MeasurementOrigin>,
    /// The direction of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Ndt7Test>,
    /// Kernel counters.
    #[serde(rename = "TCPInfo", skip_serializing_if = "Option::is_none")]
    pub tcp_info: Option<TcpInfo>,
}

/// The end that measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasurementOrigin {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Counts of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AppInfo {
    /// Time since the start of the test, µs.
    pub elapsed_time: i64,
    /// Bytes of sent or received messages.
    pub num_bytes: i64,
}

/// The endpoints of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ConnectionInfo {
    /// The client's address and port, as the server sees them.
    pub client: String,
    /// The server's address and port.
    pub server: String,
    /// A unique identifier of the test, if the server assigns one.
    #[serde(rename = "UUID", skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// Kernel counters from `TCP_INFO`. `None` for a value that is not known. Times are in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TcpInfo {
    /// Time with data to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_time: Option<i64>,
    /// Bytes acknowledged by the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<i64>,
    /// Bytes acknowledged by this end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<i64>,
    /// Bytes sent, including retransmissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<i64>,
    /// Bytes retransmitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_retrans: Option<i64>,
    /// Time since the start of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_time: Option<i64>,
    /// Minimum round-trip time.
    #[serde(rename = "MinRTT", skip_serializing_if = "Option::is_none")]
    pub min_rtt: Option<i64>,
    /// Smoothed round-trip time.
    #[serde(rename = "RTT", skip_serializing_if = "Option::is_none")]
    pub rtt: Option<i64>,
    /// Variation of the round-trip time.
    #[serde(rename = "RTTVar", skip_serializing_if = "Option::is_none")]
    pub rtt_var: Option<i64>,
    /// Time in which the receive window of the peer limited the sender.
    #[serde(rename = "RWndLimited", skip_serializing_if = "Option::is_none")]
    pub rwnd_limited: Option<i64>,
    /// Time in which the send buffer limited the sender.
    #[serde(rename = "SndBufLimited", skip_serializing_if = "Option::is_none")]
    pub snd_buf_limited: Option<i64>,
}

impl Measurement {
    /// Parses a text message. `None` if it is not a measurement, which is not an error.
    pub fn read(text: &str) -> Option<Self> {
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    }

    /// Encodes the measurement as a text message.
    pub fn write(&self) -> String {
        // Serialising numbers and text cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of the specification, with its commas corrected.
    const EXAMPLE: &str = r#"{
      "AppInfo": {"ElapsedTime": 1234, "NumBytes": 1234},
      "ConnectionInfo": {"Client": "1.2.3.4:5678", "Server": "[::1]:2345", "UUID": "<platform-specific-string>",
        "StartTime": "2019-07-16T15:26:05.987748459-04:00"},
      "Origin": "server", "Test": "download",
      "TCPInfo": {"BusyTime": 1, "BytesAcked": 2, "BytesReceived": 3, "BytesSent": 4, "BytesRetrans": 5,
        "ElapsedTime": 6, "MinRTT": 7, "RTT": 8, "RTTVar": 9, "RWndLimited": 10, "SndBufLimited": 11}}"#;

    #[test]
    fn the_specifications_example_is_read() {
        let read = Measurement::read(EXAMPLE).unwrap();
        let info = TcpInfo {
            busy_time: Some(1),
            bytes_acked: Some(2),
            bytes_received: Some(3),
            bytes_sent: Some(4),
            bytes_retrans: Some(5),
            elapsed_time: Some(6),
            min_rtt: Some(7),
            rtt: Some(8),
            rtt_var: Some(9),
            rwnd_limited: Some(10),
            snd_buf_limited: Some(11),
        };
        assert_eq!(read.tcp_info, Some(info));
        assert_eq!((read.origin, read.test), (Some(MeasurementOrigin::Server), Some(Ndt7Test::Download)));
        assert_eq!(read.app_info, Some(AppInfo { elapsed_time: 1234, num_bytes: 1234 }));
        assert_eq!(Measurement::read(&read.write()), Some(read));
    }

    #[test]
    fn what_is_missing_is_not_said() {
        assert_eq!(Measurement::default().write(), "{}");
        assert_eq!(Measurement::read("{}"), Some(Measurement::default()));
        assert_eq!(
            Measurement::read(r#"{"TCPInfo":{"RTT":1,"State":1},"BBRInfo":{}}"#)
                .unwrap()
                .tcp_info
                .unwrap()
                .rtt,
            Some(1)
        );
        assert_eq!(Measurement::read("[]"), None);
        assert_eq!(Measurement::read(r#"{"AppInfo":1}"#), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_measurement_or_nothing(text in ".{0,100}") {
            let _ = Measurement::read(&text);
        }
    }
}
