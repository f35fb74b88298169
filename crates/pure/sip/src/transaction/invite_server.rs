//! The INVITE server transaction (RFC 3261 section 17.2.1, RFC 6026 section 8.5).

use netrig_core::{Duration, Instant};

use super::machine::{Core, Machine, Transaction, Trying};
use super::{Timer, Timing, TransactionEvent};
use crate::deadline::Deadline;
use crate::{Message, Method, Request, Response, Status};

/// "The server transaction MUST generate a 100 (Trying) response unless it knows that the TU will generate a provisional or
/// final response within 200 ms".
const TRYING: Duration = Duration::from_millis(200);

/// The INVITE server transaction. It does not report its first request, which its user has already. It sends a 2xx once. The
/// user retransmits the 2xx until the ACK (RFC 3261 section 13.3.1.4).
pub type InviteServerTransaction = Transaction<InviteServerMachine>;

/// State machine of an INVITE server transaction.
#[derive(Debug)]
pub struct InviteServerMachine {
    state: InviteServerState,
    /// The last response, which answers retransmitted requests.
    response: Option<Response>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InviteServerState {
    Proceeding,
    /// A final response other than 2xx was sent.
    Completed,
    /// The ACK of that response was received.
    Confirmed,
    /// A 2xx was sent (RFC 6026).
    Accepted,
}

impl InviteServerTransaction {
    /// A transaction for `request`, an INVITE received over a transport that is `reliable` or not.
    pub fn new(now: Instant, request: &Request, reliable: bool, timing: Timing) -> Self {
        let mut core = Core::new(reliable, timing);
        core.trying = Trying::after(now, TRYING, request);
        Self { machine: InviteServerMachine { state: InviteServerState::Proceeding, response: None }, core }
    }

    /// Sends a response: any number of provisional ones, and a final one. A 2xx may be sent repeatedly.
    pub fn respond(&mut self, now: Instant, response: Response) {
        self.machine.respond(&mut self.core, now, response);
    }
}

impl InviteServerMachine {
    fn respond(&mut self, core: &mut Core, now: Instant, response: Response) {
        let is_success = response.status.is_success();
        match self.state {
            InviteServerState::Proceeding => {}
            InviteServerState::Accepted if is_success => return core.send(response),
            _ => return,
        }
        core.trying.stop();
        if is_success {
            self.state = InviteServerState::Accepted;
            // Timer L.
            core.end = Deadline::after(now, core.timing.patience());
            core.send(response);
        } else if response.status.is_final() {
            self.state = InviteServerState::Completed;
            if matches!(response.status, Status::UNAUTHORIZED | Status::PROXY_AUTHENTICATION_REQUIRED) {
                // A challenge is sent once, "forgoing the normal response retransmission algorithm" (RFC 3261 section
                // 26.3.2.4): a request with a forged source address must not cause a flood. Only timer H runs.
                core.end = Deadline::after(now, core.timing.patience());
                core.send(response.clone());
            } else {
                // Timers G and H.
                core.send_repeatedly(now, response.clone());
            }
            self.response = Some(response);
        } else {
            core.send(response.clone());
            self.response = Some(response);
        }
    }

    fn acknowledged(&mut self, core: &mut Core, now: Instant, request: Request) {
        match self.state {
            InviteServerState::Completed => {
                self.state = InviteServerState::Confirmed;
                // Timer I.
                core.linger(now, core.timing.t4);
            }
            InviteServerState::Accepted => core.report(TransactionEvent::Request(request)),
            InviteServerState::Proceeding | InviteServerState::Confirmed => {}
        }
    }
}

impl Machine for InviteServerMachine {
    /// Handles a retransmitted INVITE, or an ACK.
    fn handle_packet(&mut self, core: &mut Core, now: Instant, packet: Message) {
        let Message::Request(request) = packet else { return };
        match (&request.method, self.state, &self.response) {
            (Method::Ack, ..) => self.acknowledged(core, now, request),
            (
                Method::Invite,
                InviteServerState::Proceeding | InviteServerState::Completed,
                Some(response),
            ) => {
                core.send(response.clone());
            }
            // RFC 6026 section 7.1: retransmitted INVITEs are "absorbed" in Accepted.
            _ => {}
        }
    }

    fn handle_timeout(&mut self, core: &mut Core, now: Instant) {
        if let Some(response) = core.trying.poll(now) {
            self.respond(core, now, response);
        }
        if core.end.has_come(now) {
            if self.state == InviteServerState::Completed {
                core.report(TransactionEvent::TimedOut(Timer::H));
            }
            core.terminate();
        } else if core.again.has_come(now, Some(core.timing.t2))
            && let Some(response) = &self.response
        {
            core.send(response.clone());
        }
    }

    fn handle_transport_failure(&mut self, core: &mut Core) {
        // RFC 6026 section 8.5: another 2xx may still arrive, so Accepted continues.
        if self.state == InviteServerState::Accepted {
            core.report(TransactionEvent::TransportFailed);
        } else {
            core.fail();
        }
    }
}
