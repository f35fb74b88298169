//! An INVITE, as whoever answers it sees it (RFC 3261 section 17.2.1, RFC 6026 section 8.5).

use std::collections::VecDeque;

use netrig_core::{Duration, Endpoint, Instant};

use super::{Event, Timer, Timing};
use crate::deadline::{Deadline, Repetition, earliest};
use crate::{Message, Method, Request, Response, Status};

/// "The server transaction MUST generate a 100 (Trying) response unless it knows that the TU will generate a provisional or
/// final response within 200 ms".
const TRYING: Duration = Duration::from_millis(200);

/// The INVITE server transaction. The request that began it is its user's already. A 2xx it sends once: until its ACK comes it
/// is its user's to send again (RFC 3261 section 13.3.1.4).
#[derive(Debug)]
pub struct InviteServer {
    request: Request,
    timing: Timing,
    reliable: bool,
    state: State,
    /// The last, which a repetition of the request is answered with.
    response: Option<Response>,
    /// When 100 is sent if the user has said nothing.
    trying: Deadline,
    /// Timer G.
    again: Repetition,
    /// Timer H, I or L.
    end: Deadline,
    out: VecDeque<Message>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Proceeding,
    /// A final response that is no 2xx was sent.
    Completed,
    /// Its ACK has come.
    Confirmed,
    /// A 2xx was sent (RFC 6026).
    Accepted,
    Terminated,
}

impl InviteServer {
    /// For an INVITE that came over a transport that is `reliable` or not.
    pub fn new(now: Instant, request: Request, reliable: bool, timing: Timing) -> Self {
        Self {
            request,
            timing,
            reliable,
            state: State::Proceeding,
            response: None,
            trying: Deadline::after(now, TRYING),
            again: Repetition::default(),
            end: Deadline::default(),
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The request.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Sends a response: provisional ones and one final, a 2xx as often as its user wants.
    pub fn respond(&mut self, now: Instant, response: Response) {
        match self.state {
            State::Proceeding => {}
            State::Accepted if response.status.is_success() => {}
            _ => return,
        }
        self.trying.stop();
        self.out.push_back(response.clone().into());
        if self.state == State::Proceeding && response.status.is_success() {
            self.state = State::Accepted;
            self.end = Deadline::after(now, self.timing.patience());
        } else if self.state == State::Proceeding && response.status.is_final() {
            self.state = State::Completed;
            self.again =
                if self.reliable { Repetition::default() } else { Repetition::after(now, self.timing.t1) };
            self.end = Deadline::after(now, self.timing.patience());
        }
        self.response = Some(response);
    }

    /// A message could not be sent.
    pub fn handle_transport_failure(&mut self) {
        if self.state != State::Terminated {
            self.events.push_back(Event::TransportFailed);
            // RFC 6026 section 8.5: a 2xx may be on its way along another, so Accepted lasts.
            if self.state != State::Accepted {
                self.terminate();
            }
        }
    }

    fn terminate(&mut self) {
        self.state = State::Terminated;
        self.trying.stop();
        self.again.stop();
        self.end.stop();
        self.events.push_back(Event::Ended);
    }

    fn acknowledged(&mut self, now: Instant, request: Request) {
        match self.state {
            State::Completed => {
                self.state = State::Confirmed;
                self.again.stop();
                // "set to fire in T4 seconds for unreliable transports, and zero seconds for reliable transports"
                self.end = Deadline::after(now, self.timing.t4);
                if self.reliable {
                    self.terminate();
                }
            }
            State::Accepted => self.events.push_back(Event::Request(request)),
            State::Proceeding | State::Confirmed | State::Terminated => {}
        }
    }
}

impl Endpoint for InviteServer {
    type Packet = Message;
    type Event = Event;

    /// A repetition of the INVITE, or an ACK.
    fn handle_packet(&mut self, now: Instant, packet: Message) {
        let Message::Request(request) = packet else { return };
        match (&request.method, self.state) {
            (Method::Ack, _) => self.acknowledged(now, request),
            (Method::Invite, State::Proceeding | State::Completed) => {
                self.out.extend(self.response.clone().map(Message::from));
            }
            // RFC 6026 section 7.1: repetitions of the INVITE are "absorbed" in Accepted.
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.trying.has_come(now) && self.response.is_none() {
            let response = self.request.response(Status::TRYING);
            self.respond(now, response);
        }
        if self.end.has_come(now) {
            if self.state == State::Completed {
                self.events.push_back(Event::TimedOut(Timer::H));
            }
            self.terminate();
        } else if self.again.has_come(now, Some(self.timing.t2)) {
            self.out.extend(self.response.clone().map(Message::from));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        earliest([self.trying.at(), self.again.at(), self.end.at()])
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Message> {
        self.out.pop_front()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
