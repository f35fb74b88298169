//! A stateful proxy, which forks (RFC 3261 section 16).

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Duration, Instant, Stream};

use super::element::Element;
use super::forward::{TOKEN, copy, leads_away, preprocess, refusal, targets, way, without_own_via};
use super::hop::RequestHop;
use super::registry::{EXTENSIONS, user_of};
use super::reply::{add_capabilities, is_readable, keyed_fingerprint, reply};
use super::transactions::{ElementEvent, Transactions};
use super::{Partition, Registry, transport_of};
use crate::digest::is_same_proof;
use crate::header::{NameAddr, Transport};
use crate::status::Class;
use crate::transaction::{ClientKey, ServerKey, Timing};
use crate::{Headers, Method, Name, Request, Response, SipUri, Status, Uri};

/// "Timer C MUST be set for each client transaction when an INVITE request is proxied. The timer MUST be larger than 3
/// minutes."
pub const TIMER_C: Duration = Duration::from_secs(181);

/// The stateful proxy of a domain. It accepts registrations, and forwards a request to all contacts of a user at once.
#[derive(Debug)]
pub struct Proxy {
    pub(super) registry: Registry,
    record_route: bool,
    /// Secret key of the dialog tokens.
    key: [u64; 2],
    random: Stream,
    partition: Partition,
    transactions: Transactions,
    pub(super) contexts: BTreeMap<ServerKey, Box<ResponseContext>>,
    pub(super) owners: BTreeMap<ClientKey, ServerKey>,
    pub(super) due: BTreeSet<(Instant, ClientKey)>,
}

/// The response context of a request (RFC 3261 section 16.2).
#[derive(Debug)]
pub(super) struct ResponseContext {
    request: Request,
    branches: BTreeMap<ClientKey, ProxyBranch>,
    /// Final responses that were not forwarded.
    responses: Vec<Response>,
    /// A final response was forwarded.
    answered: bool,
}

/// State of the CANCEL of a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CancelState {
    #[default]
    No,
    /// To be sent after the first provisional response.
    Wanted,
    Sent,
}

#[derive(Debug, Default)]
struct ProxyBranch {
    is_final: bool,
    /// The transaction has ended.
    is_over: bool,
    cancel: CancelState,
    /// Timer C.
    due: Option<Instant>,
}

