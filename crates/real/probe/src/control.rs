//! The control protocol of a probe and its far end, over TCP: the messages before the first packet and after the last.
//!
//! Frames are those of the agent's control protocol: a length and JSON. The far end greets with a nonce. The probe
//! answers with its own nonce and, if the far end has a key, with an HMAC over both. The far end then proves that it
//! has the key too. It does nothing else before that.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration as StdDuration;

use netrig_core::Duration;
use serde::{Deserialize, Serialize};

use super::error::ProbeError;
use super::schedule::Gaps;
use super::segments::SegmentEnd;
use super::stamp::HmacKey;
use super::two_way::ProbePlan;
use netrig_host::SourceReport;
use netrig_host::frames::{FrameError, read_frame, read_frame_within, write_frame};
use netrig_host::{SlotRefusal, random, shown_up_to};

/// Version of the protocol. Both sides must have the same.
pub const VERSION: u32 = 3;

/// The default port of a far end.
pub const PORT: u16 = 8620;

/// How long a far end may take to answer, in addition to the time of a stream or a transfer.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// The longest frame that a probe may send to a far end, bytes. It limits the memory that a connected peer can occupy.
pub(crate) const LONGEST_WORD: usize = 4096;

/// Packets in one frame of records.
pub(crate) const RECORDS: usize = 1 << 15;

/// A message from the far end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromFarEnd {
    /// The greeting.
    Hello {
        /// Its [`VERSION`].
        version: u32,
        /// A random nonce.
        nonce: [u8; 32],
        /// The far end has a key and requires a proof that the probe has it too.
        keyed: bool,
    },
    /// The probe is accepted.
    Welcome {
        /// Proof of the key. Absent if the far end has none.
        tag: Option<[u8; 32]>,
        /// Identity of this boot of this machine. Ends with the same identity read the same clock.
        boot: String,
    },
    /// Packets are expected at this UDP port.
    Ready {
        /// The port.
        port: u16,
    },
    /// Sizes of the segments of this connection, as seen by the far end.
    Segments(SegmentEnd),
    /// Packets in the order of their arrival, or of their sending if the far end sends the stream.
    Packets {
        /// Their numbers.
        numbers: Vec<u32>,
        /// Time of each packet, ns since 1970.
        at: Vec<u64>,
    },
    /// The report on the stream is complete.
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
    /// Reasons why the far end was the limit.
    pub faults: Vec<String>,
    /// Packets with a time stamp of the far end's kernel.
    pub stamped: usize,
    /// Number of arrived packets by DSCP.
    pub dscps: BTreeMap<u8, usize>,
    /// Number of arrived packets by TTL or hop limit.
    pub ttls: BTreeMap<u8, usize>,
    /// How well the far end kept the schedule, if it sent the stream.
    pub source: Option<Box<SourceReport>>,
}

/// A message from the probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromProbe {
    /// The answer to [`FromFarEnd::Hello`].
    Hello {
        /// Its [`VERSION`].
        version: u32,
        /// A random nonce.
        nonce: [u8; 32],
        /// Proof that the probe has the key of the far end.
        tag: Option<[u8; 32]>,
    },
    /// Requests the measurement of a stream.
    Stream(StreamRequest),
    /// Requests answers to the datagrams of a path MTU search.
    PathMtu {
        /// Datagrams that begin with this token are answered.
        token: u64,
    },
    /// Requests of transfers, calls or video follow, in the protocol of [`receiver`](super::receiver).
    Media,
    /// Asks the far end to send its stream now.
    Begin,
    /// The stream is over.
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
    /// Factor by which the far clock's lead is multiplied before it is subtracted from a delay.
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
    /// The gaps are exponential; otherwise they are constant.
    pub poisson: bool,
    /// Mean gap, ns.
    pub gap_ns: u64,
    /// A packet with a longer delay counts as lost, ns.
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

/// Why a greeting failed.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The connection failed, or a frame is malformed.
    #[error(transparent)]
    Control(#[from] FrameError),
    /// The peer has another version.
    #[error("it uses version {0} of the probe protocol, and this netrig uses version {VERSION}")]
    Version(u32),
    /// The far end has a key and the probe none.
    #[error("it requires a key")]
    KeyMissing,
    /// The probe has a key and the far end none.
    #[error("it has no key and cannot authenticate itself")]
    KeyUnknown,
    /// The keys differ.
    #[error("its key is different")]
    KeyWrong,
    /// The far end is at its limit.
    #[error("it is busy: {0}")]
    Busy(String),
    /// The far end refused the probe.
    #[error("it refuses: {0}")]
    Refused(String),
    /// The peer sent another message than expected.
    #[error("it does not use the probe protocol")]
    Unexpected,
}

