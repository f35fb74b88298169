//! Who is called: any user, in the way that the caller wishes.
//!
//! What is asked once a call stands is in `dialog`, session timers are in `refreshing`, and subscriptions in `notifying`.

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
    AttemptCounts, CalleeBehavior, Failure, Owner, Record, Side, SlabKey, Stamps, Token, What, stamp,
};
use crate::slab::Slab;
use crate::table::Table;
use crate::transaction::Timer;
use crate::wheel::Wheel;

/// The tag where no call is: of OPTIONS, MESSAGE, and what is refused at once. Always the same, as a repetition gets
/// the same answer.
const NOBODY: SlabKey = SlabKey { index: u32::MAX, generation: u32::MAX };

/// "the UAS MUST send a non-100 provisional response at every minute" (RFC 3261 section 13.3.1.1), so that no proxy gives the call
/// up.
const MINUTE: Duration = Duration::from_secs(60);

/// What the name of a user's second place has behind that of the first.
const SECOND: &[u8] = b"~2";

/// How many of the places at which one is called answer it.
const fn answering_contacts(behavior: CalleeBehavior) -> u32 {
    match behavior {
        CalleeBehavior::Both => 2,
        _ => 1,
    }
}

/// All calls that one shard is asked to take. It is driven by [`Callee::handle_request`], [`Callee::handle_response`] and
/// [`Callee::handle_timeout`].
///
/// A call is found by the tag that this side has given it; only an INVITE and a CANCEL, which have none, are looked up
/// by their Call-ID and by who is called: each place at which a user is registered is one of its own. A call takes memory
/// from its INVITE until T4 after its end, and beyond [`Setup::calls`] calls are refused with 503.
#[derive(Debug)]
pub struct Callee {
    setup: Setup,
    responses: Responses,
    inquiries: CalleeRequests,
    /// What calls of another test want.
    foreign: CalleeBehavior,
    /// From the INVITE to its answer.
    ringing: Duration,
    calls: Slab<CalleeCall>,
    table: Table,
    wheel: Wheel,
    lines: Vec<u8>,
    /// When what is being handled came.
    arrived: Instant,
    refused: u64,
    strays: u64,
}

impl Callee {
    /// Without any call. `ringing` is how long it rings before it answers, zero for not at all; `foreign` is how calls
    /// of others than this test's callers are treated. `secret` keeps the table of calls safe from chosen Call-IDs: it
    /// is to be drawn at random.
    ///
    /// # Errors
    /// The setup's domain is none.
    pub fn new(
        setup: Setup,
        foreign: CalleeBehavior,
        ringing: Duration,
        secret: [u8; 16],
    ) -> Result<Self, TemplateError> {
        Ok(Self {
            responses: Responses::new(&setup)?,
            inquiries: CalleeRequests::new(&setup)?,
            foreign,
            ringing,
            calls: Slab::new(setup.calls),
            table: Table::new(secret),
            wheel: Wheel::new(setup.resolution),
            setup,
            lines: Vec::new(),
            arrived: Instant::ZERO,
            refused: 0,
            strays: 0,
        })
    }

    /// How many calls there are, those included that have just ended.
    pub const fn len(&self) -> u32 {
        self.calls.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many calls were refused because there were as many as there may be: the tester's own limit.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// How many messages came that belong to no call.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// When [`Callee::handle_timeout`] is to be called at the latest.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut LoadOutput) {
        self.arrived = now;
        self.do_all_due(now, out);
    }

