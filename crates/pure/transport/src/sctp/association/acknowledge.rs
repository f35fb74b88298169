//! Handling of SACKs at the sender (RFC 9260 sections 6.2.1, 6.3.2 and 7.2).

use netrig_core::{CloseReason, Instant};

use smallvec::SmallVec;

use super::Association;
use super::path::SackEffect;
use crate::sctp::packet::Cause;
use crate::sctp::packet::chunk::{GapBlock, Sack};
use crate::sctp::tx::{LossSign, SentChunk, SentState};
use crate::{Incident, PathId, PathState, Serial};

/// Runs of outstanding chunks that a SACK reports as missing: index of the first chunk, and one past the last.
type MissingRuns = SmallVec<[(usize, usize); 4]>;

impl Association {
    /// Handles a SACK.
    pub(super) fn handle_sack(&mut self, now: Instant, sack: &Sack) {
        // RFC 9260 section 6.2.1 D i): an outdated SACK is dropped.
        if sack.cumulative_tsn.before(self.outstanding.cumulative()) {
            return;
        }
        if self.acknowledged(now, sack.cumulative_tsn, Some(&sack.gaps)) {
            self.peer_rwnd = u64::from(sack.a_rwnd);
            // No probe of a closed window is due before its timer expires again.
            self.probe_due = false;
            if self.window_closed {
                self.judge_probe();
            }
            self.continue_shutdown(now);
        }
    }

    /// Handles a SACK after a probe of a closed window. If the peer did not accept the probe and now has room, the
    /// probe is retransmitted immediately, because T3-rtx has backed off and would delay it.
    fn judge_probe(&mut self) {
        let Some(probe) = self.outstanding.get(0) else {
            self.window_closed = false;
            return;
        };
        if probe.chunk.data.size() > self.peer_rwnd {
            return;
        }
        self.window_closed = false;
        if probe.state == SentState::InFlight {
            let id = probe.path;
            let path = &mut self.paths[usize::from(id.0)];
            self.outstanding.time_out(id);
            path.lost += std::mem::take(&mut path.flight);
            path.stop_t3();
            path.timed = None;
        }
        self.retransmissions_held = false;
        self.retransmission_due = Some(self.data_path);
    }

    /// Handles the Cumulative TSN Ack of a SHUTDOWN. A SHUTDOWN has no gap blocks; this does not revoke earlier ones
    /// (RFC 9260 section 3.3.8).
    pub(super) fn acknowledge_cumulative(&mut self, now: Instant, cumulative: Serial) {
        if !cumulative.before(self.outstanding.cumulative()) {
            self.acknowledged(now, cumulative, None);
        }
    }

    /// Handles an acknowledgement. If `gaps` is `None`, the chunks beyond the cumulative TSN keep their state. Returns
    /// false if the association was aborted.
    fn acknowledged(&mut self, now: Instant, cumulative: Serial, gaps: Option<&[GapBlock]>) -> bool {
        if !cumulative.before(self.outstanding.next_tsn()) {
            // It acknowledges data that was never sent.
            let cause = Cause::ProtocolViolation(b"cumulative TSN ack beyond what was sent".to_vec());
            self.abort_with(cause, CloseReason::Aborted);
            return false;
        }
        self.sack_since_timeout = true;
        for path in &mut self.paths {
            let outstanding_before = path.outstanding(&self.config);
            path.sack = SackEffect { outstanding_before, ..SackEffect::default() };
        }
        let advanced = cumulative != self.outstanding.cumulative();
        let mut highest_newly = None;
        if advanced {
            let (paths, counters, config) = (&mut self.paths, &mut self.counters, &self.config);
            self.outstanding.acknowledge_up_to(cumulative, |sent, newly| {
                let path = &mut paths[usize::from(sent.path.0)];
                // RFC 9260 section 6.3.2 R3: the chunk is the earliest outstanding chunk of its path.
                path.sack.earliest = true;
                if newly {
                    path.newly_acknowledged(now, sent, config);
                    counters.bytes_acknowledged += sent.chunk.data.size();
                    highest_newly = Some(sent.chunk.tsn);
                }
            });
        }
        let mut holes = MissingRuns::new();
        if let Some(gaps) = gaps.filter(|gaps| !gaps.is_empty() || self.outstanding.has_gap_acked()) {
            holes = self.acknowledge_gaps(now, gaps, &mut highest_newly);
        }
        if advanced || highest_newly.is_some() {
            // RFC 9260 section 8.1: the peer is reachable. Section 6.3.3: after a time-out, only one packet of lost chunks
            // was retransmitted; the others may follow now.
            self.errors = 0;
            self.retransmissions_held = false;
        }
        self.grow_windows(cumulative, advanced);
        self.count_misses(&holes, advanced, highest_newly);
        self.after_sack(now, cumulative);
        true
    }

