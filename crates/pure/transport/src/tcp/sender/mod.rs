//! The sending half: outstanding data, unsent data, and their timers.
//!
//! `transmit.rs` chooses the next segment, `acknowledgement.rs` handles acknowledgements, and `timeout.rs` handles
//! timers.

mod acknowledgement;
mod timeout;
mod transmit;

use std::collections::VecDeque;
use std::sync::Arc;

use netrig_core::{Data, Duration, Instant};

pub(crate) use acknowledgement::Acknowledgement;
pub(crate) use transmit::Transmission;

use super::config::{Config, Framing, Recovery};
use super::congestion::{Algorithm, CongestionWindow};
use super::recovery::{Frto, Prr, Rack, Scoreboard, TailLossProbe, Undo};
use super::rtt::RttEstimator;
use super::send_buffer::SendBuffer;
use crate::{Counters, Incident, PathId};

/// The only path of a TCP connection.
pub(crate) const PATH: PathId = PathId(0);

/// Counters and incidents of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry {
    pub counters: Counters,
    pub incidents: VecDeque<Incident>,
}

impl Telemetry {
    pub fn report(&mut self, incident: Incident) {
        self.incidents.push_back(incident);
    }
}

/// State of congestion control and recovery (`tcp_ca_state` in Linux, with other names).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CongestionPhase {
    /// No loss and no congestion signal.
    Open,
    /// Fast recovery, until all data outstanding at its start is acknowledged.
    Recovery,
    /// The window shrinks after a congestion signal other than a loss.
    Reducing,
    /// After a time-out, or after a loss without fast recovery: slow start, with retransmission of the outstanding
    /// data.
    Loss,
}

/// Use of the congestion window in the current round trip. A window that is not used does not grow.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Whether the congestion window limited the sender.
    limited: bool,
    /// The largest amount in flight.
    most: u64,
    /// The round ends when this offset is acknowledged.
    until: u64,
}

/// The sending half of a synchronised connection. Positions are offsets: 0 is this end's SYN, and data begins at 1.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    config: Arc<Config>,
    /// Loss recovery: the configured algorithm, or a fallback if that algorithm needs SACK and SACK was not negotiated.
    recovery: Recovery,
    /// Whether selective acknowledgements are negotiated and used.
    sack: bool,
    ecn: bool,
    smss: u64,
    buffer: SendBuffer,
    board: Scoreboard,
    /// Whether the user has closed. FIN then follows the last byte.
    closing: bool,

    window: CongestionWindow,
    algorithm: Algorithm,
    usage: Usage,
    /// `send_window` in the window's unit.
    cap: u64,

    /// Right edge of the peer's window, its current size, and its largest size so far.
    peer_edge: u64,
    peer_window: u64,
    peer_window_most: u64,
    window_from_syn: bool,
    /// SND.WL1 and SND.WL2 (RFC 9293 section 3.10.7.4): sequence and acknowledgement number of the last window update.
    last_window_update: (i64, u64),

    rtt: RttEstimator,
    /// A copy of `rtt.srtt()`, which is read often.
    srtt: Option<Duration>,
    /// With one measurement per round trip, segments up to this offset are not timed.
    timed: u64,

    phase: CongestionPhase,
    /// Whether the retransmission timer caused the current or last [`CongestionPhase::Loss`].
    timed_out: bool,
    /// Offset at which the phase ends: recover (RFC 6582), RecoveryPoint (RFC 6675).
    recover: u64,
    /// Duplicate acknowledgements up to this offset do not start fast retransmit (RFC 6582 section 3.2, step 1).
    guard: u64,
    dup_acks: u32,
    /// Amount of new data sent since the first duplicate acknowledgement. Limited transmit sent at least a part of it.
    sent_since_gap: u64,
    /// Whether the next retransmission ignores the congestion window.
    retransmit_now: bool,
    /// Whether the rescue retransmission of this recovery has been sent (RFC 6675 section 4, NextSeg rule 4).
    rescued: bool,
    /// HighRxt (RFC 6675 section 2): the end of the last segment that this recovery retransmitted in order.
    high_resent: u64,
    /// NewReno: whether a partial acknowledgement has been received in this recovery.
    partial_seen: bool,
    prr: Option<Prr>,
    rack: Rack,
    frto: Option<Frto>,
    undo: Option<Undo>,
    probe: Option<TailLossProbe>,
    probe_due: bool,
    /// Whether a round-trip time was measured since the last probe, or since the start of the connection.
    measured_since_probe: bool,
    window_probe: WindowProbe,
    /// Congestion window and threshold before the last reduction.
    before: Option<(u64, u64)>,
    /// ECN does not reduce the window again until this offset is acknowledged (RFC 3168 section 6.1.2).
    reduced_until: u64,
    /// Whether the next new segment must have CWR set.
    pub cwr_pending: bool,

    /// Number of consecutive time-outs.
    errors: u32,
    /// Time at which data was last sent.
    last_sent: Option<Instant>,
    /// End of the last partial segment (for Minshall's variant of Nagle's rule).
    small_end: u64,
    retransmission_at: Instant,
    probe_at: Instant,
    reordering_at: Instant,
    persist_at: Instant,
    /// Whether this host's own interface is down.
    pub interface_down: bool,
    /// Whether the window had no room for a full segment at the last check. Only [`Sender::push`] was called since
    /// then.
    window_full: bool,
}

