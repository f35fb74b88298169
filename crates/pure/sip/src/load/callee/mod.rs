//! Callees: the server side of the scenarios, for any called user.
//!
//! `dialog` handles requests within a dialog, `refreshing` handles session timers, and `notifying` handles
//! subscriptions.

mod dialog;
mod notifying;
mod refreshing;

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::call::{CallTimers, CalleeCall, CalleePhase, LastResponse};
use super::messages::{CalleeRequests, Responses, copy_of};
use super::moment::Moment;
use super::output::{LoadOutput, MessageConnection, names_tcp};
use super::refresh::granted;
use super::scan::{Scan, Start};
use super::session::DescribedSession;
use super::setup::Setup;
use super::template::{Hole, HoleValues, Template, TemplateError};
use super::text::InlineText;
use super::timed::Timed;
use crate::deadline::{Deadline, Repetition};
use crate::digits::{Decimal, decimal};
use crate::record::{
    AttemptCounts, CalleeAction, Failure, Key, Owner, Record, Side, Stamps, Token, What, stamp,
};
use crate::settings::UserOptions;
use crate::slab::Slab;
use crate::slab_index::SlabIndex;
use crate::transaction::Timer;
use crate::wheel::Wheel;

/// Key in the tag of responses that belong to no call: to OPTIONS, MESSAGE and requests that are refused at once. It
/// is always the same, so that a retransmission gets the same response.
const NOBODY: Key = Key { index: u32::MAX, generation: u32::MAX };

/// "the UAS MUST send a non-100 provisional response at every minute" (RFC 3261 section 13.3.1.1), so that no proxy
/// cancels the call.
const MINUTE: Duration = Duration::from_secs(60);

/// Suffix of the user name in the second contact of a user.
const SECOND: &[u8] = b"~2";

/// How many of the called contacts answer.
const fn answering_contacts(action: CalleeAction) -> u32 {
    match action {
        CalleeAction::Both => 2,
        _ => 1,
    }
}

/// The calls of the callees of one shard. It is driven by [`Callee::handle_request`], [`Callee::handle_response`] and
/// [`Callee::handle_timeout`].
///
/// A call is found by its own tag. An INVITE and a CANCEL lack this tag, so their call is found by the Call-ID and the
/// called user: each contact of a user is a separate call. A call takes memory from its INVITE until T4 after its end.
/// Beyond [`Setup::calls`] calls, an INVITE is refused with 503.
#[derive(Debug)]
pub struct Callee {
    setup: Setup,
    responses: Responses,
    inquiries: CalleeRequests,
    /// Behavior for calls from outside this load.
    foreign: CalleeAction,
    /// Time from the INVITE to its 200.
    ringing: Duration,
    calls: Slab<CalleeCall>,
    table: SlabIndex,
    wheel: Wheel,
    lines: Vec<u8>,
    /// Time of arrival of the message that is handled.
    arrived: Instant,
    refused: u64,
    strays: u64,
}

/// A request that a callee has received.
#[derive(Clone, Copy)]
struct ReceivedRequest<'a> {
    now: Instant,
    /// Where its response goes.
    from: SocketAddr,
    scan: &'a Scan<'a>,
    /// The token in the tag of To, if it is one of this callee.
    tag: Option<Token>,
}

impl Callee {
    /// Callees without calls. `ringing` is the time from INVITE to 200. If it is zero, no 180 is sent. `foreign` is the
    /// action for calls of callers outside this load. `secret` must be random: it protects the table of calls against
    /// chosen Call-IDs.
    ///
    /// # Errors
    /// If the domain of the setup is not valid in a URI.
    pub fn new(
        setup: Setup,
        foreign: CalleeAction,
        ringing: Duration,
        secret: [u8; 16],
    ) -> Result<Self, TemplateError> {
        Ok(Self {
            responses: Responses::new(&setup)?,
            inquiries: CalleeRequests::new(&setup)?,
            foreign,
            ringing,
            calls: Slab::new(setup.calls),
            table: SlabIndex::new(secret),
            wheel: Wheel::new(setup.resolution),
            setup,
            lines: Vec::new(),
            arrived: Instant::ZERO,
            refused: 0,
            strays: 0,
        })
    }

    /// Number of calls, including those that ended less than T4 ago.
    pub const fn len(&self) -> u32 {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Number of calls refused because [`Setup::calls`] calls were active, a limit of the tester.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Number of received messages that belong to no call.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// The latest time at which to call [`Callee::handle_timeout`].
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Handles all timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut LoadOutput) {
        self.arrived = now;
        self.do_all_due(now, out);
    }

