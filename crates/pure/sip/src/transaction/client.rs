//! The non-INVITE client transaction (RFC 3261 section 17.1.2).

use netrig_core::Instant;

use super::machine::{Core, Machine, Transaction};
use super::{Timer, Timing, TransactionEvent};
use crate::deadline::Repetition;
use crate::{Message, Request};

/// The non-INVITE client transaction.
pub type ClientTransaction = Transaction<ClientMachine>;

/// State machine of a non-INVITE client transaction.
#[derive(Debug)]
pub struct ClientMachine {
    request: Request,
    state: ClientState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    Trying,
    Proceeding,
    Completed,
}

impl ClientTransaction {
    /// Sends `request` over a transport that is `reliable` or not.
    pub fn new(now: Instant, request: Request, reliable: bool, timing: Timing) -> Self {
        let mut core = Core::new(reliable, timing);
        // "If an unreliable transport is in use, the client transaction MUST set timer E to fire in T1 seconds."
        core.send_repeatedly(now, request.clone());
        Self { machine: ClientMachine { request, state: ClientState::Trying }, core }
    }
}

impl Machine for ClientMachine {
    fn handle_packet(&mut self, core: &mut Core, now: Instant, packet: Message) {
        let Message::Response(response) = packet else { return };
        // "The "Completed" state exists to buffer any additional response retransmissions that may be received" (RFC 3261
        // section 17.1.2.2).
        if self.state == ClientState::Completed {
            return;
        }
        let is_final = response.status.is_final();
        core.report(TransactionEvent::Response(response));
        if is_final {
            self.state = ClientState::Completed;
            // Timer K.
            core.linger(now, core.timing.t4);
        } else {
            self.state = ClientState::Proceeding;
        }
    }

    fn handle_timeout(&mut self, core: &mut Core, now: Instant) {
        if core.end.has_come(now) {
            if self.state != ClientState::Completed {
                core.report(TransactionEvent::TimedOut(Timer::F));
            }
            core.terminate();
            return;
        }
        // "MIN(2*T1, T2)" in Trying; in Proceeding it "MUST be reset with a value of T2 seconds".
        let t2 = core.timing.t2;
        if core.again.has_come(now, Some(t2)) {
            if self.state == ClientState::Proceeding {
                core.again = Repetition::after(now, t2);
            }
            core.send(self.request.clone());
        }
    }

    fn handle_transport_failure(&mut self, core: &mut Core) {
        if self.state != ClientState::Completed {
            core.fail();
        }
    }
}
