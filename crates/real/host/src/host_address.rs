//! IP addresses of hosts, with the interface of link-local addresses, as text and as socket addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use netrig_core::{is_of_a_link, setting_texts};
use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{AddressFamily, SocketType};
use serde::{Serialize, Serializer};

/// An IP address. A link-local address also has its interface, as in `fe80::1%eth0` (RFC 4007 section 11), which is
/// valid only on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddress {
    ip: IpAddr,
    /// Index of the interface; 0 if the address is not link-local.
    interface: u32,
}

/// Why a text is not a host address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostAddressError {
    /// The syntax is wrong.
    #[error("expected a host address: `192.0.2.1`, `2001:db8::1` or `fe80::1%eth0`")]
    Form,
    /// A link-local address without an interface is ambiguous.
    #[error("a link-local address needs an interface: expected `{0}%eth0`")]
    NoInterface(Ipv6Addr),
    /// This host has no such interface.
    #[error("there is no interface `{0}`")]
    UnknownInterface(String),
    /// Only link-local addresses have an interface.
    #[error("{0} is not a link-local address: expected it without an interface")]
    NotOfALink(IpAddr),
}

setting_texts! {
    HostAddress = "ADDRESS";
}

impl HostAddress {
    /// The unspecified address of the same IP version as `peer`. If a socket is bound to it, the kernel chooses the
    /// local address from which it reaches `peer`.
    pub const fn unspecified_for(peer: SocketAddr) -> Self {
        let ip = match peer {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self { ip, interface: 0 }
    }

    /// The address without its interface.
    pub const fn ip(self) -> IpAddr {
        self.ip
    }

    /// The socket address of this host with a port.
    pub fn at(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(ip) => (ip, port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.interface).into(),
        }
    }

    /// Parses a host with its port: `192.0.2.1:5060`, `[2001:db8::1]:5060`, `[fe80::1%eth0]:5060`. If the text has no
    /// port, the port is `usual`, if that is given. Without a port, an IPv6 address may be written with or without
    /// brackets.
    ///
    /// # Errors
    /// [`HostAddressError::Form`] if the port or the syntax is wrong, otherwise the error of the address.
    pub fn with_port(text: &str, usual: Option<u16>) -> Result<SocketAddr, HostAddressError> {
        let typed = |digits: &str| digits.parse().map_err(|_| HostAddressError::Form);
        if let Some(rest) = text.strip_prefix('[') {
            let (host, behind) = rest.split_once(']').ok_or(HostAddressError::Form)?;
            let port = match behind.strip_prefix(':') {
                Some(digits) => typed(digits)?,
                None if behind.is_empty() => usual.ok_or(HostAddressError::Form)?,
                None => return Err(HostAddressError::Form),
            };
            let host: Self = host.parse()?;
            return if host.ip.is_ipv6() { Ok(host.at(port)) } else { Err(HostAddressError::Form) };
        }
        match text.parse::<Self>() {
            Ok(host) => usual.map(|port| host.at(port)).ok_or(HostAddressError::Form),
            Err(HostAddressError::Form) => {
                let (host, digits) = text.rsplit_once(':').ok_or(HostAddressError::Form)?;
                let host: Self = host.parse()?;
                if host.ip.is_ipv4() { Ok(host.at(typed(digits)?)) } else { Err(HostAddressError::Form) }
            }
            Err(why) => Err(why),
        }
    }

    /// The text of a host with its port, in the form that [`HostAddress::with_port`] parses.
    pub fn text_with_port(address: SocketAddr) -> String {
        let host = Self::from(address);
        match host.ip {
            IpAddr::V4(_) => address.to_string(),
            IpAddr::V6(_) => format!("[{host}]:{}", address.port()),
        }
    }
}

impl From<SocketAddr> for HostAddress {
    fn from(address: SocketAddr) -> Self {
        let interface = if let SocketAddr::V6(address) = address { address.scope_id() } else { 0 };
        Self { ip: address.ip(), interface }
    }
}

impl From<IpAddr> for HostAddress {
    fn from(ip: IpAddr) -> Self {
        Self { ip, interface: 0 }
    }
}

impl FromStr for HostAddress {
    type Err = HostAddressError;

    /// Parses an address. The interface may be given by its name or by its index on this host.
    fn from_str(text: &str) -> Result<Self, HostAddressError> {
        let (ip, interface) = text.split_once('%').map_or((text, None), |(ip, name)| (ip, Some(name)));
        let ip: IpAddr = ip.parse().map_err(|_| HostAddressError::Form)?;
        let link = if let IpAddr::V6(ip) = ip { Some(ip).filter(is_of_a_link) } else { None };
        let interface = match (link, interface) {
            (None, None) => 0,
            (None, Some(_)) => return Err(HostAddressError::NotOfALink(ip)),
            (Some(ip), None) => return Err(HostAddressError::NoInterface(ip)),
            (Some(_), Some(name)) => {
                number(name).ok_or_else(|| HostAddressError::UnknownInterface(name.to_owned()))?
            }
        };
        Ok(Self { ip, interface })
    }
}

/// Writes the interface as its name, or as its index if the interface no longer exists.
impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip.fmt(f)?;
        match (self.interface, name(self.interface)) {
            (0, _) => Ok(()),
            (_, Some(name)) => write!(f, "%{name}"),
            (number, None) => write!(f, "%{number}"),
        }
    }
}

impl Serialize for HostAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The index of an interface of this host, from its name or its index as text; `None` if the interface does not exist.
fn number(text: &str) -> Option<u32> {
    let any = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    let named = name_to_index(&any, text).ok();
    named.or_else(|| text.parse().ok().filter(|number| index_to_name(&any, *number).is_ok()))
}

