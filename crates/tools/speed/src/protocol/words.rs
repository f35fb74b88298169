//! The words.

use netrig_bulk::{HostReport, LossPeriods, RadioReport};
use netrig_core::{Duration, Rate};
use netrig_host::{STAMP_LEN, shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SessionToken;
use crate::admission::AdmissionRefusal;

/// Connections that one phase may have.
pub const MOST_STREAMS: u16 = 128;

/// The longest phase.
const LONGEST: Duration = Duration::from_secs(3600);

/// The shortest time between two readings: a report of the longest phase has to fit into frames.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The longest: a session is looked at as often as that.
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Readings that one end reports of a phase at most, over all streams.
const MOST_READINGS: u64 = 40_000;

/// What a client says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromClient {
    /// The greeting's answer ([`greeting`](super::greeting)).
    Hello {
        /// Its [`VERSION`](super::VERSION).
        version: u32,
        /// Random.
        nonce: [u8; 32],
        /// The proof that it has the server's key.
        tag: Option<[u8; 32]>,
    },
    /// It wants to measure, and will need at most so many bits per second, if it knows.
    Ask {
        /// In its busier direction.
        bits_per_s: Option<u64>,
    },
    /// The next phase.
    Prepare(MeasurementPhase),
    /// All connections of the phase stand: data may flow.
    Begin,
    /// From now on the server's datagrams leave at this rate.
    Rate {
        /// Of their payloads.
        bits_per_s: u64,
    },
    /// The phase is over.
    End {
        /// Datagrams that it has sent, of a phase of such.
        sent: Option<u64>,
    },
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FromServer {
    /// The first words.
    Hello {
        /// Its [`VERSION`](super::VERSION).
        version: u32,
        /// Random.
        nonce: [u8; 32],
        /// It has a key, and wants to see that the client has it too.
        keyed: bool,
    },
    /// The client may go on.
    Welcome {
        /// The proof of a server that has a key.
        tag: Option<[u8; 32]>,
    },
    /// Others are served first.
    Waits {
        /// How many stand before it.
        before: usize,
        /// How many wait.
        of: usize,
    },
    /// It is its turn.
    Admitted(Budget),
    /// The phase is prepared: its connections may come.
    Ready,
    /// Data flows.
    Begun,
    /// So much has arrived of what the client sends; told now and then, while nothing else goes that way.
    Arrived {
        /// Since the phase began, by the server's clock, ns.
        at_ns: u64,
        /// Bytes.
        bytes: u64,
    },
    /// What has arrived of the client's datagrams; told at each reading.
    Heard(DatagramCounts),
    /// Part of what the server has counted, in the order of time.
    Counted(Vec<StreamCounts>),
    /// The same of datagrams.
    HeardInAll(Vec<DatagramCounts>),
    /// All about the phase has been told.
    Report(Box<EndReport>),
    /// It is turned away.
    Refused(AdmissionRefusal),
    /// It cannot go on.
    Failed {
        /// Why, in words.
        why: String,
    },
}

/// What a session may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// What its connections and datagrams name it by.
    pub token: SessionToken,
    /// How long it may last, ns.
    pub lasts_ns: u64,
    /// What it may carry, bytes of both directions.
    pub bytes: u64,
    /// What the server holds it to in each direction, payload bits per second; all that the path takes if not given.
    pub bits_per_s: Option<u64>,
    /// What tells whether both ends read one clock ([`clock_mark`](super::clock_mark)).
    pub clock: Option<[u8; 32]>,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataDirection {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
    /// Both at once.
    Both,
}

/// What datagrams leave at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DatagramLoad {
    /// One gap after the other, all the same.
    Fixed {
        /// Payload bits per second.
        bits_per_s: u64,
    },
    /// Exponential gaps with that mean.
    Poisson {
        /// Payload bits per second.
        bits_per_s: u64,
        /// Seed of the gaps.
        seed: u64,
    },
    /// What is told while it goes on ([`FromClient::Rate`]); nothing at first.
    Told,
}

