//! Callers: the client side of the scenarios.
//!
//! `sending` writes requests, `inviting` handles responses to the first INVITE, and `dialog` handles responses within
//! the dialog. `redirecting` follows 3xx and `Retry-After`. `reliable`, `changing`, `forks` and `subscribing` each
//! belong to one scenario. `refreshing` has session timers.

mod changing;
mod dialog;
mod forks;
mod inviting;
mod redirecting;
mod redirects;
mod refreshing;
mod reliable;
mod sending;
mod subscribing;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::Instant;

use super::authorize::{Proof, is_challenge};
use super::call::{CallTimers, CallerCall, CallerPhase};
use super::lookup::Located;
use super::messages::{Requests, Responses, copy_of};
use super::moment::Moment;
use super::output::{ConnectionScope, LoadOutput, MessageConnection};
use super::scan::{CSeq, Scan, Start};
use super::scenario::Scenario;
use super::setup::{Directory, Setup};
use super::template::{Hole, HoleValues, TemplateError};
use super::text::InlineText;
use super::timed::Timed;
use crate::digest::NonceCounts;
use crate::record::{
    AttemptCounts, Broken, Departure, Failure, Key, Owner, Record, Side, Stamps, Token, number_of, server_of,
    stamp,
};
use crate::slab::Slab;
use crate::transaction::Timer;
use crate::wheel::Wheel;
use redirects::Redirects;

pub(super) use redirects::MOST_PLACES;

/// The calls of the callers of one shard. It is driven by [`Caller::start`], [`Caller::handle_response`],
/// [`Caller::handle_request`] and [`Caller::handle_timeout`].
#[derive(Debug)]
pub struct Caller {
    setup: Setup,
    requests: Requests,
    responses: Responses,
    names: Directory,
    passwords: Directory,
    nonces: NonceCounts,
    calls: Slab<CallerCall>,
    /// Further dialogs of forked calls, by the call and the tag of the other side.
    forks: BTreeMap<(Key, Box<[u8]>), Key>,
    /// Contacts that 3xx responses have named, by call.
    redirects: BTreeMap<Key, Redirects>,
    wheel: Wheel,
    lines: Vec<u8>,
    /// Time of arrival of the message that is handled.
    arrived: Instant,
    strays: u64,
}

/// The number of concurrent calls has reached [`Setup::calls`], a limit of the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the number of calls at once has reached its maximum")]
pub struct CallLimitReached;

impl Caller {
    /// Callers without calls.
    ///
    /// # Errors
    /// If the domain of the setup is not valid in a URI.
    pub fn new(setup: Setup, names: Directory, passwords: Directory) -> Result<Self, TemplateError> {
        Ok(Self {
            requests: Requests::new(&setup)?,
            responses: Responses::new(&setup)?,
            calls: Slab::new(setup.calls),
            forks: BTreeMap::new(),
            redirects: BTreeMap::new(),
            wheel: Wheel::new(setup.resolution),
            setup,
            names,
            passwords,
            nonces: NonceCounts::default(),
            lines: Vec::new(),
            arrived: Instant::ZERO,
            strays: 0,
        })
    }

