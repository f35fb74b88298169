//! Checks for packet losses inside nodes. Between two links, and between a link and a socket, a packet is in the kernel
//! of a node. Every loss there must be reported.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use netrig_agent::{EndReport, SocketPassage};
use netrig_core::{Duration, Instant, IpHeader};
use netrig_experiment::{Action, Carrier, Scenario, server_port};
use netrig_host::DatagramStamp;
use netrig_traffic::FlowSide;

use super::fragments::{Fragments, SocketPair, content, ends};
use super::parcel::Parcel;
use crate::wiring::Wiring;

/// A node forwards or reads a packet within this time. If all links were empty for this time, no packet is in transit.
pub(super) const SETTLING: Duration = Duration::from_millis(20);
/// A client does not wait for late datagrams, so it may close its socket this much before the end of the run by the
/// router's clock.
const CLOSING: Duration = Duration::from_millis(1);

/// Counts the packets that nodes receive, and the packets that they forward or read.
///
/// For a node that forwards, it counts datagrams (by their first fragments) and the bytes after the IP headers, because
/// fragmentation changes neither of these counts. For a flow of datagrams, it counts complete datagrams at the first
/// and at the last link. A packet that was delivered less than 20 ms before the last count may still be in transit, so
/// it is not counted.
pub(crate) struct Passages {
    nodes: Vec<NodePassage>,
    /// The index of the node of each address.
    owners: BTreeMap<IpAddr, usize>,
    /// Flows of datagrams, by the server's address: the flow's number, and the nodes of the client and the server.
    flows: BTreeMap<SocketAddr, (u32, [usize; 2])>,
    ends: BTreeMap<(u32, FlowSide), EndPassage>,
    /// Numbers and names of flows of datagrams that use only direct links. Their datagrams do not pass the router.
    on_cables: Vec<(u32, String)>,
    /// Delivered packets that may still be in transit inside a node, in time order.
    pending: VecDeque<(Instant, PendingPacket)>,
    offered: Fragments,
    handed: Fragments,
    end: Instant,
}

#[derive(Clone, Debug)]
struct NodePassage {
    name: String,
    /// The longest packet that all links of the node can carry, bytes.
    fits: u32,
    /// Whether an interface of the node goes down during the run. The node's kernel may then drop packets.
    shuts: bool,
    /// Whether one of the node's links is direct. Packets that the node forwards to such a link are not counted.
    has_cable: bool,
    /// Whether the experiment limits the host. If so, losses in the node are a result and not a fault.
    constrained: bool,
    to_forward: PassedTraffic,
    forwarded: PassedTraffic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PassedTraffic {
    datagrams: u64,
    bytes: u64,
}

impl PassedTraffic {
    fn count(&mut self, packet: &IpHeader) {
        self.datagrams += u64::from(packet.is_first());
        self.bytes += u64::from(packet.payload_len());
    }
}

/// Counts of datagrams between the link and the socket at one end of a flow.
#[derive(Clone, Debug, Default)]
struct EndPassage {
    flow: String,
    node: usize,
    /// Complete datagrams of this end that reached the first link.
    offered: u64,
    /// Complete datagrams for this end that the last link delivered to its node.
    handed: u64,
}

/// A packet that a link delivered to a node.
enum PendingPacket {
    ToForward(usize, IpHeader),
    ForSocket((u32, FlowSide)),
}

impl Passages {
    /// The counters for `scenario`, whose testbed was built from `wiring`.
    pub fn new(scenario: &Scenario, wiring: &Wiring) -> Self {
        let shuts = |node| {
            let shut =
                |action: &Action| matches!(action, Action::Interface { node: other, .. } if *other == node);
            scenario.events.iter().any(|event| shut(&event.action))
        };
        let is_cable = |link: usize| scenario.links[link].is_direct();
        let nodes = wiring.nodes.iter().enumerate().map(|(place, node)| NodePassage {
            name: node.name.clone(),
            fits: wiring
                .ends_of(place)
                .map(|(link, _)| wiring.links[link].mtu)
                .chain(node.mtu)
                .min()
                .unwrap_or(u32::MAX),
            shuts: shuts(place),
            has_cable: wiring.ends_of(place).any(|(link, _)| is_cable(link)),
            constrained: scenario.nodes[place].host.is_constrained(),
            to_forward: PassedTraffic::default(),
            forwarded: PassedTraffic::default(),
        });
        let ends = wiring.links.iter().flat_map(|link| &link.ends);
        let owners = ends.flat_map(|end| end.addresses.iter().map(|address| (*address, end.node))).collect();
        let datagrams = scenario.flows.iter().zip(0..).filter(|(flow, _)| {
            let is_udp = matches!(flow.carrier, Carrier::Udp { .. });
            // SIP flows are excluded: their users retransmit lost messages, and count the outcome themselves.
            is_udp && flow.application.datagram().is_some() && flow.application.sip().is_none()
        });
        let (mut flows, mut at_ends, mut on_cables) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (flow, number) in datagrams {
            let hops = flow.paths.first().map_or(&[][..], |path| &path.hops);
            let (Some(first), Some(last)) = (hops.first(), hops.last()) else { continue };
            let Some(address) = scenario.address(flow.to, last.link) else { continue };
            flows.insert(SocketAddr::from((address, server_port(number))), (number, [flow.from, flow.to]));
            if hops.iter().all(|hop| is_cable(hop.link)) {
                on_cables.push((number, flow.name.clone()));
            }
            let ends = [(FlowSide::Client, flow.from, first.link), (FlowSide::Server, flow.to, last.link)];
            for (side, node, _) in ends.into_iter().filter(|(_, _, link)| !is_cable(*link)) {
                at_ends.insert(
                    (number, side),
                    EndPassage { flow: flow.name.clone(), node, ..EndPassage::default() },
                );
            }
        }
        Self {
            nodes: nodes.collect(),
            owners,
            flows,
            ends: at_ends,
            on_cables,
            pending: VecDeque::new(),
            offered: Fragments::default(),
            handed: Fragments::default(),
            end: Instant::ZERO + scenario.duration,
        }
    }

