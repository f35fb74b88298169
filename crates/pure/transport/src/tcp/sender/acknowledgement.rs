//! Handling of acknowledgements.

use netrig_core::{Duration, Instant};

use super::{CongestionPhase, PATH, Sender, Telemetry, Usage};
use crate::Incident;
use crate::tcp::clock::{ago, timestamp};
use crate::tcp::config::{Growth, NewrenoTimer, Recovery, RttSampling};
use crate::tcp::congestion::{Acked, CongestionControl};
use crate::tcp::recovery::{Delivered, Frto, FrtoEvidence, FrtoVerdict, ProbeVerdict, Prr};
use crate::tcp::segment::SackBlocks;

/// The acknowledgement in a segment, in stream offsets.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledgement<'a> {
    /// The acknowledgement number: all data before this offset is acknowledged.
    pub number: u64,
    /// The peer's window, bytes.
    pub window: u64,
    /// The offset, in the peer's stream, of the segment that contains the acknowledgement.
    pub carrier: i64,
    /// Whether the segment has data, SYN or FIN. It is then not a duplicate acknowledgement.
    pub occupies: bool,
    /// The blocks of the SACK option.
    pub sack: &'a SackBlocks,
    /// This end's initial sequence number, to translate `sack`.
    pub iss: crate::Serial,
    /// Time since the echoed timestamp was sent, milliseconds, if there is one.
    pub echoed: Option<u32>,
    /// Whether the peer reports congestion (RFC 3168 section 6.1.2).
    pub congestion: bool,
}

/// Result of the SACK option of an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
struct SackResult {
    /// Whether data is newly acknowledged.
    news: bool,
    /// Whether a duplicate was reported (RFC 2883).
    duplicate: bool,
}

/// The effect of an acknowledgement.
#[derive(Clone, Debug)]
struct AckReport {
    number: u64,
    /// Whether SND.UNA advanced.
    advanced: bool,
    sack: SackResult,
    /// Whether it is a duplicate by RFC 5681 section 2: no data, nothing newly acknowledged, and an unchanged window.
    plain_duplicate: bool,
    /// Whether it counts as a duplicate for loss recovery. With SACK, that is any acknowledgement that reports new
    /// arrivals selectively.
    duplicate: bool,
    delivered: Delivered,
}

impl Sender {
    /// Takes an acknowledgement between SND.UNA and SND.NXT, or one beyond SND.NXT if a window probe was sent.
    pub fn on_acknowledgement(&mut self, now: Instant, ack: &Acknowledgement<'_>, telemetry: &mut Telemetry) {
        self.accept_probe_byte(now, ack.number, telemetry);
        let una = self.board.una();
        let advanced = ack.number > una;
        let had_outstanding = !self.board.is_empty();
        let window_changed = self.update_window(ack);
        if !had_outstanding && !advanced && ack.sack.is_empty() {
            // The usual case at an end that only receives.
            return;
        }
        let mut delivered = Delivered::new(self.plausible_until(now), self.timed);
        let sack =
            if ack.sack.is_empty() { SackResult::default() } else { self.read_sack(ack, &mut delivered) };
        if advanced {
            let before = self.buffer.held();
            self.board.acknowledge(ack.number, &mut delivered);
            self.buffer.release(ack.number);
            telemetry.counters.bytes_acknowledged += before - self.buffer.held();
            self.errors = 0;
        }
        let rtt = self.measure(now, ack.echoed, advanced, &delivered);
        if self.recovery == Recovery::Rack {
            self.rack.on_ack(now, &delivered);
            if sack.duplicate {
                self.rack.on_duplicate_report(ack.number, self.board.nxt());
            }
        }
        let plain_duplicate = !advanced && had_outstanding && !ack.occupies && !window_changed;
        let duplicate = if self.sack { sack.news } else { plain_duplicate };
        let report = AckReport { number: ack.number, advanced, sack, plain_duplicate, duplicate, delivered };
        self.reconsider(now, ack, &report, telemetry);
        if ack.congestion && self.ecn {
            self.on_congestion_echo(telemetry);
        }
        let was = self.phase;
        self.advance_phase(now, &report, telemetry);
        let growing = match (was, self.phase) {
            (CongestionPhase::Open | CongestionPhase::Loss, CongestionPhase::Open)
            | (CongestionPhase::Loss, CongestionPhase::Loss) => true,
            // The acknowledgement that ends recovery does not grow the window, except with [`Growth::Always`].
            (CongestionPhase::Recovery, CongestionPhase::Open) => self.config.growth == Growth::Always,
            _ => false,
        };
        if advanced && growing {
            self.grow(now, report.delivered.acknowledged, rtt);
        }
        self.renew_usage();
        self.rearm(now, advanced, sack.news);
    }

