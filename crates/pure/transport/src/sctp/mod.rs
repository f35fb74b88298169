//! SCTP (RFC 9260): an association without I/O, and its packets as structures and as bytes.
//!
//! * [`Association`] is the endpoint: multi-homed, with streams, and with the congestion control and failure
//!   detection that a [`Config`] describes constant by constant.
//! * [`Listener`] is the passive end before there is an association. It keeps no state.
//! * [`Packet`] and [`packet`] are what travels; [`wire`] writes and reads it as bytes.
//!
//! Read RFC 9260 beside it: its section numbers stand where they are obeyed.

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
