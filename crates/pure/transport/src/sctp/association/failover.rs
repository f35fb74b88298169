//! Reachability of paths, and selection of the path for data (RFC 9260 sections 6.4 and 8.2, RFC 7829).

use netrig_core::{CloseReason, Instant};

use super::{Association, AssociationState};
use crate::sctp::config::{HeartbeatLoss, LocalDrop, RetransmitTo};
use crate::sctp::tx::LossSign;
use crate::{Incident, PathId, PathState};

impl Association {
    /// T3-rtx of `path` expired (RFC 9260 section 6.3.3).
    pub(super) fn t3_expired(&mut self, now: Instant, path: usize) {
        let one = &mut self.paths[path];
        one.stop_t3();
        one.timed = None;
        if one.outstanding(&self.config) == 0 {
            if self.outstanding.is_empty() {
                // T3-rtx ran because the peer's window was closed. The window is still closed, so a probe is sent.
                self.probe_due = true;
                one.rto.back_off();
            }
            return;
        }
        self.outstanding.time_out(PathId(path as u8));
        one.lost += std::mem::take(&mut one.flight);
        one.one_packet = true;
        let local = one.probes_locally(&self.config);
        // E1: ssthresh and cwnd are reduced. E2: the RTO is doubled.
        if !local {
            one.congestion.timed_out();
            one.rto.back_off();
        }
        // RFC 9260 section 6.1 A: time-outs of window probes are not errors while SACKs arrive.
        let sack_since_timeout = std::mem::take(&mut self.sack_since_timeout);
        let counts = !(local || self.window_closed && sack_since_timeout);
        self.counters.timeouts += 1;
        self.incidents.push_back(Incident::Timeout {
            path: PathId(path as u8),
            rto: one.t3_span,
            errors: one.errors + u32::from(counts),
            limit: self.config.path_max_retrans,
            cwnd: one.congestion.cwnd(),
        });
        if counts {
            self.strike(now, path, true);
            if self.state == AssociationState::Closed {
                return;
            }
        }
        self.fast_recovery = None;
        // E3: one packet with the earliest chunks is sent immediately. The others wait for a SACK.
        self.retransmissions_held = true;
        self.retransmission_due = Some(self.retransmission_path(path, LossSign::Timeout));
    }

    /// Counts an error on `path` after T3-rtx or a heartbeat timed out (RFC 9260 sections 8.1 and 8.2).
    pub(super) fn strike(&mut self, now: Instant, path: usize, counts_for_association: bool) {
        self.paths[path].errors += 1;
        self.errors += u32::from(counts_for_association);
        if self.errors > self.config.association_max_retrans {
            self.finish(CloseReason::TimedOut);
            return;
        }
        let errors = self.paths[path].errors;
        let state = self.paths[path].state;
        if errors > self.config.path_max_retrans {
            if !matches!(state, PathState::Inactive | PathState::Unconfirmed) {
                self.set_state(now, path, PathState::Inactive);
            }
        } else if self.config.potentially_failed
            && state == PathState::Active
            && errors > self.config.pf_threshold
        {
            self.set_state(now, path, PathState::PotentiallyFailed);
        }
        // RFC 7829 section 5: primary path switchover.
        if self.config.primary_switchover
            && path == self.primary
            && self.data_path != path
            && errors > self.config.primary_switchover_threshold
        {
            self.primary = self.data_path;
            self.incidents.push_back(Incident::PrimaryChanged { path: PathId(self.primary as u8) });
        }
    }

    /// Resets the error state of `path` after the peer answered a chunk that was sent over it.
    pub(super) fn path_works(&mut self, now: Instant, path: usize) {
        let one = &mut self.paths[path];
        one.errors = 0;
        if !one.is(PathState::Active) && !one.foreign {
            self.set_state(now, path, PathState::Active);
        }
    }

    fn set_state(&mut self, now: Instant, path: usize, state: PathState) {
        self.paths[path].state = state;
        self.incidents.push_back(Incident::PathChanged { path: PathId(path as u8), state });
        self.reselect_data_path();
        // RFC 7829 section 3.2: a potentially failed path without data is probed with heartbeats.
        let probes = self.config.heartbeats && self.paths[path].beat.is_none();
        if state == PathState::PotentiallyFailed && probes {
            match self.config.heartbeat_loss {
                HeartbeatLoss::AfterRto => self.paths[path].heartbeat_at = now,
                HeartbeatLoss::AtNext => self.schedule_heartbeat(now, path),
            }
        }
    }

    /// Selects the path for new data again, after a path changed its state.
    pub(super) fn reselect_data_path(&mut self) {
        let chosen = self.best_path();
        self.primary_awaited &= chosen != self.primary;
        if chosen != self.data_path {
            self.data_path = chosen;
            self.incidents.push_back(Incident::DataPathChanged { path: PathId(chosen as u8) });
        }
    }

