//! What a capture sees: packets as they pass the interfaces of a node.

use netrig_core::{Frame, Heading, Instant, Sink};
use netrig_experiment::Scenario;
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
    /// The bytes of the packet that is shown.
    bytes: Vec<u8>,
}

impl Tap {
    /// A tap at the nodes whose frames `sink` wants; `None` if it wants none.
    pub fn new(scenario: &Scenario, sink: &dyn Sink) -> Option<Box<Self>> {
        let wanted: Vec<bool> =
            (0..scenario.nodes.len() as u32).map(|node| sink.wants_frames(node)).collect();
        let ends = scenario.links.iter().map(|link| link.ends).collect();
        wanted.contains(&true).then(|| Box::new(Self { wanted, ends, bytes: Vec::new() }))
    }

    /// A packet passes the interface to `wire` of the node at its near end (outbound) or far end (inbound).
    #[cold]
    pub fn show(&mut self, at: Instant, wire: u32, heading: Heading, packet: &Packet, sink: &mut dyn Sink) {
        let (link, backward) = (wire / 2, wire % 2 == 1);
        // The near end of the wire back is the link's second.
        let node = self.ends[link as usize][usize::from(backward == (heading == Heading::Outbound))];
        if !self.wanted[node] {
            return;
        }
        self.bytes.clear();
        let original_len = packet.encode(&mut self.bytes);
        sink.frame(&Frame { at, node: node as u32, link, heading, bytes: &self.bytes, original_len });
    }
}
