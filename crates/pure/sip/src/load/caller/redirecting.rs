//! Calls and questions that are asked elsewhere, as a 3xx says (RFC 3261 section 8.1.3.4), or later, as `Retry-After` says (section
//! 20.33).

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::super::output::LoadOutput;
use super::super::scan::Scan;
use super::super::setup::Setup;
use super::{CallTimers, Caller, CallerCall, CallerPhase, SlabKey, Timed};
use crate::deadline::Deadline;

impl Caller {
    /// Asks the next place that a 3xx has named, or the same again when the time of a `Retry-After` is over, as the response to the
    /// first request says. Whether it does.
    pub(super) fn ask_otherwise(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: SlabKey,
        out: &mut LoadOutput,
    ) -> bool {
        let Setup { follows_redirects, retries, longest_ringing, .. } = self.setup;
        let Some(call) = self.calls.get(key) else { return false };
        let original = self.address_of(call.peer);
        let Some(call) = self.calls.get_mut(key) else { return false };
        if status < 400 && follows_redirects {
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

    /// Asks the next place that a 3xx has named, if there is one. Whether there is.
    pub(super) fn move_on(&mut self, now: Instant, key: SlabKey, out: &mut LoadOutput) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        // What has been answered, or is being taken back, goes nowhere else.
        if !matches!(call.phase, CallerPhase::Calling | CallerPhase::Proceeding | CallerPhase::Asking) {
            return false;
        }
        let cseq = call.cseq + 1;
        if !self.redirects.get_mut(&call.token.key).is_some_and(|redirects| redirects.go_on(cseq)) {
            return false;
        }
        call.counts.redirected += 1;
        // The server at that place has sent none of the challenges.
        call.proof = None;
        self.ask_again(now, key, out);
        true
    }

    /// The time of a `Retry-After` is over.
    pub(super) fn retry(&mut self, now: Instant, key: SlabKey, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.counts.retried += 1;
        call.proof = call.proof.take().filter(|proof| proof.goes_on());
        self.ask_again(now, key, out);
    }

    /// Sends the first request with the next number, as if nothing had come yet.
    fn ask_again(&mut self, now: Instant, key: SlabKey, out: &mut LoadOutput) {
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

    /// The Request-URI of a call's request with this number, if a 3xx has named it.
    pub(super) fn moved_to(&self, call: &CallerCall, cseq: u32) -> Option<&[u8]> {
        if call.counts.redirected == 0 { None } else { self.redirects.get(&call.token.key)?.of(cseq) }
    }

    /// Where a call's request with this number goes that begins something: to its server, or where a 3xx has pointed.
    pub(super) fn asked_with(&self, call: &CallerCall, cseq: u32) -> SocketAddr {
        let server = call.asked(&self.setup);
        let moved = self.moved_to(call, cseq);
        moved.map_or(server, |uri| self.setup.next_hop(uri, call.located.as_deref(), server))
    }
}
