//! The common interface of TCP connections and SCTP associations.

use netrig_core::{ConnectionEvent, Data, Duration, Endpoint, Instant, StreamId, counts, named};
use serde::{Deserialize, Serialize};

use crate::Packet;

/// Twice the length of the longest packet, bytes. With this amount of unsent data, more data cannot change the next
/// packet.
pub(crate) const PLENTY: u64 = 1 << 17;

/// Identifies a path of a connection by its index in the list with which the connection was created. TCP has only path
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathId(pub u8);

/// An endpoint of a TCP connection or SCTP association, without I/O.
///
/// A host has many of them and finds them by five-tuple, like a kernel. After every call that takes `&mut self`, poll
/// until there is nothing left: first packets, then events, then incidents.
pub trait Connection: Endpoint<Packet = Packet, Event = ConnectionEvent> {
    /// Like [`Endpoint::handle_packet`], but does not move the packet. The payload is unspecified afterwards.
    fn take_packet(&mut self, now: Instant, packet: &mut Packet);

    /// Like [`Endpoint::poll_transmit`], but overwrites `place`. Returns false if there was no packet to send.
    #[must_use]
    fn transmit_into(&mut self, now: Instant, place: &mut Packet) -> bool;

    /// Returns true only if there is nothing to transmit at `now`. It may return false even then. It costs less than
    /// [`Connection::transmit_into`].
    fn is_silent(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Returns true only if additional data to send would have no effect until a packet arrives, a timer fires or
    /// another method is called: other data is already unsent, and more data does not cause it to be sent.
    fn ignores_more_data(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Whether so much data is unsent that additional data cannot change the next packet.
    fn has_plenty(&self) -> bool {
        false
    }

    /// Takes data that the application sent earlier, while [`Connection::ignores_more_data`] or
    /// [`Connection::has_plenty`] returned true. The caller has held it back until now.
    fn send_late(&mut self, now: Instant, stream: StreamId, data: Data) {
        self.send(now, stream, data);
    }

    /// After this call, received data without content raises no [`ConnectionEvent::Received`].
    /// [`Connection::take_ignored`] counts its bytes instead.
    fn ignore_data(&mut self);

    /// Number of bytes ignored since the last call.
    fn take_ignored(&mut self) -> u64;

    /// Stops or resumes the delivery of received data as events. While it is stopped, data stays in the receive buffer
    /// until [`Connection::read`] takes it, and reduces the window that is advertised to the peer.
    fn set_reading(&mut self, reading: bool);

    /// Delivers up to `bytes` from the receive buffer, and opens the window by the same amount. Returns the number of
    /// bytes.
    fn read(&mut self, bytes: u64) -> u64;

    /// Number of bytes in the receive buffer that [`Connection::read`] can take.
    fn unread(&self) -> u64;

    /// Starts the handshake. Calling it again does nothing.
    fn open(&mut self, now: Instant);

    /// Queues data to send on `stream`. Until the handshake is complete, the data waits. It is never refused.
    fn send(&mut self, now: Instant, stream: StreamId, data: Data);

    /// Closes the sending direction. Data that was queued before is still delivered.
    fn close(&mut self, now: Instant);

    /// Ends the connection immediately (RST, ABORT).
    fn abort(&mut self, now: Instant);

    /// Handles a change from outside the protocol: a new primary path, or an interface of this host that went down or
    /// up. A protocol ignores changes that do not concern it.
    fn control(&mut self, now: Instant, control: Control);

    /// Number of bytes passed to [`Connection::send`] and not yet acknowledged.
    fn unacknowledged(&self) -> u64;

    /// Number of user bytes received, including those beyond a gap. Each byte is counted once. It never decreases.
    fn arrived(&self) -> u64;

    /// Counters since the start of the connection.
    fn counters(&self) -> Counters;

    /// The current state of one path, for traces and figures. `None` if there is no such path.
    fn path_status(&self, path: PathId) -> Option<PathStatus>;

    /// The next incident for the time line of the run, or `None` if there are no more.
    #[must_use]
    fn poll_incident(&mut self) -> Option<Incident>;
}

/// A change that the user makes, or that happens at an interface of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// The user sets the primary path (RFC 9260 section 11.1.6, Set Primary).
    SetPrimary(PathId),
    /// This host's own interface on the path went down. The sender sees immediately that its packets are not sent.
    InterfaceDown(PathId),
    /// This host's own interface on the path is up again.
    InterfaceUp(PathId),
}

counts! {
    /// Counts of a connection since its start.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Packets sent, of any kind.
        pub packets_sent: u64,
        /// Packets received, of any kind.
        pub packets_received: u64,
        /// Packets with user data sent, retransmissions included.
        pub data_packets_sent: u64,
        /// Packets with user data received, duplicates included.
        pub data_packets_received: u64,
        /// User bytes sent for the first time.
        pub bytes_sent: u64,
        /// User bytes retransmitted.
        pub bytes_retransmitted: u64,
        /// User bytes acknowledged by the peer.
        pub bytes_acknowledged: u64,
        /// User bytes delivered to the user in order.
        pub bytes_delivered: u64,
        /// User bytes received that had already been received.
        pub bytes_duplicated: u64,
        /// Segments or chunks retransmitted after a time-out.
        pub timeout_retransmissions: u64,
        /// Segments or chunks retransmitted in fast recovery.
        pub fast_retransmissions: u64,
        /// Expirations of the retransmission timer.
        pub timeouts: u64,
        /// Entries into fast recovery.
        pub fast_recoveries: u64,
        /// Time-outs found to be spurious.
        pub spurious_timeouts: u64,
        /// Tail loss probes sent (RFC 8985 section 7).
        pub tail_loss_probes: u64,
        /// Probes of a closed window, without retransmissions of a probe (RFC 9293 section 3.8.6.1, RFC 9260 section
        /// 6.1 A).
        pub window_probes: u64,
        /// Window reductions caused by ECN.
        pub ecn_reductions: u64,
    }
}

