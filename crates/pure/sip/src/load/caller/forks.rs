//! Calls with several 2xx: "Multiple 2xx responses may arrive at the UAC for a single INVITE request due to a forking
//! proxy. Each response is distinguished by the tag parameter in the To header field, and each represents a distinct
//! dialog" (RFC 3261 section 13.2.2.4). Each is acknowledged, and all dialogs but the first are hung up.

use netrig_core::Instant;

use super::super::output::LoadOutput;
use super::super::scan::Scan;
use super::super::text::InlineText;
use super::inviting::broken_dialog;
use super::sending::CallRequest;
use super::{CallTimers, Caller, CallerCall, CallerPhase, Key, Timed, record};
use crate::deadline::Deadline;
use crate::record::{AttemptCounts, Failure, Stamps};

impl Caller {
    /// Handles a 2xx of a dialog other than the first.
    pub(super) fn forked(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        cseq: u32,
        key: Key,
        out: &mut LoadOutput,
    ) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let id = (key, Box::from(scan.to_tag.unwrap_or_default()));
        if let Some(known) = self.forks.get(&id).copied() {
            call.counts.acknowledgements_again += 1;
            self.write(known, CallRequest::Acknowledge(cseq), out);
            return;
        }
        let dialog = CallerCall {
            phase: CallerPhase::Holding,
            failure: broken_dialog(scan),
            invite: cseq,
            branches: 0,
            prack: 0,
            counts: AttemptCounts::default(),
            timers: CallTimers::default(),
            stamps: Stamps::new(now, now),
            refresh: None,
            remote: InlineText::default(),
            target: InlineText::default(),
            routes: InlineText::default(),
            ..call.clone()
        };
        let Some(own) = self.calls.insert(|_| dialog) else {
            // The callee will retransmit the 2xx, because it is not acknowledged.
            self.strays += 1;
            return;
        };
        if let Some(call) = self.calls.get_mut(key) {
            call.branches = call.branches.saturating_add(1);
            call.counts.surplus += 1;
            call.is_met = true;
        }
        self.forks.insert(id, own);
        self.take_dialog(scan, own);
        self.write(own, CallRequest::Acknowledge(cseq), out);
        self.hang_up(now, own, out);
    }

    /// Ends a further dialog, whose 2xx may be retransmitted.
    pub(super) fn release(&mut self, key: Key, out: &mut LoadOutput) {
        let patience = self.setup.timing.patience();
        let Some(dialog) = self.calls.get_mut(key) else { return };
        let (first, failure) = (dialog.token, dialog.failure);
        dialog.phase = CallerPhase::Released;
        dialog.timers = CallTimers { end: Deadline::after(self.arrived, patience), ..CallTimers::default() };
        self.rest(key.index);
        let Some(call) = self.calls.get_mut(first.key).filter(|call| call.token == first) else { return };
        call.branches = call.branches.saturating_sub(1);
        call.failure = call.failure.or(failure);
        if matches!(call.phase, CallerPhase::Forked { .. }) {
            self.settle(first.key, out);
        }
    }

    /// Ends the first dialog, and waits for further ones: "The UAC core considers the INVITE transaction completed
    /// 64*T1 seconds after the reception of the first 2xx response."
    pub(super) fn linger(&mut self, key: Key, out: &mut LoadOutput) {
        let patience = self.setup.timing.patience();
        let Some(call) = self.calls.get_mut(key) else { return };
        call.phase = CallerPhase::Forked { is_told: false };
        call.timers =
            CallTimers { end: Deadline::after(call.stamps.answered, patience), ..CallTimers::default() };
        self.settle(key, out);
        self.rest(key.index);
    }

    /// Writes the record of a call when all its dialogs are over.
    fn settle(&mut self, key: Key, out: &mut LoadOutput) {
        let Some(call) = self
            .calls
            .get_mut(key)
            .filter(|call| call.phase == (CallerPhase::Forked { is_told: false }) && call.branches == 0)
        else {
            return;
        };
        if call.counts.surplus > 0 || call.failure.is_some() {
            call.phase = CallerPhase::Forked { is_told: true };
            out.records.push(record(call));
        }
    }

    /// Ends a call that can get no further dialog.
    pub(super) fn forked_out(&mut self, now: Instant, key: Key, is_told: bool, out: &mut LoadOutput) {
        let patience = self.setup.timing.patience();
        let Some(call) = self.calls.get_mut(key) else { return };
        if call.branches > 0 {
            call.timers.end = Deadline::after(now, patience);
            return;
        }
        call.failure = call.failure.or((!call.is_met).then_some(Failure::Without("a second answer")));
        if !is_told {
            out.records.push(record(call));
        }
        self.forget(key);
    }
}
