//! What travels over simulated lines.

use netrig_core::{Header, PacketMeta};
use netrig_link::wire::NumberedPacket;
use netrig_transport::Packet;

/// A packet on its way. It is a pointer, for queues and lines move it several times per hop.
#[derive(Clone, Debug)]
pub(crate) struct Parcel(pub Box<Carriage>);

/// A packet, and where it is on its way. It takes whole cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Carriage {
    pub packet: Packet,
    /// The connection it belongs to, by the number that both ends know it by; `None` for a datagram.
    pub conn: Option<u32>,
    /// How many packets hosts had sent in the run when this one was sent, itself included.
    pub number: u32,
    /// Where it is, or goes next: a place in the network's list of stops. A line with a closed form notes it by itself.
    pub stop: u32,
}

impl Carriage {
    /// Memory that one takes with what the allocator adds, bytes.
    pub const BYTES: usize = size_of::<Self>() + 16;

    /// Room for a packet.
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
