//! The sending half: outstanding data, data that may be sent, and the timers of both.
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

/// TCP's only path.
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
    /// The window shrinks after a congestion signal without loss.
    Reducing,
    /// After a time-out, or a loss without fast recovery: slow start, retransmitting the outstanding data.
    Loss,
}

/// Use of the window in the current round trip. An unused window does not grow.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// The congestion window limited the sender.
    limited: bool,
    /// The most that was in flight.
    most: u64,
    /// The round ends when this offset is acknowledged.
    until: u64,
}

/// The sending half of a synchronised connection. Offsets: 0 is this end's SYN, data begins at 1.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    config: Arc<Config>,
    /// Loss recovery: the configured one, unless it needs SACK and SACK was not negotiated.
    recovery: Recovery,
    /// Selective acknowledgements are negotiated and used.
    sack: bool,
    ecn: bool,
    smss: u64,
    buffer: SendBuffer,
    board: Scoreboard,
    /// The user has closed: FIN follows the last byte.
    closing: bool,

    window: CongestionWindow,
    algorithm: Algorithm,
    usage: Usage,
    /// `send_window` in the window's unit.
    cap: u64,

    /// Right edge of the peer's window, its size, and the largest size so far.
    peer_edge: u64,
    peer_window: u64,
    peer_window_most: u64,
    window_from_syn: bool,
    /// SND.WL1 and SND.WL2 (RFC 9293 section 3.10.7.4): the segment of the last window update.
    last_window_update: (i64, u64),

    rtt: RttEstimator,
    /// A copy of `rtt.srtt()`, which is read often.
    srtt: Option<Duration>,
    /// Segments up to this offset are not timed, if one per round trip is timed.
    timed: u64,

    phase: CongestionPhase,
    /// The current or last [`CongestionPhase::Loss`] was caused by the timer.
    timed_out: bool,
    /// Offset at which the phase ends: recover (RFC 6582), RecoveryPoint (RFC 6675).
    recover: u64,
    /// Duplicates of acknowledgements up to this offset start no fast retransmit (RFC 6582 section 3.2, step
    /// 1).
    guard: u64,
    dup_acks: u32,
    /// New data sent since data arrived out of order: sent by limited transmit, at least in part.
    sent_since_gap: u64,
    /// The next retransmission ignores the congestion window.
    retransmit_now: bool,
    /// RFC 6675 section 4, NextSeg rule 4: one rescue retransmission per recovery.
    rescued: bool,
    /// HighRxt (RFC 6675 section 2): the end of the last segment that this recovery retransmitted in order.
    high_resent: u64,
    /// NewReno: the first partial acknowledgement restarted the timer.
    partial_seen: bool,
    prr: Option<Prr>,
    rack: Rack,
    frto: Option<Frto>,
    undo: Option<Undo>,
    probe: Option<TailLossProbe>,
    probe_due: bool,
    /// A round-trip time was measured since the last probe, or since the start of the connection.
    measured_since_probe: bool,
    window_probe: WindowProbe,
    /// Window and threshold before the last reduction.
    before: Option<(u64, u64)>,
    /// No further reduction by ECN until this offset is acknowledged (RFC 3168 section 6.1.2).
    reduced_until: u64,
    /// The next new segment carries CWR.
    pub cwr_pending: bool,

    /// Time-outs in a row.
    errors: u32,
    /// Time at which data was last sent.
    last_sent: Option<Instant>,
    /// End of the last partial segment (Minshall's variant of Nagle's rule).
    small_end: u64,
    retransmission_at: Instant,
    probe_at: Instant,
    reordering_at: Instant,
    persist_at: Instant,
    /// This host's own interface is down.
    pub interface_down: bool,
    /// The window had no room for a full segment at the last check. Since then, only data to send has been added.
    window_full: bool,
}

/// Probing of a closed window (RFC 9293 section 3.8.6.1).
#[derive(Clone, Copy, Debug, Default)]
struct WindowProbe {
    /// The timer expired: a probe is sent next.
    due: bool,
    /// A byte beyond the data recorded as sent is in flight.
    sent: bool,
    backoffs: u32,
}

/// Options negotiated in the handshake, as far as the sender needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    /// Data of the largest segment, without fixed options, bytes.
    pub smss: u64,
    pub sack: bool,
    /// Explicit congestion notification.
    pub ecn: bool,
    /// The peer's window at the end of the handshake.
    pub window: u64,
    /// RTO before the first measurement.
    pub rto_initial: Duration,
    /// The initial window is one segment, because more than one SYN was lost (RFC 6928 section 3).
    pub cautious: bool,
}

impl Sender {
    /// A sender before the handshake: it only queues data.
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

    /// A packet arrived, a timer fired or the user acted: the window may have room again.
    #[inline]
    pub fn reconsider_window(&mut self) {
        self.window_full = false;
    }

    /// The handshake is done.
    pub fn agree(&mut self, agreement: &Agreement) {
        let Agreement { smss, sack, ecn, window, rto_initial, cautious } = *agreement;
        self.smss = smss.max(1);
        self.ecn = ecn;
        self.recovery = match self.config.recovery {
            Recovery::Sack | Recovery::Rack if !sack => Recovery::Newreno,
            recovery => recovery,
        };
        // If duplicates inflate the window, SACK reports would count the same segments twice.
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

    /// Whether FIN was sent or will be.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether FIN, and with it everything, was acknowledged.
    pub fn fin_acknowledged(&self) -> bool {
        self.closing && self.board.una() > self.buffer.end()
    }

    /// Bytes queued and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.buffer.held()
    }

    /// Bytes queued and not sent.
    pub fn unsent(&self) -> u64 {
        self.buffer.end().saturating_sub(self.board.nxt())
    }

    /// Whether the window holds back unsent data, and would hold back more.
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

    /// SND.UNA and SND.NXT as offsets.
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

    /// When [`Sender::on_timer`] wants to be called.
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

    /// The data in flight to compare with the congestion window. Without SACK, duplicates inflate the window by the
    /// segments that left the network. Then all outstanding data counts (RFC 5681 section 3.2).
    fn in_flight(&self) -> u64 {
        let inflated = !self.sack && self.phase != CongestionPhase::Loss;
        if inflated { self.board.outstanding() } else { self.board.in_flight() }
    }
}
