//! Plain calls to a user agent that answers by itself.

use std::net::IpAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use smallvec::SmallVec;

use super::super::answering::{ALLOWED, AnsweringMachine, contact};
use super::super::element::drain;
use super::super::manners::{Answer, Manners};
use super::super::offers::{describe, description};
use super::super::refreshing::SessionState;
use super::super::transactions::Transactions;
use super::super::{Destination, Source, with_allow};
use super::PlainReplies;
use super::calls::{PlainAnswer, PlainCalls, PlainPhase};
use super::request::PlainRequest;
use crate::digits::put_hex;
use crate::header::{CSeq, MAGIC_COOKIE, ViaView};
use crate::slab::Key;
use crate::transaction::ServerKey;
use crate::uri::HostView;
use crate::{Message, Method, Name, Request, Response, Status};

/// The end of a response without a body.
const NO_BODY: &[u8] = b"Content-Length: 0\r\n\r\n";

/// A tag as it is written.
fn written(tag: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    put_hex(tag, &mut digits);
    digits
}

/// Whether all is said when the INVITE comes.
pub(in super::super) fn are_plain(manners: &Manners) -> bool {
    let is_at_once = |own: &super::super::Progress| own.after == Duration::ZERO && !own.media;
    manners.answer == Answer::Accept(Duration::ZERO)
        && manners.progress.iter().all(is_at_once)
        && manners.hold.is_none()
        && !manners.reliable
}

