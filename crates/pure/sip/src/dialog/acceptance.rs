//! A 2xx to an INVITE, which the callee retransmits until the ACK (RFC 3261 section 13.3.1.4).

use netrig_core::{Duration, Instant};

use crate::deadline::{Deadline, Repetition, earliest};
use crate::transaction::Timing;
use crate::{Method, Request, Response};

/// A 2xx with its retransmission. "This is independent of whatever transport protocols are used to send the response."
#[derive(Debug)]
pub struct Acceptance {
    response: Response,
    /// `CSeq` number of the INVITE.
    sequence: u32,
    since: Instant,
    longest: Duration,
    again: Repetition,
    end: Deadline,
    due: bool,
    outcome: Option<AcceptanceOutcome>,
}

/// The outcome of a 2xx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptanceOutcome {
    /// The ACK was received, this long after the first 2xx.
    Acknowledged(Duration),
    /// No ACK was received within 64·T1: "the dialog is confirmed, but the session SHOULD be terminated ... with a BYE".
    Unacknowledged,
}

impl Acceptance {
    /// Sends `response`, the 2xx to `invite`.
    pub fn new(now: Instant, invite: &Request, response: Response, timing: Timing) -> Self {
        Self {
            response,
            sequence: invite.headers.cseq().ok().flatten().map_or(0, |cseq| cseq.number),
            since: now,
            longest: timing.t2,
            // "an interval that starts at T1 seconds and doubles for each retransmission until it reaches T2 seconds".
            again: Repetition::after(now, timing.t1),
            end: Deadline::after(now, timing.patience()),
            due: true,
            outcome: None,
        }
    }

    /// Handles a request of the dialog. Returns whether it is the ACK: "Response retransmissions cease when an ACK request for
    /// the response is received."
    pub fn handle_request(&mut self, now: Instant, request: &Request) -> bool {
        let number = request.headers.cseq().ok().flatten().map(|cseq| cseq.number);
        if request.method != Method::Ack || number != Some(self.sequence) {
            return false;
        }
        if self.outcome.is_none() {
            self.finish(AcceptanceOutcome::Acknowledged(now - self.since));
        }
        true
    }

    fn finish(&mut self, outcome: AcceptanceOutcome) {
        self.outcome = Some(outcome);
        self.again.stop();
        self.end.stop();
        self.due = false;
    }

    /// Handles expired deadlines.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end.has_come(now) {
            self.finish(AcceptanceOutcome::Unacknowledged);
        } else if self.again.has_come(now, Some(self.longest)) {
            self.due = true;
        }
    }

    /// The time of the next call of [`Acceptance::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        earliest([self.again.at(), self.end.at()])
    }

    /// The response, if it must be sent now.
    pub fn poll_transmit(&mut self) -> Option<Response> {
        std::mem::take(&mut self.due).then(|| self.response.clone())
    }

    /// The outcome; `None` while the 2xx waits for the ACK.
    pub const fn outcome(&self) -> Option<AcceptanceOutcome> {
        self.outcome
    }
}
