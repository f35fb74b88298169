//! The actors that the agenda wakes.

use netrig_traffic::FlowSide;

/// The actor to wake. The numbers are indices into the tables of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A wire, a channel or a host may have a packet to deliver.
    Network(PacketHolder),
    /// A line with a closed form has a packet to deliver.
    FifoLine(u32),
    /// The packets of a merge are offered to its target.
    Merge(u32),
    /// A connection's timer.
    Timer(u32),
    /// An application with a limited reading rate reads from the connection with this timer.
    Reader(u32),
    /// The timer of the application at an end of a flow.
    Application(EndId),
    /// A flow starts.
    FlowStarts(u32),
    /// A flow stops.
    FlowStops(u32),
    /// The next event of the scenario.
    Event(u32),
    /// The end of a sampling interval.
    Tick,
}

/// A part of the network that holds packets until they are due, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketHolder {
    /// One direction of a line.
    Wire(u32),
    /// The air of a channel.
    Air(u32),
    /// A host that needs time to receive.
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
