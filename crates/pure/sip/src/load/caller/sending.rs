//! Requests of a call: each with its template, `CSeq`, branch and timers.

use std::net::SocketAddr;

use netrig_core::Instant;

use super::super::messages::{InitialRequests, Requests};
use super::super::output::{LoadOutput, MessageConnection};
use super::super::scan::Scan;
use super::super::template::{Hole, HoleValues, Template};
use super::{CallTimers, Caller, CallerCall, CallerPhase, Key, Scenario, Timed, Token};
use crate::Method;
use crate::deadline::Deadline;
use crate::digits::Decimal;
use crate::record::{Departure, Failure, acknowledgement, stamp, transaction};

/// A request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRequest {
    Invite,
    Cancel,
    /// ACK of a 2xx to the INVITE with this `CSeq`.
    Acknowledge(u32),
    Prack,
    /// An INVITE within the dialog.
    Change,
    /// An INVITE or UPDATE that refreshes the session.
    Refresh,
    Bye,
    /// OPTIONS, MESSAGE or the first SUBSCRIBE.
    Ask,
    /// A later SUBSCRIBE.
    Subscribe,
}

/// `CSeq` of the last refresh.
fn refresh_number(call: &CallerCall) -> u32 {
    call.refresh.as_ref().map_or(0, |refresh| refresh.own.last)
}

/// Whether refreshes are UPDATEs.
fn takes_update(call: &CallerCall) -> bool {
    call.refresh.as_ref().is_some_and(|refresh| refresh.own.by_update)
}

impl CallerCall {
    /// The request that waits for a response.
    pub(super) const fn awaited(&self) -> CallRequest {
        match (self.phase, self.scenario) {
            (CallerPhase::Calling, _) => CallRequest::Invite,
            (CallerPhase::Cancelling, _) => CallRequest::Cancel,
            (CallerPhase::Asking, _) => CallRequest::Ask,
            (CallerPhase::Changing | CallerPhase::Ending, Scenario::Subscribe { .. }) => {
                CallRequest::Subscribe
            }
            (CallerPhase::Changing, _) => CallRequest::Change,
            (CallerPhase::Ending, _) => CallRequest::Bye,
            _ => CallRequest::Prack,
        }
    }
}

impl Caller {
    /// Sends the first request of the scenario: initially, again with credentials, or to the next server.
    pub(super) fn ask(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        // The condition of the scenario must be met by this request.
        call.is_met = false;
        let sent = if call.phase == CallerPhase::Asking { CallRequest::Ask } else { CallRequest::Invite };
        if sent == CallRequest::Invite {
            call.phase = CallerPhase::Calling;
            call.invite = call.cseq;
        }
        self.send(now, key, sent, out);
    }

