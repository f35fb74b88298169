//! Registrants: users that are registered and kept registered.

use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::{Duration, Instant};

use super::authorize::{Proof, failure_of, is_challenge};
use super::call::CallTimers;
use super::lookup::Located;
use super::messages::Requests;
use super::moment::Moment;
use super::output::{ConnectionScope, LoadOutput, MessageConnection};
use super::scan::Scan;
use super::setup::{Directory, Setup};
use super::template::{Hole, HoleValues, TemplateError};
use super::timed::Timed;
use super::user::{RegistrantUser, Registration};
use crate::deadline::Deadline;
use crate::digest::NonceCounts;
use crate::digits::{Decimal, decimal};
use crate::record::{
    AttemptCounts, Broken, Departure, Failure, Key, Owner, Record, Side, Stamps, Token, What, number_of,
    server_of, stamp, transaction,
};
use crate::settings::UserOptions;
use crate::transaction::Timer;
use crate::wheel::Wheel;
use crate::{Method, Uri};

/// The registrants of one shard. It is driven by [`Registrant::register`], [`Registrant::unregister`],
/// [`Registrant::handle_response`] and [`Registrant::handle_timeout`].
#[derive(Debug)]
pub struct Registrant {
    setup: Setup,
    requests: Requests,
    names: Directory,
    passwords: Directory,
    nonces: NonceCounts,
    users: Vec<RegistrantUser>,
    wheel: Wheel,
    registered: u32,
    /// Time of arrival of the message that is handled.
    arrived: Instant,
    strays: u64,
}

/// There is no such user, or its last REGISTER is unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such user, or its last REGISTER is unanswered")]
pub struct UserBusy;

impl Registrant {
    /// `users` users, none of them registered.
    ///
    /// # Errors
    /// If the domain of the setup is not valid in a URI.
    pub fn new(
        setup: Setup,
        names: Directory,
        passwords: Directory,
        users: u32,
    ) -> Result<Self, TemplateError> {
        Ok(Self {
            requests: Requests::new(&setup)?,
            users: (0..users).map(|_| RegistrantUser::new()).collect(),
            wheel: Wheel::new(setup.resolution).with_room_for(users as usize),
            setup,
            names,
            passwords,
            nonces: NonceCounts::default(),
            registered: 0,
            arrived: Instant::ZERO,
            strays: 0,
        })
    }

    /// Number of users.
    pub const fn len(&self) -> u32 {
        self.users.len() as u32
    }

    /// Whether there are no users.
    pub const fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Number of registered users, including those that are about to renew.
    pub const fn registered(&self) -> u32 {
        self.registered
    }

    /// Number of received responses that no request waited for.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// State of a user's registration. `None` if there is no such user.
    pub fn state(&self, user: u32) -> Option<Registration> {
        self.users.get(user as usize).map(|user| user.state)
    }

    /// Sends the requests of a user to the servers of a lookup from now on.
    pub fn locate(&mut self, user: u32, located: Arc<Located>) {
        if let Some(user) = self.users.get_mut(user as usize) {
            user.located = Some(located);
        }
    }

    /// Registers a user for `expires` seconds, as scheduled for `intended`, and renews the registration before it
    /// expires. A registered user renews now.
    ///
    /// # Errors
    /// If there is no such user, or its last REGISTER is unanswered.
    pub fn register(
        &mut self,
        now: Instant,
        intended: Instant,
        user: u32,
        expires: u32,
        out: &mut LoadOutput,
    ) -> Result<(), UserBusy> {
        self.begin(now, intended, user, (What::Register, expires), out)
    }

    /// Removes the registration of a user.
    ///
    /// # Errors
    /// If there is no such user, or its last REGISTER is unanswered.
    pub fn unregister(
        &mut self,
        now: Instant,
        intended: Instant,
        user: u32,
        out: &mut LoadOutput,
    ) -> Result<(), UserBusy> {
        self.begin(now, intended, user, (What::Unregister, 0), out)
    }