    /// Handles a request from `from`, to which its responses go.
    pub fn handle_request(
        &mut self,
        moment: impl Into<Moment>,
        from: SocketAddr,
        scan: &Scan<'_>,
        out: &mut LoadOutput,
    ) {
        let Moment { arrived, now } = moment.into();
        self.arrived = arrived;
        let Some(Start::Request { method, .. }) = scan.start else { return };
        let tag = scan.to_tag.and_then(Token::read).filter(|token| self.is_own(*token));
        let request = ReceivedRequest { now, from, scan, tag };
        match (method, scan.to_tag) {
            (b"INVITE", None) => self.invited(now, from, scan, out),
            (b"INVITE", Some(_)) => self.invited_within(&request, out),
            (b"CANCEL", None) => self.cancelled(now, from, scan, out),
            (b"ACK", _) => self.acknowledged(&request, out),
            (b"PRACK", Some(_)) => self.pracked(&request, out),
            (b"UPDATE", Some(_)) if scan.body.is_empty() => self.updated(&request, out),
            (b"BYE", _) => self.hung_up(&request, out),
            (b"SUBSCRIBE", None) => self.subscribed(&request, out),
            (b"SUBSCRIBE", Some(_)) => self.subscribed_again(&request, out),
            (_, None) => self.at_once(from, scan, |responses| responses.unrequested(method).0, out),
            (_, Some(_)) => {
                let key = tag.map(|tag| tag.key);
                let is_known =
                    key.is_some_and(|key| self.calls.get(key).is_some() || self.calls.is_past(key));
                if !is_known {
                    self.strays += 1;
                    return self.at_once(from, scan, |responses| &responses.unknown, out);
                }
                out.unrequested(method, self.responses.unrequested(method).1);
                self.at_once(from, scan, |responses| responses.unrequested(method).0, out);
            }
        }
    }

    fn is_own(&self, token: Token) -> bool {
        (token.run, token.shard, token.owner) == (self.setup.run, self.setup.shard, Owner::Callee)
    }

    const fn token(&self, key: Key) -> Token {
        Token { run: self.setup.run, shard: self.setup.shard, owner: Owner::Callee, key }
    }

    /// Answers without state: each retransmission gets the same response.
    fn at_once(
        &mut self,
        from: SocketAddr,
        scan: &Scan<'_>,
        template: impl FnOnce(&Responses) -> &Template,
        out: &mut LoadOutput,
    ) {
        copy_of(scan, from, &self.token(NOBODY).digits(), &mut self.lines);
        let values = HoleValues::default().with(Hole::Copied, &self.lines);
        out.messages.write(from, MessageConnection::Back, template(&self.responses), &values);
    }

    fn find(&self, scan: &Scan<'_>) -> (u64, Option<Key>) {
        self.find_at(scan.call_id.unwrap_or_default(), user_of(scan))
    }

    /// The call with this Call-ID to one contact of a user.
    fn find_at(&self, name: &[u8], user: &[u8]) -> (u64, Option<Key>) {
        let hash = self.table.hash(name, user);
        let call = |index| self.calls.key_at(index).and_then(|key| self.calls.get(key));
        let index =
            self.table.find(hash, |index| call(index).is_some_and(|call| call.call_id.as_bytes() == name));
        (hash, index.and_then(|index| self.calls.key_at(index)))
    }

    fn invited(&mut self, now: Instant, from: SocketAddr, scan: &Scan<'_>, out: &mut LoadOutput) {
        let (hash, known) = self.find(scan);
        let Some(cseq) = scan.cseq else {
            self.strays += 1;
            return;
        };
        let is_later = |key| self.calls.get(key).is_some_and(|call| call.cseq < cseq.number);
        match known {
            // A new call with the Call-ID of an earlier one. The earlier one is still found by its To tag.
            Some(key) if is_later(key) => self.table.remove(hash, key.index),
            Some(key) => return self.invited_again(from, scan, key, cseq.number, out),
            None => {}
        }
        let action = self.action_for(scan);
        let Ok(grant) = granted(scan) else {
            return self.at_once(from, scan, |responses| &responses.too_small, out);
        };
        let Some(key) = self.open(from, scan, hash, action) else {
            self.refused += u64::from(scan.call_id.is_some());
            return self.at_once(from, scan, |responses| &responses.full, out);
        };
        self.grant_timer(scan, grant, key);
        self.begin(now, key, out);
        self.rest(key.index);
    }

