//! Who is called: any user, in the way that the caller wishes.

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::call::{Answer, Answering, Clock};
use super::messages::{Responses, copy_of};
use super::moment::Moment;
use super::output::{Counts, Failure, Output, Record, Side, Stamps, Way, What, stamp};
use super::scan::{Scan, Start};
use super::setup::Setup;
use super::slab::{Key, Slab};
use super::table::Table;
use super::template::{Hole, Template, TemplateError, Values};
use super::text::Text;
use super::token::{Owner, Token, Wish};
use super::wheel::Wheel;
use crate::deadline::{Deadline, Repetition};
use crate::transaction::Timer;

/// The tag where no call is: of OPTIONS, MESSAGE, and what is refused at once. Always the same, as a repetition gets
/// the same answer.
const NOBODY: Key = Key { index: u32::MAX, generation: u32::MAX };

/// All calls that one shard is asked to take. It is driven by [`Callee::handle_request`] and
/// [`Callee::handle_timeout`].
///
/// A call is found by the tag that this side has given it; only an INVITE and a CANCEL, which have none, are looked up
/// by their Call-ID. A call takes memory from its INVITE until T4 after its end, and beyond [`Setup::calls`] calls are
/// refused with 503.
#[derive(Debug)]
pub struct Callee {
    setup: Setup,
    responses: Responses,
    /// What calls of another test want.
    foreign: Wish,
    /// From the INVITE to its answer.
    ringing: Duration,
    calls: Slab<Answer>,
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
        foreign: Wish,
        ringing: Duration,
        secret: [u8; 16],
    ) -> Result<Self, TemplateError> {
        Ok(Self {
            responses: Responses::new(&setup)?,
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

    /// How many requests came that belong to no call.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// When [`Callee::handle_timeout`] is to be called at the latest.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Output) {
        while let Some(index) = self.wheel.pop(now) {
            if let Some(key) = self.calls.key_at(index) {
                self.due(now, key, out);
                self.rest(key);
            }
        }
    }

    /// A request that has come from `from`, where its responses go.
    pub fn handle_request(
        &mut self,
        moment: impl Into<Moment>,
        from: SocketAddr,
        scan: &Scan<'_>,
        out: &mut Output,
    ) {
        let Moment { arrived, now } = moment.into();
        self.arrived = arrived;
        let Some(Start::Request { method, .. }) = scan.start else { return };
        let tag = scan.to_tag.and_then(Token::read).filter(|token| self.is_own(*token));
        match (method, scan.to_tag) {
            (b"INVITE", None) => self.invited(now, from, scan, out),
            (b"CANCEL", None) => self.cancelled(now, from, scan, out),
            (b"ACK", _) => self.acknowledged(now, tag, out),
            (b"BYE", _) => self.hung_up(now, from, scan, tag, out),
            (_, None) => self.at_once(from, scan, |responses| &responses.ok, out),
            // Neither the session nor anything else is changed while it lasts.
            (_, Some(_)) => self.at_once(from, scan, |responses| &responses.not_acceptable, out),
        }
    }

    fn is_own(&self, token: Token) -> bool {
        (token.run, token.shard, token.owner) == (self.setup.run, self.setup.shard, Owner::Callee)
    }

    const fn token(&self, key: Key) -> Token {
        Token { run: self.setup.run, shard: self.setup.shard, owner: Owner::Callee, key }
    }

    /// Answers what needs no state: the same answer as often as it comes.
    fn at_once(
        &mut self,
        from: SocketAddr,
        scan: &Scan<'_>,
        template: impl FnOnce(&Responses) -> &Template,
        out: &mut Output,
    ) {
        copy_of(scan, from, &self.token(NOBODY).digits(), &mut self.lines);
        let values = Values::default().with(Hole::Copied, &self.lines);
        out.messages.write(from, Way::Back, template(&self.responses), &values);
    }

    fn find(&self, scan: &Scan<'_>) -> (u64, Option<Key>) {
        let name = scan.call_id.unwrap_or_default();
        let hash = self.table.hash(name);
        let call = |index| self.calls.key_at(index).and_then(|key| self.calls.get(key));
        let index =
            self.table.find(hash, |index| call(index).is_some_and(|call| call.call_id.as_bytes() == name));
        (hash, index.and_then(|index| self.calls.key_at(index)))
    }

    fn invited(&mut self, now: Instant, from: SocketAddr, scan: &Scan<'_>, out: &mut Output) {
        let (Some(name), Some(cseq)) = (scan.call_id, scan.cseq) else {
            self.strays += 1;
            return;
        };
        let (hash, known) = self.find(scan);
        if let Some(key) = known {
            return self.invited_again(key, cseq.number, out);
        }
        let caller = Token::read(name).filter(|token| token.run == self.setup.run);
        let wish = match caller.map(|token| token.owner) {
            Some(Owner::Caller(wish)) => wish,
            _ => self.foreign,
        };
        let own = self.token(NOBODY);
        let lines = &mut self.lines;
        let make = |key| {
            let own = Token { key, ..own };
            copy_of(scan, from, &own.digits(), lines);
            Answer {
                token: caller.unwrap_or(own),
                phase: Answering::Ringing,
                failure: None,
                wish,
                status: 0,
                cseq: cseq.number,
                counts: Counts::default(),
                clock: Clock::default(),
                stamps: Stamps::new(self.arrived, self.arrived),
                hash,
                call_id: Text::of(name),
                from,
                copied: Text::of_lines(lines),
            }
        };
        let Some(key) = self.calls.insert(make) else {
            self.refused += 1;
            return self.at_once(from, scan, |responses| &responses.full, out);
        };
        self.table.insert(hash, key.index);
        self.begin(now, key, out);
        self.rest(key);
    }

    /// Rings, or refuses, or answers at once.
    fn begin(&mut self, now: Instant, key: Key, out: &mut Output) {
        let longest = self.setup.longest_ringing;
        let Some(call) = self.calls.get_mut(key) else { return };
        let span = match call.wish {
            Wish::Refuse => return self.respond(now, key, 486, out),
            Wish::Ring => longest,
            Wish::Answer => self.ringing,
        };
        if span.is_zero() {
            return self.respond(now, key, 200, out);
        }
        stamp(&mut call.stamps.ringing, now);
        call.clock.act = Deadline::after(now, span);
        self.write(key, out);
    }

    /// An INVITE that has come before: its transaction answers with what it has answered last, and a 2xx is sent again
    /// by its own timer (RFC 6026 section 7.1).
    fn invited_again(&mut self, key: Key, cseq: u32, out: &mut Output) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.counts.repeated += 1;
        if call.cseq == cseq && matches!(call.phase, Answering::Ringing | Answering::Refusing) {
            self.write(key, out);
        }
    }

    /// Sends a final response with its timers: G and H, and for a 2xx those of RFC 3261 section 13.3.1.4, which are the
    /// same.
    fn respond(&mut self, now: Instant, key: Key, status: u16, out: &mut Output) {
        let timing = self.setup.timing;
        let reliable = self.setup.transport.is_reliable();
        let Some(call) = self.calls.get_mut(key) else { return };
        call.status = status;
        call.phase = if status < 300 { Answering::Accepted } else { Answering::Refusing };
        stamp(&mut call.stamps.answered, now);
        // A 2xx is sent again over any transport: a proxy may have lost it on another.
        let again = status < 300 || !reliable;
        call.clock = Clock {
            again: if again { Repetition::after(now, timing.t1) } else { Repetition::default() },
            end: Deadline::after(now, timing.patience()),
            act: Deadline::default(),
        };
        self.write(key, out);
    }

    /// The last response, once more.
    fn write(&self, key: Key, out: &mut Output) {
        let Some(call) = self.calls.get(key) else { return };
        let Responses { ringing, accepted, busy, unavailable, terminated, .. } = &self.responses;
        let template = match call.status {
            0 => ringing,
            200 => accepted,
            480 => unavailable,
            486 => busy,
            _ => terminated,
        };
        let values = Values::default().with(Hole::Copied, call.copied.as_bytes());
        out.messages.write(call.from, Way::Back, template, &values);
    }

    fn cancelled(&mut self, now: Instant, from: SocketAddr, scan: &Scan<'_>, out: &mut Output) {
        let Some(key) = self.find(scan).1 else {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        };
        // "the To tag of the response to the CANCEL and the To tag in the response to the original request SHOULD be
        // the same" (RFC 3261 section 9.2).
        copy_of(scan, from, &self.token(key).digits(), &mut self.lines);
        let values = Values::default().with(Hole::Copied, &self.lines);
        out.messages.write(from, Way::Back, &self.responses.ok, &values);
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.phase == Answering::Ringing {
            stamp(&mut call.stamps.ending, self.arrived);
            self.respond(now, key, 487, out);
            self.rest(key);
        } else {
            call.counts.repeated += 1;
        }
    }

    fn acknowledged(&mut self, now: Instant, tag: Option<Token>, out: &mut Output) {
        let (t4, longest) = (self.setup.timing.t4, self.setup.longest_call);
        let Some((key, call)) = tag.and_then(|tag| Some((tag.key, self.calls.get_mut(tag.key)?))) else {
            self.strays += 1;
            return;
        };
        stamp(&mut call.stamps.acknowledged, self.arrived);
        match call.phase {
            Answering::Accepted => {
                call.phase = Answering::Confirmed;
                call.clock = Clock { end: Deadline::after(now, longest), ..Clock::default() };
            }
            Answering::Refusing => {
                call.phase = Answering::Over;
                // Timer I.
                call.clock = Clock { end: Deadline::after(now, t4), ..Clock::default() };
                if call.stamps.ending != Instant::NEVER {
                    stamp(&mut call.stamps.ended, self.arrived);
                }
                out.records.push(record(call));
            }
            _ => call.counts.repeated += 1,
        }
        self.rest(key);
    }

    fn hung_up(
        &mut self,
        now: Instant,
        from: SocketAddr,
        scan: &Scan<'_>,
        tag: Option<Token>,
        out: &mut Output,
    ) {
        let key = tag.map(|tag| tag.key);
        let is_known = key.is_some_and(|key| self.calls.get(key).is_some() || self.calls.is_past(key));
        if !is_known {
            self.strays += 1;
            return self.at_once(from, scan, |responses| &responses.unknown, out);
        }
        self.at_once(from, scan, |responses| &responses.ok, out);
        let t4 = self.setup.timing.t4;
        let Some((key, call)) = key.and_then(|key| Some((key, self.calls.get_mut(key)?))) else { return };
        if call.phase == Answering::Ringing {
            // "The UAS MUST still respond to any pending requests received for that dialog. It is RECOMMENDED that a 487
            // (Request Terminated) response be generated to those pending requests" (RFC 3261 section 15.1.2).
            stamp(&mut call.stamps.ending, self.arrived);
            self.respond(now, key, 487, out);
            return self.rest(key);
        }
        if matches!(call.phase, Answering::Over | Answering::Refusing) {
            call.counts.repeated += 1;
            return;
        }
        stamp(&mut call.stamps.ending, self.arrived);
        stamp(&mut call.stamps.ended, now);
        call.phase = Answering::Over;
        // What was sent before its end may still be in the network.
        call.clock = Clock { end: Deadline::after(now, t4), ..Clock::default() };
        call.copied = Text::default();
        out.records.push(record(call));
        self.rest(key);
    }

    /// Does what is due of one call.
    fn due(&mut self, now: Instant, key: Key, out: &mut Output) {
        let t2 = self.setup.timing.t2;
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.clock.end.has_come(now) {
            if call.phase != Answering::Over {
                let is_confirmed = call.phase == Answering::Confirmed;
                let failure = if is_confirmed { Failure::LeftAlone } else { Failure::TimedOut(Timer::H) };
                call.failure = call.failure.or(Some(failure));
                out.records.push(record(call));
            }
            return self.forget(key);
        }
        if call.clock.again.has_come(now, Some(t2)) {
            call.counts.responses_again += 1;
            self.write(key, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.clock.act.has_come(now) {
            if call.wish == Wish::Ring {
                call.failure = Some(Failure::RangTooLong);
            }
            let status = if call.wish == Wish::Ring { 480 } else { 200 };
            self.respond(now, key, status, out);
        }
    }

    /// Sets the wheel to what the call waits for.
    fn rest(&mut self, key: Key) {
        if let Some(call) = self.calls.get(key) {
            self.wheel.set(key.index, call.clock.next());
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(call) = self.calls.remove(key) {
            self.table.remove(call.hash, key.index);
            self.wheel.cancel(key.index);
        }
    }
}

fn record(call: &Answer) -> Record {
    let Answer { token, failure, status, stamps, counts, .. } = *call;
    Record { token, side: Side::Callee, what: What::Answer, user: u32::MAX, failure, status, stamps, counts }
}
