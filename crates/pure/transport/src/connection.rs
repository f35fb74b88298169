//! What TCP connections and SCTP associations have in common.

use std::fmt;

use netrig_core::{ConnectionEvent, Data, Duration, Endpoint, Instant, StreamId};
use serde::{Deserialize, Serialize};

use crate::Packet;

/// Two packets of the greatest length, bytes: who has so much to send looks no further for the next one.
pub(crate) const PLENTY: u64 = 1 << 17;

/// One of a connection's paths, by its place in the list that the connection was made with. TCP has path 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathId(pub u8);

/// One TCP connection or SCTP association, without I/O.
///
/// A host owns many and finds them by five-tuple, as a kernel does. After every call that takes
/// `&mut self` drain it: packets, events, then incidents.
pub trait Connection: Endpoint<Packet = Packet, Event = ConnectionEvent> {
    /// As [`Endpoint::handle_packet`] without a move of the packet, whose payload is spent afterwards.
    fn take_packet(&mut self, now: Instant, packet: &mut Packet);

    /// As [`Endpoint::poll_transmit`], but writes the packet into the place of another, which is lost. Whether there was one to
    /// send.
    #[must_use]
    fn transmit_into(&mut self, now: Instant, place: &mut Packet) -> bool;

    /// Whether there is certainly nothing to transmit at `now`: to ask costs less than [`Connection::transmit_into`].
    fn is_silent(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Whether more data to send would certainly change nothing until a packet arrives, a timer fires or something else is asked of
    /// the connection: data wait already, and nothing that is given makes them leave.
    fn ignores_more_data(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Whether so much data wait that what is behind them makes no difference to the next packet.
    fn has_plenty(&self) -> bool {
        false
    }

    /// Takes data that were given to it earlier, while it [ignored more](Connection::ignores_more_data), and of which nobody has
    /// told it since, as it had [plenty](Connection::has_plenty).
    fn send_late(&mut self, now: Instant, stream: StreamId, data: Data) {
        self.send(now, stream, data);
    }

    /// Data without content raise no [`ConnectionEvent::Received`] from now on:
    /// [`Connection::take_ignored`] counts their bytes.
    fn ignore_data(&mut self);

    /// Bytes that were ignored since the last call.
    fn take_ignored(&mut self) -> u64;

    /// The user stops taking data as they come, or goes on. Meanwhile they wait in the receive buffer until [`Connection::read`],
    /// and leave less room for what the peer may send.
    fn set_reading(&mut self, reading: bool);

    /// The user takes up to so many bytes of what waits in the receive buffer, and the window opens by as much. Returns how many
    /// it took.
    fn read(&mut self, bytes: u64) -> u64;

    /// Bytes in the receive buffer that the user may take.
    fn unread(&self) -> u64;

    /// Starts the handshake. Calling it again does nothing.
    fn open(&mut self, now: Instant);

    /// Gives data to send on `stream`; before the handshake is done it waits. Never refused.
    fn send(&mut self, now: Instant, stream: StreamId, data: Data);

    /// No more data will be given; what was given still arrives.
    fn close(&mut self, now: Instant);

    /// Ends the connection at once (RST, ABORT).
    fn abort(&mut self, now: Instant);

    /// Something outside the protocol happened: the user chose another primary path, an interface of this
    /// host went down. What a protocol has no use for it ignores.
    fn control(&mut self, now: Instant, control: Control);

    /// Bytes that were given to [`Connection::send`] and are not yet acknowledged.
    fn unacknowledged(&self) -> u64;

    /// User bytes that arrived, each once, in order or not: what waits for missing bytes before it is among them. Never falls.
    fn arrived(&self) -> u64;

    /// What was counted since the start.
    fn counters(&self) -> Counters;

    /// The state of one path, for traces and figures; `None` if there is no such path.
    fn path_status(&self, path: PathId) -> Option<PathStatus>;

    /// The next thing that happened and is worth a line in the run's time line, until `None`.
    #[must_use]
    fn poll_incident(&mut self) -> Option<Incident>;
}

/// What the user or the host's own interfaces tell a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// The user sets the primary path (RFC 9260 section 11.1.6, Set Primary).
    SetPrimary(PathId),
    /// This host's own interface on the path went down: the sender sees its packets fail at once.
    InterfaceDown(PathId),
    /// This host's own interface on the path is up again.
    InterfaceUp(PathId),
}

/// What a connection counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent, of any kind.
    pub packets_sent: u64,
    /// Packets received, of any kind.
    pub packets_received: u64,
    /// Packets with user data sent, first time or again.
    pub data_packets_sent: u64,
    /// Packets with user data received, duplicates included.
    pub data_packets_received: u64,
    /// User bytes sent for the first time.
    pub bytes_sent: u64,
    /// User bytes sent again.
    pub bytes_retransmitted: u64,
    /// User bytes acknowledged by the peer.
    pub bytes_acknowledged: u64,
    /// User bytes handed to the user in order.
    pub bytes_delivered: u64,
    /// User bytes that arrived a second time.
    pub bytes_duplicated: u64,
    /// Segments or chunks sent again after a time-out.
    pub timeout_retransmissions: u64,
    /// Segments or chunks sent again in fast recovery.
    pub fast_retransmissions: u64,
    /// Times the retransmission timer ran out.
    pub timeouts: u64,
    /// Times fast recovery was entered.
    pub fast_recoveries: u64,
    /// Time-outs found to be spurious.
    pub spurious_timeouts: u64,
    /// Tail loss probes sent (RFC 8985 section 7).
    pub tail_loss_probes: u64,
    /// Probes of a closed window sent for the first time (RFC 9293 section 3.8.6.1, RFC 9260 section 6.1 A).
    pub window_probes: u64,
    /// Congestion signals by ECN that were obeyed.
    pub ecn_reductions: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.packets_sent += other.packets_sent;
        self.packets_received += other.packets_received;
        self.data_packets_sent += other.data_packets_sent;
        self.data_packets_received += other.data_packets_received;
        self.bytes_sent += other.bytes_sent;
        self.bytes_retransmitted += other.bytes_retransmitted;
        self.bytes_acknowledged += other.bytes_acknowledged;
        self.bytes_delivered += other.bytes_delivered;
        self.bytes_duplicated += other.bytes_duplicated;
        self.timeout_retransmissions += other.timeout_retransmissions;
        self.fast_retransmissions += other.fast_retransmissions;
        self.timeouts += other.timeouts;
        self.fast_recoveries += other.fast_recoveries;
        self.spurious_timeouts += other.spurious_timeouts;
        self.tail_loss_probes += other.tail_loss_probes;
        self.window_probes += other.window_probes;
        self.ecn_reductions += other.ecn_reductions;
    }
}