    /// The action that the caller wants at this contact. If the user has several contacts, the first ones answer,
    /// and all others ring until they are cancelled.
    fn action_for(&self, scan: &Scan<'_>) -> CalleeAction {
        let caller = scan.call_id.and_then(Token::read).filter(|token| token.run == self.setup.run);
        let action = match caller.map(|token| token.owner) {
            Some(Owner::Caller(action)) => action,
            _ => self.foreign,
        };
        let place = user_of(scan).rsplit(|byte| *byte == b'~').next().and_then(decimal);
        let is_behind =
            self.setup.options.contacts > 1 && place.is_some_and(|place| place > answering_contacts(action));
        if is_behind && action != CalleeAction::Refuse { CalleeAction::Ring } else { action }
    }

    /// Opens a call. `None` if there are too many calls, or if the request has no Call-ID.
    fn open(&mut self, from: SocketAddr, scan: &Scan<'_>, hash: u64, action: CalleeAction) -> Option<Key> {
        let name = scan.call_id?;
        let caller = Token::read(name).filter(|token| token.run == self.setup.run);
        let own = self.token(NOBODY);
        let branch = self.table.hash(scan.branch.unwrap_or_default(), b"");
        let lines = &mut self.lines;
        let make = |key| {
            let own = Token { key, ..own };
            copy_of(scan, from, &own.digits(), lines);
            CalleeCall {
                token: caller.unwrap_or(own),
                phase: CalleePhase::Ringing,
                failure: None,
                action,
                response: LastResponse::Ringing,
                cseq: scan.cseq.map_or(0, |cseq| cseq.number),
                counts: AttemptCounts::default(),
                timers: CallTimers::default(),
                stamps: Stamps::new(self.arrived, self.arrived),
                hash,
                call_id: InlineText::of(name),
                branch,
                answers: Instant::NEVER,
                provisionals: 0,
                session: DescribedSession::default(),
                rseq: 0,
                is_unacknowledged: false,
                has_offered: scan.body.is_empty() && !self.setup.described_answer().is_empty(),
                refresh: None,
                subscription: None,
                came_over_tcp: scan.via.is_some_and(names_tcp),
                from,
                copied: InlineText::of_lines(lines),
            }
        };
        let key = self.calls.insert(make)?;
        self.table.insert(hash, key.index);
        Some(key)
    }

    /// Starts the action of a new call: rings, refuses or answers at once.
    fn begin(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Setup { longest_ringing, options: UserOptions { provisionals, .. }, .. } = self.setup;
        let Some(call) = self.calls.get_mut(key) else { return };
        let span = match call.action {
            CalleeAction::Refuse => return self.respond(now, key, LastResponse::Busy, out),
            CalleeAction::Ring => longest_ringing,
            CalleeAction::Answer | CalleeAction::Progress | CalleeAction::Reliable | CalleeAction::Both => {
                self.ringing
            }
        };
        let is_silent = matches!(call.action, CalleeAction::Answer | CalleeAction::Both);
        if span.is_zero() && is_silent && provisionals <= 1 {
            return self.respond(now, key, LastResponse::Ok, out);
        }
        stamp(&mut call.stamps.ringing, now);
        call.answers = now + span;
        call.provisionals = provisionals;
        self.ring(now, key, out);
        let is_due = |call: &CalleeCall| call.phase == CalleePhase::Ringing && !call.is_unacknowledged;
        while span.is_zero() && self.calls.get(key).is_some_and(is_due) {
            self.due(now, key, out);
        }
    }

    /// Sends the next provisional response and schedules the one after it.
    fn ring(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let timing = self.setup.timing;
        let Some(call) = self.calls.get_mut(key) else { return };
        let left = call.answers.max(now) - now;
        call.provisionals = call.provisionals.saturating_sub(1);
        let pause = Duration::from_nanos(left.as_nanos() / (u64::from(call.provisionals) + 1));
        if call.action == CalleeAction::Reliable {
            // "The RSeq numbering space is within a single transaction", and the RSeq of "each subsequent reliable
            // provisional response for the same request MUST be greater by exactly one" (RFC 3262 section 3).
            call.rseq += 1;
            call.is_unacknowledged = true;
            call.timers.again = Repetition::after(now, timing.t1);
            call.timers.end = Deadline::after(now, timing.patience());
        }
        call.timers.act = Deadline::after(now, pause.min(MINUTE));
        self.write(key, out);
    }

