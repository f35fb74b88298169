//! The packets on simulated links.

use netrig_core::{Header, PacketMeta};
use netrig_link::wire::NumberedPacket;
use netrig_transport::Packet;

/// A packet in the network. It is a pointer, because queues and lines move it several times per hop.
#[derive(Clone, Debug)]
pub(crate) struct Parcel(pub Box<Carriage>);

/// A packet and its position on its way through the network. It takes whole cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Carriage {
    pub packet: Packet,
    /// The number of its connection, equal at both ends. `None` for a datagram.
    pub conn: Option<u32>,
    /// Its sequence number among all packets that hosts send in the run, from 1.
    pub number: u32,
    /// Its current or next stop: an index into the network's list of stops. A line with a closed form keeps the index
    /// in its own record instead.
    pub stop: u32,
}

impl Carriage {
    /// Memory of a carriage, including the allocator's overhead, bytes.
    pub const BYTES: usize = size_of::<Self>() + 16;

    /// A carriage with an empty packet.
    pub fn vacant() -> Box<Self> {
        Box::new(Self { packet: Packet::empty(), conn: None, number: 0, stop: 0 })
    }
}

impl PacketMeta for Parcel {
    #[inline]
    fn header(&self) -> &Header {
        &self.0.packet.header
    }
    #[inline]
    fn header_mut(&mut self) -> &mut Header {
        &mut self.0.packet.header
    }
}

impl NumberedPacket for Parcel {
    #[inline]
    fn number(&self) -> u32 {
        self.0.number
    }
}