    /// Number of calls, including those whose final response may be retransmitted.
    pub const fn len(&self) -> u32 {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Number of received messages that belong to no call.
    pub const fn strays(&self) -> u64 {
        self.strays
    }

    /// Starts a scenario that was scheduled for `intended`, with the servers `located` if they were looked up.
    /// Returns the token of its record.
    ///
    /// # Errors
    /// If [`Setup::calls`] calls are active.
    pub fn start(
        &mut self,
        now: Instant,
        intended: Instant,
        scenario: Scenario,
        (user, peer): (u32, u32),
        located: Option<Arc<Located>>,
        out: &mut LoadOutput,
    ) -> Result<Token, CallLimitReached> {
        let Setup { run, shard, .. } = self.setup;
        let server = self.setup.current(located.as_deref(), 0);
        let phase = match scenario {
            Scenario::Options | Scenario::Message | Scenario::Subscribe { .. } => CallerPhase::Asking,
            _ => CallerPhase::Calling,
        };
        let make = |key| CallerCall {
            token: Token { run, shard, owner: Owner::Caller(scenario.callee_action()), key },
            scenario,
            phase,
            failure: None,
            user,
            peer,
            cseq: 1,
            invite: 1,
            status: 0,
            server: 0,
            step: 0,
            branches: 0,
            is_met: false,
            is_cancel_answered: false,
            is_over_tcp: false,
            is_invite_over_tcp: false,
            is_dialog_over_tcp: false,
            stays_on_udp: false,
            is_change_rung: false,
            prack: 0,
            rseq: 0,
            interval: self.setup.options.session_interval(),
            counts: AttemptCounts::default(),
            timers: CallTimers::default(),
            stamps: Stamps::new(intended, now),
            refresh: None,
            remote: InlineText::default(),
            target: InlineText::default(),
            routes: InlineText::default(),
            proof: None,
            next_hop: server,
            located,
        };
        let key = self.calls.insert(make).ok_or(CallLimitReached)?;
        self.ask(now, key, out);
        self.calls.get(key).map(|call| call.token).ok_or(CallLimitReached)
    }

    /// The latest time at which to call [`Caller::handle_timeout`].
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
        let is_of = |text: Option<&[u8]>, name| text.and_then(Token::read) == Some(name);
        let name = self.calls.get(token.key).map(|call| call.token);
        let (Some(status), Some(cseq), Some(name)) = (scan.status(), scan.cseq, name) else {
            self.strays += 1;
            return;
        };
        if (Token { key: name.key, ..token }) != name {
            self.strays += 1;
            return;
        }
        let key = token.key;
        if scan.is_cut() {
            // The sender may retransmit the whole response, but the call has failed.
            return self.broken(key, "RFC 3261 section 18.3");
        }
        let number = self.number_asked(key, cseq, transaction);
        if number != cseq.number || !is_of(scan.call_id, name) || !is_of(scan.from_tag, name) {
            // Branch and method identify the transaction (RFC 3261 section 17.1.3), so it is a response to the
            // request. But all other fields "MUST equal" those of the request.
            self.broken(key, "RFC 3261 section 8.2.6.2");
        }
        self.proven(scan, (status, number), key);
        let answer = (status, number);
        match cseq.method {
            b"INVITE" if number_of(number) == number_of(transaction.into()) => {
                self.invited(now, scan, answer, (key, server_of(transaction)), out);
            }
            b"CANCEL" => self.cancelled(key, status),
            b"PRACK" => self.pracked(now, scan, answer, key, out),
            b"UPDATE" if server_of(transaction) == self.server_of(key) => {
                self.refreshed(now, scan, answer, key, out);
            }
            b"BYE" | b"OPTIONS" | b"MESSAGE" | b"SUBSCRIBE"
                if server_of(transaction) == self.server_of(key) =>
            {
                self.answered(now, scan, answer, key, out);
            }
            _ => self.strays += 1,
        }
        self.rest(key.index);
    }

