//! Calls and questions that are asked elsewhere, as a 3xx says (RFC 3261 section 8.1.3.4), or later, as `Retry-After` says (section
//! 20.33).

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::super::output::Output;
use super::super::registrant::is_equivalent;
use super::super::scan::{Address, Scan};
use super::super::setup::Setup;
use super::dialog::transport_of;
use super::{Call, Caller, Clock, Key, Phase, Timed};
use crate::deadline::Deadline;
use crate::header::Transport;

/// Where a call was sent by 3xx.
#[derive(Clone, Debug, Default)]
pub(super) struct Redirects {
    /// Request-URIs that were asked, each with the number of the first request to it.
    tried: Vec<(u32, Box<[u8]>)>,
    /// Those that were named and not asked, the best last.
    untried: Vec<Box<[u8]>>,
}

impl Redirects {
    pub(super) fn of(&self, cseq: u32) -> Option<&[u8]> {
        let last = self.tried.iter().rev().find(|(first, _)| *first <= cseq);
        last.map(|(_, uri)| &**uri)
    }

    /// Takes the places that a 3xx names, but those that are known already: "a client processing 3xx class responses MUST NOT add any
    /// given URI to the target set more than once" (RFC 3261 section 8.1.3.4). They are asked before those named earlier, in the order
    /// of their `q`. Those of another transport are not reached by the load.
    pub(super) fn take(&mut self, scan: &Scan<'_>, original: &[u8], transport: Transport) {
        let preference = |contact: &Address<'_>| {
            let q = contact.parameter(b"q").and_then(|q| std::str::from_utf8(q).ok()?.parse::<f32>().ok());
            q.unwrap_or(1.0)
        };
        let place = |contact: Address<'_>| (preference(&contact), request_uri(contact.uri));
        let mut named: Vec<_> = scan.contacts().map(place).collect();
        named.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let mut new: Vec<Box<[u8]>> = Vec::new();
        for (_, uri) in named {
            let known = self.tried.iter().map(|(_, uri)| uri).chain(&self.untried).chain(&new);
            let is_known = known.map(|uri| &**uri).chain([original]).any(|known| is_equivalent(known, &uri));
            let count = self.tried.len() + self.untried.len() + new.len();
            if !is_known && count < MOST_PLACES && is_reached(&uri, transport) {
                new.push(uri.into());
            }
        }
        self.untried.extend(new.into_iter().rev());
    }

    /// Asks the next of them with this request. Whether there is one.
    pub(super) fn go_on(&mut self, cseq: u32) -> bool {
        let next = self.untried.pop();
        let is_there = next.is_some();
        self.tried.extend(next.map(|uri| (cseq, uri)));
        is_there
    }
}

/// The most places that one call asks because of 3xx: a server may name others without an end.
pub(in super::super) const MOST_PLACES: usize = 8;

/// A URI of a `Contact` as a Request-URI: "a UAC MUST copy the entire URI from the target set into the Request-URI, except for the
/// "method-param" and "header" URI parameters" (RFC 3261 section 8.1.3.4). No header field is made of the latter: what a server wants a
/// client to say is not the load's.
fn request_uri(uri: &[u8]) -> Vec<u8> {
    let uri = uri.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut parts = uri.split(|byte| *byte == b';');
    let mut own = parts.next().unwrap_or_default().to_vec();
    let is_kept = |part: &&[u8]| !part.get(..7).is_some_and(|name| name.eq_ignore_ascii_case(b"method="));
    for part in parts.filter(is_kept) {
        own.push(b';');
        own.extend_from_slice(part);
    }
    own
}

/// Whether a load over this transport reaches a URI: it is a SIP URI, which names no other transport.
fn is_reached(uri: &[u8], transport: Transport) -> bool {
    let is_sip =
        uri.len() > 4 && uri[..4].eq_ignore_ascii_case(b"sip:") && !uri.iter().any(u8::is_ascii_whitespace);
    let named = transport_of(uri);
    is_sip && named.is_none_or(|named| named.eq_ignore_ascii_case(transport.name().as_bytes()))
}

impl Caller {
    /// Asks the next place that a 3xx has named, or the same again when the time of a `Retry-After` is over, as the response to the
    /// first request says. Whether it does.
    pub(super) fn ask_otherwise(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: Key,
        out: &mut Output,
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
        call.phase = Phase::Waiting;
        call.clock = Clock { act: Deadline::after(now, wait), ..Clock::default() };
        self.rest(key.index);
        true
    }

    /// Asks the next place that a 3xx has named, if there is one. Whether there is.
    pub(super) fn move_on(&mut self, now: Instant, key: Key, out: &mut Output) -> bool {
        let Some(call) = self.calls.get_mut(key) else { return false };
        // What has been answered, or is being taken back, goes nowhere else.
        if !matches!(call.phase, Phase::Calling | Phase::Proceeding | Phase::Asking) {
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
    pub(super) fn retry(&mut self, now: Instant, key: Key, out: &mut Output) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.counts.retried += 1;
        call.proof = call.proof.take().filter(|proof| proof.goes_on());
        self.ask_again(now, key, out);
    }

    /// Sends the first request with the next number, as if nothing had come yet.
    fn ask_again(&mut self, now: Instant, key: Key, out: &mut Output) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.cseq += 1;
        call.phase = if call.is_inviting() { Phase::Calling } else { Phase::Asking };
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
    pub(super) fn moved_to(&self, call: &Call, cseq: u32) -> Option<&[u8]> {
        if call.counts.redirected == 0 { None } else { self.redirects.get(&call.token.key)?.of(cseq) }
    }

    /// Where a call's request with this number goes that begins something: to its server, or where a 3xx has pointed.
    pub(super) fn asked_with(&self, call: &Call, cseq: u32) -> SocketAddr {
        let server = call.asked(&self.setup);
        let moved = self.moved_to(call, cseq);
        moved.map_or(server, |uri| self.setup.next_hop(uri, call.located.as_deref(), server))
    }
}
