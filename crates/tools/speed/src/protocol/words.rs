//! The messages of the control connection.

use netrig_bulk::{ConnectionCounts, EndReport};
use netrig_core::{Duration, Rate, named};
use netrig_host::{STAMP_LEN, shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SessionToken;
use crate::admission::AdmissionRefusal;

/// Maximum number of connections of a phase.
pub const MOST_STREAMS: u16 = 128;

/// Maximum duration of a phase.
const LONGEST: Duration = Duration::from_secs(3600);

/// Minimum time between two readings. It bounds the size of a report.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum time between two readings. The limits of a session are checked at readings.
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of counts in one frame. Even on a slow line, a frame of this size arrives before the peer times out.
pub const COUNTS_IN_A_FRAME: usize = 64;

/// Maximum number of readings of one end in a phase, over all streams.
const MOST_READINGS: u64 = 40_000;

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromClient {
    /// Requests admission.
    Ask {
        /// Maximum rate in the direction with the higher rate, if known.
        bits_per_s: Option<u64>,
    },
    /// Prepares the next phase.
    Prepare(MeasurementPhase),
    /// All connections of the phase are open: the data flow may start.
    Begin,
    /// Sets the rate of the server's datagrams.
    Rate {
        /// Payload bits per second.
        bits_per_s: u64,
    },
    /// Ends the phase.
    End {
        /// Datagrams that the client has sent, in a phase of datagrams.
        sent: Option<u64>,
    },
}

/// A message of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromServer {
    /// The session waits in the queue.
    Waits {
        /// Number of sessions before this one.
        before: usize,
        /// Length of the queue.
        of: usize,
    },
    /// The session is admitted.
    Admitted(Budget),
    /// The phase is prepared: its connections may be opened.
    Ready,
    /// The data flow has started.
    Begun,
    /// Bytes received from the client so far. Sent at intervals during an upload.
    Arrived {
        /// Time since the phase began, by the server's clock, ns.
        at_ns: u64,
        /// Bytes received.
        bytes: u64,
    },
    /// The counts of the client's datagrams at one reading.
    Heard(DatagramCounts),
    /// A part of the server's counts of streams, in the order of time.
    Counted(Vec<ConnectionCounts>),
    /// A part of the server's counts of datagrams, in the order of time.
    HeardInAll(Vec<DatagramCounts>),
    /// The report of the phase. It follows all counts.
    Report(Box<EndReport>),
    /// The session is refused.
    Refused(AdmissionRefusal),
    /// The session has failed.
    Failed {
        /// The reason, as a sentence.
        why: String,
    },
}

/// The limits of an admitted session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The token for the data connections and datagrams of the session.
    pub token: SessionToken,
    /// Maximum duration of the session, ns.
    pub lasts_ns: u64,
    /// Maximum number of bytes of the session, in both directions together.
    pub bytes: u64,
    /// The rate limit in each direction, payload bits per second. `None` means unlimited.
    pub bits_per_s: Option<u64>,
    /// The digest that detects a common clock ([`clock_mark`](super::clock_mark)).
    pub clock: Option<[u8; 32]>,
}

named! {
    /// The direction of data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum DataDirection {
        /// From the client to the server.
        Up = "upload",
        /// From the server to the client.
        Down = "download",
        /// Both directions at once.
        Both = "both ways",
    }
}

/// The schedule of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DatagramLoad {
    /// Constant gaps.
    Fixed {
        /// Payload bits per second.
        bits_per_s: u64,
    },
    /// Exponential gaps.
    Poisson {
        /// Payload bits per second.
        bits_per_s: u64,
        /// Seed of the gaps.
        seed: u64,
    },
    /// A rate that the client controls ([`FromClient::Rate`]), zero at first.
    Told,
}

/// What carries the data of a phase.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Carrier {
    /// No data: only the delay of the path is measured.
    Idle,
    /// TCP connections.
    Tcp {
        /// The direction.
        way: DataDirection,
        /// Number of connections. Both directions share them.
        streams: u16,
        /// Congestion control of the server. Its own default if absent.
        congestion: Option<String>,
    },
    /// UDP datagrams.
    Udp {
        /// The direction.
        way: DataDirection,
        /// Payload of each datagram, bytes.
        size: u16,
        /// Their schedule.
        load: DatagramLoad,
    },
    /// Associations of netrig's own SCTP over UDP (RFC 6951), which the client opens.
    Sctp {
        /// The direction.
        way: DataDirection,
        /// Number of associations. Both directions share them.
        streams: u16,
        /// Maximum length of an SCTP packet, bytes.
        size: u16,
    },
}

