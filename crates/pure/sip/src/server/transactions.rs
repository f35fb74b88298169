//! The transactions of a server, by their keys.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use netrig_core::{Endpoint, Instant};

use super::hop::{Hop, Otherwise};
use super::reply::{reply, stamp};
use super::{Destination, Source};
use crate::header::CSeq;
use crate::transaction::{Client, ClientKey, Event, InviteClient, InviteServer, Server, ServerKey, Timing};
use crate::{Message, Method, Request, Response, Status};

/// A request that takes so many bytes counts as one. A longer one counts as several, so that what all take has an end.
const USUAL: usize = 4096;

/// All transactions of a server; as many at once as it is told.
#[derive(Debug)]
pub(super) struct Transactions {
    timing: Timing,
    most: usize,
    /// Boxed, so that insertion and removal in the tree move pointers.
    parties: BTreeMap<Key, Box<Entry>>,
    /// What all of them count as.
    weight: usize,
    /// Weight of the transactions that are kept elsewhere.
    elsewhere: usize,
    /// Of a user agent: which requests outside of a dialog are under way.
    asked: Option<BTreeSet<Asked>>,
    due: BTreeSet<(Instant, Key)>,
    out: VecDeque<(Destination, Message)>,
    events: VecDeque<Happened>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Server(ServerKey),
    Client(ClientKey),
}

#[derive(Debug)]
enum Party {
    InviteServer(InviteServer),
    Server(Server),
    InviteClient(InviteClient),
    Client(Client),
}

#[derive(Debug)]
struct Entry {
    party: Party,
    destination: Destination,
    /// How a request goes if nobody takes it there.
    otherwise: Option<Otherwise>,
    asked: Option<Asked>,
    due: Option<Instant>,
    weight: usize,
}

/// What a request counts as.
pub(super) fn weight_of(request: &Request) -> usize {
    (request.headers.size() + request.body.len()).div_ceil(USUAL).max(1)
}

/// What a request outside of a dialog keeps on all ways that forks send it: the tag of `From`, Call-ID, `CSeq`.
type Asked = (String, String, CSeq);

/// What a server is told.
#[derive(Debug)]
pub(super) enum Happened {
    /// A new request; an ACK is one of a 2xx, and has no transaction.
    Request(ServerKey, Box<Request>),
    /// A response to a request of one's own.
    Response(ClientKey, Box<Response>),
    /// A request of one's own has no answer: 408, or 503 if the network refused it.
    Failed(ClientKey, Status),
    /// A transaction is over.
    ServerEnded(ServerKey),
    /// A transaction is over.
    ClientEnded(ClientKey),
}

impl Party {
    fn endpoint(&mut self) -> &mut dyn Endpoint<Packet = Message, Event = Event> {
        match self {
            Self::InviteServer(party) => party,
            Self::Server(party) => party,
            Self::InviteClient(party) => party,
            Self::Client(party) => party,
        }
    }

    fn fail(&mut self) {
        match self {
            Self::InviteServer(party) => party.handle_transport_failure(),
            Self::Server(party) => party.handle_transport_failure(),
            Self::InviteClient(party) => party.handle_transport_failure(),
            Self::Client(party) => party.handle_transport_failure(),
        }
    }
}

