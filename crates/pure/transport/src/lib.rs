//! Transport endpoints without I/O: TCP and SCTP as state machines. The caller passes the time and received packets,
//! and takes the packets to send.
//!
//! An endpoint never opens a socket or reads a clock, and draws random numbers only from named streams. The same
//! endpoint runs in the simulator and, if its packets have a decoder (SCTP), against a real peer.
//!
//! Start from [`Connection`], the contract that [`tcp::Connection`] and [`sctp::Association`] implement, and from
//! [`Profile`], which selects the value of every constant of an endpoint. Each constant cites its source and can also
//! be set separately.
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
pub use netrig_core::SettingsError;
pub use packet::{Datagram, Packet, Payload};
pub use profile::{Constant, Profile};
pub use reporting::{CounterReader, ReportingEnds};
pub use rto::{RtoEstimator, RtoFloor, RtoRules};
pub use serial::Serial;
pub use timer_wheel::TimerWheel;