/// A phase of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementPhase {
    /// The number of the phase, larger than those of all earlier phases. The client sets it when it begins the phase.
    pub number: u32,
    /// What carries the data.
    pub carrier: Carrier,
    /// Maximum duration, ns. The server ends the phase after it.
    pub lasts_ns: u64,
    /// Interval between readings, ns.
    pub every_ns: u64,
}

/// Why a phase is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhaseError {
    /// The phase has too many streams, or none.
    #[error("{0} connections: expected 1 to {MOST_STREAMS}")]
    Streams(u16),
    /// The duration is zero or too long.
    #[error("a phase of {0}: expected up to {LONGEST}")]
    Lasts(Duration),
    /// Readings are too close together or too many.
    #[error(
        "a reading every {every} of {streams} streams for {lasts}: expected at least {SHORTEST_INTERVAL} between two, and at most \
         {MOST_READINGS} readings in all"
    )]
    Readings {
        /// Interval between readings.
        every: Duration,
        /// Number of streams.
        streams: u16,
        /// Duration of the phase.
        lasts: Duration,
    },
    /// The datagram size is impossible.
    #[error("datagrams of {0} B: expected {SHORTEST_DATAGRAM} to {LONGEST_DATAGRAM}")]
    Size(u16),
    /// The SCTP packet size is impossible.
    #[error("packets of SCTP of up to {0} B: expected {SHORTEST_PACKET} to {LONGEST_DATAGRAM}")]
    Packet(u16),
    /// The rate is zero.
    #[error("datagrams at 0 bit/s: expected a rate")]
    NoRate,
    /// The name of the congestion control is impossible.
    #[error("congestion control `{0}`: expected a name of up to {LONGEST_NAME} letters, digits, `_` and `-`")]
    Congestion(String),
}

/// Minimum payload of a datagram, bytes. It has room for the number and the time stamps.
const SHORTEST_DATAGRAM: u16 = STAMP_LEN as u16;
/// Minimum value of the limit of SCTP packets, bytes. Such packets have room for the state cookie of a handshake.
const SHORTEST_PACKET: u16 = 512;
/// Maximum payload of UDP over IPv4 (RFC 768, RFC 791), bytes.
const LONGEST_DATAGRAM: u16 = 65_507;
/// Maximum length of the name of a congestion control, characters (Linux: TCP_CA_NAME_MAX including the NUL).
const LONGEST_NAME: usize = 15;

/// Whether a kernel can have a congestion control of this name. The name comes from a peer and may be any text.
fn is_congestion_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_letter)
}

impl MeasurementPhase {
    /// A phase that has no number yet.
    pub const fn new(carrier: Carrier, lasts: Duration, every: Duration) -> Self {
        Self { number: 0, carrier, lasts_ns: lasts.as_nanos(), every_ns: every.as_nanos() }
    }

    /// An idle phase.
    pub const fn idle(lasts: Duration) -> Self {
        Self::new(Carrier::Idle, lasts, lasts)
    }

    /// Maximum duration of the phase.
    pub const fn lasts(&self) -> Duration {
        Duration::from_nanos(self.lasts_ns)
    }

    /// Interval between readings.
    pub const fn every(&self) -> Duration {
        Duration::from_nanos(self.every_ns)
    }

    /// The minimum allowed interval between readings of a phase. It is a multiple of `least`, and at most the maximum
    /// that a server allows.
    pub fn interval(carrier: &Carrier, lasts: Duration, least: Duration) -> Duration {
        let in_all = lasts.as_nanos().saturating_mul(carrier.streams().max(1).into());
        let at_once = least.as_nanos().max(1).saturating_mul(MOST_READINGS);
        let every = least.as_nanos().saturating_mul(in_all.div_ceil(at_once).max(1));
        Duration::from_nanos(every).min(LONGEST_INTERVAL)
    }

    /// The direction of data, if any.
    pub const fn way(&self) -> Option<DataDirection> {
        self.carrier.way()
    }

    /// Number of data connections.
    pub const fn streams(&self) -> u16 {
        self.carrier.streams()
    }

