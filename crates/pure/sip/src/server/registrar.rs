//! A registrar (RFC 3261 section 10.3).

use netrig_core::Instant;

use super::Registry;
use super::element::Element;
use super::registry::EXTENSIONS;
use super::reply::{add_capabilities, is_readable, reply, with_allow};
use super::transactions::{ElementEvent, Transactions};
use crate::transaction::Timing;
use crate::{Method, Request, Response, Status};

/// The registrar of a domain.
#[derive(Debug)]
pub struct Registrar {
    pub(super) registry: Registry,
    transactions: Transactions,
}

impl Registrar {
    /// A registrar with at most `most` transactions at once.
    pub fn new(registry: Registry, most: usize, timing: Timing) -> Self {
        Self { registry, transactions: Transactions::of_user_agent(most, timing) }
    }

    /// The users and their contacts.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// "it accepts only REGISTER requests".
    fn answer(&mut self, now: Instant, request: &Request) -> Response {
        match request.method {
            _ if !is_readable(request) => reply(request, Status::BAD_REQUEST),
            Method::Register => self.registry.register(now, request),
            Method::Options => {
                let mut response = with_allow(reply(request, Status::OK), &ALLOWED);
                add_capabilities(&mut response.headers, "*/*", EXTENSIONS);
                response
            }
            _ => with_allow(reply(request, Status::METHOD_NOT_ALLOWED), &ALLOWED),
        }
    }
}

const ALLOWED: [Method; 2] = [Method::Register, Method::Options];

impl Element for Registrar {
    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn transactions_mut(&mut self) -> &mut Transactions {
        &mut self.transactions
    }

    fn handle_event(&mut self, now: Instant, event: ElementEvent) {
        if let ElementEvent::Request(key, request) = event
            && request.method != Method::Ack
        {
            let response = self.answer(now, &request);
            self.transactions.respond(now, &key, response);
        }
    }

    fn own_registry(&self) -> Option<&Registry> {
        Some(&self.registry)
    }

    fn own_registry_mut(&mut self) -> Option<&mut Registry> {
        Some(&mut self.registry)
    }
}
