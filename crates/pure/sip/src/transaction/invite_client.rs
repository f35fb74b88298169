//! The INVITE client transaction (RFC 3261 section 17.1.1, RFC 6026 section 8.4).

use netrig_core::Instant;

use super::machine::{Core, Machine, Transaction};
use super::{Timer, Timing, TransactionEvent};
use crate::deadline::Deadline;
use crate::header::CSeq;
use crate::{Message, Method, Name, Request, Response};

/// The INVITE client transaction. It acknowledges final responses other than 2xx itself. Its user acknowledges each 2xx and
/// each of its retransmissions.
pub type InviteClientTransaction = Transaction<InviteClientMachine>;

/// State machine of an INVITE client transaction.
#[derive(Debug)]
pub struct InviteClientMachine {
    request: Request,
    state: InviteClientState,
    acknowledgement: Option<Box<Request>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InviteClientState {
    Calling,
    Proceeding,
    /// A final response other than 2xx was received.
    Completed,
    /// A 2xx was received (RFC 6026).
    Accepted,
}

impl InviteClientTransaction {
    /// Sends `request`, an INVITE, over a transport that is `reliable` or not.
    pub fn new(now: Instant, request: Request, reliable: bool, timing: Timing) -> Self {
        let mut core = Core::new(reliable, timing);
        // "If an unreliable transport is being used, the client transaction MUST start timer A with a value of T1 ... For any
        // transport, the client transaction MUST start timer B with a value of 64*T1 seconds".
        core.send_repeatedly(now, request.clone());
        Self {
            machine: InviteClientMachine {
                request,
                state: InviteClientState::Calling,
                acknowledgement: None,
            },
            core,
        }
    }

    /// Whether a CANCEL may be sent: after a provisional response and before a final one (RFC 3261 section 9.1).
    pub fn can_be_cancelled(&self) -> bool {
        self.machine.state == InviteClientState::Proceeding && !self.core.is_over()
    }

    /// The CANCEL of the INVITE (RFC 3261 section 9.1), which is a separate transaction.
    pub fn cancellation(&self) -> Request {
        let request = &self.machine.request;
        follower(request, Method::Cancel, request.headers.get(&Name::To))
    }
}

impl InviteClientMachine {
    fn completed(&mut self, core: &mut Core, now: Instant, response: Response) {
        let acknowledgement = follower(&self.request, Method::Ack, response.headers.get(&Name::To));
        core.send(acknowledgement.clone());
        self.acknowledgement = Some(acknowledgement.into());
        self.state = InviteClientState::Completed;
        core.report(TransactionEvent::Response(response));
        core.linger(now, core.timing.timer_d());
    }

    fn accepted(&mut self, core: &mut Core, now: Instant, response: Response) {
        if self.state != InviteClientState::Accepted {
            self.state = InviteClientState::Accepted;
            core.again.stop();
            // Timer M.
            core.end = Deadline::after(now, core.timing.patience());
        }
        core.report(TransactionEvent::Response(response));
    }
}

/// The ACK or CANCEL of an INVITE (RFC 3261 sections 17.1.1.3 and 9.1). It has the Request-URI, the topmost `Via`, `Route`s,
/// `From`, `Call-ID` and the `CSeq` number of the INVITE, and the given `To`.
fn follower(invite: &Request, method: Method, to: Option<&str>) -> Request {
    let mut request = Request::new(method.clone(), invite.uri.clone());
    let mut copy = |name: Name, value: Option<&str>| {
        if let Some(value) = value {
            request.headers.push(name, value);
        }
    };
    let own = &invite.headers;
    match own.top_via() {
        // One field may have several values.
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

impl Machine for InviteClientMachine {
    fn handle_packet(&mut self, core: &mut Core, now: Instant, packet: Message) {
        let Message::Response(response) = packet else { return };
        match self.state {
            InviteClientState::Calling | InviteClientState::Proceeding if !response.status.is_final() => {
                self.state = InviteClientState::Proceeding;
                core.again.stop();
                // Timer B runs in Calling only: a callee may ring for long.
                core.end.stop();
                core.report(TransactionEvent::Response(response));
            }
            InviteClientState::Calling | InviteClientState::Proceeding if response.status.is_success() => {
                self.accepted(core, now, response)
            }
            InviteClientState::Calling | InviteClientState::Proceeding => self.completed(core, now, response),
            InviteClientState::Accepted if response.status.is_success() => self.accepted(core, now, response),
            // "Any retransmissions of the final response that are received while in the "Completed" state MUST cause the ACK
            // to be re-passed to the transport layer for retransmission, but the newly received response MUST NOT be passed up".
            InviteClientState::Completed if response.status.is_final() => {
                if let Some(acknowledgement) = &self.acknowledgement {
                    core.send(Request::clone(acknowledgement));
                }
            }
            InviteClientState::Accepted | InviteClientState::Completed => {}
        }
    }

    fn handle_timeout(&mut self, core: &mut Core, now: Instant) {
        if core.end.has_come(now) {
            if self.state == InviteClientState::Calling {
                core.report(TransactionEvent::TimedOut(Timer::B));
            }
            core.terminate();
        } else if core.again.has_come(now, None) {
            core.send(self.request.clone());
        }
    }

    fn handle_transport_failure(&mut self, core: &mut Core) {
        core.fail();
    }
}
