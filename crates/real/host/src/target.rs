//! Hosts that a user names, by address or by name, with or without a port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};

use crate::{HostAddress, HostAddressError};

/// The family of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Why no address was found for a target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The syntax is wrong.
    #[error(
        "`{0}` is not a target: expected a name or an address, with or without a port, such as 192.0.2.1:862, [2001:db8::1]:862 or \
         [fe80::1%eth0]:862"
    )]
    Form(String),
    /// The address is invalid, for example because it lacks the interface.
    #[error("`{0}`: {1}")]
    Address(String, HostAddressError),
    /// The name is unknown.
    #[error("cannot find `{0}`: {1}")]
    Unknown(String, io::Error),
    /// The name has no address of the wanted family.
    #[error("`{host}` has no address{}", match family { Some(IpFamily::V4) => " of IPv4", Some(IpFamily::V6) => " of IPv6", None => "" })]
    NoAddress {
        /// The name.
        host: String,
        /// The wanted family.
        family: Option<IpFamily>,
    },
}

/// The first address of a target. If `family` is given, the address must be of this family. If the text contains no
/// port, the port is `port`.
///
/// # Errors
/// If the text is not a target, or the target has no such address.
pub fn resolve_target(text: &str, family: Option<IpFamily>, port: u16) -> Result<SocketAddr, TargetError> {
    let (host, port) = split(text, port).ok_or_else(|| TargetError::Form(text.to_owned()))?;
    let found = match host.parse::<HostAddress>() {
        Ok(address) => vec![address.at(port)],
        // The text is a name.
        Err(HostAddressError::Form) => (host, port)
            .to_socket_addrs()
            .map_err(|error| TargetError::Unknown(host.to_owned(), error))?
            .collect(),
        Err(error) => return Err(TargetError::Address(host.to_owned(), error)),
    };
    let is_wanted =
        |address: &SocketAddr| family.is_none_or(|family| address.is_ipv4() == (family == IpFamily::V4));
    let found = found.into_iter().find(is_wanted);
    found.ok_or_else(|| TargetError::NoAddress { host: host.to_owned(), family })
}

/// The host of a target, without the port; the whole text if it is not a valid target.
pub fn host_of_target(text: &str) -> &str {
    split(text, 0).map_or(text, |(host, _)| host)
}

/// The addresses of the loopback interface of this host.
pub fn loopback_addresses() -> Vec<HostAddress> {
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let has_v6 = UdpSocket::bind((v6, 0)).is_ok();
    [Ipv4Addr::LOCALHOST.into()].into_iter().chain(has_v6.then_some(v6)).map(HostAddress::from).collect()
}

/// Splits `host`, `host:port`, `[v6]:port` or an address without a port into host and port. The port is `port` if the
/// text has none.
fn split(text: &str, port: u16) -> Option<(&str, u16)> {
    let typed = |digits: &str| digits.parse().ok().filter(|port| *port > 0);
    let ip = text.split_once('%').map_or(text, |(ip, _)| ip);
    if ip.parse::<IpAddr>().is_ok() {
        return Some((text, port));
    }
    let split = if let Some(rest) = text.strip_prefix('[') {
        match rest.split_once(']')? {
            (host, "") => (host, port),
            (host, rest) => (host, typed(rest.strip_prefix(':')?)?),
        }
    } else {
        match text.split_once(':') {
            None => (text, port),
            Some((host, digits)) => (host, typed(digits)?),
        }
    };
    (!split.0.is_empty()).then_some(split)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_stands_behind_a_colon() {
        assert_eq!(
            ["example:8", "[::1]:8", "::1", "example"].map(host_of_target),
            ["example", "::1", "::1", "example"]
        );
        assert_eq!(split("example", 7), Some(("example", 7)));
        assert_eq!(split("example:9", 7), Some(("example", 9)));
        assert_eq!(split("192.0.2.1:9", 7), Some(("192.0.2.1", 9)));
        assert_eq!(split("2001:db8::1", 7), Some(("2001:db8::1", 7)));
        assert_eq!(split("[2001:db8::1]", 7), Some(("2001:db8::1", 7)));
        assert_eq!(split("[2001:db8::1]:9", 7), Some(("2001:db8::1", 9)));
        assert_eq!(split("fe80::1%eth0", 7), Some(("fe80::1%eth0", 7)));
        assert_eq!(split("[fe80::1%eth0]", 7), Some(("fe80::1%eth0", 7)));
        assert_eq!(split("[fe80::1%eth0]:9", 7), Some(("fe80::1%eth0", 9)));
        for wrong in
            ["", ":9", "example:", "example:x", "example:0", "example:70000", "[::1", "[::1]9", "a:b:c"]
        {
            assert_eq!(split(wrong, 7), None, "{wrong}");
        }
    }

    #[test]
    fn a_target_of_a_link_has_its_interface_and_keeps_it() {
        let resolved = |text: &str| resolve_target(text, None, 7);
        for (text, port) in [("fe80::1%lo", 7), ("[fe80::1%lo]", 7), ("[fe80::1%lo]:9", 9)] {
            let Ok(SocketAddr::V6(address)) = resolved(text) else { panic!("{text}") };
            assert!(address.scope_id() != 0 && address.port() == port, "{text}");
        }
        for (text, says) in
            [("fe80::1", "needs an interface"), ("[fe80::1%no-such]:9", "no interface `no-such`")]
        {
            let why = resolved(text).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
    }
}
