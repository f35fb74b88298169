//! The transactions of a server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use netrig_core::{Endpoint, Instant};

use super::hop::{RequestHop, UdpFallback};
use super::reply::{reply, stamp};
use super::{Destination, Source};
use crate::header::CSeq;
use crate::transaction::{
    ClientKey, ClientTransaction, InviteClientTransaction, InviteServerTransaction, ServerKey,
    ServerTransaction, Timing, TransactionEvent,
};
use crate::{Message, Method, Request, Response, Status};

/// Bytes of a request of weight 1. A longer one weighs more, so that the memory of all transactions is bounded.
const USUAL: usize = 4096;

/// All transactions of a server, up to a total weight.
#[derive(Debug)]
pub(super) struct Transactions {
    timing: Timing,
    most: usize,
    /// Boxed, so that insertion and removal in the tree move pointers.
    entries: BTreeMap<TransactionKey, Box<TransactionEntry>>,
    /// Weight of the transactions in `entries`.
    weight: usize,
    /// Weight of transactions that are kept elsewhere.
    external_weight: usize,
    /// For a user agent: the requests outside of a dialog with a transaction.
    merge_keys: Option<BTreeSet<MergeKey>>,
    due: BTreeSet<(Instant, TransactionKey)>,
    out: VecDeque<(Destination, Message)>,
    events: VecDeque<ElementEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TransactionKey {
    Server(ServerKey),
    Client(ClientKey),
}

#[derive(Debug)]
enum AnyTransaction {
    InviteServer(InviteServerTransaction),
    Server(ServerTransaction),
    InviteClient(InviteClientTransaction),
    Client(ClientTransaction),
}

#[derive(Debug)]
struct TransactionEntry {
    transaction: AnyTransaction,
    destination: Destination,
    /// The alternative for a request if TCP fails.
    fallback: Option<UdpFallback>,
    merge_key: Option<MergeKey>,
    due: Option<Instant>,
    weight: usize,
}

/// The weight of a request.
pub(super) fn weight_of(request: &Request) -> usize {
    (request.headers.size() + request.body.len()).div_ceil(USUAL).max(1)
}

/// The fields that a request outside of a dialog keeps on all paths of a fork: the tag of `From`, Call-ID, `CSeq`.
type MergeKey = (String, String, CSeq);

/// An event of the transactions of an element.
#[derive(Debug)]
pub(super) enum ElementEvent {
    /// A new request. If it is an ACK, it acknowledges a 2xx and has no transaction.
    Request(ServerKey, Box<Request>),
    /// A response to a request of this element.
    Response(ClientKey, Box<Response>),
    /// A request of this element failed: 408 after a timeout, 503 after a transport failure.
    Failed(ClientKey, Status),
    /// A server transaction has ended.
    ServerEnded(ServerKey),
    /// A client transaction has ended.
    ClientEnded(ClientKey),
}

impl AnyTransaction {
    fn endpoint(&mut self) -> &mut dyn Endpoint<Packet = Message, Event = TransactionEvent> {
        match self {
            Self::InviteServer(transaction) => transaction,
            Self::Server(transaction) => transaction,
            Self::InviteClient(transaction) => transaction,
            Self::Client(transaction) => transaction,
        }
    }

