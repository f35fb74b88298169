//! The Real-time Transport Protocol for video: packets (RFC 3550), and H.264 in them (RFC 6184).
//!
//! It has no sockets and no clock. Input from the network is not trusted: no input causes a panic, and the memory for
//! input is limited to one picture.

mod h264;
mod packet;

pub use h264::{AccessUnit, Assembler, LARGEST_UNIT, NalUnits, Packetizer, access_units};
pub use packet::{Packet, PacketError, SequenceExtender};