impl Proxy {
    /// A proxy with at most `most` transactions at once. With `record_route` it stays on the path of dialogs.
    pub fn new(
        registry: Registry,
        record_route: bool,
        most: usize,
        timing: Timing,
        mut random: Stream,
    ) -> Self {
        Self {
            registry,
            record_route,
            key: [random.bits(), random.bits()],
            random,
            partition: Partition::default(),
            transactions: Transactions::new(most, timing),
            contexts: BTreeMap::new(),
            owners: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// The proxy of a partition, which draws branches from `random`. All partitions make the same tokens.
    #[must_use]
    pub(super) fn of_partition(self, partition: Partition, random: Stream) -> Self {
        Self { partition, random, ..self }
    }

    /// The users and their contacts.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    fn request(&mut self, now: Instant, key: ServerKey, request: &Request) {
        let result = self.process(now, &key, request);
        match result {
            // An ACK for a 2xx has no transaction, and gets no response.
            Ok(hops) if request.method == Method::Ack => {
                hops.into_iter().take(1).for_each(|hop| self.transactions.send_directly(hop.request, hop.to));
            }
            Err(_) if request.method == Method::Ack => {}
            Ok(hops) => self.fork(now, key, request, hops),
            Err(response) => self.transactions.respond(now, &key, *response),
        }
    }

    /// The steps of RFC 3261 section 16 for each method: validation (16.3), the routes of this proxy (16.4), the response if the
    /// request ends here, else the targets (16.5 and 16.6).
    fn process(
        &mut self,
        now: Instant,
        key: &ServerKey,
        request: &Request,
    ) -> Result<Vec<RequestHop>, Box<Response>> {
        let answer = |status| Err(Box::new(reply(request, status)));
        if !is_readable(request) {
            return answer(Status::BAD_REQUEST);
        }
        if request.method == Method::Cancel {
            // "If a matching response context is found, the element MUST immediately return a 200 (OK) response to the CANCEL
            // request." Without a context, the request was never forwarded, because this proxy is never stateless.
            let known = self.contexts.contains_key(&key.cancelled());
            self.cancel_all(now, &key.cancelled());
            return answer(if known { Status::OK } else { Status::CALL_DOES_NOT_EXIST });
        }
        let mut own = request.clone();
        preprocess(&self.registry.domain, &mut own);
        let ends_here = self.is_for_itself(&own);
        if let Some(response) = refusal(&self.registry.domain, request, ends_here) {
            return Err(Box::new(response));
        }
        match request.method {
            Method::Register if ends_here => Err(Box::new(self.registry.register(now, request))),
            _ if ends_here => {
                let mut response = reply(request, Status::OK);
                add_capabilities(&mut response.headers, "*/*", EXTENSIONS);
                Err(Box::new(response))
            }
            _ => self.hops(now, request, own),
        }
    }

    /// Whether the proxy answers a request after [`preprocess`]: a registration of the domain, or OPTIONS for the proxy itself.
    fn is_for_itself(&self, own: &Request) -> bool {
        let is_meant = match own.method {
            Method::Register => true,
            Method::Options => user_of(&own.uri).is_empty(),
            _ => false,
        };
        is_meant && self.registry.is_own(&own.uri) && own.headers.get(&Name::Route).is_none()
    }

    /// Whether a request has the credentials of `user`. An ACK is not challenged (RFC 3261 section 22.1).
    ///
    /// # Errors
    /// The challenge, or 403 for another user's credentials.
    fn challenge(
        &mut self,
        now: Instant,
        request: &Request,
        user: Option<&str>,
    ) -> Result<bool, Box<Response>> {
        let Some(user) = user.filter(|_| request.method != Method::Ack) else { return Ok(false) };
        match self.registry.authenticate(now, request)? {
            Some(proven) if proven != user => Err(Box::new(reply(request, Status::FORBIDDEN))),
            proven => Ok(proven.is_some()),
        }
    }

    /// Token for the requests of one side of a dialog. It permits only requests with this Call-ID and `To` tag to the next hop
    /// `hop`, in any domain. Only this proxy can compute it.
    fn token(&self, call_id: &str, tag: &str, hop: &SipUri) -> String {
        let transport = transport_of(hop).map_or("", Transport::name);
        let target = hop.target().to_string().to_ascii_lowercase();
        let port = hop.port.or(transport_of(hop).map(Transport::default_port)).unwrap_or_default();
        keyed_fingerprint(self.key, &format!("{call_id}\n{tag}\n{target}\n{port}\n{transport}"))
    }

    /// Token for the callee of a request; empty without a tag or next hop. The callee's requests within the dialog go to the proxy
    /// before this one, or to the contact of the caller.
    fn token_for_callee(&self, request: &Request) -> String {
        let headers = &request.headers;
        let tag = headers.from().ok().flatten().and_then(|from| from.tag().map(str::to_owned));
        let hop = headers.addresses(&Name::RecordRoute).ok().and_then(|routes| routes.into_iter().next());
        self.token_towards(headers, tag, hop)
    }

    fn token_towards(&self, headers: &Headers, tag: Option<String>, hop: Option<NameAddr>) -> String {
        let contact = || headers.addresses(&Name::Contact).ok()?.into_iter().next();
        let token = || {
            let hop = hop.or_else(contact)?;
            Some(self.token(headers.get(&Name::CallId)?, &tag?, hop.uri.as_sip()?))
        };
        token().unwrap_or_default()
    }

    /// Replaces the callee's token in the `Record-Route` of a response by one for the caller. The caller's requests within the
    /// dialog go to the proxy after this one, or to the contact of the callee. A response that makes no dialog gets no token. A
    /// proxy may rewrite its own value (RFC 3261 section 16.7, step 8).
    fn hand_out_token(&self, response: &mut Response) {
        let Ok(mut routes) = response.headers.addresses(&Name::RecordRoute) else { return };
        let makes_dialog = (101..300).contains(&response.status.code());
        let tag = response.headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned));
        let tag = tag.filter(|_| makes_dialog);
        let mut behind = None;
        for route in &mut routes {
            let before = route.clone();
            if let Uri::Sip(own) = &mut route.uri
                && own.parameters.has(TOKEN)
                && self.registry.domain.is_own(own)
            {
                match self.token_towards(&response.headers, tag.clone(), behind) {
                    token if token.is_empty() => own.parameters.remove(TOKEN),
                    token => own.parameters.set(TOKEN, Some(&token)),
                };
            }
            behind = Some(before);
        }
        response.headers.set_all(&Name::RecordRoute, routes);
    }

    /// Whether the received `request` has the token for its next hop. `own` is the request after [`preprocess`]; its first route,
    /// or else its Request-URI, is the next hop.
    fn has_token(&self, request: &Request, own: &Request) -> bool {
        let routes = |request: &Request| request.headers.addresses(&Name::Route).unwrap_or_default();
        let hop = routes(own).into_iter().next().map_or_else(|| own.uri.clone(), |route| route.uri);
        let tag = own.headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned));
        let call_id = own.headers.get(&Name::CallId);
        let (Some(hop), Some(tag), Some(call_id)) = (hop.as_sip(), tag, call_id) else { return false };
        let token = self.token(call_id, &tag, hop);
        let is_ours = |theirs: &str| is_same_proof(&token, theirs);
        let has = |uri: &Uri| uri.as_sip().and_then(|uri| uri.parameters.value(TOKEN)).is_some_and(is_ours);
        has(&request.uri) || routes(request).iter().any(|route| has(&route.uri))
    }

    /// The user in `From`, if it belongs to this domain.
    fn own_user(&self, request: &Request) -> Option<String> {
        let from = request.headers.from().ok()??;
        self.registry.is_own(&from.uri).then(|| user_of(&from.uri))
    }

    /// A copy for each target, with its `Via`.
    fn hops(
        &mut self,
        now: Instant,
        request: &Request,
        own: Request,
    ) -> Result<Vec<RequestHop>, Box<Response>> {
        // Users authenticate once per dialog, and for a request that leaves the domain without the dialog's token.
        let user = self.own_user(request);
        let begins = request.headers.to().ok().flatten().is_some_and(|to| to.tag().is_none());
        let is_proven = self.challenge(now, request, user.as_deref().filter(|_| begins))?;
        let token = self.token_for_callee(request);
        let way = way(request);
        // Other senders reach only the users of this domain.
        let may_leave = self.registry.relays || is_proven || self.has_token(request, &own);
        if !may_leave && leads_away(&self.registry, &own) && !self.challenge(now, request, user.as_deref())? {
            return Err(Box::new(reply(request, Status::FORBIDDEN)));
        }
        let domain = &self.registry.domain;
        let targets =
            targets(&self.registry, now, &own).map_err(|status| Box::new(reply(request, status)))?;
        let mut hops = Vec::with_capacity(targets.len());
        for target in targets {
            let Some((copy, to)) = copy(domain, &own, target, self.record_route.then_some(token.as_str()))
            else {
                continue;
            };
            let branch = self.partition.branch(self.random.bits(), &way);
            hops.push(RequestHop::new(domain, copy, to, &branch));
        }
        if hops.is_empty() { Err(Box::new(reply(request, Status::UNSUPPORTED_URI_SCHEME))) } else { Ok(hops) }
    }

    fn fork(&mut self, now: Instant, key: ServerKey, request: &Request, hops: Vec<RequestHop>) {
        let mut context = ResponseContext {
            request: request.clone(),
            branches: BTreeMap::new(),
            responses: Vec::new(),
            answered: false,
        };
        for hop in hops {
            match self.transactions.send(now, hop) {
                Some(branch) => {
                    let due = (request.method == Method::Invite).then(|| now + TIMER_C);
                    self.due.extend(due.map(|at| (at, branch.clone())));
                    self.owners.insert(branch.clone(), key.clone());
                    context.branches.insert(branch, ProxyBranch { due, ..ProxyBranch::default() });
                }
                None => context.responses.push(reply(request, Status::SERVICE_UNAVAILABLE)),
            }
        }
        self.contexts.insert(key.clone(), Box::new(context));
        self.finish_if_all_have(now, &key);
    }

    /// Handles a response, whose own `Via` is removed already (RFC 3261 section 16.7).
    fn response(&mut self, now: Instant, branch_key: &ClientKey, mut response: Response) {
        self.hand_out_token(&mut response);
        let Some(key) = self.owners.get(branch_key).cloned() else { return };
        let Some(context) = self.contexts.get_mut(&key) else { return };
        let Some(branch) = context.branches.get_mut(branch_key) else { return };
        let status = response.status;
        if !status.is_final() {
            if branch.cancel == CancelState::Wanted {
                self.cancel(now, branch_key);
            } else if branch.cancel == CancelState::No && status != Status::TRYING && branch.due.is_some() {
                // "if the response is a provisional response with status codes 101 to 199 inclusive (i.e., anything but 100),
                // the proxy MUST reset timer C for that client transaction."
                self.set_timer_c(branch_key, Some(now + TIMER_C));
            }
            // "Any provisional response other than 100 (Trying)" is forwarded at once. "A SIP element MUST NOT send any
            // provisional response with a Status-Code other than 100 to a non-INVITE request" (RFC 4320 section 4.1).
            let is_open =
                |context: &ResponseContext| !context.answered && context.request.method == Method::Invite;
            if status != Status::TRYING && self.contexts.get(&key).is_some_and(|context| is_open(context)) {
                self.transactions.respond(now, &key, response);
            }
            return;
        }
        branch.is_final = true;
        self.set_timer_c(branch_key, None);
        let Some(context) = self.contexts.get_mut(&key) else { return };
        match status.class() {
            // "Any 2xx response" is forwarded at once. For an INVITE, this includes the 2xx of a second branch.
            Class::Success => {
                context.answered = true;
                self.transactions.respond(now, &key, response);
                // 10. "If the forwarded response was a final response, the proxy MUST generate a CANCEL request for all pending
                // client transactions associated with this response context."
                self.cancel_all(now, &key);
            }
            class => {
                context.responses.push(response);
                // "If a 6xx response is received, it is not immediately forwarded, but the stateful proxy SHOULD cancel all client
                // pending transactions".
                if class == Class::GlobalFailure {
                    self.cancel_all(now, &key);
                }
                self.finish_if_all_have(now, &key);
            }
        }
    }

    /// Handles a failed branch like a response: 408 after a timeout, 503 after a transport failure (RFC 3261 sections 16.8 and 16.9).
    fn failed(&mut self, now: Instant, branch: &ClientKey, status: Status) {
        let context = self.owners.get(branch).and_then(|key| self.contexts.get(key));
        if let Some(response) = context.map(|context| reply(&context.request, status)) {
            self.response(now, branch, response);
        }
    }

    fn finish_if_all_have(&mut self, now: Instant, key: &ServerKey) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if context.answered || context.branches.values().any(|branch| !branch.is_final) {
            return;
        }
        context.answered = true;
        let response = best(std::mem::take(&mut context.responses));
        let response = response.unwrap_or_else(|| reply(&context.request, Status::REQUEST_TIMEOUT));
        // "A transaction-stateful SIP element MUST NOT send a response with Status-Code of 408 to a non-INVITE request" (RFC 4320
        // section 4.2).
        if response.status == Status::REQUEST_TIMEOUT && context.request.method != Method::Invite {
            self.transactions.leave_unanswered(now, key);
        } else {
            self.transactions.respond(now, key, response);
        }
    }

    fn cancel_all(&mut self, now: Instant, key: &ServerKey) {
        let Some(context) = self.contexts.get(key).filter(|own| own.request.method == Method::Invite) else {
            return;
        };
        let pending = context
            .branches
            .iter()
            .filter(|(_, branch)| !branch.is_final && branch.cancel == CancelState::No);
        for branch in pending.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.cancel(now, &branch);
        }
    }

    /// Cancels a branch now, or after its first provisional response (RFC 3261 section 9.1).
    fn cancel(&mut self, now: Instant, key: &ClientKey) {
        let is_sent = self.transactions.cancel(now, key);
        let owner = self.owners.get(key).and_then(|owner| self.contexts.get_mut(owner));
        if let Some(branch) = owner.and_then(|context| context.branches.get_mut(key)) {
            branch.cancel = if is_sent { CancelState::Sent } else { CancelState::Wanted };
            if is_sent {
                // "If there is no final response for the original request in 64*T1 seconds ... the client SHOULD then consider the
                // original transaction cancelled" (RFC 3261 section 9.1).
                let patience = self.transactions.timing().patience();
                self.set_timer_c(key, Some(now + patience));
            }
        }
    }

    fn set_timer_c(&mut self, key: &ClientKey, at: Option<Instant>) {
        let owner = self.owners.get(key).and_then(|owner| self.contexts.get_mut(owner));
        let Some(branch) = owner.and_then(|context| context.branches.get_mut(key)) else { return };
        if let Some(before) = std::mem::replace(&mut branch.due, at) {
            self.due.remove(&(before, key.clone()));
        }
        self.due.extend(at.map(|at| (at, key.clone())));
    }

    /// Handles timer C (RFC 3261 section 16.8).
    fn timer_c(&mut self, now: Instant, key: &ClientKey) {
        self.set_timer_c(key, None);
        let owner = self.owners.get(key).and_then(|owner| self.contexts.get(owner));
        let is_cancelled = owner
            .and_then(|own| own.branches.get(key))
            .is_some_and(|branch| branch.cancel != CancelState::No);
        // "If the client transaction has received a provisional response, the proxy MUST generate a CANCEL request matching that
        // transaction. If the client transaction has not received a provisional response, the proxy MUST behave as if the
        // transaction received a 408".
        if !is_cancelled {
            self.cancel(now, key);
            let owner = self.owners.get(key).and_then(|owner| self.contexts.get(owner));
            if owner.and_then(|own| own.branches.get(key)).is_some_and(|branch| branch.due.is_some()) {
                return;
            }
        }
        self.failed(now, key, Status::REQUEST_TIMEOUT);
        self.transactions.forget(key);
        self.ended(key);
    }

    fn ended(&mut self, key: &ClientKey) {
        self.set_timer_c(key, None);
        let Some(owner) = self.owners.remove(key) else { return };
        if let Some(branch) = self.contexts.get_mut(&owner).and_then(|context| context.branches.get_mut(key))
        {
            branch.is_over = true;
        }
        self.forget_if_over(&owner);
    }

    fn forget_if_over(&mut self, key: &ServerKey) {
        let is_over = |context: &ResponseContext| context.branches.values().all(|branch| branch.is_over);
        if self.contexts.get(key).is_some_and(|context| is_over(context)) && !self.transactions.has(key) {
            self.contexts.remove(key);
        }
    }
}

