//! The session timer of a call at its callee (RFC 4028), and requests of this side within its dialog.

use netrig_core::Instant;

use super::super::glare::pause_after_glare;
use super::super::messages::{CalleeRequests, copy_of};
use super::super::refresh::{CalleeRefresh, FarSide, LATER, Refresh, granted, least_interval};
use super::super::routes::put_routes;
use super::super::scan::{Field, Scan};
use super::super::template::Template;
use super::super::text::put_unfolded;
use super::{
    CallTimers, Callee, CalleeCall, CalleePhase, Deadline, Decimal, Failure, Hole, HoleValues, Key,
    LoadOutput, MessageConnection, ReceivedRequest, Timed, Timer, stamp,
};
use crate::dialog::{Refresher, SessionTimer, TimerEvent, TimerGrant};
use crate::record::acknowledgement;

/// Concatenated parts of a message, with folds as spaces.
pub(super) fn unfolded(parts: &[&[u8]]) -> Box<[u8]> {
    let mut out = Vec::new();
    parts.iter().for_each(|part| put_unfolded(part, &mut out));
    out.into()
}

impl CalleeRefresh {
    /// Whether an INVITE of this side is pending.
    pub(super) fn is_inviting(&self) -> bool {
        self.own.as_ref().is_some_and(Refresh::is_inviting)
    }

    /// Whether this transaction is pending.
    pub(super) fn waits_for(&self, transaction: u16) -> bool {
        self.own.as_ref().is_some_and(|own| own.cseq != 0 && own.cseq as u16 == transaction)
    }
}

impl CalleeCall {
    /// Starts the session timer when the 2xx is sent.
    pub(super) fn start_timer(&mut self, now: Instant) {
        if let Some(refresh) = &mut self.refresh {
            let TimerGrant { interval, refresher, .. } = refresh.grant;
            let timer = SessionTimer::new(now, interval, refresher == Refresher::Uas);
            refresh.own = Some(Refresh::new(timer, refresh.takes_update));
        }
    }
}

impl Callee {
    /// The other side of the dialog that a request creates. "The route set MUST be set to the list of URIs in the
    /// Record-Route header field from the request, taken in order" (RFC 3261 section 12.1.1).
    pub(super) fn far_side(&self, scan: &Scan<'_>, key: Key) -> FarSide {
        let contact = scan.contact.unwrap_or_default();
        let mut lines = Vec::new();
        let route = put_routes(scan.record_routes().map(|route| route.whole), contact, &mut lines);
        let to = scan.to.unwrap_or_default();
        let tag = self.token(key).digits();
        let more: [&[u8]; 3] = [to, b";tag=", &tag];
        FarSide {
            remote: unfolded(&[scan.from.unwrap_or_default()]),
            local: unfolded(if scan.to_tag.is_none() { &more } else { &more[..1] }),
            target: unfolded(&[route.target]),
            routes: lines.into(),
            next_hop: self.setup.next_hop(route.next, None, self.setup.server),
        }
    }

    /// Keeps the session timer that the 2xx to an INVITE grants.
    pub(super) fn grant_timer(&mut self, scan: &Scan<'_>, grant: Option<TimerGrant>, key: Key) {
        let refresh = grant.map(|grant| {
            let takes_update = scan.lists(Field::Allow, b"UPDATE");
            let before = self.calls.get_mut(key).and_then(|call| call.refresh.take());
            match before {
                Some(before) => Box::new(CalleeRefresh { grant, own: None, ..*before }),
                None => Box::new(CalleeRefresh {
                    grant,
                    own: None,
                    takes_update,
                    far: self.far_side(scan, key),
                    cseq: 0,
                    is_ending: false,
                }),
            }
        });
        if let Some(call) = self.calls.get_mut(key) {
            call.refresh = refresh;
        }
    }

