//! SCTP packets as structures (RFC 9260 section 3).
//!
//! The simulator sends these structures. [`wire`](super::wire) encodes and decodes them. There is one file for each
//! family: chunks ([`chunk`]), their parameters ([`Parameter`]), and error causes ([`Cause`]).

mod cause;
pub mod chunk;
mod parameter;
pub(super) mod tlv;

pub use cause::Cause;
pub use chunk::Chunk;
pub use parameter::Parameter;
pub use tlv::UnknownAction;

use smallvec::SmallVec;

/// Length of the common header, bytes (RFC 9260 section 3.1).
pub const COMMON_HEADER: u32 = 12;

/// The chunks of a packet. If there are only one or two, which is usual, no memory is allocated.
pub type Chunks = SmallVec<[Chunk; 2]>;

/// An SCTP packet: common header and chunks (RFC 9260 section 3). The checksum exists only in the encoded packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// The verification tag, which identifies the association at the receiver.
    pub verification_tag: u32,
    /// The chunks, control before data.
    pub chunks: Chunks,
}

impl Packet {
    /// Whether it contains a DATA chunk.
    pub fn carries_data(&self) -> bool {
        self.chunks.iter().any(|chunk| matches!(chunk, Chunk::Data(_)))
    }

    /// Length on the wire without the IP header, bytes: common header, chunks and padding.
    pub fn wire_len(&self) -> u32 {
        COMMON_HEADER + self.chunks.iter().map(Chunk::padded_len).sum::<u32>()
    }
}
