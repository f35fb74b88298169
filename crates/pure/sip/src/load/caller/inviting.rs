//! Responses to the first INVITE of a call.

use netrig_core::{Duration, Instant};

use super::super::authorize::failure_of;
use super::super::output::LoadOutput;
use super::super::scan::Scan;
use super::super::session::broken_answer;
use super::super::template::{Hole, HoleValues};
use super::super::text::InlineText;
use super::sending::CallRequest;
use super::{CallTimers, Caller, CallerPhase, Key, Scenario, record};
use crate::deadline::Deadline;
use crate::record::{Failure, stamp, transaction};
use crate::sdp::MediaDirection;

impl Caller {
    /// Handles a response to the last INVITE of the call, or to an earlier one that was challenged.
    pub(super) fn invited(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        (status, cseq): (u16, u32),
        (key, server): (Key, u8),
        out: &mut LoadOutput,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.refresh.as_ref().is_some_and(|refresh| refresh.own.is_inviting() && refresh.own.cseq == cseq)
        {
            return self.refreshed(now, scan, (status, cseq), key, out);
        }
        let is_last = call.invite == cseq && call.server == server;
        let is_open = is_last
            && matches!(call.phase, CallerPhase::Calling | CallerPhase::Proceeding | CallerPhase::Cancelling);
        let is_changing = is_last && call.phase == CallerPhase::Changing;
        // "Accepted" (RFC 6026 section 7.2): a later final response other than 2xx is neither acknowledged nor passed on.
        let is_past = is_last && call.step == 0 && !is_open && (200..300).contains(&call.status);
        match status {
            100..200 if is_open => self.proceeding(now, scan, status, key, out),
            100..200 if is_changing => self.change_proceeds(now, status, key),
            // The final response has overtaken this provisional response.
            100..200 => call.counts.reordered += 1,
            200..300 if is_open => self.accepted(now, scan, status, key, out),
            200..300 if is_changing => self.changed(now, scan, key, out),
            200..300 => self.accepted_again(now, scan, cseq, key, out),
            300.. if is_past => self.strays += 1,
            300.. => {
                self.refuse(scan, (cseq, server), key, out);
                if is_open {
                    self.refused(now, scan, status, key, out);
                } else if is_changing {
                    self.change_refused(now, scan, status, key, out);
                }
            }
            _ => self.strays += 1,
        }
    }

    fn proceeding(&mut self, now: Instant, scan: &Scan<'_>, status: u16, key: Key, out: &mut LoadOutput) {
        let longest = self.setup.longest_ringing;
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_ringing = status > 100;
        if is_ringing {
            stamp(&mut call.stamps.ringing, self.arrived);
            let is_early = matches!(call.scenario, Scenario::EarlyMedia { .. });
            call.is_met |= is_early && !scan.body.is_empty();
        } else if call.stamps.ringing == Instant::NEVER {
            stamp(&mut call.stamps.trying, self.arrived);
        } else {
            call.counts.reordered += 1;
        }
        let was_calling = call.phase == CallerPhase::Calling;
        if was_calling {
            call.phase = CallerPhase::Proceeding;
            // "In the "Proceeding" state, the client transaction SHOULD NOT retransmit the request any longer" (RFC
            // 3261 section 17.1.1.2).
            call.timers.again.stop();
            call.timers.end.stop();
        }
        let span = match call.scenario {
            Scenario::Cancel { after } if was_calling => Some(after),
            Scenario::NoAnswer { patience } if is_ringing && call.stamps.ringing == self.arrived => {
                Some(patience)
            }
            _ if was_calling => Some(longest),
            _ => None,
        };
        if let Some(span) = span.filter(|_| call.phase == CallerPhase::Proceeding) {
            call.timers.act = Deadline::after(now, span);
        }
        let wants_reliable = matches!(call.scenario, Scenario::Prack { .. });
        if is_ringing && (wants_reliable || scan.requires_100rel) {
            self.rings_reliably(now, scan, key, out);
        }
    }