/// An accepted control connection to a far end.
pub(crate) struct ControlConnection {
    pub stream: TcpStream,
    /// Both ends are on one boot of one machine and so read one clock.
    pub one_clock: bool,
}

/// Connects to a far end and authenticates both sides.
///
/// If no far end listens at the address, or it refuses the probe.
pub(crate) fn call(target: SocketAddr, key: Option<&HmacKey>) -> Result<ControlConnection, ProbeError> {
    let absent = |source| ProbeError::Connect { target, source };
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE).map_err(absent)?;
    stream.set_nodelay(true).map_err(absent)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(absent)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(absent)?;
    let theirs = greet_far_end(&mut stream, key).map_err(|error| ungreeted(target, &error))?;
    Ok(ControlConnection { stream, one_clock: boot().is_some_and(|ours| ours == theirs) })
}

/// The error for a failed greeting or an unexpected message, with advice.
pub(crate) fn ungreeted(target: SocketAddr, error: &GreetingError) -> ProbeError {
    let advice = match error {
        GreetingError::KeyMissing => "give the same --key FILE as there",
        GreetingError::KeyWrong => "give both ends the same --key FILE",
        GreetingError::KeyUnknown => "start it with --key FILE, or omit --key here",
        GreetingError::Version(_) => "use the same version of netrig at both ends",
        GreetingError::Busy(_) => "try again when other probes have finished",
        _ => "is `netrig probe reflect` listening there?",
    };
    ProbeError::FarEnd { target, why: error.to_string(), advice }
}

/// Identity of this boot of this machine. Some systems have none.
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|boot| !boot.is_empty())
}

/// The far end's side of the greeting, over a stream with time-outs. After the proof of the key, the probe is accepted
/// if `admit` succeeds.
pub(crate) fn greet_probe(
    stream: &mut (impl Read + Write),
    key: Option<&HmacKey>,
    boot: String,
    admit: impl FnOnce() -> Result<(), SlotRefusal>,
) -> Result<(), GreetingError> {
    let nonce: [u8; 32] = random().map_err(FrameError::from)?;
    write_frame(stream, &FromFarEnd::Hello { version: VERSION, nonce, keyed: key.is_some() })?;
    let hello = read_frame_within(stream, LONGEST_WORD)?;
    let Some(FromProbe::Hello { version, nonce: theirs, tag }) = hello else {
        return Err(GreetingError::Unexpected);
    };
    if version != VERSION {
        return Err(GreetingError::Version(version));
    }
    if let Some(key) = key {
        let genuine = tag.is_some_and(|tag| key.verify(&[PROBE, &nonce, &theirs], &tag));
        if !genuine {
            write_frame(stream, &FromFarEnd::Refused { why: "the key is missing or wrong".into() })?;
            return Err(GreetingError::KeyWrong);
        }
    }
    if let Err(busy) = admit() {
        let why = busy.to_string();
        write_frame(stream, &FromFarEnd::Busy { why: why.clone() })?;
        return Err(GreetingError::Busy(why));
    }
    let tag = key.map(|key| key.digest(&[FAR_END, &nonce, &theirs]));
    Ok(write_frame(stream, &FromFarEnd::Welcome { tag, boot })?)
}

