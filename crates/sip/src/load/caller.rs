//! Who calls: the scenarios as seen by the one who begins them.

use netrig_core::{Duration, Instant};

use super::authorize::{Credentials, authorize};
use super::call::{Call, Clock, Phase, Scenario};
use super::digits::Decimal;
use super::messages::{Requests, Responses, copy_of};
use super::moment::Moment;
use super::output::{Broken, Counts, Failure, Output, Record, Side, Stamps, Way, Whose, stamp};
use super::scan::{Address, Scan, Start, is_loose};
use super::setup::{Directory, Setup};
use super::slab::{Key, Slab};
use super::template::{Hole, Template, TemplateError, Values};
use super::text::{Text, put_unfolded};
use super::token::{Owner, Token};
use super::wheel::Wheel;
use crate::Method;
use crate::deadline::{Deadline, Repetition};
use crate::transaction::Timer;

/// How often a challenge is answered within one request: once, and once more if the nonce was too old.
const CHALLENGES: u16 = 2;
/// Set in the number of an ACK's own transaction: it has the `CSeq` of its INVITE.
const ACK: u16 = 0x8000;

/// All calls that one shard has begun. It is driven by [`Caller::start`], [`Caller::handle_response`],
/// [`Caller::handle_request`] and [`Caller::handle_timeout`].
#[derive(Debug)]
pub struct Caller {
    setup: Setup,
    requests: Requests,
    responses: Responses,
    names: Directory,
    passwords: Directory,
    calls: Slab<Call>,
    wheel: Wheel,
    lines: Vec<u8>,
    /// When what is being handled came.
    arrived: Instant,
    strays: u64,
}

/// There are as many calls as there may be at once: the tester's own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are as many calls as there may be at once")]
pub struct Full;

/// Which request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Invite,
    Cancel,
    Acknowledge,
    Bye,
    Ask,
}

impl Caller {
    /// Without any call.
    ///
    /// # Errors
    /// The setup's domain is none.
    pub fn new(setup: Setup, names: Directory, passwords: Directory) -> Result<Self, TemplateError> {
        Ok(Self {
            requests: Requests::new(&setup)?,
            responses: Responses::new(&setup)?,
            calls: Slab::new(setup.calls),
            wheel: Wheel::new(setup.resolution),
            setup,
            names,
            passwords,
            lines: Vec::new(),
            arrived: Instant::ZERO,
            strays: 0,
        })
    }

