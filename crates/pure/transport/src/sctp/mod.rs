//! SCTP (RFC 9260): an association without I/O, and its packets as structures and as bytes.
//!
//! * [`Association`] is the endpoint, multi-homed and with streams. [`Config`] sets every constant of its congestion
//!   control and failure detection.
//! * [`Listener`] is the passive end before an association exists. It keeps no state.
//! * [`Packet`] and [`packet`] are the packets as structures. [`wire`] encodes and decodes them.
//!
//! Comments name the section of RFC 9260 that the code implements.

mod association;
mod checksum;
mod config;
mod config_check;
mod listener;
pub mod packet;
mod rx;
mod tx;
pub mod wire;

pub use association::{Association, Endpoints, PathAddresses};
pub use checksum::crc32c;
pub use config::{
    ChunkCharge, Config, Counted, CwndUnit, Encapsulation, HeartbeatLoss, IdleCwnd, InitialCwnd,
    InitialCwndRule, InitialSsthresh, InitialSsthreshRule, LocalDrop, RetransmitTo, Scheduler, Settings,
};
pub use config_check::LARGEST_CHUNK;
pub use listener::{Listener, ListenerResponse, out_of_the_blue};
pub use packet::Packet;
