//! The plan of a link: the names and addresses of its interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netrig_experiment::{LinkSettings, LinkSpec};

use crate::port::PortId;

/// MTU of Ethernet, bytes. It is also the default MTU of a link.
const ETHERNET_MTU: u64 = 1500;
/// "Every internet module must be able to forward a datagram of 68 octets" (RFC 791 section 3.2).
const SMALLEST_IPV4_MTU: u64 = 68;
/// "IPv6 requires that every link in the Internet have an MTU of 1280 octets or greater" (RFC 8200 section 5).
pub(crate) const SMALLEST_IPV6_MTU: u64 = 1280;
/// The longest IP packet, bytes.
pub(crate) const LARGEST_MTU: u64 = 65_535;

/// IFNAMSIZ of Linux's `if.h` without the NUL byte.
const LONGEST: usize = 15;

/// Names that an interface cannot have: that of the loopback interface, and two folders in
/// `/proc/sys/net/ipv4/conf` that do not belong to an interface.
const TAKEN: [&str; 3] = ["lo", "all", "default"];

/// A link. It consists of two veth pairs that the router joins. A direct link consists of one veth pair between
/// two nodes, and the router does not receive its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkWiring {
    /// The link's name in the scenario.
    pub link: String,
    /// MTU of the interfaces, bytes. The link itself may drop shorter packets.
    pub mtu: u32,
    /// The two ends, in the order of the scenario.
    pub ends: [LinkEnd; 2],
}

/// The interface of a node on a link, and the router's interface on the same veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Index of the node at this end.
    pub node: usize,
    /// The interface in the node's namespace: the link's name, shortened if it is longer than 15 characters.
    pub interface: String,
    /// The interface in the router's namespace. `None` if the link connects two nodes directly.
    pub router_interface: Option<String>,
    /// The interface index of both interfaces, each in its own namespace. The router uses it to find the link of
    /// a frame.
    pub index: u32,
    /// The MAC address of the node's interface.
    pub mac: [u8; 6],
    /// An IPv4 address and, if the link can carry IPv6, an IPv6 address.
    pub addresses: Vec<IpAddr>,
}

impl LinkEnd {
    /// The address of this end with the same IP version as `other`.
    pub fn address_like(&self, other: &IpAddr) -> Option<IpAddr> {
        self.addresses.iter().find(|address| address.is_ipv4() == other.is_ipv4()).copied()
    }
}

/// Why a scenario cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WiringError {
    /// The MTU is below the minimum of the IP version.
    #[error("link `{link}` has an MTU of {mtu} B, but {version} needs {needs} B")]
    Mtu {
        /// The name of the link.
        link: String,
        /// The MTU of the link, bytes.
        mtu: u64,
        /// The IP version of the scenario.
        version: &'static str,
        /// The minimum MTU, bytes.
        needs: u64,
    },
    /// Two paths with the same addresses take different links at a node. A kernel routes by addresses, so it
    /// cannot distinguish the two paths.
    #[error(
        "paths from {from} to {to} part at node `{node}`, which cannot tell their packets apart: \
         give them different first or last links"
    )]
    Parting {
        /// The name of the node.
        node: String,
        /// The source of both paths.
        from: IpAddr,
        /// The destination of both paths.
        to: IpAddr,
    },
}

pub(super) fn wire(n: usize, link: &LinkSpec) -> Result<LinkWiring, WiringError> {
    let mtu = [&link.forward, &link.backward].map(mtu).into_iter().max().unwrap_or(ETHERNET_MTU);
    let (version, needs) = match link.addresses[0] {
        IpAddr::V4(_) => ("IPv4", SMALLEST_IPV4_MTU),
        IpAddr::V6(_) => ("IPv6", SMALLEST_IPV6_MTU),
    };
    if mtu < needs {
        return Err(WiringError::Mtu { link: link.name.clone(), mtu, version, needs });
    }
    let end = |end: usize| LinkEnd {
        node: link.ends[end],
        interface: name_in_node(&link.name, n),
        router_interface: (!link.is_direct()).then(|| name_in_router(&link.name, n, end)),
        index: PortId::of_end(n, end).interface(),
        mac: mac(n, end),
        addresses: addresses(n, end, mtu),
    };
    Ok(LinkWiring { link: link.name.clone(), mtu: mtu.min(LARGEST_MTU) as u32, ends: [end(0), end(1)] })
}

fn mtu(settings: &LinkSettings) -> u64 {
    match settings {
        LinkSettings::Line(line) => line.mtu.map_or(ETHERNET_MTU, |mtu| mtu.bytes()),
        LinkSettings::Wifi(wifi) => wifi.mtu.bytes(),
        LinkSettings::Direct(direct) => direct.mtu.bytes(),
    }
}

/// A locally administered unicast address (IEEE 802 section 8.4: the second bit of the first octet).
fn mac(n: usize, end: usize) -> [u8; 6] {
    let [_, a, b, c] = (n as u32).to_be_bytes();
    [0x02, 0x6e, a, b, c, end as u8 + 1]
}

/// The addresses of an end of the `n`-th link: the scenario's address, and the corresponding address of the
/// other IP version. The IPv4 networks are 10.0.0.0/30, 10.0.0.4/30 and so on; the IPv6 networks are
/// fd00:0:0:n::/64.
fn addresses(n: usize, end: usize, mtu: u64) -> Vec<IpAddr> {
    // At most 20 000 links, far below the 2²² networks of 10.0.0.0/8.
    let (n, host) = (n as u32, end as u8 + 1);
    let v4 = Ipv4Addr::from_bits(u32::from_be_bytes([10, 0, 0, host]) + (n << 2));
    let [high, low] = [(n >> 16) as u16, n as u16];
    let v6 = Ipv6Addr::new(0xfd00, 0, high, low, 0, 0, 0, u16::from(host));
    let v6 = (mtu >= SMALLEST_IPV6_MTU).then_some(IpAddr::V6(v6));
    [IpAddr::V4(v4)].into_iter().chain(v6).collect()
}

/// Prefix length of a link's addresses.
pub(crate) fn prefix(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 30,
        IpAddr::V6(_) => 64,
    }
}

/// The name of the interface to the `n`-th link in a node's namespace.
fn name_in_node(link: &str, n: usize) -> String {
    fit(link, n, LONGEST)
}

/// The name of the interface to one end of the `n`-th link in the router's namespace. The first end has the
/// suffix `a`.
fn name_in_router(link: &str, n: usize, end: usize) -> String {
    format!("{}.{}", fit(link, n, LONGEST - 2), ["a", "b"][end])
}

/// The interface name for a link. It is the link's name or, if that is too long or reserved, the beginning of
/// the name, `~` and the link's number. Names in experiments have no `~`, and link numbers are unique, so the
/// result is unique.
fn fit(link: &str, n: usize, longest: usize) -> String {
    if link.len() <= longest && !TAKEN.contains(&link) {
        return link.to_owned();
    }
    let number = format!("~{n}");
    // Names in an experiment are ASCII: letters, digits, `_`, `-`, and `#` before a number.
    let kept: String = link.chars().take(longest - number.len()).collect();
    kept + &number
}
