//! Who is woken by the agenda.

/// Who is to be woken. The numbers are places in the world's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A wire, a channel or a host may have something to deliver.
    Network(PacketHolder),
    /// A line with a closed form has something to deliver.
    FifoLine(u32),
    /// The packets of a merge are offered to its target.
    Merge(u32),
    /// A connection's timer.
    Timer(u32),
    /// A user that does not read at once reads from a connection, which has this timer.
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

/// What holds packets until their moment has come, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketHolder {
    /// One direction of a line.
    Wire(u32),
    /// The air of a channel.
    Air(u32),
    /// A host that takes time to receive.
    Host(u32),
    /// The cables.
    Cables,
}

/// An end of a flow, by its place in the world's list: two for each flow, the client's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndId(u32);

impl EndId {
    /// The end of this flow on this side.
    pub const fn of(flow: u32, side: FlowSide) -> Self {
        Self(2 * flow + side as u32)
    }

    /// Its place among all ends.
    pub const fn place(self) -> usize {
        self.0 as usize
    }

    /// The place of its flow among all flows.
    pub const fn flow(self) -> usize {
        self.0 as usize / 2
    }
}

/// Which end of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowSide {
    /// The flow's `from`.
    Client,
    /// The flow's `to`.
    Server,
}
