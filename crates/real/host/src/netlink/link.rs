//! Interfaces and routes: `rtnetlink(7)`, read only.

use std::net::IpAddr;

use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::constants::NETLINK_ROUTE;

use super::{NetlinkError, NetlinkSocket};

/// Reads the interfaces and routes of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Links(NetlinkSocket);

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's index of the interface, in its namespace.
    pub index: u32,
    /// The name of the interface.
    pub name: String,
    /// The MTU: the longest IP packet that the interface can send, bytes.
    pub mtu: Option<u32>,
    /// Maximum queue length, packets (`txqueuelen`). It applies only to queue disciplines that count packets.
    pub queue: Option<u32>,
    /// The root queue discipline, such as `fq_codel`.
    pub discipline: Option<String>,
}

/// The route of packets to an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Index of the interface.
    pub interface: u32,
    /// The next router; `None` if the destination is on the same link.
    pub gateway: Option<IpAddr>,
    /// Whether the kernel has learnt a path MTU for the route, which expires: a router on the path reported its MTU
    /// (RFC 1191, RFC 8201).
    pub is_learnt: bool,
}

impl Links {
    /// Opens a netlink socket in the namespace of the calling thread.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn open() -> Result<Self, NetlinkError> {
        NetlinkSocket::open(NETLINK_ROUTE).map(Self)
    }

    /// The outgoing interface of packets to this address, by the current routes and rules.
    ///
    /// # Errors
    /// The error of the kernel, for example if there is no route.
    pub fn towards(&mut self, address: IpAddr) -> Result<Interface, NetlinkError> {
        let route = self.route(address)?;
        self.interface(route.interface)
    }

    /// The route of packets to this address.
    ///
    /// # Errors
    /// Like [`towards`](Self::towards).
    pub fn route(&mut self, address: IpAddr) -> Result<Route, NetlinkError> {
        let mut message = RouteMessage::default();
        (message.header.address_family, message.header.destination_prefix_length) = match address {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message.attributes.push(RouteAttribute::Destination(address.into()));
        let answers = self.0.ask(RouteNetlinkMessage::GetRoute(message), 0)?;
        let routes = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        let (mut route, mut interface) = (Route::default(), None);
        for attribute in routes.flat_map(|route| route.attributes) {
            match attribute {
                RouteAttribute::Oif(index) => interface = Some(index),
                RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => route.gateway = Some(gateway.into()),
                RouteAttribute::Gateway(RouteAddress::Inet6(gateway)) => route.gateway = Some(gateway.into()),
                RouteAttribute::CacheInfo(kept) => route.is_learnt = kept.expires != 0,
                _ => {}
            }
        }
        route.interface =
            interface.ok_or_else(|| NetlinkError::Unreadable("a route without an interface".into()))?;
        Ok(route)
    }

    /// The interface of this index.
    ///
    /// # Errors
    /// The error of the kernel, for example if there is no such interface.
    pub fn interface(&mut self, index: u32) -> Result<Interface, NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let answers = self.0.ask(RouteNetlinkMessage::GetLink(message), 0)?;
        let mut interface = Interface { index, ..Interface::default() };
        let links = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        });
        for attribute in links.flat_map(|link| link.attributes) {
            match attribute {
                LinkAttribute::IfName(name) => interface.name = name,
                LinkAttribute::Mtu(mtu) => interface.mtu = Some(mtu),
                LinkAttribute::TxQueueLen(queue) => interface.queue = Some(queue),
                LinkAttribute::Qdisc(discipline) => interface.discipline = Some(discipline),
                _ => {}
            }
        }
        Ok(interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every network namespace has the loopback interface, with the name `lo`.
    #[test]
    fn what_goes_to_this_host_itself_leaves_by_loopback() {
        let mut links = Links::open().unwrap();
        for address in ["127.0.0.1", "::1"] {
            let interface = links.towards(address.parse().unwrap()).unwrap();
            assert_eq!((interface.name.as_str(), interface.discipline.as_deref()), ("lo", Some("noqueue")));
            let expected = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
            assert_eq!(interface.mtu, expected.trim().parse().ok());
            let route = links.route(address.parse().unwrap()).unwrap();
            let wanted = Route { interface: interface.index, gateway: None, is_learnt: false };
            assert_eq!(route, wanted);
        }
    }
}
