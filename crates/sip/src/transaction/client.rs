//! A request that is no INVITE, as its sender sees it (RFC 3261 section 17.1.2).

use std::collections::VecDeque;

use netrig_core::{Endpoint, Instant};

use super::{Event, Timer, Timing};
use crate::deadline::{Deadline, Repetition, earliest};
use crate::{Message, Request};

/// The non-INVITE client transaction.
#[derive(Debug)]
pub struct Client {
    request: Request,
    timing: Timing,
    reliable: bool,
    state: State,
    /// Timer E.
    again: Repetition,
    /// Timer F, then K.
    end: Deadline,
    out: VecDeque<Message>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Trying,
    Proceeding,
    Completed,
    Terminated,
}

impl Client {
    /// Sends `request` over a transport that is `reliable` or not.
    pub fn new(now: Instant, request: Request, reliable: bool, timing: Timing) -> Self {
        Self {
            out: VecDeque::from([request.clone().into()]),
            request,
            timing,
            reliable,
            state: State::Trying,
            // "If an unreliable transport is in use, the client transaction MUST set timer E to fire in T1 seconds."
            again: if reliable { Repetition::default() } else { Repetition::after(now, timing.t1) },
            end: Deadline::after(now, timing.patience()),
            events: VecDeque::new(),
        }
    }

    /// The request.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// A message could not be sent.
    pub fn handle_transport_failure(&mut self) {
        if matches!(self.state, State::Trying | State::Proceeding) {
            self.events.push_back(Event::TransportFailed);
            self.terminate();
        }
    }

    fn terminate(&mut self) {
        self.state = State::Terminated;
        self.again.stop();
        self.end.stop();
        self.events.push_back(Event::Ended);
    }
}

impl Endpoint for Client {
    type Packet = Message;
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Message) {
        let Message::Response(response) = packet else { return };
        // In Completed: "any retransmissions of final responses" are absorbed.
        if !matches!(self.state, State::Trying | State::Proceeding) {
            return;
        }
        let is_final = response.status.is_final();
        self.events.push_back(Event::Response(response));
        if !is_final {
            self.state = State::Proceeding;
        } else if self.reliable {
            // "set Timer K to fire in T4 seconds for unreliable transports, and zero seconds for reliable transports."
            self.terminate();
        } else {
            self.state = State::Completed;
            self.again.stop();
            self.end = Deadline::after(now, self.timing.t4);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.end.has_come(now) {
            if matches!(self.state, State::Trying | State::Proceeding) {
                self.events.push_back(Event::TimedOut(Timer::F));
            }
            self.terminate();
            return;
        }
        // "MIN(2*T1, T2)" in Trying; in Proceeding it "MUST be reset with a value of T2 seconds".
        let t2 = self.timing.t2;
        if self.again.has_come(now, Some(t2)) {
            if self.state == State::Proceeding {
                self.again = Repetition::after(now, t2);
            }
            self.out.push_back(self.request.clone().into());
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earliest([self.again.at(), self.end.at()])
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Message> {
        self.out.pop_front()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
