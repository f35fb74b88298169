//! The choice of the next segment to send.

use netrig_core::Instant;

use super::{CongestionPhase, PATH, Sender, Telemetry};
use crate::Incident;
use crate::tcp::clock::timestamp;
use crate::tcp::config::{Framing, Growth, IdleRestart, LimitedTransmit, Nagle, Recovery};
use crate::tcp::congestion::CongestionControl;
use crate::tcp::recovery::{Frto, TailLossProbe};

/// A segment to send, by stream offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last data byte.
    pub end: u64,
    /// Whether FIN follows the data.
    pub fin: bool,
    /// Whether it is sent for the first time and is not a probe of a closed window.
    pub new: bool,
}

impl Sender {
    /// The next segment with data or FIN, if one may be sent at `now`.
    pub fn transmit(&mut self, now: Instant, telemetry: &mut Telemetry) -> Option<Transmission> {
        if self.window_probe.due {
            return self.probe_window(now, telemetry);
        }
        if self.probe_due {
            self.probe_due = false;
            if let Some(probe) = self.probe_for_loss(now, telemetry) {
                return Some(probe);
            }
        }
        if self.board.awaits_retransmission() && self.frto != Some(Frto::Second) {
            return self.retransmit_lost(now, telemetry);
        }
        let new = self.send_new(now, telemetry);
        if new.is_none() && self.phase == CongestionPhase::Recovery {
            return self.repair_in_advance(now, telemetry);
        }
        new
    }

    fn retransmit_lost(&mut self, now: Instant, telemetry: &mut Telemetry) -> Option<Transmission> {
        let (i, len) = self.board.next_lost()?;
        let weight = self.board.weight(len);
        let window = self.window.cwnd + self.beyond_window();
        if !self.retransmit_now && self.board.in_flight() + weight > window {
            self.usage.limited = true;
            return None;
        }
        self.retransmit_now = false;
        let again = self.resend(now, i, telemetry);
        self.high_resent = self.high_resent.max(again.end);
        Some(again)
    }

    /// Retransmits the `i`-th outstanding segment.
    fn resend(&mut self, now: Instant, i: usize, telemetry: &mut Telemetry) -> Transmission {
        let (start, sequence_end) = self.board.resend(now, i);
        let end = sequence_end.min(self.buffer.end());
        // A retransmitted segment is not timed (Karn's rule), and the measurement in progress is discarded.
        self.timed = self.board.nxt();
        if self.retransmission_at == Instant::NEVER {
            self.restart_timer(now);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(self.board.weight(sequence_end - start));
        }
        if let Some(undo) = &mut self.undo {
            undo.on_resent(timestamp(now));
        }
        telemetry.counters.bytes_retransmitted += end - start;
        match self.phase {
            CongestionPhase::Loss if self.timed_out => telemetry.counters.timeout_retransmissions += 1,
            _ => telemetry.counters.fast_retransmissions += 1,
        }
        self.last_sent = Some(now);
        Transmission { start, end, fin: sequence_end > end, new: false }
    }

    /// RFC 6675 section 4, NextSeg, if there is no lost segment and no new data. Rule 3: an unacknowledged segment
    /// below a selectively acknowledged one. Rule 4, once per recovery: the last segment that is not selectively
    /// acknowledged.
    fn repair_in_advance(&mut self, now: Instant, telemetry: &mut Telemetry) -> Option<Transmission> {
        if self.recovery != Recovery::Sack || self.unsent() > 0 {
            return None;
        }
        let missing = self.board.first_missing(self.high_resent);
        let rescue = || if self.rescued { None } else { self.board.last_missing() };
        let (i, len) = missing.or_else(rescue)?;
        if self.board.in_flight() + self.board.weight(len) > self.window.cwnd {
            return None;
        }
        let again = self.resend(now, i, telemetry);
        match missing {
            Some(_) => self.high_resent = again.end,
            None => self.rescued = true,
        }
        Some(again)
    }

