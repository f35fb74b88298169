//! Listening addresses of servers, and source addresses towards them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::{fmt, io};

use netrig_sip::header::Transport;

use netrig_host::{HostAddress, HostAddressError};

/// A transport and an address: `udp:127.0.0.1:5060`, `tls:[::1]:5061`, `tcp:[fe80::1%eth0]:5060`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListeningPoint {
    /// UDP, TCP or TLS.
    pub transport: Transport,
    /// An address of this machine; with port 0 the system chooses a port.
    pub address: SocketAddr,
}

/// Why a text is not a listening point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// An unknown transport.
    #[error("`{0}` is no transport to listen at: expected udp, tcp or tls, as in udp:127.0.0.1:5060")]
    Transport(String),
    /// The address cannot be parsed.
    #[error(
        "`{0}` is no address: expected a number of IPv4 or IPv6 and a port, as in udp:127.0.0.1:5060 or tls:[::1]:5061"
    )]
    Address(String),
    /// The address is on none of this host's links.
    #[error("`{text}`: {why}")]
    Host {
        /// The text of the address.
        text: String,
        /// The reason.
        why: HostAddressError,
    },
    /// An unspecified address.
    #[error(
        "{0} stands for every address of this machine, but a server puts its address into its messages, and peers answer \
         to it: give an address that they can reach, and repeat --listen for each"
    )]
    Unspecified(IpAddr),
}

/// The source address that the system uses towards `target`. The function sends nothing.
///
/// # Errors
/// If there is no route to the target.
pub fn source_towards(target: SocketAddr) -> io::Result<HostAddress> {
    let socket = UdpSocket::bind(HostAddress::unspecified_for(target).at(0))?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.into())
}

impl ListeningPoint {
    /// `points`, or UDP and TCP at `port` of 127.0.0.1 if `points` is empty.
    pub fn or_usual(points: &[Self], port: u16) -> Vec<Self> {
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let usual = [Transport::Udp, Transport::Tcp].map(|transport| Self { transport, address });
        if points.is_empty() { usual.to_vec() } else { points.to_vec() }
    }

    /// Whether other hosts can reach this address, which is then no loopback address.
    pub const fn is_open_to_network(&self) -> bool {
        !self.address.ip().is_loopback()
    }
}

impl FromStr for ListeningPoint {
    type Err = PointError;

    fn from_str(text: &str) -> Result<Self, PointError> {
        let (name, rest) = text.split_once(':').ok_or_else(|| PointError::Address(text.to_owned()))?;
        let known = [Transport::Udp, Transport::Tcp, Transport::Tls];
        let transport = known.into_iter().find(|known| known.name().eq_ignore_ascii_case(name));
        let transport = transport.ok_or_else(|| PointError::Transport(name.to_owned()))?;
        let address = HostAddress::with_port(rest, Some(transport.default_port()));
        let address = address.map_err(|why| match why {
            HostAddressError::Form => PointError::Address(rest.to_owned()),
            why => PointError::Host { text: rest.to_owned(), why },
        })?;
        if address.ip().is_unspecified() {
            return Err(PointError::Unspecified(address.ip()));
        }
        Ok(Self { transport, address })
    }
}

impl fmt::Display for ListeningPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = HostAddress::text_with_port(self.address);
        write!(f, "{}:{address}", self.transport.name().to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_is_written() {
        for text in ["udp:127.0.0.1:5060", "tcp:[::1]:0", "tls:192.0.2.1:5061", "udp:[fe80::1%lo]:5060"] {
            assert_eq!(text.parse::<ListeningPoint>().unwrap().to_string(), text);
        }
        assert_eq!("TLS:[::1]".parse::<ListeningPoint>().unwrap().to_string(), "tls:[::1]:5061");
        assert_eq!("tls:fe80::1%lo".parse::<ListeningPoint>().unwrap().to_string(), "tls:[fe80::1%lo]:5061");
        assert_eq!("udp:127.0.0.1".parse::<ListeningPoint>().unwrap().to_string(), "udp:127.0.0.1:5060");
    }

    #[test]
    fn what_is_none_says_why() {
        let error = |text: &str| text.parse::<ListeningPoint>().unwrap_err().to_string();
        assert!(error("sctp:127.0.0.1:5060").starts_with("`sctp` is no transport"));
        assert!(error("udp:localhost:5060").starts_with("`localhost:5060` is no address"));
        assert!(error("5060").starts_with("`5060` is no address"));
        assert!(
            error("udp:[fe80::1]:5060")
                .starts_with("`[fe80::1]:5060`: a link-local address needs an interface")
        );
        assert!(error("udp:fe80::1%no-such-link").ends_with("there is no interface `no-such-link`"));
        assert!(error("tcp:0.0.0.0:5060").starts_with("0.0.0.0 stands for every address"));
        assert!(error("tcp:[::]:5060").starts_with(":: stands for every address"));
    }
}
