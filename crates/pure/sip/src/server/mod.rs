//! Servers: registrar, redirect server, proxies, and a user agent that answers calls by itself.
//!
//! Each is a [`Server`]: messages with where they came from and time go in, messages with where they go come out. Start
//! from [`Registrar`], [`Redirect`], [`StatelessProxy`], [`Proxy`] or [`AnsweringMachine`]; the first four know the users
//! of a [`Domain`] and their addresses by a [`Registry`].

mod answering;
#[cfg(test)]
mod answering_tests;
mod authentication;
mod bindings;
mod delay;
mod element;
mod forward;
mod hop;
#[cfg(test)]
mod hop_tests;
mod manners;
mod offers;
mod order;
mod partition;
mod plain;
mod proxy;
mod redirect;
mod refreshing;
#[cfg(test)]
mod refreshing_tests;
mod registrar;
mod registry;
#[cfg(test)]
mod rules_tests;
mod stateless;
#[cfg(test)]
mod tests;
mod transactions;
mod unreadable;

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use netrig_core::{Instant, is_of_a_link};
use sha2::{Digest as _, Sha256};

pub use answering::AnsweringMachine;
pub(crate) use authentication::UsedNonces;
pub use authentication::{Authenticator, NONCE_LIFE, Verdict};
pub use bindings::{Binding, Bindings, LONGEST_BINDING, MOST_BINDINGS, PlaceChange};
pub use delay::Waiting;
pub use hop::LONGEST_OVER_UDP;
pub use manners::{Answer, Manners, Progress};
pub(crate) use order::PartitionShare;
pub use order::{Role, RoleError, ServerOrder, User};
pub(crate) use partition::Partition;
pub use plain::{PlainHeard, PlainResponse, PlainResponses};
pub use proxy::{Proxy, TIMER_C};
pub use redirect::Redirect;
pub use registrar::Registrar;
#[cfg(test)]
pub(crate) use registry::user_of;
pub use registry::{Domain, Policy, Registry, Users};
pub use stateless::StatelessProxy;
pub use unreadable::refuse_unreadable;

use crate::digits::hex_of;
use crate::header::{Transport, Via};
use crate::host::HostView;
use crate::{Headers, Host, Message, Method, Name, Request, Response, Scheme, SipUri, Status};

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// What carried it.
    pub transport: Transport,
    /// Who sent it.
    pub address: SocketAddr,
}

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To this address; over a stream along the connection with it, if there is one.
    Address(Source),
    /// To what this URI names, to be found by [`Locator`](crate::location::Locator); the messages of one transaction go the
    /// same way.
    Uri(Box<SipUri>),
}

/// A SIP server without I/O. After each call that changes it, [`Server::poll_transmit`] must be called until `None`.
pub trait Server: Send {
    /// A message came.
    fn handle(&mut self, now: Instant, message: Message, from: Source);

    /// Handles a complete message if it is a plain request, and says which. If it returns `None`, the caller must parse the message and
    /// call [`Server::handle`]. The caller sends `responses` at once; the server learns of no failure to send them.
    fn handle_plain<'a>(
        &mut self,
        _now: Instant,
        _datagram: &'a [u8],
        _from: Source,
        _responses: &mut PlainResponses,
    ) -> Option<PlainHeard<'a>> {
        None
    }

    /// A message that it gave out could not be sent.
    fn handle_failure(&mut self, now: Instant, message: &Message);

    /// Its deadline was reached. Calling it early does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`Server::handle_timeout`] wants to be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The next message to send, until `None`.
    fn poll_transmit(&mut self) -> Option<(Destination, Message)>;

    /// Whether a message had valid credentials since this was last asked: its sender receives what is sent to its address.
    fn take_proof(&mut self) -> bool {
        false
    }

    /// Whether it asks for credentials. If so, only [`Server::take_proof`] is a proof of a peer; a message alone is not.
    fn authenticates(&self) -> bool {
        false
    }

    /// Whether it forwards responses of other servers, with tags that those servers chose.
    fn forwards(&self) -> bool {
        false
    }

    /// What other partitions of the server have to be told since this was last asked: [`Server::handle_place_change`].
    fn take_place_changes(&mut self) -> Vec<PlaceChange> {
        Vec::new()
    }

    /// Another partition of the server has told of a place of its users.
    fn handle_place_change(&mut self, _change: &PlaceChange) {}
}

