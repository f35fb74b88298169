//! A stateless proxy (RFC 3261 section 16.11).

use std::collections::VecDeque;

use netrig_core::{Instant, Stream};

use super::forward::{copy, leads_away, preprocess, refusal, targets, without_own_via};
use super::hop::RequestHop;
use super::reply::{fingerprint, is_readable, keyed_fingerprint, reply, stamp};
use super::{Destination, Registry, Server, Source, TargetChange};
use crate::header::{MAGIC_COOKIE, Via};
use crate::{Message, Method, Name, Request, Response, Status};

/// The stateless proxy of a domain. It forwards a retransmitted request like the first, with the same branch. It accepts no
/// registrations: the caller sets the contacts of users.
#[derive(Debug)]
pub struct StatelessProxy {
    pub(super) registry: Registry,
    /// Secret of the branches, by which responses to requests of other elements are recognised and dropped.
    key: [u64; 2],
    out: VecDeque<(Destination, Message)>,
}

impl StatelessProxy {
    /// A proxy for the users of `registry`.
    pub fn new(registry: Registry, mut random: Stream) -> Self {
        Self { registry, key: [random.bits(), random.bits()], out: VecDeque::new() }
    }

    fn request(&mut self, now: Instant, mut request: Request, from: Source) {
        stamp(&mut request, from);
        if let Err(response) = self.forward(now, &request)
            && request.method != Method::Ack
            && matches!(request.headers.top_via(), Ok(Some(_)))
        {
            let to = Destination::back(&response.headers, from);
            self.out.push_back((to, (*response).into()));
        }
    }

    fn forward(&mut self, now: Instant, request: &Request) -> Result<(), Box<Response>> {
        let domain = &self.registry.domain;
        let refuse = |status| Box::new(reply(request, status));
        if !is_readable(request) {
            return Err(refuse(Status::BAD_REQUEST));
        }
        if let Some(response) = refusal(domain, request, false) {
            return Err(Box::new(response));
        }
        let branch = self.branch_of(request);
        let mut own = request.clone();
        preprocess(domain, &mut own);
        // The proxy does not authenticate requests, so it forwards only to its own users.
        if !self.registry.relays && leads_away(&self.registry, &own) {
            return Err(refuse(Status::FORBIDDEN));
        }
        // "A stateless proxy MUST choose one and only one target from the target set": the preferred one.
        let target = targets(&self.registry, now, &own).map_err(refuse)?.into_iter().next();
        let Some((copy, to)) = target.and_then(|target| copy(domain, &own, target, None)) else {
            return Err(refuse(Status::UNSUPPORTED_URI_SCHEME));
        };
        let RequestHop { request, to, .. } = RequestHop::new(domain, copy, to, &branch);
        self.out.push_back((to, request.into()));
        Ok(())
    }

    /// "a combinatoric function of message parameters which are invariant on retransmission" (RFC 3261 section 16.11): of the
    /// received `Via`, and, if its branch is not unique, of the fields that identify a request of RFC 2543. The method is not
    /// used: ACK and CANCEL have the branch of their INVITE.
    fn branch_of(&self, request: &Request) -> String {
        let headers = &request.headers;
        let via = headers.top_via().ok().flatten();
        let proof = via.as_ref().map(|via| self.proof_of(via)).unwrap_or_default();
        let is_unique =
            via.as_ref().and_then(Via::branch).is_some_and(|branch| branch.starts_with(MAGIC_COOKIE));
        if is_unique {
            return format!("{MAGIC_COOKIE}{proof}");
        }
        let from = headers.get(&Name::From).unwrap_or_default();
        let call_id = headers.get(&Name::CallId).unwrap_or_default();
        let number = headers.cseq().ok().flatten().map_or(0, |cseq| cseq.number);
        let rest = fingerprint(&format!("{}\n{from}\n{call_id}\n{number}", request.uri));
        format!("{MAGIC_COOKIE}{proof}.{rest}")
    }

    /// Keyed fingerprint of the `Via` below this proxy's own `Via`. The branch of the own `Via` begins with this
    /// fingerprint.
    fn proof_of(&self, via: &Via) -> String {
        let transport = via.transport.as_ref().map_or_else(String::as_str, |known| known.name());
        let host = via.host.to_string().to_ascii_lowercase();
        let (port, received, rport, branch) = (via.port, via.received(), via.rport(), via.branch());
        let text = format!("{transport}\n{host}\n{port:?}\n{received:?}\n{rport:?}\n{branch:?}");
        keyed_fingerprint(self.key, &text)
    }

    /// Whether the response answers a request that this proxy forwarded, and returns to the source of that request.
    fn is_answer(&self, response: &Response) -> bool {
        let vias = response.headers.vias().unwrap_or_default();
        let [own, next, ..] = &vias[..] else { return false };
        let branch = own.branch().and_then(|branch| branch.strip_prefix(MAGIC_COOKIE));
        branch.and_then(|branch| branch.split('.').next()) == Some(self.proof_of(next).as_str())
    }
}

impl Server for StatelessProxy {
    fn handle(&mut self, now: Instant, message: Message, from: Source) {
        match message {
            Message::Request(request) => self.request(now, request, from),
            Message::Response(response) => {
                let response = Some(response).filter(|own| self.is_answer(own));
                let response = response.and_then(|own| without_own_via(&self.registry.domain, own));
                let onwards =
                    response.and_then(|own| Destination::of_response(&own).map(|to| (to, own.into())));
                self.out.extend(onwards);
            }
        }
    }

    /// Ignored: the message is lost, and its sender retransmits it.
    fn handle_failure(&mut self, _now: Instant, _message: &Message) {}

    fn handle_timeout(&mut self, now: Instant) {
        self.registry.bindings.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.registry.bindings.poll_timeout()
    }

    fn poll_transmit(&mut self) -> Option<(Destination, Message)> {
        self.out.pop_front()
    }

    fn forwards(&self) -> bool {
        true
    }

    fn take_target_changes(&mut self) -> Vec<TargetChange> {
        self.registry.bindings.take_target_changes()
    }

    fn handle_target_change(&mut self, change: &TargetChange) {
        self.registry.bindings.handle_target_change(change);
    }
}
