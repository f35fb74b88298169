//! What each end tells of what it measured: JSON in a message of text.

use serde::{Deserialize, Serialize};

use super::Ndt7Test;

/// A measurement. All of it may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Measurement {
    /// What the program counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_info: Option<AppInfo>,
    /// Between whom; told by servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_info: Option<ConnectionInfo>,
    /// Who measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<MeasurementOrigin>,
    /// Of which test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Ndt7Test>,
    /// What the kernel counted.
    #[serde(rename = "TCPInfo", skip_serializing_if = "Option::is_none")]
    pub tcp_info: Option<TcpInfo>,
}

/// Who measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasurementOrigin {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// What the program counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AppInfo {
    /// Since the beginning of the test, µs.
    pub elapsed_time: i64,
    /// Bytes of messages that were sent or received.
    pub num_bytes: i64,
}

/// Between whom a test is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ConnectionInfo {
    /// The client's address and port, as the server sees them.
    pub client: String,
    /// The server's.
    pub server: String,
    /// What tells the test from all others, if the server has such a thing.
    #[serde(rename = "UUID", skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// What the kernel counted, by `TCP_INFO`; what it does not know is missing. Times in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TcpInfo {
    /// In which there was something to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_time: Option<i64>,
    /// Bytes that the other end has acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<i64>,
    /// Bytes that this end has acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<i64>,
    /// Bytes sent, those that were sent again too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<i64>,
    /// Bytes sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_retrans: Option<i64>,
    /// Since the beginning of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_time: Option<i64>,
    /// Least round trip.
    #[serde(rename = "MinRTT", skip_serializing_if = "Option::is_none")]
    pub min_rtt: Option<i64>,
    /// Smoothed round trip.
    #[serde(rename = "RTT", skip_serializing_if = "Option::is_none")]
    pub rtt: Option<i64>,
    /// Its variation.
    #[serde(rename = "RTTVar", skip_serializing_if = "Option::is_none")]
    pub rtt_var: Option<i64>,
    /// In which the receiver's window was the limit.
    #[serde(rename = "RWndLimited", skip_serializing_if = "Option::is_none")]
    pub rwnd_limited: Option<i64>,
    /// In which the sender's buffer was the limit.
    #[serde(rename = "SndBufLimited", skip_serializing_if = "Option::is_none")]
    pub snd_buf_limited: Option<i64>,
}

impl Measurement {
    /// Reads a message; nothing of one that means nothing here, which is no error.
    pub fn read(text: &str) -> Option<Self> {
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    }

    /// As the text of a message.
    pub fn write(&self) -> String {
        // A structure of numbers and texts always has a form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As the specification has it, but for its commas.
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