    /// Whether an address belongs to the testbed.
    pub fn knows(&self, address: &IpAddr) -> bool {
        self.owners.contains_key(address)
    }

    /// Whether `node` forwards the packet, because the node is not its source or destination.
    fn is_others(&self, node: usize, packet: &IpHeader) -> bool {
        let is_others = |address| self.owners.get(address).is_some_and(|owner| *owner != node);
        is_others(&packet.src) && is_others(&packet.dst)
    }

    /// The end of the flow whose datagrams have this source and destination: the sending end if `sends` is true,
    /// otherwise the receiving end. `None` if there is no such flow, or that end is not at `node`.
    fn end_of(&self, node: usize, ends: &SocketPair, sends: bool) -> Option<(u32, FlowSide)> {
        let (server_sends, flow) = match (self.flows.get(&ends.to), self.flows.get(&ends.from)) {
            (Some(flow), _) => (false, flow),
            (_, Some(flow)) => (true, flow),
            _ => return None,
        };
        let side = if server_sends == sends { FlowSide::Server } else { FlowSide::Client };
        (flow.1[side as usize] == node).then_some((flow.0, side))
    }

    /// When the application at `node` intended to send the datagram that begins in this packet. `None` if the datagram
    /// has no stamp with this time, or if the experiment limits the host.
    pub fn intended(&self, node: usize, parcel: &Parcel) -> Option<Instant> {
        if self.nodes[node].constrained {
            return None;
        }
        let (flow, _) = self.end_of(node, &ends(parcel)?, true)?;
        let stamp = DatagramStamp::decode(content(parcel)?).filter(|stamp| stamp.flow == flow)?;
        Some(stamp.intended())
    }

    /// Counts a packet that a node sends over a link. Returns whether the node forwards the packet.
    pub fn offered(&mut self, node: usize, parcel: &Parcel) -> bool {
        if self.is_others(node, parcel.ip()) {
            self.nodes[node].forwarded.count(parcel.ip());
            return true;
        }
        if let Some(ends) = self.offered.passes(parcel)
            && let Some(end) = self.end_of(node, &ends, true)
            && let Some(at) = self.ends.get_mut(&end)
        {
            at.offered += 1;
        }
        false
    }

    /// Counts a packet that a node received at `now`. Returns whether the node must forward it.
    pub fn handed(&mut self, now: Instant, node: usize, parcel: &Parcel) -> bool {
        self.settle(now);
        let packet = parcel.ip();
        if self.is_others(node, packet) {
            // If the hop limit of a packet expires, or if it is too long and must not be fragmented, a router answers
            // it and does not forward it.
            let fits = packet.may_be_cut || packet.len <= self.nodes[node].fits;
            if packet.hops > 1 && fits {
                self.pending.push_back((now, PendingPacket::ToForward(node, *packet)));
            }
            return true;
        }
        if let Some(ends) = self.handed.passes(parcel)
            && let Some(end) = self.end_of(node, &ends, false)
        {
            self.pending.push_back((now, PendingPacket::ForSocket(end)));
        }
        false
    }

