//! Handling of plain requests by the answering machine.

use bytes::Bytes;
use netrig_core::Instant;

use super::calls::{PlainCall, PlainCalls, PlainPhase, ResponseTail};
use super::request::PlainRequest;
use super::{PlainRequestInfo, PlainResponses};
use crate::digits::put_hex;
use crate::header::CSeq;
use crate::server::answering::{ALLOWED, AnsweringMachine, contact};
use crate::server::answering_policy::AnsweringPolicy;
use crate::server::element::drain;
use crate::server::incoming_call::SessionState;
use crate::server::offers::{describe, description};
use crate::server::reply::with_allow;
use crate::server::transactions::Transactions;
use crate::server::{Destination, Domain, Source};
use crate::slab::Key;
use crate::transaction::{BranchKey, ServerKey};
use crate::{Headers, Message, Method, Name, Request, Response, Status};

/// The end of a response without a body.
const NO_BODY: &[u8] = b"Content-Length: 0\r\n\r\n";

/// The text of a tag, 16 hexadecimal digits.
fn tag_text(tag: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    put_hex(tag, &mut digits);
    digits
}

/// A received plain request.
struct PlainArrival<'a> {
    now: Instant,
    datagram: &'a [u8],
    from: Source,
    /// Destination of its responses.
    reply_to: Source,
    request: PlainRequest<'a>,
    /// Hash of the Call-ID.
    call_id: u128,
    /// Hash of the transaction.
    transaction: u128,
}

