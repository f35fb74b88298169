//! Requests within the dialog of a callee.

use netrig_core::Instant;

use super::super::messages::copy_of;
use super::super::refresh::granted;
use super::super::scan::Field;
use super::super::session::{DescribedSession, direction_of};
use super::{
    CallTimers, Callee, CalleeCall, CalleePhase, Deadline, Failure, InlineText, Key, LastResponse,
    LoadOutput, ReceivedRequest, Timed, Token, decimal, record, stamp,
};

impl Callee {
    fn of_tag(&mut self, tag: Option<Token>) -> Option<(Key, &mut CalleeCall)> {
        let key = tag?.key;
        Some((key, self.calls.get_mut(key)?))
    }

    pub(super) fn acknowledged(&mut self, request: &ReceivedRequest<'_>, out: &mut LoadOutput) {
        let ReceivedRequest { now, scan, tag, .. } = *request;
        let (t4, longest, arrived) = (self.setup.timing.t4, self.setup.longest_call, self.arrived);
        let Some((key, call)) = self.of_tag(tag) else {
            self.strays += 1;
            return;
        };
        let is_last = scan.cseq.is_some_and(|cseq| cseq.number == call.cseq);
        stamp(&mut call.stamps.acknowledged, arrived);
        match call.phase {
            CalleePhase::Accepted if is_last => {
                call.phase = CalleePhase::Confirmed;
                // "the answer MUST be in the ACK" if the offer was in the 2xx (RFC 3261 section 13.2.1).
                if call.has_offered && scan.body.is_empty() {
                    call.failure = call.failure.or(Some(Failure::Rule("RFC 3261 section 13.2.1")));
                }
                call.has_offered = false;
                call.timers = CallTimers { end: Deadline::after(now, longest), ..CallTimers::default() };
            }
            CalleePhase::Refusing => {
                call.phase = CalleePhase::Over;
                // Timer I.
                call.timers = CallTimers { end: Deadline::after(now, t4), ..CallTimers::default() };
                if call.stamps.ending != Instant::NEVER {
                    stamp(&mut call.stamps.ended, arrived);
                }
                out.records.push(record(call));
            }
            _ => call.counts.repeated += 1,
        }
        self.rest(key.index);
    }

    /// Handles a PRACK (RFC 3262 section 3).
    pub(super) fn pracked(&mut self, request: &ReceivedRequest<'_>, out: &mut LoadOutput) {
        let ReceivedRequest { now, from, scan, tag } = *request;
        let known = self.of_tag(tag).map(|(key, call)| (key, call.rseq, call.cseq));
        let said = scan.all(Field::RAck).next().unwrap_or_default();
        let words: Vec<_> =
            said.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).collect();
        let meant = |rseq: u32, cseq: u32| match words[..] {
            [number, of, b"INVITE"] => decimal(number) == Some(rseq) && decimal(of) == Some(cseq),
            _ => false,
        };
        let Some((key, ..)) = known.filter(|(_, rseq, cseq)| meant(*rseq, *cseq)) else {
            // "If a PRACK request is received by the UA core that does not match any unacknowledged reliable provisional
            // response, the UAS MUST respond to the PRACK with a 481 response."
            self.strays += u64::from(known.is_none());
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        };
        self.at_once(from, scan, |responses| &responses.ok, out);
        let Some(call) = self.calls.get_mut(key) else { return };
        if !call.is_unacknowledged {
            // A retransmission: the response was lost.
            call.counts.repeated += 1;
            return;
        }
        call.is_unacknowledged = false;
        if call.phase == CalleePhase::Ringing {
            call.timers.again.stop();
            call.timers.end.stop();
            // The next step of the call may have become due while the PRACK was awaited.
            if !call.timers.act.is_running() {
                call.timers.act = Deadline::after(now, netrig_core::Duration::ZERO);
                self.due(now, key, out);
            }
        }
        self.rest(key.index);
    }

    /// Handles an INVITE within the dialog (RFC 3261 section 14.2).
    pub(super) fn invited_within(&mut self, request: &ReceivedRequest<'_>, out: &mut LoadOutput) {
        let ReceivedRequest { now, from, scan, tag } = *request;
        let arrived = self.arrived;
        let has_description = !self.setup.described_answer().is_empty();
        let Some((key, call)) = self.of_tag(tag) else {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        };
        let number = scan.cseq.map_or(0, |cseq| cseq.number);
        if !matches!(call.phase, CalleePhase::Accepted | CalleePhase::Confirmed) {
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        }
        if number == call.cseq {
            // A retransmission. The 2xx is retransmitted by its timer.
            call.counts.repeated += 1;
            return;
        }
        if number < call.cseq {
            // "If the remote sequence number was not empty, but the sequence number of the request is lower than the remote
            // sequence number, the request is out of order and MUST be rejected with a 500" (RFC 3261 section 12.2.2).
            call.counts.repeated += 1;
            return self.at_once(from, scan, |responses| &responses.out_of_order, out);
        }
        if call.refresh.as_ref().is_some_and(|refresh| refresh.is_inviting()) {
            // RFC 3261 section 14.2.
            return self.at_once(from, scan, |responses| &responses.pending, out);
        }
        let Ok(grant) = granted(scan) else {
            return self.at_once(from, scan, |responses| &responses.too_small, out);
        };
        let token = Token { key, ..tag.unwrap_or(call.token) };
        copy_of(scan, from, &token.digits(), &mut self.lines);
        let Some(call) = self.calls.get_mut(key) else { return };
        (call.cseq, call.from) = (number, from);
        call.copied = InlineText::of_lines(&self.lines);
        stamp(&mut call.stamps.changing, arrived);
        call.has_offered = scan.body.is_empty() && has_description;
        if has_description {
            let direction = direction_of(scan.body).reversed();
            call.session = DescribedSession { changes: call.session.changes.saturating_add(1), direction };
        }
        call.counts.refreshes_answered += u16::from(grant.is_some());
        self.grant_timer(scan, grant, key);
        self.respond(now, key, LastResponse::Ok, out);
        self.rest(key.index);
    }

    pub(super) fn hung_up(&mut self, request: &ReceivedRequest<'_>, out: &mut LoadOutput) {
        let ReceivedRequest { now, from, scan, tag } = *request;
        let key = tag.map(|tag| tag.key);
        let is_known = key.is_some_and(|key| self.calls.get(key).is_some() || self.calls.is_past(key));
        if !is_known {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        }
        self.at_once(from, scan, |responses| &responses.ok, out);
        let t4 = self.setup.timing.t4;
        let Some((key, call)) = key.and_then(|key| Some((key, self.calls.get_mut(key)?))) else { return };
        if call.phase == CalleePhase::Ringing {
            // "The UAS MUST still respond to any pending requests received for that dialog. It is RECOMMENDED that a 487
            // (Request Terminated) response be generated to those pending requests" (RFC 3261 section 15.1.2).
            stamp(&mut call.stamps.ending, self.arrived);
            self.respond(now, key, LastResponse::Terminated, out);
            return self.rest(key.index);
        }
        if matches!(call.phase, CalleePhase::Over | CalleePhase::Refusing) {
            call.counts.repeated += 1;
            return;
        }
        stamp(&mut call.stamps.ending, self.arrived);
        stamp(&mut call.stamps.ended, now);
        (call.phase, call.refresh) = (CalleePhase::Over, None);
        // Messages from before the end may still be in the network.
        call.timers = CallTimers { end: Deadline::after(now, t4), ..CallTimers::default() };
        call.copied = InlineText::default();
        out.records.push(record(call));
        self.rest(key.index);
    }
}