    /// How many calls there are, those included whose last response may come again.
    pub const fn len(&self) -> u32 {
        self.calls.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many messages came that belong to no call, or to none any more.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Begins a scenario that was to begin at `intended`. The name that its record will have.
    ///
    /// # Errors
    /// No place is left.
    pub fn start(
        &mut self,
        now: Instant,
        intended: Instant,
        scenario: Scenario,
        (user, peer): (u32, u32),
        out: &mut Output,
    ) -> Result<Token, Full> {
        let Setup { run, shard, server, .. } = self.setup;
        let phase = match scenario {
            Scenario::Options | Scenario::Message => Phase::Asking,
            _ => Phase::Calling,
        };
        let make = |key| Call {
            token: Token { run, shard, owner: Owner::Caller(scenario.wish()), key },
            scenario,
            phase,
            failure: None,
            user,
            peer,
            cseq: 1,
            invite: 1,
            status: 0,
            counts: Counts::default(),
            clock: Clock::default(),
            stamps: Stamps::new(intended, now),
            remote: Text::default(),
            target: Text::default(),
            routes: Text::default(),
            authorization: None,
            next_hop: server,
        };
        let key = self.calls.insert(make).ok_or(Full)?;
        self.ask(now, key, out);
        self.calls.get(key).map(|call| call.token).ok_or(Full)
    }

    /// When [`Caller::handle_timeout`] is to be called at the latest.
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

    /// A response whose topmost branch is of this token and transaction: see [`Recipient`](super::Recipient).
    pub fn handle_response(
        &mut self,
        moment: impl Into<Moment>,
        scan: &Scan<'_>,
        (token, transaction): (Token, u16),
        out: &mut Output,
    ) {
        let Moment { arrived, now } = moment.into();
        self.arrived = arrived;
        let is_of = |text: Option<&[u8]>| text.and_then(Token::read) == Some(token);
        let known = self.calls.get(token.key).filter(|call| call.token == token);
        let (Some(status), Some(cseq), Some(_)) = (scan.status(), scan.cseq, known) else {
            self.strays += 1;
            return;
        };
        // The branch alone is not enough: the rest must be of the call too (RFC 3261 section 8.2.6.2).
        if !is_of(scan.call_id) || !is_of(scan.from_tag) {
            self.strays += 1;
            return;
        }
        let key = token.key;
        match cseq.method {
            b"INVITE" if cseq.number as u16 == transaction => {
                self.invited(now, scan, (status, cseq.number), key, out);
            }
            b"CANCEL" => self.cancelled(key, status),
            b"BYE" | b"OPTIONS" | b"MESSAGE" => {
                self.answered(now, scan, (status, cseq.number), key, out);
            }
            _ => self.strays += 1,
        }
        self.rest(key);
    }

    /// A request whose `To` tag is of this token: the other side hangs up.
    pub fn handle_request(
        &mut self,
        moment: impl Into<Moment>,
        from: std::net::SocketAddr,
        scan: &Scan<'_>,
        token: Token,
        out: &mut Output,
    ) {
        let Moment { arrived, .. } = moment.into();
        let Some(Start::Request { method, .. }) = scan.start else { return };
        if method == b"ACK" {
            return;
        }
        copy_of(scan, from, b"", &mut self.lines);
        let values = Values::default().with(Hole::Copied, &self.lines);
        let call = self.calls.get_mut(token.key).filter(|call| call.token == token);
        let is_known = call.is_some() || self.calls.is_past(token.key);
        let template = match method {
            b"BYE" if is_known => &self.responses.ok,
            _ if is_known => &self.responses.not_acceptable,
            _ => &self.responses.unknown,
        };
        out.messages.write(from, Way::Back, template, &values);
        let call = self.calls.get_mut(token.key).filter(|call| call.token == token);
        if let Some(call) = call.filter(|call| method == b"BYE" && call.phase == Phase::Holding) {
            stamp(&mut call.stamps.ended, arrived);
            call.failure = Some(Failure::EndedByPeer);
            self.finish(token.key, out);
        }
    }

    /// A connection is gone along which requests went: what waits for an answer to one of them has failed. A call that is
    /// held goes on, for its BYE may find another way.
    pub fn handle_disconnection(&mut self, now: Instant, whose: Whose, why: Broken, out: &mut Output) {
        let concerned: Vec<Key> = match whose {
            Whose::All => self.calls.keys().collect(),
            Whose::User(user) => {
                let is_theirs = |key: &Key| self.calls.get(*key).is_some_and(|call| call.user == user);
                self.calls.keys().filter(is_theirs).collect()
            }
            Whose::Attempt(token) => vec![token.key],
        };
        for key in concerned {
            let Some(call) = self.calls.get_mut(key) else { continue };
            if !matches!(call.phase, Phase::Holding | Phase::Refused) {
                stamp(&mut call.stamps.ended, now);
                call.failure = call.failure.or(Some(Failure::Connection(why)));
                self.finish(key, out);
            }
        }
    }

    /// Sends the first request of the scenario, or the same again with credentials.
    fn ask(&mut self, now: Instant, key: Key, out: &mut Output) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let sent = if call.phase == Phase::Asking { Sent::Ask } else { Sent::Invite };
        if sent == Sent::Invite {
            call.phase = Phase::Calling;
            call.invite = call.cseq;
        }
        self.send(now, key, sent, out);
    }

    /// Sends a request with its timers: A and B, or E and F.
    fn send(&mut self, now: Instant, key: Key, sent: Sent, out: &mut Output) {
        let timing = self.setup.timing;
        let reliable = self.setup.transport.is_reliable();
        let Some(call) = self.calls.get_mut(key) else { return };
        call.clock.again = if reliable { Repetition::default() } else { Repetition::after(now, timing.t1) };
        call.clock.end = Deadline::after(now, timing.patience());
        call.clock.act.stop();
        self.write(key, sent, out);
        self.rest(key);
    }

