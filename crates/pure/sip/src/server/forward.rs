//! Forwarding of requests by stateful and stateless proxies (RFC 3261 sections 16.3 to 16.6).

use netrig_core::Instant;

use super::authentication::unknown_options;
use super::registry::user_of;
use super::reply::{fingerprint, reply, unsupported};
use super::{Destination, Domain, Registry};
use crate::dialog::{MAX_FORWARDS, allowed_in_request, is_sips};
use crate::header::{NameAddr, Transport};
use crate::{Method, Name, Request, Response, Scheme, SipUri, Status, Uri};

/// Parameter of this proxy's `Record-Route` with the token of [`Proxy`](super::Proxy), which permits a next hop for later requests
/// of a dialog.
pub(super) const TOKEN: &str = "dialog";

/// A target of a request.
#[derive(Clone, Debug)]
pub(super) struct ForwardTarget {
    pub(super) uri: Uri,
    /// Proxies on the path to the target (RFC 3327).
    pub(super) path: Vec<NameAddr>,
}

/// RFC 3261 section 16.3: the refusal of a readable request. `None` if the proxy may forward or answer it.
pub(super) fn refusal(domain: &Domain, request: &Request, ends_here: bool) -> Option<Response> {
    // 1. The request must be well-formed, including the fields that only a proxy reads.
    if request.headers.addresses(&Name::Route).is_err() {
        return Some(reply(request, Status::BAD_REQUEST));
    }
    // 2. "If the Request-URI has a URI whose scheme is not understood by the proxy, the proxy SHOULD reject the request with a
    // 416".
    if request.uri.as_sip().is_none() {
        return Some(reply(request, Status::UNSUPPORTED_URI_SCHEME));
    }
    // 3. "If the request contains a Max-Forwards header field with a field value of zero (0), the element MUST NOT forward the
    // request." A request that ends here is not forwarded.
    if !ends_here && request.headers.number(&Name::MaxForwards) == Ok(Some(0)) {
        return Some(reply(request, Status::TOO_MANY_HOPS));
    }
    // 4. A `Via` of this proxy for the same request with the same route is a loop. With another route it is a spiral.
    if is_loop(domain, request) {
        return Some(reply(request, Status::LOOP_DETECTED));
    }
    // 5. "If the request contains a Proxy-Require header field ... with one or more option-tags this element does not
    // understand, the element MUST return a 420 (Bad Extension) response." In CANCEL and ACK they "MUST be ignored" (section
    // 8.2.2.3).
    let unknown = unknown_options(request, &Name::ProxyRequire, &[]);
    let demands = !unknown.is_empty() && !matches!(request.method, Method::Cancel | Method::Ack);
    demands.then(|| unsupported(request, &unknown))
}

/// Fingerprint of the fields that determine the route of a received request (RFC 5393 section 4.2.1), without the
/// `Via`s.
pub(super) fn way(request: &Request) -> String {
    let headers = &request.headers;
    let tag =
        |address: Option<NameAddr>| address.and_then(|own| own.tag().map(str::to_owned)).unwrap_or_default();
    let mut text = format!(
        "{}\n{}\n{}\n{}\n{}",
        request.uri,
        tag(headers.to().ok().flatten()),
        tag(headers.from().ok().flatten()),
        headers.get(&Name::CallId).unwrap_or_default(),
        headers.cseq().ok().flatten().map_or(0, |cseq| cseq.number),
    );
    for name in [Name::Route, Name::ProxyRequire, Name::ProxyAuthorization] {
        for value in headers.all(&name) {
            text.push('\n');
            text.push_str(value);
        }
    }
    fingerprint(&text)
}

fn is_loop(domain: &Domain, request: &Request) -> bool {
    let own = format!(".{}", way(request));
    let vias = request.headers.vias().unwrap_or_default();
    vias.iter()
        .any(|via| is_own_via(domain, via) && via.branch().is_some_and(|branch| branch.ends_with(&own)))
}

fn is_own_via(domain: &Domain, via: &crate::header::Via) -> bool {
    let mut uri = SipUri::new(via.host.clone());
    uri.port = via.port;
    domain.is_own(&uri)
}

/// RFC 3261 section 16.4: removes the route information for this proxy.
pub(super) fn preprocess(domain: &Domain, request: &mut Request) {
    let own = |uri: &Uri| uri.as_sip().is_some_and(|uri| domain.is_own(uri) && uri.user.is_none());
    let is_loose = |uri: &Uri| uri.as_sip().is_some_and(SipUri::is_loose);
    let Ok(mut routes) = request.headers.addresses(&Name::Route) else { return };
    // "If the Request-URI of the request contains a value this proxy previously placed into a Record-Route header field ..., the
    // proxy MUST replace the Request-URI in the request with the last value from the Route header field, and remove that value".
    if own(&request.uri)
        && is_loose(&request.uri)
        && let Some(last) = routes.pop()
    {
        request.uri = last.uri;
    }
    // "If the first value in the Route header field indicates this proxy, the proxy MUST remove that value from the request."
    if routes.first().is_some_and(|route| own(&route.uri)) {
        routes.remove(0);
    }
    request.headers.set_all(&Name::Route, routes);
    // "If the Request-URI contains a maddr parameter, the proxy MUST check to see if its value is in the set of addresses or
    // domains the proxy is configured to be responsible for. If ... the request was received using the port and transport
    // indicated (explicitly or by default) in the Request-URI, the proxy MUST strip the maddr and any non-default port or
    // transport parameter".
    if let Uri::Sip(uri) = &mut request.uri
        && uri.parameters.has("maddr")
        && domain.is_own(&SipUri { host: uri.target(), ..uri.clone() })
    {
        uri.port = None;
        uri.parameters.remove("maddr");
        uri.parameters.remove("transport");
    }
}