    /// The latest time at which an acknowledged retransmission can have been sent. `None` if losses are not detected by
    /// time.
    fn plausible_until(&self, now: Instant) -> Option<Instant> {
        (self.recovery == Recovery::Rack).then(|| self.rack.plausible_until(now))
    }

    /// Reconsiders earlier decisions after an acknowledgement: a probe, a time-out, a reduction of the window.
    fn reconsider(
        &mut self,
        now: Instant,
        ack: &Acknowledgement<'_>,
        report: &AckReport,
        telemetry: &mut Telemetry,
    ) {
        let AckReport { delivered, sack, .. } = report;
        if let Some(probe) = self.probe {
            let unanswered = report.plain_duplicate && !sack.news;
            self.judge_probe(probe.judge(ack.number, sack.duplicate, unanswered), telemetry);
        }
        if let Some(frto) = self.frto {
            let evidence = FrtoEvidence {
                advanced: report.advanced,
                complete: ack.number >= self.recover,
                duplicate: report.duplicate,
                original_arrived: delivered.original_end <= self.recover
                    && (self.sack || !delivered.repeated),
                sack: self.sack,
            };
            self.judge_time_out(frto, evidence, telemetry);
        }
        if let Some(undo) = self.undo {
            let echo = ack.echoed.filter(|_| delivered.repeated).map(|age| timestamp(now).wrapping_sub(age));
            if undo.is_refuted_by_duplicates() || echo.is_some_and(|echo| undo.is_refuted_by_echo(echo)) {
                self.undo_reduction(telemetry);
            }
        }
    }

    /// If the peer accepted a probe of its closed window, records the byte of the probe as sent.
    fn accept_probe_byte(&mut self, now: Instant, number: u64, telemetry: &mut Telemetry) {
        if self.window_probe.sent && number > self.board.nxt() {
            self.board.push(now, number);
            self.window_probe.sent = false;
            telemetry.counters.bytes_sent += 1;
        }
    }

    /// The largest valid acknowledgement number: SND.NXT, or one more if a window probe was sent.
    pub fn highest_acknowledgeable(&self) -> u64 {
        self.board.nxt() + u64::from(self.window_probe.sent)
    }

    /// Whether the peer's window is known, equals `window`, and is not being probed.
    #[inline]
    fn window_is_steady(&self, window: u64) -> bool {
        self.peer_window == window
            && !self.window_from_syn
            && !self.window_probe.sent
            && self.window_probe.backoffs == 0
    }

    /// Whether nothing is outstanding and the window is steady, so that an acknowledgement with this window has no
    /// effect.
    #[inline]
    pub fn is_idle_with_window(&self, window: u64) -> bool {
        self.board.is_empty() && self.window_is_steady(window)
    }

    /// Records that the segment at `carrier`, which acknowledges everything before `number`, advertises an unchanged
    /// window.
    #[inline]
    pub fn confirm_window(&mut self, carrier: i64, number: u64) {
        let update = (carrier, number);
        if update >= self.last_window_update {
            self.last_window_update = update;
            self.peer_edge = number + self.peer_window;
        }
    }

    /// Whether an acknowledgement of new data with this window and without SACK blocks can be handled by
    /// [`Sender::acknowledge_fast`].
    #[inline]
    pub fn may_acknowledge_fast(&self, window: u64) -> bool {
        self.phase == CongestionPhase::Open
            && self.window_is_steady(window)
            && !self.board.has_gaps()
            && self.recovery != Recovery::Rack
            && self.frto.is_none()
            && self.undo.is_none()
            && self.probe.is_none()
            && self.prr.is_none()
    }

    /// Has the same effect as [`Sender::on_acknowledgement`] if [`Sender::may_acknowledge_fast`] returned true. The
    /// acknowledgement covers everything before `number`.
    #[inline]
    pub fn acknowledge_fast(
        &mut self,
        now: Instant,
        carrier: i64,
        number: u64,
        echoed: Option<u32>,
        telemetry: &mut Telemetry,
    ) {
        self.confirm_window(carrier, number);
        let mut delivered = Delivered::new(None, self.timed);
        let before = self.buffer.held();
        self.board.acknowledge(number, &mut delivered);
        self.buffer.release(number);
        telemetry.counters.bytes_acknowledged += before - self.buffer.held();
        self.errors = 0;
        let rtt = self.measure(now, echoed, true, &delivered);
        self.dup_acks = 0;
        self.grow(now, delivered.acknowledged, rtt);
        self.renew_usage();
        self.rearm(now, true, false);
    }