/// What carries data.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Carrier {
    /// Nothing does: only the path's delay is measured.
    Idle,
    /// Connections of TCP.
    Tcp {
        /// Which way.
        way: DataDirection,
        /// How many connections; both ways share them.
        streams: u16,
        /// Congestion control of what the server sends; its own choice if not given.
        congestion: Option<String>,
    },
    /// Datagrams.
    Udp {
        /// Which way.
        way: DataDirection,
        /// Payload of each, bytes.
        size: u16,
        /// How many.
        load: DatagramLoad,
    },
    /// Associations of netrig's own SCTP over UDP (RFC 6951), which the client opens.
    Sctp {
        /// Which way.
        way: DataDirection,
        /// How many associations; both ways share them.
        streams: u16,
        /// The longest payload of a datagram, bytes: a packet of SCTP.
        size: u16,
    },
}

/// One measurement of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementPhase {
    /// Its number: larger than those of all phases before it.
    pub number: u32,
    /// What carries data.
    pub carrier: Carrier,
    /// How long at most, ns: then the server ends it by itself.
    pub lasts_ns: u64,
    /// Time between two readings, ns.
    pub every_ns: u64,
}

/// Why a phase cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PhaseError {
    /// Too many streams, or none.
    #[error("{0} connections: expected 1 to {MOST_STREAMS}")]
    Streams(u16),
    /// Too long, or no time.
    #[error("a phase of {0}: expected up to {LONGEST}")]
    Lasts(Duration),
    /// Readings too close together, or too many in all.
    #[error(
        "a reading every {every} of {streams} streams for {lasts}: expected at least {SHORTEST_INTERVAL} between two, and at most \
         {MOST_READINGS} readings in all"
    )]
    Readings {
        /// Time between two.
        every: Duration,
        /// Streams.
        streams: u16,
        /// The phase's time.
        lasts: Duration,
    },
    /// Datagrams that cannot be.
    #[error("datagrams of {0} B: expected {SHORTEST_DATAGRAM} to {LONGEST_DATAGRAM}")]
    Size(u16),
    /// Packets of SCTP that cannot be.
    #[error("packets of SCTP of up to {0} B: expected {SHORTEST_PACKET} to {LONGEST_DATAGRAM}")]
    Packet(u16),
    /// No load.
    #[error("datagrams at 0 bit/s: expected a rate")]
    NoRate,
    /// What no congestion control is called.
    #[error("congestion control `{0}`: expected a name of up to {LONGEST_NAME} letters, digits, `_` and `-`")]
    Congestion(String),
}

/// The shortest payload of a datagram, bytes: it has room for its number and its times.
const SHORTEST_DATAGRAM: u16 = STAMP_LEN as u16;
/// The shortest bound of packets of SCTP, bytes: the state cookie of a handshake fits.
const SHORTEST_PACKET: u16 = 512;
/// The longest payload of UDP over IPv4 (RFC 768, RFC 791), bytes.
const LONGEST_DATAGRAM: u16 = 65_507;
/// The longest name of a congestion control, letters (Linux: TCP_CA_NAME_MAX, with its zero).
const LONGEST_NAME: usize = 15;

/// Whether a kernel may have a congestion control of that name: what comes from elsewhere is any text, of any length.
fn is_congestion_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_letter)
}

impl MeasurementPhase {
    /// How long it lasts at most.
    pub const fn lasts(&self) -> Duration {
        Duration::from_nanos(self.lasts_ns)
    }

    /// Time between two readings.
    pub const fn every(&self) -> Duration {
        Duration::from_nanos(self.every_ns)
    }

    /// The time between two readings with which as many are made of a phase as may be: a multiple of `least`, and no more than a
    /// server waits for a reading.
    pub fn interval(carrier: &Carrier, lasts: Duration, least: Duration) -> Duration {
        let in_all = lasts.as_nanos().saturating_mul(carrier.streams().max(1).into());
        let at_once = least.as_nanos().max(1).saturating_mul(MOST_READINGS);
        let every = least.as_nanos().saturating_mul(in_all.div_ceil(at_once).max(1));
        Duration::from_nanos(every).min(LONGEST_INTERVAL)
    }

