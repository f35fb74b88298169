//! Probing of paths with heartbeats (RFC 9260 sections 5.4 and 8.3).

use netrig_core::{Duration, Instant};

use super::path::PendingHeartbeat;
use super::{Association, AssociationState};
use crate::PathState;
use crate::sctp::config::{HeartbeatLoss, IdleCwnd};
use crate::sctp::packet::Chunk;
use crate::sctp::packet::chunk::Heartbeat;

impl Association {
    /// Interval between two heartbeats: "once per RTO of that destination address plus the protocol parameter
    /// 'HB.interval', with jittering of +/- 50% of the RTO value" (RFC 9260 section 8.3). For unconfirmed or
    /// potentially failed paths, HB.interval is not added (section 5.4; RFC 7829 section 3.2).
    fn heartbeat_span(&mut self, path: usize) -> Duration {
        let rto = self.paths[path].rto.rto();
        let jittered = Duration::from_nanos(rto.as_nanos() / 2 + self.random.below(rto.as_nanos()));
        if self.is_hurried(path) { jittered } else { self.config.heartbeat_interval + jittered }
    }

    fn is_hurried(&self, path: usize) -> bool {
        matches!(self.paths[path].state, PathState::Unconfirmed | PathState::PotentiallyFailed)
    }

    /// Schedules the first heartbeat. RFC 9260 section 5.4: unconfirmed paths are probed as soon as the association is
    /// established.
    pub(super) fn schedule_first_heartbeat(&mut self, now: Instant, path: usize) {
        if self.paths[path].foreign {
            return;
        }
        if self.paths[path].is(PathState::Unconfirmed) {
            self.paths[path].heartbeat_at = now;
        } else {
            self.schedule_heartbeat(now, path);
        }
    }

    pub(super) fn schedule_heartbeat(&mut self, now: Instant, path: usize) {
        // RFC 7829 section 3.2: if heartbeats are disabled, a potentially failed path "MUST honor" that. Unconfirmed
        // paths are still probed (RFC 9260 section 5.4).
        if !self.config.heartbeats && !self.paths[path].is(PathState::Unconfirmed) {
            self.paths[path].heartbeat_at = Instant::NEVER;
            return;
        }
        let span = self.heartbeat_span(path);
        let one = &mut self.paths[path];
        one.heartbeat_span = span;
        one.heartbeat_at = self.config.timer_wheel.fires(now, span);
    }

    /// The heartbeat timer of `path` expired.
    pub(super) fn heartbeat_due(&mut self, now: Instant, path: usize) {
        if !matches!(
            self.state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownReceived
        ) {
            // RFC 9260 section 8.3: no heartbeats are sent after SHUTDOWN or SHUTDOWN ACK.
            self.paths[path].heartbeat_at = Instant::NEVER;
            return;
        }
        let one = &mut self.paths[path];
        if one.beat.is_some() {
            one.beat_lost_at = Instant::NEVER;
            self.heartbeat_failed(now, path);
            if self.state == AssociationState::Closed {
                return;
            }
        } else if one.is(PathState::Active) {
            // RFC 9260 section 8.3: only an idle path is probed. DATA has the same effect as a heartbeat.
            let due = one.last_data + one.heartbeat_span;
            if due > now {
                one.heartbeat_at = due;
                return;
            }
        }
        if self.probed_by_data(path) {
            self.schedule_heartbeat(now, path);
        } else {
            self.send_heartbeat(now, path);
        }
    }

    /// Whether outstanding data already probes the path. A heartbeat would then count each failure a second time.
    fn probed_by_data(&self, path: usize) -> bool {
        if self.config.heartbeats_beside_data && self.paths[path].is(PathState::PotentiallyFailed) {
            return false;
        }
        self.paths[path].t3_runs() || self.retransmission_due == Some(path)
    }

    pub(super) fn send_heartbeat(&mut self, now: Instant, path: usize) {
        let nonce = self.random.label();
        let one = &mut self.paths[path];
        if self.config.idle_cwnd == IdleCwnd::HalveAtHeartbeat && now - one.last_data > one.rto.rto() {
            one.congestion.unused();
        }
        one.beat = Some(PendingHeartbeat { nonce, sent: now });
        // Path and nonce. A forged answer without the nonce confirms nothing (RFC 9260 section 5.4).
        let mut info = vec![path as u8];
        info.extend_from_slice(&nonce.to_be_bytes());
        let rto = one.rto.rto();
        self.send_chunk(path, Chunk::Heartbeat(Heartbeat { info }));
        self.schedule_heartbeat(now, path);
        let at = self.config.timer_wheel.fires(now, rto);
        let one = &mut self.paths[path];
        match self.config.heartbeat_loss {
            HeartbeatLoss::AfterRto => one.beat_lost_at = at,
            // No heartbeat follows, so the loss counts after one RTO.
            HeartbeatLoss::AtNext if one.heartbeat_at == Instant::NEVER => one.beat_lost_at = at,
            HeartbeatLoss::AtNext => {}
        }
    }

    /// Handles a heartbeat that was not answered within one RTO.
    pub(super) fn heartbeat_lost(&mut self, now: Instant, path: usize) {
        self.paths[path].beat_lost_at = Instant::NEVER;
        self.heartbeat_failed(now, path);
        // RFC 7829 section 3.2, RFC 9260 section 5.4: the next heartbeat is sent immediately, with a doubled RTO.
        if self.state != AssociationState::Closed && self.is_hurried(path) && !self.probed_by_data(path) {
            self.send_heartbeat(now, path);
        }
    }

    fn heartbeat_failed(&mut self, now: Instant, path: usize) {
        let probed_by_data = self.probed_by_data(path);
        let one = &mut self.paths[path];
        one.beat = None;
        if probed_by_data {
            return;
        }
        // RFC 9260 section 8.3: the RTO backs off exponentially if the previous heartbeat was not answered.
        one.rto.back_off();
        // A failure counts for the association only if the address is confirmed (RFC 9260 section 5.4) and the path is
        // "the path that is currently used for data transfer" (section 8.1).
        let used = path == self.data_path || self.config.association_counts_spare_paths;
        let counts = used && !self.paths[path].is(PathState::Unconfirmed);
        self.strike(now, path, counts);
    }

    /// Handles a HEARTBEAT ACK (RFC 9260 section 8.3).
    pub(super) fn handle_heartbeat_ack(&mut self, now: Instant, heartbeat: &Heartbeat) {
        let Some((&path, nonce)) = heartbeat.info.split_first() else { return };
        let Some(one) = self.paths.get_mut(usize::from(path)) else { return };
        let Some(beat) = one.beat.filter(|beat| nonce == beat.nonce.to_be_bytes()) else { return };
        one.beat = None;
        one.beat_lost_at = Instant::NEVER;
        one.rto.measured(now - beat.sent);
        self.errors = 0;
        self.path_works(now, usize::from(path));
        self.schedule_heartbeat(now, usize::from(path));
    }
}
