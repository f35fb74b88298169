//! What a capture sees: packets as they pass the interfaces of a node.

use netrig_core::{Direction, Frame, Heading, Instant, Sink};
use netrig_experiment::{Hop, Route, Scenario};
use netrig_transport::Packet;

/// Shows the packets that pass the interfaces of the nodes whose frames are wanted.
///
/// A packet leaves a node when it is offered to the link, before the link's queue has decided on it, and enters the
/// next when the link delivers it; a router sends on at once what it receives.
pub(crate) struct Tap {
    /// By node.
    wanted: Vec<bool>,
    /// By link: the node at each end.
    ends: Vec<[usize; 2]>,
    /// By the network's stops: the link that a packet passes there; nothing where that is no link.
    passages: Vec<Option<TappedLink>>,
    /// The bytes of the packet that is shown.
    bytes: Vec<u8>,
}

/// A link in the direction of travel.
#[derive(Clone, Copy)]
struct TappedLink {
    link: u32,
    /// The node that sends, and the one that receives.
    near: u32,
    far: u32,
}

impl Tap {
    /// A tap at the nodes whose frames `sink` wants; `None` if it wants none.
    pub fn new(scenario: &Scenario, sink: &dyn Sink) -> Option<Box<Self>> {
        let nodes = scenario.nodes.len() as u32;
        let wanted: Vec<bool> = (0..nodes).map(|node| sink.wants_frames(node)).collect();
        if !wanted.contains(&true) {
            return None;
        }
        let ends = scenario.links.iter().map(|link| link.ends).collect();
        Some(Box::new(Self { wanted, ends, passages: Vec::new(), bytes: Vec::new() }))
    }

    /// The way along `route`, or back along it, was added to the network, which has `stops` now.
    pub fn add_way(&mut self, route: &Route, back: bool, stops: usize) {
        let passage = |hop: &Hop| {
            let [first, second] = self.ends[hop.link].map(|node| node as u32);
            let forward = (hop.direction == Direction::Forward) != back;
            let (near, far) = if forward { (first, second) } else { (second, first) };
            Some(TappedLink { link: hop.link as u32, near, far })
        };
        let mut passages: Vec<_> = route.hops.iter().map(passage).collect();
        if back {
            passages.reverse();
        }
        self.passages.extend(passages);
        self.passages.resize(stops, None);
    }

    /// Whether the frames that pass the node at the far end of the link at `stop` are wanted.
    pub fn is_behind(&self, stop: usize) -> bool {
        self.passages[stop].is_some_and(|passage| self.wanted[passage.far as usize])
    }

    /// A packet passes the interface at the near end (outbound) or the far end (inbound) of the link at `stop`.
    #[cold]
    pub fn show(&mut self, at: Instant, stop: u32, heading: Heading, packet: &Packet, sink: &mut dyn Sink) {
        let Some(TappedLink { link, near, far }) = self.passages[stop as usize] else { return };
        let node = if heading == Heading::Outbound { near } else { far };
        if !self.wanted[node as usize] {
            return;
        }
        self.bytes.clear();
        let original_len = packet.encode(&mut self.bytes);
        sink.frame(&Frame { at, node, link, heading, bytes: &self.bytes, original_len });
    }
}