    /// Which way data goes, if any does.
    pub const fn way(&self) -> Option<DataDirection> {
        self.carrier.way()
    }

    /// Connections that carry its data.
    pub const fn streams(&self) -> u16 {
        self.carrier.streams()
    }

    /// Whether it can be carried out.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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
    /// Which way data goes, if any does.
    pub const fn way(&self) -> Option<DataDirection> {
        match self {
            Self::Idle => None,
            Self::Tcp { way, .. } | Self::Udp { way, .. } | Self::Sctp { way, .. } => Some(*way),
        }
    }

    /// Whether what carries data adapts to the path by itself: connections and associations do.
    pub const fn adapts(&self) -> bool {
        matches!(self, Self::Tcp { .. } | Self::Sctp { .. })
    }

    /// Whether data goes in datagrams, over one socket at each end.
    pub const fn is_of_datagrams(&self) -> bool {
        matches!(self, Self::Udp { .. } | Self::Sctp { .. })
    }

    /// Connections or associations that carry data.
    pub const fn streams(&self) -> u16 {
        match self {
            Self::Tcp { streams, .. } | Self::Sctp { streams, .. } => *streams,
            Self::Idle | Self::Udp { .. } => 0,
        }
    }
}

impl DatagramLoad {
    /// The rate, if it is known beforehand.
    pub const fn rate(&self) -> Option<Rate> {
        match self {
            Self::Fixed { bits_per_s } | Self::Poisson { bits_per_s, .. } => {
                Some(Rate::from_bits_per_s(*bits_per_s))
            }
            Self::Told => None,
        }
    }
}

/// What one stream had carried at a moment, as the end tells that counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamCounts {
    /// Since the phase began, by that end's clock, ns.
    pub at_ns: u64,
    /// The stream.
    pub stream: u16,
    /// Bytes that it has received.
    pub received: u64,
    /// Segments with data that have arrived, those that lie out of order too; zero where they are not counted (SCTP).
    pub segments: u64,
    /// Whether some of these cannot be read yet, because one before them is missing.
    pub has_hole: bool,
    /// Bytes that it has given to its kernel.
    pub sent: u64,
    /// Congestion window, bytes; of an end that sends, as all that follows.
    pub cwnd: u64,
    /// The window that the other end offers, bytes.
    pub window: u64,
    /// Smoothed round trip, ns.
    pub srtt_ns: Option<u64>,
    /// Shortest round trip of late, ns.
    pub min_rtt_ns: Option<u64>,
    /// Bytes that have left it, those that were sent again too: less than it has given to its kernel, as long as some of
    /// that waits there; nothing of an end that does not tell.
    pub transmitted: Option<u64>,
    /// Of these, bytes sent again.
    pub sent_again: Option<u64>,
    /// Bytes of the phase that the other end has acknowledged; nothing of an end that does not tell.
    pub acknowledged: Option<u64>,
    /// For how long there was something to send, or sent and not acknowledged, ns.
    pub busy_ns: u64,
    /// For how long the other end's window let no more through, ns.
    pub window_limited_ns: u64,
    /// For how long the send buffer held no more, ns.
    pub buffer_limited_ns: u64,
}

impl StreamCounts {
    /// So many are told in one frame: of a slow line, too, it comes in less time than the other end waits for it.
    pub const IN_A_FRAME: usize = 64;

    /// Whether it can tell of the path under load: until data is acknowledged, the round trip is that of the handshake.
    pub fn is_under_load(&self) -> bool {
        self.acknowledged != Some(0)
    }
}