impl Destination {
    /// Of a URI: its address if it has one, what it names if not.
    pub fn of_uri(uri: &SipUri) -> Self {
        // A SIPS URI that names a transport without TLS leads nowhere, as the locator says.
        let transport = transport_of(uri).filter(|own| own.is_secure() || uri.scheme == Scheme::Sip);
        match (uri.target(), transport) {
            (Host::Address(ip), Some(transport)) => {
                let port = uri.port.unwrap_or(transport.default_port());
                Self::Address(Source { transport, address: (ip, port).into() })
            }
            _ => Self::Uri(Box::new(uri.clone())),
        }
    }

    /// Of a response, by its topmost `Via` (RFC 3261 section 18.2.2, RFC 3581 section 4). `None` if that cannot be read or has a
    /// transport that nobody here knows.
    pub fn of_response(response: &Response) -> Option<Self> {
        Self::of_top_via(&response.headers)
    }

    /// The same by the header fields of the response, or of the stamped request that it answers.
    fn of_top_via(headers: &Headers) -> Option<Self> {
        let via = headers.top_via_view()?;
        let transport = via.transport.ok()?;
        let default = via.port.unwrap_or(transport.default_port());
        let at =
            |ip: IpAddr, port: u16| Some(Self::Address(Source { transport, address: (ip, port).into() }));
        // "if the Via header field value contains a "maddr" parameter, the response MUST be forwarded to the address listed
        // there": what a group was asked is answered to the group. The address of somebody else there would send the response to
        // who did not ask, and is passed over.
        if let Some(maddr) = via.parameters.value("maddr").filter(|_| !transport.is_reliable())
            && let Ok(ip) = maddr.trim_matches(['[', ']']).parse::<IpAddr>()
            && ip.is_multicast()
        {
            return at(ip, default);
        }
        if let Some(ip) = via.received() {
            // "the response MUST be sent to the IP address listed in the "received" parameter, and the port in the "rport"
            // parameter" (RFC 3581 section 4).
            return at(ip, via.rport().flatten().unwrap_or(default));
        }
        match via.host {
            HostView::Address(ip) => at(ip, via.rport().flatten().unwrap_or(default)),
            HostView::Name(_) => {
                let mut uri = SipUri::new(via.host.into())
                    .with_parameter("transport", Some(&transport.name().to_lowercase()));
                uri.port = via.port;
                Some(Self::Uri(Box::new(uri)))
            }
        }
    }

    /// Of a response, by its header fields or those of its stamped request, to a request that came from `from`: over a stream "using the existing connection to the source of the
    /// original request" (RFC 3261 section 18.2.2), else by its `Via`. If the `Via` names another transport than the one that carried
    /// the request, the response goes to the source address: a datagram must not make the server open a connection.
    pub(crate) fn back(headers: &Headers, from: Source) -> Self {
        match Self::of_top_via(headers) {
            Some(Self::Address(Source { transport, address }))
                if transport == from.transport && !transport.is_reliable() =>
            {
                Self::Address(Source { transport, address: on_link_of(address, from.address) })
            }
            _ => Self::Address(from),
        }
    }

    /// Whether what is sent there arrives, or the connection fails.
    pub(crate) fn is_reliable(&self) -> bool {
        self.transport().is_reliable()
    }

    /// Its address, as far as that is known.
    pub(crate) const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Address(source) => Some(source.address.ip()),
            Self::Uri(_) => None,
        }
    }

    /// What carries it, as far as that is known: a name may still say otherwise.
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Self::Address(source) => source.transport,
            Self::Uri(uri) => transport_of(uri).unwrap_or(Transport::Udp),
        }
    }
}

