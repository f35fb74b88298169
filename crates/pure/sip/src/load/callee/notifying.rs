//! Subscriptions at the notifier (RFC 6665).

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::super::call::Subscription;
use super::super::messages::copy_of;
use super::super::scan::{Field, Scan};
use super::refreshing::unfolded;
use super::{
    CallTimers, Callee, CalleeAction, CalleePhase, Deadline, Decimal, Failure, Hole, HoleValues, Key,
    LastResponse, LoadOutput, MessageConnection, Moment, ReceivedRequest, Repetition, Timed, Timer, Token,
    record, stamp,
};

/// Duration of a subscription without `Expires`, s: the default of RFC 3856 section 6.4.
const EXPIRES: u32 = 3600;

impl Callee {
    /// Handles a response to a request of this side (see [`Recipient`](super::super::Recipient)).
    pub fn handle_response(
        &mut self,
        moment: impl Into<Moment>,
        scan: &Scan<'_>,
        (token, transaction): (Token, u16),
        out: &mut LoadOutput,
    ) {
        let Moment { arrived, now } = moment.into();
        self.arrived = arrived;
        let key = token.key;
        let is_own = self.is_own(token) && scan.from_tag.and_then(Token::read) == Some(token);
        let call = self
            .calls
            .get_mut(key)
            .filter(|call| is_own && call.call_id.as_bytes() == scan.call_id.unwrap_or_default());
        let (Some(status), Some(call)) = (scan.status(), call) else {
            self.strays += 1;
            return;
        };
        if scan.is_cut() {
            call.failure = call.failure.or(Some(Failure::Rule("RFC 3261 section 18.3")));
            return;
        }
        if call.refresh.as_ref().is_some_and(|refresh| refresh.waits_for(transaction)) {
            self.refreshed(now, scan, status, key, out);
            return self.rest(key.index);
        }
        let again =
            call.refresh.as_ref().map(|refresh| refresh.cseq).filter(|last| *last as u16 == transaction);
        if let Some(cseq) = again.filter(|_| scan.method() == Some(b"INVITE") && status >= 200) {
            call.counts.acknowledgements_again += 1;
            return self.acknowledge_refresh(key, cseq, status < 300, out);
        }
        let Some(subscription) =
            call.subscription.as_mut().filter(|own| own.is_open && own.cseq as u16 == transaction)
        else {
            self.strays += 1;
            return;
        };
        if status < 200 {
            return call.timers.again.slow_down(self.setup.timing.t2);
        }
        subscription.is_open = false;
        let is_due = std::mem::take(&mut subscription.is_due);
        let is_over = subscription.until <= now;
        call.timers.again.stop();
        call.timers.end.stop();
        if status >= 300 {
            call.failure = call.failure.or(Some(Failure::Status(status)));
            return self.over(now, key, out);
        }
        if is_due {
            self.notify(now, key, out);
        } else if is_over {
            return self.over(now, key, out);
        }
        self.rest(key.index);
    }