    /// Checks whether the phase is valid.
    ///
    /// # Errors
    /// The first invalid value of the phase.
    pub fn check(&self) -> Result<(), PhaseError> {
        let (lasts, every) = (self.lasts(), self.every());
        if lasts.is_zero() || lasts > LONGEST {
            return Err(PhaseError::Lasts(lasts));
        }
        let streams = match &self.carrier {
            Carrier::Idle => 1,
            Carrier::Tcp { streams, .. } | Carrier::Sctp { streams, .. } => {
                if !(1..=MOST_STREAMS).contains(streams) {
                    return Err(PhaseError::Streams(*streams));
                }
                if let Carrier::Tcp { congestion: Some(name), .. } = &self.carrier
                    && !is_congestion_name(name)
                {
                    return Err(PhaseError::Congestion(shown(name)));
                }
                if let Carrier::Sctp { size, .. } = &self.carrier
                    && !(SHORTEST_PACKET..=LONGEST_DATAGRAM).contains(size)
                {
                    return Err(PhaseError::Packet(*size));
                }
                *streams
            }
            Carrier::Udp { size, load, .. } => {
                if !(SHORTEST_DATAGRAM..=LONGEST_DATAGRAM).contains(size) {
                    return Err(PhaseError::Size(*size));
                }
                if load.rate().is_some_and(|rate| rate.bits_per_s() == 0) {
                    return Err(PhaseError::NoRate);
                }
                1
            }
        };
        let readings = lasts.as_nanos() / every.as_nanos().max(1) * u64::from(streams);
        if every < SHORTEST_INTERVAL || readings > MOST_READINGS {
            return Err(PhaseError::Readings { every, streams, lasts });
        }
        Ok(())
    }
}

impl Carrier {
    /// The direction of data, if any.
    pub const fn way(&self) -> Option<DataDirection> {
        match self {
            Self::Idle => None,
            Self::Tcp { way, .. } | Self::Udp { way, .. } | Self::Sctp { way, .. } => Some(*way),
        }
    }

    /// Whether congestion control adapts the rate to the path: true for connections and associations.
    pub const fn adapts(&self) -> bool {
        matches!(self, Self::Tcp { .. } | Self::Sctp { .. })
    }

    /// Whether one UDP socket at each end carries the data.
    pub const fn is_of_datagrams(&self) -> bool {
        matches!(self, Self::Udp { .. } | Self::Sctp { .. })
    }

    /// Number of connections or associations.
    pub const fn streams(&self) -> u16 {
        match self {
            Self::Tcp { streams, .. } | Self::Sctp { streams, .. } => *streams,
            Self::Idle | Self::Udp { .. } => 0,
        }
    }
}

impl DatagramLoad {
    /// The rate of the datagrams, if it is fixed.
    pub const fn rate(&self) -> Option<Rate> {
        match self {
            Self::Fixed { bits_per_s } | Self::Poisson { bits_per_s, .. } => {
                Some(Rate::from_bits_per_s(*bits_per_s))
            }
            Self::Told => None,
        }
    }
}

