//! The results that both ends exchange after a test.

use std::fmt;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::cjson::object;
use super::{MOST_STREAMS, stream_id};

/// Maximum length of the results that a server reads, bytes of JSON. It is about four times the length for the maximum
/// number of streams.
pub(super) const LONGEST_OF_CLIENT: u32 = 256 * 1024;

/// Maximum length of the results that a client reads, bytes of JSON. They may contain the whole output of the server.
pub(super) const LONGEST_OF_SERVER: u32 = 8 * 1024 * 1024;

/// Processor use of an end during the test, per cent of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct CpuUse {
    /// User and system time.
    #[serde(rename = "cpu_util_total", deserialize_with = "real", serialize_with = "finite")]
    pub total: f64,
    /// User time.
    #[serde(rename = "cpu_util_user", deserialize_with = "real", serialize_with = "finite")]
    pub user: f64,
    /// System time.
    #[serde(rename = "cpu_util_system", deserialize_with = "real", serialize_with = "finite")]
    pub system: f64,
}

/// The results of one end. On the wire, they have iperf3's names and order.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct TestResults {
    /// Processor use.
    #[serde(flatten)]
    pub cpu: CpuUse,
    /// Whether this end counts its retransmissions. `None` if it does not send data.
    #[serde(rename = "sender_has_retransmits", deserialize_with = "counts", serialize_with = "or_minus_one")]
    pub counts_retransmits: Option<bool>,
    /// The congestion control of its streams.
    #[serde(rename = "congestion_used", default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The output of the server, if requested.
    #[serde(flatten, with = "output")]
    pub server_output: Option<ServerOutput>,
    /// The results of all streams, in the order of opening.
    #[serde(deserialize_with = "few")]
    pub streams: Vec<StreamResult>,
}

/// The output of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerOutput {
    /// The output as text.
    Text(String),
    /// The output as a JSON document.
    Json(Value),
}

/// The results of a stream at one end. The number of bytes excludes the warm-up; the numbers of datagrams include it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct StreamResult {
    /// The identifier of the stream: [`stream_id`].
    #[serde(deserialize_with = "id")]
    pub id: u32,
    /// Bytes sent or received.
    #[serde(deserialize_with = "or_zero")]
    pub bytes: u64,
    /// Retransmitted segments, if this end sent and counts them.
    #[serde(deserialize_with = "count", serialize_with = "or_minus_one")]
    pub retransmits: Option<u64>,
    /// Jitter of received datagrams, s.
    #[serde(deserialize_with = "real", serialize_with = "finite")]
    pub jitter: f64,
    /// Lost datagrams.
    #[serde(deserialize_with = "or_zero")]
    pub errors: u64,
    /// Lost datagrams in the warm-up. `None` for iperf3 before 3.14.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub omitted_errors: Option<u64>,
    /// Datagrams sent, or the highest number received.
    #[serde(deserialize_with = "or_zero")]
    pub packets: u64,
    /// Datagrams in the warm-up.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub omitted_packets: Option<u64>,
    /// Duration without the warm-up, s. `None` for iperf3 before 3.2.
    #[serde(flatten, with = "duration")]
    pub seconds: Option<f64>,
}

/// Why results are invalid.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The JSON is malformed, or a value is missing or wrong.
    #[error("the results cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The streams differ from those of the test.
    #[error("the results belong to other streams: {found} instead of {expected}")]
    Streams {
        /// The received stream number; 0 if there is none.
        found: u32,
        /// The expected stream number; 0 if there is none.
        expected: u32,
    },
}

impl TestResults {
    /// Reads the results of the peer for a test with this number of streams.
    ///
    /// # Errors
    /// If they are malformed or belong to other streams.
    pub fn read(json: &[u8], streams: u32) -> Result<Self, ResultsError> {
        let results: Self = object(json)?;
        let mut ids: Vec<_> = results.streams.iter().map(|stream| stream.id).collect();
        ids.sort_unstable();
        let expected = (0..streams).map(stream_id);
        let pairs = (0..ids.len().max(streams as usize)).map(|at| (ids.get(at), expected.clone().nth(at)));
        for (found, expected) in pairs {
            let (found, expected) = (found.copied().unwrap_or(0), expected.unwrap_or(0));
            if found != expected {
                return Err(ResultsError::Streams { found, expected });
            }
        }
        Ok(results)
    }

