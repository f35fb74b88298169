//! TCP (RFC 9293) with several congestion controls and loss recoveries.
//!
//! Start from [`Connection`]: one end of one connection, without I/O. It sends [`Segment`]s. [`Config`] contains its
//! constants and named behaviours. The module opens no socket, reads no clock and draws no random number.
//!
//! A host creates a [`Connection`] with [`Connection::connect`] for an active open, and with [`Connection::accept`] for
//! each SYN to a listener. It replies with [`refuse`] to packets that belong to no connection. It drops a connection
//! when [`Connection::is_over`] returns true.
//!
//! Inside, positions in the stream are 64-bit offsets: 0 is the SYN, and data begins at 1. Only segments have 32-bit
//! sequence numbers. `sender` is the sending half, with `congestion` (how much may be sent) and `recovery` (which data
//! was lost). `receiver` is the receiving half: reassembly and acknowledgements. `connection` and `arrival` connect the
//! two halves.

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