impl AnsweringMachine {
    /// As [`Server::handle_plain`](crate::server::Server::handle_plain).
    pub(in crate::server) fn answer_plain<'a>(
        &mut self,
        now: Instant,
        datagram: &'a [u8],
        from: Source,
        responses: &mut PlainResponses,
    ) -> Option<PlainRequestInfo<'a>> {
        if !self.is_plain {
            return None;
        }
        let request = PlainRequest::read(datagram)?;
        let reply_to = request.way_back(from)?;
        let method = if request.method == Method::Ack { Method::Invite } else { request.method.clone() };
        let branch = request.branch_key()?;
        if self.transactions.has_transaction(|| Some(branch.server_key(method))) {
            return None;
        }
        let (timing, longest, random) = (self.transactions.timing(), self.manners.longest, &mut self.random);
        let plain = self.plain.get_or_insert_with(|| PlainCalls::new(timing, longest, random));
        let transaction = plain.transaction_hash(branch);
        let call_id = plain.text_hash(request.call_id);
        let arrival = PlainArrival { now, datagram, from, reply_to, request, call_id, transaction };
        let call = plain.find(call_id);
        let is_handled = match (&arrival.request.method, call) {
            (Method::Invite, Some(key)) => is_absorbed(plain, key, &arrival),
            (Method::Invite, None) if plain.find_invite(now, transaction).is_some() => false,
            (Method::Invite, None) => self.accept_plain(&arrival, responses),
            (Method::Ack, Some(key)) => handle_ack(plain, key, &arrival),
            (Method::Bye, Some(key)) => {
                let has_room = self.transactions.has_room_beside(plain.weight());
                handle_bye(plain, key, &arrival, has_room, responses)
            }
            _ => false,
        };
        is_handled.then(|| arrival.request.info())
    }

    /// Accepts an INVITE if it begins a plain call and there is room. Returns whether the INVITE was accepted.
    fn accept_plain(&mut self, arrival: &PlainArrival<'_>, responses: &mut PlainResponses) -> bool {
        let PlainArrival { now, datagram, from, reply_to, ref request, call_id, transaction } = *arrival;
        let is_call = request.to_tag.is_none() && request.has_contact && request.has_description;
        let has_room = self.weight() < self.most && self.transactions.has_room_beside(self.plain_weight());
        if !is_call || !has_room || self.is_under_way(request) {
            return false;
        }
        let Some(plain) = &mut self.plain else { return false };
        if plain.tail(reply_to, request.body).is_none() {
            let Some(tail) = tail_of(&self.domain, &self.manners, datagram, reply_to) else { return false };
            plain.keep_tail(tail);
        }
        let Some(tail) = plain.tail(reply_to, request.body) else { return false };
        let tag = self.random.bits();
        let digits = tag_text(tag);
        let provisional = self.manners.progress.iter().map(|progress| (progress.status, &tail.provisional));
        // Range of the copied fields in `out`, once the first response is written. They are the same in each response.
        let mut copied = None;
        for (status, tail) in provisional.chain([(Status::OK, &tail.ok)]) {
            responses.push(reply_to, status, |out| {
                if let Some(copied) = copied.clone() {
                    out.extend_from_within(copied);
                } else {
                    let start = out.len();
                    request.write_copied(from, &digits, out);
                    request.write_record_routes(out);
                    copied = Some(start..out.len());
                }
                out.extend_from_slice(tail);
            });
        }
        responses.set_dialog(&digits, request.call_id);
        plain.insert(now, request, [call_id, transaction], (datagram, from), tag);
        true
    }

    /// Whether the strict model handles a request with the same `From` tag, Call-ID and `CSeq` (RFC 3261 section 8.2.2.2).
    fn is_under_way(&self, request: &PlainRequest<'_>) -> bool {
        self.transactions.has_merge_key(|| {
            let cseq = CSeq { number: request.sequence, method: request.method.clone() };
            (request.from_tag.to_owned(), request.call_id.to_owned(), cseq)
        })
    }

    /// Weight of all calls.
    pub(in crate::server) fn weight(&self) -> usize {
        self.strict_weight + self.plain.as_ref().map_or(0, |plain| plain.active)
    }

    fn plain_weight(&self) -> usize {
        self.plain.as_ref().map_or(0, PlainCalls::weight)
    }

    /// Prepares the strict model for a message: gives it the plain calls that the message concerns. Returns whether
    /// this completes the handling of the message: an absorbed INVITE, or a request that is refused with 482.
    pub(in crate::server) fn leave_plain(&mut self, now: Instant, message: &Message, from: Source) -> bool {
        let Some(plain) = &self.plain else { return false };
        let request = message.as_request();
        let call_id = message.headers().get(&Name::CallId).unwrap_or_default();
        let named = plain.find(plain.text_hash(call_id));
        let invited = request.and_then(|request| find_invite_of(plain, now, request));
        let is_open = |key: &Key| plain.get(*key).is_some_and(|call| call.phase != PlainPhase::Terminated);
        let is_absorbed = request.is_some_and(|request| request.method == Method::Invite)
            && invited.is_some_and(|key| !is_open(&key));
        // A request with a transaction is a retransmission.
        let is_new = |request: &Request| {
            let key = || ServerKey::of(request).ok().flatten();
            invited.is_none() && !self.transactions.has_transaction(key)
        };
        // If a call has ended, its INVITE can still have a transaction.
        let ended = named.filter(|key| !is_open(key)).and_then(|key| plain.get(key));
        let ended = ended.filter(|call| call.keeps_invite(now));
        let merged = request
            .filter(|request| ended.is_some_and(|call| is_merged(plain, call, request)) && is_new(request));
        let invited = invited.filter(|key| named != Some(*key));
        let open: Vec<Key> = named.into_iter().chain(invited).filter(is_open).collect();
        open.into_iter().for_each(|key| self.give_up_plain(now, key));
        self.transactions.set_external_weight(self.plain_weight());
        is_absorbed || merged.is_some_and(|request| self.transactions.refuse_merged(request, from))
    }

    /// Gives a plain call to the strict model.
    fn give_up_plain(&mut self, now: Instant, key: Key) {
        let Some(call) = self.plain.as_mut().and_then(|plain| plain.remove(key)) else { return };
        // The journal runs in separate transactions: a later request may have reused a key.
        let own = Transactions::of_user_agent(usize::MAX, self.transactions.timing());
        let others = std::mem::replace(&mut self.transactions, own);
        let before = self.calls.len();
        for (at, from, bytes) in call.journal() {
            // The strict model can read each message of the fast path.
            let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) else { continue };
            self.replayed_tag = Some(call.tag);
            self.transactions.handle(at, message, from);
            drain(self, at);
        }
        debug_assert!(self.calls.len() > before, "the strict model accepts what the fast path has accepted");
        self.replayed_tag = None;
        self.transactions.handle_timeout(now);
        drain(self, now);
        let own = std::mem::replace(&mut self.transactions, others);
        // The replayed responses were sent before, so only the transactions are taken over.
        self.transactions.take_over(own);
        self.transactions.set_external_weight(self.plain_weight());
    }

    /// The tag of an ended plain call for the CANCEL of its INVITE.
    pub(in crate::server) fn tag_of_plain(&self, now: Instant, cancel: &Request) -> Option<String> {
        let plain = self.plain.as_ref()?;
        let call = plain.get(find_invite_of(plain, now, cancel)?)?;
        Some(format!("{:016x}", call.tag))
    }

    /// Handles expired deadlines of plain calls.
    pub(in crate::server) fn handle_plain_timeout(&mut self, now: Instant) {
        while let Some(key) = self.plain.as_mut().and_then(|plain| plain.handle_timeout(now)) {
            self.give_up_plain(now, key);
        }
        self.transactions.set_external_weight(self.plain_weight());
    }
}

/// The plain call whose INVITE has the transaction key of a request, without regard to its method.
fn find_invite_of(plain: &PlainCalls, now: Instant, request: &Request) -> Option<Key> {
    plain.find_invite(now, plain.transaction_hash(BranchKey::of(&request.headers.top_via_view()?)?))
}