    fn fail(&mut self) {
        match self {
            Self::InviteServer(transaction) => transaction.handle_transport_failure(),
            Self::Server(transaction) => transaction.handle_transport_failure(),
            Self::InviteClient(transaction) => transaction.handle_transport_failure(),
            Self::Client(transaction) => transaction.handle_transport_failure(),
        }
    }
}

impl Transactions {
    /// No transactions, with a limit `most` for their weight.
    pub(super) fn new(most: usize, timing: Timing) -> Self {
        Self {
            timing,
            most,
            entries: BTreeMap::new(),
            weight: 0,
            external_weight: 0,
            merge_keys: None,
            due: BTreeSet::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Transactions of a user agent server, which accepts a forked request once.
    pub(super) fn of_user_agent(most: usize, timing: Timing) -> Self {
        Self { merge_keys: Some(BTreeSet::new()), ..Self::new(most, timing) }
    }

    pub(super) const fn timing(&self) -> Timing {
        self.timing
    }

    /// Sets the weight of the transactions that are kept elsewhere.
    pub(super) const fn set_external_weight(&mut self, weight: usize) {
        self.external_weight = weight;
    }

    /// Whether there is room for one more transaction, if the transactions that are kept elsewhere have this weight.
    pub(super) const fn has_room_beside(&self, weight: usize) -> bool {
        self.weight + weight < self.most
    }

    /// Whether a request with this key has a transaction.
    pub(super) fn has_merge_key(&self, key: impl FnOnce() -> MergeKey) -> bool {
        self.merge_keys.as_ref().is_some_and(|all| !all.is_empty() && all.contains(&key()))
    }

    /// As [`Transactions::has`]. The key is computed only if there are transactions.
    pub(super) fn has_transaction(&self, key: impl FnOnce() -> Option<ServerKey>) -> bool {
        !self.entries.is_empty() && key().is_some_and(|key| self.has(&key))
    }

    /// Refuses a request that was received before on another path, if there is room for it. Returns whether the request
    /// was refused.
    pub(super) fn refuse_merged(&mut self, request: &Request, from: Source) -> bool {
        if self.weight + self.external_weight + weight_of(request) > self.most {
            return false;
        }
        let mut request = request.clone();
        stamp(&mut request, from);
        self.refuse(&request, Status::LOOP_DETECTED, from);
        true
    }

    /// Adds the transactions of `others`, without their pending messages and events.
    pub(super) fn take_over(&mut self, others: Self) {
        for (key, entry) in others.entries {
            if self.entries.contains_key(&key) {
                continue;
            }
            self.weight += entry.weight;
            self.due.extend(entry.due.map(|at| (at, key.clone())));
            if let (Some(all), Some(merge_key)) = (&mut self.merge_keys, &entry.merge_key) {
                all.insert(merge_key.clone());
            }
            self.entries.insert(key, entry);
        }
    }

    /// Handles a received message.
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
        let of = TransactionKey::Server(key.clone());
        if self.entries.contains_key(&of) {
            self.touch(now, &of, |transaction| transaction.endpoint().handle_packet(now, request.into()));
            return;
        }
        if request.method != Method::Ack {
            let weight = weight_of(&request);
            if self.weight + self.external_weight + weight > self.most {
                self.refuse(&request, Status::SERVICE_UNAVAILABLE, from);
                return;
            }
            let merge_key = self.merge_keys.as_ref().and_then(|_| merge_key_of(&request));
            // "If the From tag, Call-ID, and CSeq exactly match those associated with an ongoing transaction, but the request
            // does not match that transaction ..., the UAS core SHOULD generate a 482 (Loop Detected) response" (RFC 3261
            // section 8.2.2.2).
            if let (Some(all), Some(merge_key)) = (&self.merge_keys, &merge_key)
                && all.contains(merge_key)
            {
                self.refuse(&request, Status::LOOP_DETECTED, from);
                return;
            }
            let reliable = from.transport.is_reliable();
            let transaction = if request.method == Method::Invite {
                AnyTransaction::InviteServer(InviteServerTransaction::new(
                    now,
                    &request,
                    reliable,
                    self.timing,
                ))
            } else {
                AnyTransaction::Server(ServerTransaction::new(now, &request, reliable, self.timing))
            };
            let destination = Destination::back(&request.headers, from);
            let entry =
                TransactionEntry { transaction, destination, fallback: None, merge_key, due: None, weight };
            self.insert(now, of, entry);
        }
        self.events.push_back(ElementEvent::Request(key, request.into()));
    }

    fn response(&mut self, now: Instant, response: Response) {
        let key = ClientKey::of_response(&response).ok().flatten().map(TransactionKey::Client);
        // RFC 6026 section 7.3: a response that belongs to no transaction is dropped.
        if let Some(key) = key {
            self.touch(now, &key, |transaction| transaction.endpoint().handle_packet(now, response.into()));
        }
    }

    fn insert(&mut self, now: Instant, key: TransactionKey, entry: TransactionEntry) {
        self.weight += entry.weight;
        if let (Some(all), Some(merge_key)) = (&mut self.merge_keys, &entry.merge_key) {
            all.insert(merge_key.clone());
        }
        self.entries.insert(key.clone(), Box::new(entry));
        self.touch(now, &key, |_| ());
    }

    /// Changes a transaction, and collects its messages and events.
    fn touch(&mut self, now: Instant, key: &TransactionKey, change: impl FnOnce(&mut AnyTransaction)) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        change(&mut entry.transaction);
        let transaction = entry.transaction.endpoint();
        while let Some(message) = transaction.poll_transmit(now) {
            self.out.push_back((entry.destination.clone(), message));
        }
        let mut is_over = false;
        while let Some(event) = transaction.poll_event() {
            is_over |= event == TransactionEvent::Ended;
            self.events.extend(element_event(key, event));
        }
        let due = transaction.poll_timeout().filter(|_| !is_over);
        if due != entry.due {
            if let Some(before) = std::mem::replace(&mut entry.due, due) {
                self.due.remove(&(before, key.clone()));
            }
            self.due.extend(due.map(|at| (at, key.clone())));
        }
        if is_over && let Some(entry) = self.entries.remove(key) {
            self.weight -= entry.weight;
            if let (Some(all), Some(merge_key)) = (&mut self.merge_keys, &entry.merge_key) {
                all.remove(merge_key);
            }
        }
    }

