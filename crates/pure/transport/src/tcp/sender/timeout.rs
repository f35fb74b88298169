//! Timers of the sender: retransmission, reordering and probes. The retransmission timer also detects a failed
//! connection.

use netrig_core::{Duration, Instant};

use super::{CongestionPhase, PATH, Sender, Telemetry};
use crate::Incident;
use crate::tcp::clock::timestamp;
use crate::tcp::config::{BackoffSsthresh, Recovery, SsthreshFrom};
use crate::tcp::congestion::CongestionControl;
use crate::tcp::recovery::{Delivered, Frto, Situation, Undo};

/// Largest delay of an acknowledgement, for the timer of a probe (RFC 8985 section 7.2, WCDelAckT).
const WORST_ACK_DELAY: Duration = Duration::from_millis(200);

impl Sender {
    /// Handles the timers that are due at `now`. Returns false if the connection has failed.
    pub fn on_timer(&mut self, now: Instant, telemetry: &mut Telemetry) -> bool {
        if self.reordering_at <= now {
            self.reordering_at = Instant::NEVER;
            self.on_reordering_timer(now, telemetry);
        }
        if self.probe_at <= now {
            self.probe_at = Instant::NEVER;
            self.probe_due = true;
            // RFC 8985 section 7.3: the probe restarts the retransmission timer.
            self.restart_timer(now);
        }
        if self.persist_at <= now {
            self.persist_at = Instant::NEVER;
            self.window_probe.due = true;
            // If the window is not completely closed, a partial segment is sent instead of a probe (RFC 9293 section
            // 3.8.6.2.1).
            if self.peer_edge <= self.board.nxt() {
                self.window_probe.backoffs += 1;
                self.errors += 1;
                if self.errors > self.config.data_retries.count() {
                    self.stop();
                    return false;
                }
                self.persist_at = self.fires(now, self.persist_interval());
            }
        }
        if self.retransmission_at <= now {
            return self.on_retransmission_timer(now, telemetry);
        }
        true
    }

    /// RFC 8985 section 6.2, step 5: the gap was not filled in time.
    fn on_reordering_timer(&mut self, now: Instant, telemetry: &mut Telemetry) {
        let was = self.phase;
        let mut delivered = Delivered::new(Some(now), 0);
        self.detect_by_time(now, &delivered, telemetry);
        if was != CongestionPhase::Recovery && self.phase == CongestionPhase::Recovery {
            // The timer has the same effect as an acknowledgement that delivers one segment (`tcp_rack_reo_timeout`,
            // net/ipv4/tcp_recovery.c).
            delivered.amount = self.smss;
            self.reduce_proportionally(&delivered, false);
        }
    }

    /// Interval of window probes: first RTO, then exponentially growing (RFC 9293 section 3.8.6.1, SHLD-29, SHLD-30).
    pub(super) fn persist_interval(&self) -> Duration {
        let backoff = 1u64 << self.window_probe.backoffs.min(16);
        (self.rtt.rto() * backoff).min(self.config.rto_max)
    }

    /// RFC 6298 (5.4) to (5.6), RFC 5681 section 3.1.
    fn on_retransmission_timer(&mut self, now: Instant, telemetry: &mut Telemetry) -> bool {
        let rto = self.rtt.rto();
        telemetry.counters.timeouts += 1;
        let local = self.interface_down && !self.config.local_drop_retry.is_zero();
        // A packet that this host dropped itself is no evidence about the peer.
        if !local || self.errors == 0 {
            self.errors += 1;
        }
        let limit = self.config.data_retries.count();
        if self.errors > limit {
            self.stop();
            return false;
        }
        let first = self.errors == 1;
        let recovering = matches!(self.phase, CongestionPhase::Recovery | CongestionPhase::Loss);
        if first {
            self.remember();
        }
        let ssthresh = match self.config.backoff_ssthresh {
            BackoffSsthresh::Once | BackoffSsthresh::OncePerLoss if !first => self.window.ssthresh,
            BackoffSsthresh::OncePerLoss if self.phase == CongestionPhase::Recovery => self.window.ssthresh,
            _ => self.algorithm.on_congestion(&self.window, self.congested_base(0)),
        };
        self.algorithm.on_timeout();
        self.enter_loss(now, ssthresh);
        self.timed_out = true;
        self.dup_acks = 0;
        // RFC 5682 section 2.1, step 1: not during a recovery, where further acknowledgements are no evidence.
        self.frto = (self.config.frto && !recovering).then_some(Frto::First);
        if local {
            self.retransmission_at = self.fires(now, self.config.local_drop_retry);
        } else {
            self.rtt.back_off();
            self.restart_timer(now);
        }
        let cwnd = self.window.cwnd;
        telemetry.report(Incident::Timeout { path: PATH, rto, errors: self.errors, limit, cwnd });
        true
    }

