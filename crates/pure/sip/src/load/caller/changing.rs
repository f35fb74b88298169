//! Hold and resumption of a call by an INVITE within the dialog (RFC 3261 section 14.1).

use netrig_core::Instant;

use super::super::authorize::failure_of;
use super::super::glare::{MOST_PENDING, pause_after_glare};
use super::super::output::LoadOutput;
use super::super::scan::Scan;
use super::super::session::broken_answer;
use super::sending::CallRequest;
use super::{CallTimers, Caller, CallerPhase, Key};
use crate::deadline::Deadline;
use crate::record::{Failure, stamp};
use crate::sdp::MediaDirection;

impl Caller {
    /// Puts the other side on hold, or resumes the call.
    pub(super) fn change(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.changing, now);
        call.phase = CallerPhase::Changing;
        call.is_change_rung = false;
        call.prack = 0;
        call.step += 1;
        call.invite = call.cseq + 1;
        self.send_next(now, key, CallRequest::Change, out);
    }

    /// Handles a provisional response to the INVITE.
    pub(super) fn change_proceeds(&mut self, now: Instant, status: u16, key: Key) {
        let longest = self.setup.longest_ringing;
        if let Some(call) = self.calls.get_mut(key) {
            call.is_change_rung |= status > 100;
            call.timers = CallTimers { act: Deadline::after(now, longest), ..CallTimers::default() };
        }
    }

    /// Handles the first 2xx to the INVITE.
    pub(super) fn changed(&mut self, now: Instant, scan: &Scan<'_>, key: Key, out: &mut LoadOutput) {
        self.agree(now, scan, key);
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.changed, self.arrived);
        let direction = if call.step == 1 { MediaDirection::SendOnly } else { MediaDirection::SendRecv };
        let broken = broken_answer(&self.setup.description, direction, scan.body);
        call.failure = call.failure.or(broken.map(Failure::Rule));
        call.phase = CallerPhase::Holding;
        let invite = call.invite;
        let third = call.scenario.third();
        call.timers = CallTimers { act: Deadline::after(now, third), ..CallTimers::default() };
        self.write(key, CallRequest::Acknowledge(invite), out);
        if third.is_zero() {
            self.due(now, key, out);
        }
    }

    /// Handles a refusal of the INVITE: the session stays as it was, and the call is hung up unless the INVITE is
    /// sent again.
    pub(super) fn change_refused(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: Key,
        out: &mut LoadOutput,
    ) {
        let is_challenge = matches!(status, 401 | 407);
        if is_challenge && self.authorize(scan, key) {
            let Some(call) = self.calls.get_mut(key) else { return };
            call.invite = call.cseq;
            return self.send(now, key, CallRequest::Change, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if status == 491 && call.counts.pending < MOST_PENDING {
            // The session stays as it was, and the INVITE is sent again.
            call.counts.pending += 1;
            call.step -= 1;
            if call.stamps.changed == Instant::NEVER {
                // The delay is measured for the INVITE that is answered with 2xx.
                call.stamps.changing = Instant::NEVER;
            }
            call.phase = CallerPhase::Holding;
            let pause = pause_after_glare(true, call.token.key, call.counts.pending);
            call.timers = CallTimers { act: Deadline::after(now, pause), ..CallTimers::default() };
            return;
        }
        let failure = failure_of(status, call.proof.as_deref());
        call.failure = call.failure.or(Some(failure));
        self.hang_up(now, key, out);
    }
}
