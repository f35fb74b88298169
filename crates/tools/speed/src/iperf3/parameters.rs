//! The parameters of a test.

use serde::{Deserialize, Serialize};

use super::cjson::{flag, number, object, some_number};
use super::code::{Iperf3Code, Iperf3Refusal};
use super::datagram::{self, CounterWidth};
use super::{DEFAULT_TCP_LEN, DEFAULT_TIME, DEFAULT_UDP_LEN, MOST_STREAMS};
use crate::protocol::DataDirection;

/// Maximum length of the parameters, bytes of JSON. iperf3 has the same limit.
pub(super) const LONGEST: u32 = 8 * 1024;

/// iperf3's limits of the duration and of the warm-up, s.
const LONGEST_TIME: u32 = 86_400;
const LONGEST_OMIT: u32 = 600;
const LONGEST_BLOCK: u32 = 1024 * 1024;
const LARGEST_BUFFER: u32 = 512 * 1024 * 1024;
const LARGEST_MSS: u32 = 32 * 1024 - 1;
const LONGEST_BURST: u32 = 1000;

/// The transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestTransport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP, which is not supported.
    Sctp,
}

/// The parameters of a test. An optional number is zero if it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestParameters {
    /// The transport protocol.
    pub transport: TestTransport,
    /// The direction.
    pub direction: DataDirection,
    /// Duration after the warm-up, s. 0 if the test has another limit.
    pub time: u32,
    /// Duration of the warm-up, s. Its data do not count in the result.
    pub omit: u32,
    /// Limit in bytes over all streams. 0 if the test has another limit.
    pub bytes: u64,
    /// Limit in blocks over all streams. 0 if the test has another limit.
    pub blocks: u64,
    /// Number of streams in each direction.
    pub parallel: u32,
    /// Size of the socket buffers, bytes. 0 for the kernel's choice.
    pub window: u32,
    /// Size of a TCP block or of a datagram, bytes.
    pub len: u32,
    /// Rate of each stream, bit/s. 0 for no limit.
    pub rate: u64,
    /// Pacing rate of each stream in the kernel, bit/s. 0 for no limit.
    pub fq_rate: u64,
    /// Interval of the pacing timer, µs. 0 for the sender's choice.
    pub pacing_timer: u32,
    /// Number of blocks per burst. 0 for the sender's choice.
    pub burst: u32,
    /// Maximum segment size, bytes. 0 for the kernel's choice.
    pub mss: u32,
    /// Whether Nagle's algorithm is off.
    pub no_delay: bool,
    /// Type of service (IPv4) or traffic class (IPv6).
    pub tos: u8,
    /// IPv6 flow label. 0 for none.
    pub flow_label: u32,
    /// Width of the number of a datagram.
    pub counter: CounterWidth,
    /// Whether datagrams must not be fragmented.
    pub dont_fragment: bool,
    /// Whether the data are a repeated pattern instead of random bytes.
    pub repeating_payload: bool,
    /// Whether the data are sent from the pages of a file (zero copy).
    pub zero_copy: bool,
    /// The congestion control.
    pub congestion: Option<String>,
    /// The processor on which the server must run, if the client chooses it.
    pub server_affinity: Option<u32>,
    /// Whether the server sends its output to the client.
    pub server_output: bool,
    /// The title of the test.
    pub title: Option<String>,
    /// A text that is copied into the results.
    pub extra_data: Option<String>,
    /// The client's version.
    pub client_version: Option<String>,
}

impl Default for TestParameters {
    /// The parameters of a client that states none.
    fn default() -> Self {
        match ParametersWire::default().checked() {
            Ok(parameters) => parameters,
            Err(error) => unreachable!("{error}"),
        }
    }
}

/// Why parameters are invalid.
#[derive(Debug, thiserror::Error)]
pub enum ParameterError {
    /// The JSON is malformed, or a value is wrong.
    #[error("the parameters cannot be read: {0}")]
    Json(serde_json::Error),
    /// A number is out of range.
    #[error("`{name}` is {value}, which is out of range")]
    Range {
        /// The name on the wire.
        name: &'static str,
        /// The value.
        value: u64,
        /// The error that is sent to the client.
        code: Iperf3Code,
    },
    /// Two parameters exclude each other: `-R` and `--bidir`.
    #[error("both `reverse` and `bidirectional` are set")]
    ReverseAndBidirectional,
}

impl ParameterError {
    /// The error that is sent to the client.
    pub const fn code(&self) -> Iperf3Code {
        match self {
            Self::Json(_) => Iperf3Code::PARAMETERS,
            Self::Range { code, .. } => *code,
            Self::ReverseAndBidirectional => Iperf3Code::REVERSE_AND_BIDIRECTIONAL,
        }
    }
}