/// Counts of datagrams at one time, at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramCounts {
    /// Time since the phase began, by the receiver's clock, ns.
    pub at_ns: u64,
    /// Datagrams received, without duplicates.
    pub received: u64,
    /// Datagrams that arrived before the last received one but were dropped because the socket buffer was full. `None`
    /// if not reported.
    pub dropped: Option<u64>,
    /// The highest number received plus 1.
    pub expected: u64,
    /// Payload received, bytes.
    pub bytes: u64,
    /// Arrival time of the last datagram, by the receiver's clock, ns.
    pub last_arrival_ns: u64,
    /// Sending time of the last received datagram, by the sender's clock, ns.
    pub last_sent_ns: u64,
    /// Minimum, mean and maximum of the one-way delay since the previous reading, ns. It includes the offset between
    /// the sender's and the receiver's clock.
    pub passage_ns: Option<[i64; 3]>,
    /// Jitter (RFC 3550 section 6.4.1), ns. `None` before the second datagram, and if not reported.
    pub jitter_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(carrier: Carrier) -> MeasurementPhase {
        MeasurementPhase { number: 1, carrier, lasts_ns: 10_000_000_000, every_ns: 100_000_000 }
    }

    fn tcp(streams: u16) -> Carrier {
        Carrier::Tcp { way: DataDirection::Down, streams, congestion: None }
    }

    fn udp(size: u16, load: DatagramLoad) -> Carrier {
        Carrier::Udp { way: DataDirection::Up, size, load }
    }

    #[test]
    fn what_cannot_be_carried_out_is_said() {
        for good in [
            Carrier::Idle,
            tcp(1),
            tcp(128),
            udp(28, DatagramLoad::Told),
            udp(1400, DatagramLoad::Fixed { bits_per_s: 1 }),
        ] {
            assert_eq!(phase(good).check(), Ok(()));
        }
        assert_eq!(phase(tcp(0)).check(), Err(PhaseError::Streams(0)));
        assert_eq!(phase(tcp(129)).check(), Err(PhaseError::Streams(129)));
        assert_eq!(phase(udp(27, DatagramLoad::Told)).check(), Err(PhaseError::Size(27)));
        let sctp = |streams, size| Carrier::Sctp { way: DataDirection::Down, streams, size };
        assert_eq!(phase(sctp(4, 1232)).check(), Ok(()));
        assert_eq!(phase(sctp(0, 1232)).check(), Err(PhaseError::Streams(0)));
        assert_eq!(phase(sctp(1, 511)).check(), Err(PhaseError::Packet(511)));
        assert_eq!(
            phase(udp(99, DatagramLoad::Poisson { bits_per_s: 0, seed: 1 })).check(),
            Err(PhaseError::NoRate)
        );
        let endless = MeasurementPhase { lasts_ns: u64::MAX, ..phase(Carrier::Idle) };
        assert!(matches!(endless.check(), Err(PhaseError::Lasts(_))));
        let fine = MeasurementPhase { every_ns: 0, ..phase(Carrier::Idle) };
        assert!(matches!(fine.check(), Err(PhaseError::Readings { .. })));
        let many = MeasurementPhase { every_ns: 10_000_000, ..phase(tcp(128)) };
        assert!(matches!(many.check(), Err(PhaseError::Readings { .. })));
    }

    #[test]
    fn readings_of_many_connections_for_long_are_further_apart() {
        let (second, least) = (Duration::from_secs(1), Duration::from_millis(100));
        for (streams, lasts, wanted_ms) in
            [(4, 3, 100), (128, 31, 100), (128, 32, 200), (128, 312, 1000), (1, 3600, 100)]
        {
            let (carrier, lasts) = (tcp(streams), second * lasts);
            let every = MeasurementPhase::interval(&carrier, lasts, least);
            assert_eq!(every, Duration::from_millis(wanted_ms), "{streams} {lasts}");
            let phase = MeasurementPhase { carrier, lasts_ns: lasts.as_nanos(), ..phase(tcp(1)) };
            assert_eq!(MeasurementPhase { every_ns: every.as_nanos(), ..phase }.check(), Ok(()));
        }
        assert_eq!(
            MeasurementPhase::interval(&tcp(128), second * 3600, least),
            second,
            "and then it is too long"
        );
        let named = |name: &str| {
            let congestion = Some(name.to_owned());
            phase(Carrier::Tcp { way: DataDirection::Down, streams: 1, congestion }).check()
        };
        assert_eq!(named("cubic"), Ok(()));
        for name in ["", "a name", "\u{1b}[2J", &"x".repeat(16)] {
            assert!(matches!(named(name), Err(PhaseError::Congestion(_))), "{name:?}");
        }
    }

    #[test]
    fn a_full_list_of_readings_fits_into_its_frames() {
        let most = ConnectionCounts {
            at_ns: u64::MAX,
            segments: u64::MAX,
            has_hole: false,
            stream: u16::MAX,
            received: u64::MAX,
            sent: u64::MAX,
            cwnd: u64::MAX,
            window: u64::MAX,
            srtt_ns: Some(u64::MAX),
            min_rtt_ns: Some(u64::MAX),
            transmitted: Some(u64::MAX),
            sent_again: Some(u64::MAX),
            acknowledged: Some(u64::MAX),
            busy_ns: u64::MAX,
            window_limited_ns: u64::MAX,
            buffer_limited_ns: u64::MAX,
        };
        let words = FromServer::Counted(vec![most; COUNTS_IN_A_FRAME]);
        netrig_host::frames::write_frame(&mut std::io::sink(), &words).unwrap();
    }
}