    /// Handles an UPDATE without an offer (RFC 3311 section 5.2). With `Session-Expires` it refreshes the session.
    pub(super) fn updated(&mut self, request: &ReceivedRequest<'_>, out: &mut LoadOutput) {
        let ReceivedRequest { now, from, scan, tag } = *request;
        let is_talk =
            |call: &CalleeCall| matches!(call.phase, CalleePhase::Accepted | CalleePhase::Confirmed);
        let key = tag.map(|tag| tag.key);
        let known = key.and_then(|key| Some((key, self.calls.get(key).filter(|call| is_talk(call))?)));
        let Some((key, call)) = known else {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        };
        if scan.cseq.is_some_and(|cseq| cseq.number < call.cseq) {
            return self.at_once(from, scan, |responses| &responses.out_of_order, out);
        }
        let Ok(grant) = granted(scan) else {
            return self.at_once(from, scan, |responses| &responses.too_small, out);
        };
        let lines = grant.map(|grant| grant.lines()).unwrap_or_default();
        copy_of(scan, from, b"", &mut self.lines);
        let values =
            HoleValues::default().with(Hole::Copied, &self.lines).with(Hole::Session, lines.as_bytes());
        out.messages.write(from, MessageConnection::Back, &self.responses.updated, &values);
        let is_refresh = grant.is_some();
        self.grant_timer(scan, grant, key);
        if let Some(call) = self.calls.get_mut(key) {
            call.counts.refreshes_answered += u16::from(is_refresh);
            call.start_timer(now);
        }
        if !is_refresh {
            out.unrequested(b"UPDATE", 200);
        }
        self.rest(key.index);
    }

    /// Handles the session timer. Returns whether this side hangs up. If so, no other timer matters.
    pub(super) fn refresh_due(&mut self, now: Instant, key: Key, out: &mut LoadOutput) -> bool {
        let t2 = self.setup.timing.t2;
        let Some(call) = self.calls.get_mut(key) else { return false };
        let is_free = call.phase == CalleePhase::Confirmed;
        let Some(refresh) = call.refresh.as_deref_mut() else { return false };
        let is_ending = refresh.is_ending;
        let Some(own) = &mut refresh.own else { return false };
        if own.end.has_come(now) {
            let timer = if own.by_update || is_ending { Timer::F } else { Timer::B };
            call.failure = call.failure.or(Some(Failure::TimedOut(timer)));
            if is_ending {
                self.over(now, key, out);
            } else {
                self.end_session(now, key, out);
            }
            return true;
        }
        if own.again.has_come(now, (own.by_update || is_ending).then_some(t2)) {
            call.counts.requests_again += 1;
            self.write_refresh(key, out);
            return is_ending;
        }
        match own.timer.handle_timeout(now) {
            _ if is_ending => return true,
            Some(TimerEvent::Expired) => {
                call.failure = call.failure.or(Some(Failure::Unrefreshed));
                self.end_session(now, key, out);
                return true;
            }
            Some(TimerEvent::Refresh) if is_free && own.cseq == 0 => self.ask_refresh(now, key, out),
            Some(TimerEvent::Refresh) => own.timer.postpone(now, LATER),
            None => {}
        }
        false
    }

    /// Refreshes the session: by UPDATE if the other side supports it, else by INVITE with the same description.
    fn ask_refresh(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        if let Some(call) = self.calls.get_mut(key) {
            call.counts.refreshes_sent += 1;
        }
        self.begin_request(now, key, out);
    }