/// The limits of a server for each test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestLimits {
    /// Maximum duration including the warm-up, s. A test without a time limit is admitted, and ended after this time.
    pub time: u32,
    /// Maximum number of streams in both directions together.
    pub streams: u32,
    /// Maximum rate of all streams of one direction together, bit/s. A test without a rate is admitted and limited to
    /// this rate.
    pub rate: Option<u64>,
}

impl Default for TestLimits {
    fn default() -> Self {
        Self { time: LONGEST_TIME, streams: 2 * MOST_STREAMS, rate: None }
    }
}

impl TestParameters {
    /// Whether the test uses TCP.
    pub fn is_tcp(&self) -> bool {
        self.transport == TestTransport::Tcp
    }

    /// Number of streams in both directions together.
    pub const fn streams(&self) -> u32 {
        match self.direction {
            DataDirection::Both => self.parallel.saturating_mul(2),
            _ => self.parallel,
        }
    }

    /// Whether the `nth` stream, from 0, carries data from the client to the server. Uploading streams come first.
    pub const fn uploads(&self, nth: u32) -> bool {
        match self.direction {
            DataDirection::Up => true,
            DataDirection::Down => false,
            DataDirection::Both => nth < self.parallel,
        }
    }

    /// The requested rate of all streams of one direction together, bit/s.
    pub fn total_rate(&self) -> u64 {
        self.rate.max(self.fq_rate).saturating_mul(self.parallel.into())
    }

    /// Checks the parameters against the limits of a server.
    ///
    /// # Errors
    /// The error that is sent to the client.
    pub fn check(&self, limits: &TestLimits) -> Result<(), Iperf3Refusal> {
        let time = self.time.saturating_add(self.omit);
        if self.transport == TestTransport::Sctp {
            Err(Iperf3Code::NO_SCTP.into())
        } else if self.server_affinity.is_some() {
            // The error number 1 is EPERM: clients may not choose the processors of a server.
            Err(Iperf3Refusal { code: Iperf3Code::AFFINITY, errno: 1 })
        } else if self.flow_label != 0 && self.direction != DataDirection::Up {
            Err(Iperf3Code::FLOW_LABEL.into())
        } else if self.streams() > limits.streams {
            Err(Iperf3Code::STREAMS.into())
        } else if time > limits.time {
            Err(if self.knows_too_long() { Iperf3Code::TOO_LONG } else { Iperf3Code::DURATION }.into())
        } else if limits.rate.is_some_and(|rate| self.total_rate() > rate) {
            Err(Iperf3Code::TOTAL_RATE.into())
        } else {
            Ok(())
        }
    }

    /// Whether the client has a message for [`Iperf3Code::TOO_LONG`] (since iperf3 3.20).
    fn knows_too_long(&self) -> bool {
        let version = self.client_version.as_deref().and_then(|version| version.strip_prefix("3."));
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let minor = version.and_then(|minor| minor[..digits(minor)].parse::<u32>().ok());
        minor.is_some_and(|minor| minor >= 20)
    }

    /// Parses the parameters of a client. Unknown parameters are ignored.
    ///
    /// # Errors
    /// If the JSON is malformed, or a number exceeds the limits of iperf3.
    pub fn read(json: &[u8]) -> Result<Self, ParameterError> {
        object::<ParametersWire>(json).map_err(ParameterError::Json)?.checked()
    }

    /// Encodes the parameters as JSON.
    pub fn write(&self) -> Vec<u8> {
        // Serialising numbers, flags and text cannot fail.
        serde_json::to_vec(&ParametersWire::from(self)).unwrap_or_default()
    }
}