    /// Handles a request whose `To` tag is this token: BYE, NOTIFY, or a refresh of the other side.
    pub fn handle_request(
        &mut self,
        moment: impl Into<Moment>,
        from: SocketAddr,
        scan: &Scan<'_>,
        token: Token,
        out: &mut LoadOutput,
    ) {
        let Moment { arrived, now } = moment.into();
        self.arrived = arrived;
        let Some(Start::Request { method, .. }) = scan.start else { return };
        let is_own = self.calls.get(token.key).is_some_and(|call| call.token == token);
        if method == b"ACK" || is_own && self.is_refresh(scan, method, token.key) {
            if is_own {
                self.answer_refresh(now, from, (scan, method), token.key, out);
                self.rest(token.key.index);
            }
            return;
        }
        copy_of(scan, from, b"", &mut self.lines);
        let values = HoleValues::default().with(Hole::Copied, &self.lines);
        let call = self.calls.get_mut(token.key).filter(|call| call.token == token);
        let is_subscriber =
            call.as_ref().is_some_and(|call| matches!(call.scenario, Scenario::Subscribe { .. }));
        let is_changing = call.as_ref().is_some_and(|call| {
            let is_refreshing = call.refresh.as_ref().is_some_and(|refresh| refresh.own.is_inviting());
            let is_asking =
                matches!(call.phase, CallerPhase::Calling | CallerPhase::Proceeding | CallerPhase::Changing);
            (is_asking || is_refreshing) && !is_subscriber
        });
        let (is_there, is_past) = (call.is_some(), self.calls.is_past(token.key));
        let is_known = is_there || is_past;
        self.strays += u64::from(!is_known);
        let template = match method {
            b"BYE" if is_known => &self.responses.ok,
            // The last NOTIFY may be retransmitted.
            b"NOTIFY" if is_subscriber || (is_past && !is_there) => &self.responses.ok,
            _ if !is_known => &self.responses.unknown,
            _ => {
                let (template, status) = match method {
                    // "A UAS that receives an INVITE on a dialog while an INVITE it had sent on that dialog is in progress
                    // MUST return a 491" (RFC 3261 section 14.2).
                    b"INVITE" if is_changing => (&self.responses.pending, 491),
                    _ => self.responses.unrequested(method),
                };
                out.unrequested(method, status);
                template
            }
        };
        out.messages.write(from, MessageConnection::Back, template, &values);
        match method {
            b"NOTIFY" if is_subscriber => self.notified(scan, token.key, out),
            b"BYE" => self.hung_up(scan, token, out),
            _ => {}
        }
        self.rest(token.key.index);
    }

    /// Ends a call whose other side has sent BYE.
    fn hung_up(&mut self, scan: &Scan<'_>, token: Token, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(token.key).filter(|call| call.token == token) else { return };
        let is_held = matches!(call.phase, CallerPhase::Holding | CallerPhase::Changing);
        // The BYE may belong to a further dialog of a forked call.
        if is_held && call.remote_tag() == scan.from_tag {
            stamp(&mut call.stamps.ended, self.arrived);
            call.failure = call.failure.or(Some(Failure::EndedByPeer));
            self.finish(token.key, out);
        }
    }

    /// Sets the time stamp of a request to its departure, and restarts its timers, at `at` (see
    /// [`Outbox::departing`](super::Outbox::departing)).
    pub fn handle_departure(&mut self, at: Instant, (token, departure): (Token, Departure)) {
        let Some(call) = self.calls.get_mut(token.key).filter(|call| call.token == token) else { return };
        call.stamps.depart(departure, at);
        if call.timers.end.is_running() {
            self.time(at, token.key);
        }
    }

    /// Handles the loss of a connection to `server`, or an unreachable server. Requests that wait for a response on
    /// this connection fail, or go to the next server. An answered call continues: its BYE may use another connection.
    pub fn handle_disconnection(
        &mut self,
        now: Instant,
        (server, whose): (SocketAddr, ConnectionScope),
        why: Broken,
        out: &mut LoadOutput,
    ) {
        self.arrived = now;
        let concerned: Vec<Key> = match whose {
            ConnectionScope::All => self.calls.keys().collect(),
            ConnectionScope::User(user) => {
                let is_theirs = |key: &Key| self.calls.get(*key).is_some_and(|call| call.user == user);
                self.calls.keys().filter(is_theirs).collect()
            }
            ConnectionScope::Attempt(token) => self
                .calls
                .get(token.key)
                .filter(|call| call.token == token)
                .map(|_| token.key)
                .into_iter()
                .collect(),
        };
        for key in concerned {
            self.leave_tcp(now, (server, why), key, out);
            let Some(call) = self.calls.get_mut(key) else { continue };
            let asked = match call.phase {
                CallerPhase::Waiting
                | CallerPhase::Holding
                | CallerPhase::Refused
                | CallerPhase::Forked { .. }
                | CallerPhase::Released => {
                    continue;
                }
                CallerPhase::Changing | CallerPhase::Ending => call.next_hop,
                _ => {
                    let cseq = call.cseq;
                    let Some(call) = self.calls.get(key) else { continue };
                    self.asked_with(call, cseq)
                }
            };
            let Some(call) = self.calls.get(key) else { continue };
            let is_its_own =
                !self.setup.has_two_transports() || call.is_over_tcp == (why != Broken::Undelivered);
            if asked != server || !is_its_own {
                continue;
            }
            if !self.fail_over(now, key, out) && !self.move_on(now, key, out) {
                let Some(call) = self.calls.get_mut(key) else { continue };
                stamp(&mut call.stamps.ended, now);
                call.failure = call.failure.or(Some(Failure::Connection(why)));
                self.finish(key, out);
            }
            self.rest(key.index);
        }
    }