    fn accepted(&mut self, now: Instant, scan: &Scan<'_>, status: u16, key: Key, out: &mut LoadOutput) {
        self.take_dialog(scan, key);
        self.agree(now, scan, key);
        let judged = self.judged(scan, key);
        let Some(call) = self.calls.get_mut(key) else { return };
        call.status = status;
        stamp(&mut call.stamps.answered, self.arrived);
        if call.prack == 0 {
            call.timers.again.stop();
            call.timers.end.stop();
        }
        call.phase = CallerPhase::Holding;
        call.failure = call.failure.or(broken_dialog(scan)).or(judged);
        let hold = match call.scenario {
            Scenario::Reinvite { .. } if call.failure.is_none() => call.scenario.third(),
            scenario => match scenario.hold().filter(|_| call.failure.is_none()) {
                Some(hold) => hold,
                None => {
                    call.failure = call.failure.or(Some(Failure::Status(status)));
                    Duration::ZERO
                }
            },
        };
        stamp(&mut call.stamps.acknowledged, now);
        call.timers.act = Deadline::after(now, hold);
        let invite = call.invite;
        self.write(key, CallRequest::Acknowledge(invite), out);
        if hold.is_zero() {
            self.due(now, key, out);
        }
    }

    /// The failure of a 2xx that does not meet the condition of the scenario.
    fn judged(&self, scan: &Scan<'_>, key: Key) -> Option<Failure> {
        let call = self.calls.get(key)?;
        let answer =
            || broken_answer(&self.setup.description, MediaDirection::SendRecv, scan.body).map(Failure::Rule);
        match call.scenario {
            Scenario::EarlyMedia { .. } if !call.is_met => Some(Failure::Without("early media")),
            Scenario::Prack { .. } if !call.is_met => {
                Some(Failure::Without("a provisional response to acknowledge"))
            }
            Scenario::EarlyMedia { .. } | Scenario::Reinvite { .. } => answer(),
            // "The initial offer MUST be in either an INVITE or, if not there, in the first reliable non-failure message from
            // the UAS back to the UAC." (RFC 3261 section 13.2.1): here that is the 2xx.
            Scenario::DelayedOffer { .. } if scan.body.is_empty() => {
                Some(Failure::Rule("RFC 3261 section 13.2.1"))
            }
            _ => None,
        }
    }