/// RFC 3261 section 16.7, step 6: it "MUST choose from the 6xx class responses if any exist in the context. If no 6xx class
/// responses are present, the proxy SHOULD choose from the lowest response class stored in the response context."
fn best(mut responses: Vec<Response>) -> Option<Response> {
    // "The proxy SHOULD give preference to responses that provide information affecting resubmission of this request, such as
    // 401, 407, 415, 420, and 484 if the 4xx class is chosen."
    let helps = |status: Status| matches!(status.code(), 401 | 407 | 415 | 420 | 484);
    let rank = |response: &Response| match response.status.class() {
        Class::GlobalFailure => (0, false),
        class => (1 + class as u16, !helps(response.status)),
    };
    let place = (0..responses.len()).min_by_key(|place| rank(&responses[*place]))?;
    let mut chosen = responses.remove(place);
    // 7. "If the selected response is a 401 (Unauthorized) or 407 (Proxy Authentication Required), the proxy MUST collect any
    // WWW-Authenticate and Proxy-Authenticate header field values from all other 401 (Unauthorized) and 407 (Proxy
    // Authentication Required) responses received so far in this response context".
    if matches!(chosen.status, Status::UNAUTHORIZED | Status::PROXY_AUTHENTICATION_REQUIRED) {
        let others = responses.iter().filter(|own| matches!(own.status.code(), 401 | 407));
        for (name, value) in others.flat_map(|own| own.headers.iter()) {
            if matches!(name, Name::WwwAuthenticate | Name::ProxyAuthenticate) {
                chosen.headers.push(name.clone(), value);
            }
        }
    }
    // "A proxy which receives a 503 (Service Unavailable) response SHOULD NOT forward it upstream unless it can determine that
    // any subsequent requests it might proxy will also generate a 503."
    if chosen.status == Status::SERVICE_UNAVAILABLE {
        chosen.status = Status::SERVER_INTERNAL_ERROR;
        chosen.reason = chosen.status.reason().to_owned();
    }
    Some(chosen)
}

impl Element for Proxy {
    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions {
        &mut self.transactions
    }

    fn handle_event(&mut self, now: Instant, event: ElementEvent) {
        match event {
            ElementEvent::Request(key, request) => self.request(now, key, &request),
            ElementEvent::Response(key, response) => {
                if let Some(response) = without_own_via(&self.registry.domain, *response) {
                    self.response(now, &key, response);
                }
            }
            ElementEvent::Failed(key, status) => self.failed(now, &key, status),
            ElementEvent::ClientEnded(key) => self.ended(&key),
            ElementEvent::ServerEnded(key) => self.forget_if_over(&key),
        }
    }

    fn own_registry(&self) -> Option<&Registry> {
        Some(&self.registry)
    }

    fn own_registry_mut(&mut self) -> Option<&mut Registry> {
        Some(&mut self.registry)
    }

    fn forwards(&self) -> bool {
        true
    }

    fn next_work(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn work(&mut self, now: Instant) {
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.timer_c(now, &key);
        }
    }
}