/// Probing of a closed window (RFC 9293 section 3.8.6.1).
#[derive(Clone, Copy, Debug, Default)]
struct WindowProbe {
    /// Whether the timer has expired, so that a probe is sent next.
    due: bool,
    /// Whether a probe byte beyond SND.NXT is in flight.
    sent: bool,
    backoffs: u32,
}

/// Options negotiated in the handshake, as far as the sender needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    /// Data in the largest segment, after the options that every segment has, bytes.
    pub smss: u64,
    pub sack: bool,
    /// Explicit congestion notification.
    pub ecn: bool,
    /// The peer's window at the end of the handshake.
    pub window: u64,
    /// RTO before the first measurement.
    pub rto_initial: Duration,
    /// Whether the initial window is one segment, because more than one SYN was lost (RFC 6928 section 3).
    pub cautious: bool,
}

impl Sender {
    /// A sender before the handshake. It only queues data.
    pub fn new(config: Arc<Config>) -> Self {
        let smss = config.mss.bytes().max(1);
        Self {
            recovery: config.recovery,
            sack: false,
            ecn: false,
            smss,
            buffer: SendBuffer::new(1, config.framing == Framing::WholePackets),
            board: Scoreboard::new(&config, smss, 1),
            closing: false,
            window: CongestionWindow::new(&config, smss),
            algorithm: Algorithm::new(&config),
            usage: Usage::default(),
            cap: config.send_window.of(smss),
            peer_edge: 1,
            peer_window: 0,
            peer_window_most: 0,
            window_from_syn: true,
            last_window_update: (i64::MIN, 0),
            rtt: RttEstimator::new(&config),
            srtt: None,
            timed: 0,
            phase: CongestionPhase::Open,
            timed_out: false,
            recover: 1,
            guard: 0,
            dup_acks: 0,
            sent_since_gap: 0,
            retransmit_now: false,
            rescued: false,
            high_resent: 0,
            partial_seen: false,
            prr: None,
            rack: Rack::new(),
            frto: None,
            undo: None,
            probe: None,
            probe_due: false,
            measured_since_probe: false,
            window_probe: WindowProbe::default(),
            before: None,
            reduced_until: 0,
            cwr_pending: false,
            errors: 0,
            last_sent: None,
            small_end: 0,
            retransmission_at: Instant::NEVER,
            probe_at: Instant::NEVER,
            reordering_at: Instant::NEVER,
            persist_at: Instant::NEVER,
            interface_down: false,
            window_full: false,
            config,
        }
    }

    /// Records that a packet arrived, a timer fired or the user acted: the window may have room again.
    #[inline]
    pub fn reconsider_window(&mut self) {
        self.window_full = false;
    }

