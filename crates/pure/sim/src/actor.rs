//! The actors that the agenda wakes.

use netrig_traffic::FlowSide;

/// The recipient of an event of the agenda. The numbers are indices into the tables of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A wire, a WiFi channel, a receiving host or the cables may have a packet to deliver.
    Network(PacketHolder),
    /// A line with a closed form (`FifoLine`) has a packet to deliver.
    FifoLine(u32),
    /// The packets of a merge are offered to its target.
    Merge(u32),
    /// The timer of a connection expires.
    Timer(u32),
    /// An application with a limited reading rate reads from the connection with this timer.
    Reader(u32),
    /// The timer of the application at one end of a flow expires.
    Application(EndId),
    /// A flow starts.
    FlowStarts(u32),
    /// A flow stops.
    FlowStops(u32),
    /// The next event of the scenario.
    Event(u32),
    /// A sampling interval ends.
    Tick,
}

/// A part of the network that holds packets until they are due. The number is its index among the parts of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketHolder {
    /// One direction of a line.
    Wire(u32),
    /// A WiFi channel.
    Air(u32),
    /// A host with a receive service time for each packet.
    Host(u32),
    /// The cables.
    Cables,
}

/// An end of a flow, by its index in the list of ends: two for each flow, the client's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId(u32);

impl EndId {
    pub const fn of(flow: u32, side: FlowSide) -> Self {
        Self(2 * flow + side as u32)
    }

    /// Its index among all ends.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The index of its flow.
    pub const fn flow(self) -> usize {
        self.0 as usize / 2
    }
}
