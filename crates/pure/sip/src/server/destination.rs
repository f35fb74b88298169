//! Where messages come from and go to.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use netrig_core::is_of_a_link;

use crate::header::Transport;
use crate::host::HostView;
use crate::{Headers, Host, Response, Scheme, SipUri};

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