    /// Handles the first SUBSCRIBE.
    pub(super) fn subscribed(&mut self, request: &ReceivedRequest<'_>, out: &mut LoadOutput) {
        let ReceivedRequest { now, from, scan, .. } = *request;
        let (hash, known) = self.find(scan);
        if let Some(key) = known {
            if let Some(call) = self.calls.get_mut(key) {
                call.counts.repeated += 1;
            }
            return self.grant(now, from, scan, key, out);
        }
        let event = scan.all(Field::Event).next().unwrap_or_default();
        let package = event.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        // A notifier that does not understand the event package refuses with 489 (RFC 6665 section 4.2.1.1).
        if package != b"presence" || scan.contact.is_none() || scan.cseq.is_none() {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.bad_event, out);
        }
        let Some(key) = self.open(from, scan, hash, CalleeAction::Answer) else {
            self.refused += 1;
            return self.at_once(from, scan, |responses| &responses.full, out);
        };
        let subscription = self.subscription(scan, key, package);
        let Some(call) = self.calls.get_mut(key) else { return };
        (call.phase, call.response) = (CalleePhase::Notifying, LastResponse::Ok);
        stamp(&mut call.stamps.answered, now);
        call.has_offered = false;
        call.subscription = Some(Box::new(subscription));
        self.grant(now, from, scan, key, out);
        self.notify(now, key, out);
        self.rest(key.index);
    }

    /// The state of a new subscription.
    fn subscription(&self, scan: &Scan<'_>, key: Key, event: &[u8]) -> Subscription {
        Subscription {
            far: self.far_side(scan, key),
            event: unfolded(&[event]),
            cseq: 0,
            until: Instant::NEVER,
            is_open: false,
            is_due: false,
        }
    }

    /// Handles a later SUBSCRIBE, which renews or terminates the subscription.
    pub(super) fn subscribed_again(&mut self, request: &ReceivedRequest<'_>, out: &mut LoadOutput) {
        let ReceivedRequest { now, from, scan, tag } = *request;
        let key = tag.map(|tag| tag.key);
        let known = key.and_then(|key| Some((key, self.calls.get_mut(key)?)));
        let Some((key, call)) = known.filter(|(_, call)| call.phase == CalleePhase::Notifying) else {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        };
        let number = scan.cseq.map_or(0, |cseq| cseq.number);
        if number < call.cseq {
            call.counts.repeated += 1;
            return self.at_once(from, scan, |responses| &responses.out_of_order, out);
        }
        let is_new = number > call.cseq;
        call.counts.repeated += u16::from(!is_new);
        call.cseq = number;
        self.grant(now, from, scan, key, out);
        // "Upon successfully accepting or refreshing a subscription, notifiers MUST send a NOTIFY request immediately" (RFC
        // 6665 section 4.2.1.2).
        if is_new {
            self.notify(now, key, out);
        }
        self.rest(key.index);
    }

    /// Answers with 200 and grants the requested duration.
    fn grant(&mut self, now: Instant, from: SocketAddr, scan: &Scan<'_>, key: Key, out: &mut LoadOutput) {
        let asked = scan.expires.unwrap_or(EXPIRES);
        if let Some(call) = self.calls.get_mut(key)
            && let Some(subscription) = &mut call.subscription
        {
            subscription.until = now + Duration::from_secs(asked.into());
            call.timers.act = Deadline::after(now, Duration::from_secs(asked.into()));
            if asked == 0 {
                stamp(&mut call.stamps.ending, self.arrived);
                call.timers.act.stop();
            }
        }
        copy_of(scan, from, &self.token(key).digits(), &mut self.lines);
        let asked = Decimal::new(asked.into());
        let values =
            HoleValues::default().with(Hole::Copied, &self.lines).with(Hole::Expires, asked.as_bytes());
        out.messages.write(from, MessageConnection::Back, &self.responses.subscribed, &values);
    }

    /// Sends a NOTIFY, after the response to the previous one if that is pending.
    fn notify(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let timing = self.setup.timing;
        let reliable = self.setup.transport.is_reliable();
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(subscription) = &mut call.subscription else { return };
        if subscription.is_open {
            subscription.is_due = true;
            return;
        }
        subscription.is_open = true;
        subscription.cseq += 1;
        call.timers.again = if reliable { Repetition::default() } else { Repetition::after(now, timing.t1) };
        call.timers.end = Deadline::after(now, timing.patience());
        self.write_notice(now, key, out);
    }

    fn write_notice(&self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get(key) else { return };
        let Some(own) = &call.subscription else { return };
        let left = (own.until.max(now) - now).as_nanos() / 1_000_000_000;
        let state = match left {
            0 => "terminated;reason=timeout".to_owned(),
            left => format!("active;expires={left}"),
        };
        let event = String::from_utf8_lossy(&own.event);
        let lines = format!("Event: {event}\r\nSubscription-State: {state}\r\n");
        let values = HoleValues::default().with(Hole::Copied, lines.as_bytes());
        let which = (own.cseq, own.cseq as u16);
        self.inquire((call, key), &own.far, &self.inquiries.notify, which, values, out);
    }

    /// Handles the expired timers of a subscription.
    pub(super) fn due_to_notify(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let t2 = self.setup.timing.t2;
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.timers.end.has_come(now) {
            call.failure = call.failure.or(Some(Failure::TimedOut(Timer::F)));
            return self.over(now, key, out);
        }
        if call.timers.again.has_come(now, Some(t2)) {
            call.counts.requests_again += 1;
            self.write_notice(now, key, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.timers.act.has_come(now) {
            // The subscriber has not renewed the subscription.
            stamp(&mut call.stamps.ending, now);
            call.failure = call.failure.or(Some(Failure::LeftAlone));
            self.notify(now, key, out);
        }
    }

    /// Ends a subscription, or a call that this side has hung up.
    pub(super) fn over(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let t4 = self.setup.timing.t4;
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.ended, self.arrived);
        (call.phase, call.refresh) = (CalleePhase::Over, None);
        call.timers = CallTimers { end: Deadline::after(now, t4), ..CallTimers::default() };
        out.records.push(record(call));
        self.rest(key.index);
    }
}
