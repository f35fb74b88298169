//! Places to which 3xx responses have sent a call (RFC 3261 section 8.1.3.4).

use super::super::registrant::is_equivalent;
use super::super::routes::transport_of;
use super::super::scan::{Address, Scan};
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