    /// Encodes the results as JSON.
    pub fn write(&self) -> Vec<u8> {
        // Serialising numbers and text cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The results of the stream with this identifier.
    pub fn stream(&self, id: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.id == id)
    }
}

/// (De)serialises the output of a server. Text and JSON have different names on the wire and in documents.
pub(super) mod output {
    use super::{Deserialize, Deserializer, Serialize, Serializer, ServerOutput, Value};

    #[derive(Default, Deserialize, Serialize)]
    struct OutputForms {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_output_text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_output_json: Option<Value>,
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ServerOutput>, D::Error> {
        let OutputForms { server_output_text: text, server_output_json: json } =
            OutputForms::deserialize(from)?;
        Ok(json.map(ServerOutput::Json).or(text.map(ServerOutput::Text)))
    }

    pub fn serialize<S: Serializer>(output: &Option<ServerOutput>, to: S) -> Result<S::Ok, S::Error> {
        let mut forms = OutputForms::default();
        match output.clone() {
            Some(ServerOutput::Text(text)) => forms.server_output_text = Some(text),
            Some(ServerOutput::Json(json)) => forms.server_output_json = Some(json),
            None => {}
        }
        forms.serialize(to)
    }
}

/// (De)serialises a duration as a start time and an end time.
mod duration {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize, Serialize)]
    struct StartAndEnd {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_time: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_time: Option<f64>,
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        let StartAndEnd { start_time, end_time } = StartAndEnd::deserialize(from)?;
        let seconds = end_time.zip(start_time).map(|(end, start)| end - start);
        Ok(seconds.filter(|seconds| *seconds >= 0.0))
    }

    pub fn serialize<S: Serializer>(seconds: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        let end_time = seconds.filter(|seconds| seconds.is_finite());
        StartAndEnd { start_time: end_time.map(|_| 0.0), end_time }.serialize(to)
    }
}

/// Deserialises a count that cJSON has written. -1 stands for a missing count; some builds write it as 2⁶⁴ - 1. A large
/// count may have an exponent.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    const NONE: u64 = u64::MAX;
    Ok(match Value::deserialize(from)? {
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(NONE), _) => None,
            (Some(count), _) => Some(count),
            (None, Some(count)) if count >= 0.0 => Some(count as u64).filter(|count| *count != NONE),
            _ => None,
        },
        _ => None,
    })
}

/// Deserialises a count. A missing count is zero.
fn or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(count(from)?.unwrap_or(0))
}

fn id<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    Ok(or_zero(from)?.try_into().unwrap_or(0))
}

fn counts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    Ok(count(from)?.map(|count| count > 0))
}

fn or_minus_one<S: Serializer>(count: &Option<impl Copy + Into<u64>>, to: S) -> Result<S::Ok, S::Error> {
    match *count {
        Some(count) => to.serialize_u64(count.into()),
        None => to.serialize_i64(-1),
    }
}

/// Deserialises a number. `null`, which stands for a number that is not finite, is zero.
fn real<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(0.0))
}

pub(super) fn finite<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(if value.is_finite() { *value } else { 0.0 })
}