    /// Counts the packets that were delivered more than [`SETTLING`] before `now`, which are no longer in transit.
    fn settle(&mut self, now: Instant) {
        while let Some((at, handed)) = self.pending.pop_front_if(|(at, _)| now.since(*at) > SETTLING) {
            match handed {
                PendingPacket::ToForward(node, packet) => self.nodes[node].to_forward.count(&packet),
                PendingPacket::ForSocket((_, FlowSide::Client)) if at + CLOSING > self.end => {}
                PendingPacket::ForSocket(end) => {
                    if let Some(at) = self.ends.get_mut(&end) {
                        at.handed += 1;
                    }
                }
            }
        }
    }

    /// The counts when the router stops at `now`. The run ended at `end`.
    pub fn report(mut self, now: Instant, end: Instant) -> PassageReport {
        self.settle(now);
        if end < self.end {
            // The run was ended early, so sockets were closed before the last datagrams arrived.
            self.ends.values_mut().for_each(|at| at.handed = 0);
            self.on_cables.clear();
        }
        PassageReport { nodes: self.nodes, ends: self.ends, on_cables: self.on_cables }
    }
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassageReport {
    nodes: Vec<NodePassage>,
    ends: BTreeMap<(u32, FlowSide), EndPassage>,
    on_cables: Vec<(u32, String)>,
}

impl PassageReport {
    /// Losses of packets inside nodes, one sentence each. `ends` contains the counts of the sockets.
    pub fn faults(&self, ends: &[EndReport]) -> Vec<String> {
        self.losses(ends, false)
    }

    /// Like [`faults`](Self::faults), but for hosts that the experiment limits, where a loss is a result.
    pub fn notes(&self, ends: &[EndReport]) -> Vec<String> {
        self.losses(ends, true)
    }

    fn losses(&self, ends: &[EndReport], constrained: bool) -> Vec<String> {
        let counted = |node: &&NodePassage| !node.shuts && node.constrained == constrained;
        let through =
            self.nodes.iter().filter(|node| !node.has_cable).filter(counted).filter_map(NodePassage::fault);
        let at_ends = ends.iter().filter_map(|end| {
            let at = self.ends.get(&(end.flow, end.side))?;
            let node = self.nodes.get(at.node).filter(counted)?;
            Some(at.faults(&node.name, &end.passed?))
        });
        let passed = |flow, side| {
            let end = ends.iter().find(|end| (end.flow, end.side) == (flow, side));
            end.and_then(|end| end.passed)
        };
        let any_constrained = self.nodes.iter().any(|node| node.constrained);
        let on_cables = self.on_cables.iter().filter(|_| any_constrained == constrained);
        let on_cables = on_cables.filter_map(|(flow, name)| {
            fault_on_cables(name, &passed(*flow, FlowSide::Client)?, &passed(*flow, FlowSide::Server)?)
        });
        through.chain(at_ends.flatten()).chain(on_cables).collect()
    }
}

/// Returns a sentence if datagrams of a flow were lost between its sockets on direct links. Answers are not checked,
/// because the last answer may arrive after the socket is closed.
fn fault_on_cables(flow: &str, client: &SocketPassage, server: &SocketPassage) -> Option<String> {
    let lost = client.sent.saturating_sub(server.received + server.dropped);
    let sent = client.sent;
    (lost > 0).then(|| {
        format!(
            "flow `{flow}`: {lost} of {sent} datagrams that were sent over direct links did not reach their socket"
        )
    })
}

impl NodePassage {
    /// Returns a sentence if the node did not forward all packets.
    fn fault(&self) -> Option<String> {
        let Self { name, to_forward: PassedTraffic { datagrams: handed, bytes }, forwarded, .. } = self;
        let lost = handed.saturating_sub(forwarded.datagrams);
        if lost > 0 {
            return Some(format!(
                "node `{name}` did not forward {lost} of {handed} packets that links delivered to it"
            ));
        }
        let lost = bytes.saturating_sub(forwarded.bytes);
        (lost > 0).then(|| {
            format!("node `{name}` did not forward {lost} B of {bytes} in the fragments that links delivered to it")
        })
    }
}

impl EndPassage {
    /// Returns a sentence for each direction in which datagrams were lost between the socket and the link.
    fn faults(&self, node: &str, socket: &SocketPassage) -> impl Iterator<Item = String> + use<> {
        let Self { flow, offered, handed, .. } = self;
        let SocketPassage { sent, received, dropped, .. } = *socket;
        let (unsent, unread) = (sent.saturating_sub(*offered), handed.saturating_sub(received + dropped));
        let sends = (unsent > 0).then(|| {
            format!(
                "flow `{flow}`: {unsent} of {sent} datagrams that node `{node}` sent did not reach its link"
            )
        });
        let receives = (unread > 0).then(|| {
            format!("flow `{flow}`: {unread} of {handed} datagrams that links delivered to node `{node}` did not reach their socket")
        });
        sends.into_iter().chain(receives)
    }
}

#[cfg(test)]
mod tests;