    fn write(&self, key: Key, sent: Sent, out: &mut Output) {
        let Some(call) = self.calls.get(key) else { return };
        let Requests { invite, cancel, acknowledge, bye, options, message, .. } = &self.requests;
        let (template, cseq, transaction) = match sent {
            Sent::Invite => (invite, call.invite, call.invite as u16),
            Sent::Cancel => (cancel, call.invite, call.invite as u16),
            Sent::Acknowledge => (acknowledge, call.invite, call.invite as u16 | ACK),
            Sent::Bye => (bye, call.cseq, call.cseq as u16),
            Sent::Ask if call.scenario == Scenario::Options => (options, call.cseq, call.cseq as u16),
            Sent::Ask => (message, call.cseq, call.cseq as u16),
        };
        let authorization = match sent {
            Sent::Cancel => &[],
            _ => call.authorization.as_deref().unwrap_or_default(),
        };
        let values = Values::default()
            .with(Hole::Target, call.target.as_bytes())
            .with(Hole::Routes, call.routes.as_bytes())
            .with(Hole::Remote, call.remote.as_bytes())
            .with(Hole::Authorization, authorization);
        let to = match sent {
            Sent::Acknowledge | Sent::Bye => call.next_hop,
            _ => self.setup.server,
        };
        self.put(call, template, (cseq, transaction), values, to, out);
    }

    /// Fills in what all requests have.
    fn put(
        &self,
        call: &Call,
        template: &Template,
        (cseq, transaction): (u32, u16),
        values: Values<'_>,
        to: std::net::SocketAddr,
        out: &mut Output,
    ) {
        let [user, peer] = [call.user, call.peer].map(|number| self.names.of(number));
        let (name, branch, cseq) =
            (call.token.digits(), call.token.branch(transaction), Decimal::new(cseq.into()));
        let values = values
            .with(Hole::User, user.as_bytes())
            .with(Hole::Peer, peer.as_bytes())
            .with(Hole::CallId, &name)
            .with(Hole::Tag, &name)
            .with(Hole::Branch, &branch)
            .with(Hole::CSeq, cseq.as_bytes());
        let way = Way::Of { user: call.user, attempt: call.token };
        out.messages.write(to, way, template, &values);
    }

    /// A response to an INVITE, of the call's last or of one that was challenged.
    fn invited(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        (status, cseq): (u16, u32),
        key: Key,
        out: &mut Output,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_open = matches!(call.phase, Phase::Calling | Phase::Proceeding | Phase::Cancelling);
        let is_last = call.invite == cseq;
        match status {
            100..200 if is_open && is_last => self.proceeding(now, status, key),
            // It was overtaken by the final response.
            100..200 => call.counts.reordered += 1,
            200..300 if is_open && is_last => self.accepted(now, scan, status, key, out),
            200..300 if matches!(call.phase, Phase::Holding | Phase::Ending) => {
                call.counts.acknowledgements_again += 1;
                self.write(key, Sent::Acknowledge, out);
            }
            300.. => {
                self.refuse(scan, cseq, key, out);
                if is_open && is_last {
                    self.refused(now, scan, status, key, out);
                }
            }
            _ => self.strays += 1,
        }
    }

    fn proceeding(&mut self, now: Instant, status: u16, key: Key) {
        let longest = self.setup.longest_ringing;
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_ringing = status > 100;
        if is_ringing {
            stamp(&mut call.stamps.ringing, self.arrived);
        } else if call.stamps.ringing == Instant::NEVER {
            stamp(&mut call.stamps.trying, self.arrived);
        } else {
            call.counts.reordered += 1;
        }
        let was_calling = call.phase == Phase::Calling;
        if was_calling {
            call.phase = Phase::Proceeding;
            // "In the "Proceeding" state, the client transaction SHOULD NOT retransmit the request any longer" (RFC
            // 3261 section 17.1.1.2).
            call.clock.again.stop();
            call.clock.end.stop();
        }
        let span = match call.scenario {
            Scenario::Cancel { after } if was_calling => Some(after),
            Scenario::NoAnswer { patience } if is_ringing && call.stamps.ringing == self.arrived => {
                Some(patience)
            }
            _ if was_calling => Some(longest),
            _ => None,
        };
        if let Some(span) = span.filter(|_| call.phase == Phase::Proceeding) {
            call.clock.act = Deadline::after(now, span);
        }
    }