    /// The latest time at which to call [`Registrant::handle_timeout`].
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// Handles all timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut LoadOutput) {
        self.arrived = now;
        self.do_all_due(now, out);
    }

    /// Handles a response whose topmost branch has this token and transaction (see [`Recipient`](super::Recipient)).
    pub fn handle_response(
        &mut self,
        moment: impl Into<Moment>,
        scan: &Scan<'_>,
        (token, transaction): (Token, u16),
        out: &mut LoadOutput,
    ) {
        let Moment { arrived, now } = moment.into();
        self.arrived = arrived;
        let index = token.key.index;
        let is_of = |text: Option<&[u8]>| text.and_then(Token::read) == Some(token);
        let known = self.users.get_mut(index as usize);
        let (Some(status), Some(cseq), Some(user)) = (scan.status(), scan.cseq, known) else {
            self.strays += 1;
            return;
        };
        let is_awaited = matches!(user.state, Registration::Registering | Registration::Unregistering)
            && !user.is_waiting
            && server_of(transaction) == user.server;
        if !is_awaited || number_of(user.cseq) != number_of(transaction.into()) {
            self.strays += 1;
            return;
        }
        if scan.is_cut() {
            // The response may be retransmitted, but the registration has failed.
            user.broken = user.broken.or(Some("RFC 3261 section 18.3"));
            return;
        }
        if user.cseq != cseq.number || !is_of(scan.call_id) || !is_of(scan.from_tag) {
            // The branch identifies the transaction (RFC 3261 section 17.1.3), so it is a response to the request.
            // But all other fields "MUST equal" those of the request.
            user.broken = user.broken.or(Some("RFC 3261 section 8.2.6.2"));
        }
        if status > 100
            && !is_challenge(status)
            && let Some(proof) = &mut user.proof
            && let Err(rule) = proof.accepted(scan, cseq.number)
        {
            user.broken = user.broken.or(Some(rule));
        }
        let (asked, was_too_brief) = (user.expires, user.was_too_brief);
        match (status, scan.min_expires) {
            (100..200, _) => user.timers.again.slow_down(self.setup.timing.t2),
            (200..300, _) => self.accepted(now, scan, status, index, out),
            (401 | 407, _) if self.authorize(scan, index) => self.send(now, index, out),
            // "it MAY retry the registration after making the expiration interval [...] equal to or greater than the
            // expiration interval within the Min-Expires" (RFC 3261 section 10.2.8). The user does so once, because a
            // server may demand ever longer intervals.
            (423, Some(least)) if least > asked && asked > 0 && !was_too_brief => {
                self.ask_for_longer(least, index);
                self.send(now, index, out);
            }
            (503, _) if self.fail_over(now, index, out) => {}
            (400.., _) if self.wait(now, scan, index) => {}
            _ => {
                let proof = self.users.get(index as usize).and_then(|user| user.proof.as_deref());
                let failure = failure_of(status, proof);
                self.failed(status, failure, index, out);
            }
        }
        self.rest(index);
    }

    /// Restarts the timers of a request at `at`, because it was sent later than it was written (see
    /// [`Outbox::departing`](super::Outbox::departing)).
    pub fn handle_departure(&mut self, at: Instant, (token, departure): (Token, Departure)) {
        let Some(user) = self.users.get_mut(token.key.index as usize) else { return };
        user.stamps.depart(departure, at);
        self.time(at, token.key.index);
    }

    /// Handles the loss of a connection to `server`, or an unreachable server. Requests that wait for a response on
    /// this connection fail, or go to the next server.
    pub fn handle_disconnection(
        &mut self,
        now: Instant,
        (server, whose): (SocketAddr, ConnectionScope),
        why: Broken,
        out: &mut LoadOutput,
    ) {
        self.arrived = now;
        let concerned = match whose {
            ConnectionScope::All => 0..self.users.len() as u32,
            ConnectionScope::User(user) => user..user + 1,
            ConnectionScope::Attempt(token) => token.key.index..token.key.index + 1,
        };
        for index in concerned {
            let is_asked = self.users.get(index as usize).is_some_and(|user| {
                let is_its_own =
                    !self.setup.has_two_transports() || user.is_over_tcp == (why != Broken::Undelivered);
                matches!(user.state, Registration::Registering | Registration::Unregistering)
                    && !user.is_waiting
                    && is_its_own
                    && self.setup.current(user.located.as_deref(), user.server) == server
            });
            let is_refused =
                |user: &&mut RegistrantUser| user.is_over_tcp && !user.stays_on_udp && why == Broken::Refused;
            if let Some(user) = self.users.get_mut(index as usize).filter(|user| is_asked && is_refused(user))
            {
                // "the element SHOULD retry the request, using UDP" (RFC 3261 section 18.1.1).
                user.stays_on_udp = true;
                self.send(now, index, out);
            } else if is_asked && !self.fail_over(now, index, out) {
                self.failed(0, Failure::Connection(why), index, out);
                self.rest(index);
            }
        }
    }

    /// Sends the REGISTER to the next server (RFC 3263 section 4.3). Returns whether there is one.
    fn fail_over(&mut self, now: Instant, index: u32, out: &mut LoadOutput) -> bool {
        let Some(user) = self.users.get_mut(index as usize) else { return false };
        let next = self.setup.server(user.located.as_deref(), user.server.saturating_add(1));
        if user.server >= 7 || next.is_none() {
            return false;
        }
        user.server += 1;
        user.counts.failed_over += 1;
        // The next server has sent neither a challenge nor `Min-Expires`.
        user.proof = None;
        user.was_too_brief = false;
        self.send(now, index, out);
        true
    }

    /// Schedules a refused REGISTER again after its `Retry-After`. Returns whether it does.
    fn wait(&mut self, now: Instant, scan: &Scan<'_>, index: u32) -> bool {
        let Setup { longest_ringing, options: UserOptions { retries, .. }, .. } = self.setup;
        let wait = scan.retry_after().map(|seconds| Duration::from_secs(seconds.into()));
        let Some(user) = self.users.get_mut(index as usize) else { return false };
        let may = user.counts.retried < retries;
        let Some(wait) = wait.filter(|wait| may && *wait <= longest_ringing) else { return false };
        user.is_waiting = true;
        user.timers = CallTimers { act: Deadline::after(now, wait), ..CallTimers::default() };
        true
    }

    /// Sends a REGISTER again when the time of its `Retry-After` is over.
    fn retry(&mut self, now: Instant, index: u32, out: &mut LoadOutput) {
        let Some(user) = self.users.get_mut(index as usize) else { return };
        user.is_waiting = false;
        user.counts.retried += 1;
        user.cseq += 1;
        user.proof = user.proof.take().filter(|proof| proof.goes_on());
        self.send(now, index, out);
    }

    fn ask_for_longer(&mut self, least: u32, index: u32) {
        if let Some(user) = self.users.get_mut(index as usize) {
            (user.expires, user.was_too_brief) = (least, true);
            user.cseq += 1;
        }
    }

    fn begin(
        &mut self,
        now: Instant,
        intended: Instant,
        index: u32,
        (what, expires): (What, u32),
        out: &mut LoadOutput,
    ) -> Result<(), UserBusy> {
        let user = self.users.get_mut(index as usize).ok_or(UserBusy)?;
        if matches!(user.state, Registration::Registering | Registration::Unregistering) {
            return Err(UserBusy);
        }
        let is_last = what == What::Unregister;
        user.state = if is_last { Registration::Unregistering } else { Registration::Registering };
        (user.what, user.expires, user.status, user.server) = (what, expires, 0, 0);
        (user.was_too_brief, user.broken, user.is_waiting) = (false, None, false);
        (user.stamps, user.counts) = (Stamps::new(intended, now), AttemptCounts::default());
        user.cseq += 1;
        self.send(now, index, out);
        Ok(())
    }

    /// Starts timers E and F of a REGISTER that is sent now.
    fn time(&mut self, now: Instant, index: u32) {
        let Some(user) = self.users.get_mut(index as usize) else { return };
        user.timers.again = self.setup.first_repetition(now, user.is_over_tcp);
        user.timers.end = Deadline::after(now, self.setup.timing.patience());
    }

    /// Sends REGISTER with timers E and F.
    fn send(&mut self, now: Instant, index: u32, out: &mut LoadOutput) {
        let Some(user) = self.users.get_mut(index as usize) else { return };
        user.timers.act.stop();
        let is_first = user.stamps.request == now;
        self.prove(index);
        let is_over_tcp = self.write(index, out);
        if let Some(user) = self.users.get_mut(index as usize) {
            user.is_over_tcp = is_over_tcp;
        }
        self.time(now, index);
        if is_first {
            out.messages.departs(Departure::Request);
        }
        self.rest(index);
    }

    const fn token(&self, index: u32) -> Token {
        let Setup { run, shard, .. } = self.setup;
        Token { run, shard, owner: Owner::Registration, key: Key { index, generation: 0 } }
    }

    /// Writes a REGISTER. Returns whether it goes over TCP because of its length.
    fn write(&self, index: u32, out: &mut LoadOutput) -> bool {
        let Some(user) = self.users.get(index as usize) else { return false };
        let token = self.token(index);
        let (name, branch) = (token.digits(), token.branch(transaction(user.cseq, user.server)));
        let (own, cseq, expires) =
            (self.names.of(index), Decimal::new(user.cseq.into()), Decimal::new(user.expires.into()));
        let values = HoleValues::default()
            .with(Hole::User, own.as_bytes())
            .with(Hole::CallId, &name)
            .with(Hole::Tag, &name)
            .with(Hole::Branch, &branch)
            .with(Hole::CSeq, cseq.as_bytes())
            .with(Hole::Expires, expires.as_bytes())
            .with(Hole::Authorization, user.proof.as_deref().map_or(&[][..], |proof| &proof.lines));
        let way = MessageConnection::Of { user: index, attempt: token };
        let server = self.setup.current(user.located.as_deref(), user.server);
        out.messages.write(server, way, &self.requests.register, &values);
        !user.stays_on_udp && self.setup.send_large_over_tcp(out)
    }

    fn accepted(&mut self, now: Instant, scan: &Scan<'_>, status: u16, index: u32, out: &mut LoadOutput) {
        let name = self.names.of(index);
        let name = String::from_utf8_lossy(name.as_bytes());
        let Some(user) = self.users.get_mut(index as usize) else { return };
        let was = user.until != Instant::ZERO;
        let is = user.state == Registration::Registering;
        if is {
            // "The 2xx response to the REGISTER request will contain, in a Contact header field, a complete list of
            // bindings" (RFC 3261 section 10.2.4): the granted time is the shortest one of this user's bindings, or
            // else `Expires`.
            let own: Vec<String> =
                (1..=self.setup.options.contacts).map(|place| self.setup.contact(&name, place)).collect();
            let is_own = |uri: &[u8]| own.iter().any(|own| is_equivalent(own.as_bytes(), uri));
            let contacts = scan.contacts().filter(|contact| is_own(contact.uri));
            let granted = contacts.filter_map(|own| own.parameter(b"expires").and_then(decimal)).min();
            let granted = granted.or(scan.expires).unwrap_or(user.expires);
            user.until = now + Duration::from_secs(granted.into());
            // A tenth of the granted time is left for the renewal. It is less than timer F only for short
            // registrations.
            let renewal = Duration::from_millis(u64::from(granted) * 900);
            user.timers.act = Deadline::after(now, renewal);
        } else {
            user.until = Instant::ZERO;
        }
        user.state = if is { Registration::Registered } else { Registration::None };
        match (was, is) {
            (false, true) => self.registered += 1,
            (true, false) => self.registered -= 1,
            _ => {}
        }
        self.done(status, None, index, out);
    }

    fn failed(&mut self, status: u16, failure: Failure, index: u32, out: &mut LoadOutput) {
        let Some(user) = self.users.get_mut(index as usize) else { return };
        // The registrar keeps its binding until it expires. Nothing renews it.
        user.state = Registration::None;
        user.timers.act.stop();
        if user.until != Instant::ZERO {
            user.until = Instant::ZERO;
            self.registered -= 1;
        }
        self.done(status, Some(failure), index, out);
    }

    fn done(&mut self, status: u16, failure: Option<Failure>, index: u32, out: &mut LoadOutput) {
        let token = self.token(index);
        let Some(user) = self.users.get_mut(index as usize) else { return };
        user.status = status;
        stamp(&mut user.stamps.answered, self.arrived);
        user.timers.again.stop();
        user.timers.end.stop();
        user.proof = user.proof.take().filter(|proof| proof.goes_on());
        let RegistrantUser { what, stamps, broken, counts, .. } = *user;
        let failure = broken.map(Failure::Rule).or(failure);
        out.records.push(Record {
            token,
            side: Side::Registrant,
            what,
            user: index,
            failure,
            status,
            stamps,
            counts,
            // A renewal goes to the same server without a lookup.
            lookup: user.located.as_ref().map(|located| located.took).filter(|_| what != What::Renew),
        });
    }

    /// Takes the challenges of a response. If they can be answered, the next REGISTER has the next `CSeq` and the
    /// credentials. Returns whether they can.
    fn authorize(&mut self, scan: &Scan<'_>, index: u32) -> bool {
        let [name, password] = [self.names.of(index), self.passwords.of(index)];
        let Some(user) = self.users.get_mut(index as usize) else { return false };
        if !Proof::challenged(&mut user.proof, scan, name.as_bytes(), password.as_bytes()) {
            return false;
        }
        user.counts.challenges += 1;
        user.cseq += 1;
        true
    }

    /// Computes the credentials of a REGISTER at its first transmission. Retransmissions reuse them.
    fn prove(&mut self, index: u32) {
        let token = self.token(index);
        let Some(user) = self.users.get_mut(index as usize) else { return };
        let Some(proof) = &mut user.proof else { return };
        let uri = [b"sip:", self.setup.domain.as_bytes()].concat();
        let cnonce = token.branch(transaction(user.cseq, user.server));
        let which = (&Method::Register, user.cseq);
        // A REGISTER has no body.
        proof.lines = proof.lines_of(which, &uri, b"", &cnonce, (index, &mut self.nonces));
    }

    /// Handles the expired timers of one user.
    fn due(&mut self, now: Instant, index: u32, out: &mut LoadOutput) {
        let t2 = self.setup.timing.t2;
        let Some(user) = self.users.get_mut(index as usize) else { return };
        if user.timers.end.has_come(now) {
            if self.fail_over(now, index, out) {
                return;
            }
            return self.failed(0, Failure::TimedOut(Timer::F), index, out);
        }
        if user.timers.again.has_come(now, Some(t2)) {
            user.counts.requests_again += 1;
            self.write(index, out);
        }
        let Some(user) = self.users.get_mut(index as usize) else { return };
        if user.timers.act.has_come(now) {
            if user.is_waiting {
                return self.retry(now, index, out);
            }
            let expires = user.expires;
            // A registered user is never busy.
            let _renewed = self.begin(now, now, index, (What::Renew, expires), out);
        }
    }
}

/// Whether two URIs are equivalent (RFC 3261 section 19.1.4). Most servers copy a URI without a change, which is fast
/// to compare.
pub(super) fn is_equivalent(one: &[u8], other: &[u8]) -> bool {
    let read = |uri| std::str::from_utf8(uri).ok()?.parse::<Uri>().ok();
    one == other || read(one).zip(read(other)).is_some_and(|(one, other)| one.is_equivalent(&other))
}

impl Timed for Registrant {
    fn wheel(&mut self) -> &mut Wheel {
        &mut self.wheel
    }

    fn next_of(&self, index: u32) -> Option<Instant> {
        self.users.get(index as usize).map(|user| user.timers.next())
    }

    fn do_due(&mut self, now: Instant, index: u32, out: &mut LoadOutput) {
        self.due(now, index, out);
    }
}