/// The parameters on the wire, with iperf3's names and in its order.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct ParametersWire {
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_zero")]
    tcp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_zero")]
    udp: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_zero")]
    sctp: bool,
    #[serde(deserialize_with = "number")]
    omit: u64,
    #[serde(deserialize_with = "some_number", skip_serializing_if = "is_zero")]
    server_affinity: Option<u64>,
    #[serde(deserialize_with = "some_number")]
    time: Option<u64>,
    #[serde(deserialize_with = "number")]
    num: u64,
    #[serde(deserialize_with = "number")]
    blockcount: u64,
    #[serde(rename = "MSS", deserialize_with = "number", skip_serializing_if = "is_zero")]
    mss: u64,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_zero")]
    nodelay: bool,
    #[serde(deserialize_with = "some_number")]
    parallel: Option<u64>,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_zero")]
    reverse: bool,
    #[serde(deserialize_with = "flag", skip_serializing_if = "is_zero")]
    bidirectional: bool,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    window: u64,
    #[serde(deserialize_with = "some_number")]
    len: Option<u64>,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    bandwidth: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    fqrate: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    pacing_timer: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    burst: u64,
    #[serde(rename = "TOS", deserialize_with = "number", skip_serializing_if = "is_zero")]
    tos: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    flowlabel: u64,
    #[serde(skip_serializing_if = "is_zero")]
    title: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    extra_data: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    congestion: Option<String>,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    get_server_output: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    udp_counters_64bit: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    repeating_payload: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    zerocopy: u64,
    #[serde(deserialize_with = "number", skip_serializing_if = "is_zero")]
    dont_fragment: u64,
    #[serde(skip_serializing_if = "is_zero")]
    client_version: Option<String>,
}

/// Whether a value is the default. Such values are omitted on the wire.
fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ParametersWire {
    fn checked(self) -> Result<TestParameters, ParameterError> {
        let transport = match self {
            Self { sctp: true, .. } => TestTransport::Sctp,
            Self { udp: true, .. } => TestTransport::Udp,
            _ => TestTransport::Tcp,
        };
        let direction = match (self.reverse, self.bidirectional) {
            (true, true) => return Err(ParameterError::ReverseAndBidirectional),
            (true, false) => DataDirection::Down,
            (false, true) => DataDirection::Both,
            (false, false) => DataDirection::Up,
        };
        let parallel = self.parallel.unwrap_or(1);
        let (len, shortest, longest, code) = match transport {
            TestTransport::Udp => {
                let len = self.len.filter(|len| *len > 0).unwrap_or(DEFAULT_UDP_LEN.into());
                (len, datagram::LEAST as u64, datagram::MOST as u32, Iperf3Code::UDP_BLOCK_SIZE)
            }
            _ => (self.len.unwrap_or(DEFAULT_TCP_LEN.into()), 1, LONGEST_BLOCK, Iperf3Code::BLOCK_SIZE),
        };
        let affinity = |value| within("server_affinity", value, 1024, Iperf3Code::AFFINITY);
        let rate = |name, value| within(name, value, u64::MAX, Iperf3Code::PARAMETERS);
        Ok(TestParameters {
            transport,
            direction,
            time: narrow(
                "time",
                self.time.unwrap_or(DEFAULT_TIME.into()),
                LONGEST_TIME,
                Iperf3Code::DURATION,
            )?,
            omit: narrow("omit", self.omit, LONGEST_OMIT, Iperf3Code::OMIT)?,
            bytes: self.num,
            blocks: self.blockcount,
            parallel: narrow(
                "parallel",
                at_least(1, "parallel", parallel, Iperf3Code::STREAMS)?,
                MOST_STREAMS,
                Iperf3Code::STREAMS,
            )?,
            window: narrow("window", self.window, LARGEST_BUFFER, Iperf3Code::BUFFER_SIZE)?,
            len: narrow("len", at_least(shortest, "len", len, code)?, longest, code)?,
            rate: rate("bandwidth", self.bandwidth)?,
            fq_rate: rate("fqrate", self.fqrate)?,
            pacing_timer: narrow("pacing_timer", self.pacing_timer, u32::MAX, Iperf3Code::PARAMETERS)?,
            burst: narrow("burst", self.burst, LONGEST_BURST, Iperf3Code::BURST)?,
            mss: narrow("MSS", self.mss, LARGEST_MSS, Iperf3Code::MSS)?,
            no_delay: self.nodelay,
            tos: narrow("TOS", self.tos, u8::MAX.into(), Iperf3Code::TOS)? as u8,
            flow_label: narrow("flowlabel", self.flowlabel, 0xf_ffff, Iperf3Code::FLOW_LABEL)?,
            counter: if self.udp_counters_64bit > 0 { CounterWidth::Bits64 } else { CounterWidth::Bits32 },
            dont_fragment: self.dont_fragment > 0,
            repeating_payload: self.repeating_payload > 0,
            zero_copy: self.zerocopy > 0,
            congestion: self.congestion,
            server_affinity: self.server_affinity.map(affinity).transpose()?.map(|cpu| cpu as u32),
            server_output: self.get_server_output > 0,
            title: self.title,
            extra_data: self.extra_data,
            client_version: self.client_version,
        })
    }
}

fn within(name: &'static str, value: u64, most: u64, code: Iperf3Code) -> Result<u64, ParameterError> {
    if value > most { Err(ParameterError::Range { name, value, code }) } else { Ok(value) }
}

