//! Sources and destinations of messages.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use netrig_core::is_of_a_link;

use crate::header::Transport;
use crate::host::HostView;
use crate::{Headers, Host, Response, Scheme, SipUri};

/// The source of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The transport of the message.
    pub transport: Transport,
    /// The address of the sender.
    pub address: SocketAddr,
}

/// The destination of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An address. Over a stream, an open connection with it is used.
    Address(Source),
    /// The server of a URI, to be located by [`Locator`](crate::location::Locator). All messages of a transaction go to the same
    /// server.
    Uri(Box<SipUri>),
}

impl Destination {
    /// The destination of a URI: its address, or the URI itself if it has a name.
    pub fn of_uri(uri: &SipUri) -> Self {
        // A SIPS URI with a transport without TLS has no destination; the locator reports that.
        let transport = transport_of(uri).filter(|own| own.is_secure() || uri.scheme == Scheme::Sip);
        match (uri.target(), transport) {
            (Host::Address(ip), Some(transport)) => {
                let port = uri.port.unwrap_or(transport.default_port());
                Self::Address(Source { transport, address: (ip, port).into() })
            }
            _ => Self::Uri(Box::new(uri.clone())),
        }
    }

    /// The destination of a response, by its topmost `Via` (RFC 3261 section 18.2.2, RFC 3581 section 4). `None` if the `Via`
    /// breaks the grammar or has an unknown transport.
    pub fn of_response(response: &Response) -> Option<Self> {
        Self::of_top_via(&response.headers)
    }

    /// As [`Destination::of_response`], by the header fields of the response or of its stamped request.
    fn of_top_via(headers: &Headers) -> Option<Self> {
        let via = headers.top_via_view()?;
        let transport = via.transport.ok()?;
        let default = via.port.unwrap_or(transport.default_port());
        let at =
            |ip: IpAddr, port: u16| Some(Self::Address(Source { transport, address: (ip, port).into() }));
        // "if the Via header field value contains a "maddr" parameter, the response MUST be forwarded to the address listed
        // there": the response to a multicast request is multicast. A unicast address is ignored, because it would send the
        // response to a host that did not ask.
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

    /// The destination of a response to a request from `from`, by the header fields of the response or of its stamped request.
    /// Over a stream that is "the existing connection to the source of the original request" (RFC 3261 section 18.2.2), else the
    /// `Via` decides. If the `Via` has another transport than the request, the response goes to the source address: a datagram
    /// must not make the server open a connection.
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

    /// Whether the transport is reliable.
    pub(crate) fn is_reliable(&self) -> bool {
        self.transport().is_reliable()
    }

    /// The IP address; `None` for a URI.
    pub(crate) const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Address(source) => Some(source.address.ip()),
            Self::Uri(_) => None,
        }
    }

    /// The transport. For a URI it is preliminary: the location of its name may give another.
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Self::Address(source) => source.transport,
            Self::Uri(uri) => transport_of(uri).unwrap_or(Transport::Udp),
        }
    }
}

/// Completes an address of a message with the interface of `near`. A message cannot name the interface of a link-local address,
/// which is valid on one host only (RFC 4007 section 6).
pub fn on_link_of(to: SocketAddr, near: SocketAddr) -> SocketAddr {
    match (to, near) {
        (SocketAddr::V6(to), SocketAddr::V6(near)) if to.scope_id() == 0 && is_of_a_link(to.ip()) => {
            SocketAddrV6::new(*to.ip(), to.port(), to.flowinfo(), near.scope_id()).into()
        }
        _ => to,
    }
}

/// The transport of a URI, by its parameter and scheme; `None` if it is unknown.
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
