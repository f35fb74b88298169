//! Interfaces, addresses, neighbours and routes: `rtnetlink(7)`.

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
use netrig_host::netlink::Conversation;

use super::Refusal;

/// A conversation about what the calling thread's namespace has.
pub(crate) struct Rtnetlink {
    conversation: Conversation,
    /// What becomes of a thing that is made and is there already: a flag of netlink(7).
    existing: u16,
}

/// One end of a veth pair that is to be.
pub(crate) struct VethEnd<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    /// The kernel draws one if there is none.
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

/// A route that is to be, in the main table unless it has a `table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewRoute {
    pub(crate) to: IpAddr,
    /// Nobody to whom it is the neighbour's own.
    pub(crate) via: Option<IpAddr>,
    pub(crate) index: u32,
    pub(crate) table: Option<u32>,
    pub(crate) lengths: RouteLengths,
}

/// How long what takes a route may be; as long as the interface takes if nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteLengths {
    /// A packet.
    pub(crate) mtu: Option<u32>,
    /// A segment of TCP, as it is announced to the peer.
    pub(crate) mss: Option<u32>,
}

impl RouteLengths {
    /// Whether nothing is said.
    pub(crate) fn are_usual(&self) -> bool {
        *self == Self::default()
    }

    fn metrics(self) -> Vec<RouteMetric> {
        let mtu = self.mtu.map(RouteMetric::Mtu);
        mtu.into_iter().chain(self.mss.map(RouteMetric::Advmss)).collect()
    }
}

impl Rtnetlink {
    /// Opens one in the namespace of the calling thread. What is there already is not made again.
    pub(crate) fn open() -> Result<Self, Refusal> {
        Ok(Self { conversation: Conversation::open(NETLINK_ROUTE)?, existing: NLM_F_EXCL })
    }

    /// The same for putting things back: what is there already is replaced.
    pub(crate) fn open_to_restore() -> Result<Self, Refusal> {
        Ok(Self { existing: NLM_F_REPLACE, ..Self::open()? })
    }

    fn create(&mut self, message: RouteNetlinkMessage) -> Result<(), Refusal> {
        let flags = NLM_F_CREATE | self.existing;
        self.conversation.ask(message, flags).map(drop)
    }

    /// Makes a veth pair, `here` in this namespace and `there` in another one. Both belong to `group` of interfaces.
    pub(crate) fn make_veth(
        &mut self,
        here: &VethEnd<'_>,
        there: &VethEnd<'_>,
        namespace: BorrowedFd<'_>,
        group: u32,
    ) -> Result<(), Refusal> {
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

    /// Removes all interfaces of `group`, and with them the other ends of veth pairs.
    pub(crate) fn delete_group(&mut self, group: u32) -> Result<(), Refusal> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Group(group));
        self.conversation.ask(RouteNetlinkMessage::DelLink(message), 0).map(drop)
    }

    /// Switches flags of an interface on and off.
    pub(crate) fn set_flags(&mut self, index: u32, on: LinkFlags, off: LinkFlags) -> Result<(), Refusal> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = on;
        message.header.change_mask = on | off;
        self.conversation.ask(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Whether an interface is in operation (ifOperStatus of RFC 2863 section 3.1.14), as the kernel has found out by itself: that a
    /// link has come up it notices up to a second late (linkwatch), or, since Linux 6.9, when it is asked for that one.
    pub(crate) fn is_running(&mut self, index: u32) -> Result<bool, Refusal> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let answers = self.conversation.ask(RouteNetlinkMessage::GetLink(message), 0)?;
        Ok(answers.iter().any(|answer| {
            matches!(answer, RouteNetlinkMessage::NewLink(link) if link.header.flags.contains(LinkFlags::Running))
        }))
    }

    /// Gives an interface an address, usable at once: nobody is asked whether another one has it (RFC 4862 section 5.4).
    pub(crate) fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> Result<(), Refusal> {
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

    /// Tells who has a neighbour's address, for good.
    pub(crate) fn add_neighbour(&mut self, index: u32, address: IpAddr, mac: [u8; 6]) -> Result<(), Refusal> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(&address);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.attributes.push(NeighbourAttribute::Destination(address.into()));
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        self.create(RouteNetlinkMessage::NewNeighbour(message))
    }

    /// Adds a route to a single address.
    pub(crate) fn add_route(&mut self, route: &NewRoute) -> Result<(), Refusal> {
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

    /// How long what goes to `to`, from `source` if one is given, may be as the kernel has it.
    pub(crate) fn lengths_to(&mut self, to: IpAddr, source: Option<IpAddr>) -> Result<RouteLengths, Refusal> {
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

    /// Lets packets from `source` look into `table` before the main one.
    pub(crate) fn add_rule(&mut self, source: IpAddr, table: u32, priority: u32) -> Result<(), Refusal> {
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