    /// Hangs up, because the session has expired or cannot be refreshed.
    fn end_session(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.ending, now);
        call.timers = CallTimers::default();
        if let Some(refresh) = &mut call.refresh {
            refresh.is_ending = true;
        }
        self.begin_request(now, key, out);
    }

    fn begin_request(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let timing = self.setup.timing;
        let again = self.setup.first_repetition(now, false);
        let Some(refresh) = self.calls.get_mut(key).and_then(|call| call.refresh.as_mut()) else { return };
        refresh.cseq += 1;
        if let Some(own) = &mut refresh.own {
            own.ask(refresh.cseq, again, Deadline::after(now, timing.patience()));
        }
        self.write_refresh(key, out);
    }

    /// Writes the pending request.
    fn write_refresh(&self, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get(key) else { return };
        let Some((refresh, own)) = call.refresh.as_ref().and_then(|all| Some((all, all.own.as_ref()?)))
        else {
            return;
        };
        let CalleeRequests { update, refresh: invite, bye, .. } = &self.inquiries;
        let template = match (refresh.is_ending, own.by_update) {
            (true, _) => bye,
            (false, true) => update,
            (false, false) => invite,
        };
        let session = format!("Session-Expires: {}\r\n", own.timer.expires());
        let values = HoleValues::default().with(Hole::Session, session.as_bytes());
        self.inquire((call, key), &refresh.far, template, (own.cseq, own.cseq as u16), values, out);
    }

    /// Acknowledges the final response to an INVITE of this side. The ACK of a 2xx is a separate transaction.
    pub(super) fn acknowledge_refresh(&self, key: Key, cseq: u32, is_accepted: bool, out: &mut LoadOutput) {
        let Some(call) = self.calls.get(key) else { return };
        let Some(refresh) = &call.refresh else { return };
        let transaction = if is_accepted { acknowledgement(cseq, 0) } else { cseq as u16 };
        let template = &self.inquiries.acknowledge;
        self.inquire((call, key), &refresh.far, template, (cseq, transaction), HoleValues::default(), out);
    }

    /// Writes a request within the dialog.
    pub(super) fn inquire(
        &self,
        (call, key): (&CalleeCall, Key),
        far: &FarSide,
        template: &Template,
        (cseq, transaction): (u32, u16),
        values: HoleValues<'_>,
        out: &mut LoadOutput,
    ) {
        let token = self.token(key);
        let (branch, cseq) = (token.branch(transaction), Decimal::new(cseq.into()));
        let values = values
            .with(Hole::Target, &far.target)
            .with(Hole::Branch, &branch)
            .with(Hole::Routes, &far.routes)
            .with(Hole::Local, &far.local)
            .with(Hole::Remote, &far.remote)
            .with(Hole::CallId, call.call_id.as_bytes())
            .with(Hole::CSeq, cseq.as_bytes());
        out.messages.write(
            far.next_hop,
            MessageConnection::Of { user: u32::MAX, attempt: token },
            template,
            &values,
        );
    }

    /// Handles a response to a refresh or to the BYE of this side.
    pub(super) fn refreshed(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: Key,
        out: &mut LoadOutput,
    ) {
        let (t2, longest) = (self.setup.timing.t2, self.setup.longest_ringing);
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(refresh) = call.refresh.as_deref_mut() else { return };
        let is_ending = refresh.is_ending;
        let Some(own) = &mut refresh.own else { return };
        if status < 200 {
            if own.by_update || is_ending {
                own.again.slow_down(t2);
            } else {
                own.again.stop();
                own.end = Deadline::after(now, longest);
            }
            return;
        }
        if is_ending {
            return self.over(now, key, out);
        }
        let (cseq, by_update) = (own.cseq, own.by_update);
        own.settle();
        if status < 300 {
            let agreed = scan.session_expires.and_then(crate::dialog::SessionExpires::read);
            let takes_update = scan.lists(Field::Allow, b"UPDATE") || by_update;
            let timer =
                agreed.map(|own| SessionTimer::new(now, own.interval, own.refresher != Some(Refresher::Uas)));
            refresh.own = timer.map(|timer| Refresh::new(timer, takes_update));
        } else {
            self.refresh_refused(now, scan, status, key, out);
        }
        if !by_update {
            self.acknowledge_refresh(key, cseq, status < 300, out);
        }
    }

    fn refresh_refused(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: Key,
        out: &mut LoadOutput,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(own) = call.refresh.as_mut().and_then(|refresh| refresh.own.as_mut()) else { return };
        match status {
            422 if least_interval(scan).is_some_and(|least| least > own.timer.interval()) => {
                own.timer.lengthen(least_interval(scan).unwrap_or_default());
                self.ask_refresh(now, key, out);
            }
            405 | 501 if own.by_update => {
                own.by_update = false;
                self.ask_refresh(now, key, out);
            }
            // Retried until the session expires.
            491 => {
                call.counts.pending = call.counts.pending.saturating_add(1);
                own.timer.postpone(now, pause_after_glare(false, key, call.counts.pending));
            }
            _ => {
                call.failure = call.failure.or(Some(Failure::Status(status)));
                self.end_session(now, key, out);
            }
        }
    }
}
