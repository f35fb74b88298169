//! The common part of the four transactions: timers, outgoing messages and events.

use std::collections::VecDeque;

use netrig_core::{Duration, Endpoint, Instant};

use super::{Timing, TransactionEvent};
use crate::deadline::{Deadline, Repetition, earliest};
use crate::{Message, Name, Request, Response, Status};

/// One of the four state machines of RFC 3261 section 17 with its timers. After its end it ignores all messages.
#[derive(Debug)]
pub struct Transaction<M> {
    pub(super) machine: M,
    pub(super) core: Core,
}

/// The part in which the four transactions differ.
pub trait Machine {
    /// Handles a message of the transaction.
    fn handle_packet(&mut self, core: &mut Core, now: Instant, packet: Message);

    /// Handles timers that may have expired.
    fn handle_timeout(&mut self, core: &mut Core, now: Instant);

    /// Handles a message that could not be sent.
    fn handle_transport_failure(&mut self, core: &mut Core);
}

/// Timers, outgoing messages and events of a transaction.
#[derive(Debug)]
pub struct Core {
    pub(super) timing: Timing,
    pub(super) reliable: bool,
    /// Timers A, E and G, which retransmit the last message.
    pub(super) again: Repetition,
    /// All other timers, which end a state.
    pub(super) end: Deadline,
    pub(super) trying: Trying,
    is_over: bool,
    out: VecDeque<Message>,
    events: VecDeque<TransactionEvent>,
}

impl Core {
    pub(super) fn new(reliable: bool, timing: Timing) -> Self {
        Self {
            timing,
            reliable,
            again: Repetition::default(),
            end: Deadline::default(),
            trying: Trying::default(),
            is_over: false,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sends a message. It is retransmitted from T1 on if the transport is unreliable, and times out after 64·T1.
    pub(super) fn send_repeatedly(&mut self, now: Instant, message: impl Into<Message>) {
        self.send(message);
        self.again =
            if self.reliable { Repetition::default() } else { Repetition::after(now, self.timing.t1) };
        self.end = Deadline::after(now, self.timing.patience());
    }

    pub(super) fn send(&mut self, message: impl Into<Message>) {
        self.out.push_back(message.into());
    }

    pub(super) fn report(&mut self, event: TransactionEvent) {
        self.events.push_back(event);
    }

    /// Waits for retransmitted messages before the end: "zero seconds for reliable transports".
    pub(super) fn linger(&mut self, now: Instant, span: Duration) {
        self.again.stop();
        if self.reliable {
            self.terminate();
        } else {
            self.end = Deadline::after(now, span);
        }
    }

    pub(super) fn fail(&mut self) {
        self.report(TransactionEvent::TransportFailed);
        self.terminate();
    }

    pub(super) fn terminate(&mut self) {
        self.is_over = true;
        self.again.stop();
        self.end.stop();
        self.trying.stop();
        self.report(TransactionEvent::Ended);
    }
}

impl<M: Machine> Transaction<M> {
    /// Handles a message that could not be sent.
    pub fn handle_transport_failure(&mut self) {
        if !self.core.is_over {
            self.machine.handle_transport_failure(&mut self.core);
        }
    }
}

impl<M: Machine> Endpoint for Transaction<M> {
    type Packet = Message;
    type Event = TransactionEvent;

    fn handle_packet(&mut self, now: Instant, packet: Message) {
        if !self.core.is_over {
            self.machine.handle_packet(&mut self.core, now, packet);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(&mut self.core, now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earliest([self.core.trying.due.at(), self.core.again.at(), self.core.end.at()])
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Message> {
        self.core.out.pop_front()
    }

    fn poll_event(&mut self) -> Option<TransactionEvent> {
        self.core.events.pop_front()
    }
}

/// The 100 that a server sends if its user does not respond in time.
#[derive(Debug, Default)]
pub(super) struct Trying {
    due: Deadline,
    since: Instant,
    response: Option<Box<Response>>,
}

impl Trying {
    /// The 100 to `request`, due `span` after `now`.
    pub(super) fn after(now: Instant, span: Duration, request: &Request) -> Self {
        let mut response = request.response(Status::TRYING);
        // "any Timestamp header field present in the request MUST be copied into this 100 (Trying) response" (RFC 3261 section
        // 8.2.6.1).
        if let Some(stamp) = request.headers.get(&Name::Timestamp) {
            response.headers.push(Name::Timestamp, stamp);
        }
        Self { due: Deadline::after(now, span), since: now, response: Some(response.into()) }
    }

    /// Cancels the 100, because the user has responded.
    pub(super) fn stop(&mut self) {
        self.due.stop();
        self.response = None;
    }

    /// The 100, if it is due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Response> {
        let mut response = self.due.has_come(now).then(|| self.response.take()).flatten()?;
        // "If there is a delay in generating the response, the UAS SHOULD add a delay value into the Timestamp value".
        if let Some(stamp) = response.headers.get(&Name::Timestamp) {
            let ms = (now - self.since).as_nanos() / 1_000_000;
            let delayed = format!("{stamp} {}.{:03}", ms / 1000, ms % 1000);
            response.headers.set(Name::Timestamp, delayed);
        }
        Some(*response)
    }
}
