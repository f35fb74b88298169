//! What a probe and its far end say to each other over TCP, before any packet is sent and after the last.
//!
//! Frames are those of the agent's control protocol: a length and JSON. The far end greets with a nonce; the probe answers
//! with one of its own and, if the far end has a key, with an HMAC over both; the far end proves that it has the key too.
//! Only then does it say or do anything else.

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
use netrig_host::{Busy, random, shown_up_to};

/// The version of what is said: both sides must have the same.
pub const VERSION: u32 = 3;

/// The port on which a far end listens by default.
pub const PORT: u16 = 8620;

/// How long a far end may take for a word, beside what a stream or a transfer takes.
const PATIENCE: StdDuration = StdDuration::from_secs(10);

/// The longest frame that a probe may send to a far end, bytes. Any peer that connects can make the far end keep that much.
pub(crate) const LONGEST_WORD: usize = 4096;

/// Packets in one frame of records.
pub(crate) const RECORDS: usize = 1 << 15;

/// What a far end says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromFarEnd {
    /// The first words.
    Hello {
        /// Its [`VERSION`].
        version: u32,
        /// Random.
        nonce: [u8; 32],
        /// It has a key, and wants to see that the probe has it too.
        keyed: bool,
    },
    /// The probe may go on.
    Welcome {
        /// The proof of a far end that has a key.
        tag: Option<[u8; 32]>,
        /// What tells this boot of this machine from all others: ends of one boot read one clock.
        boot: String,
    },
    /// Packets are expected at this port of UDP.
    Ready {
        /// The port.
        port: u16,
    },
    /// What it knows of the segments of this connection.
    Segments(SegmentEnd),
    /// Packets that arrived (or, of a stream back, were sent), in this order.
    Packets {
        /// Their numbers.
        numbers: Vec<u32>,
        /// When, ns since 1970.
        at: Vec<u64>,
    },
    /// Nothing follows about the stream.
    Done(StreamSummary),
    /// There is no room for the probe now.
    Busy {
        /// Why, in words.
        why: String,
    },
    /// It will not do what it was asked for.
    Refused {
        /// Why, in words.
        why: String,
    },
}

/// What a far end tells of a stream as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSummary {
    /// Why the far end was the limit.
    pub faults: Vec<String>,
    /// How many of the packets its kernel stamped.
    pub stamped: usize,
    /// DSCP with which packets arrived, and how often.
    pub dscps: BTreeMap<u8, usize>,
    /// TTL or hop limit with which packets arrived, and how often.
    pub ttls: BTreeMap<u8, usize>,
    /// How it kept its schedule, of a stream that it sent.
    pub source: Option<Box<SourceReport>>,
}

/// What a probe says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromProbe {
    /// To [`FromFarEnd::Hello`].
    Hello {
        /// Its [`VERSION`].
        version: u32,
        /// Random.
        nonce: [u8; 32],
        /// The proof that it has the far end's key.
        tag: Option<[u8; 32]>,
    },
    /// A stream is to be measured.
    Stream(StreamRequest),
    /// How long packets may be is to be found out: datagrams with this token are to be answered.
    PathMtu {
        /// What they begin with.
        token: u64,
    },
    /// Transfers, calls or video follow, in words of their own ([`receiver`](super::receiver)).
    Media,
    /// The far end is to begin a stream back.
    Begin,
    /// The stream is over.
    Finish,
}

/// Which way a stream goes.
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
    /// What the far clock's lead has to be multiplied by to be taken out of a delay.
    pub(super) const fn sign(self) -> f64 {
        match self {
            Self::There => 1.0,
            Self::Back => -1.0,
        }
    }
}

/// A stream of packets in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// Which.
    pub direction: StreamDirection,
    /// What its packets carry, so that no others are taken for them.
    pub token: u64,
    /// Packets.
    pub count: u32,
    /// Whether the gaps are exponential; else they are all the same.
    pub poisson: bool,
    /// Mean gap, ns.
    pub gap_ns: u64,
    /// A packet that takes longer is lost, ns.
    pub wait_ns: u64,
    /// Seed of the gaps.
    pub seed: u64,
    /// Octets of UDP payload.
    pub size: usize,
    /// Code point.
    pub dscp: u8,
}