    /// Sends the first request to the next server, if the request has no final response and was not redirected. Returns
    /// whether it was sent.
    pub(super) fn fail_over(&mut self, now: Instant, key: Key, out: &mut LoadOutput) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        let next = self.setup.server(call.located.as_deref(), call.server.saturating_add(1));
        let Some(next) = next.filter(|_| call.server < 7) else { return false };
        if !matches!(call.phase, CallerPhase::Calling | CallerPhase::Proceeding | CallerPhase::Asking)
            || call.counts.redirected > 0
        {
            return false;
        }
        (call.server, call.next_hop) = (call.server + 1, next);
        call.counts.failed_over += 1;
        // The next server has sent neither the challenges nor any response.
        call.proof = None;
        (call.stamps.trying, call.stamps.ringing) = (Instant::NEVER, Instant::NEVER);
        (call.prack, call.rseq) = (0, 0);
        self.ask(now, key, out);
        true
    }

    /// Cancels a call that is not answered.
    pub(super) fn cancel(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.cancelling, now);
        if !matches!(call.scenario, Scenario::Cancel { .. } | Scenario::NoAnswer { .. }) {
            let has_rung = call.stamps.ringing != Instant::NEVER;
            let failure = if has_rung { Failure::RangTooLong } else { Failure::OnlyTrying };
            call.failure = call.failure.or(Some(failure));
        }
        (call.phase, call.prack) = (CallerPhase::Cancelling, 0);
        self.send(now, key, CallRequest::Cancel, out);
    }

    /// Sends the BYE of an answered call.
    pub(super) fn hang_up(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.ending, now);
        (call.phase, call.prack, call.refresh) = (CallerPhase::Ending, 0, None);
        self.send_next(now, key, CallRequest::Bye, out);
    }

    /// Sends a request within the dialog with the next `CSeq`. It has credentials only if the server has given a
    /// nonce for it.
    pub(super) fn send_next(&mut self, now: Instant, key: Key, sent: CallRequest, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.cseq += 1;
        call.proof = call.proof.take().filter(|proof| proof.goes_on());
        self.send(now, key, sent, out);
    }

    /// Sends a request and starts its timers: A and B, or E and F.
    pub(super) fn send(&mut self, now: Instant, key: Key, sent: CallRequest, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.timers = CallTimers::default();
        self.send_timed(now, key, sent, out);
        self.rest(key.index);
    }

    /// Sends a request with its credentials and timers, without stopping the other timers of the call.
    pub(super) fn send_timed(&mut self, now: Instant, key: Key, sent: CallRequest, out: &mut LoadOutput) {
        self.prove(key, sent);
        let is_over_tcp = self.write(key, sent, out);
        let Some(call) = self.calls.get_mut(key) else { return };
        call.is_over_tcp = is_over_tcp;
        if matches!(sent, CallRequest::Invite | CallRequest::Change) {
            call.is_invite_over_tcp = is_over_tcp;
        }
        self.time(now, key);
        self.stamp_departure(now, key, sent, out);
    }

    /// Marks the message that was written last if its departure sets a time stamp of the record.
    pub(super) fn stamp_departure(&self, now: Instant, key: Key, sent: CallRequest, out: &mut LoadOutput) {
        // Further dialogs of a forked call have no record.
        let Some(CallerCall { stamps, .. }) = self.calls.get(key).filter(|call| call.token.key == key) else {
            return;
        };
        let (stamped, departure) = match sent {
            CallRequest::Invite | CallRequest::Ask => (stamps.request, Departure::Request),
            CallRequest::Prack | CallRequest::Change => (stamps.changing, Departure::Changing),
            CallRequest::Cancel => (stamps.cancelling, Departure::Cancelling),
            CallRequest::Bye | CallRequest::Subscribe => (stamps.ending, Departure::Ending),
            CallRequest::Acknowledge(_) | CallRequest::Refresh => return,
        };
        if stamped == now {
            out.messages.departs(departure);
        }
    }

    /// Starts the timers of the request that is sent now.
    pub(super) fn time(&mut self, now: Instant, key: Key) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.timers.again = self.setup.first_repetition(now, call.is_over_tcp);
        call.timers.end = Deadline::after(now, self.setup.timing.patience());
    }

    /// Computes the credentials of a request at its first transmission. Retransmissions reuse them.
    pub(super) fn prove(&mut self, key: Key, sent: CallRequest) {
        let Some(call) = self.calls.get_mut(key).filter(|call| call.proof.is_some()) else { return };
        let (method, number) = match sent {
            CallRequest::Cancel | CallRequest::Acknowledge(_) => return,
            CallRequest::Invite | CallRequest::Change => (Method::Invite, call.invite),
            CallRequest::Prack => (Method::Prack, call.prack),
            CallRequest::Refresh if takes_update(call) => (Method::Update, refresh_number(call)),
            CallRequest::Refresh => (Method::Invite, refresh_number(call)),
            CallRequest::Bye => (Method::Bye, call.cseq),
            CallRequest::Subscribe => (Method::Subscribe, call.cseq),
            CallRequest::Ask => match call.scenario {
                Scenario::Options => (Method::Options, call.cseq),
                Scenario::Subscribe { .. } => (Method::Subscribe, call.cseq),
                _ => (Method::Message, call.cseq),
            },
        };
        let Some(mut proof) = call.proof.take() else { return };
        let Some(call) = self.calls.get(key) else { return };
        let (user, server, token, peer) = (call.user, call.server, call.token, call.peer);
        let uri = match sent {
            CallRequest::Invite | CallRequest::Ask => match self.moved_to(call, number) {
                Some(uri) => uri.to_vec(),
                None => self.address_of(peer),
            },
            _ => call.target.as_bytes().to_vec(),
        };
        let mut draft = LoadOutput::default();
        if proof.needs_body() {
            // The draft has no credentials: the body does not depend on them.
            self.write(key, sent, &mut draft);
        }
        let body = draft.messages.iter().next().map_or(&[][..], |(_, bytes)| Scan::of(bytes).body);
        let cnonce = Token { key, ..token }.branch(transaction(number, server));
        let lines = proof.lines_of((&method, number), &uri, body, &cnonce, (user, &mut self.nonces));
        if sent == CallRequest::Prack {
            proof.acknowledging = lines;
        } else {
            proof.lines = lines;
        }
        if let Some(call) = self.calls.get_mut(key) {
            call.proof = Some(proof);
        }
    }

    /// Writes a request. Returns whether it goes over TCP in a load over UDP.
    pub(super) fn write(&self, key: Key, sent: CallRequest, out: &mut LoadOutput) -> bool {
        let Some(call) = self.calls.get(key) else { return false };
        let own = transaction(call.cseq, call.server);
        let inviting = transaction(call.invite, call.server);
        let (template, cseq, transaction) = match sent {
            CallRequest::Invite => (self.invite_of(call), call.invite, inviting),
            CallRequest::Cancel => {
                (&self.initial_requests_of(call, call.invite).cancel, call.invite, inviting)
            }
            CallRequest::Acknowledge(cseq) => {
                (self.acknowledgement_of(call, cseq), cseq, acknowledgement(cseq, call.server))
            }
            CallRequest::Prack => (&self.requests.prack, call.prack, transaction(call.prack, call.server)),
            CallRequest::Change => (self.change_of(call), call.invite, inviting),
            CallRequest::Refresh => {
                let Requests { update, refresh, .. } = &self.requests;
                let number = refresh_number(call);
                let template = if takes_update(call) { update } else { refresh };
                (template, number, transaction(number, call.server))
            }
            CallRequest::Bye => (&self.requests.bye, call.cseq, own),
            CallRequest::Ask => (self.question_of(call), call.cseq, own),
            CallRequest::Subscribe => (&self.requests.resubscribe, call.cseq, own),
        };
        let authorization = match sent {
            // RFC 3261 section 22.1: a CANCEL is not challenged, and an ACK has the credentials of its INVITE.
            CallRequest::Cancel => &[],
            CallRequest::Prack => call.proof.as_deref().map_or(&[][..], |proof| &proof.acknowledging),
            _ => call.proof.as_deref().map_or(&[][..], |proof| &proof.lines),
        };
        let session = self.session_of(call, sent);
        let target = match sent {
            CallRequest::Invite | CallRequest::Cancel | CallRequest::Ask => {
                self.moved_to(call, cseq).unwrap_or_default()
            }
            _ => call.target.as_bytes(),
        };
        let values = HoleValues::default()
            .with(Hole::Target, target)
            .with(Hole::Routes, call.routes.as_bytes())
            .with(Hole::Remote, call.remote.as_bytes())
            .with(Hole::Session, session.as_bytes())
            .with(Hole::Authorization, authorization);
        let to = match sent {
            CallRequest::Invite | CallRequest::Cancel | CallRequest::Ask => self.asked_with(call, cseq),
            _ => call.next_hop,
        };
        match sent {
            CallRequest::Invite | CallRequest::Cancel | CallRequest::Acknowledge(_) | CallRequest::Bye => {
                self.put((call, key), template, (cseq, transaction), values, to, out);
            }
            _ => self.put_more((call, key), template, (cseq, transaction), values, to, out),
        }
        match sent {
            // A CANCEL takes the transport of its INVITE (RFC 3261 section 9.1).
            CallRequest::Cancel if call.is_invite_over_tcp => {
                out.messages.send_over_tcp();
                true
            }
            _ if call.stays_on_udp => false,
            // A request within the dialog uses the transport of the next hop's URI (RFC 3263 section 4.1).
            CallRequest::Acknowledge(_)
            | CallRequest::Prack
            | CallRequest::Change
            | CallRequest::Refresh
            | CallRequest::Bye
            | CallRequest::Subscribe
                if call.is_dialog_over_tcp =>
            {
                out.messages.send_over_tcp();
                true
            }
            _ => self.setup.send_large_over_tcp(out),
        }
    }

    fn initial_requests_of(&self, call: &CallerCall, cseq: u32) -> &InitialRequests {
        self.requests.initial(self.moved_to(call, cseq).is_some())
    }

    /// Fills in the values that only some requests have, and those of [`Caller::put`].
    fn put_more(
        &self,
        (call, key): (&CallerCall, Key),
        template: &Template,
        which: (u32, u16),
        values: HoleValues<'_>,
        to: SocketAddr,
        out: &mut LoadOutput,
    ) {
        let expires = match call.scenario {
            Scenario::Subscribe { expires, .. } if call.phase != CallerPhase::Ending => expires,
            _ => 0,
        };
        let (expires, version) = (Decimal::new(expires.into()), Decimal::new(u64::from(call.step) + 1));
        let acknowledged = format!("{} {} INVITE", call.rseq, call.invite);
        let values = values
            .with(Hole::Expires, expires.as_bytes())
            .with(Hole::Body, version.as_bytes())
            .with(Hole::Reliable, acknowledged.as_bytes());
        self.put((call, key), template, which, values, to, out);
    }

    fn invite_of(&self, call: &CallerCall) -> &Template {
        let InitialRequests { invite, invite_bare, invite_reliably, .. } =
            self.initial_requests_of(call, call.invite);
        match call.scenario {
            Scenario::DelayedOffer { .. } => invite_bare,
            Scenario::Prack { .. } => invite_reliably,
            _ => invite,
        }
    }

    const fn acknowledgement_of(&self, call: &CallerCall, cseq: u32) -> &Template {
        match call.scenario {
            // An INVITE that refreshes the session has an offer.
            Scenario::DelayedOffer { .. } if cseq == call.invite => &self.requests.answer,
            _ => &self.requests.acknowledge,
        }
    }

    const fn change_of(&self, call: &CallerCall) -> &Template {
        if call.step == 1 { &self.requests.hold } else { &self.requests.resume }
    }

    fn question_of(&self, call: &CallerCall) -> &Template {
        let InitialRequests { options, message, subscribe, .. } = self.initial_requests_of(call, call.cseq);
        match call.scenario {
            Scenario::Options => options,
            Scenario::Subscribe { .. } => subscribe,
            _ => message,
        }
    }

    /// Fills in the values that all requests have, and writes the request.
    pub(super) fn put(
        &self,
        (call, key): (&CallerCall, Key),
        template: &Template,
        (cseq, transaction): (u32, u16),
        values: HoleValues<'_>,
        to: SocketAddr,
        out: &mut LoadOutput,
    ) {
        let [user, peer] = [call.user, call.peer].map(|number| self.names.of(number));
        let own = Token { key, ..call.token };
        let (name, branch, cseq) = (call.token.digits(), own.branch(transaction), Decimal::new(cseq.into()));
        let values = values
            .with(Hole::User, user.as_bytes())
            .with(Hole::Peer, peer.as_bytes())
            .with(Hole::CallId, &name)
            .with(Hole::Tag, &name)
            .with(Hole::Branch, &branch)
            .with(Hole::CSeq, cseq.as_bytes());
        let way = MessageConnection::Of { user: call.user, attempt: call.token };
        out.messages.write(to, way, template, &values);
    }
}
