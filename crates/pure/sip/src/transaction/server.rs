//! The non-INVITE server transaction (RFC 3261 section 17.2.2, RFC 4320).

use netrig_core::Instant;

use super::Timing;
use super::machine::{Core, Machine, Transaction, Trying};
use crate::deadline::Deadline;
use crate::{Message, Request, Response};

/// The non-INVITE server transaction. It does not report its first request, which its user has already.
pub type ServerTransaction = Transaction<ServerMachine>;

/// State machine of a non-INVITE server transaction.
#[derive(Debug)]
pub struct ServerMachine {
    /// The last response, which answers retransmitted requests.
    response: Option<Response>,
}

impl ServerTransaction {
    /// A transaction for `request`, received over a transport that is `reliable` or not.
    pub fn new(now: Instant, request: &Request, reliable: bool, timing: Timing) -> Self {
        let mut core = Core::new(reliable, timing);
        // "Without regard to transport, a SIP element MUST respond to a non-INVITE request with a Status-Code of 100 if it has not
        // otherwise responded after the amount of time it takes a client transaction's Timer E to be reset to T2" (RFC 4320
        // section 4.1). Over an unreliable transport it must not respond with 100 earlier.
        core.trying = Trying::after(now, timing.until_e_is_t2(), request);
        Self { machine: ServerMachine { response: None }, core }
    }

    /// Sends no final response: "an element that cannot respond before the transaction expires will not send a final
    /// response at all" (RFC 4320 section 4.2). Retransmissions are absorbed until the client has timed out.
    pub fn leave_unanswered(&mut self, now: Instant) {
        if !self.machine.is_completed() {
            self.core.trying.stop();
            self.core.end = Deadline::after(now, self.core.timing.patience());
        }
    }

    /// Sends a response. After the final response, "Any other final responses passed by the TU to the server transaction
    /// MUST be discarded".
    pub fn respond(&mut self, now: Instant, response: Response) {
        self.machine.respond(&mut self.core, now, response);
    }
}

impl ServerMachine {
    fn is_completed(&self) -> bool {
        self.response.as_ref().is_some_and(|response| response.status.is_final())
    }

    fn respond(&mut self, core: &mut Core, now: Instant, response: Response) {
        if self.is_completed() {
            return;
        }
        core.trying.stop();
        core.send(response.clone());
        self.response = Some(response);
        if self.is_completed() {
            // Timer J.
            core.linger(now, core.timing.patience());
        }
    }
}

impl Machine for ServerMachine {
    /// Handles a retransmitted request: in Trying it is "discarded", later the last response is sent again.
    fn handle_packet(&mut self, core: &mut Core, _now: Instant, packet: Message) {
        if let (Message::Request(_), Some(response)) = (packet, &self.response) {
            core.send(response.clone());
        }
    }

    fn handle_timeout(&mut self, core: &mut Core, now: Instant) {
        if let Some(response) = core.trying.poll(now) {
            self.respond(core, now, response);
        }
        if core.end.has_come(now) {
            core.terminate();
        }
    }

    fn handle_transport_failure(&mut self, core: &mut Core) {
        if self.response.is_some() {
            core.fail();
        }
    }
}
