//! Reliable provisional responses (RFC 3262).

use netrig_core::{Duration, Instant};

use super::super::authorize::{failure_of, is_challenge};
use super::super::output::LoadOutput;
use super::super::scan::Scan;
use super::super::session::broken_answer;
use super::sending::CallRequest;
use super::{Caller, CallerPhase, Key, Scenario};
use crate::deadline::Deadline;
use crate::record::{Failure, stamp};
use crate::sdp::MediaDirection;
use crate::transaction::Timer;

impl Caller {
    /// Handles a provisional response that is reliable, or should be. Only one PRACK is pending at a time. Meanwhile,
    /// the callees of other dialogs retransmit their reliable responses.
    pub(super) fn rings_reliably(&mut self, now: Instant, scan: &Scan<'_>, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_asked = matches!(call.scenario, Scenario::Prack { .. });
        // An INVITE with an offer lists 100rel, so the other side may send reliable responses.
        let has_offered =
            !matches!(call.scenario, Scenario::DelayedOffer { .. }) && !self.setup.description.is_empty();
        let may_be = is_asked || has_offered;
        let Some(rseq) = scan.rseq.filter(|_| may_be && scan.requires_100rel) else {
            // "The UAS MUST send any non-100 provisional response reliably if the initial request contained a Require header
            // field with the option tag 100rel", and "MUST NOT attempt to send a 100 (Trying) response reliably" (RFC
            // 3262 section 3). Without the support of the caller, no response may be reliable.
            call.failure = call.failure.or(Some(Failure::Rule("RFC 3262 section 3")));
            return;
        };
        let is_same = call.remote_tag() == scan.to_tag && call.rseq != 0;
        // "If the UAC receives another reliable provisional response to the same request, and its RSeq value is not one higher
        // than the value of the sequence number, that response MUST NOT be acknowledged with a PRACK" (RFC 3262 section 4).
        let is_next = !is_same || rseq == call.rseq.wrapping_add(1);
        if call.prack != 0 || !is_next || call.phase != CallerPhase::Proceeding {
            call.counts.repeated += 1;
            return;
        }
        let is_first = call.rseq == 0;
        if scan.contact.is_none() || scan.to_tag.is_none() {
            call.failure = call.failure.or(Some(Failure::Rule("RFC 3261 section 12.1.1")));
            return;
        }
        call.is_met |= is_asked;
        if is_first && !scan.body.is_empty() {
            let broken = broken_answer(&self.setup.description, MediaDirection::SendRecv, scan.body);
            call.failure = call.failure.or(broken.map(Failure::Rule));
        }
        self.take_dialog(scan, key);
        let Some(call) = self.calls.get_mut(key) else { return };
        if is_asked {
            stamp(&mut call.stamps.changing, now);
        }
        call.rseq = rseq;
        call.cseq += 1;
        call.prack = call.cseq;
        self.send_timed(now, key, CallRequest::Prack, out);
    }

    /// Handles a response to PRACK.
    pub(super) fn pracked(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        (status, cseq): (u16, u32),
        key: Key,
        out: &mut LoadOutput,
    ) {
        let t2 = self.setup.timing.t2;
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.prack != cseq {
            return self.strays += 1;
        }
        if status < 200 {
            return call.timers.again.slow_down(t2);
        }
        if is_challenge(status) && self.authorize(scan, key) {
            let Some(call) = self.calls.get_mut(key) else { return };
            call.prack = call.cseq;
            return self.send_timed(now, key, CallRequest::Prack, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        call.prack = 0;
        call.timers.again.stop();
        call.timers.end.stop();
        if status < 300 {
            if matches!(call.scenario, Scenario::Prack { .. }) {
                stamp(&mut call.stamps.changed, self.arrived);
            }
            return;
        }
        let failure = failure_of(status, call.proof.as_deref());
        self.abandon(now, key, failure);
    }

    /// Handles a PRACK that has timed out.
    pub(super) fn unacknowledged(&mut self, now: Instant, key: Key) {
        if let Some(call) = self.calls.get_mut(key) {
            call.prack = 0;
            call.timers.again.stop();
        }
        self.abandon(now, key, Failure::TimedOut(Timer::F));
    }

    /// Fails a call, and cancels it or hangs it up at once.
    fn abandon(&mut self, now: Instant, key: Key, failure: Failure) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.failure = call.failure.or(Some(failure));
        call.timers.act = Deadline::after(now, Duration::ZERO);
    }
}