    fn best_path(&self) -> usize {
        let active = |path: &usize| self.paths[*path].is(PathState::Active);
        // RFC 9260 section 6.4: "an endpoint SHOULD always transmit to the primary path".
        if (self.config.return_to_primary || self.primary_awaited) && active(&self.primary) {
            return self.primary;
        }
        if active(&self.data_path) {
            return self.data_path;
        }
        if let Some(next) = self.others_of(self.data_path).find(active) {
            return next;
        }
        // RFC 7829 section 3.2: the potentially failed path with the fewest errors. If all paths are inactive, RFC 9260
        // section 8.2 does not specify the path; the inactive path with the fewest errors is used.
        let rank = |path: &usize| {
            let one = &self.paths[*path];
            let failed = !one.is(PathState::PotentiallyFailed);
            (one.foreign || one.is(PathState::Unconfirmed), failed, one.errors, *path != self.data_path)
        };
        (0..self.paths.len()).min_by_key(rank).unwrap_or(self.primary)
    }

    /// The path for replies to chunks received over `path`: the same path if it is confirmed (RFC 9260 section 6.4),
    /// and otherwise the path for new data.
    pub(super) fn answer_path(&self, path: usize) -> usize {
        if self.is_confirmed(path) { path } else { self.data_path }
    }

    /// RFC 9260 section 5.4: "An endpoint MUST NOT send any chunks to an UNCONFIRMED address", except
    /// heartbeats and their answers.
    fn is_confirmed(&self, path: usize) -> bool {
        let one = &self.paths[path];
        !one.is(PathState::Unconfirmed) || one.by_user || !self.config.path_verification
    }

    /// The other paths in the order of their numbers, starting after `path` and wrapping around.
    fn others_of(&self, path: usize) -> impl Iterator<Item = usize> {
        let count = self.paths.len();
        (1..count).map(move |step| (path + step) % count)
    }

    /// Another active path, or `path` itself if there is none.
    pub(super) fn alternate_of(&self, path: usize) -> usize {
        let usable = |other: &usize| {
            let other = &self.paths[*other];
            match self.state {
                // RFC 9260 does not specify the path on which the handshake is retried. A failed primary path must not
                // prevent it.
                AssociationState::CookieWait | AssociationState::CookieEchoed => {
                    other.by_user && !other.foreign
                }
                _ => other.is(PathState::Active),
            }
        };
        self.others_of(path).find(usable).unwrap_or(path)
    }

    /// The path for the retransmission of a chunk that was lost on `path`.
    pub(super) fn retransmission_path(&self, path: usize, sign: LossSign) -> usize {
        let alternate = match (self.config.retransmit_to, sign) {
            (RetransmitTo::AlternatePath, _) | (RetransmitTo::TimeoutsToAlternate, LossSign::Timeout) => true,
            (RetransmitTo::SamePath, _) | (RetransmitTo::TimeoutsToAlternate, LossSign::Missing) => false,
        };
        if alternate {
            let other = self.alternate_of(path);
            if other != path {
                return other;
            }
        }
        if self.paths[path].is(PathState::Active) { path } else { self.data_path }
    }

    /// Sets the primary path as the user requests (RFC 9260 section 11.1.6). New data uses it immediately, or when the
    /// path becomes active. Outstanding data stays on its path.
    pub(super) fn set_primary(&mut self, path: usize) {
        if self.primary != path {
            self.primary = path;
            self.incidents.push_back(Incident::PrimaryChanged { path: PathId(path as u8) });
        }
        self.primary_awaited = true;
        self.reselect_data_path();
    }

    pub(super) fn interface_down(&mut self, now: Instant, path: usize) {
        self.paths[path].interface_down = true;
        match self.config.local_drop {
            LocalDrop::BackOff => {}
            // From now on, outstanding data is retried at a constant interval.
            LocalDrop::Probe => {
                if self.paths[path].t3_runs() {
                    self.paths[path].start_t3(now, &self.config);
                }
            }
            LocalDrop::FailOver => {
                if !self.paths[path].is(PathState::Inactive) {
                    self.set_state(now, path, PathState::Inactive);
                }
                // The outstanding data of the path is retransmitted over another path without waiting for T3-rtx.
                if self.paths[path].t3_runs() {
                    self.paths[path].t3 = now;
                }
            }
        }
    }

    pub(super) fn interface_up(&mut self, now: Instant, path: usize) {
        self.paths[path].interface_down = false;
        // A path that failed because of its interface is probed immediately, not at the next heartbeat interval.
        let one = &self.paths[path];
        if self.config.local_drop == LocalDrop::FailOver && one.is(PathState::Inactive) && one.beat.is_none()
        {
            self.send_heartbeat(now, path);
        }
    }
}