/// Deserialises the results of streams. Rejects more streams than a test may have.
fn few<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StreamResult>, D::Error> {
    struct WireStreams;
    impl<'de> Visitor<'de> for WireStreams {
        type Value = Vec<StreamResult>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {} streams", 2 * MOST_STREAMS)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut streams = Vec::new();
            while let Some(stream) = from.next_element()? {
                if streams.len() >= 2 * MOST_STREAMS as usize {
                    return Err(serde::de::Error::invalid_length(streams.len() + 1, &self));
                }
                streams.push(stream);
            }
            Ok(streams)
        }
    }
    from.deserialize_seq(WireStreams)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The results of an iperf3 3.12 server that received two streams.
    const REAL: &str = r#"{"cpu_util_total":4.2174512812803444,"cpu_util_user":0,"cpu_util_system":4.2174512812803444,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","streams":[{"id":1,"bytes":61997003,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.057612},{"id":3,"bytes":75559669,"retransmits":-1,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.057618}]}"#;

    #[test]
    fn what_iperf3_sends_is_read() {
        let results = TestResults::read(REAL.as_bytes(), 2).unwrap();
        assert_eq!((results.counts_retransmits, results.congestion.as_deref()), (None, Some("bbr")));
        let third = results.stream(3).unwrap();
        assert_eq!((third.bytes, third.retransmits, third.seconds), (75_559_669, None, Some(1.057618)));
        assert_eq!((third.omitted_packets, results.stream(2)), (None, None));
        let written = String::from_utf8(results.write()).unwrap();
        assert!(written.contains(r#""sender_has_retransmits":-1"#), "{written}");
        assert!(written.contains(r#"{"id":3,"bytes":75559669,"retransmits":-1,"#), "{written}");
        assert_eq!(TestResults::read(written.as_bytes(), 2).unwrap(), results);
    }

    #[test]
    fn results_of_other_streams_are_refused() {
        let error = |streams| TestResults::read(REAL.as_bytes(), streams).unwrap_err().to_string();
        assert!(error(1).contains("3 instead of 0"), "{}", error(1));
        assert!(error(3).contains("0 instead of 4"), "{}", error(3));
        let twice = REAL.replace(r#""id":3"#, r#""id":1"#);
        assert!(matches!(
            TestResults::read(twice.as_bytes(), 2),
            Err(ResultsError::Streams { found: 1, expected: 3 })
        ));
    }

    #[test]
    fn what_is_missing_is_told() {
        for gone in ["cpu_util_user", "sender_has_retransmits", "streams", "jitter", "packets"] {
            let cut = REAL.replace(&format!("\"{gone}\""), "\"x\"");
            assert!(matches!(TestResults::read(cut.as_bytes(), 2), Err(ResultsError::Json(_))), "{gone}");
        }
        let old = REAL
            .replace("start_time", "x")
            .replace("1.057618", "null")
            .replace("jitter\":0", "jitter\":null");
        assert_eq!(TestResults::read(old.as_bytes(), 2).unwrap().stream(3).unwrap().seconds, None);
    }

    #[test]
    fn many_streams_take_no_memory() {
        let stream = r#"{"id":1,"bytes":1,"retransmits":0,"jitter":0,"errors":0,"packets":0},"#;
        let many = stream.repeat(2 * MOST_STREAMS as usize);
        let json = |streams: &str| REAL.replace(r#""streams":["#, &format!(r#""streams":[{streams}"#));
        assert!(matches!(TestResults::read(json(&many).as_bytes(), 2), Err(ResultsError::Json(_))));
        assert!(json(&many).len() < LONGEST_OF_CLIENT as usize);
    }

    proptest! {
        #[test]
        fn any_bytes_are_results_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = TestResults::read(&bytes, 1);
        }

        #[test]
        fn any_results_are_read_as_they_were_written(
            bytes in 0_u64..1 << 60, retransmits in proptest::option::of(0_u64..1 << 60), jitter in 0.0..1e3_f64,
            packets in any::<u32>(), seconds in proptest::option::of(0.0..1e6_f64), output in 0_usize..3,
        ) {
            let stream = |id| StreamResult {
                id, bytes, retransmits, jitter, errors: 1, omitted_errors: Some(0), packets: packets.into(),
                omitted_packets: Some(7), seconds,
            };
            let results = TestResults {
                cpu: CpuUse { total: 3.5, user: 1.25, system: 2.25 },
                counts_retransmits: retransmits.map(|count| count % 2 == 0),
                congestion: None,
                streams: vec![stream(1), stream(3)],
                server_output: [None, Some(ServerOutput::Text("x".into())), Some(ServerOutput::Json(Value::Bool(true)))]
                    [output].clone(),
            };
            let read = TestResults::read(&results.write(), 2).unwrap();
            // Without the feature `float_roundtrip` of serde_json, the last bit of a fraction may be wrong.
            for (read, written) in read.streams.iter().zip(&results.streams) {
                prop_assert!((read.jitter - written.jitter).abs() <= f64::EPSILON * written.jitter);
                prop_assert_eq!((read.bytes, read.retransmits, read.packets), (written.bytes, retransmits, packets.into()));
            }
            prop_assert_eq!(read.server_output, results.server_output);
        }
    }
}