fn narrow(name: &'static str, value: u64, most: u32, code: Iperf3Code) -> Result<u32, ParameterError> {
    within(name, value, most.into(), code).map(|value| value as u32)
}

fn at_least(least: u64, name: &'static str, value: u64, code: Iperf3Code) -> Result<u64, ParameterError> {
    if value < least { Err(ParameterError::Range { name, value, code }) } else { Ok(value) }
}

impl From<&TestParameters> for ParametersWire {
    fn from(asked: &TestParameters) -> Self {
        Self {
            tcp: asked.transport == TestTransport::Tcp,
            udp: asked.transport == TestTransport::Udp,
            sctp: asked.transport == TestTransport::Sctp,
            omit: asked.omit.into(),
            server_affinity: asked.server_affinity.map(Into::into),
            time: Some(asked.time.into()),
            num: asked.bytes,
            blockcount: asked.blocks,
            mss: asked.mss.into(),
            nodelay: asked.no_delay,
            parallel: Some(asked.parallel.into()),
            reverse: asked.direction == DataDirection::Down,
            bidirectional: asked.direction == DataDirection::Both,
            window: asked.window.into(),
            len: Some(asked.len.into()),
            bandwidth: asked.rate,
            fqrate: asked.fq_rate,
            pacing_timer: asked.pacing_timer.into(),
            burst: asked.burst.into(),
            tos: asked.tos.into(),
            flowlabel: asked.flow_label.into(),
            title: asked.title.clone(),
            extra_data: asked.extra_data.clone(),
            congestion: asked.congestion.clone(),
            get_server_output: asked.server_output.into(),
            udp_counters_64bit: (asked.counter == CounterWidth::Bits64).into(),
            repeating_payload: asked.repeating_payload.into(),
            zerocopy: asked.zero_copy.into(),
            dont_fragment: asked.dont_fragment.into(),
            client_version: asked.client_version.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The parameters that iperf3 3.12 sends for `-P 2 --bidir -b 5M -O 1 -M 1000 -N -S 16 -w 100K -C cubic --fq-rate
    /// 1M -T title`, and for further options.
    const REAL: &str = r#"{"tcp":true,"omit":1,"time":1,"num":0,"blockcount":0,"MSS":1000,"nodelay":true,"parallel":2,"bidirectional":true,"window":102400,"len":131072,"bandwidth":5000000,"fqrate":1000000,"pacing_timer":1000,"TOS":16,"title":"title","extra_data":"x","congestion":"cubic","get_server_output":1,"client_version":"3.12"}"#;

    fn real() -> TestParameters {
        TestParameters {
            direction: DataDirection::Both,
            time: 1,
            omit: 1,
            parallel: 2,
            window: 102_400,
            rate: 5_000_000,
            fq_rate: 1_000_000,
            pacing_timer: 1000,
            mss: 1000,
            no_delay: true,
            tos: 16,
            congestion: Some("cubic".into()),
            server_output: true,
            title: Some("title".into()),
            extra_data: Some("x".into()),
            client_version: Some("3.12".into()),
            ..TestParameters::default()
        }
    }

    #[test]
    fn what_iperf3_sends_is_read_and_written_as_it_does() {
        let read = TestParameters::read(REAL.as_bytes()).unwrap();
        assert_eq!(read, real());
        assert_eq!(String::from_utf8(read.write()).unwrap(), REAL);
        assert_eq!((read.streams(), read.total_rate()), (4, 10_000_000));
        assert_eq!((0..4).map(|nth| read.uploads(nth)).collect::<Vec<_>>(), [true, true, false, false]);
    }

    #[test]
    fn what_is_missing_or_unknown_is_no_error() {
        let read = |json: &str| TestParameters::read(json.as_bytes()).unwrap();
        assert_eq!(read("{}"), TestParameters::default());
        assert_eq!(read(r#"{"tcp":true,"gso":1,"mptcp":true,"x":[{"y":null}]}"#), TestParameters::default());
        assert_eq!(read(r#"{"udp":true}"#).len, DEFAULT_UDP_LEN);
        assert_eq!(read(r#"{"num":1e12,"bandwidth":1.5e10}"#).bytes, 1_000_000_000_000);
        assert_eq!(read(r#"{"udp":1,"udp_counters_64bit":1}"#).counter, CounterWidth::Bits64);
    }

    #[test]
    fn what_is_wrong_is_told_with_iperf3s_number() {
        let code = |json: &str| TestParameters::read(json.as_bytes()).unwrap_err().code();
        for (json, expected) in [
            ("[]", Iperf3Code::PARAMETERS),
            (r#"{"time":"x"}"#, Iperf3Code::PARAMETERS),
            (r#"{"num":-1}"#, Iperf3Code::PARAMETERS),
            (r#"{"tcp":"yes"}"#, Iperf3Code::PARAMETERS),
            (r#"{"time":86401}"#, Iperf3Code::DURATION),
            (r#"{"omit":601}"#, Iperf3Code::OMIT),
            (r#"{"parallel":0}"#, Iperf3Code::STREAMS),
            (r#"{"parallel":129}"#, Iperf3Code::STREAMS),
            (r#"{"parallel":4294967297}"#, Iperf3Code::STREAMS),
            (r#"{"len":0}"#, Iperf3Code::BLOCK_SIZE),
            (r#"{"len":1048577}"#, Iperf3Code::BLOCK_SIZE),
            (r#"{"udp":true,"len":15}"#, Iperf3Code::UDP_BLOCK_SIZE),
            (r#"{"udp":true,"len":65508}"#, Iperf3Code::UDP_BLOCK_SIZE),
            (r#"{"window":536870913}"#, Iperf3Code::BUFFER_SIZE),
            (r#"{"MSS":32768}"#, Iperf3Code::MSS),
            (r#"{"TOS":256}"#, Iperf3Code::TOS),
            (r#"{"burst":1001}"#, Iperf3Code::BURST),
            (r#"{"reverse":true,"bidirectional":true}"#, Iperf3Code::REVERSE_AND_BIDIRECTIONAL),
        ] {
            assert_eq!(code(json), expected, "{json}");
        }
    }

    #[test]
    fn what_a_server_cannot_serve_is_refused() {
        let limits = TestLimits { time: 60, streams: 8, rate: Some(10_000_000) };
        let code = |asked: TestParameters| asked.check(&limits).unwrap_err().code;
        let asked = TestParameters::default;
        assert_eq!(asked().check(&limits), Ok(()));
        assert_eq!(code(TestParameters { transport: TestTransport::Sctp, ..asked() }), Iperf3Code::NO_SCTP);
        assert_eq!(code(TestParameters { server_affinity: Some(0), ..asked() }), Iperf3Code::AFFINITY);
        assert_eq!(code(TestParameters { parallel: 9, ..asked() }), Iperf3Code::STREAMS);
        assert_eq!(code(TestParameters { rate: 10_000_001, ..asked() }), Iperf3Code::TOTAL_RATE);
        let both = TestParameters { direction: DataDirection::Both, rate: 10_000_000, ..asked() };
        assert_eq!(both.check(&limits), Ok(()), "in each direction as much as there may be in one");
        let label = TestParameters { flow_label: 1, ..asked() };
        assert_eq!(label.check(&limits), Ok(()));
        assert_eq!(code(TestParameters { direction: DataDirection::Down, ..label }), Iperf3Code::FLOW_LABEL);
        let long =
            |version: &str| TestParameters { time: 61, client_version: Some(version.into()), ..asked() };
        assert_eq!(code(long("3.12")), Iperf3Code::DURATION);
        assert_eq!(code(long("3.20")), Iperf3Code::TOO_LONG);
        assert_eq!(code(long("3.21-mt1+")), Iperf3Code::TOO_LONG);
        assert_eq!(code(long("4")), Iperf3Code::DURATION);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parameters_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = TestParameters::read(&bytes);
        }

        #[test]
        fn any_parameters_are_read_as_they_were_written(
            kind in 0_usize..2, way in 0_usize..3, time in 0..=LONGEST_TIME, omit in 0..=LONGEST_OMIT, bytes in any::<u64>(),
            parallel in 1..=MOST_STREAMS, len in 16_u32..=65_507, rate in any::<u64>(), tos in any::<u8>(),
            title in proptest::option::of(".{0,20}"), flags in any::<[bool; 5]>(),
        ) {
            let asked = TestParameters {
                transport: [TestTransport::Tcp, TestTransport::Udp][kind],
                direction: [DataDirection::Up, DataDirection::Down, DataDirection::Both][way],
                time, omit, bytes, parallel, len, rate, tos, title,
                no_delay: flags[0],
                counter: if flags[1] { CounterWidth::Bits64 } else { CounterWidth::Bits32 },
                repeating_payload: flags[2],
                zero_copy: flags[3],
                server_output: flags[4],
                ..TestParameters::default()
            };
            prop_assert_eq!(TestParameters::read(&asked.write()).unwrap(), asked);
        }
    }
}
