//! A server that only registers (RFC 3261 section 10.3).

use netrig_core::Instant;

use super::transactions::{Happened, Transactions};
use super::{Destination, Registry, Server, Source, reply};
use crate::transaction::Timing;
use crate::{Message, Method, Name, Request, Response, Status};

/// The registrar of a domain.
#[derive(Debug)]
pub struct Registrar {
    pub(super) registry: Registry,
    transactions: Transactions,
}

impl Registrar {
    /// With at most `most` transactions at once.
    pub fn new(registry: Registry, most: usize, timing: Timing) -> Self {
        Self { registry, transactions: Transactions::new(most, timing) }
    }

    /// Where its users are.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// "it accepts only REGISTER requests".
    fn answer(&mut self, now: Instant, request: &Request) -> Response {
        match request.method {
            Method::Register => self.registry.register(now, request),
            Method::Options => with_allow(reply(request, Status::OK), &ALLOWED),
            _ => with_allow(reply(request, Status::METHOD_NOT_ALLOWED), &ALLOWED),
        }
    }
}

const ALLOWED: [Method; 2] = [Method::Register, Method::Options];

/// With the methods that a server takes.
pub(super) fn with_allow(mut response: Response, methods: &[Method]) -> Response {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    response.headers.push(Name::Allow, names.join(", "));
    response
}

/// Whether a request can be served at all: what makes its transaction and dialog can be read (RFC 3261 section 8.2).
pub(super) fn is_readable(request: &Request) -> bool {
    let headers = &request.headers;
    let has = matches!(headers.from(), Ok(Some(_))) && matches!(headers.to(), Ok(Some(_)));
    let counts = headers.cseq().is_ok_and(|cseq| cseq.is_some_and(|cseq| cseq.method == request.method));
    let single = [Name::From, Name::To, Name::CallId, Name::CSeq, Name::MaxForwards];
    has && counts
        && matches!(headers.call_id(), Ok(Some(_)))
        && headers.vias().is_ok()
        && headers.number(&Name::MaxForwards).is_ok()
        && single.iter().all(|name| headers.all(name).count() <= 1)
}

impl Server for Registrar {
    fn handle(&mut self, now: Instant, message: Message, from: Source) {
        self.transactions.handle(now, message, from);
        while let Some(event) = self.transactions.poll_event() {
            let Happened::Request(key, request) = event else { continue };
            if request.method == Method::Ack {
                continue;
            }
            let response = if is_readable(&request) {
                self.answer(now, &request)
            } else {
                reply(&request, Status::BAD_REQUEST)
            };
            self.transactions.respond(now, &key, response);
        }
    }

    fn handle_failure(&mut self, now: Instant, message: &Message) {
        self.transactions.handle_failure(now, message);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.transactions.handle_timeout(now);
        self.registry.bindings.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.transactions.poll_timeout(), self.registry.bindings.poll_timeout()].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self) -> Option<(Destination, Message)> {
        self.transactions.poll_transmit()
    }
}
