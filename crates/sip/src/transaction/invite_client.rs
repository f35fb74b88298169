//! An INVITE, as its sender sees it (RFC 3261 section 17.1.1, RFC 6026 section 8.4).

use std::collections::VecDeque;

use netrig_core::{Duration, Endpoint, Instant};

use super::{Event, Timer, Timing};
use crate::deadline::{Deadline, Repetition, earliest};
use crate::header::CSeq;
use crate::{Message, Method, Name, Request, Response};

/// Timer D: "at least 32 seconds for unreliable transports".
const TIMER_D: Duration = Duration::from_secs(32);

/// The INVITE client transaction. It acknowledges what is no 2xx by itself; a 2xx is its user's to acknowledge, each time
/// that it comes.
#[derive(Debug)]
pub struct InviteClient {
    request: Request,
    timing: Timing,
    reliable: bool,
    state: State,
    /// Timer A.
    again: Repetition,
    /// Timer B, then D or M.
    end: Deadline,
    acknowledgement: Option<Request>,
    out: VecDeque<Message>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Calling,
    Proceeding,
    /// A final response that is no 2xx has come.
    Completed,
    /// A 2xx has come (RFC 6026).
    Accepted,
    Terminated,
}

impl InviteClient {
    /// Sends `request`, an INVITE, over a transport that is `reliable` or not.
    pub fn new(now: Instant, request: Request, reliable: bool, timing: Timing) -> Self {
        Self {
            out: VecDeque::from([request.clone().into()]),
            request,
            timing,
            reliable,
            state: State::Calling,
            // "If an unreliable transport is being used, the client transaction MUST start timer A with a value of T1."
            again: if reliable { Repetition::default() } else { Repetition::after(now, timing.t1) },
            // "For any transport, the client transaction MUST start timer B with a value of 64*T1 seconds".
            end: Deadline::after(now, timing.patience()),
            acknowledgement: None,
            events: VecDeque::new(),
        }
    }

    /// The request.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Whether a CANCEL may be sent: a provisional response has come, and no final one (RFC 3261 section 9.1).
    pub fn can_be_cancelled(&self) -> bool {
        self.state == State::Proceeding
    }

    /// The CANCEL for it (RFC 3261 section 9.1), which is a transaction of its own.
    pub fn cancellation(&self) -> Request {
        follower(&self.request, Method::Cancel, self.request.headers.get(&Name::To))
    }

    /// A message could not be sent.
    pub fn handle_transport_failure(&mut self) {
        if self.state != State::Terminated {
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

    fn completed(&mut self, now: Instant, response: Response) {
        let acknowledgement = follower(&self.request, Method::Ack, response.headers.get(&Name::To));
        self.out.push_back(acknowledgement.clone().into());
        self.acknowledgement = Some(acknowledgement);
        self.again.stop();
        self.events.push_back(Event::Response(response));
        if self.reliable {
            self.terminate();
        } else {
            self.state = State::Completed;
            self.end = Deadline::after(now, TIMER_D);
        }
    }

    fn accepted(&mut self, now: Instant, response: Response) {
        if self.state != State::Accepted {
            self.state = State::Accepted;
            self.again.stop();
            self.end = Deadline::after(now, self.timing.patience());
        }
        self.events.push_back(Event::Response(response));
    }
}

/// The ACK or CANCEL of an INVITE (RFC 3261 sections 17.1.1.3 and 9.1): its Request-URI, topmost `Via`, `Route`s, `From`,
/// `Call-ID` and the number of its `CSeq`; `To` as it is given.
fn follower(invite: &Request, method: Method, to: Option<&str>) -> Request {
    let mut request = Request::new(method.clone(), invite.uri.clone());
    let mut copy = |name: Name, value: Option<&str>| {
        if let Some(value) = value {
            request.headers.push(name, value);
        }
    };
    let own = &invite.headers;
    match own.top_via() {
        // Several hops may stand in one field.
        Ok(Some(via)) => copy(Name::Via, Some(&via.to_string())),
        _ => copy(Name::Via, own.get(&Name::Via)),
    }
    copy(Name::MaxForwards, own.get(&Name::MaxForwards));
    for route in own.all(&Name::Route) {
        copy(Name::Route, Some(route));
    }
    copy(Name::From, own.get(&Name::From));
    copy(Name::To, to);
    copy(Name::CallId, own.get(&Name::CallId));
    if let Ok(Some(CSeq { number, .. })) = own.cseq() {
        copy(Name::CSeq, Some(&CSeq { number, method }.to_string()));
    }
    request
}

impl Endpoint for InviteClient {
    type Packet = Message;
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Message) {
        let Message::Response(response) = packet else { return };
        match self.state {
            State::Calling | State::Proceeding if !response.status.is_final() => {
                self.state = State::Proceeding;
                self.again.stop();
                // Timer B is of Calling alone: who rings may ring for long.
                self.end.stop();
                self.events.push_back(Event::Response(response));
            }
            State::Calling | State::Proceeding if response.status.is_success() => {
                self.accepted(now, response)
            }
            State::Calling | State::Proceeding => self.completed(now, response),
            State::Accepted if response.status.is_success() => self.accepted(now, response),
            // "Any retransmissions of the final response that are received while in the "Completed" state MUST cause the ACK
            // to be re-passed to the transport layer for retransmission, but the newly received response MUST NOT be passed up".
            State::Completed if response.status.is_final() => {
                self.out.extend(self.acknowledgement.clone().map(Message::from));
            }
            State::Accepted | State::Completed | State::Terminated => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.end.has_come(now) {
            if self.state == State::Calling {
                self.events.push_back(Event::TimedOut(Timer::B));
            }
            self.terminate();
        } else if self.again.has_come(now, None) {
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
