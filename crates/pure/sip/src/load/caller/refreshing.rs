//! The session timer of a call at its caller (RFC 4028): refreshes by the caller, and responses to refreshes by the
//! callee.

use std::net::SocketAddr;

use netrig_core::Instant;

use super::super::authorize::failure_of;
use super::super::glare::{MOST_PENDING, pause_after_glare};
use super::super::messages::copy_of;
use super::super::output::{LoadOutput, MessageConnection};
use super::super::refresh::{CallerRefresh, LATER, Refresh, RefreshAnswer, granted, least_interval};
use super::super::scan::{Field, Scan};
use super::super::session::direction_of;
use super::super::template::{Hole, HoleValues};
use super::sending::CallRequest;
use super::{Caller, CallerCall, CallerPhase, Key, Scenario};
use crate::deadline::{Deadline, Repetition};
use crate::dialog::{Refresher, SessionExpires, SessionTimer, TimerEvent};
use crate::record::Failure;
use crate::sdp::MediaDirection;
use crate::transaction::Timer;

impl Caller {
    /// Starts the session timer that the 2xx to an INVITE or UPDATE of this side sets.
    pub(super) fn agree(&mut self, now: Instant, scan: &Scan<'_>, key: Key) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let before = call.refresh.take();
        let Some(expires) = scan.session_expires.and_then(SessionExpires::read) else { return };
        let takes_update = scan.lists(Field::Allow, b"UPDATE") || before.is_some_and(|own| own.own.by_update);
        let timer = SessionTimer::new(now, expires.interval, expires.refresher != Some(Refresher::Uas));
        call.refresh =
            Some(Box::new(CallerRefresh { own: Refresh::new(timer, takes_update), answered: None }));
    }

    /// `Session-Expires` of a request, as whole lines. Empty without a session timer.
    pub(super) fn session_of(&self, call: &CallerCall, sent: CallRequest) -> String {
        match (sent, &call.refresh) {
            (CallRequest::Invite, _) if call.interval > self.setup.options.session_interval() => {
                format!("Session-Expires: {0}\r\nMin-SE: {0}\r\n", call.interval)
            }
            (CallRequest::Invite, _) if call.interval > 0 => {
                format!("Session-Expires: {}\r\n", call.interval)
            }
            (CallRequest::Change | CallRequest::Refresh, Some(refresh)) => {
                format!("Session-Expires: {}\r\n", refresh.own.timer.expires())
            }
            _ => String::new(),
        }
    }

    /// Takes the least session interval of a 422 for the next INVITE. Returns false if this interval is not longer than
    /// the refused one.
    pub(super) fn lengthen(&mut self, scan: &Scan<'_>, key: Key) -> bool {
        let Some(call) = self.calls.get_mut(key).filter(|call| call.interval > 0) else { return false };
        let Some(least) = least_interval(scan).filter(|least| *least > call.interval) else { return false };
        call.interval = least;
        call.cseq += 1;
        true
    }

    /// Handles the session timer. Returns whether the call is hung up.
    pub(super) fn refresh_due(&mut self, now: Instant, key: Key, out: &mut LoadOutput) -> bool {
        let t2 = self.setup.timing.t2;
        let Some(call) = self.calls.get_mut(key) else { return false };
        let is_free = call.phase == CallerPhase::Holding && call.prack == 0;
        let Some(CallerRefresh { own, answered }) = call.refresh.as_deref_mut() else { return false };
        let timer = if own.by_update { Timer::F } else { Timer::B };
        let failure = if own.end.has_come(now) {
            Some(Failure::TimedOut(timer))
        } else if answered.as_mut().is_some_and(|answered| answered.end.has_come(now)) {
            Some(Failure::TimedOut(Timer::H))
        } else {
            match own.timer.handle_timeout(now) {
                Some(TimerEvent::Expired) => Some(Failure::Unrefreshed),
                Some(TimerEvent::Refresh) if is_free && own.cseq == 0 => {
                    self.refresh(now, key, out);
                    return false;
                }
                Some(TimerEvent::Refresh) => {
                    own.timer.postpone(now, LATER);
                    None
                }
                None => None,
            }
        };
        if let Some(failure) = failure {
            call.failure = call.failure.or(Some(failure));
            self.hang_up(now, key, out);
            return true;
        }
        if let Some(answered) = answered
            && answered.again.has_come(now, Some(t2))
        {
            call.counts.responses_again += 1;
            out.messages.push(answered.to, MessageConnection::Back, &answered.message);
        }
        if own.again.has_come(now, own.by_update.then_some(t2)) {
            call.counts.requests_again += 1;
            self.write(key, CallRequest::Refresh, out);
        }
        false
    }

    /// Refreshes the session: by UPDATE if the other side supports it, else by INVITE with the same description.
    fn refresh(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.cseq += 1;
        call.counts.refreshes_sent += 1;
        call.proof = call.proof.take().filter(|proof| proof.goes_on());
        self.ask_refresh(now, key, out);
    }

    /// Sends the refresh with the current `CSeq` of the call.
    pub(super) fn ask_refresh(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let patience = self.setup.timing.patience();
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(refresh) = &mut call.refresh else { return };
        refresh.own.ask(call.cseq, self.setup.first_repetition(now, false), Deadline::after(now, patience));
        self.prove(key, CallRequest::Refresh);
        let is_over_tcp = self.write(key, CallRequest::Refresh, out);
        let refresh = self.calls.get_mut(key).and_then(|call| call.refresh.as_mut());
        if let Some(refresh) = refresh.filter(|_| is_over_tcp) {
            refresh.own.has_gone_over_tcp();
        }
    }