    fn send_new(&mut self, now: Instant, telemetry: &mut Telemetry) -> Option<Transmission> {
        let start = self.board.nxt();
        let unsent = self.buffer.end().saturating_sub(start);
        let fin_waits = self.closing && start <= self.buffer.end();
        if unsent == 0 && !fin_waits {
            return None;
        }
        let len = self.smss.min(self.buffer.message_end(start) - start);
        let len = self.fit(now, len, fin_waits)?;
        let fin = fin_waits && len == unsent;
        let sequence_len = len + u64::from(fin);
        // The window is compared with the data only. FIN, which also has a sequence number, is sent with the last data.
        if !self.has_room(self.board.weight(len.max(1))) {
            // If the segment cannot become larger, the window stays full when more data is queued.
            self.window_full = len == self.smss || self.config.framing == Framing::WholePackets;
            return None;
        }
        if self.board.is_empty() {
            self.resume(now);
        }
        self.record_sent(now, start + sequence_len, self.board.weight(sequence_len));
        telemetry.counters.bytes_sent += len;
        if len < self.smss {
            self.small_end = start + len;
        } else if unsent - len >= self.smss
            && self.config.framing == Framing::Stream
            && self.peer_edge.saturating_sub(self.board.nxt()) >= self.smss
            && !self.board.awaits_retransmission()
        {
            // Another full segment is queued. The next call would compute the same value.
            self.window_full = !self.has_room(self.board.weight(self.smss));
        }
        Some(Transmission { start, end: start + len, fin, new: true })
    }

    /// The length of a segment of up to `len` bytes that the peer's window and Nagle's rule allow (RFC 9293 section
    /// 3.8.6.2.1).
    fn fit(&mut self, now: Instant, len: u64, fin_waits: bool) -> Option<u64> {
        let usable = self.peer_edge.saturating_sub(self.board.nxt());
        if len <= usable {
            // (1) A full segment, or (2) all unsent data, if Nagle's rule allows it. FIN never waits.
            let whole = len == self.smss || self.config.framing == Framing::WholePackets;
            return (whole || fin_waits || self.may_send_small()).then_some(len);
        }
        // (3) Half of the largest window that the peer has advertised.
        if usable > 0 && usable >= self.peer_window_most / 2 {
            return Some(usable);
        }
        // (4) If nothing is outstanding, the persist timer is started. When it expires, the data is sent (RFC 9293
        // section 3.8.6.1).
        if self.board.is_empty() && self.persist_at == Instant::NEVER {
            self.persist_at = self.fires(now, self.persist_interval());
        }
        None
    }

    fn may_send_small(&self) -> bool {
        match self.config.nagle {
            Nagle::Off => true,
            // RFC 9293 section 3.7.4: not while there is unacknowledged data.
            Nagle::Nagle => self.board.is_empty(),
            Nagle::Minshall => self.small_end <= self.board.una(),
        }
    }

    /// Whether the congestion window has room for a new segment.
    fn has_room(&mut self, weight: u64) -> bool {
        let in_flight = match self.phase {
            CongestionPhase::Open if self.config.limited_transmit == LimitedTransmit::Off => {
                self.board.outstanding()
            }
            _ => self.in_flight(),
        };
        let beyond = self.beyond_window();
        if in_flight > 0 && in_flight + weight > self.window.cwnd + beyond {
            self.usage.limited = true;
            return false;
        }
        self.board.outstanding() + weight <= self.cap || self.board.is_empty()
    }

    /// RFC 3042 section 2: the first two duplicates allow one segment each beyond the window. With SACK this is not
    /// needed, because the reported segments no longer count as in flight.
    fn beyond_window(&self) -> u64 {
        let allowed = match self.phase {
            CongestionPhase::Open => self.config.limited_transmit != LimitedTransmit::Off,
            CongestionPhase::Loss => self.config.limited_transmit == LimitedTransmit::AnyData,
            CongestionPhase::Recovery | CongestionPhase::Reducing => false,
        };
        // The third duplicate starts fast retransmit instead.
        let few = self.dup_acks < self.config.dup_ack_threshold;
        if allowed && few && !self.sack { u64::from(self.dup_acks) * self.smss } else { 0 }
    }