    /// Begins a new round trip if all data that was outstanding at the start of the last one is acknowledged.
    #[inline]
    fn renew_usage(&mut self) {
        if self.board.una() >= self.usage.until {
            self.usage = Usage { limited: false, most: self.board.in_flight(), until: self.board.nxt() };
        }
    }

    /// RFC 9293 section 3.10.7.4: takes SND.WND from the latest segment. Returns whether the window changed.
    fn update_window(&mut self, ack: &Acknowledgement<'_>) -> bool {
        let update = (ack.carrier, ack.number);
        if update < self.last_window_update {
            return false;
        }
        self.last_window_update = update;
        if self.window_probe.backoffs > 0 {
            // RFC 9293 section 3.8.6.1 (MUST-37): the connection stays open as long as the peer answers probes.
            self.errors = 0;
        }
        // The window of a SYN is not scaled, so it cannot be compared with later windows.
        let comparable = !std::mem::take(&mut self.window_from_syn);
        let changed = comparable && self.peer_window != ack.window;
        self.peer_window = ack.window;
        self.peer_window_most = self.peer_window_most.max(ack.window);
        self.peer_edge = ack.number + ack.window;
        if ack.window > 0 && changed {
            self.persist_at = Instant::NEVER;
            self.window_probe.backoffs = 0;
            self.window_probe.due = false;
        }
        changed
    }

    fn read_sack(&mut self, ack: &Acknowledgement<'_>, delivered: &mut Delivered) -> SackResult {
        let mut report = SackResult::default();
        if !self.sack {
            return report;
        }
        let una = self.board.una();
        let base = ack.iss.plus(una as u32);
        let offset = |number: crate::Serial| (una as i64 + i64::from(number.offset_from(base))).max(0) as u64;
        let blocks = ack.sack.as_slice();
        for (n, (left, right)) in blocks.iter().enumerate() {
            let (left, right) = (offset(*left), offset(*right));
            // RFC 2883 section 4: the first block reports a duplicate if it is already acknowledged, or if it is part
            // of the second block.
            let within_second =
                || blocks.get(1).is_some_and(|(l, r)| n == 0 && offset(*l) <= left && right <= offset(*r));
            if n == 0 && (right <= ack.number || within_second()) {
                report.duplicate = true;
                if let Some(undo) = &mut self.undo {
                    undo.on_duplicates(left, right.saturating_sub(left).div_ceil(self.smss) as u32);
                }
                continue;
            }
            report.news |= self.board.sack(left.max(ack.number), right, delivered);
        }
        report
    }

    /// Measures the round-trip time (RFC 6298 section 3). Returns the round-trip time of this acknowledgement, if it is
    /// certain.
    fn measure(
        &mut self,
        now: Instant,
        echoed: Option<u32>,
        advanced: bool,
        delivered: &Delivered,
    ) -> Option<Duration> {
        // Karn's rule: no measurement if any acknowledged segment was retransmitted.
        if delivered.repeated || delivered.repeated_sacked {
            // RFC 7323 section 4.1: a timestamp identifies the copy that was acknowledged.
            let echoed = Duration::from_millis(echoed.filter(|_| advanced)?.into());
            self.measured(ago(now, echoed), now);
            return None;
        }
        let rtt = delivered.earliest_original.map(|sent| now.since(sent));
        let sample = match self.config.rtt_sampling {
            RttSampling::PerAck => delivered.earliest_original,
            RttSampling::PerRound => delivered.timed,
        };
        if let Some(sent) = sample {
            self.timed = self.board.nxt();
            self.measured(sent, now);
        }
        rtt
    }