/// Whether a request after [`preprocess`] goes to a target outside of the domain and its users, by its Request-URI or by a
/// route.
pub(super) fn leads_away(registry: &Registry, request: &Request) -> bool {
    let is_near = |uri: &Uri| {
        let Some(own) = uri.as_sip() else { return false };
        registry.is_own(uri) && !own.parameters.has("maddr") || registry.bindings.lead_to(own)
    };
    let routes = request.headers.addresses(&Name::Route).unwrap_or_default();
    !is_near(&request.uri) || routes.first().is_some_and(|route| !is_near(&route.uri))
}

/// The targets of a request (RFC 3261 section 16.5).
///
/// # Errors
/// The user does not exist, or has no binding.
pub(super) fn targets(
    registry: &Registry,
    now: Instant,
    request: &Request,
) -> Result<Vec<ForwardTarget>, Status> {
    // "If the domain of the Request-URI indicates a domain this element is not responsible for, the Request-URI MUST be placed
    // into the target set as the only target".
    let is_foreign = request.uri.as_sip().is_none_or(|uri| uri.parameters.has("maddr"));
    if is_foreign || !registry.is_own(&request.uri) {
        return Ok(vec![ForwardTarget { uri: request.uri.clone(), path: Vec::new() }]);
    }
    if !registry.users.has(&user_of(&request.uri)) {
        return Err(Status::NOT_FOUND);
    }
    let bindings = registry.bindings.of(now, &request.uri).into_iter();
    let found: Vec<ForwardTarget> =
        bindings.map(|binding| ForwardTarget { uri: binding.contact.uri, path: binding.path }).collect();
    // "If the target set remains empty after applying all of the above, the proxy MUST return an error response, which SHOULD
    // be the 480 (Temporarily Unavailable) response."
    if found.is_empty() { Err(Status::TEMPORARILY_UNAVAILABLE) } else { Ok(found) }
}

/// RFC 3261 section 16.6: the copy for one target, without this proxy's `Via`, and its destination. `None` if the next hop is not
/// a SIP URI. If this proxy stays on the path of the dialog, `record_route` is the value of [`TOKEN`], empty for none.
pub(super) fn copy(
    domain: &Domain,
    request: &Request,
    target: ForwardTarget,
    record_route: Option<&str>,
) -> Option<(Request, Destination)> {
    let mut copy = request.clone();
    copy.uri = allowed_in_request(target.uri);
    let headers = &mut copy.headers;
    // 3. "If the copy contains a Max-Forwards header field, the proxy MUST decrement its value by one (1)."
    let hops = headers.number(&Name::MaxForwards).ok().flatten();
    headers.set(Name::MaxForwards, hops.map_or(MAX_FORWARDS, |hops| hops.saturating_sub(1)));
    let mut routes = headers.addresses(&Name::Route).ok()?;
    routes.splice(0..0, target.path);
    let next_uri = routes.first().map_or(&copy.uri, |route| &route.uri).clone();
    let destination = Destination::of_uri(next_uri.as_sip()?);
    if let Some(token) = record_route.filter(|_| makes_dialog(&request.method)) {
        // 4. "it MUST insert a Record-Route header field value into the copy before any existing Record-Route header field
        // values, even if a Route header field is already present".
        // "If the Request-URI contains a SIPS URI, or the topmost Route header field value (after the post processing of bullet
        // 6) contains a SIPS URI, the URI placed into the Record-Route header field MUST be a SIPS URI."
        let is_secure = is_sips(&copy.uri) || is_sips(&next_uri);
        copy.headers.push_front(Name::RecordRoute, recorded(domain, is_secure, &destination, token));
    }
    // 6. "If the copy contains a Route header field, the proxy MUST inspect the URI in its first value. If that URI does not
    // contain an lr parameter, the proxy MUST modify the copy": a strict router expects its URI in the Request-URI.
    let is_strict = routes.first().and_then(|route| route.uri.as_sip()).is_some_and(|uri| !uri.is_loose());
    if is_strict {
        routes.push(NameAddr::new(copy.uri.clone()));
        copy.uri = allowed_in_request(routes.remove(0).uri);
    }
    copy.headers.set_all(&Name::Route, routes);
    Some((copy, destination))
}

const fn makes_dialog(method: &Method) -> bool {
    matches!(method, Method::Invite | Method::Subscribe | Method::Refer)
}

/// "The URI placed in the Record-Route header field value MUST be a SIP or SIPS URI. This URI MUST contain an lr parameter".
fn recorded(domain: &Domain, is_secure: bool, destination: &Destination, token: &str) -> NameAddr {
    let transport = destination.transport();
    let (host, port) = domain.listens_at(transport, destination.ip());
    let mut own = SipUri::new(host).with_parameter("lr", None);
    own.port = port;
    if is_secure {
        own.scheme = Scheme::Sips;
    } else if transport != Transport::Udp {
        own.parameters.set("transport", Some(&transport.name().to_lowercase()));
    }
    if !token.is_empty() {
        own.parameters.set(TOKEN, Some(token));
    }
    NameAddr::new(Uri::Sip(own))
}

/// Removes the topmost `Via` of a response. If its "sent-by" "does not correspond to a value that the
/// client transport is configured to insert into requests, the response MUST be silently discarded" (RFC 3261 section 18.1.2).
/// A response without another `Via` is addressed to this proxy itself. It is discarded too.
pub(super) fn without_own_via(domain: &Domain, mut response: Response) -> Option<Response> {
    let mut vias = response.headers.vias().ok()?;
    if vias.len() < 2 || !is_own_via(domain, &vias.remove(0)) {
        return None;
    }
    response.headers.set_all(&Name::Via, vias);
    Some(response)
}