    fn record_sent(&mut self, now: Instant, end: u64, weight: u64) {
        self.board.push(now, end);
        self.usage.most = self.usage.most.max(self.board.in_flight());
        if let Some(prr) = &mut self.prr {
            prr.on_sent(weight);
        }
        self.sent_since_gap += weight;
        self.last_sent = Some(now);
        self.persist_at = Instant::NEVER;
        // RFC 6298 (5.1).
        if self.retransmission_at == Instant::NEVER {
            self.restart_timer(now);
        }
        self.schedule_probe(now);
    }

    /// Sending resumes when nothing is in flight. RFC 5681 section 4.1: after more than a time-out without sending, the
    /// old window is no longer valid.
    fn resume(&mut self, now: Instant) {
        let Some(last_sent) = self.last_sent else { return };
        self.algorithm.on_resume(now, last_sent);
        let (idle, rto) = (now.since(last_sent), self.rtt.rto());
        if idle <= rto {
            return;
        }
        let restart = (u64::from(self.config.initial_window) * self.smss).min(self.window.cwnd);
        match self.config.idle_restart {
            IdleRestart::None => {}
            IdleRestart::InitialWindow => self.window.cwnd = restart,
            IdleRestart::Decay => {
                // RFC 2861 section 3.2: ssthresh becomes at least three quarters of the window.
                self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
                let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(63) as u32;
                self.window.cwnd = (self.window.cwnd >> halvings).max(restart);
            }
        }
        self.usage = super::Usage { until: self.board.nxt(), ..Default::default() };
    }

    /// Whether the window was used enough to grow.
    pub(super) fn may_grow(&self) -> bool {
        match self.config.growth {
            Growth::Always => true,
            Growth::WhenLimited => {
                self.usage.limited || (self.window.in_slow_start() && self.window.cwnd < 2 * self.usage.most)
            }
        }
    }

    /// Sends one byte, or FIN, beyond a closed window (RFC 9293 section 3.8.6.1). If the window is not completely
    /// closed, sends a partial segment that fits it (section 3.8.6.2.1, rule 4).
    fn probe_window(&mut self, now: Instant, telemetry: &mut Telemetry) -> Option<Transmission> {
        self.window_probe.due = false;
        let start = self.board.nxt();
        if start > self.buffer.end() {
            return None;
        }
        let len = self.smss.min(self.unsent()).min(self.peer_edge.saturating_sub(start));
        if len > 0 {
            return Some(self.send_what_fits(now, len, telemetry));
        }
        self.window_probe.sent = true;
        telemetry.counters.window_probes += 1;
        let end = (start + 1).min(self.buffer.end());
        Some(Transmission { start, end, fin: start == end, new: false })
    }

    /// Sends `len` bytes of new data, which must fit the peer's window.
    fn send_what_fits(&mut self, now: Instant, len: u64, telemetry: &mut Telemetry) -> Transmission {
        let start = self.board.nxt();
        let fin = self.closing && start + len == self.buffer.end();
        let sequence_len = len + u64::from(fin);
        self.record_sent(now, start + sequence_len, self.board.weight(sequence_len));
        telemetry.counters.bytes_sent += len;
        if len < self.smss {
            self.small_end = start + len;
        }
        Transmission { start, end: start + len, fin, new: true }
    }

    /// RFC 8985 section 7.3: sends new data if there is any and the peer's window has room, and otherwise retransmits
    /// the last segment.
    fn probe_for_loss(&mut self, now: Instant, telemetry: &mut Telemetry) -> Option<Transmission> {
        // Without this condition, probes could continue although the path has become longer. The timer has already been
        // restarted.
        if self.config.probe_needs_sample && !self.measured_since_probe {
            return None;
        }
        let start = self.board.nxt();
        let usable = self.peer_edge.saturating_sub(start);
        let len = self.smss.min(self.unsent()).min(usable);
        let transmission = if len > 0 {
            self.send_what_fits(now, len, telemetry)
        } else {
            let (i, _) = self.board.last_missing()?;
            self.resend(now, i, telemetry)
        };
        self.probe = Some(TailLossProbe { end: self.board.nxt(), repeated: !transmission.new });
        self.probe_at = Instant::NEVER;
        self.measured_since_probe = false;
        self.restart_timer(now);
        telemetry.counters.tail_loss_probes += 1;
        telemetry.report(Incident::TailLossProbe { path: PATH });
        Some(transmission)
    }
}
