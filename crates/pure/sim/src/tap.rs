//! Captures of packets as they pass the interfaces of a node.

use netrig_core::{Direction, Frame, Heading, Instant, Sink};
use netrig_experiment::{Hop, Route, Scenario};
use netrig_transport::Packet;

/// Passes each packet at an interface of a captured node to the sink.
///
/// An outbound packet is captured when it is offered to the link, before the link's queue decides about it. An inbound
/// packet is captured when the link delivers it. A router forwards a packet without delay.
pub(crate) struct Tap {
    /// For each node, whether the sink wants its frames.
    wanted: Vec<bool>,
    /// For each link, the nodes at its two ends.
    ends: Vec<[usize; 2]>,
    /// For each stop of the network, its link. `None` if the stop is not a link.
    links: Vec<Option<TappedLink>>,
    /// A buffer for the bytes of a packet.
    bytes: Vec<u8>,
}

/// A link, seen in the direction of travel.
#[derive(Clone, Copy)]
struct TappedLink {
    link: u32,
    /// The sending and the receiving node.
    near: u32,
    far: u32,
}

impl Tap {
    /// A tap for the nodes whose frames `sink` wants; `None` if it wants none.
    pub fn new(scenario: &Scenario, sink: &dyn Sink) -> Option<Box<Self>> {
        let nodes = scenario.nodes.len() as u32;
        let wanted: Vec<bool> = (0..nodes).map(|node| sink.wants_frames(node)).collect();
        if !wanted.contains(&true) {
            return None;
        }
        let ends = scenario.links.iter().map(|link| link.ends).collect();
        Some(Box::new(Self { wanted, ends, links: Vec::new(), bytes: Vec::new() }))
    }

    /// Records the links of a way that was added to the network: along `route`, or in reverse if `back` is true.
    /// `stops` is the number of the network's stops after the addition.
    pub fn add_way(&mut self, route: &Route, back: bool, stops: usize) {
        let link = |hop: &Hop| {
            let [first, second] = self.ends[hop.link].map(|node| node as u32);
            let forward = (hop.direction == Direction::Forward) != back;
            let (near, far) = if forward { (first, second) } else { (second, first) };
            Some(TappedLink { link: hop.link as u32, near, far })
        };
        let mut links: Vec<_> = route.hops.iter().map(link).collect();
        if back {
            links.reverse();
        }
        self.links.extend(links);
        self.links.resize(stops, None);
    }

    /// Whether the node at the far end of the link at `stop` is captured.
    pub fn is_behind(&self, stop: usize) -> bool {
        self.links[stop].is_some_and(|link| self.wanted[link.far as usize])
    }

    /// Captures a packet that passes the interface at the near end (outbound) or the far end (inbound) of the link at `stop`.
    #[cold]
    pub fn show(&mut self, at: Instant, stop: u32, heading: Heading, packet: &Packet, sink: &mut dyn Sink) {
        let Some(TappedLink { link, near, far }) = self.links[stop as usize] else { return };
        let node = if heading == Heading::Outbound { near } else { far };
        if !self.wanted[node as usize] {
            return;
        }
        self.bytes.clear();
        let original_len = packet.encode(&mut self.bytes);
        sink.frame(&Frame { at, node, link, heading, bytes: &self.bytes, original_len });
    }
}