    /// Handles a response to a refresh of this side.
    pub(super) fn refreshed(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        (status, cseq): (u16, u32),
        key: Key,
        out: &mut LoadOutput,
    ) {
        let (t2, longest) = (self.setup.timing.t2, self.setup.longest_ringing);
        let Some(call) = self.calls.get_mut(key) else { return };
        let server = call.server;
        let Some(own) =
            call.refresh.as_mut().map(|refresh| &mut refresh.own).filter(|own| own.cseq == cseq && cseq != 0)
        else {
            return self.strays += 1;
        };
        if status < 200 {
            if own.by_update {
                own.again.slow_down(t2);
            } else {
                own.again.stop();
                own.end = Deadline::after(now, longest);
            }
            return;
        }
        own.settle();
        let (by_update, interval) = (own.by_update, own.timer.interval());
        match status {
            200..300 if by_update => {}
            200..300 => {
                self.write(key, CallRequest::Acknowledge(cseq), out);
            }
            _ if by_update => {}
            _ => self.refuse(scan, (cseq, server), key, out),
        }
        match status {
            200..300 => self.agree(now, scan, key),
            401 | 407 if self.authorize(scan, key) => self.ask_refresh(now, key, out),
            _ => self.refresh_refused(now, scan, (status, interval), key, out),
        }
    }

    /// Handles a refused refresh: sends it again if that may help (RFC 4028 section 10), else hangs up.
    fn refresh_refused(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        (status, interval): (u16, u32),
        key: Key,
        out: &mut LoadOutput,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(own) = call.refresh.as_mut().map(|refresh| &mut refresh.own) else { return };
        match status {
            422 if least_interval(scan).is_some_and(|least| least > interval) => {
                own.timer.lengthen(least_interval(scan).unwrap_or(interval));
                self.refresh(now, key, out);
            }
            405 | 501 if own.by_update => {
                own.by_update = false;
                self.refresh(now, key, out);
            }
            491 if call.counts.pending < MOST_PENDING => {
                call.counts.pending += 1;
                own.timer.postpone(now, pause_after_glare(true, call.token.key, call.counts.pending));
            }
            _ => {
                let failure = failure_of(status, call.proof.as_deref());
                call.failure = call.failure.or(Some(failure));
                self.hang_up(now, key, out);
            }
        }
    }

    /// Whether a request of the other side within the dialog may be a refresh that this side must answer.
    pub(super) fn is_refresh(&self, scan: &Scan<'_>, method: &[u8], key: Key) -> bool {
        let Some(call) = self.calls.get(key) else { return false };
        let is_subscriber = matches!(call.scenario, Scenario::Subscribe { .. });
        match (method, call.phase) {
            _ if is_subscriber => false,
            (b"UPDATE", CallerPhase::Holding | CallerPhase::Changing) => scan.body.is_empty(),
            (b"INVITE", CallerPhase::Holding) => {
                let is_inviting = call.refresh.as_ref().is_some_and(|refresh| refresh.own.is_inviting());
                scan.session_expires.is_some() && !is_inviting
            }
            _ => false,
        }
    }

    /// Answers a refresh of the other side, or takes the ACK of the response.
    pub(super) fn answer_refresh(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (scan, method): (&Scan<'_>, &[u8]),
        key: Key,
        out: &mut LoadOutput,
    ) {
        let number = scan.cseq.map_or(0, |cseq| cseq.number);
        if method == b"ACK" {
            return self.acknowledged(number, key);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        let before = call.refresh.as_mut().and_then(|refresh| refresh.answered.as_mut());
        if let Some(answered) = before.filter(|answered| answered.cseq == number && method == b"INVITE") {
            call.counts.repeated += 1;
            return out.messages.push(from, MessageConnection::Back, &answered.message);
        }
        copy_of(scan, from, b"", &mut self.lines);
        let values = HoleValues::default().with(Hole::Copied, &self.lines);
        let Ok(grant) = granted(scan) else {
            return out.messages.write(from, MessageConnection::Back, &self.responses.too_small, &values);
        };
        let lines = grant.map(|grant| grant.lines()).unwrap_or_default();
        let values = values.with(Hole::Session, lines.as_bytes()).with(Hole::Body, b"2");
        let template = match (method, direction_of(scan.body).reversed()) {
            (b"UPDATE", _) => &self.responses.updated,
            (_, MediaDirection::SendRecv) => &self.responses.accepted,
            (_, direction) => &self.responses.changed[direction as usize],
        };
        let mut message = Vec::new();
        template.write(&values, &mut message);
        out.messages.push(from, MessageConnection::Back, &message);
        let timing = self.setup.timing;
        let takes_update = scan.lists(Field::Allow, b"UPDATE") || {
            let before = call.refresh.as_ref();
            before.is_some_and(|refresh| refresh.own.by_update)
        };
        call.counts.refreshes_answered += u16::from(grant.is_some());
        call.refresh = grant.map(|grant| {
            let timer = SessionTimer::new(now, grant.interval, grant.refresher == Refresher::Uas);
            let answered = (method == b"INVITE").then(|| RefreshAnswer {
                cseq: number,
                to: from,
                message: message.into(),
                again: Repetition::after(now, timing.t1),
                end: Deadline::after(now, timing.patience()),
            });
            Box::new(CallerRefresh { own: Refresh::new(timer, takes_update), answered })
        });
    }

    /// Takes the ACK of a 2xx of this side.
    fn acknowledged(&mut self, number: u32, key: Key) {
        if let Some(refresh) = self.calls.get_mut(key).and_then(|call| call.refresh.as_mut()) {
            refresh.answered = refresh.answered.take().filter(|answered| answered.cseq != number);
        }
    }
}
