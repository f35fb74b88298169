//! The control protocol between a probe and its far end, over TCP. Its messages are exchanged before the first packet
//! and after the last.
//!
//! Its frames have the format of the agent's control protocol: a length and JSON. A connection begins with a
//! [greeting](super::greeting).

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration as StdDuration;

use netrig_core::Duration;
use serde::{Deserialize, Serialize};

use super::error::{ProbeError, ProbeResult};
use super::greeting::{GreetedProtocol, GreetingError, ServerGreeting};
use super::schedule::Gaps;
use super::segments::SegmentEnd;
use super::stamp::HmacKey;
use super::two_way::ProbePlan;
use netrig_host::SourceReport;

/// Name, version, proof prefixes and refusal message of the probe protocol.
pub static PROBE: GreetedProtocol = GreetedProtocol {
    name: "probe",
    version: 3,
    prefixes: [b"netrig probe", b"netrig far end"],
    refusal: ServerGreeting::Refused,
};

/// Default TCP port of the control protocol of a far end.
pub const PORT: u16 = 8620;

/// Time in which a far end must answer, in addition to the time of a stream or a transfer.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// Maximum number of packets in one frame of records.
pub(crate) const RECORDS: usize = 1 << 15;

/// A message from the far end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromFarEnd {
    /// Packets are expected at this UDP port.
    Ready {
        /// The port.
        port: u16,
    },
    /// Sizes of the segments of this connection, as seen by the far end.
    Segments(SegmentEnd),
    /// Packets in the order of their arrival. If the far end sends the stream: in the order of sending.
    Packets {
        /// Number of each packet, from 0.
        numbers: Vec<u32>,
        /// Time of arrival or of sending of each packet, ns since 1970.
        at: Vec<u64>,
    },
    /// The end of the report on the stream.
    Done(StreamSummary),
    /// The far end is at its limit and cannot serve the probe now.
    Busy {
        /// The reason, as text.
        why: String,
    },
    /// The far end does not grant the request.
    Refused {
        /// The reason, as text.
        why: String,
    },
}

/// Totals of a stream at the far end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSummary {
    /// Reasons why the far end, not the path, limited the stream.
    pub faults: Vec<String>,
    /// Number of packets with a time stamp of the far end's kernel.
    pub stamped: usize,
    /// Number of arrived packets by DSCP.
    pub dscps: BTreeMap<u8, usize>,
    /// Number of arrived packets by TTL or hop limit.
    pub ttls: BTreeMap<u8, usize>,
    /// How punctually the far end sent. `None` if it did not send the stream.
    pub source: Option<Box<SourceReport>>,
}

/// A message from the probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromProbe {
    /// Requests the measurement of a stream.
    Stream(StreamRequest),
    /// Requests answers to the datagrams of a path MTU search.
    PathMtu {
        /// The far end answers only datagrams that begin with this token.
        token: u64,
    },
    /// Announces requests of transfers, calls or video, in the protocol of [`receiver`](super::receiver).
    Media,
    /// Asks the far end to send the stream now.
    Begin,
    /// Ends the stream.
    Finish,
}

/// Direction of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamDirection {
    /// From this host to the far end.
    #[default]
    There,
    /// From the far end to this host.
    Back,
}

impl StreamDirection {
    /// Sign of the clock offset in a one-way delay: the apparent delay minus this factor times the lead of the far
    /// clock is the delay.
    pub(super) const fn sign(self) -> f64 {
        match self {
            Self::There => 1.0,
            Self::Back => -1.0,
        }
    }
}

/// The request of a stream of packets in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// Direction of the stream.
    pub direction: StreamDirection,
    /// Token in each packet. It distinguishes them from other packets.
    pub token: u64,
    /// Number of packets.
    pub count: u32,
    /// Whether the gaps are exponential. Otherwise they are constant.
    pub poisson: bool,
    /// Mean gap, ns.
    pub gap_ns: u64,
    /// Time after which a packet counts as lost, ns.
    pub wait_ns: u64,
    /// Seed of the gaps.
    pub seed: u64,
    /// Octets of UDP payload.
    pub size: usize,
    /// DSCP of the packets.
    pub dscp: u8,
}

impl StreamRequest {
    /// Number of packets, their gaps and the waiting time.
    pub fn plan(&self) -> ProbePlan {
        let gap = Duration::from_nanos(self.gap_ns);
        ProbePlan {
            count: self.count,
            gaps: if self.poisson { Gaps::Poisson(gap) } else { Gaps::Periodic(gap) },
            wait: Duration::from_nanos(self.wait_ns),
            seed: self.seed,
        }
    }

    /// Requested duration of the stream.
    pub fn lasts(&self) -> Duration {
        Duration::from_nanos(self.gap_ns.saturating_mul(self.count.into()))
    }
}

/// An accepted control connection to a far end.
pub(crate) struct ControlConnection {
    pub stream: TcpStream,
    /// Whether both ends run on the same boot of the same machine, and therefore read the same clock.
    pub one_clock: bool,
}

/// Connects to a far end and authenticates both sides.
///
/// Fails if no far end listens at the address, or if the far end refuses the probe.
pub(crate) fn call(target: SocketAddr, key: Option<&HmacKey>) -> ProbeResult<ControlConnection> {
    let absent = |source| ProbeError::Connect { target, source };
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE).map_err(absent)?;
    stream.set_nodelay(true).map_err(absent)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(absent)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(absent)?;
    let theirs = PROBE.greet_server(&mut stream, key, &[]).map_err(|error| ungreeted(target, &error))?;
    Ok(ControlConnection { stream, one_clock: theirs.is_some() && boot() == theirs })
}

/// The error for an unexpected message, with advice.
pub(crate) fn unexpected(target: SocketAddr) -> ProbeError {
    ungreeted(target, &PROBE.unexpected())
}

/// The error for a failed greeting, with advice.
fn ungreeted(target: SocketAddr, error: &GreetingError) -> ProbeError {
    let advice = match error {
        GreetingError::KeyMissing => "give the same --key FILE as there",
        GreetingError::KeyWrong => "give both ends the same --key FILE",
        GreetingError::KeyUnknown => "start it with --key FILE, or omit --key here",
        GreetingError::Version { .. } => "use the same version of netrig at both ends",
        GreetingError::Busy(_) => "try again when other probes have finished",
        _ => "is `netrig probe reflect` listening there?",
    };
    ProbeError::FarEnd { target, why: error.to_string(), advice }
}

/// Identifier of the current boot of this machine. `None` on systems without one.
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|boot| !boot.is_empty())
}

#[cfg(test)]
mod tests {
    use netrig_host::frames::{read_frame, write_frame};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_words_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut framed = (bytes.len() as u32).to_be_bytes().to_vec();
            framed.extend(bytes);
            let _ = read_frame::<FromProbe>(&mut &framed[..]);
            let _ = read_frame::<FromFarEnd>(&mut &framed[..]);
        }
    }

    #[test]
    fn a_full_frame_of_records_is_not_too_long() {
        let words = FromFarEnd::Packets { numbers: vec![u32::MAX; RECORDS], at: vec![u64::MAX; RECORDS] };
        write_frame(&mut std::io::sink(), &words).unwrap();
    }
}
