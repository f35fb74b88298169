//! Calls that are answered at several places: "Multiple 2xx responses may arrive at the UAC for a single INVITE request due to a
//! forking proxy. Each response is distinguished by the tag parameter in the To header field, and each represents a distinct
//! dialog" (RFC 3261 section 13.2.2.4). Each is acknowledged, and all but the first are hung up.

use netrig_core::Instant;

use super::super::output::LoadOutput;
use super::super::scan::Scan;
use super::super::text::InlineText;
use super::inviting::broken_dialog;
use super::sending::CallRequest;
use super::{CallTimers, Caller, CallerCall, CallerPhase, SlabKey, Timed, record};
use crate::deadline::Deadline;
use crate::record::{AttemptCounts, Failure, Stamps};

impl Caller {
    /// A 2xx of another dialog than the call's own.
    pub(super) fn forked(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        cseq: u32,
        key: SlabKey,
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
            // It comes again, as nobody acknowledges it.
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

    /// A dialog beside the first is ended. Its 2xx may come again.
    pub(super) fn release(&mut self, key: SlabKey, out: &mut LoadOutput) {
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

    /// The call's own dialog is ended: "The UAC core considers the INVITE transaction completed 64*T1 seconds after the reception
    /// of the first 2xx response."
    pub(super) fn linger(&mut self, key: SlabKey, out: &mut LoadOutput) {
        let patience = self.setup.timing.patience();
        let Some(call) = self.calls.get_mut(key) else { return };
        call.phase = CallerPhase::Forked { is_told: false };
        call.timers =
            CallTimers { end: Deadline::after(call.stamps.answered, patience), ..CallTimers::default() };
        self.settle(key, out);
        self.rest(key.index);
    }

    /// Tells what became of a call when all its dialogs are ended.
    fn settle(&mut self, key: SlabKey, out: &mut LoadOutput) {
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

    /// No other dialog can come any more.
    pub(super) fn forked_out(&mut self, now: Instant, key: SlabKey, is_told: bool, out: &mut LoadOutput) {
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