    /// A request that has come from `from`, where its responses go.
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
        match (method, scan.to_tag) {
            (b"INVITE", None) => self.invited(now, from, scan, out),
            (b"INVITE", Some(_)) => self.invited_within(now, from, scan, tag, out),
            (b"CANCEL", None) => self.cancelled(now, from, scan, out),
            (b"ACK", _) => self.acknowledged(now, scan, tag, out),
            (b"PRACK", Some(_)) => self.pracked(now, from, scan, tag, out),
            (b"UPDATE", Some(_)) if scan.body.is_empty() => self.updated(now, from, scan, tag, out),
            (b"BYE", _) => self.hung_up(now, from, scan, tag, out),
            (b"SUBSCRIBE", None) => self.subscribed(now, from, scan, out),
            (b"SUBSCRIBE", Some(_)) => self.subscribed_again(now, from, scan, tag, out),
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

    const fn token(&self, key: SlabKey) -> Token {
        Token { run: self.setup.run, shard: self.setup.shard, owner: Owner::Callee, key }
    }

    /// Answers what needs no state: the same answer as often as it comes.
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

    fn find(&self, scan: &Scan<'_>) -> (u64, Option<SlabKey>) {
        self.find_at(scan.call_id.unwrap_or_default(), user_of(scan))
    }

    /// The call of that name to one place of a user.
    fn find_at(&self, name: &[u8], user: &[u8]) -> (u64, Option<SlabKey>) {
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
            // A request of its own, though it has the name of another: it begins a dialog, and the other goes on by its To tag.
            Some(key) if is_later(key) => self.table.remove(hash, key.index),
            Some(key) => return self.invited_again(from, scan, key, cseq.number, out),
            None => {}
        }
        let behavior = self.behavior_for(scan);
        let Ok(grant) = granted(scan) else {
            return self.at_once(from, scan, |responses| &responses.too_small, out);
        };
        let Some(key) = self.open(from, scan, hash, behavior) else {
            self.refused += u64::from(scan.call_id.is_some());
            return self.at_once(from, scan, |responses| &responses.full, out);
        };
        self.grant_timer(scan, grant, key);
        self.begin(now, key, out);
        self.rest(key.index);
    }

    /// What the caller wants of who is called at this place. Where that is registered at several, as many answer as are to, and
    /// all others ring until they are cancelled.
    fn behavior_for(&self, scan: &Scan<'_>) -> CalleeBehavior {
        let caller = scan.call_id.and_then(Token::read).filter(|token| token.run == self.setup.run);
        let behavior = match caller.map(|token| token.owner) {
            Some(Owner::Caller(behavior)) => behavior,
            _ => self.foreign,
        };
        let place = user_of(scan).rsplit(|byte| *byte == b'~').next().and_then(decimal);
        let is_behind =
            self.setup.contacts > 1 && place.is_some_and(|place| place > answering_contacts(behavior));
        if is_behind && behavior != CalleeBehavior::Refuse { CalleeBehavior::Ring } else { behavior }
    }

