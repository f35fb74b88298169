//! What all servers that keep transactions have in common.

use netrig_core::Instant;

use super::plain::{PlainRequestInfo, PlainResponses};
use super::transactions::{ElementEvent, Transactions};
use super::{Bindings, Destination, Source, TargetChange};
use crate::Message;

/// A SIP server without I/O. After each call that changes it, [`Server::poll_transmit`] must be called until `None`.
pub trait Server: Send {
    /// A message came.
    fn handle(&mut self, now: Instant, message: Message, from: Source);

    /// Handles a complete message if it is a plain request, and says which. If it returns `None`, the caller must parse the message and
    /// call [`Server::handle`]. The caller sends `responses` at once; the server learns of no failure to send them.
    fn handle_plain<'a>(
        &mut self,
        _now: Instant,
        _datagram: &'a [u8],
        _from: Source,
        _responses: &mut PlainResponses,
    ) -> Option<PlainRequestInfo<'a>> {
        None
    }

    /// A message that it gave out could not be sent.
    fn handle_failure(&mut self, now: Instant, message: &Message);

    /// Its deadline was reached. Calling it early does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Server::handle_timeout`] wants to be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next message to send, until `None`.
    fn poll_transmit(&mut self) -> Option<(Destination, Message)>;

    /// Whether a message had valid credentials since this was last asked: its sender receives what is sent to its address.
    fn take_proof(&mut self) -> bool {
        false
    }

    /// Whether it asks for credentials. If so, only [`Server::take_proof`] is a proof of a peer; a message alone is not.
    fn authenticates(&self) -> bool {
        false
    }

    /// Whether it forwards responses of other servers, with tags that those servers chose.
    fn forwards(&self) -> bool {
        false
    }

    /// What other partitions of the server have to be told since this was last asked: [`Server::handle_target_change`].
    fn take_target_changes(&mut self) -> Vec<TargetChange> {
        Vec::new()
    }

    /// Another partition of the server has told of a place of its users.
    fn handle_target_change(&mut self, _change: &TargetChange) {}
}

/// A server made of its transactions and of what it does with what they tell.
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

    /// Sees a message before its transaction does. Returns whether it has handled the message.
    fn intercept(&mut self, _now: Instant, _message: &Message, _from: Source) -> bool {
        false
    }

    /// Its transactions have told this.
    fn handle_event(&mut self, now: Instant, event: ElementEvent);

    /// Whether a message had valid credentials since this was last asked.
    fn take_proof(&mut self) -> bool {
        false
    }

    /// As [`Server::authenticates`].
    fn authenticates(&self) -> bool {
        false
    }

    /// As [`Server::forwards`].
    fn forwards(&self) -> bool {
        false
    }

    /// The bindings of a server that forwards requests to them.
    fn forwarding_bindings(&mut self) -> Option<&mut Bindings> {
        None
    }

    /// When it has something to do by itself.
    fn next_work(&self) -> Option<Instant>;

    /// Does what is due of that.
    fn work(&mut self, now: Instant);
}

/// Has it deal with all that its transactions tell.
pub(super) fn drain(element: &mut impl Element, now: Instant) {
    while let Some(event) = element.transactions_mut().poll_event() {
        element.handle_event(now, event);
    }
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
        self.work(now);
        drain(self, now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.transactions().poll_timeout(), self.next_work()].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self) -> Option<(Destination, Message)> {
        self.transactions_mut().poll_transmit()
    }

    fn take_proof(&mut self) -> bool {
        Element::take_proof(self)
    }

    fn authenticates(&self) -> bool {
        Element::authenticates(self)
    }

    fn forwards(&self) -> bool {
        Element::forwards(self)
    }

    fn take_target_changes(&mut self) -> Vec<TargetChange> {
        self.forwarding_bindings().map(Bindings::take_target_changes).unwrap_or_default()
    }

    fn handle_target_change(&mut self, change: &TargetChange) {
        self.forwarding_bindings().into_iter().for_each(|bindings| bindings.handle_target_change(change));
    }
}