/// Whether a request has the `From` tag, Call-ID and `CSeq` of the call's INVITE, but another transaction (RFC 3261 section
/// 8.2.2.2).
fn is_merged(plain: &PlainCalls, call: &PlainCall, request: &Request) -> bool {
    let headers = &request.headers;
    let from = headers.from().ok().flatten();
    let tag = from.as_ref().and_then(|from| from.tag()).unwrap_or_default();
    let is_outside = headers.to().ok().flatten().is_some_and(|to| to.tag().is_none());
    let cseq = headers.cseq().ok().flatten();
    is_outside
        && cseq.is_some_and(|cseq| cseq.method == Method::Invite && cseq.number == call.sequence)
        && !matches!(request.method, Method::Ack | Method::Cancel)
        && plain.text_hash(tag) == call.remote_tag
}

/// Whether an INVITE is a retransmission to absorb (RFC 6026 section 7.1).
fn is_absorbed(plain: &PlainCalls, key: Key, arrival: &PlainArrival<'_>) -> bool {
    arrival.request.to_tag.is_none() && plain.find_invite(arrival.now, arrival.transaction) == Some(key)
}

/// The call of a request within its dialog.
fn call_of<'a>(plain: &'a PlainCalls, key: Key, request: &PlainRequest<'_>) -> Option<&'a PlainCall> {
    plain.get(key).filter(|call| {
        request.to_tag.map(str::as_bytes) == Some(&tag_text(call.tag)[..])
            && plain.text_hash(request.from_tag) == call.remote_tag
            && request.body.is_empty()
    })
}

/// Handles the ACK of the call's 2xx. Returns false for an ACK with the branch of the INVITE, which belongs to that transaction.
fn handle_ack(plain: &mut PlainCalls, key: Key, arrival: &PlainArrival<'_>) -> bool {
    let PlainArrival { now, datagram, from, ref request, transaction, .. } = *arrival;
    let call = call_of(plain, key, request);
    let is_its = call.is_some_and(|call| call.sequence == request.sequence && call.invite != transaction);
    if is_its {
        plain.confirm(now, key, datagram, from);
    }
    is_its
}

/// Handles a BYE that ends the call, or a retransmission, which gets the same response. Returns whether it is one of these.
fn handle_bye(
    plain: &mut PlainCalls,
    key: Key,
    arrival: &PlainArrival<'_>,
    has_room: bool,
    responses: &mut PlainResponses,
) -> bool {
    let PlainArrival { now, from, reply_to, ref request, transaction, .. } = *arrival;
    let Some(call) = call_of(plain, key, request) else { return false };
    let is_again = call.keeps_bye(now, transaction);
    let is_end = has_room && call.phase != PlainPhase::Terminated && request.sequence > call.sequence;
    let tag = tag_text(call.tag);
    if is_end {
        plain.terminate(now, key, transaction, from.transport.is_reliable());
    }
    if is_again || is_end {
        responses.push(reply_to, Status::OK, |out| {
            request.write_copied(from, &tag, out);
            out.extend_from_slice(NO_BODY);
        });
        responses.set_dialog(&tag, request.call_id);
    }
    is_again || is_end
}

/// The tail of the responses to an INVITE, made by the strict model; `None` if the strict model would refuse the
/// INVITE.
fn tail_of(
    domain: &Domain,
    manners: &AnsweringPolicy,
    datagram: &[u8],
    reply_to: Source,
) -> Option<ResponseTail> {
    let Message::Request(invite) = Message::parse(&Bytes::copy_from_slice(datagram)).ok()? else {
        return None;
    };
    let description = description(manners, &invite).ok()?;
    let way_back = Destination::Address(reply_to);
    let mut headers = Headers::default();
    headers.push(Name::Contact, contact(domain, &invite, Some(&way_back)));
    let response =
        |status| Response { status, reason: String::new(), headers: headers.clone(), body: Bytes::new() };
    let mut ok = with_allow(response(Status::OK), &ALLOWED);
    SessionState::of(&invite).ok()?.accept(Instant::ZERO, &mut ok);
    describe(&mut ok, &description);
    // The bytes after the status line.
    let rest = |response: Response| -> Option<Box<[u8]>> {
        let bytes = Message::from(response).to_bytes();
        let end = memchr::memmem::find(&bytes, b"\r\n")? + 2;
        Some(bytes[end..].into())
    };
    Some(ResponseTail {
        transport: reply_to.transport,
        ip: reply_to.address.ip(),
        offer: invite.body.as_ref().into(),
        provisional: rest(response(Status::RINGING))?,
        ok: rest(ok)?,
    })
}
