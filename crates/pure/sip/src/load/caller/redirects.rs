//! Contacts of 3xx responses to a call (RFC 3261 section 8.1.3.4).

use super::super::registrant::is_equivalent;
use super::super::routes::transport_of;
use super::super::scan::{Address, Scan};
use crate::header::Transport;

/// The contacts of a call that were tried, and those that were not.
#[derive(Clone, Debug, Default)]
pub(super) struct Redirects {
    /// Request-URIs that were tried, each with the `CSeq` of the first request to it.
    tried: Vec<(u32, Box<[u8]>)>,
    /// Request-URIs that were not tried, the preferred one last.
    untried: Vec<Box<[u8]>>,
}

impl Redirects {
    pub(super) fn of(&self, cseq: u32) -> Option<&[u8]> {
        let last = self.tried.iter().rev().find(|(first, _)| *first <= cseq);
        last.map(|(_, uri)| &**uri)
    }

    /// Takes the new contacts of a 3xx: "a client processing 3xx class responses MUST NOT add any given URI to the
    /// target set more than once" (RFC 3261 section 8.1.3.4). They are tried before earlier ones, in the order of
    /// their `q`. Contacts with another transport are left out, because the load cannot reach them.
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

    /// Takes the next contact for the request with this `CSeq`. Returns whether there is one.
    pub(super) fn go_on(&mut self, cseq: u32) -> bool {
        let next = self.untried.pop();
        let is_there = next.is_some();
        self.tried.extend(next.map(|uri| (cseq, uri)));
        is_there
    }
}

/// The most contacts that one call tries, because a server may name new ones without end.
pub(in super::super) const MOST_PLACES: usize = 8;

/// Makes a Request-URI of the URI of a `Contact`: "a UAC MUST copy the entire URI from the target set into the
/// Request-URI, except for the "method-param" and "header" URI parameters" (RFC 3261 section 8.1.3.4). The headers of
/// the URI are ignored: a server does not decide which header fields a load sends.
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

/// Whether a load over this transport reaches a URI: a SIP URI that names no other transport.
fn is_reached(uri: &[u8], transport: Transport) -> bool {
    let is_sip =
        uri.len() > 4 && uri[..4].eq_ignore_ascii_case(b"sip:") && !uri.iter().any(u8::is_ascii_whitespace);
    let named = transport_of(uri);
    is_sip && named.is_none_or(|named| named.eq_ignore_ascii_case(transport.name().as_bytes()))
}
