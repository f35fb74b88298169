//! Reliable provisional responses: 100rel (RFC 3262).

use std::collections::VecDeque;

use netrig_core::{Instant, Stream};

use super::RequestRefusal;
use crate::deadline::{Deadline, Repetition, earliest};
use crate::header::CSeq;
use crate::transaction::Timing;
use crate::{Name, Request, Response, Status};

/// The option tag of reliable provisional responses.
pub(crate) const RELIABLE: &str = "100rel";

/// Most responses that wait for the acknowledgement of an earlier one. Further ones are dropped.
pub const MOST_WAITING: usize = 16;

/// The sender of reliable provisional responses to one INVITE.
#[derive(Debug)]
pub struct ProvisionalSender {
    timing: Timing,
    request: CSeq,
    next: u32,
    /// The response that is sent and not acknowledged, with its `RSeq`.
    sent: Option<(u32, Response)>,
    again: Repetition,
    end: Deadline,
    waiting: VecDeque<Response>,
    due: bool,
    given_up: bool,
}

impl ProvisionalSender {
    /// A sender for `invite`. `None` if the caller does not support `100rel` (RFC 3262 section 3), or if `CSeq` is missing or wrong.
    pub fn new(invite: &Request, timing: Timing, random: &mut Stream) -> Option<Self> {
        if ![Name::Supported, Name::Require].iter().any(|name| invite.headers.has_token(name, RELIABLE)) {
            return None;
        }
        // "The value of the header field for the first reliable provisional response in a transaction MUST be between 1 and
        // 2**31 - 1. It is RECOMMENDED that it be chosen uniformly in this range."
        let next = 1 + u32::try_from(random.below((1 << 31) - 1)).unwrap_or(0);
        Some(Self {
            timing,
            request: invite.headers.cseq().ok()??,
            next,
            sent: None,
            again: Repetition::default(),
            end: Deadline::default(),
            waiting: VecDeque::new(),
            due: false,
            given_up: false,
        })
    }

    /// Sends a response from 101 to 199 ("A UAS MUST NOT attempt to send a 100 (Trying) response reliably") as soon as earlier
    /// ones are acknowledged.
    pub fn send(&mut self, now: Instant, mut response: Response) {
        // "it MUST contain a Require header field containing the option tag 100rel, and MUST include an RSeq header field". RSeq
        // increases by one.
        response.headers.push(Name::Require, RELIABLE);
        response.headers.push(Name::RSeq, self.next);
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        // "The UAS MUST NOT send a second reliable provisional response until the first is acknowledged."
        if self.sent.is_none() {
            self.begin(now, number, response);
        } else if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(response);
        } else {
            self.next = number;
        }
    }

    fn begin(&mut self, now: Instant, number: u32, response: Response) {
        self.sent = Some((number, response));
        // "with an interval that starts at T1 seconds and doubles for each retransmission", without the limit T2.
        self.again = Repetition::after(now, self.timing.t1);
        self.end = Deadline::after(now, self.timing.patience());
        self.due = true;
    }

    /// Handles a PRACK of the dialog. If it succeeds, the caller answers with 200.
    ///
    /// # Errors
    /// "If a PRACK request is received by the UA core that does not match any unacknowledged reliable provisional response, the
    /// UAS MUST respond to the PRACK with a 481 response."
    pub fn handle_request(&mut self, now: Instant, prack: &Request) -> Result<(), RequestRefusal> {
        const RULE: &str = "RFC 3262 section 3";
        let rack = prack.headers.rack().ok().flatten();
        let rack = rack
            .ok_or_else(|| RequestRefusal::new(Status::BAD_REQUEST, RULE, "RAck is missing or unreadable"))?;
        let matching = self
            .sent
            .as_ref()
            .is_some_and(|(number, _)| *number == rack.response && rack.request == self.request);
        if !matching {
            let what = format!("RAck `{rack}` matches no unacknowledged response");
            return Err(RequestRefusal::new(Status::CALL_DOES_NOT_EXIST, RULE, what));
        }
        self.stop_repeating();
        self.sent = None;
        if let Some(response) = self.waiting.pop_front() {
            let number = response.headers.number(&Name::RSeq).ok().flatten().unwrap_or(0);
            self.begin(now, number, response);
        }
        Ok(())
    }

    /// Stops, because the final response is sent: the UAS "SHOULD NOT continue to retransmit the unacknowledged reliable provisional responses,
    /// but it MUST be prepared to process PRACK requests for those outstanding responses".
    pub fn finish(&mut self) {
        self.stop_repeating();
        self.waiting.clear();
    }

    fn stop_repeating(&mut self) {
        self.again.stop();
        self.end.stop();
        self.due = false;
    }

    /// Whether a 2xx must wait: If "any of the unacknowledged reliable provisional responses contained a session description ...
    /// it MUST NOT send a final response until those provisional responses are acknowledged" (RFC 3262 section 3).
    pub fn holds_2xx_back(&self) -> bool {
        self.sent
            .iter()
            .map(|(_, response)| response)
            .chain(&self.waiting)
            .any(|response| !response.body.is_empty())
    }

    /// Handles expired deadlines.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end.has_come(now) {
            self.finish();
            self.given_up = true;
        } else if self.again.has_come(now, None) {
            self.due = true;
        }
    }

    /// The time of the next call of [`ProvisionalSender::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        earliest([self.again.at(), self.end.at()])
    }

    /// The response, if it must be sent now.
    pub fn poll_transmit(&mut self) -> Option<Response> {
        std::mem::take(&mut self.due)
            .then(|| self.sent.as_ref().map(|(_, response)| response.clone()))
            .flatten()
    }

    /// Whether no PRACK was received within 64·T1: "the UAS SHOULD reject the original request with a 5xx response".
    pub const fn has_given_up(&self) -> bool {
        self.given_up
    }
}