    /// Handles gap blocks: new acknowledgements and reneging. Returns the missing chunks, and in `highest_newly` the
    /// highest TSN that the SACK newly acknowledges.
    fn acknowledge_gaps(
        &mut self,
        now: Instant,
        gaps: &[GapBlock],
        highest_newly: &mut Option<Serial>,
    ) -> MissingRuns {
        let (paths, counters, config) = (&mut self.paths, &mut self.counters, &self.config);
        let mut reneged: SmallVec<[(PathId, u32, u64); 4]> = SmallVec::new();
        let holes = self.outstanding.acknowledge_gaps(
            gaps,
            |sent| {
                paths[usize::from(sent.path.0)].newly_acknowledged(now, sent, config);
                counters.bytes_acknowledged += sent.chunk.data.size();
                *highest_newly = Some(sent.chunk.tsn);
            },
            // RFC 9260 section 6.2.1 D iii): a chunk that the peer no longer acknowledges is in flight again. T3-rtx is
            // started after all chunks.
            |sent| reneged.push((sent.path, sent.counted, sent.chunk.data.size())),
        );
        for (path, counted, user_bytes) in reneged {
            self.paths[usize::from(path.0)].flight += u64::from(counted);
            self.counters.bytes_acknowledged -= user_bytes;
        }
        holes
    }

    /// Increases congestion windows for the newly acknowledged bytes. RFC 9260 section 7.2.4: this "MUST be applied
    /// first", before losses in the same SACK reduce them.
    fn grow_windows(&mut self, cumulative: Serial, advanced: bool) {
        let in_recovery = self.fast_recovery.is_some_and(|exit| !exit.at_or_before(cumulative));
        for path in &mut self.paths {
            let SackEffect { newly, outstanding_before, .. } = path.sack;
            if newly > 0 && (advanced || !self.config.growth_needs_cumulative_ack) {
                path.congestion.acknowledged(newly, outstanding_before, in_recovery);
            }
        }
    }

    /// Counts miss indications for the chunks that a SACK reports as missing.
    fn count_misses(&mut self, holes: &MissingRuns, advanced: bool, highest_newly: Option<Serial>) {
        // RFC 9260 section 7.2.4: a miss counts only for chunks below the highest TSN that is newly acknowledged. In fast
        // recovery, if the cumulative TSN advanced, it counts for all missing chunks.
        let all = self.fast_recovery.is_some() && advanced;
        let limit = match (all, highest_newly) {
            (true, _) => usize::MAX,
            (false, Some(highest)) => highest.offset_from(self.outstanding.cumulative()).max(1) as usize - 1,
            (false, None) => return,
        };
        let threshold = self.config.fast_retransmit_threshold;
        let paths = &mut self.paths;
        let mut found = false;
        for &(first, end) in holes {
            self.outstanding.miss((first, end.min(limit)), threshold, |sent| {
                let path = &mut paths[usize::from(sent.path.0)];
                path.flight -= u64::from(sent.counted);
                path.lost += u64::from(sent.counted);
                path.sack.lost = true;
                found = true;
            });
        }
        if found {
            self.fast_retransmit();
        }
    }

    /// Starts fast retransmit after miss indications detected lost chunks (RFC 9260 section 7.2.4).
    fn fast_retransmit(&mut self) {
        // (2), (6): the windows are reduced once per recovery, which is common to all paths.
        if self.fast_recovery.is_some() {
            return;
        }
        self.fast_recovery = Some(self.outstanding.next_tsn().plus(u32::MAX));
        self.counters.fast_recoveries += 1;
        for (i, path) in self.paths.iter_mut().enumerate().filter(|(_, path)| path.sack.lost) {
            path.congestion.lost();
            let cwnd = path.congestion.cwnd();
            self.incidents.push_back(Incident::FastRetransmit { path: PathId(i as u8), cwnd });
        }
        // (3): one packet with the earliest lost chunks is sent regardless of the window.
        let first = self.outstanding.first_lost().and_then(|place| self.outstanding.get(place));
        if let Some(SentChunk { path, state: SentState::Lost(sign @ LossSign::Missing), .. }) = first {
            self.retransmission_due = Some(self.retransmission_path(usize::from(path.0), *sign));
        }
    }

    /// Updates recovery, timers and reachability after a SACK.
    fn after_sack(&mut self, now: Instant, cumulative: Serial) {
        if self.fast_recovery.is_some_and(|exit| exit.at_or_before(cumulative)) {
            self.fast_recovery = None;
            let path = self.data_path;
            let cwnd = self.paths[path].congestion.cwnd();
            self.incidents.push_back(Incident::Recovered { path: PathId(path as u8), cwnd });
        }
        let all_done = self.outstanding.is_empty();
        for i in 0..self.paths.len() {
            let path = &mut self.paths[i];
            let effect = path.sack;
            if all_done {
                path.congestion.all_acknowledged();
            }
            // RFC 9260 section 6.3.2 R2, R3, R4.
            if path.outstanding(&self.config) == 0 {
                path.stop_t3();
            } else if effect.earliest || !path.t3_runs() {
                path.start_t3(now, &self.config);
            }
            if effect.works {
                path.one_packet = false;
                // RFC 9260 section 8.2: an acknowledged chunk resets the error counter of the path over which it was last
                // sent.
                if path.errors > 0 || !path.is(PathState::Active) {
                    self.path_works(now, i);
                }
            }
        }
    }
}