    /// Handles a server that refuses TCP connections, for a load over UDP: "the element SHOULD retry the request,
    /// using UDP" (RFC 3261 section 18.1.1). Later requests of the call go over UDP too, whatever their length.
    fn leave_tcp(
        &mut self,
        now: Instant,
        (server, why): (SocketAddr, Broken),
        key: Key,
        out: &mut LoadOutput,
    ) {
        let is_refused = self.setup.has_two_transports() && why == Broken::Refused;
        let Some(call) = self.calls.get(key).filter(|call| is_refused && !call.stays_on_udp) else { return };
        if server != call.next_hop && server != self.asked_with(call, call.cseq) {
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        call.stays_on_udp = true;
        let is_waiting = call.is_over_tcp && call.timers.end.is_running();
        let is_refreshing =
            call.refresh.as_ref().is_some_and(|refresh| refresh.own.is_over_tcp && refresh.own.cseq != 0);
        if is_waiting {
            let sent = call.awaited();
            self.send_timed(now, key, sent, out);
        }
        if is_refreshing {
            self.ask_refresh(now, key, out);
        }
        self.rest(key.index);
    }

    /// `CSeq` number of the pending request of this transaction. If there is none, the number in the response.
    fn number_asked(&self, key: Key, said: CSeq<'_>, transaction: u16) -> u32 {
        let Some(call) = self.calls.get(key) else { return said.number };
        let own = match said.method {
            b"INVITE" | b"CANCEL" => call.invite,
            b"PRACK" => call.prack,
            _ => call.cseq,
        };
        if number_of(own) == number_of(transaction.into()) { own } else { said.number }
    }

    /// Fails a call for which a message was received that breaks a rule.
    fn broken(&mut self, key: Key, rule: &'static str) {
        if let Some(call) = self.calls.get_mut(key) {
            call.failure = call.failure.or(Some(Failure::Rule(rule)));
        }
    }

    /// Address of record of a peer.
    fn address_of(&self, peer: u32) -> Vec<u8> {
        [b"sip:", self.names.of(peer).as_bytes(), b"@", self.setup.domain.as_bytes()].concat()
    }

    fn server_of(&self, key: Key) -> u8 {
        self.calls.get(key).map_or(0, |call| call.server)
    }

    /// Takes the challenges of a response. If they can be answered, the next request has the next `CSeq` and the
    /// credentials. Returns whether they can.
    fn authorize(&mut self, scan: &Scan<'_>, key: Key) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        let [name, password] = [self.names.of(call.user), self.passwords.of(call.user)];
        if !Proof::challenged(&mut call.proof, scan, name.as_bytes(), password.as_bytes()) {
            return false;
        }
        call.counts.challenges += 1;
        call.cseq += 1;
        true
    }

    /// Notes that the credentials of a request were accepted, and checks the server's proof that it knows the password.
    fn proven(&mut self, scan: &Scan<'_>, (status, cseq): (u16, u32), key: Key) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Some(proof) = &mut call.proof else { return };
        if status > 100
            && !is_challenge(status)
            && let Err(rule) = proof.accepted(scan, cseq)
        {
            call.failure = call.failure.or(Some(Failure::Rule(rule)));
        }
    }

    /// Handles the expired timers of one call.
    fn due(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let timing = self.setup.timing;
        if self.refresh_due(now, key, out) {
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.timers.end.has_come(now) {
            return self.given_up(now, key, out);
        }
        let is_invite = match call.phase {
            CallerPhase::Calling => true,
            CallerPhase::Changing => !matches!(call.scenario, Scenario::Subscribe { .. }),
            _ => false,
        };
        if call.timers.again.has_come(now, (!is_invite).then_some(timing.t2)) {
            call.counts.requests_again += 1;
            let sent = call.awaited();
            self.write(key, sent, out);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.timers.act.has_come(now) {
            match (call.phase, call.scenario) {
                (CallerPhase::Waiting, _) => self.retry(now, key, out),
                (CallerPhase::Holding, Scenario::Subscribe { .. }) => self.resubscribe(now, key, out),
                (CallerPhase::Holding, Scenario::Reinvite { .. }) if call.step < 2 => {
                    self.change(now, key, out)
                }
                (CallerPhase::Holding, _) => self.hang_up(now, key, out),
                (CallerPhase::Changing, _) => {
                    let failure =
                        if call.is_change_rung { Failure::RangTooLong } else { Failure::OnlyTrying };
                    call.failure = call.failure.or(Some(failure));
                    self.hang_up(now, key, out);
                }
                _ => self.cancel(now, key, out),
            }
        }
    }

    /// Handles a transaction that has timed out.
    fn given_up(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_subscriber = matches!(call.scenario, Scenario::Subscribe { .. });
        let timer = match call.phase {
            CallerPhase::Refused | CallerPhase::Released => return self.forget(key),
            CallerPhase::Forked { is_told } => return self.forked_out(now, key, is_told, out),
            CallerPhase::Proceeding | CallerPhase::Holding if call.prack != 0 => {
                return self.unacknowledged(now, key);
            }
            CallerPhase::Holding => Timer::N,
            CallerPhase::Ending if is_subscriber && call.stamps.ended != Instant::NEVER => Timer::N,
            CallerPhase::Calling => Timer::B,
            CallerPhase::Changing if !is_subscriber => Timer::B,
            _ => Timer::F,
        };
        let failure = match call.phase {
            CallerPhase::Cancelling if call.is_cancel_answered => Failure::NoFinal,
            _ => Failure::TimedOut(timer),
        };
        if self.fail_over(now, key, out) || self.move_on(now, key, out) {
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        call.failure = call.failure.or(Some(failure));
        if call.phase == CallerPhase::Changing && !is_subscriber {
            // "A UAC SHOULD also terminate a dialog if no response at all is received for the request" (RFC 3261 section
            // 12.2.1.2).
            return self.hang_up(now, key, out);
        }
        if call.phase == CallerPhase::Ending && !is_subscriber {
            stamp(&mut call.stamps.unended, now);
        }
        self.finish(key, out);
    }

    fn finish(&mut self, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.refresh = None;
        if call.token.key != key {
            return self.release(key, out);
        }
        if call.may_fork() {
            return self.linger(key, out);
        }
        out.records.push(record(call));
        self.forget(key);
    }

    fn forget(&mut self, key: Key) {
        if let Some(call) = self.calls.remove(key) {
            self.wheel.cancel(key.index);
            if !self.redirects.is_empty() {
                self.redirects.remove(&key);
            }
            if call.token.key != key {
                let tag = call.remote_tag().unwrap_or_default();
                self.forks.remove(&(call.token.key, tag.into()));
            }
        }
    }
}

impl Timed for Caller {
    fn wheel(&mut self) -> &mut Wheel {
        &mut self.wheel
    }

    fn next_of(&self, index: u32) -> Option<Instant> {
        let call = self.calls.get(self.calls.key_at(index)?)?;
        let refresh = call.refresh.as_ref().and_then(|refresh| refresh.next());
        Some(call.timers.next().min(refresh.unwrap_or(Instant::NEVER)))
    }

    fn do_due(&mut self, now: Instant, index: u32, out: &mut LoadOutput) {
        if let Some(key) = self.calls.key_at(index) {
            self.due(now, key, out);
        }
    }
}

fn record(call: &CallerCall) -> Record {
    let CallerCall { token, scenario, user, failure, status, stamps, counts, .. } = *call;
    let lookup = call.located.as_ref().map(|located| located.took);
    Record { token, side: Side::Caller, what: scenario.what(), user, failure, status, stamps, counts, lookup }
}
