//! Bulk transfer over open sockets: the sending and receiving ends of a throughput test.
//!
//! The caller opens the connections with its own protocol. The data consists of zeros, and the receiver discards it. At
//! a given interval, a [`Reading`] reports the bytes transferred and the kernel's state of each connection.
//!
//! The caller decides how long the transfer lasts and interprets the readings. [`TransferEnds`] judges whether an end
//! was the limit.
//!
//! Start from [`RunningTransfer`]. Each of its parts has a thread that runs [`Streams`], [`Associations`], a
//! [`DatagramSource`] or a [`DatagramSink`].
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an engine that carries data over the sockets of the kernel needs its clocks, sockets and threads"
)]

mod arrival_clock;
mod associations;
mod bucket;
mod connections;
mod datagrams;
mod effort;
mod host;
mod layers;
mod limit;
mod losses;
mod radio;
mod report;
pub mod sctp_socket;
mod stamped;
mod streams;
pub mod tcp_connection;
mod transfer;

pub use associations::{AssociationOrder, Associations};
pub use bucket::Bucket;
pub use connections::{ConnectionCounts, ConnectionSummary};
pub use datagrams::{
    DatagramSink, DatagramSource, RelativeDelays, SinkReading, SourceOrder, SourceReading, Spacing, Throttle,
    datagram_socket, disable_gro, shared_datagram_socket,
};
pub use effort::Effort;
pub use host::{HostCounters, HostReport, ProcessorShare};
pub use layers::{Layers, PacketShape};
pub use limit::{LimitingFactor, MeasuredHost, PathDelays, TransferEnds};
pub use losses::{LossPeriods, NOTICEABLE};
pub use radio::{Radio, RadioReport};
pub use report::{Datagrams, EndReport};
pub use stamped::{StampedDatagram, StampedSocket};
pub use streams::{
    ByteBudget, Reading, StreamCounts, StreamOrder, Streams, TransferDirection, TransferEnd, connect,
    hold_to, pacing,
};
pub use transfer::{
    PartObserver, PartReading, RunningTransfer, StreamEnding, TransferCounter, TransferOutcome, TransferPart,
};