/// What had become of datagrams at a moment, as their receiver tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramCounts {
    /// Since the phase began, by the receiver's clock, ns.
    pub at_ns: u64,
    /// Datagrams that have arrived, each once.
    pub received: u64,
    /// Datagrams that reached the receiver before the last of these, and that its socket had no room for; nothing of who does not tell.
    pub dropped: Option<u64>,
    /// One more than the highest number that has arrived.
    pub expected: u64,
    /// Payload that has arrived, bytes.
    pub bytes: u64,
    /// When the last one arrived, by the receiver's clock, ns.
    pub last_arrival_ns: u64,
    /// When the last of those that arrived was sent, by the sender's clock, ns.
    pub last_sent_ns: u64,
    /// From the sender's clock to the receiver's, of what arrived since the reading before, ns: the least, the mean, the most.
    pub passage_ns: Option<[i64; 3]>,
    /// How much the time on the way changes from one datagram to the next, smoothed (RFC 3550 section 6.4.1), ns; nothing before
    /// the second, and of who does not tell.
    pub jitter_ns: Option<u64>,
}

/// What became of all datagrams of a phase in one direction, at an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datagrams {
    /// That this end has sent.
    pub sent: u64,
    /// That were due and that it could not send.
    pub skipped: u64,
    /// That arrived here, each once.
    pub received: u64,
    /// Arrivals of what had arrived before; nothing of an end that receives none, or does not tell.
    pub duplicated: Option<u64>,
    /// That arrived after one with a higher number (RFC 4737 section 3.3); nothing of an end that receives none, or does not tell.
    pub reordered: Option<u64>,
    /// That never arrived.
    pub lost: u64,
    /// How these lie; nothing of an end that receives none, or does not tell.
    pub loss_periods: Option<LossPeriods>,
    /// That reached this end's host, whose socket had no room for them; nothing of an end that receives none, or does not tell.
    pub dropped: Option<u64>,
    /// How much the time on the way changed from one datagram to the next when the last one came, smoothed, s (RFC 3550 section
    /// 6.4.1); nothing if fewer than two arrived here.
    pub jitter_s: Option<f64>,
    /// By how much the wall clock of this end's host, by which its kernel stamps what comes, was set meanwhile, at most, s. Nothing of
    /// an end that receives none, or whose clock nobody has set.
    pub clock_set_s: Option<f64>,
}

/// What an end tells of a phase as a whole.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndReport {
    /// What its host did meanwhile.
    pub host: HostReport,
    /// For how long the threads that carried data ran, ns.
    pub ran_ns: u64,
    /// For how long they waited for a processor, ns.
    pub waited_ns: u64,
    /// For how long they were there, all of them together, ns.
    pub threads_ns: u64,
    /// Payload of a full segment, or packet of SCTP, of what it sends, bytes; nothing where it sends datagrams of a rate.
    pub segment: Option<u32>,
    /// Whether each segment of what it sends has time stamps (RFC 7323), which are a header.
    pub timestamps: bool,
    /// The longest IP packet that its kernel takes the path to carry, bytes.
    pub path_mtu: Option<u32>,
    /// Whether its sockets were told how long their buffers are, to send and to receive: then its kernel's settings are not what
    /// made them so.
    pub chosen_buffers: [bool; 2],
    /// What its sockets' buffers may hold, bytes: to send, to receive.
    pub buffers: Option<[u64; 2]>,
    /// The largest window that it offers, bytes, where that is not its kernel's choice.
    pub window: Option<u32>,
    /// The congestion control of what it sends.
    pub congestion: Option<String>,
    /// The radio by which its packets leave, if one does.
    pub radio: Option<RadioReport>,
    /// Its datagrams.
    pub datagrams: Option<Datagrams>,
    /// Why it says nothing of the path.
    pub faults: Vec<String>,
}

impl EndReport {
    /// Its sockets' buffers as iperf3's documents have them, bytes: no more than their numbers hold.
    pub(crate) fn buffers_in_32_bits(&self) -> [u32; 2] {
        self.buffers.unwrap_or_default().map(|bytes| bytes.try_into().unwrap_or(u32::MAX))
    }
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
        let most = StreamCounts {
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
        let words = FromServer::Counted(vec![most; StreamCounts::IN_A_FRAME]);
        netrig_host::frames::write_frame(&mut std::io::sink(), &words).unwrap();
    }
}