/// The probe's side of the greeting. Returns the boot identity of the far end.
pub(crate) fn greet_far_end(
    stream: &mut (impl Read + Write),
    key: Option<&HmacKey>,
) -> Result<String, GreetingError> {
    let (version, theirs, keyed) = match read_frame(stream)? {
        Some(FromFarEnd::Hello { version, nonce, keyed }) => (version, nonce, keyed),
        Some(FromFarEnd::Busy { why }) => return Err(GreetingError::Busy(shown_up_to(LONGEST_WHY, &why))),
        _ => return Err(GreetingError::Unexpected),
    };
    if version != VERSION {
        return Err(GreetingError::Version(version));
    }
    match (keyed, key) {
        (true, None) => return Err(GreetingError::KeyMissing),
        (false, Some(_)) => return Err(GreetingError::KeyUnknown),
        _ => {}
    }
    let nonce: [u8; 32] = random().map_err(FrameError::from)?;
    let tag = key.map(|key| key.digest(&[PROBE, &theirs, &nonce]));
    write_frame(stream, &FromProbe::Hello { version: VERSION, nonce, tag })?;
    match read_frame(stream)? {
        Some(FromFarEnd::Welcome { tag, boot }) => {
            let proof = |key: &HmacKey| tag.is_some_and(|tag| key.verify(&[FAR_END, &theirs, &nonce], &tag));
            if key.is_none_or(proof) { Ok(boot) } else { Err(GreetingError::KeyWrong) }
        }
        Some(FromFarEnd::Busy { why }) => Err(GreetingError::Busy(shown_up_to(LONGEST_WHY, &why))),
        Some(FromFarEnd::Refused { .. }) if keyed => Err(GreetingError::KeyWrong),
        Some(FromFarEnd::Refused { why }) => Err(GreetingError::Refused(why)),
        _ => Err(GreetingError::Unexpected),
    }
}

/// Prefixes of the proofs. They differ so that neither proof can be sent back as the other.
const PROBE: &[u8] = b"netrig probe";
const FAR_END: &[u8] = b"netrig far end";

/// Letters of a far end's reason that are shown.
const LONGEST_WHY: usize = 240;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    type Greetings = (Result<(), GreetingError>, Result<String, GreetingError>);

    fn greet(far_end: Option<&[u8]>, probe: Option<&[u8]>) -> Greetings {
        let key = |octets: Option<&[u8]>| octets.map(|octets| HmacKey::new(octets).unwrap());
        let (far_key, probe_key) = (key(far_end), key(probe));
        let (mut near, mut far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let far_end =
                scope.spawn(move || greet_probe(&mut far, far_key.as_ref(), "boot".into(), || Ok(())));
            let probe = greet_far_end(&mut near, probe_key.as_ref());
            drop(near);
            (far_end.join().unwrap(), probe)
        })
    }

    const RIGHT: &[u8] = b"0123456789abcdef";
    const WRONG: &[u8] = b"0123456789abcdeF";

    #[test]
    fn who_has_the_key_is_welcome() {
        for key in [None, Some(RIGHT)] {
            let (far_end, probe) = greet(key, key);
            assert!(far_end.is_ok());
            assert_eq!(probe.unwrap(), "boot");
        }
    }

    #[test]
    fn who_has_another_key_or_none_is_refused() {
        let (far_end, probe) = greet(Some(RIGHT), Some(WRONG));
        assert!(matches!(far_end, Err(GreetingError::KeyWrong)));
        assert!(matches!(probe, Err(GreetingError::KeyWrong)));
        let (far_end, probe) = greet(Some(RIGHT), None);
        assert!(far_end.is_err());
        assert!(matches!(probe, Err(GreetingError::KeyMissing)));
        let (_, probe) = greet(None, Some(RIGHT));
        assert!(matches!(probe, Err(GreetingError::KeyUnknown)));
    }

    #[test]
    fn a_far_end_that_does_not_know_the_key_cannot_pretend() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                write_frame(&mut far, &FromFarEnd::Hello { version: VERSION, nonce: [1; 32], keyed: true })
                    .unwrap();
                let Some(FromProbe::Hello { tag, .. }) = read_frame(&mut far).unwrap() else { panic!() };
                // It can only echo what it received.
                write_frame(&mut far, &FromFarEnd::Welcome { tag, boot: String::new() }).unwrap();
            });
            let probe = greet_far_end(&mut near, HmacKey::new(RIGHT).as_ref());
            assert!(matches!(probe, Err(GreetingError::KeyWrong)), "{probe:?}");
        });
    }

    #[test]
    fn who_finds_no_room_is_told_so_and_not_that_the_key_is_wrong() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let key = || HmacKey::new(RIGHT).unwrap();
        std::thread::scope(|scope| {
            scope
                .spawn(move || greet_probe(&mut far, Some(&key()), "boot".into(), || Err(SlotRefusal::Full)));
            let probe = greet_far_end(&mut near, Some(&key()));
            assert!(
                matches!(&probe, Err(GreetingError::Busy(why)) if why.contains("try again later")),
                "{probe:?}"
            );
        });
    }

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