    /// Handles a retransmitted INVITE: repeats the last provisional response or refusal. A 2xx is retransmitted by
    /// its own timer (RFC 6026 section 7.1).
    fn invited_again(
        &mut self,
        from: SocketAddr,
        scan: &Scan<'_>,
        key: Key,
        cseq: u32,
        out: &mut LoadOutput,
    ) {
        let branch = self.table.hash(scan.branch.unwrap_or_default(), b"");
        let Some(call) = self.calls.get_mut(key) else { return };
        call.counts.repeated += 1;
        if call.branch != branch && call.cseq == cseq {
            // "The same request has arrived at the UAS more than once, following different paths, most likely due to
            // forking.": 482 (RFC 3261 section 8.2.2.2).
            return self.at_once(from, scan, |responses| &responses.merged, out);
        }
        if call.cseq == cseq && matches!(call.phase, CalleePhase::Ringing | CalleePhase::Refusing) {
            self.write(key, out);
        }
    }

    /// Sends a final response and starts its timers: G and H. The timers of a 2xx have the same values (RFC 3261
    /// section 13.3.1.4).
    fn respond(&mut self, now: Instant, key: Key, response: LastResponse, out: &mut LoadOutput) {
        let timing = self.setup.timing;
        let Some(call) = self.calls.get_mut(key) else { return };
        // A load over UDP receives long requests over TCP.
        let reliable = self.setup.transport.is_reliable() || call.came_over_tcp;
        let is_accepted = response == LastResponse::Ok;
        call.response = response;
        call.phase = if is_accepted { CalleePhase::Accepted } else { CalleePhase::Refusing };
        stamp(&mut call.stamps.answered, now);
        // A 2xx is retransmitted over any transport, because a later hop may be unreliable.
        let again = is_accepted || !reliable;
        call.timers = CallTimers {
            again: if again { Repetition::after(now, timing.t1) } else { Repetition::default() },
            end: Deadline::after(now, timing.patience()),
            act: Deadline::default(),
        };
        if is_accepted {
            call.start_timer(now);
        }
        self.write(key, out);
    }

    /// Writes the last response.
    fn write(&self, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get(key) else { return };
        let session = call.refresh.as_ref().map(|refresh| refresh.grant.lines()).unwrap_or_default();
        let values = HoleValues::default()
            .with(Hole::Copied, call.copied.as_bytes())
            .with(Hole::Session, session.as_bytes());
        let Responses { ringing, progress, reliable, accepted, accepted_bare, .. } = &self.responses;
        let Responses { changed, busy, unavailable, unacknowledged, terminated, .. } = &self.responses;
        let template = match (call.response, call.action) {
            (LastResponse::Ringing, CalleeAction::Progress) => progress,
            (LastResponse::Ringing, CalleeAction::Reliable) => {
                let number = Decimal::new(call.rseq.into());
                let values = values.with(Hole::Reliable, number.as_bytes());
                return out.messages.write(call.from, MessageConnection::Back, reliable, &values);
            }
            (LastResponse::Ringing, _) => ringing,
            (LastResponse::Ok, _) if call.session.changes > 0 => {
                let version = Decimal::new(u64::from(call.session.changes) + 1);
                let values = values.with(Hole::Body, version.as_bytes());
                let template = &changed[call.session.direction as usize];
                return out.messages.write(call.from, MessageConnection::Back, template, &values);
            }
            // The reliable provisional response has described the session.
            (LastResponse::Ok, CalleeAction::Reliable) => accepted_bare,
            (LastResponse::Ok, _) => accepted,
            (LastResponse::Unavailable, _) => unavailable,
            (LastResponse::Busy, _) => busy,
            (LastResponse::Unacknowledged, _) => unacknowledged,
            (LastResponse::Terminated, _) => terminated,
        };
        out.messages.write(call.from, MessageConnection::Back, template, &values);
    }

    fn cancelled(&mut self, now: Instant, from: SocketAddr, scan: &Scan<'_>, out: &mut LoadOutput) {
        // A CANCEL has the branch of its INVITE (RFC 3261 section 9.1).
        let branch = self.table.hash(scan.branch.unwrap_or_default(), b"");
        let is_its_own = |key: &Key| self.calls.get(*key).is_some_and(|call| call.branch == branch);
        let Some(key) = self.find(scan).1.filter(is_its_own) else {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        };
        // "the To tag of the response to the CANCEL and the To tag in the response to the original request SHOULD be
        // the same" (RFC 3261 section 9.2).
        copy_of(scan, from, &self.token(key).digits(), &mut self.lines);
        let values = HoleValues::default().with(Hole::Copied, &self.lines);
        out.messages.write(from, MessageConnection::Back, &self.responses.ok, &values);
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.phase == CalleePhase::Ringing {
            stamp(&mut call.stamps.cancelling, self.arrived);
            let response = if call.action == CalleeAction::Both && self.has_answered_elsewhere(scan) {
                LastResponse::Ok
            } else {
                LastResponse::Terminated
            };
            self.respond(now, key, response, out);
            self.rest(key.index);
        } else {
            call.counts.repeated += 1;
        }
    }