    /// Handles a 2xx after the first: a retransmission, or the 2xx of a further dialog.
    fn accepted_again(&mut self, now: Instant, scan: &Scan<'_>, cseq: u32, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let is_answered = matches!(
            call.phase,
            CallerPhase::Holding
                | CallerPhase::Changing
                | CallerPhase::Ending
                | CallerPhase::Forked { .. }
                | CallerPhase::Released
        );
        if !is_answered {
            self.strays += 1;
        } else if call.remote_tag() == scan.to_tag {
            call.counts.acknowledgements_again += 1;
            self.write(key, CallRequest::Acknowledge(cseq), out);
        } else {
            self.forked(now, scan, cseq, key, out);
        }
    }

    /// Acknowledges a final response other than 2xx, and each retransmission of it. This ACK belongs to the
    /// transaction of the INVITE (RFC 3261 section 17.1.1.3).
    pub(super) fn refuse(
        &mut self,
        scan: &Scan<'_>,
        (cseq, server): (u32, u8),
        key: Key,
        out: &mut LoadOutput,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.phase == CallerPhase::Refused {
            call.counts.acknowledgements_again += 1;
        }
        let remote = InlineText::<126>::of(scan.to.unwrap_or_default());
        let values = HoleValues::default().with(Hole::Remote, remote.as_bytes());
        let which = (cseq, transaction(cseq, server));
        if let Some(call) = self.calls.get(key) {
            let is_refresh = call.refresh.as_ref().is_some_and(|refresh| refresh.own.last == cseq);
            if call.step > 0 && cseq == call.invite || is_refresh {
                // Within the dialog the ACK follows the route of its INVITE.
                let values = values
                    .with(Hole::Target, call.target.as_bytes())
                    .with(Hole::Routes, call.routes.as_bytes());
                self.put((call, key), &self.requests.acknowledge, which, values, call.next_hop, out);
            } else {
                let moved = self.moved_to(call, cseq);
                let first = || self.setup.current(call.located.as_deref(), server);
                let to = if moved.is_some() { self.asked_with(call, cseq) } else { first() };
                let values = values.with(Hole::Target, moved.unwrap_or_default());
                let template = &self.requests.initial(moved.is_some()).refused;
                self.put((call, key), template, which, values, to, out);
            }
            // "The ACK MUST be sent to the same address, port, and transport to which the original request was sent" (RFC 3261 section
            // 17.1.1.2).
            let is_over_tcp = match &call.refresh {
                Some(refresh) if is_refresh => refresh.own.is_over_tcp,
                _ => call.is_invite_over_tcp && cseq == call.invite,
            };
            if is_over_tcp {
                out.messages.send_over_tcp();
            }
        }
    }

    fn refused(&mut self, now: Instant, scan: &Scan<'_>, status: u16, key: Key, out: &mut LoadOutput) {
        let is_challenge = matches!(status, 401 | 407);
        let Some(call) = self.calls.get_mut(key) else { return };
        call.status = status;
        // The final response supersedes the provisional ones: a response to PRACK no longer matters.
        call.prack = 0;
        let may_ask = call.phase != CallerPhase::Cancelling;
        if is_challenge && may_ask && self.authorize(scan, key) {
            self.ask(now, key, out);
            return;
        }
        if status == 422 && may_ask && self.lengthen(scan, key) {
            return self.ask(now, key, out);
        }
        // "failure occurs if the transaction layer reports a 503 error response" (RFC 3263 section 4.3).
        if status == 503 && self.fail_over(now, key, out) {
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        let wanted = match call.scenario {
            Scenario::Busy => status == 486 || status == 600,
            Scenario::Redirect => (300..400).contains(&status),
            Scenario::Cancel { .. } | Scenario::NoAnswer { .. } => {
                call.phase == CallerPhase::Cancelling && status == 487
            }
            _ => false,
        };
        if !wanted && may_ask && self.ask_otherwise(now, scan, status, key, out) {
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.answered, self.arrived);
        stamp(&mut call.stamps.acknowledged, now);
        let failure = failure_of(status, call.proof.as_deref());
        call.failure = call.failure.or((!wanted).then_some(failure));
        call.phase = CallerPhase::Refused;
        let reliable = self.setup.transport.is_reliable() || call.is_invite_over_tcp;
        call.timers =
            CallTimers { end: Deadline::after(now, self.setup.timing.timer_d()), ..CallTimers::default() };
        out.records.push(record(call));
        if reliable {
            self.forget(key);
        }
    }

    /// Handles a response to CANCEL. The final response to the INVITE may arrive before or after that response.
    pub(super) fn cancelled(&mut self, key: Key, status: u16) {
        if let Some(call) = self.calls.get_mut(key).filter(|call| call.phase == CallerPhase::Cancelling)
            && status >= 200
        {
            call.timers.again.stop();
            call.is_cancel_answered = status < 300;
        }
    }
}

/// The failure of a 2xx without `Contact` or `To` tag. The caller acknowledges the 2xx and sends a BYE to the called
/// address: otherwise the callee would retransmit the 2xx and keep the call. A "UAC MUST be prepared to receive a
/// response without a tag in the To field" (RFC 3261 section 12.1.2).
pub(super) fn broken_dialog(scan: &Scan<'_>) -> Option<Failure> {
    let is_whole = scan.contact.is_some() && scan.to_tag.is_some();
    (!is_whole).then_some(Failure::Rule("RFC 3261 section 12.1.1"))
}
