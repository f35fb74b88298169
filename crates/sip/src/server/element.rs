//! What all servers that keep transactions have in common.

use netrig_core::Instant;

use super::plain::PlainReplies;
use super::transactions::{Happened, Transactions};
use super::{Destination, Server, Source};
use crate::{Message, Method};

/// A server made of its transactions and of what it does with what they tell.
pub(super) trait Element {
    fn transactions(&self) -> &Transactions;

    fn transactions_mut(&mut self) -> &mut Transactions;

    /// As [`Server::handle_plain`].
    fn handle_plain(
        &mut self,
        _now: Instant,
        _datagram: &[u8],
        _from: Source,
        _replies: &mut PlainReplies,
    ) -> Option<&'static Method> {
        None
    }

    /// Whether a message is dealt with before its transaction.
    fn is_dealt_with(&mut self, _now: Instant, _message: &Message, _from: Source) -> bool {
        false
    }

    /// Its transactions have told this.
    fn happened(&mut self, now: Instant, event: Happened);

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

    /// When it has something to do by itself.
    fn next_work(&self) -> Option<Instant>;

    /// Does what is due of that.
    fn work(&mut self, now: Instant);
}

/// Has it deal with all that its transactions tell.
pub(super) fn drain(element: &mut impl Element, now: Instant) {
    while let Some(event) = element.transactions_mut().poll_event() {
        element.happened(now, event);
    }
}

impl<E: Element + Send> Server for E {
    fn handle(&mut self, now: Instant, message: Message, from: Source) {
        if !self.is_dealt_with(now, &message, from) {
            self.transactions_mut().handle(now, message, from);
            drain(self, now);
        }
    }

    fn handle_plain(
        &mut self,
        now: Instant,
        datagram: &[u8],
        from: Source,
        replies: &mut PlainReplies,
    ) -> Option<&'static Method> {
        Element::handle_plain(self, now, datagram, from, replies)
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
}
