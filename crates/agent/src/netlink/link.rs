//! By which interface packets leave, and what that is: `rtnetlink(7)`, read only.

use std::net::IpAddr;

use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::constants::NETLINK_ROUTE;

use super::{Conversation, Refusal};

/// A conversation about the interfaces and routes of the calling thread's namespace. It changes nothing.
#[derive(Debug)]
pub struct Links(Conversation);

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number for it, in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The longest IP packet that it takes, bytes.
    pub mtu: Option<u32>,
    /// Packets that wait for it at most (`txqueuelen`), where its queue discipline counts packets.
    pub queue: Option<u32>,
    /// The queue discipline at its root: `fq_codel`.
    pub discipline: Option<String>,
}

impl Links {
    /// Opens one in the namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn open() -> Result<Self, Refusal> {
        Conversation::open(NETLINK_ROUTE).map(Self)
    }

    /// The interface by which packets to this address leave, as the kernel's routes and rules are now.
    ///
    /// # Errors
    /// What the kernel answers: it may know no way there.
    pub fn towards(&mut self, address: IpAddr) -> Result<Interface, Refusal> {
        let mut message = RouteMessage::default();
        (message.header.address_family, message.header.destination_prefix_length) = match address {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message.attributes.push(RouteAttribute::Destination(address.into()));
        let answers = self.0.ask(RouteNetlinkMessage::GetRoute(message), 0)?;
        let index = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => {
                route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Oif(index) => Some(*index),
                    _ => None,
                })
            }
            _ => None,
        });
        self.interface(index.ok_or_else(|| Refusal::Unreadable("a route without an interface".into()))?)
    }

    fn interface(&mut self, index: u32) -> Result<Interface, Refusal> {
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

    /// Every namespace has it, and nobody gives it another name.
    #[test]
    fn what_goes_to_this_host_itself_leaves_by_loopback() {
        let mut links = Links::open().unwrap();
        for address in ["127.0.0.1", "::1"] {
            let interface = links.towards(address.parse().unwrap()).unwrap();
            assert_eq!((interface.name.as_str(), interface.discipline.as_deref()), ("lo", Some("noqueue")));
            let told = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
            assert_eq!(interface.mtu, told.trim().parse().ok());
        }
    }
}