    /// RFC 3168 section 6.1.2: reduces the window as after a loss, but without a retransmission and at most once per
    /// window.
    fn on_congestion_echo(&mut self, telemetry: &mut Telemetry) {
        if self.phase != CongestionPhase::Open || self.board.una() <= self.reduced_until {
            return;
        }
        let base = self.congested_base(0);
        let ssthresh = self.algorithm.on_congestion(&self.window, base);
        self.reduced_until = self.board.nxt();
        self.cwr_pending = true;
        if self.config.prr {
            self.prr = Some(Prr::new(self.board.in_flight()));
            self.phase = CongestionPhase::Reducing;
            self.recover = self.board.nxt();
            self.window.ssthresh = ssthresh;
        } else {
            self.window.reduce(ssthresh, ssthresh);
        }
        telemetry.counters.ecn_reductions += 1;
        telemetry.report(Incident::EcnReduction { path: PATH, cwnd: ssthresh });
    }

    /// Handles the conclusion about a tail loss probe (RFC 8985 section 7.4.2).
    fn judge_probe(&mut self, verdict: ProbeVerdict, telemetry: &mut Telemetry) {
        if verdict == ProbeVerdict::Open {
            return;
        }
        self.probe = None;
        if verdict == ProbeVerdict::Repaired && self.phase == CongestionPhase::Open {
            let base = self.congested_base(0);
            let ssthresh = self.algorithm.on_congestion(&self.window, base);
            self.window.reduce(ssthresh, ssthresh);
            telemetry.counters.fast_recoveries += 1;
            telemetry.report(Incident::Recovered { path: PATH, cwnd: ssthresh });
        }
    }

    fn judge_time_out(&mut self, frto: Frto, evidence: FrtoEvidence, telemetry: &mut Telemetry) {
        match frto.judge(evidence) {
            FrtoVerdict::Undecided => {}
            FrtoVerdict::Genuine => {
                self.frto = None;
                // Step 3a: slow start continues from at most three segments. Two of them are the new segments.
                if frto == Frto::Second {
                    self.window.cwnd = 3 * self.smss;
                }
            }
            // Step 2b: without new data to send, the time-out cannot be judged (RFC 5682 section 2.1).
            FrtoVerdict::TryNewData => {
                self.frto = (self.unsent() > 0 && self.peer_edge > self.board.nxt()).then_some(Frto::Second);
                self.window.cwnd = self.board.in_flight() + 2 * self.smss;
            }
            FrtoVerdict::Spurious => self.undo_reduction(telemetry),
        }
    }

    /// Undoes a spurious time-out or fast retransmission as in RFC 4015. RFC 5682 section 3.4 does not specify the
    /// response.
    fn undo_reduction(&mut self, telemetry: &mut Telemetry) {
        self.board.forgive_losses();
        let before = self.before.take();
        // RFC 9438 section 4.9.2: an undo long after recovery does not shrink a window that has become larger since.
        let outgrown =
            |(cwnd, _): (u64, u64)| self.phase == CongestionPhase::Open && self.window.cwnd >= cwnd;
        if !before.is_some_and(outgrown) {
            if let Some((cwnd, ssthresh)) = before {
                self.window.reduce(ssthresh, cwnd.max(self.window.cwnd));
            }
            self.algorithm.on_undo();
        }
        self.rtt.reset_backoff();
        match self.phase {
            CongestionPhase::Loss => {
                telemetry.counters.spurious_timeouts += 1;
                telemetry.report(Incident::SpuriousTimeout { path: PATH });
            }
            _ => telemetry.report(Incident::Recovered { path: PATH, cwnd: self.window.cwnd }),
        }
        (self.frto, self.prr, self.undo) = (None, None, None);
        self.phase = CongestionPhase::Open;
        self.dup_acks = 0;
    }

    /// Leaves, enters or continues recovery.
    fn advance_phase(&mut self, now: Instant, report: &AckReport, telemetry: &mut Telemetry) {
        let &AckReport { advanced, duplicate, ref delivered, .. } = report;
        if advanced && self.phase != CongestionPhase::Open && report.number >= self.recover {
            let recovering = self.phase == CongestionPhase::Recovery;
            self.leave(telemetry);
            // A loss in data that was sent during the recovery is a new loss. With IsLost (SND.UNA), recovery begins
            // again (RFC 6675 section 5, step 2), whether the data has been retransmitted or not. After a time-out,
            // however, the window starts from one segment, and only losses that are detected from now on count.
            if recovering && self.is_selective() && self.board.misses_any() {
                self.enter_recovery(now, delivered, telemetry);
            }
        }
        if duplicate {
            if self.dup_acks == 0 {
                self.sent_since_gap = 0;
            }
            self.dup_acks += 1;
        } else if advanced {
            self.dup_acks = 0;
        }
        if self.phase == CongestionPhase::Open && !duplicate && !self.board.has_gaps() {
            return;
        }
        let lost = match self.recovery {
            Recovery::None => false,
            Recovery::Reno | Recovery::Newreno => self.judge_by_duplicates(now, report, telemetry),
            Recovery::Sack => self.judge_by_sacks(now, delivered, telemetry),
            Recovery::Rack => self.detect_by_time(now, delivered, telemetry),
        };
        self.reduce_proportionally(delivered, advanced && !lost);
    }