/// The name of the interface with this index; `None` if the interface does not exist.
fn name(number: u32) -> Option<String> {
    let any = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
    index_to_name(any, number).ok()
}

/// Whether an address belongs to the public Internet. Loopback, link-local and private addresses (RFC 1918, RFC 6598,
/// RFC 4193), and addresses for documentation and benchmarks (RFC 5737, RFC 3849, RFC 2544), do not belong to it.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_benchmark = a == 198 && (18..20).contains(&b);
            !(v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_documentation()
                || v4 == Ipv4Addr::UNSPECIFIED
                || is_shared
                || is_benchmark)
        }
        IpAddr::V6(v6) => {
            if let Some(v4) = v6.to_ipv4_mapped() {
                return is_public(v4.into());
            }
            let is_documentation = v6.segments()[..2] == [0x2001, 0xdb8];
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || is_documentation)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HostAddress, HostAddressError> {
        text.parse()
    }

    #[test]
    fn a_host_address_keeps_its_interface_wherever_it_goes() {
        let link = read("fe80::1%lo").unwrap();
        let SocketAddr::V6(port) = link.at(8621) else { panic!("it is of IPv6") };
        assert!(port.scope_id() != 0 && port.port() == 8621);
        assert_eq!(HostAddress::from(link.at(862)), link, "and back");
        assert_eq!(link.to_string(), "fe80::1%lo");
        assert_eq!(read(&format!("fe80::1%{}", port.scope_id())), Ok(link), "by its number");
        assert_eq!(serde_json::to_string(&link).unwrap(), r#""fe80::1%lo""#);
        assert_eq!(read("ff02::1%lo").map(|group| group.to_string()), Ok("ff02::1%lo".into()));
        for text in ["192.0.2.1", "::1", "2001:db8::1", "0.0.0.0"] {
            let plain = read(text).unwrap();
            assert_eq!((plain.to_string(), plain.at(7).ip()), (text.into(), text.parse().unwrap()));
        }
    }

    #[test]
    fn the_unspecified_address_has_the_ip_version_of_the_peer_and_no_interface() {
        let v6 = read("fe80::1%lo").unwrap().at(7);
        assert_eq!(HostAddress::unspecified_for(v6).at(0).to_string(), "[::]:0");
        assert_eq!(HostAddress::unspecified_for(([192, 0, 2, 1], 7).into()).at(9).to_string(), "0.0.0.0:9");
    }

    #[test]
    fn a_host_with_a_port_is_read_as_it_is_shown() {
        let shown = |text: &str| HostAddress::with_port(text, Some(5060)).map(HostAddress::text_with_port);
        for text in ["192.0.2.1:7", "[2001:db8::1]:0", "[fe80::1%lo]:5061", "[ff02::1%lo]:5060"] {
            assert_eq!(shown(text).as_deref(), Ok(text));
            assert!(HostAddress::with_port(text, None).is_ok(), "{text}");
        }
        let Ok(SocketAddr::V6(link)) = HostAddress::with_port("[fe80::1%lo]:7", None) else {
            panic!("it is of IPv6")
        };
        assert_eq!(shown(&format!("[fe80::1%{}]:7", link.scope_id())).as_deref(), Ok("[fe80::1%lo]:7"));
        for (alone, text) in [
            ("192.0.2.1", "192.0.2.1:5060"),
            ("::1", "[::1]:5060"),
            ("[::1]", "[::1]:5060"),
            ("fe80::1%lo", "[fe80::1%lo]:5060"),
            ("[fe80::1%lo]", "[fe80::1%lo]:5060"),
        ] {
            assert_eq!(shown(alone).as_deref(), Ok(text));
            assert_eq!(HostAddress::with_port(alone, None), Err(HostAddressError::Form), "{alone}");
        }
        for text in
            ["", ":7", "localhost:7", "192.0.2.1:", "192.0.2.1:70000", "[::1]7", "[::1", "[192.0.2.1]:7"]
        {
            assert_eq!(shown(text), Err(HostAddressError::Form), "{text}");
        }
        let link = "fe80::1".parse().unwrap();
        for text in ["[fe80::1]:7", "[fe80::1]", "fe80::1"] {
            assert_eq!(shown(text), Err(HostAddressError::NoInterface(link)), "{text}");
        }
        assert!(matches!(shown("192.0.2.1%lo:7"), Err(HostAddressError::NotOfALink(_))));
    }

    #[test]
    fn what_is_no_address_of_this_host_is_told_why() {
        let link = "fe80::1".parse().unwrap();
        assert_eq!(read("fe80::1"), Err(HostAddressError::NoInterface(link)));
        let unknown = HostAddressError::UnknownInterface("no-such-link".into());
        assert_eq!(read("fe80::1%no-such-link"), Err(unknown));
        assert_eq!(read("fe80::1%0"), Err(HostAddressError::UnknownInterface("0".into())));
        assert!(matches!(read("192.0.2.1%lo"), Err(HostAddressError::NotOfALink(_))));
        for text in ["", "localhost", "%lo", "[::1]", "::1:"] {
            assert_eq!(read(text), Err(HostAddressError::Form), "{text}");
        }
    }

    #[test]
    fn public_addresses_are_told_from_others() {
        for own in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "::1",
            "fd00::1",
        ] {
            assert!(!is_public(own.parse().unwrap()), "{own}");
        }
        for public in ["8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8", "224.0.0.1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
