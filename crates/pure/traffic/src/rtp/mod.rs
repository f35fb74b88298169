//! The Real-time Transport Protocol as video needs it: packets (RFC 3550), and H.264 in them (RFC 6184).
//!
//! Bytes in, bytes out: no sockets, no clock. What comes from a network is taken apart without trust; nothing here panics
//! on any input, nor keeps more of it than a picture may have.

mod h264;
mod packet;

pub use h264::{AccessUnit, Assembler, LARGEST_UNIT, NalUnits, Packetizer, access_units};
pub use packet::{Packet, PacketError, SequenceExtender};
