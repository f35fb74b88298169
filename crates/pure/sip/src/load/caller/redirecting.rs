//! First requests that are sent to a contact of a 3xx (RFC 3261 section 8.1.3.4), or sent again after the time of a
//! `Retry-After` (section 20.33).

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::super::output::LoadOutput;
use super::super::scan::Scan;
use super::super::setup::Setup;
use super::{CallTimers, Caller, CallerCall, CallerPhase, Key, Timed};
use crate::deadline::Deadline;
use crate::settings::UserOptions;

impl Caller {
    /// Handles a refusal of the first request: sends it to the next contact of a 3xx, or schedules it again after
    /// `Retry-After`. Returns whether it does one of the two.
    pub(super) fn ask_otherwise(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: Key,
        out: &mut LoadOutput,
    ) -> bool {
        let Setup { longest_ringing, options: UserOptions { follow_redirects, retries, .. }, .. } =
            self.setup;
        let Some(call) = self.calls.get(key) else { return false };
        let original = self.address_of(call.peer);
        let Some(call) = self.calls.get_mut(key) else { return false };
        if status < 400 && follow_redirects {
            self.redirects.entry(call.token.key).or_default().take(scan, &original, self.setup.transport);
        }
        // "Failures SHOULD be detected through failure response codes (codes greater than 399)".
        if self.move_on(now, key, out) {
            return true;
        }
        let wait = scan.retry_after().map(|seconds| Duration::from_secs(seconds.into()));
        let Some(wait) = wait.filter(|wait| status >= 400 && *wait <= longest_ringing) else { return false };
        let Some(call) = self.calls.get_mut(key) else { return false };
        if call.counts.retried >= retries {
            return false;
        }
        call.phase = CallerPhase::Waiting;
        call.timers = CallTimers { act: Deadline::after(now, wait), ..CallTimers::default() };
        self.rest(key.index);
        true
    }

    /// Sends the first request to the next contact of a 3xx. Returns whether there is one.
    pub(super) fn move_on(&mut self, now: Instant, key: Key, out: &mut LoadOutput) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        // A call that was answered or is being cancelled is not redirected.
        if !matches!(call.phase, CallerPhase::Calling | CallerPhase::Proceeding | CallerPhase::Asking) {
            return false;
        }
        let cseq = call.cseq + 1;
        if !self.redirects.get_mut(&call.token.key).is_some_and(|redirects| redirects.go_on(cseq)) {
            return false;
        }
        call.counts.redirected += 1;
        // The server at that contact has sent none of the challenges.
        call.proof = None;
        self.ask_again(now, key, out);
        true
    }

    /// Sends the first request again when the time of its `Retry-After` is over.
    pub(super) fn retry(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.counts.retried += 1;
        call.proof = call.proof.take().filter(|proof| proof.goes_on());
        self.ask_again(now, key, out);
    }

    /// Sends the first request with the next `CSeq`, and forgets all responses to it.
    fn ask_again(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.cseq += 1;
        call.phase = if call.is_inviting() { CallerPhase::Calling } else { CallerPhase::Asking };
        (call.stamps.trying, call.stamps.ringing) = (Instant::NEVER, Instant::NEVER);
        (call.prack, call.rseq) = (0, 0);
        let cseq = call.cseq;
        let Some(call) = self.calls.get(key) else { return };
        let next_hop = self.asked_with(call, cseq);
        if let Some(call) = self.calls.get_mut(key) {
            call.next_hop = next_hop;
        }
        self.ask(now, key, out);
    }

    /// The Request-URI of the request with this `CSeq`, if a 3xx has named it.
    pub(super) fn moved_to(&self, call: &CallerCall, cseq: u32) -> Option<&[u8]> {
        if call.counts.redirected == 0 { None } else { self.redirects.get(&call.token.key)?.of(cseq) }
    }

    /// Address for an initial request with this `CSeq`: its server, or the address of a contact.
    pub(super) fn asked_with(&self, call: &CallerCall, cseq: u32) -> SocketAddr {
        let server = call.asked(&self.setup);
        let moved = self.moved_to(call, cseq);
        moved.map_or(server, |uri| self.setup.next_hop(uri, call.located.as_deref(), server))
    }
}