    /// RFC 5681 section 3.2 and RFC 6582 section 3.2. Returns whether a loss was detected.
    fn judge_by_duplicates(&mut self, now: Instant, report: &AckReport, telemetry: &mut Telemetry) -> bool {
        let &AckReport { advanced, duplicate, ref delivered, .. } = report;
        match self.phase {
            CongestionPhase::Open | CongestionPhase::Reducing => {
                let enough = duplicate && self.dup_acks == self.config.dup_ack_threshold;
                if enough && self.board.una() > self.guard {
                    self.enter_recovery(now, delivered, telemetry);
                    return true;
                }
            }
            // RFC 5681 section 3.2, step 4: each further duplicate means that a segment has left the network.
            CongestionPhase::Recovery if duplicate => self.window.cwnd += self.smss,
            CongestionPhase::Recovery if advanced => self.on_partial(now, delivered, telemetry),
            CongestionPhase::Recovery | CongestionPhase::Loss => {}
        }
        false
    }

    /// Handles a partial acknowledgement (RFC 6582 section 3.2, step 3): the next segment is lost too.
    fn on_partial(&mut self, now: Instant, delivered: &Delivered, telemetry: &mut Telemetry) {
        if self.recovery == Recovery::Reno {
            self.leave(telemetry);
            return;
        }
        self.board.mark_first_lost();
        self.retransmit_now = true;
        let acknowledged = delivered.acknowledged;
        self.window.cwnd = self.window.cwnd.saturating_sub(acknowledged);
        if acknowledged >= self.smss {
            self.window.cwnd += self.smss;
        }
        self.window.cwnd = self.window.cwnd.max(self.smss);
        if !self.partial_seen || self.config.newreno_timer == NewrenoTimer::SlowButSteady {
            self.restart_timer(now);
        }
        self.partial_seen = true;
    }

    /// Detects losses by RFC 6675 section 5. Returns whether a loss was detected.
    fn judge_by_sacks(&mut self, now: Instant, delivered: &Delivered, telemetry: &mut Telemetry) -> bool {
        let lost = self.board.judge_by_sacks(self.config.dup_ack_threshold, self.smss);
        let counted = self.dup_acks >= self.config.dup_ack_threshold;
        let enters =
            matches!(self.phase, CongestionPhase::Open | CongestionPhase::Reducing) && (counted || lost);
        if enters {
            self.enter_recovery(now, delivered, telemetry);
        }
        lost || enters
    }

    /// Detects losses by RFC 8985 section 6.2. Returns whether a loss was detected.
    pub(super) fn detect_by_time(
        &mut self,
        now: Instant,
        delivered: &Delivered,
        telemetry: &mut Telemetry,
    ) -> bool {
        let situation = self.situation();
        let (lost, look_again) = self.rack.detect(now, &mut self.board, &situation);
        let margin = self.config.loss_timer_margin;
        self.reordering_at = look_again.map_or(Instant::NEVER, |at| self.fires(now, at - now + margin));
        if lost && matches!(self.phase, CongestionPhase::Open | CongestionPhase::Reducing) {
            self.enter_recovery(now, delivered, telemetry);
        }
        lost
    }

