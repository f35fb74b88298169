//! The interface of servers, and the common part of servers that keep transactions.

use netrig_core::Instant;

use super::plain::{PlainRequestInfo, PlainResponses};
use super::transactions::{ElementEvent, Transactions};
use super::{Bindings, Destination, Registry, Source, TargetChange};
use crate::Message;

/// A SIP server without I/O. After each call that changes it, the caller calls [`Server::poll_transmit`] until `None`.
pub trait Server: Send {
    /// Handles a received message.
    fn handle(&mut self, now: Instant, message: Message, from: Source);

    /// Handles a complete message if it is a plain request, and returns its description. If it returns `None`, the
    /// caller parses the message and calls [`Server::handle`]. The caller sends `responses` at once. It does not report
    /// a failure to the server.
    fn handle_plain<'a>(
        &mut self,
        _now: Instant,
        _datagram: &'a [u8],
        _from: Source,
        _responses: &mut PlainResponses,
    ) -> Option<PlainRequestInfo<'a>> {
        None
    }

    /// Handles an outgoing message that could not be sent.
    fn handle_failure(&mut self, now: Instant, message: &Message);

    /// Handles expired deadlines. An early call does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// The time of the next call of [`Server::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next message to send.
    fn poll_transmit(&mut self) -> Option<(Destination, Message)>;

    /// Whether a message with valid credentials was received since the last call. Such a message proves that its sender
    /// receives messages at its source address.
    fn take_proof(&mut self) -> bool {
        false
    }

    /// Whether the server challenges requests. If so, only [`Server::take_proof`] proves the address of a peer, not a message alone.
    fn authenticates(&self) -> bool {
        false
    }

    /// Whether the server forwards responses of other servers, with tags of those servers.
    fn forwards(&self) -> bool {
        false
    }

    /// Changes since the last call for [`Server::handle_target_change`] of the other partitions.
    fn take_target_changes(&mut self) -> Vec<TargetChange> {
        Vec::new()
    }

    /// Handles a change of another partition.
    fn handle_target_change(&mut self, _change: &TargetChange) {}
}

/// A server that consists of transactions and of the handling of their events.
pub(super) trait Element {
    fn transactions(&self) -> &Transactions;

    fn transactions_mut(&mut self) -> &mut Transactions;

    /// As [`Server::handle_plain`].
    fn handle_plain<'a>(
        &mut self,
        _now: Instant,
        _datagram: &'a [u8],
        _from: Source,
        _responses: &mut PlainResponses,
    ) -> Option<PlainRequestInfo<'a>> {
        None
    }

    /// Called before the transactions handle a message. If it returns true, they do not handle the message.
    fn intercept(&mut self, _now: Instant, _message: &Message, _from: Source) -> bool {
        false
    }

    /// Handles an event of its transactions.
    fn handle_event(&mut self, now: Instant, event: ElementEvent);

    /// The registry of the element, if it has one.
    fn own_registry(&self) -> Option<&Registry> {
        None
    }

    /// As [`Element::own_registry`], for changes.
    fn own_registry_mut(&mut self) -> Option<&mut Registry> {
        None
    }

    /// As [`Server::forwards`].
    fn forwards(&self) -> bool {
        false
    }

    /// The next deadline of the element itself, without those of its transactions and of its registry.
    fn next_work(&self) -> Option<Instant> {
        None
    }

    /// Handles expired deadlines of the element itself.
    fn work(&mut self, _now: Instant) {}
}

/// Handles all pending events of the transactions.
pub(super) fn drain(element: &mut impl Element, now: Instant) {
    while let Some(event) = element.transactions_mut().poll_event() {
        element.handle_event(now, event);
    }
}

/// The bindings of an element that forwards requests to them.
fn forwarding_bindings(element: &mut impl Element) -> Option<&mut Bindings> {
    if !Element::forwards(element) {
        return None;
    }
    element.own_registry_mut().map(|registry| &mut registry.bindings)
}

impl<E: Element + Send> Server for E {
    fn handle(&mut self, now: Instant, message: Message, from: Source) {
        if !self.intercept(now, &message, from) {
            self.transactions_mut().handle(now, message, from);
            drain(self, now);
        }
    }

    fn handle_plain<'a>(
        &mut self,
        now: Instant,
        datagram: &'a [u8],
        from: Source,
        responses: &mut PlainResponses,
    ) -> Option<PlainRequestInfo<'a>> {
        Element::handle_plain(self, now, datagram, from, responses)
    }

    fn handle_failure(&mut self, now: Instant, message: &Message) {
        self.transactions_mut().handle_failure(now, message);
        drain(self, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.transactions_mut().handle_timeout(now);
        drain(self, now);
        if let Some(registry) = self.own_registry_mut() {
            registry.bindings.handle_timeout(now);
        }
        self.work(now);
        drain(self, now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let binding = self.own_registry().and_then(|registry| registry.bindings.poll_timeout());
        [self.transactions().poll_timeout(), binding, self.next_work()].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self) -> Option<(Destination, Message)> {
        self.transactions_mut().poll_transmit()
    }

    fn take_proof(&mut self) -> bool {
        self.own_registry_mut().is_some_and(Registry::take_proof)
    }

    fn authenticates(&self) -> bool {
        self.own_registry().is_some_and(Registry::authenticates)
    }

    fn forwards(&self) -> bool {
        Element::forwards(self)
    }

    fn take_target_changes(&mut self) -> Vec<TargetChange> {
        forwarding_bindings(self).map(Bindings::take_target_changes).unwrap_or_default()
    }

    fn handle_target_change(&mut self, change: &TargetChange) {
        forwarding_bindings(self).into_iter().for_each(|bindings| bindings.handle_target_change(change));
    }
}
