//! The dialog of a call: its route set, and responses to requests within it.

use netrig_core::Instant;

use super::super::authorize::failure_of;
use super::super::output::LoadOutput;
use super::super::routes::{put_routes, transport_of};
use super::super::scan::Scan;
use super::super::text::InlineText;
use super::sending::CallRequest;
use super::{Caller, CallerPhase, Key, Scenario};
use crate::Method;
use crate::record::stamp;

/// Largest number of routes that are collected without an allocation.
const FEW: usize = 16;

impl Caller {
    /// Takes the remote target and the route set of the dialog that a response has created.
    pub(super) fn take_dialog(&mut self, scan: &Scan<'_>, key: Key) {
        self.lines.clear();
        let mut few: [&[u8]; FEW] = [&[]; FEW];
        let mut many = Vec::new();
        let mut count = 0;
        for route in scan.record_routes() {
            match few.get_mut(count) {
                Some(place) => *place = route.whole,
                None if many.is_empty() => many.extend(few.into_iter().chain([route.whole])),
                None => many.push(route.whole),
            }
            count += 1;
        }
        let routes = if many.is_empty() { &few[..count] } else { &many[..] };
        // "The route set MUST be set to the list of URIs in the Record-Route header field from the response, taken in
        // reverse order" (RFC 3261 section 12.1.2).
        // Without a contact, the remote target is the called URI.
        let peer = self.calls.get(key).map(|call| call.peer).filter(|_| scan.contact.is_none());
        let called = peer.map(|peer| self.address_of(peer)).unwrap_or_default();
        let contact = scan.contact.unwrap_or(&called);
        let route = put_routes(routes.iter().rev().copied(), contact, &mut self.lines);
        let Some(call) = self.calls.get_mut(key) else { return };
        let server = call.asked(&self.setup);
        call.next_hop = self.setup.next_hop(route.next, call.located.as_deref(), server);
        call.is_dialog_over_tcp = self.setup.has_two_transports()
            && transport_of(route.next).is_some_and(|named| named.eq_ignore_ascii_case(b"tcp"));
        call.routes = InlineText::of_lines(&self.lines);
        call.remote = InlineText::of(scan.to.unwrap_or_default());
        call.target = InlineText::of(route.target);
    }

    /// Handles a response to BYE, OPTIONS, MESSAGE or SUBSCRIBE.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        (status, cseq): (u16, u32),
        key: Key,
        out: &mut LoadOutput,
    ) {
        let timing = self.setup.timing;
        let Some(call) = self.calls.get_mut(key) else { return };
        let method = match (call.phase, call.scenario) {
            (
                CallerPhase::Asking | CallerPhase::Changing | CallerPhase::Ending,
                Scenario::Subscribe { .. },
            ) => Method::Subscribe,
            (CallerPhase::Ending, _) => Method::Bye,
            (CallerPhase::Asking, Scenario::Options) => Method::Options,
            (CallerPhase::Asking, _) => Method::Message,
            _ => return self.strays += 1,
        };
        if call.cseq != cseq {
            return self.strays += 1;
        }
        if status < 200 {
            // "If Timer E fires while in the "Proceeding" state, the request MUST be passed to the transport layer for
            // retransmission, and Timer E MUST be reset with a value of T2 seconds" (RFC 3261 section 17.1.2.2).
            call.timers.again.slow_down(timing.t2);
            return;
        }
        let is_first = call.phase == CallerPhase::Asking;
        if matches!(status, 401 | 407) && self.authorize(scan, key) {
            let sent = match method {
                Method::Bye => CallRequest::Bye,
                Method::Subscribe if !is_first => CallRequest::Subscribe,
                _ => CallRequest::Ask,
            };
            return self.send(now, key, sent, out);
        }
        if status == 503 && self.fail_over(now, key, out) {
            return;
        }
        if method == Method::Subscribe && status < 300 {
            return self.subscribed(now, scan, status, key, out);
        }
        if is_first && status >= 300 && self.ask_otherwise(now, scan, status, key, out) {
            return;
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.ended, self.arrived);
        if is_first {
            call.status = status;
            stamp(&mut call.stamps.answered, self.arrived);
        }
        if status >= 300 {
            if method == Method::Bye {
                stamp(&mut call.stamps.unended, self.arrived);
            }
            let failure = failure_of(status, call.proof.as_deref());
            call.failure = call.failure.or(Some(failure));
        }
        self.finish(key, out);
    }
}