named! {
    /// Reachability of one path as the sender sees it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PathState {
        /// Not yet confirmed by an answered heartbeat (RFC 9260 section 5.4).
        Unconfirmed = "unconfirmed",
        /// Usable for data.
        Active = "active",
        /// Potentially failed (RFC 7829).
        PotentiallyFailed = "potentially failed",
        /// Not used for data (RFC 9260 section 8.2).
        Inactive = "inactive",
    }
}

/// The sender's state of one path at a given time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStatus {
    /// Reachability.
    pub state: PathState,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` while it is unbounded.
    pub ssthresh: u64,
    /// Outstanding bytes.
    pub flight: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Retransmission time-out, back-off included.
    pub rto: Duration,
    /// Consecutive time-outs on this path.
    pub errors: u32,
}

/// An event for the run's time line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Incident {
    /// The handshake is complete.
    Established,
    /// The retransmission timer expired after `rto`.
    Timeout {
        /// The path of the timer.
        path: PathId,
        /// The time-out that expired.
        rto: Duration,
        /// Consecutive time-outs on this path, this one included.
        errors: u32,
        /// Largest number of consecutive time-outs allowed on the path.
        limit: u32,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// A timer of the handshake or the shutdown expired after `rto`.
    ControlTimeout {
        /// The name of the timer in RFC 9260, or `SYN` for TCP.
        timer: &'static str,
        /// The time-out that expired.
        rto: Duration,
        /// Consecutive expirations, this one included.
        errors: u32,
        /// Largest number of consecutive expirations allowed.
        limit: u32,
    },
    /// Fast retransmit was triggered, and recovery begins.
    FastRetransmit {
        /// The path of the loss.
        path: PathId,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// Fast recovery ended.
    Recovered {
        /// The path of the loss.
        path: PathId,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// A time-out proved to be spurious.
    SpuriousTimeout {
        /// The path of the time-out.
        path: PathId,
    },
    /// A tail loss probe was sent.
    TailLossProbe {
        /// The path of the probe.
        path: PathId,
    },
    /// A path changed state.
    PathChanged {
        /// The path that changed.
        path: PathId,
        /// Its new state.
        state: PathState,
    },
    /// The path for new data changed.
    DataPathChanged {
        /// The path for new data.
        path: PathId,
    },
    /// The user's primary path changed.
    PrimaryChanged {
        /// The new primary path.
        path: PathId,
    },
    /// ECN signalled congestion.
    EcnReduction {
        /// The congested path.
        path: PathId,
        /// Congestion window afterwards, bytes.
        cwnd: u64,
    },
    /// The connection has ended.
    Closed(netrig_core::CloseReason),
}
