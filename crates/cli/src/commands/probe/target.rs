//! Resolves a typed target to an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};

use netrig_host::{HostAddress, HostAddressError};

use super::path_arguments::Target;
use crate::failure::Failure;

/// The target's address; with `port` if it has none.
pub fn resolve(target: &Target, port: u16) -> Result<SocketAddr, Failure> {
    let wanted = |address: &SocketAddr| {
        if address.is_ipv4() { !target.ipv6 } else { !target.ipv4 }
    };
    let text = target.target.as_str();
    let (host, port) = split(text, port).ok_or_else(|| {
        Failure::request(format!(
            "`{text}` is not a target: expected a name or an address, with or without a port, such as 192.0.2.1:862, [2001:db8::1]:862 or \
             [fe80::1%eth0]:862"
        ))
    })?;
    let found = match host.parse::<HostAddress>() {
        Ok(address) => vec![address.at(port)],
        // It is a name.
        Err(HostAddressError::Form) => (host, port)
            .to_socket_addrs()
            .map_err(|error| Failure::failed(format!("cannot find `{host}`: {error}")))?
            .collect(),
        Err(why) => return Err(Failure::request(format!("`{host}`: {why}"))),
    };
    let version = if target.ipv4 {
        " of IPv4"
    } else if target.ipv6 {
        " of IPv6"
    } else {
        ""
    };
    let found = found.into_iter().find(wanted);
    found.ok_or_else(|| Failure::failed(format!("`{host}` has no address{version}")))
}

/// The host of a typed target, without a port; the whole text if it is not a target.
pub fn host(text: &str) -> &str {
    split(text, 0).map_or(text, |(host, _)| host)
}

/// The addresses of the loopback interface that this host has.
pub fn loopback() -> Vec<HostAddress> {
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let has_v6 = UdpSocket::bind((v6, 0)).is_ok();
    [Ipv4Addr::LOCALHOST.into()].into_iter().chain(has_v6.then_some(v6)).map(HostAddress::from).collect()
}

/// The host and the port of `host`, `host:port`, `[v6]:port` or a bare address.
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
            ["example:8", "[::1]:8", "::1", "example"].map(host),
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
        let resolved = |text: &str| resolve(&Target { target: text.into(), ipv4: false, ipv6: false }, 7);
        for (text, port) in [("fe80::1%lo", 7), ("[fe80::1%lo]", 7), ("[fe80::1%lo]:9", 9)] {
            let Ok(SocketAddr::V6(address)) = resolved(text) else { panic!("{text}") };
            assert!(address.scope_id() != 0 && address.port() == port, "{text}");
        }
        for (text, says) in
            [("fe80::1", "needs an interface"), ("[fe80::1%no-such]:9", "no interface `no-such`")]
        {
            let Err(Failure::Request(why)) = resolved(text) else { panic!("{text}") };
            assert!(why.contains(says), "{why}");
        }
    }
}
