//! Transport endpoints without I/O: TCP and SCTP as state machines that are told the time, take packets
//! and give packets.
//!
//! They never open a socket, never ask a clock and never draw an unnamed random number; the same endpoint
//! runs in the simulator and, where its packets have a wire format (SCTP), against a real peer.
//!
//! Start from [`Connection`], the contract that [`tcp::Connection`] and [`sctp::Association`] share, and
//! from [`Profile`]: every constant of an endpoint is chosen by a profile, cites its source, and can be
//! changed one by one.
#![forbid(unsafe_code)]

mod connection;
mod packet;
mod profile;
mod reporting;
mod rto;
pub mod sctp;
mod serial;
pub mod tcp;
mod timer_wheel;
mod wire;

pub use connection::{Connection, Control, Counters, Incident, PathId, PathState, PathStatus};
pub use packet::{Datagram, Packet, Payload};
pub use profile::{Constant, Profile, SettingsError};
pub use reporting::{CounterReader, ReportingEnds};
pub use rto::{RtoEstimator, RtoFloor, RtoRules};
pub use serial::Serial;
pub use timer_wheel::TimerWheel;
