//! Responses that a server makes from a request alone.

use netrig_core::text::hex;
use sha2::{Digest as _, Sha256};

use super::Source;
use crate::{Headers, Method, Name, Request, Response, Status};

/// Writes the source of a request into its topmost `Via`.
pub(crate) fn stamp(request: &mut Request, from: Source) {
    request.headers.stamp_top_via(from.address);
}

/// A response to a request. If `To` has no tag, the tag is computed from the request: the same request gets the same tag, as a
/// stateless server requires (RFC 3261 section 8.2.7).
pub(crate) fn reply(request: &Request, status: Status) -> Response {
    let mut response = request.response(status);
    let has_tag = || request.headers.to().ok().flatten().is_none_or(|to| to.tag().is_some());
    if status != Status::TRYING && !has_tag() {
        response.headers.add_to_tag(&fingerprint(&identity(&request.headers)));
    }
    response
}

/// Whether the `To` tag of a response is computed from its request, as [`reply`] does. A peer can compute such a tag
/// without receiving the response, so the tag does not prove the peer's address.
pub fn has_computed_tag(response: &Response) -> bool {
    let to = response.headers.to().ok().flatten();
    to.is_none_or(|to| to.tag().is_none_or(|tag| tag == fingerprint(&identity(&response.headers))))
}

/// Adds `Allow` with the methods that a server supports.
pub(crate) fn with_allow(mut response: Response, methods: &[Method]) -> Response {
    allow(&mut response.headers, methods);
    response
}

pub(crate) fn allow(headers: &mut Headers, methods: &[Method]) {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    headers.push(Name::Allow, names.join(", "));
}

/// Adds the capabilities of a response to OPTIONS (RFC 3261 section 11.2), without `Allow`, which a proxy omits.
pub(crate) fn add_capabilities(headers: &mut Headers, accept: &str, supported: &str) {
    headers.push(Name::Accept, accept);
    headers.push(Name::new("Accept-Encoding"), "identity");
    headers.push(Name::new("Accept-Language"), "en");
    headers.push(Name::Supported, supported);
}

/// Whether the fields of a request that a server needs follow the grammar: those of its transaction, dialog and required
/// options (RFC 3261 section 8.2).
pub(crate) fn is_readable(request: &Request) -> bool {
    let headers = &request.headers;
    let counts = headers.cseq().is_ok_and(|cseq| cseq.is_some_and(|cseq| cseq.method == request.method));
    let single = [Name::From, Name::To, Name::CallId, Name::CSeq, Name::MaxForwards, Name::ContentLength];
    counts
        && headers.has_readable_ends()
        && matches!(headers.call_id(), Ok(Some(_)))
        && headers.has_readable_vias()
        && headers.number(&Name::MaxForwards).is_ok()
        && [Name::Require, Name::ProxyRequire].iter().all(|name| headers.tokens(name).is_ok())
        && single.iter().all(|name| headers.all(name).count() <= 1)
}

/// The fields that a request shares with its retransmissions only.
fn identity(headers: &Headers) -> String {
    let get = |name: &Name| headers.get(name).unwrap_or_default();
    [get(&Name::Via), get(&Name::From), get(&Name::CallId), get(&Name::CSeq)].join("\n")
}

/// Hash of a text, sixteen hexadecimal digits.
pub(crate) fn fingerprint(text: &str) -> String {
    hex(&Sha256::digest(text)[..8])
}

/// Fingerprint of a text with a secret `key`.
pub(crate) fn keyed_fingerprint(key: [u64; 2], text: &str) -> String {
    let [a, b] = key;
    fingerprint(&format!("{a:016x}{b:016x}\n{text}"))
}

/// A 420 with `Unsupported`.
pub(crate) fn unsupported(request: &Request, tags: &[String]) -> Response {
    let mut response = reply(request, Status::BAD_EXTENSION);
    response.headers.push(Name::Unsupported, tags.join(", "));
    response
}