    /// A loss was detected: reduces the window, and schedules the immediate retransmission of the first lost segment.
    fn enter_recovery(&mut self, now: Instant, delivered: &Delivered, telemetry: &mut Telemetry) {
        // Before this acknowledgement, limited transmit may have sent one segment for each segment that arrived out of
        // order.
        let arrived = match self.sack {
            true => self.board.sacked_amount().saturating_sub(delivered.amount),
            false => u64::from(self.config.dup_ack_threshold - 1) * self.smss,
        };
        let beyond = arrived.min(self.sent_since_gap);
        let base = self.congested_base(beyond);
        self.remember();
        // If ECN has already reduced ssthresh in the same window, it is not reduced again (RFC 3168 section 6.1.2).
        let ssthresh = match self.phase {
            CongestionPhase::Reducing => self.window.ssthresh,
            _ => self.algorithm.on_congestion(&self.window, base),
        };
        telemetry.counters.fast_recoveries += 1;
        if !self.algorithm.recovers() {
            self.enter_loss(now, ssthresh);
        } else {
            self.phase = CongestionPhase::Recovery;
            self.recover = self.board.nxt();
            self.reduced_until = self.board.nxt();
            self.guard = self.board.nxt();
            self.partial_seen = false;
            self.rescued = false;
            self.high_resent = self.board.una();
            self.probe_at = Instant::NEVER;
            self.restart_timer(now);
            let by_sack = self.is_selective();
            let known = self.board.awaits_retransmission() || by_sack && self.board.misses_any();
            if !known {
                self.board.mark_first_lost();
            }
            self.retransmit_now = self.board.awaits_retransmission();
            self.prr = (by_sack && self.config.prr)
                .then(|| Prr::new(self.board.outstanding().saturating_sub(arrived)));
            let cwnd = if by_sack {
                ssthresh
            } else {
                // RFC 5681 section 3.2, step 3: three duplicates mean that three segments have left the network.
                ssthresh + u64::from(self.config.dup_ack_threshold) * self.smss
            };
            self.window.reduce(ssthresh, cwnd);
        }
        telemetry.report(Incident::FastRetransmit { path: PATH, cwnd: self.window.cwnd });
    }

    /// Whether losses are detected by selective acknowledgements.
    const fn is_selective(&self) -> bool {
        matches!(self.recovery, Recovery::Sack | Recovery::Rack)
    }

    /// Sets the window during recovery or after an ECN echo (RFC 9937).
    pub(super) fn reduce_proportionally(&mut self, delivered: &Delivered, safe: bool) {
        let Some(prr) = &mut self.prr else { return };
        let (in_flight, ssthresh) = (self.board.in_flight(), self.window.ssthresh);
        if let Some(cwnd) = prr.on_ack(delivered.amount, in_flight, ssthresh, safe, self.smss) {
            self.window.cwnd = cwnd.max(self.smss);
        }
    }

    /// Ends recovery.
    fn leave(&mut self, telemetry: &mut Telemetry) {
        match self.phase {
            CongestionPhase::Open => return,
            CongestionPhase::Loss => self.frto = None,
            CongestionPhase::Reducing => self.window.cwnd = self.window.ssthresh,
            CongestionPhase::Recovery => {
                // RFC 6582 section 3.2, step 3, full acknowledgement, option 1; RFC 9937 section 6.
                self.window.cwnd = match self.recovery {
                    Recovery::Newreno => {
                        let flight = self.board.outstanding().max(self.smss);
                        self.window.ssthresh.min(flight + self.smss)
                    }
                    _ => self.window.ssthresh,
                };
                telemetry.report(Incident::Recovered { path: PATH, cwnd: self.window.cwnd });
            }
        }
        if matches!(self.phase, CongestionPhase::Recovery | CongestionPhase::Loss) {
            self.rack.on_recovered();
        }
        self.prr = None;
        self.dup_acks = 0;
        self.phase = CongestionPhase::Open;
    }

    fn grow(&mut self, now: Instant, amount: u64, rtt: Option<Duration>) {
        if self.frto.is_some() {
            return;
        }
        if !self.may_grow() {
            self.algorithm.on_unused(now);
            return;
        }
        // When a gap is filled, the acknowledgement also covers data that arrived long ago. At most one window of it
        // counts, because the window "MUST NOT be increased by more than SMSS bytes per RTT" (RFC 5681 section 3.1).
        let amount = amount.min(self.window.cwnd);
        let (una, nxt, srtt) = (self.board.una(), self.board.nxt(), self.srtt.unwrap_or_default());
        self.algorithm.on_ack(&mut self.window, &Acked { now, amount, rtt, srtt, una, nxt });
    }

    /// Restarts or stops timers after an acknowledgement: RFC 6298 (5.2) and (5.3).
    fn rearm(&mut self, now: Instant, advanced: bool, news: bool) {
        if self.board.is_empty() {
            self.retransmission_at = Instant::NEVER;
            self.reordering_at = Instant::NEVER;
        } else if advanced && !(self.phase == CongestionPhase::Recovery && self.recovery == Recovery::Newreno)
        {
            self.restart_timer(now);
        }
        if advanced || news {
            self.schedule_probe(now);
        }
    }
}
