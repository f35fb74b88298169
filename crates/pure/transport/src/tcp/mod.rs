//! TCP (RFC 9293) with the congestion controls and loss recoveries of forty years.
//!
//! Start from [`Connection`]: one end of one connection, without I/O. [`Config`] holds its constants and
//! named behaviours, [`Segment`] is what it sends. It opens no socket, asks no clock and draws no random
//! number.
//!
//! A host makes one [`Connection`] by [`Connection::connect`] for each opening and by [`Connection::accept`]
//! for each SYN that reaches a listener, answers packets that belong to none with [`refuse`], and forgets a
//! connection when [`Connection::is_over`].
//!
//! The stream is counted in 64-bit offsets inside (0 is the SYN, data begin at 1); 32-bit sequence numbers
//! appear only on segments. Sending half and receiving half are apart: `sender` with `congestion` (how
//! much may be sent) and `recovery` (what was lost), `receiver` with reassembly and acknowledging.
//! `connection` and `arrival` hold the states between them.

mod arrival;
mod clock;
mod config;
mod config_check;
mod congestion;
mod connection;
mod ranges;
mod receiver;
mod recovery;
mod rtt;
mod segment;
mod send_buffer;
mod sender;
mod state;
mod wire;

pub use config::{
    Avoidance, BackoffSsthresh, Config, CubicGrowth, EcnMode, Framing, Growth, Handshake, HyStart,
    IdleRestart, Limit, LimitedTransmit, Nagle, NewrenoTimer, OptionBytes, Recovery, RtoArithmetic,
    RttSampling, Settings, SsthreshFrom, Unbounded, WindowCounts,
};
pub use congestion::Congestion;
pub use connection::{Connection, refuse};
pub use segment::{Flags, SackBlocks, Segment, Timestamps};
pub use state::TcpState;
