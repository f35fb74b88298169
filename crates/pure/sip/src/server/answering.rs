//! An answering machine: a user agent server without a person (RFC 3261 sections 8.2 and 13.3).

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Duration, Instant, Stream};

use super::answering_policy::{Answer, AnsweringPolicy, ProgressResponse};
use super::authentication::unknown_options;
use super::element::Element;
use super::incoming_call::{IncomingCall, SessionState, granted, too_small};
use super::offers::{answer_offer, body_types, describe, description, not_understood};
use super::plain::{PlainCalls, PlainRequestInfo, PlainResponses};
use super::reply::{add_capabilities, allow, is_readable, reply, unsupported, with_allow};
use super::transactions::{ElementEvent, Transactions, weight_of};
use super::{Destination, Domain, Source};
use crate::dialog::{
    Acceptance, AcceptanceOutcome, Dialog, DialogId, DialogState, IntervalTooSmall, ProvisionalSender,
    RELIABLE, RequestRefusal, TIMER, is_sips, needs_sips,
};
use crate::header::{NameAddr, Transport};
use crate::sdp::SDP_TYPE;
use crate::transaction::{ClientKey, ServerKey, Timing};
use crate::{Message, Method, Name, Request, Response, Scheme, SipUri, Status, Uri};

/// The supported methods.
pub(super) const ALLOWED: [Method; 8] = [
    Method::Invite,
    Method::Ack,
    Method::Cancel,
    Method::Bye,
    Method::Options,
    Method::Prack,
    Method::Update,
    Method::Message,
];

/// "To prevent cancellation, the UAS MUST send a non-100 provisional response at every minute" (RFC 3261 section 13.3.1.1).
const EXTENSION: Duration = Duration::from_secs(60);

/// A user agent server that answers calls by a policy.
#[derive(Debug)]
pub struct AnsweringMachine {
    pub(super) domain: Domain,
    pub(super) manners: AnsweringPolicy,
    pub(super) random: Stream,
    pub(super) most: usize,
    pub(super) transactions: Transactions,
    /// Boxed, so that insertion and removal in the tree move pointers.
    pub(super) calls: BTreeMap<DialogId, Box<IncomingCall>>,
    /// Weight of these calls. A call with a long INVITE has the weight of several.
    pub(super) strict_weight: usize,
    /// The policy allows the fast path: see [`AnsweringPolicy::answers_at_once`].
    pub(super) is_plain: bool,
    /// Calls of the fast path.
    pub(super) plain: Option<PlainCalls>,
    /// Tag of the call whose journal the strict model replays.
    pub(super) replayed_tag: Option<u64>,
    /// The call of each INVITE that has a transaction.
    invites: BTreeMap<ServerKey, DialogId>,
    /// Refreshes of sessions that have a transaction.
    pub(super) refreshes: BTreeMap<ClientKey, (DialogId, Request)>,
    due: BTreeSet<(Instant, DialogId)>,
}