impl StreamRequest {
    /// How many packets, and when.
    pub fn plan(&self) -> ProbePlan {
        let gap = Duration::from_nanos(self.gap_ns);
        ProbePlan {
            count: self.count,
            gaps: if self.poisson { Gaps::Poisson(gap) } else { Gaps::Periodic(gap) },
            wait: Duration::from_nanos(self.wait_ns),
            seed: self.seed,
        }
    }

    /// How long it takes, as it was asked for.
    pub fn lasts(&self) -> Duration {
        Duration::from_nanos(self.gap_ns.saturating_mul(self.count.into()))
    }
}

/// Why a greeting failed.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The stream broke, or what came cannot be understood.
    #[error(transparent)]
    Control(#[from] FrameError),
    /// The other side of the talk is of another version.
    #[error("it speaks version {0} of the probes' protocol, and this netrig version {VERSION}")]
    Version(u32),
    /// The far end has a key.
    #[error("it asks for a key")]
    KeyMissing,
    /// The far end has none.
    #[error("it has no key, and cannot prove who it is")]
    KeyUnknown,
    /// The keys differ.
    #[error("its key is another one")]
    KeyWrong,
    /// It has no room for this probe.
    #[error("it is busy: {0}")]
    Busy(String),
    /// It said no.
    #[error("it refuses: {0}")]
    Refused(String),
    /// It said something else.
    #[error("it does not speak the probes' protocol")]
    Unexpected,
}

/// A far end that let us in.
pub(crate) struct ControlConnection {
    /// What is said over.
    pub stream: TcpStream,
    /// Whether both ends are of one boot of one machine, and so read one clock.
    pub one_clock: bool,
}

/// Connects to a far end, and is let in.
///
/// # Errors
/// If nobody listens there, or it does not let us in.
pub(crate) fn call(target: SocketAddr, key: Option<&HmacKey>) -> Result<ControlConnection, ProbeError> {
    let absent = |source| ProbeError::Connect { target, source };
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE).map_err(absent)?;
    stream.set_nodelay(true).map_err(absent)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(absent)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(absent)?;
    let theirs = greet_far_end(&mut stream, key).map_err(|error| ungreeted(target, &error))?;
    Ok(ControlConnection { stream, one_clock: boot().is_some_and(|ours| ours == theirs) })
}

/// What to do about a far end that does not let us in, or says what means nothing.
pub(crate) fn ungreeted(target: SocketAddr, error: &GreetingError) -> ProbeError {
    let advice = match error {
        GreetingError::KeyMissing => "give the same --key FILE as there",
        GreetingError::KeyWrong => "give both ends the same --key FILE",
        GreetingError::KeyUnknown => "start it with --key FILE, or leave --key away",
        GreetingError::Version(_) => "take the same version of netrig at both ends",
        GreetingError::Busy(_) => "try again when other probes have ended",
        _ => "is it `netrig probe reflect` that listens there?",
    };
    ProbeError::FarEnd { target, why: error.to_string(), advice }
}

/// What tells this boot of this machine from all others; not known on every system.
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|boot| !boot.is_empty())
}

/// The far end's side of the greeting, over a stream with time-outs. Who has shown the key is let in if `admit` has room.
pub(crate) fn greet_probe(
    stream: &mut (impl Read + Write),
    key: Option<&HmacKey>,
    boot: String,
    admit: impl FnOnce() -> Result<(), Busy>,
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

/// The probe's side of the greeting; what tells the far end's boot from all others.
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

/// What each side's proof begins with, so that none is the other's.
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
                // It can only send back what it heard.
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
            scope.spawn(move || greet_probe(&mut far, Some(&key()), "boot".into(), || Err(Busy::Full)));
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
