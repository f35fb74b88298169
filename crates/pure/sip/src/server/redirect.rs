//! A redirect server: it responds with the contacts of users (RFC 3261 section 8.3).

use netrig_core::Instant;

use super::Registry;
use super::element::Element;
use super::registry::user_of;
use super::reply::{is_readable, reply};
use super::transactions::{ElementEvent, Transactions};
use crate::transaction::{ServerKey, Timing};
use crate::{Method, Name, Request, Response, Status};

/// The redirect server of a domain, which accepts registrations too.
#[derive(Debug)]
pub struct Redirect {
    pub(super) registry: Registry,
    transactions: Transactions,
}

impl Redirect {
    /// A server with at most `most` transactions at once.
    pub fn new(registry: Registry, most: usize, timing: Timing) -> Self {
        Self { registry, transactions: Transactions::of_user_agent(most, timing) }
    }

    /// The users and their contacts.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    fn answer(&mut self, now: Instant, key: &ServerKey, request: &Request) -> Response {
        if !is_readable(request) {
            return reply(request, Status::BAD_REQUEST);
        }
        match request.method {
            Method::Register => return self.registry.register(now, request),
            // The request to be cancelled already has its final response, so CANCEL "has no effect" (RFC 3261 section
            // 9.2).
            Method::Cancel => {
                let known = self.transactions.has(&key.cancelled());
                return reply(request, if known { Status::OK } else { Status::CALL_DOES_NOT_EXIST });
            }
            _ => {}
        }
        // Requirements for the callee are ignored: "Redirect servers MUST ignore features that are not
        // understood (including unrecognized header fields, any unknown option tags in Require, or even method names)".
        if request.uri.as_sip().is_none() {
            return reply(request, Status::UNSUPPORTED_URI_SCHEME);
        }
        if !self.registry.is_own(&request.uri) || !self.registry.users.has(&user_of(&request.uri)) {
            return reply(request, Status::NOT_FOUND);
        }
        self.redirection(now, request)
    }

    fn redirection(&self, now: Instant, request: &Request) -> Response {
        let bindings = self.registry.bindings.of(now, &request.uri);
        // "redirect servers MUST NOT redirect a request to a URI equal to the one in the Request-URI".
        let others = bindings.iter().filter(|binding| !binding.contact.uri.is_equivalent(&request.uri));
        let mut response = reply(request, Status::MOVED_TEMPORARILY);
        for binding in others {
            let mut contact = binding.contact.clone();
            contact.parameters.set("expires", Some(&binding.left(now).to_string()));
            response.headers.push(Name::Contact, contact);
        }
        if response.headers.get(&Name::Contact).is_none() {
            return reply(request, Status::TEMPORARILY_UNAVAILABLE);
        }
        response
    }
}

impl Element for Redirect {
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
            let response = self.answer(now, &key, &request);
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