impl Transactions {
    /// At most `most` at once.
    pub(super) fn new(most: usize, timing: Timing) -> Self {
        Self {
            timing,
            most,
            parties: BTreeMap::new(),
            weight: 0,
            elsewhere: 0,
            asked: None,
            due: BTreeSet::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Of a user agent server, which takes a request once, on however many ways it comes.
    pub(super) fn of_user_agent(most: usize, timing: Timing) -> Self {
        Self { asked: Some(BTreeSet::new()), ..Self::new(most, timing) }
    }

    pub(super) const fn timing(&self) -> Timing {
        self.timing
    }

    /// Sets the weight of the transactions that are kept elsewhere.
    pub(super) const fn set_elsewhere(&mut self, weight: usize) {
        self.elsewhere = weight;
    }

    /// Whether there is room for one more, beside so many elsewhere.
    pub(super) const fn has_room_beside(&self, weight: usize) -> bool {
        self.weight + weight < self.most
    }

    /// Whether a request with this name is under way.
    pub(super) fn has_asked(&self, asked: impl FnOnce() -> Asked) -> bool {
        self.asked.as_ref().is_some_and(|all| !all.is_empty() && all.contains(&asked()))
    }

    /// Whether a request has its transaction; the key is made only if there are any.
    pub(super) fn has_transaction(&self, key: impl FnOnce() -> Option<ServerKey>) -> bool {
        !self.parties.is_empty() && key().is_some_and(|key| self.has(&key))
    }

    /// Refuses a request that has come before another way, if there would be room for it.
    pub(super) fn refuse_merged(&mut self, request: &Request, from: Source) -> bool {
        if self.weight + self.elsewhere + weight_of(request) > self.most {
            return false;
        }
        let mut request = request.clone();
        stamp(&mut request, from);
        self.refuse(&request, Status::LOOP_DETECTED, from);
        true
    }

    /// Goes on with others, but for what they have to say.
    pub(super) fn take_over(&mut self, others: Self) {
        for (key, entry) in others.parties {
            if self.parties.contains_key(&key) {
                continue;
            }
            self.weight += entry.weight;
            self.due.extend(entry.due.map(|at| (at, key.clone())));
            if let (Some(all), Some(asked)) = (&mut self.asked, &entry.asked) {
                all.insert(asked.clone());
            }
            self.parties.insert(key, entry);
        }
    }

    /// A message came.
    pub(super) fn handle(&mut self, now: Instant, message: Message, from: Source) {
        match message {
            Message::Request(request) => self.request(now, request, from),
            Message::Response(response) => self.response(now, response),
        }
    }

    fn request(&mut self, now: Instant, mut request: Request, from: Source) {
        stamp(&mut request, from);
        let Ok(Some(key)) = ServerKey::of(&request) else {
            self.refuse(&request, Status::BAD_REQUEST, from);
            return;
        };
        let of = Key::Server(key.clone());
        if self.parties.contains_key(&of) {
            self.touch(now, &of, |party| party.endpoint().handle_packet(now, request.into()));
            return;
        }
        if request.method != Method::Ack {
            let weight = weight_of(&request);
            if self.weight + self.elsewhere + weight > self.most {
                self.refuse(&request, Status::SERVICE_UNAVAILABLE, from);
                return;
            }
            let asked = self.asked.as_ref().and_then(|_| asked(&request));
            // "If the From tag, Call-ID, and CSeq exactly match those associated with an ongoing transaction, but the request
            // does not match that transaction ..., the UAS core SHOULD generate a 482 (Loop Detected) response" (RFC 3261
            // section 8.2.2.2).
            if let (Some(all), Some(asked)) = (&self.asked, &asked)
                && all.contains(asked)
            {
                self.refuse(&request, Status::LOOP_DETECTED, from);
                return;
            }
            let reliable = from.transport.is_reliable();
            let party = if request.method == Method::Invite {
                Party::InviteServer(InviteServer::new(now, &request, reliable, self.timing))
            } else {
                Party::Server(Server::new(now, &request, reliable, self.timing))
            };
            let destination = Destination::back(&request.headers, from);
            let entry = Entry { party, destination, otherwise: None, asked, due: None, weight };
            self.insert(now, of, entry);
        }
        self.events.push_back(Happened::Request(key, request.into()));
    }

    fn response(&mut self, now: Instant, response: Response) {
        let key = ClientKey::of_response(&response).ok().flatten().map(Key::Client);
        // RFC 6026 section 7.3: a response that belongs to no transaction is dropped.
        if let Some(key) = key {
            self.touch(now, &key, |party| party.endpoint().handle_packet(now, response.into()));
        }
    }

    fn insert(&mut self, now: Instant, key: Key, entry: Entry) {
        self.weight += entry.weight;
        if let (Some(all), Some(asked)) = (&mut self.asked, &entry.asked) {
            all.insert(asked.clone());
        }
        self.parties.insert(key.clone(), Box::new(entry));
        self.touch(now, &key, |_| ());
    }

    /// Changes one, and takes all that it has to say.
    fn touch(&mut self, now: Instant, key: &Key, change: impl FnOnce(&mut Party)) {
        let Some(entry) = self.parties.get_mut(key) else { return };
        change(&mut entry.party);
        let party = entry.party.endpoint();
        while let Some(message) = party.poll_transmit(now) {
            self.out.push_back((entry.destination.clone(), message));
        }
        let mut is_over = false;
        while let Some(event) = party.poll_event() {
            is_over |= event == Event::Ended;
            self.events.extend(happened(key, event));
        }
        let due = party.poll_timeout().filter(|_| !is_over);
        if due != entry.due {
            if let Some(before) = std::mem::replace(&mut entry.due, due) {
                self.due.remove(&(before, key.clone()));
            }
            self.due.extend(due.map(|at| (at, key.clone())));
        }
        if is_over && let Some(entry) = self.parties.remove(key) {
            self.weight -= entry.weight;
            if let (Some(all), Some(asked)) = (&mut self.asked, &entry.asked) {
                all.remove(asked);
            }
        }
    }

    /// Answers a request.
    pub(super) fn respond(&mut self, now: Instant, key: &ServerKey, response: Response) {
        self.touch(now, &Key::Server(key.clone()), |party| match party {
            Party::InviteServer(party) => party.respond(now, response),
            Party::Server(party) => party.respond(now, response),
            Party::InviteClient(_) | Party::Client(_) => {}
        });
    }

    /// Where the responses to a request go.
    pub(super) fn way_back(&self, key: &ServerKey) -> Option<Destination> {
        self.parties.get(&Key::Server(key.clone())).map(|entry| entry.destination.clone())
    }

    /// Leaves a request that is no INVITE without an answer: what comes of it again is absorbed as long as it may.
    pub(super) fn leave_unanswered(&mut self, now: Instant, key: &ServerKey) {
        self.touch(now, &Key::Server(key.clone()), |party| {
            if let Party::Server(party) = party {
                party.leave_unanswered(now);
            }
        });
    }

    /// Whether a request has its transaction still.
    pub(super) fn has(&self, key: &ServerKey) -> bool {
        self.parties.contains_key(&Key::Server(key.clone()))
    }

    /// Sends a request that has its `Via`. `None` if it has none, or was sent before, or there are too many transactions.
    pub(super) fn send(&mut self, now: Instant, hop: Hop) -> Option<ClientKey> {
        let Hop { request, to, otherwise } = hop;
        let key = ClientKey::of_request(&request).ok()??;
        let (weight, of) = (weight_of(&request), Key::Client(key.clone()));
        if self.weight + self.elsewhere + weight > self.most || self.parties.contains_key(&of) {
            return None;
        }
        let reliable = to.is_reliable();
        let party = if request.method == Method::Invite {
            Party::InviteClient(InviteClient::new(now, request, reliable, self.timing))
        } else {
            Party::Client(Client::new(now, request, reliable, self.timing))
        };
        self.insert(now, of, Entry { party, destination: to, otherwise, asked: None, due: None, weight });
        Some(key)
    }

    /// Sends the CANCEL of an INVITE, if it may be sent now (RFC 3261 section 9.1). Whether it was.
    pub(super) fn cancel(&mut self, now: Instant, key: &ClientKey) -> bool {
        let Some(Entry { party: Party::InviteClient(invite), destination, .. }) =
            self.parties.get(&Key::Client(key.clone())).map(|entry| &**entry)
        else {
            return false;
        };
        if !invite.can_be_cancelled() {
            return false;
        }
        let (cancel, to) = (invite.cancellation(), destination.clone());
        self.send(now, Hop::bound(cancel, to)).is_some()
    }

    /// Gives one up without a word: whoever is asked will not answer any more.
    pub(super) fn forget(&mut self, key: &ClientKey) {
        let key = Key::Client(key.clone());
        let Some(entry) = self.parties.remove(&key) else { return };
        let Entry { due, weight, .. } = *entry;
        self.weight -= weight;
        if let Some(at) = due {
            self.due.remove(&(at, key));
        }
    }

    /// Sends a message that is of no transaction.
    pub(super) fn send_directly(&mut self, message: impl Into<Message>, to: Destination) {
        self.out.push_back((to, message.into()));
    }

    /// Answers a request that gets no transaction. Without a `Via` nobody can be told.
    fn refuse(&mut self, request: &Request, status: Status, from: Source) {
        if request.method != Method::Ack && matches!(request.headers.top_via(), Ok(Some(_))) {
            let response = reply(request, status);
            let to = Destination::back(&response.headers, from);
            self.send_directly(response, to);
        }
    }

    /// A message could not be sent.
    pub(super) fn handle_failure(&mut self, now: Instant, message: &Message) {
        let key = match message {
            Message::Request(request) => {
                let key = ClientKey::of_request(request).ok().flatten();
                if let Some(hop) = key.as_ref().and_then(|key| self.other_hop(key, request)) {
                    self.send(now, hop);
                    return;
                }
                key.map(Key::Client)
            }
            Message::Response(response) => {
                // That of the request that it answers: its Via and its method are the same.
                let method = response.headers.cseq().ok().flatten().map(|cseq| cseq.method);
                let uri = crate::Uri::Other { scheme: String::new(), rest: String::new() };
                method.and_then(|method| {
                    let request = Request { headers: response.headers.clone(), ..Request::new(method, uri) };
                    ServerKey::of(&request).ok().flatten().map(Key::Server)
                })
            }
        };
        if let Some(key) = key {
            self.touch(now, &key, Party::fail);
        }
    }

    /// How a request that nobody has taken goes now, if there is another way; its transaction begins anew.
    fn other_hop(&mut self, key: &ClientKey, request: &Request) -> Option<Hop> {
        let otherwise = self.parties.get_mut(&Key::Client(key.clone()))?.otherwise.take()?;
        self.forget(key);
        Some(otherwise.hop(request))
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now {
                return;
            }
            self.touch(now, &key, |party| party.endpoint().handle_timeout(now));
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn poll_transmit(&mut self) -> Option<(Destination, Message)> {
        self.out.pop_front()
    }

    pub(super) fn poll_event(&mut self) -> Option<Happened> {
        self.events.pop_front()
    }
}

/// `None` of a request within a dialog, and of a CANCEL, which is of its own INVITE on each way.
fn asked(request: &Request) -> Option<Asked> {
    let headers = &request.headers;
    let is_outside = headers.to().ok()??.tag().is_none() && request.method != Method::Cancel;
    let from = headers.from().ok()??.tag().unwrap_or_default().to_owned();
    let call_id = headers.call_id().ok()??.to_owned();
    let cseq = headers.cseq().ok()??;
    is_outside.then_some((from, call_id, cseq))
}

fn happened(key: &Key, event: Event) -> Option<Happened> {
    match (key, event) {
        (Key::Client(key), Event::Response(response)) => {
            Some(Happened::Response(key.clone(), response.into()))
        }
        (Key::Client(key), Event::TimedOut(_)) => {
            Some(Happened::Failed(key.clone(), Status::REQUEST_TIMEOUT))
        }
        (Key::Client(key), Event::TransportFailed) => {
            Some(Happened::Failed(key.clone(), Status::SERVICE_UNAVAILABLE))
        }
        (Key::Client(key), Event::Ended) => Some(Happened::ClientEnded(key.clone())),
        // The ACK of a 2xx that came on the INVITE's own branch.
        (Key::Server(key), Event::Request(request)) => Some(Happened::Request(key.clone(), request.into())),
        (Key::Server(key), Event::Ended) => Some(Happened::ServerEnded(key.clone())),
        (Key::Client(_), Event::Request(_))
        | (Key::Server(_), Event::Response(_) | Event::TimedOut(_) | Event::TransportFailed) => None,
    }
}
