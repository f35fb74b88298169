//! A request that is no INVITE, as whoever answers it sees it (RFC 3261 section 17.2.2).

use std::collections::VecDeque;

use netrig_core::{Endpoint, Instant};

use super::{Event, Timing};
use crate::deadline::Deadline;
use crate::{Message, Response};

/// The non-INVITE server transaction. The request that began it is its user's already.
#[derive(Debug)]
pub struct Server {
    timing: Timing,
    reliable: bool,
    state: State,
    /// The last, which a repetition of the request is answered with.
    response: Option<Response>,
    /// Timer J.
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

impl Server {
    /// For a request that came over a transport that is `reliable` or not.
    pub fn new(reliable: bool, timing: Timing) -> Self {
        Self {
            timing,
            reliable,
            state: State::Trying,
            response: None,
            end: Deadline::default(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Sends a response. One after the final one is none: "Any other final responses passed by the TU to the server transaction
    /// MUST be discarded".
    pub fn respond(&mut self, now: Instant, response: Response) {
        if !matches!(self.state, State::Trying | State::Proceeding) {
            return;
        }
        self.out.push_back(response.clone().into());
        self.state = if response.status.is_final() { State::Completed } else { State::Proceeding };
        self.response = Some(response);
        if self.state == State::Completed {
            if self.reliable {
                self.terminate();
            } else {
                self.end = Deadline::after(now, self.timing.patience());
            }
        }
    }

    /// A message could not be sent.
    pub fn handle_transport_failure(&mut self) {
        if matches!(self.state, State::Proceeding | State::Completed) {
            self.events.push_back(Event::TransportFailed);
            self.terminate();
        }
    }

    fn terminate(&mut self) {
        self.state = State::Terminated;
        self.end.stop();
        self.events.push_back(Event::Ended);
    }
}

impl Endpoint for Server {
    type Packet = Message;
    type Event = Event;

    /// A repetition of the request: in Trying it is "discarded", later answered as before.
    fn handle_packet(&mut self, _now: Instant, packet: Message) {
        if matches!(packet, Message::Request(_)) && matches!(self.state, State::Proceeding | State::Completed)
        {
            self.out.extend(self.response.clone().map(Message::from));
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.end.has_come(now) {
            self.terminate();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.end.at()
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Message> {
        self.out.pop_front()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
