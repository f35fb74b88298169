//! TCP (RFC 9293) with several congestion controls and loss recoveries.
//!
//! Start from [`Connection`]: one end of one connection, without I/O. [`Config`] holds its constants and
//! named behaviours; it sends [`Segment`]s. It opens no socket, reads no clock and draws no random number.
//!
//! A host creates a [`Connection`] by [`Connection::connect`] for an active open, and by [`Connection::accept`] for
//! each SYN to a listener. It answers packets of no connection with [`refuse`], and drops a connection when
//! [`Connection::is_over`].
//!
//! Inside, the stream is counted in 64-bit offsets (0 is the SYN, data begins at 1); only segments have 32-bit sequence
//! numbers. `sender` is the sending half, with `congestion` (how much may be sent) and `recovery` (what was lost).
//! `receiver` is the receiving half: reassembly and acknowledgements. `connection` and `arrival` join the halves.

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