    fn accepted(&mut self, now: Instant, scan: &Scan<'_>, status: u16, key: Key, out: &mut Output) {
        self.lines.clear();
        let mut routes: [&[u8]; 16] = [&[]; 16];
        let mut count = 0;
        for route in scan.record_routes().take(routes.len()) {
            routes[count] = route.whole;
            count += 1;
        }
        // "The route set MUST be set to the list of URIs in the Record-Route header field from the response, taken in
        // reverse order" (RFC 3261 section 12.1.2).
        let first = count.checked_sub(1).map(|last| Address::of(routes[last]).uri);
        let contact = scan.contact.unwrap_or_default();
        // "the UAC MUST place the first URI from the route set into the Request-URI ... [and] the remote target URI into
        // the Route header field as the last value" if that router is a strict one (RFC 3261 section 12.2.1.1).
        let strict = first.filter(|uri| !is_loose(uri));
        let mut put = |parts: [&[u8]; 3]| {
            self.lines.extend_from_slice(b"Route: ");
            parts.into_iter().for_each(|part| put_unfolded(part, &mut self.lines));
            self.lines.extend_from_slice(b"\r\n");
        };
        routes[..count].iter().rev().skip(strict.iter().count()).for_each(|route| put([b"", route, b""]));
        if strict.is_some() {
            put([b"<", contact, b">"]);
        }
        let target = strict.unwrap_or(contact);
        let Some(call) = self.calls.get_mut(key) else { return };
        call.next_hop = self.setup.next_hop(first.unwrap_or(target));
        call.routes = Text::of_lines(&self.lines);
        call.remote = Text::of(scan.to.unwrap_or_default());
        call.target = Text::of(target);
        call.status = status;
        stamp(&mut call.stamps.answered, self.arrived);
        call.clock.again.stop();
        call.clock.end.stop();
        call.clock.act.stop();
        // Without them there is no dialog, and nobody to send an ACK to.
        let broken = [(scan.contact, "RFC 3261 section 12.1.1"), (scan.to_tag, "RFC 3261 section 12.1.1")];
        if let Some((_, rule)) = broken.iter().find(|(found, _)| found.is_none()) {
            call.failure = Some(Failure::Rule(rule));
            self.finish(key, out);
            return;
        }
        call.phase = Phase::Holding;
        let hold = match call.scenario {
            Scenario::Call { hold } if call.failure.is_none() => hold,
            _ => {
                call.failure = call.failure.or(Some(Failure::Status(status)));
                Duration::ZERO
            }
        };
        stamp(&mut call.stamps.acknowledged, now);
        call.clock.act = Deadline::after(now, hold);
        self.write(key, Sent::Acknowledge, out);
        if hold.is_zero() {
            self.due(now, key, out);
        }
    }