    /// Responds to a request.
    pub(super) fn respond(&mut self, now: Instant, key: &ServerKey, response: Response) {
        self.touch(now, &TransactionKey::Server(key.clone()), |transaction| match transaction {
            AnyTransaction::InviteServer(transaction) => transaction.respond(now, response),
            AnyTransaction::Server(transaction) => transaction.respond(now, response),
            AnyTransaction::InviteClient(_) | AnyTransaction::Client(_) => {}
        });
    }

    /// The destination of the responses to a request.
    pub(super) fn way_back(&self, key: &ServerKey) -> Option<Destination> {
        self.entries.get(&TransactionKey::Server(key.clone())).map(|entry| entry.destination.clone())
    }

    /// Leaves a non-INVITE request without a final response. Retransmissions are absorbed until the client times out.
    pub(super) fn leave_unanswered(&mut self, now: Instant, key: &ServerKey) {
        self.touch(now, &TransactionKey::Server(key.clone()), |transaction| {
            if let AnyTransaction::Server(transaction) = transaction {
                transaction.leave_unanswered(now);
            }
        });
    }

    /// Whether a request has a transaction.
    pub(super) fn has(&self, key: &ServerKey) -> bool {
        self.entries.contains_key(&TransactionKey::Server(key.clone()))
    }

    /// Sends a request with its `Via`. Returns `None` if the request has no branch or was sent before, or if there are
    /// too many transactions.
    pub(super) fn send(&mut self, now: Instant, hop: RequestHop) -> Option<ClientKey> {
        let RequestHop { request, to, fallback } = hop;
        let key = ClientKey::of_request(&request).ok()??;
        let (weight, of) = (weight_of(&request), TransactionKey::Client(key.clone()));
        if self.weight + self.external_weight + weight > self.most || self.entries.contains_key(&of) {
            return None;
        }
        let reliable = to.is_reliable();
        let transaction = if request.method == Method::Invite {
            AnyTransaction::InviteClient(InviteClientTransaction::new(now, request, reliable, self.timing))
        } else {
            AnyTransaction::Client(ClientTransaction::new(now, request, reliable, self.timing))
        };
        self.insert(
            now,
            of,
            TransactionEntry { transaction, destination: to, fallback, merge_key: None, due: None, weight },
        );
        Some(key)
    }

    /// Sends the CANCEL of an INVITE, if that is allowed now (RFC 3261 section 9.1). Returns whether it was sent.
    pub(super) fn cancel(&mut self, now: Instant, key: &ClientKey) -> bool {
        let Some(TransactionEntry { transaction: AnyTransaction::InviteClient(invite), destination, .. }) =
            self.entries.get(&TransactionKey::Client(key.clone())).map(|entry| &**entry)
        else {
            return false;
        };
        if !invite.can_be_cancelled() {
            return false;
        }
        let (cancel, to) = (invite.cancellation(), destination.clone());
        self.send(now, RequestHop::bound(cancel, to)).is_some()
    }

    /// Drops a transaction without an event.
    pub(super) fn forget(&mut self, key: &ClientKey) {
        let key = TransactionKey::Client(key.clone());
        let Some(entry) = self.entries.remove(&key) else { return };
        let TransactionEntry { due, weight, .. } = *entry;
        self.weight -= weight;
        if let Some(at) = due {
            self.due.remove(&(at, key));
        }
    }