/// An address that a message names, as it is reached from where `near` is: messages name an address of a link without its
/// interface, which means something to one host only (RFC 4007 section 6). It is then on the link of `near`.
pub fn on_link_of(to: SocketAddr, near: SocketAddr) -> SocketAddr {
    match (to, near) {
        (SocketAddr::V6(to), SocketAddr::V6(near)) if to.scope_id() == 0 && is_of_a_link(to.ip()) => {
            SocketAddrV6::new(*to.ip(), to.port(), to.flowinfo(), near.scope_id()).into()
        }
        _ => to,
    }
}

/// By its parameter and scheme; `None` for one that nobody here knows.
pub(crate) fn transport_of(uri: &SipUri) -> Option<Transport> {
    let is_secure = uri.scheme == Scheme::Sips;
    let Some(named) = uri.parameters.value("transport") else {
        return Some(if is_secure { Transport::Tls } else { Transport::Udp });
    };
    let found = Transport::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(named))?;
    Some(match found {
        Transport::Tcp if is_secure => Transport::Tls,
        Transport::Ws if is_secure => Transport::Wss,
        other => other,
    })
}

/// Writes into the topmost `Via` of a request where it came from.
pub(crate) fn stamp(request: &mut Request, from: Source) {
    request.headers.stamp_top_via(from.address);
}

/// A response whose `To` has a tag, made of the request alone if it has none: the same request gets the same one, as a
/// stateless server needs it (RFC 3261 section 8.2.7).
pub(crate) fn reply(request: &Request, status: Status) -> Response {
    let mut response = request.response(status);
    let has_tag = || request.headers.to().ok().flatten().is_none_or(|to| to.tag().is_some());
    if status != Status::TRYING && !has_tag() {
        response.headers.add_to_tag(&fingerprint(&identity(&request.headers)));
    }
    response
}

/// Whether the tag of a response's `To` can be computed from its request, so that to know it proves nothing: [`reply`] makes
/// such ones.
pub fn has_computed_tag(response: &Response) -> bool {
    let to = response.headers.to().ok().flatten();
    to.is_none_or(|to| to.tag().is_none_or(|tag| tag == fingerprint(&identity(&response.headers))))
}

/// With the methods that a server takes.
pub(crate) fn with_allow(mut response: Response, methods: &[Method]) -> Response {
    allow(&mut response.headers, methods);
    response
}

pub(crate) fn allow(headers: &mut Headers, methods: &[Method]) {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    headers.push(Name::Allow, names.join(", "));
}

/// What the response to OPTIONS tells (RFC 3261 section 11.2) beside `Allow`, which a proxy leaves out.
pub(crate) fn tell_capabilities(headers: &mut Headers, accept: &str, supported: &str) {
    headers.push(Name::Accept, accept);
    headers.push(Name::new("Accept-Encoding"), "identity");
    headers.push(Name::new("Accept-Language"), "en");
    headers.push(Name::Supported, supported);
}

/// Whether a request can be served at all: what makes its transaction and dialog can be read, and what it demands (RFC 3261
/// section 8.2).
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

/// What makes a request this one, also when it comes again.
fn identity(headers: &Headers) -> String {
    let get = |name: &Name| headers.get(name).unwrap_or_default();
    [get(&Name::Via), get(&Name::From), get(&Name::CallId), get(&Name::CSeq)].join("\n")
}

/// A text as sixteen hexadecimal digits.
pub(crate) fn fingerprint(text: &str) -> String {
    hex_of(&Sha256::digest(text)[..8])
}

/// Fingerprint of a text that cannot be computed without the secret `key`.
pub(crate) fn keyed_fingerprint(key: [u64; 2], text: &str) -> String {
    let [a, b] = key;
    fingerprint(&format!("{a:016x}{b:016x}\n{text}"))
}

/// A `Via` of one's own for a hop to `destination`.
pub(crate) fn own_via(domain: &Domain, destination: &Destination, branch: &str) -> Via {
    let transport = destination.transport();
    let (host, port) = domain.listens_at(transport, destination.ip());
    Via::new(transport, host, port, branch)
}

/// Several unsupported options as the header field that says so.
pub(crate) fn unsupported(request: &Request, tags: &[String]) -> Response {
    let mut response = reply(request, Status::BAD_EXTENSION);
    response.headers.push(Name::Unsupported, tags.join(", "));
    response
}