/// Reachability of one path as the sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Not yet confirmed by a heartbeat (RFC 9260 section 5.4).
    Unconfirmed,
    /// In use or usable.
    Active,
    /// Potentially failed (RFC 7829).
    PotentiallyFailed,
    /// Given up for data (RFC 9260 section 8.2).
    Inactive,
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Active => "active",
            Self::PotentiallyFailed => "potentially failed",
            Self::Inactive => "inactive",
        })
    }
}

/// The sender's view of one path at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStatus {
    /// Reachability.
    pub state: PathState,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` while it is unbounded.
    pub ssthresh: u64,
    /// Bytes outstanding.
    pub flight: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Retransmission timer, back-off included.
    pub rto: Duration,
    /// Consecutive time-outs on this path.
    pub errors: u32,
}

/// Something that a reader of the run's time line wants to know of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Incident {
    /// The handshake is done.
    Established,
    /// The retransmission timer ran out after `rto`; `errors` of at most `limit` in a row.
    Timeout {
        /// Where.
        path: PathId,
        /// The timer that ran out.
        rto: Duration,
        /// Consecutive time-outs on this path, this one included.
        errors: u32,
        /// How many the path may have.
        limit: u32,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// The timer of the opening or the closing ran out after `rto`; `errors` of at most `limit` in a row.
    ControlTimeout {
        /// Which, by its name in RFC 9260; TCP has one for the SYN.
        timer: &'static str,
        /// The timer that ran out.
        rto: Duration,
        /// How often it has, this time included.
        errors: u32,
        /// How often it may.
        limit: u32,
    },
    /// Fast retransmit; recovery begins.
    FastRetransmit {
        /// Where the loss was.
        path: PathId,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// Fast recovery is over.
    Recovered {
        /// Where.
        path: PathId,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// A time-out turned out to have been needless.
    SpuriousTimeout {
        /// Where.
        path: PathId,
    },
    /// A tail loss probe was sent.
    TailLossProbe {
        /// Where.
        path: PathId,
    },
    /// A path changed state.
    PathChanged {
        /// Which.
        path: PathId,
        /// What it is now.
        state: PathState,
    },
    /// New data goes over this path from now on.
    DataPathChanged {
        /// Which.
        path: PathId,
    },
    /// The user's primary path changed.
    PrimaryChanged {
        /// Which.
        path: PathId,
    },
    /// ECN told of congestion.
    EcnReduction {
        /// Where.
        path: PathId,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// The connection is over.
    Closed(netrig_core::CloseReason),
}