impl AnsweringMachine {
    /// A machine that listens at the addresses of `domain`, with at most `most` calls at once.
    pub fn new(
        domain: Domain,
        manners: AnsweringPolicy,
        most: usize,
        timing: Timing,
        random: Stream,
    ) -> Self {
        Self {
            is_plain: manners.answers_at_once(),
            plain: None,
            replayed_tag: None,
            domain,
            manners,
            random,
            most,
            transactions: Transactions::of_user_agent(most.saturating_mul(4), timing),
            calls: BTreeMap::new(),
            strict_weight: 0,
            invites: BTreeMap::new(),
            refreshes: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Number of calls that have not ended.
    pub fn calls(&self) -> usize {
        self.calls.len() + self.plain.as_ref().map_or(0, |plain| plain.active)
    }

    fn request(&mut self, now: Instant, key: ServerKey, request: &Request) {
        if request.method == Method::Ack {
            self.handle_ack(now, request);
            return;
        }
        match self.response_outside_call(now, &key, request) {
            Ok(Some(response)) => self.transactions.respond(now, &key, response),
            Ok(None) => self.begin(now, key, request),
            Err(refusal) => {
                let mut response = refusal.response(request);
                if let Some(to) = reply(request, refusal.status).headers.get(&Name::To) {
                    response.headers.set(Name::To, to);
                }
                self.transactions.respond(now, &key, response);
            }
        }
    }

    /// The response to a request; `None` for an INVITE that begins a call.
    fn response_outside_call(
        &mut self,
        now: Instant,
        key: &ServerKey,
        request: &Request,
    ) -> Result<Option<Response>, RequestRefusal> {
        if !is_readable(request) {
            return Ok(Some(reply(request, Status::BAD_REQUEST)));
        }
        // "it MUST generate a 405 (Method Not Allowed) response", with "an Allow header field" (RFC 3261 section 8.2.1).
        if !ALLOWED.contains(&request.method) {
            return Ok(Some(with_allow(reply(request, Status::METHOD_NOT_ALLOWED), &ALLOWED)));
        }
        if request.method == Method::Cancel {
            return Ok(Some(self.handle_cancel(now, key, request)));
        }
        // A SIPS URI has an unknown scheme for a user agent without TLS.
        if request.uri.as_sip().is_none() || is_sips(&request.uri) && !self.domain.is_secure() {
            return Ok(Some(reply(request, Status::UNSUPPORTED_URI_SCHEME)));
        }
        let unknown = unknown_options(request, &Name::Require, &[RELIABLE, TIMER]);
        if !unknown.is_empty() {
            return Ok(Some(unsupported(request, &unknown)));
        }
        match DialogId::of_request(request) {
            Some(id) => self.within(now, key, &id, request).map(Some),
            None if request.method == Method::Invite => Ok(None),
            None if request.method == Method::Options => Ok(Some(capable(reply(request, Status::OK)))),
            None if request.method == Method::Message => {
                Ok(Some(with_allow(reply(request, Status::OK), &ALLOWED)))
            }
            None => Ok(Some(reply(request, Status::CALL_DOES_NOT_EXIST))),
        }
    }

    /// The response to a request within a dialog.
    fn within(
        &mut self,
        now: Instant,
        key: &ServerKey,
        id: &DialogId,
        request: &Request,
    ) -> Result<Response, RequestRefusal> {
        let Some(call) = self.calls.get_mut(id) else {
            return Ok(reply(request, Status::CALL_DOES_NOT_EXIST));
        };
        call.dialog.handle_request(request, &mut self.random)?;
        let mut response = reply(request, Status::OK);
        let grant = match granted(request) {
            Ok(grant) => grant,
            Err(IntervalTooSmall) if matches!(request.method, Method::Invite | Method::Update) => {
                call.dialog.answered(request);
                return Ok(too_small(request));
            }
            Err(IntervalTooSmall) => None,
        };
        match request.method {
            Method::Prack => {
                let Some(provisionals) = &mut call.provisionals else {
                    return Ok(reply(request, Status::CALL_DOES_NOT_EXIST));
                };
                provisionals.handle_request(now, request)?;
                // If this side sent the offer in the acknowledged response, the PRACK has the answer. Any other PRACK
                // may have an offer (RFC 3262 section 5).
                if !request.body.is_empty() && !call.invite.body.is_empty() {
                    answer_offer(&self.manners, call, request, &mut response);
                }
            }
            Method::Update => {
                if !request.body.is_empty() {
                    call.refuse_crossing_offer(&mut self.random)?;
                    answer_offer(&self.manners, call, request, &mut response);
                }
                response.headers.push(Name::Contact, contact(&self.domain, request, call.way_back.as_ref()));
                if call.answered && response.status.is_success() {
                    call.session.renew(now, grant, &mut response);
                }
            }
            Method::Bye => {
                // "It is RECOMMENDED that a 487 (Request Terminated) response be generated to those pending requests" (RFC 3261
                // section 15.1.2).
                if !call.answered {
                    let terminated = of_call(&call.invite, Status::REQUEST_TERMINATED, id);
                    let invite = call.key.clone();
                    self.transactions.respond(now, &invite, terminated);
                }
                self.forget(id);
                return Ok(response);
            }
            Method::Invite => {
                call.dialog.answered(request);
                answer_offer(&self.manners, call, request, &mut response);
                if !response.status.is_success() {
                    return Ok(response);
                }
                call.way_back = self.transactions.way_back(key);
                response.headers.push(Name::Contact, contact(&self.domain, request, call.way_back.as_ref()));
                call.session.renew(now, grant, &mut response);
                call.acceptance = Some(accepted(now, request, &response, self.transactions.timing()));
            }
            Method::Options => response = capable(response),
            _ => {}
        }
        self.attend(now, id);
        Ok(response)
    }

    fn handle_ack(&mut self, now: Instant, request: &Request) {
        let Some(id) = DialogId::of_request(request) else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(acceptance) = &mut call.acceptance else { return };
        if acceptance.handle_request(now, request) && call.hang_up.is_none() {
            call.hang_up = self.manners.hold.map(|hold| now + hold);
        }
        self.attend(now, &id);
    }

    /// "If the original request was an INVITE, the UAS SHOULD immediately respond to the INVITE with a 487 (Request Terminated)."
    fn handle_cancel(&mut self, now: Instant, key: &ServerKey, request: &Request) -> Response {
        let invite = key.cancelled();
        if !self.transactions.has(&invite) {
            let Some(tag) = self.tag_of_plain(now, request) else {
                return reply(request, Status::CALL_DOES_NOT_EXIST);
            };
            return with_tag(request, Status::OK, &tag);
        }
        let mut response = reply(request, Status::OK);
        if let Some(id) = self.invites.get(&invite).cloned() {
            // "the To tag of the response to the CANCEL and the To tag in the response to the original request SHOULD be the
            // same".
            response = of_call(request, Status::OK, &id);
            if let Some(call) = self.calls.get(&id).filter(|call| !call.answered) {
                let terminated = of_call(&call.invite, Status::REQUEST_TERMINATED, &id);
                self.transactions.respond(now, &invite, terminated);
                self.forget(&id);
            }
        }
        response
    }

    fn begin(&mut self, now: Instant, key: ServerKey, request: &Request) {
        let refuse = |status| reply(request, status);
        let weight = weight_of(request);
        if self.weight() + weight > self.most {
            self.transactions.respond(now, &key, refuse(Status::SERVICE_UNAVAILABLE));
            return;
        }
        let accepted = if accepts_descriptions(request) { Ok(()) } else { Err(Status::NOT_ACCEPTABLE) };
        let description = match accepted.and_then(|()| description(&self.manners, request)) {
            Ok(description) => description,
            Err(status) => {
                self.transactions.respond(now, &key, not_understood(request, status));
                return;
            }
        };
        let Ok(session) = SessionState::of(request) else {
            self.transactions.respond(now, &key, too_small(request));
            return;
        };
        let tag = format!("{:016x}", self.replayed_tag.unwrap_or_else(|| self.random.bits()));
        let mut ringing = request.response(Status::RINGING);
        ringing.headers.add_to_tag(&tag);
        // A 2xx that is retransmitted after the end of its transaction has the same destination.
        let way_back = self.transactions.way_back(&key);
        ringing.headers.push(Name::Contact, contact(&self.domain, request, way_back.as_ref()));
        let Ok(dialog) = Dialog::callee(request, &ringing) else {
            self.transactions.respond(now, &key, refuse(Status::BAD_REQUEST));
            return;
        };
        let (id, timing) = (dialog.id().clone(), self.transactions.timing());
        let expires = request.headers.number(&Name::Expires).ok().flatten();
        let wants = self.manners.reliable || request.headers.has_token(&Name::Require, RELIABLE);
        let provisionals =
            if wants { ProvisionalSender::new(request, timing, &mut self.random) } else { None };
        let call = IncomingCall {
            key: key.clone(),
            invite: request.clone(),
            began: now,
            progress_sent: 0,
            answered: false,
            dialog,
            session,
            provisionals,
            acceptance: None,
            description,
            described: false,
            extended: now + EXTENSION,
            way_back,
            hang_up: None,
            // "If the request is an INVITE that contains an Expires header field, the UAS core sets a timer for the number of
            // seconds indicated in the header field value."
            expires: expires.map(|seconds| now + Duration::from_secs(seconds.into())),
            end: now + self.manners.longest,
            due: None,
            weight,
        };
        self.strict_weight += weight;
        self.invites.insert(key, id.clone());
        self.calls.insert(id.clone(), Box::new(call));
        self.attend(now, &id);
    }

    /// Handles the expired deadlines of a call, and sets the next one.
    pub(super) fn attend(&mut self, now: Instant, id: &DialogId) {
        let Some(mut call) = self.calls.remove(id) else { return };
        let continues = self.work(now, id, &mut call);
        if let Some(before) = call.due.take() {
            self.due.remove(&(before, id.clone()));
        }
        if !continues {
            self.strict_weight -= call.weight;
            return;
        }
        call.due = self.next(&call);
        self.due.extend(call.due.map(|at| (at, id.clone())));
        self.calls.insert(id.clone(), call);
    }

    fn forget(&mut self, id: &DialogId) {
        let Some(call) = self.calls.remove(id) else { return };
        self.strict_weight -= call.weight;
        if let Some(at) = call.due {
            self.due.remove(&(at, id.clone()));
        }
    }

    fn next(&self, call: &IncomingCall) -> Option<Instant> {
        let progress =
            self.manners.progress.get(call.progress_sent).map(|progress| call.began + progress.after);
        let answer = match self.manners.answer {
            Answer::Accept(after) | Answer::Refuse(after, _) => Some(call.began + after),
            Answer::Never => None,
        };
        let is_held = call.provisionals.as_ref().is_some_and(ProvisionalSender::holds_2xx_back);
        let open = [progress, answer.filter(|_| !is_held), call.expires, Some(call.end), Some(call.extended)];
        let open = open.into_iter().flatten().filter(|_| !call.answered);
        let own = [
            call.hang_up,
            call.is_talk().then_some(call.end),
            call.provisionals.as_ref().and_then(ProvisionalSender::poll_timeout),
            call.acceptance.as_ref().and_then(Acceptance::poll_timeout),
            call.session.poll_timeout(),
        ];
        open.chain(own.into_iter().flatten()).min()
    }

    /// Handles the expired deadlines of a call. Returns whether the call continues.
    fn work(&mut self, now: Instant, id: &DialogId, call: &mut IncomingCall) -> bool {
        if !call.answered {
            if now < call.end {
                self.progress(now, id, call);
            }
            if let Some(provisionals) = &mut call.provisionals {
                provisionals.handle_timeout(now);
                while let Some(response) = provisionals.poll_transmit() {
                    self.transactions.respond(now, &call.key, response);
                }
                if provisionals.has_given_up() {
                    self.transactions.respond(
                        now,
                        &call.key,
                        of_call(&call.invite, Status::SERVER_TIMEOUT, id),
                    );
                    return false;
                }
            }
            if call.end <= now {
                let gone = of_call(&call.invite, Status::TEMPORARILY_UNAVAILABLE, id);
                self.transactions.respond(now, &call.key, gone);
                return false;
            }
            // "If the invitation expires before the UAS has generated a final response, a 487 (Request Terminated) response SHOULD
            // be generated."
            if call.expires.is_some_and(|at| at <= now) {
                self.transactions.respond(
                    now,
                    &call.key,
                    of_call(&call.invite, Status::REQUEST_TERMINATED, id),
                );
                return false;
            }
            if !self.answer(now, id, call) {
                return false;
            }
        }
        self.refresh_session(now, id, call);
        self.repeat_2xx(now, call)
    }

    fn progress(&mut self, now: Instant, id: &DialogId, call: &mut IncomingCall) {
        while let Some(progress) =
            self.manners.progress.get(call.progress_sent).filter(|own| call.began + own.after <= now).copied()
        {
            call.progress_sent += 1;
            self.send_progress(now, id, call, progress);
        }
        if call.extended <= now {
            let last = call.progress_sent.checked_sub(1).and_then(|place| self.manners.progress.get(place));
            let status = last.map_or(Status::RINGING, |last| last.status);
            self.send_progress(
                now,
                id,
                call,
                ProgressResponse { after: Duration::ZERO, status, media: false },
            );
        }
    }

    fn send_progress(
        &mut self,
        now: Instant,
        id: &DialogId,
        call: &mut IncomingCall,
        progress: ProgressResponse,
    ) {
        call.extended = now + EXTENSION;
        let mut response = self.establishing(call, progress.status, id);
        if progress.media {
            describe(&mut response, &call.description);
            call.described = true;
        }
        match &mut call.provisionals {
            Some(provisionals) => provisionals.send(now, response),
            None => self.transactions.respond(now, &call.key, response),
        }
    }

    /// Sends the final response if it is due. Returns whether the call continues.
    fn answer(&mut self, now: Instant, id: &DialogId, call: &mut IncomingCall) -> bool {
        match self.manners.answer {
            Answer::Refuse(after, status) if call.began + after <= now => {
                self.transactions.respond(now, &call.key, of_call(&call.invite, status, id));
                false
            }
            Answer::Accept(after) if call.began + after <= now => {
                if call.provisionals.as_ref().is_some_and(ProvisionalSender::holds_2xx_back) {
                    return true;
                }
                let mut response = with_allow(self.establishing(call, Status::OK, id), &ALLOWED);
                call.session.accept(now, &mut response);
                // "If the INVITE request contained an offer, and the UAS had not yet sent an answer, the 2xx MUST contain an
                // answer." An answer in an unreliable response must be repeated.
                if !call.described || call.provisionals.is_none() {
                    describe(&mut response, &call.description);
                }
                call.acceptance = Some(accepted(now, &call.invite, &response, self.transactions.timing()));
                self.transactions.respond(now, &call.key, response);
                call.answered = true;
                call.dialog.accepted();
                if let Some(provisionals) = &mut call.provisionals {
                    provisionals.finish();
                }
                true
            }
            Answer::Accept(_) | Answer::Refuse(..) | Answer::Never => true,
        }
    }

    fn repeat_2xx(&mut self, now: Instant, call: &mut IncomingCall) -> bool {
        if let Some(acceptance) = &mut call.acceptance {
            acceptance.handle_timeout(now);
            if let Some(response) = acceptance.poll_transmit()
                && let Some(to) = call.way_back.clone()
            {
                self.transactions.send_directly(response, to);
            }
            // There was no ACK: "the session SHOULD be terminated. This is accomplished with a BYE".
            if acceptance.outcome() == Some(AcceptanceOutcome::Unacknowledged) {
                call.hang_up = Some(now);
            }
        }
        if call.hang_up.is_some_and(|at| at <= now) || (call.is_talk() && call.end <= now) {
            self.hang_up(now, call);
            return false;
        }
        true
    }

    fn hang_up(&mut self, now: Instant, call: &mut IncomingCall) {
        if call.dialog.state() != DialogState::Confirmed {
            return;
        }
        let Ok(bye) = call.dialog.request(Method::Bye) else { return };
        if let Some(hop) = self.hop_within(bye) {
            let _ = self.transactions.send(now, hop);
        }
    }

    /// A response that establishes a dialog (RFC 3261 section 12.1.1).
    fn establishing(&self, call: &IncomingCall, status: Status, id: &DialogId) -> Response {
        let mut response = of_call(&call.invite, status, id);
        // "the UAS MUST copy all Record-Route header field values from the request into the response".
        for route in call.invite.headers.all(&Name::RecordRoute) {
            response.headers.push(Name::RecordRoute, route);
        }
        response.headers.push(Name::Contact, contact(&self.domain, &call.invite, call.way_back.as_ref()));
        response
    }
}

/// Adds the capabilities to a response to OPTIONS.
fn capable(mut response: Response) -> Response {
    allow(&mut response.headers, &ALLOWED);
    add_capabilities(&mut response.headers, &body_types(), &format!("{RELIABLE}, {TIMER}"));
    response
}

/// Whether the sender accepts a session description in the response, the default without Accept (RFC 3261 section 20.1).
fn accepts_descriptions(request: &Request) -> bool {
    let mut types = request
        .headers
        .all(&Name::Accept)
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    request.headers.get(&Name::Accept).is_none()
        || types.any(|kind| ["*/*", "application/*", SDP_TYPE].contains(&&*kind))
}

/// The retransmission of a 2xx. The transaction sends the 2xx for the first time.
fn accepted(now: Instant, invite: &Request, response: &Response, timing: Timing) -> Acceptance {
    let mut acceptance = Acceptance::new(now, invite, response.clone(), timing);
    let _ = acceptance.poll_transmit();
    acceptance
}

/// A response with the tag of the call.
fn of_call(request: &Request, status: Status, id: &DialogId) -> Response {
    with_tag(request, status, &id.local_tag)
}

fn with_tag(request: &Request, status: Status, tag: &str) -> Response {
    let mut response = request.response(status);
    response.headers.add_to_tag(tag);
    response
}

/// The `Contact` of this side for the dialog of `request`. `way_back` is the destination of its responses.
pub(super) fn contact(domain: &Domain, request: &Request, way_back: Option<&Destination>) -> NameAddr {
    let is_secure = needs_sips(request);
    let own = way_back.map_or(Transport::Udp, Destination::transport);
    let transport = if is_secure { Transport::Tls } else { own };
    let (host, port) = domain.listens_at(transport, way_back.and_then(Destination::ip));
    let mut uri = SipUri::new(host);
    uri.port = port;
    if is_secure {
        uri.scheme = Scheme::Sips;
    } else if transport != Transport::Udp {
        uri.parameters.set("transport", Some(&transport.name().to_lowercase()));
    }
    NameAddr::new(Uri::Sip(uri))
}

impl Element for AnsweringMachine {
    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions {
        &mut self.transactions
    }

    fn handle_event(&mut self, now: Instant, event: ElementEvent) {
        match event {
            ElementEvent::Request(key, request) => self.request(now, key, &request),
            // The response to a BYE is ignored: its call has ended.
            ElementEvent::Response(key, response) => self.refreshed(now, &key, &response),
            ElementEvent::Failed(key, status) => {
                if let Some((_, request)) = self.refreshes.get(&key) {
                    let response = request.response(status);
                    self.refreshed(now, &key, &response);
                }
            }
            ElementEvent::ClientEnded(key) => {
                self.refreshes.remove(&key);
            }
            ElementEvent::ServerEnded(key) => {
                self.invites.remove(&key);
            }
        }
    }

    fn handle_plain<'a>(
        &mut self,
        now: Instant,
        datagram: &'a [u8],
        from: Source,
        responses: &mut PlainResponses,
    ) -> Option<PlainRequestInfo<'a>> {
        self.answer_plain(now, datagram, from, responses)
    }

    fn intercept(&mut self, now: Instant, message: &Message, from: Source) -> bool {
        self.leave_plain(now, message, from)
    }

    fn next_work(&self) -> Option<Instant> {
        let plain = self.plain.as_ref().and_then(PlainCalls::poll_timeout);
        self.due.first().map(|(at, _)| *at).into_iter().chain(plain).min()
    }

    fn work(&mut self, now: Instant) {
        self.handle_plain_timeout(now);
        while let Some((at, id)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.attend(now, &id);
        }
    }
}
