//! Requests to the next hop: with this element's `Via`, over the transport that their length requires.

use super::{Destination, Domain, Source};
use crate::header::{Transport, Via};
use crate::{Name, Request};

/// "If a request is within 200 bytes of the path MTU, or if it is larger than 1300 bytes and the path MTU is unknown, the
/// request MUST be sent using an RFC 2914 [43] congestion controlled transport protocol, such as TCP." (RFC 3261 section
/// 18.1.1) The limit in bytes: here the path MTU is always unknown.
pub const LONGEST_OVER_UDP: usize = 1300;

/// A request with its `Via` and its destination.
#[derive(Debug)]
pub(super) struct RequestHop {
    pub(super) request: Request,
    pub(super) to: Destination,
    /// The alternative if the transport fails.
    pub(super) fallback: Option<UdpFallback>,
}

/// "If an element sends a request over TCP because of these message size constraints, and that request would have otherwise been
/// sent over UDP, if the attempt to establish the connection generates either an ICMP Protocol Not Supported, or results in a TCP
/// reset, the element SHOULD retry the request, using UDP" (RFC 3261 section 18.1.1).
#[derive(Clone, Debug)]
pub(super) struct UdpFallback {
    to: Destination,
    via: Via,
}

impl RequestHop {
    /// A request to `to`. If it is too long for a datagram and this server listens on TCP, it goes over TCP. A server that does
    /// not listen on TCP could not receive a response on another connection.
    pub(super) fn new(domain: &Domain, mut request: Request, to: Destination, branch: &str) -> Self {
        let via = own_via(domain, &to, branch);
        request.headers.push_front(Name::Via, &via);
        let is_too_long = to.transport() == Transport::Udp && request.wire_len() > LONGEST_OVER_UDP;
        if !is_too_long || domain.listens_towards(Transport::Tcp, to.ip()).is_none() {
            return Self { request, to, fallback: None };
        }
        let over_tcp = to.over_tcp();
        // "If this causes a change in the transport protocol from the one indicated in the top Via, the value in the top Via MUST
        // be changed."
        set_top(&mut request, &own_via(domain, &over_tcp, branch));
        Self { request, to: over_tcp, fallback: Some(UdpFallback { to, via }) }
    }

    /// A request that has this element's `Via` already, without an alternative.
    pub(super) const fn bound(request: Request, to: Destination) -> Self {
        Self { request, to, fallback: None }
    }
}

impl UdpFallback {
    /// The request over UDP.
    pub(super) fn hop(self, request: &Request) -> RequestHop {
        let mut request = request.clone();
        set_top(&mut request, &self.via);
        RequestHop::bound(request, self.to)
    }
}

impl Destination {
    /// The destination over TCP.
    fn over_tcp(&self) -> Self {
        match self {
            Self::Address(Source { address, .. }) => {
                Self::Address(Source { transport: Transport::Tcp, address: *address })
            }
            Self::Uri(uri) => {
                let mut uri = uri.clone();
                uri.parameters.set("transport", Some("tcp"));
                Self::Uri(uri)
            }
        }
    }
}

/// This element's `Via` for a hop to `destination`.
fn own_via(domain: &Domain, destination: &Destination, branch: &str) -> Via {
    let transport = destination.transport();
    let (host, port) = domain.listens_at(transport, destination.ip());
    Via::new(transport, host, port, branch)
}

/// Replaces the topmost `Via`. Those below it are unchanged.
fn set_top(request: &mut Request, via: &Via) {
    let below: Vec<String> = request.headers.all(&Name::Via).skip(1).map(str::to_owned).collect();
    request.headers.set_all(&Name::Via, std::iter::once(via.to_string()).chain(below));
}