    /// A place for what begins; `None` if there is none left, or if it has no name.
    fn open(
        &mut self,
        from: SocketAddr,
        scan: &Scan<'_>,
        hash: u64,
        behavior: CalleeBehavior,
    ) -> Option<SlabKey> {
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
                behavior,
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

    /// Rings, or refuses, or answers at once.
    fn begin(&mut self, now: Instant, key: SlabKey, out: &mut LoadOutput) {
        let Setup { longest_ringing, provisionals, .. } = self.setup;
        let Some(call) = self.calls.get_mut(key) else { return };
        let span = match call.behavior {
            CalleeBehavior::Refuse => return self.respond(now, key, LastResponse::Busy, out),
            CalleeBehavior::Ring => longest_ringing,
            CalleeBehavior::Answer
            | CalleeBehavior::Progress
            | CalleeBehavior::Reliable
            | CalleeBehavior::Both => self.ringing,
        };
        let is_silent = matches!(call.behavior, CalleeBehavior::Answer | CalleeBehavior::Both);
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

    /// Sends the next provisional response; until it is answered or cancelled others follow.
    fn ring(&mut self, now: Instant, key: SlabKey, out: &mut LoadOutput) {
        let timing = self.setup.timing;
        let Some(call) = self.calls.get_mut(key) else { return };
        let left = call.answers.max(now) - now;
        call.provisionals = call.provisionals.saturating_sub(1);
        let pause = Duration::from_nanos(left.as_nanos() / (u64::from(call.provisionals) + 1));
        if call.behavior == CalleeBehavior::Reliable {
            // "The RSeq numbering space is within a single transaction", and that of "each subsequent reliable provisional
            // response for the same request MUST be greater by exactly one" (RFC 3262 section 3).
            call.rseq += 1;
            call.is_unacknowledged = true;
            call.timers.again = Repetition::after(now, timing.t1);
            call.timers.end = Deadline::after(now, timing.patience());
        }
        call.timers.act = Deadline::after(now, pause.min(MINUTE));
        self.write(key, out);
    }

    /// An INVITE that has come before: its transaction answers with what it has answered last, and a 2xx is sent again
    /// by its own timer (RFC 6026 section 7.1).
    fn invited_again(
        &mut self,
        from: SocketAddr,
        scan: &Scan<'_>,
        key: SlabKey,
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

    /// Sends a final response with its timers: G and H, and for a 2xx those of RFC 3261 section 13.3.1.4, which are the
    /// same.
    fn respond(&mut self, now: Instant, key: SlabKey, response: LastResponse, out: &mut LoadOutput) {
        let timing = self.setup.timing;
        let Some(call) = self.calls.get_mut(key) else { return };
        // Its request may have come over TCP because of its length.
        let reliable = self.setup.transport.is_reliable() || call.came_over_tcp;
        let is_accepted = response == LastResponse::Ok;
        call.response = response;
        call.phase = if is_accepted { CalleePhase::Accepted } else { CalleePhase::Refusing };
        stamp(&mut call.stamps.answered, now);
        // A 2xx is sent again over any transport: a proxy may have lost it on another.
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

    /// The last response, once more.
    fn write(&self, key: SlabKey, out: &mut LoadOutput) {
        let Some(call) = self.calls.get(key) else { return };
        let session = call.refresh.as_ref().map(|refresh| refresh.grant.lines()).unwrap_or_default();
        let values = HoleValues::default()
            .with(Hole::Copied, call.copied.as_bytes())
            .with(Hole::Session, session.as_bytes());
        let Responses { ringing, progress, reliable, accepted, accepted_bare, .. } = &self.responses;
        let Responses { changed, busy, unavailable, unacknowledged, terminated, .. } = &self.responses;
        let template = match (call.response, call.behavior) {
            (LastResponse::Ringing, CalleeBehavior::Progress) => progress,
            (LastResponse::Ringing, CalleeBehavior::Reliable) => {
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
            // The session is described in what was acknowledged.
            (LastResponse::Ok, CalleeBehavior::Reliable) => accepted_bare,
            (LastResponse::Ok, _) => accepted,
            (LastResponse::Unavailable, _) => unavailable,
            (LastResponse::Busy, _) => busy,
            (LastResponse::Unacknowledged, _) => unacknowledged,
            (LastResponse::Terminated, _) => terminated,
        };
        out.messages.write(call.from, MessageConnection::Back, template, &values);
    }

    fn cancelled(&mut self, now: Instant, from: SocketAddr, scan: &Scan<'_>, out: &mut LoadOutput) {
        // What it cancels has its branch (RFC 3261 section 9.1).
        let branch = self.table.hash(scan.branch.unwrap_or_default(), b"");
        let is_its_own = |key: &SlabKey| self.calls.get(*key).is_some_and(|call| call.branch == branch);
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
            let response = if call.behavior == CalleeBehavior::Both && self.has_answered_elsewhere(scan) {
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

    /// Whether the other of the two places that are to answer has done so. A proxy MUST cancel this one then (RFC 3261 section
    /// 16.7 step 10) and is right however soon it does: whether its CANCEL or the answer that is due here comes first is up to
    /// who is called, not to it. Here the answer always does, as if the two had crossed (section 9.1).
    fn has_answered_elsewhere(&self, scan: &Scan<'_>) -> bool {
        let own = user_of(scan);
        let other = match own.strip_suffix(SECOND) {
            Some(first) => first.to_vec(),
            None => [own, SECOND].concat(),
        };
        let other = self.find_at(scan.call_id.unwrap_or_default(), &other).1;
        other.and_then(|key| self.calls.get(key)).is_some_and(|call| call.response == LastResponse::Ok)
    }

    /// Does what is due of one call.
    fn due(&mut self, now: Instant, key: SlabKey, out: &mut LoadOutput) {
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
            // section 3): what is due waits for PRACK.
            return;
        }
        if now < call.answers || call.provisionals > 0 {
            return self.ring(now, key, out);
        }
        if call.behavior == CalleeBehavior::Ring {
            call.failure = Some(Failure::RangTooLong);
        }
        let response =
            if call.behavior == CalleeBehavior::Ring { LastResponse::Unavailable } else { LastResponse::Ok };
        self.respond(now, key, response, out);
    }

    /// What was sent last is not acknowledged in time, or nobody has hung up.
    fn given_up(&mut self, now: Instant, key: SlabKey, out: &mut LoadOutput) {
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

    fn forget(&mut self, key: SlabKey) {
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

/// Who is asked, as the Request-URI says.
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