    /// Saves the state that an undo restores.
    pub(super) fn remember(&mut self) {
        self.before = Some((self.window.cwnd, self.window.ssthresh));
        self.undo = self.config.undo.then(|| {
            let (resent, first) = self.board.resent();
            Undo::new(self.board.una(), resent, first.map(timestamp))
        });
    }

    /// Counts outstanding data as lost, and starts slow start from one segment (RFC 5681 section 3.1, LW).
    pub(super) fn enter_loss(&mut self, now: Instant, ssthresh: u64) {
        // With RACK, only overdue segments count as lost. Without RACK, or without fast recovery, all outstanding data
        // does.
        if self.recovery == Recovery::Rack && self.algorithm.recovers() {
            let situation = self.situation();
            self.rack.on_timeout(now, &mut self.board, &situation);
        } else {
            self.board.mark_all_lost();
        }
        self.phase = CongestionPhase::Loss;
        self.timed_out = false;
        self.recover = self.board.nxt();
        self.guard = self.board.nxt();
        self.timed = self.board.nxt();
        // The window includes data that RACK still counts as in flight, so that it does not delay the first
        // retransmission.
        self.window.reduce(self.window.whole(ssthresh), self.board.in_flight() + self.smss);
        self.prr = None;
        self.probe = None;
        self.probe_at = Instant::NEVER;
        self.probe_due = false;
        self.reordering_at = Instant::NEVER;
        self.retransmit_now = true;
    }

    /// The amount from which the reduced window is computed. `beyond` is the data that limited transmit sent beyond the
    /// window. It is not included (RFC 5681 section 3.2, step 2).
    pub(super) fn congested_base(&self, beyond: u64) -> u64 {
        // The effective window: in recovery, duplicates have inflated cwnd, and after a time-out, cwnd starts from one
        // segment.
        let window = match self.phase {
            CongestionPhase::Open | CongestionPhase::Reducing => self.window.cwnd,
            CongestionPhase::Recovery => self.window.ssthresh,
            CongestionPhase::Loss if self.config.ssthresh_from == SsthreshFrom::Cwnd => self.window.cwnd,
            CongestionPhase::Loss => self.window.cwnd.max(self.window.ssthresh),
        };
        match self.config.ssthresh_from {
            // Equation 4 is an upper bound of ssthresh. While there is a gap, data that arrived long ago is still
            // unacknowledged, but at most one window of data was in flight. If a retransmission is lost, ssthresh "MUST
            // be lowered twice" (RFC 5681 section 4.3).
            SsthreshFrom::FlightSize => self.board.outstanding().saturating_sub(beyond).min(window),
            SsthreshFrom::Cwnd => window.min(self.cap),
        }
    }

    pub(super) fn situation(&self) -> Situation {
        Situation {
            recovering: matches!(self.phase, CongestionPhase::Recovery | CongestionPhase::Loss),
            dup_ack_threshold: self.config.dup_ack_threshold,
            srtt: self.srtt,
        }
    }

    /// RFC 8985 section 7.2: a probe is sent after two round-trip times without an acknowledgement, unless the
    /// retransmission timer expires first.
    pub(super) fn schedule_probe(&mut self, now: Instant) {
        let wanted = self.recovery == Recovery::Rack
            && self.config.tail_loss_probe
            && self.phase == CongestionPhase::Open
            && self.probe.is_none()
            && self.board.sacked_segments() == 0
            && !self.board.is_empty();
        if !wanted {
            self.probe_at = Instant::NEVER;
            return;
        }
        let delay = match self.srtt {
            None => Duration::from_secs(1),
            Some(srtt) if self.board.segments() == 1 => srtt * 2 + WORST_ACK_DELAY,
            Some(srtt) => srtt * 2 + self.config.loss_timer_margin,
        };
        let at = self.fires(now, delay);
        self.probe_at = at.min(self.retransmission_at);
    }
}
