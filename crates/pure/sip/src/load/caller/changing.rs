//! A call that is put on hold and taken up again: INVITE within the dialog (RFC 3261 section 14.1).

use netrig_core::Instant;

use super::super::authorize::failure_of;
use super::super::glare::{MOST_PENDING, pause_after_glare};
use super::super::output::Output;
use super::super::scan::Scan;
use super::super::session::broken_answer;
use super::sending::Sent;
use super::{Caller, Clock, Key, Phase};
use crate::deadline::Deadline;
use crate::record::{Failure, stamp};
use crate::sdp::MediaDirection;

impl Caller {
    /// Puts the other side on hold, or takes the call up again.
    pub(super) fn change(&mut self, now: Instant, key: Key, out: &mut Output) {
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.changing, now);
        call.phase = Phase::Changing;
        call.is_change_rung = false;
        call.prack = 0;
        call.step += 1;
        call.invite = call.cseq + 1;
        self.send_next(now, key, Sent::Change, out);
    }

    /// Somebody works on it.
    pub(super) fn change_proceeds(&mut self, now: Instant, status: u16, key: Key) {
        let longest = self.setup.longest_ringing;
        if let Some(call) = self.calls.get_mut(key) {
            call.is_change_rung |= status > 100;
            call.clock = Clock { act: Deadline::after(now, longest), ..Clock::default() };
        }
    }

    /// The other side agrees.
    pub(super) fn changed(&mut self, now: Instant, scan: &Scan<'_>, key: Key, out: &mut Output) {
        self.agree(now, scan, key);
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.changed, self.arrived);
        let direction = if call.step == 1 { MediaDirection::SendOnly } else { MediaDirection::SendRecv };
        let broken = broken_answer(&self.setup.description, direction, scan.body);
        call.failure = call.failure.or(broken.map(Failure::Rule));
        call.phase = Phase::Holding;
        let invite = call.invite;
        let third = call.scenario.third();
        call.clock = Clock { act: Deadline::after(now, third), ..Clock::default() };
        self.write(key, Sent::Acknowledge(invite), out);
        if third.is_zero() {
            self.due(now, key, out);
        }
    }

    /// It does not: what was agreed upon before goes on, and the call is hung up.
    pub(super) fn change_refused(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: Key,
        out: &mut Output,
    ) {
        let is_challenge = matches!(status, 401 | 407);
        if is_challenge && self.authorize(scan, key) {
            let Some(call) = self.calls.get_mut(key) else { return };
            call.invite = call.cseq;
            return self.send(now, key, Sent::Change, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if status == 491 && call.counts.pending < MOST_PENDING {
            // What was agreed upon before goes on.
            call.counts.pending += 1;
            call.step -= 1;
            if call.stamps.changed == Instant::NEVER {
                // What is measured is the one that is answered.
                call.stamps.changing = Instant::NEVER;
            }
            call.phase = Phase::Holding;
            let pause = pause_after_glare(true, call.token.key, call.counts.pending);
            call.clock = Clock { act: Deadline::after(now, pause), ..Clock::default() };
            return;
        }
        let failure = failure_of(status, call.proof.as_deref());
        call.failure = call.failure.or(Some(failure));
        self.hang_up(now, key, out);
    }
}
