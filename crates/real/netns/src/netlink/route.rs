//! Makes interfaces, addresses, neighbours and routes with `rtnetlink(7)`.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::constants::NETLINK_ROUTE;
use netrig_host::netlink::NetlinkSocket;

use super::NetlinkError;

/// A netlink socket for the interfaces, addresses and routes of a namespace.
pub(crate) struct Rtnetlink {
    conversation: NetlinkSocket,
    /// The flag of netlink(7) that defines what happens if a new object already exists.
    existing: u16,
}

/// One end of a new veth pair.
pub(crate) struct VethEnd<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    /// `None`: the kernel chooses the MAC address.
    pub(crate) mac: Option<[u8; 6]>,
}

impl VethEnd<'_> {
    fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        message.attributes.push(LinkAttribute::IfName(self.name.to_owned()));
        message.attributes.push(LinkAttribute::Mtu(self.mtu));
        message.attributes.extend(self.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
        message
    }
}

/// A new route. It is added to the main table unless `table` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewRoute {
    pub(crate) to: IpAddr,
    /// The next hop. `None` if the destination is a neighbour.
    pub(crate) via: Option<IpAddr>,
    pub(crate) index: u32,
    pub(crate) table: Option<u32>,
    pub(crate) lengths: RouteLengths,
}

/// Length limits of a route. `None`: the limit of the interface applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteLengths {
    /// The longest packet, bytes.
    pub(crate) mtu: Option<u32>,
    /// The TCP segment size that is announced to the peer, bytes.
    pub(crate) mss: Option<u32>,
}

impl RouteLengths {
    /// Whether the route has no limits of its own.
    pub(crate) fn are_usual(&self) -> bool {
        *self == Self::default()
    }

    fn metrics(self) -> Vec<RouteMetric> {
        let mtu = self.mtu.map(RouteMetric::Mtu);
        mtu.into_iter().chain(self.mss.map(RouteMetric::Advmss)).collect()
    }
}

impl Rtnetlink {
    /// Opens the socket in the namespace of the calling thread. Requests fail if a new object already exists.
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        Ok(Self { conversation: NetlinkSocket::open(NETLINK_ROUTE)?, existing: NLM_F_EXCL })
    }

    /// Opens the socket in the namespace of the calling thread. Requests replace an object that already exists.
    pub(crate) fn open_to_restore() -> Result<Self, NetlinkError> {
        Ok(Self { existing: NLM_F_REPLACE, ..Self::open()? })
    }

    fn create(&mut self, message: RouteNetlinkMessage) -> Result<(), NetlinkError> {
        let flags = NLM_F_CREATE | self.existing;
        self.conversation.ask(message, flags).map(drop)
    }

    /// Makes a veth pair with the end `here` in this namespace and the end `there` in `namespace`. Both ends
    /// belong to the interface group `group`.
    pub(crate) fn make_veth(
        &mut self,
        here: &VethEnd<'_>,
        there: &VethEnd<'_>,
        namespace: BorrowedFd<'_>,
        group: u32,
    ) -> Result<(), NetlinkError> {
        let mut peer = there.message();
        peer.attributes.push(LinkAttribute::NetNsFd(namespace.as_raw_fd()));
        let mut message = here.message();
        message.attributes.push(LinkAttribute::Group(group));
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.create(RouteNetlinkMessage::NewLink(message))
    }

    /// Removes all interfaces of `group`. The other ends of their veth pairs disappear with them.
    pub(crate) fn delete_group(&mut self, group: u32) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Group(group));
        self.conversation.ask(RouteNetlinkMessage::DelLink(message), 0).map(drop)
    }

    /// Sets and clears flags of an interface.
    pub(crate) fn set_flags(
        &mut self,
        index: u32,
        on: LinkFlags,
        off: LinkFlags,
    ) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = on;
        message.header.change_mask = on | off;
        self.conversation.ask(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Whether an interface is operational (ifOperStatus of RFC 2863 section 3.1.14). If a link comes up, the
    /// kernel updates this state within a second (linkwatch). Since Linux 6.9, it also updates it when the
    /// interface is queried.
    pub(crate) fn is_running(&mut self, index: u32) -> Result<bool, NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let answers = self.conversation.ask(RouteNetlinkMessage::GetLink(message), 0)?;
        Ok(answers.iter().any(|answer| {
            matches!(answer, RouteNetlinkMessage::NewLink(link) if link.header.flags.contains(LinkFlags::Running))
        }))
    }

    /// Adds an address that is usable immediately, without duplicate address detection (RFC 4862 section 5.4).
    pub(crate) fn add_address(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = family(&address);
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.attributes.extend([AddressAttribute::Local(address), AddressAttribute::Address(address)]);
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.create(RouteNetlinkMessage::NewAddress(message))
    }

    /// Adds a permanent neighbour.
    pub(crate) fn add_neighbour(
        &mut self,
        index: u32,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Result<(), NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(&address);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::Destination(address.into()));
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        self.create(RouteNetlinkMessage::NewNeighbour(message))
    }

    /// Adds a route to a single address.
    pub(crate) fn add_route(&mut self, route: &NewRoute) -> Result<(), NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(&route.to);
        message.header.destination_prefix_length = bits(&route.to);
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        if let Some(table) = route.table {
            message.header.table = RouteHeader::RT_TABLE_UNSPEC;
            message.attributes.push(RouteAttribute::Table(table));
        }
        message.attributes.push(RouteAttribute::Destination(route.to.into()));
        match route.via {
            Some(via) => message.attributes.push(RouteAttribute::Gateway(via.into())),
            None => message.header.scope = RouteScope::Link,
        }
        message.attributes.push(RouteAttribute::Oif(route.index));
        let metrics = route.lengths.metrics();
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    /// The kernel's length limits for packets to `to`. If `source` is given, for packets from that address.
    pub(crate) fn lengths_to(
        &mut self,
        to: IpAddr,
        source: Option<IpAddr>,
    ) -> Result<RouteLengths, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(&to);
        message.header.destination_prefix_length = bits(&to);
        message.attributes.push(RouteAttribute::Destination(to.into()));
        if let Some(source) = source {
            message.header.source_prefix_length = bits(&source);
            message.attributes.push(RouteAttribute::Source(source.into()));
        }
        let answers = self.conversation.ask(RouteNetlinkMessage::GetRoute(message), 0)?;
        let mut lengths = RouteLengths::default();
        for answer in answers {
            let RouteNetlinkMessage::NewRoute(route) = answer else { continue };
            for attribute in route.attributes {
                let RouteAttribute::Metrics(metrics) = attribute else { continue };
                for metric in metrics {
                    match metric {
                        RouteMetric::Mtu(mtu) => lengths.mtu = Some(mtu),
                        RouteMetric::Advmss(mss) => lengths.mss = Some(mss),
                        _ => {}
                    }
                }
            }
        }
        Ok(lengths)
    }

    /// Adds a rule so that packets from `source` use `table` before the main table.
    pub(crate) fn add_rule(&mut self, source: IpAddr, table: u32, priority: u32) -> Result<(), NetlinkError> {
        let mut message = RuleMessage::default();
        message.header.family = family(&source);
        message.header.src_len = bits(&source);
        message.header.action = RuleAction::ToTable;
        message.attributes.extend([
            RuleAttribute::Source(source),
            RuleAttribute::Table(table),
            RuleAttribute::Priority(priority),
        ]);
        self.create(RouteNetlinkMessage::NewRule(message))
    }
}

fn family(address: &IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn bits(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