    /// Takes the negotiated options when the handshake is complete.
    pub fn agree(&mut self, agreement: &Agreement) {
        let Agreement { smss, sack, ecn, window, rto_initial, cautious } = *agreement;
        self.smss = smss.max(1);
        self.ecn = ecn;
        self.recovery = match self.config.recovery {
            Recovery::Sack | Recovery::Rack if !sack => Recovery::Newreno,
            recovery => recovery,
        };
        // If duplicates inflate the window, SACK would count the same segments a second time.
        self.sack = sack && !matches!(self.recovery, Recovery::Reno | Recovery::Newreno);
        let judged_by = Config { recovery: self.recovery, ..(*self.config).clone() };
        self.board = Scoreboard::new(&judged_by, self.smss, 1);
        self.window = CongestionWindow::new(&self.config, self.smss);
        if cautious {
            self.window.cwnd = self.smss;
        }
        self.cap = self.config.send_window.of(self.smss);
        self.rtt = RttEstimator::starting_at(&self.config, rto_initial);
        (self.peer_window, self.peer_window_most, self.peer_edge) = (window, window, 1 + window);
    }

    /// Takes a measured round-trip time.
    pub fn measured(&mut self, sent: Instant, now: Instant) {
        self.rtt.measured(sent, now);
        self.srtt = self.rtt.srtt();
        self.measured_since_probe = true;
    }

    /// Queues data to send.
    pub fn push(&mut self, data: Data) {
        self.buffer.push(data);
    }

    /// Marks the end of the stream.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether the user has closed, so that FIN was sent or will be sent.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether the FIN, and therefore all data, was acknowledged.
    pub fn fin_acknowledged(&self) -> bool {
        self.closing && self.board.una() > self.buffer.end()
    }

    /// Number of bytes queued and not yet acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.buffer.held()
    }

    /// Number of bytes queued and not yet sent.
    pub fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.board.nxt())
    }

    /// Whether the window prevents the sending of unsent data, and would also prevent it if there were more data.
    #[inline]
    pub fn has_full_window(&self) -> bool {
        self.window_full && self.buffer.end() > self.board.nxt()
    }

    /// Whether there is certainly nothing to send.
    #[inline]
    pub fn is_silent(&self) -> bool {
        (self.window_full || self.buffer.end() == self.board.nxt())
            && !self.closing
            && !self.window_probe.due
            && !self.probe_due
            && !self.board.awaits_retransmission()
            && self.phase != CongestionPhase::Recovery
    }

    /// The data of a transmission.
    pub fn read(&self, start: u64, end: u64) -> Data {
        self.buffer.read(start, end)
    }

    /// SND.UNA as an offset. [`Sender::nxt`] is SND.NXT.
    pub fn una(&self) -> u64 {
        self.board.una()
    }

    pub fn nxt(&self) -> u64 {
        self.board.nxt()
    }

    pub fn smss(&self) -> u64 {
        self.smss
    }

    pub fn cwnd(&self) -> u64 {
        self.window.cwnd
    }

    pub fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }

    pub fn outstanding(&self) -> u64 {
        self.board.outstanding()
    }

    pub fn errors(&self) -> u32 {
        self.errors
    }

    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// The time of the next [`Sender::on_timer`].
    pub fn deadline(&self) -> Instant {
        self.retransmission_at.min(self.probe_at).min(self.reordering_at).min(self.persist_at)
    }

    /// Stops all timers.
    pub fn stop(&mut self) {
        self.retransmission_at = Instant::NEVER;
        self.probe_at = Instant::NEVER;
        self.reordering_at = Instant::NEVER;
        self.persist_at = Instant::NEVER;
    }

    fn fires(&self, now: Instant, delay: Duration) -> Instant {
        self.config.timer_wheel.fires(now, delay)
    }

    /// Restarts the retransmission timer (RFC 6298 section 5).
    fn restart_timer(&mut self, now: Instant) {
        self.retransmission_at = self.fires(now, self.rtt.rto());
    }

    /// The amount in flight that is compared with the congestion window. Without SACK, duplicates inflate the window by
    /// the segments that left the network, so all outstanding data counts (RFC 5681 section 3.2).
    fn in_flight(&self) -> u64 {
        let inflated = !self.sack && self.phase != CongestionPhase::Loss;
        if inflated { self.board.outstanding() } else { self.board.in_flight() }
    }
}