    /// Acknowledges what is no 2xx: the transaction's affair, each time that it comes (RFC 3261 section 17.1.1.3).
    fn refuse(&mut self, scan: &Scan<'_>, cseq: u32, key: Key, out: &mut Output) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.phase == Phase::Refused {
            call.counts.acknowledgements_again += 1;
        }
        let remote = Text::<126>::of(scan.to.unwrap_or_default());
        let values = Values::default().with(Hole::Remote, remote.as_bytes());
        if let Some(call) = self.calls.get(key) {
            self.put(call, &self.requests.refused, (cseq, cseq as u16), values, self.setup.server, out);
        }
    }

    fn refused(&mut self, now: Instant, scan: &Scan<'_>, status: u16, key: Key, out: &mut Output) {
        let is_challenge = matches!(status, 401 | 407);
        let Some(call) = self.calls.get_mut(key) else { return };
        call.status = status;
        if is_challenge && call.phase != Phase::Cancelling && self.authorize(scan, &Method::Invite, key) {
            self.ask(now, key, out);
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.answered, self.arrived);
        stamp(&mut call.stamps.acknowledged, now);
        if call.phase == Phase::Cancelling {
            stamp(&mut call.stamps.ended, self.arrived);
        }
        let wanted = match call.scenario {
            Scenario::Busy => status == 486 || status == 600,
            Scenario::Redirect => (300..400).contains(&status),
            Scenario::Cancel { .. } | Scenario::NoAnswer { .. } => {
                call.phase == Phase::Cancelling && status == 487
            }
            _ => false,
        };
        let failure = if is_challenge { Failure::Authentication } else { Failure::Status(status) };
        call.failure = call.failure.or((!wanted).then_some(failure));
        call.phase = Phase::Refused;
        let reliable = self.setup.transport.is_reliable();
        call.clock = Clock { end: Deadline::after(now, self.setup.timing.timer_d()), ..Clock::default() };
        out.records.push(record(call));
        if reliable {
            self.forget(key);
        }
    }

    /// Puts the answer to a challenge into the next request, which has the next number. Whether there is one.
    fn authorize(&mut self, scan: &Scan<'_>, method: &Method, key: Key) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        if call.counts.challenges >= CHALLENGES {
            return false;
        }
        let [name, password] = [self.names.of(call.user), self.passwords.of(call.user)];
        let uri = match method {
            Method::Bye => call.target.as_bytes().to_vec(),
            _ => [b"sip:", self.names.of(call.peer).as_bytes(), b"@", self.setup.domain.as_bytes()].concat(),
        };
        let credentials = Credentials { name: name.as_bytes(), password: password.as_bytes() };
        let first = call.authorization.is_none() || *method == Method::Bye;
        let Some(line) =
            authorize(scan, &credentials, method, &uri, &call.token.branch(call.cseq as u16), first)
        else {
            return false;
        };
        call.authorization = Some(line.into());
        call.counts.challenges += 1;
        call.cseq += 1;
        true
    }

    /// A response to CANCEL: that of its INVITE is to come, or has come.
    fn cancelled(&mut self, key: Key, status: u16) {
        if let Some(call) = self.calls.get_mut(key).filter(|call| call.phase == Phase::Cancelling)
            && status >= 200
        {
            call.clock.again.stop();
        }
    }

    /// A response to BYE, OPTIONS or MESSAGE.
    fn answered(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        (status, cseq): (u16, u32),
        key: Key,
        out: &mut Output,
    ) {
        let timing = self.setup.timing;
        let Some(call) = self.calls.get_mut(key) else { return };
        let method = match (call.phase, call.scenario) {
            (Phase::Ending, _) => Method::Bye,
            (Phase::Asking, Scenario::Options) => Method::Options,
            (Phase::Asking, _) => Method::Message,
            _ => return self.strays += 1,
        };
        if call.cseq != cseq {
            return self.strays += 1;
        }
        if status < 200 {
            // "If Timer E fires while in the "Proceeding" state, the request MUST be passed to the transport layer for
            // retransmission, and Timer E MUST be reset with a value of T2 seconds" (RFC 3261 section 17.1.2.2).
            call.clock.again.slow_down(timing.t2);
            return;
        }
        if matches!(status, 401 | 407) && self.authorize(scan, &method, key) {
            let sent = if method == Method::Bye { Sent::Bye } else { Sent::Ask };
            return self.send(now, key, sent, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.ended, self.arrived);
        if method != Method::Bye {
            call.status = status;
            stamp(&mut call.stamps.answered, self.arrived);
        }
        if status >= 300 {
            let is_challenge = matches!(status, 401 | 407);
            let failure = if is_challenge { Failure::Authentication } else { Failure::Status(status) };
            call.failure = call.failure.or(Some(failure));
        }
        self.finish(key, out);
    }

    /// Does what is due of one call.
    fn due(&mut self, now: Instant, key: Key, out: &mut Output) {
        let timing = self.setup.timing;
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.clock.end.has_come(now) {
            let timer = match call.phase {
                Phase::Refused => return self.forget(key),
                Phase::Calling => Timer::B,
                _ => Timer::F,
            };
            call.failure = call.failure.or(Some(Failure::TimedOut(timer)));
            return self.finish(key, out);
        }
        let longest = (call.phase != Phase::Calling).then_some(timing.t2);
        if call.clock.again.has_come(now, longest) {
            call.counts.requests_again += 1;
            let sent = match call.phase {
                Phase::Calling => Sent::Invite,
                Phase::Cancelling => Sent::Cancel,
                Phase::Ending => Sent::Bye,
                _ => Sent::Ask,
            };
            self.write(key, sent, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.clock.act.has_come(now) {
            stamp(&mut call.stamps.ending, now);
            let sent = if call.phase == Phase::Holding {
                call.phase = Phase::Ending;
                call.cseq += 1;
                call.authorization = None;
                call.counts.challenges = 0;
                Sent::Bye
            } else {
                if !matches!(call.scenario, Scenario::Cancel { .. } | Scenario::NoAnswer { .. }) {
                    call.failure = Some(Failure::RangTooLong);
                }
                call.phase = Phase::Cancelling;
                Sent::Cancel
            };
            self.send(now, key, sent, out);
        }
    }

    /// Sets the wheel to what the call waits for.
    fn rest(&mut self, key: Key) {
        if let Some(call) = self.calls.get(key) {
            self.wheel.set(key.index, call.clock.next());
        }
    }

    fn finish(&mut self, key: Key, out: &mut Output) {
        out.records.extend(self.calls.get(key).map(record));
        self.forget(key);
    }

    fn forget(&mut self, key: Key) {
        if self.calls.remove(key).is_some() {
            self.wheel.cancel(key.index);
        }
    }
}

fn record(call: &Call) -> Record {
    let Call { token, scenario, user, failure, status, stamps, counts, .. } = *call;
    Record { token, side: Side::Caller, what: scenario.what(), user, failure, status, stamps, counts }
}