    /// Whether the other one of the two answering contacts has answered. If so, a proxy MUST cancel this contact (RFC
    /// 3261 section 16.7 step 10). The CANCEL may arrive before this contact's 200 is due. This contact nevertheless
    /// sends its 200, as if the 200 and the CANCEL had crossed (section 9.1).
    fn has_answered_elsewhere(&self, scan: &Scan<'_>) -> bool {
        let own = user_of(scan);
        let other = match own.strip_suffix(SECOND) {
            Some(first) => first.to_vec(),
            None => [own, SECOND].concat(),
        };
        let other = self.find_at(scan.call_id.unwrap_or_default(), &other).1;
        other.and_then(|key| self.calls.get(key)).is_some_and(|call| call.response == LastResponse::Ok)
    }

    /// Handles the expired timers of one call.
    fn due(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let t2 = self.setup.timing.t2;
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.phase == CalleePhase::Notifying {
            return self.due_to_notify(now, key, out);
        }
        if self.refresh_due(now, key, out) {
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.timers.end.has_come(now) {
            return self.given_up(now, key, out);
        }
        let is_provisional = call.phase == CalleePhase::Ringing;
        if call.timers.again.has_come(now, (!is_provisional).then_some(t2)) {
            call.counts.responses_again += 1;
            self.write(key, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if !call.timers.act.has_come(now) {
            return;
        }
        if call.is_unacknowledged {
            // "the UAS MUST NOT send a second reliable provisional response until the first is acknowledged", and "MUST NOT send a
            // final response until those provisional responses are acknowledged" that have a session description (RFC 3262
            // section 3): the due response waits for the PRACK.
            return;
        }
        if now < call.answers || call.provisionals > 0 {
            return self.ring(now, key, out);
        }
        if call.action == CalleeAction::Ring {
            call.failure = Some(Failure::RangTooLong);
        }
        let response =
            if call.action == CalleeAction::Ring { LastResponse::Unavailable } else { LastResponse::Ok };
        self.respond(now, key, response, out);
    }

    /// Handles a response that was not acknowledged in time, or a call that was not ended in time.
    fn given_up(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let failure = match call.phase {
            CalleePhase::Over => return self.forget(key),
            CalleePhase::Confirmed => Failure::LeftAlone,
            // "If a reliable provisional response is retransmitted for 64*T1 seconds without reception of a corresponding
            // PRACK, the UAS SHOULD reject the original request with a 5xx response." (RFC 3262 section 3)
            CalleePhase::Ringing => {
                call.is_unacknowledged = false;
                call.failure = Some(Failure::Without("PRACK"));
                return self.respond(now, key, LastResponse::Unacknowledged, out);
            }
            _ => Failure::TimedOut(Timer::H),
        };
        call.failure = call.failure.or(Some(failure));
        out.records.push(record(call));
        self.forget(key);
    }

    fn forget(&mut self, key: Key) {
        if let Some(call) = self.calls.remove(key) {
            self.table.remove(call.hash, key.index);
            self.wheel.cancel(key.index);
        }
    }
}

impl Timed for Callee {
    fn wheel(&mut self) -> &mut Wheel {
        &mut self.wheel
    }

    fn next_of(&self, index: u32) -> Option<Instant> {
        let call = self.calls.get(self.calls.key_at(index)?)?;
        let refresh = call.refresh.as_ref().and_then(|refresh| refresh.own.as_ref()?.next());
        Some(call.timers.next().min(refresh.unwrap_or(Instant::NEVER)))
    }

    fn do_due(&mut self, now: Instant, index: u32, out: &mut LoadOutput) {
        if let Some(key) = self.calls.key_at(index) {
            self.due(now, key, out);
        }
    }
}

/// The user part of the Request-URI.
fn user_of<'a>(scan: &Scan<'a>) -> &'a [u8] {
    let Some(Start::Request { uri, .. }) = scan.start else { return &[] };
    let behind = uri.splitn(2, |byte| *byte == b':').nth(1).unwrap_or_default();
    memchr::memchr(b'@', behind).map_or(&[], |at| &behind[..at])
}

fn record(call: &CalleeCall) -> Record {
    let CalleeCall { token, failure, response, stamps, counts, .. } = *call;
    let status = response.status();
    let what = if call.subscription.is_some() { What::Notify } else { What::Answer };
    Record { token, side: Side::Callee, what, user: u32::MAX, failure, status, stamps, counts, lookup: None }
}