impl AnsweringMachine {
    /// As [`Server::handle_plain`](super::super::Server::handle_plain).
    pub(in super::super) fn answer_plain(
        &mut self,
        now: Instant,
        datagram: &[u8],
        from: Source,
        replies: &mut PlainReplies,
    ) -> Option<&'static Method> {
        if !self.is_plain {
            return None;
        }
        let request = PlainRequest::read(datagram)?;
        if self.transactions.has_any(|| key_of(&request)) {
            return None;
        }
        let to = request.way_back(from)?;
        let (timing, longest, random) = (self.transactions.timing(), self.manners.longest, &mut self.random);
        let plain = self.plain.get_or_insert_with(|| PlainCalls::new(timing, longest, random));
        let transaction = transaction_of(plain, &request.via)?;
        let call_id = plain.fingerprints.of(request.call_id);
        let known = plain.find(call_id);
        let (method, is_taken) = match request.method {
            Method::Invite => (
                &Method::Invite,
                match known {
                    Some(key) => is_absorbed(plain, now, key, &request, transaction),
                    None if plain.find_invite(now, transaction).is_some() => false,
                    None => self.accept_plain(
                        now,
                        (&request, [call_id, transaction]),
                        (datagram, from),
                        to,
                        replies,
                    ),
                },
            ),
            Method::Ack => (
                &Method::Ack,
                known.is_some_and(|key| {
                    acknowledged(plain, now, key, (&request, transaction), (datagram, from))
                }),
            ),
            _ => {
                let has_room = self.transactions.has_room_beside(plain.transactions);
                let told = (&request, transaction, has_room);
                let is_taken = |key| hung_up(plain, now, key, told, (from, to), replies);
                (&Method::Bye, known.is_some_and(is_taken))
            }
        };
        is_taken.then_some(method)
    }

    /// Whether the INVITE was accepted.
    fn accept_plain(
        &mut self,
        now: Instant,
        (request, names): (&PlainRequest<'_>, [u128; 2]),
        (datagram, from): (&[u8], Source),
        to: Source,
        replies: &mut PlainReplies,
    ) -> bool {
        let is_call = request.to_tag.is_none() && request.has_contact && request.has_description;
        if !is_call || !self.has_room() || self.is_asked(request) {
            return false;
        }
        let Some(plain) = &mut self.plain else { return false };
        if plain.answer(to, request.body).is_none() {
            let Some(answer) = answer_of(&self.domain, &self.manners, datagram, to) else { return false };
            plain.learn(answer);
        }
        let tag = self.random.bits();
        let digits = written(tag);
        // Digits are text.
        let text = std::str::from_utf8(&digits).unwrap_or_default();
        let Some(answer) = plain.answer(to, request.body) else { return false };
        for progress in &self.manners.progress {
            replies.push(to, progress.status.code(), |out| {
                start(progress.status, out);
                request.copy(from, text, out);
                request.copy_routes(out);
                out.extend_from_slice(&answer.ringing);
            });
        }
        replies.push(to, Status::OK.code(), |out| {
            start(Status::OK, out);
            request.copy(from, text, out);
            request.copy_routes(out);
            out.extend_from_slice(&answer.accepting);
        });
        plain.begin(now, (request, names), (datagram, from), tag);
        true
    }

    /// Whether there is room for a call and its transaction.
    fn has_room(&self) -> bool {
        self.weight() < self.most && self.transactions.has_room_beside(self.plain_transactions())
    }

    /// Whether a request with the same name is under way elsewhere.
    fn is_asked(&self, request: &PlainRequest<'_>) -> bool {
        self.transactions.has_asked(|| {
            let cseq = CSeq { number: request.sequence, method: request.method.clone() };
            (request.from_tag.to_owned(), request.call_id.to_owned(), cseq)
        })
    }

    /// What all calls count as.
    pub(in super::super) fn weight(&self) -> usize {
        self.weight + self.plain.as_ref().map_or(0, |plain| plain.active)
    }

    pub(in super::super) fn plain_transactions(&self) -> usize {
        self.plain.as_ref().map_or(0, |plain| plain.transactions)
    }

    /// A message came that is not plain. A call that it belongs to is not plain any more. Whether the message is dealt with.
    pub(in super::super) fn leave_plain(&mut self, now: Instant, message: &Message, from: Source) -> bool {
        let Some(plain) = &self.plain else { return false };
        let call_id = message.headers().get(&Name::CallId).unwrap_or_default();
        let named = plain.find(plain.fingerprints.of(call_id));
        let transaction = message.as_request().and_then(|request| model_transaction(plain, request));
        let invited = transaction.and_then(|transaction| plain.find_invite(now, transaction));
        let is_open = |key: &Key| plain.get(*key).is_some_and(|call| call.phase != PlainPhase::Over);
        // The INVITE of a call that is over keeps its name while its transaction lasts.
        let over = named.filter(|key| !is_open(key)).and_then(|key| plain.get(key));
        let over = over.filter(|call| now < call.invite_until);
        let request = message.as_request();
        let is_absorbed = request.is_some_and(|request| request.method == Method::Invite)
            && invited.is_some_and(|key| !is_open(&key));
        // What has a transaction is one that has come again.
        let is_new = |request: &Request| {
            let key = || ServerKey::of(request).ok().flatten();
            invited.is_none() && !self.transactions.has_any(key)
        };
        let merged = request.filter(|request| {
            !matches!(request.method, Method::Ack | Method::Cancel)
                && over.is_some_and(|call| is_another_way(plain, call, request))
                && is_new(request)
        });
        let invited = invited.filter(|key| named != Some(*key));
        let open: Vec<Key> = named.into_iter().chain(invited).filter(is_open).collect();
        open.into_iter().for_each(|key| self.give_up_plain(now, key));
        self.transactions.set_beside(self.plain_transactions());
        is_absorbed || merged.is_some_and(|request| self.transactions.refuse_merged(request, from))
    }

    /// Hands the strict model all that a plain call was sent.
    pub(in super::super) fn give_up_plain(&mut self, now: Instant, key: Key) {
        let Some(call) = self.plain.as_mut().and_then(|plain| plain.take(key)) else { return };
        // They are gone through beside all others: a name may have been used again since.
        let own = Transactions::of_user_agent(usize::MAX, self.transactions.timing());
        let others = std::mem::replace(&mut self.transactions, own);
        for (at, from, bytes) in call.heard() {
            // What was read as plain is a message.
            let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) else { continue };
            self.replayed_tag = Some(call.tag);
            self.transactions.handle(at, message, from);
            drain(self, at);
        }
        self.replayed_tag = None;
        self.transactions.handle_timeout(now);
        drain(self, now);
        let own = std::mem::replace(&mut self.transactions, others);
        // What it says has been sent.
        self.transactions.take_over(own);
        self.transactions.set_beside(self.plain_transactions());
    }

    /// The tag of a plain call that is over, whose INVITE this CANCEL would end.
    pub(in super::super) fn tag_of_plain(&self, now: Instant, cancel: &Request) -> Option<String> {
        let plain = self.plain.as_ref()?;
        let call = plain.get(plain.find_invite(now, model_transaction(plain, cancel)?)?)?;
        Some(format!("{:016x}", call.tag))
    }

    /// Does what is due of plain calls.
    pub(in super::super) fn work_plain(&mut self, now: Instant) {
        while let Some(key) = self.plain.as_mut().and_then(|plain| plain.handle_timeout(now)) {
            self.give_up_plain(now, key);
        }
        self.transactions.set_beside(self.plain_transactions());
    }
}