    /// Sends a message without a transaction.
    pub(super) fn send_directly(&mut self, message: impl Into<Message>, to: Destination) {
        self.out.push_back((to, message.into()));
    }

    /// Refuses a request without a transaction. Without a `Via` the response would have no destination.
    fn refuse(&mut self, request: &Request, status: Status, from: Source) {
        if request.method != Method::Ack && matches!(request.headers.top_via(), Ok(Some(_))) {
            let response = reply(request, status);
            let to = Destination::back(&response.headers, from);
            self.send_directly(response, to);
        }
    }

    /// Handles a message that could not be sent.
    pub(super) fn handle_failure(&mut self, now: Instant, message: &Message) {
        let key = match message {
            Message::Request(request) => {
                let key = ClientKey::of_request(request).ok().flatten();
                if let Some(hop) = key.as_ref().and_then(|key| self.other_hop(key, request)) {
                    self.send(now, hop);
                    return;
                }
                key.map(TransactionKey::Client)
            }
            Message::Response(response) => {
                // The key of the request, which has the same `Via` and method.
                let method = response.headers.cseq().ok().flatten().map(|cseq| cseq.method);
                let uri = crate::Uri::Other { scheme: String::new(), rest: String::new() };
                method.and_then(|method| {
                    let request = Request { headers: response.headers.clone(), ..Request::new(method, uri) };
                    ServerKey::of(&request).ok().flatten().map(TransactionKey::Server)
                })
            }
        };
        if let Some(key) = key {
            self.touch(now, &key, AnyTransaction::fail);
        }
    }

    /// The alternative for a request that failed over TCP. The transaction of the request is removed, so that a new one
    /// can begin.
    fn other_hop(&mut self, key: &ClientKey, request: &Request) -> Option<RequestHop> {
        let fallback = self.entries.get_mut(&TransactionKey::Client(key.clone()))?.fallback.take()?;
        self.forget(key);
        Some(fallback.hop(request))
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now {
                return;
            }
            self.touch(now, &key, |transaction| transaction.endpoint().handle_timeout(now));
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn poll_transmit(&mut self) -> Option<(Destination, Message)> {
        self.out.pop_front()
    }

    pub(super) fn poll_event(&mut self) -> Option<ElementEvent> {
        self.events.pop_front()
    }
}

/// The merge key of a request. `None` within a dialog, and for a CANCEL, which belongs to the INVITE on each path.
fn merge_key_of(request: &Request) -> Option<MergeKey> {
    let headers = &request.headers;
    let is_outside = headers.to().ok()??.tag().is_none() && request.method != Method::Cancel;
    let from = headers.from().ok()??.tag().unwrap_or_default().to_owned();
    let call_id = headers.call_id().ok()??.to_owned();
    let cseq = headers.cseq().ok()??;
    is_outside.then_some((from, call_id, cseq))
}

fn element_event(key: &TransactionKey, event: TransactionEvent) -> Option<ElementEvent> {
    match (key, event) {
        (TransactionKey::Client(key), TransactionEvent::Response(response)) => {
            Some(ElementEvent::Response(key.clone(), response.into()))
        }
        (TransactionKey::Client(key), TransactionEvent::TimedOut(_)) => {
            Some(ElementEvent::Failed(key.clone(), Status::REQUEST_TIMEOUT))
        }
        (TransactionKey::Client(key), TransactionEvent::TransportFailed) => {
            Some(ElementEvent::Failed(key.clone(), Status::SERVICE_UNAVAILABLE))
        }
        (TransactionKey::Client(key), TransactionEvent::Ended) => {
            Some(ElementEvent::ClientEnded(key.clone()))
        }
        // The ACK of a 2xx with the branch of the INVITE.
        (TransactionKey::Server(key), TransactionEvent::Request(request)) => {
            Some(ElementEvent::Request(key.clone(), request.into()))
        }
        (TransactionKey::Server(key), TransactionEvent::Ended) => {
            Some(ElementEvent::ServerEnded(key.clone()))
        }
        (TransactionKey::Client(_), TransactionEvent::Request(_))
        | (
            TransactionKey::Server(_),
            TransactionEvent::Response(_) | TransactionEvent::TimedOut(_) | TransactionEvent::TransportFailed,
        ) => None,
    }
}