/// The start line of a response.
fn start(status: Status, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 3];
    let code = status.code();
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit += (code / [100, 10, 1][place] % 10) as u8;
    }
    out.extend_from_slice(b"SIP/2.0 ");
    out.extend_from_slice(&digits);
    out.push(b' ');
    out.extend_from_slice(status.reason().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The transaction of a plain request, as the strict model has it.
fn key_of(request: &PlainRequest<'_>) -> Option<ServerKey> {
    let method = if request.method == Method::Ack { Method::Invite } else { request.method.clone() };
    let port = request.via.port.unwrap_or(request.via.transport.ok()?.default_port());
    Some(ServerKey::of_branch(request.via.parameters.value("branch")?, request.via.host, port, method))
}

/// What a [`ServerKey`] is made of, but for the method.
fn transaction_of(plain: &PlainCalls, via: &ViaView<'_>) -> Option<u128> {
    let branch = via.parameters.value("branch").filter(|branch| branch.starts_with(MAGIC_COOKIE))?;
    let port = via.port.unwrap_or(via.transport.ok()?.default_port()).to_be_bytes();
    let of = |host: &[u8]| {
        let mut more = SmallVec::<[u8; 64]>::from_slice(host);
        more.extend_from_slice(&port);
        // Where the host ends is plain.
        more.push(host.len() as u8);
        plain.fingerprints.of_folded(branch, &more)
    };
    Some(match via.host {
        HostView::Name(name) => {
            let mut name = SmallVec::<[u8; 64]>::from_slice(name.as_bytes());
            name.make_ascii_lowercase();
            of(&name)
        }
        HostView::Address(IpAddr::V4(ip)) => of(&ip.octets()),
        HostView::Address(IpAddr::V6(ip)) => of(&ip.octets()),
    })
}

/// The same of a request of the strict model.
fn model_transaction(plain: &PlainCalls, request: &Request) -> Option<u128> {
    let value = request.headers.get(&Name::Via)?;
    let via = ViaView::read(&mut crate::grammar::Cursor::new(value, "")).ok()?;
    transaction_of(plain, &via)
}

/// Whether a request has the name of the call's INVITE, and has come another way.
fn is_another_way(plain: &PlainCalls, call: &super::calls::PlainCall, request: &Request) -> bool {
    let headers = &request.headers;
    let from = headers.from().ok().flatten();
    let from = from.as_ref().and_then(|from| from.tag()).unwrap_or_default();
    let is_outside = headers.to().ok().flatten().is_some_and(|to| to.tag().is_none());
    let sequence = headers.cseq().ok().flatten().map(|cseq| cseq.number);
    is_outside
        && sequence == Some(call.sequence)
        && plain.fingerprints.of(from) == call.remote_tag
        && model_transaction(plain, request) != Some(call.invite)
}

/// Whether an INVITE has come again, and is absorbed (RFC 6026 section 7.1).
fn is_absorbed(
    plain: &PlainCalls,
    now: Instant,
    key: Key,
    request: &PlainRequest<'_>,
    transaction: u128,
) -> bool {
    request.to_tag.is_none() && plain.find_invite(now, transaction) == Some(key)
}

/// Whether a request is one within the call.
fn is_within(plain: &PlainCalls, key: Key, request: &PlainRequest<'_>) -> bool {
    plain.get(key).is_some_and(|call| {
        request.to_tag.map(str::as_bytes) == Some(&written(call.tag)[..])
            && plain.fingerprints.of(request.from_tag) == call.remote_tag
            && request.body.is_empty()
    })
}

fn acknowledged(
    plain: &mut PlainCalls,
    now: Instant,
    key: Key,
    (request, transaction): (&PlainRequest<'_>, u128),
    (datagram, from): (&[u8], Source),
) -> bool {
    // One with the branch of its INVITE is that transaction's.
    let is_its =
        |call: &super::calls::PlainCall| call.sequence == request.sequence && call.invite != transaction;
    let is_taken = is_within(plain, key, request) && plain.get(key).is_some_and(is_its);
    if is_taken {
        plain.acknowledge(now, key, datagram, from);
    }
    is_taken
}

fn hung_up(
    plain: &mut PlainCalls,
    now: Instant,
    key: Key,
    (request, transaction, has_room): (&PlainRequest<'_>, u128, bool),
    (from, to): (Source, Source),
    replies: &mut PlainReplies,
) -> bool {
    let Some(call) = plain.get(key).filter(|_| is_within(plain, key, request)) else { return false };
    let is_again = call.phase == PlainPhase::Over && call.bye == transaction && now < call.bye_until;
    let is_end = has_room && call.phase != PlainPhase::Over && request.sequence > call.sequence;
    if is_end {
        plain.end(now, key, transaction, from.transport.is_reliable());
    }
    if is_again || is_end {
        replies.push(to, Status::OK.code(), |out| {
            start(Status::OK, out);
            request.copy(from, "", out);
            out.extend_from_slice(NO_BODY);
        });
    }
    is_again || is_end
}

/// The rest of the responses to an INVITE, by the strict model; `None` if it is not accepted.
fn answer_of(
    domain: &super::super::Domain,
    manners: &Manners,
    datagram: &[u8],
    to: Source,
) -> Option<PlainAnswer> {
    let Message::Request(invite) = Message::parse(&Bytes::copy_from_slice(datagram)).ok()? else {
        return None;
    };
    let description = description(manners, &invite).ok()?;
    let way_back = Destination::Address(to);
    let empty = |status| Response {
        status,
        reason: String::new(),
        headers: crate::Headers::default(),
        body: Bytes::new(),
    };
    let mut ringing = empty(Status::RINGING);
    ringing.headers.push(Name::Contact, contact(domain, &invite, Some(&way_back)));
    let mut accepting = empty(Status::OK);
    accepting.headers = ringing.headers.clone();
    let mut accepting = with_allow(accepting, &ALLOWED);
    SessionState::of(&invite).ok()?.accept(Instant::ZERO, &mut accepting);
    describe(&mut accepting, &description);
    // Behind the start line.
    let rest = |response: Response| -> Option<Box<[u8]>> {
        let bytes = Message::from(response).to_bytes();
        let end = memchr::memmem::find(&bytes, b"\r\n")? + 2;
        Some(bytes[end..].into())
    };
    Some(PlainAnswer {
        transport: to.transport,
        ip: to.address.ip(),
        offer: invite.body.as_ref().into(),
        ringing: rest(ringing)?,
        accepting: rest(accepting)?,
    })
}
