//! The line model: one direction of a line is a queue discipline, a rate with framing, a delay and impairments. The model of
//! WiFi is a medium that stations share, with a lane for each pair of stations and each direction ([`wifi`]).
//!
//! A line sees only the headers of packets ([`PacketMeta`](netrig_core::PacketMeta)), and its caller passes the time.
//! So a simulator in virtual time and a router in real time use the same line. A line does no I/O, reads no clock, and
//! draws random numbers only from named streams.
//!
//! Start from [`Line`] (or [`wifi::Medium`]). It is made from [`LineSettings`], which an experiment file describes.
//! [`LineCounters`] observes a line and checks the balance of its packets. A [`Wire`] is a line with all its observers.
//! Each queue discipline is one file under `queue/`.
//!
//! ```
//! use netrig_core::{Delivery, Duration, Instant, Lane, Link, Seeds};
//! # use netrig_core::{Dscp, Ecn, FiveTuple, Header};
//! use netrig_link::queue::fifo::Fifo;
//! use netrig_link::{LineCounters, Line, LineSettings, Queue};
//!
//! let queue = Queue::Fifo(Fifo { packets: Some(50), ..Fifo::default() });
//! let settings = LineSettings::new("8 Mbit/s".parse()?, "20 ms".parse()?, queue);
//! let mut line = Line::new(&settings, &Seeds::new(1), "primary/forward")?;
//! let mut counters = LineCounters::new();
//! # let address = [10, 0, 0, 1].into();
//! # let flow = FiveTuple { src: address, dst: address, src_port: 1, dst_port: 2, protocol: 17 };
//! # let packet = Header { flow, ip_len: 1000, dscp: Dscp(0), ecn: Ecn::NotEct };
//!
//! line.offer(Instant::ZERO, Lane::ONLY, packet, &mut counters);
//! // 1000 B take 1 ms, and 20 ms more to the far end.
//! let arrival = Instant::ZERO + Duration::from_millis(21);
//! assert_eq!(line.poll_timeout(), Some(arrival));
//! assert_eq!(line.poll_deliver(arrival, &mut counters), Some(Delivery { at: arrival, lane: Lane::ONLY, packet }));
//! assert_eq!(counters.balance(line.inside(Lane::ONLY)), Ok(()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod access;
pub mod conditioning;
mod counters;
mod direct;
mod error;
mod fifo_line;
mod flight;
mod framing;
mod impairments;
mod line;
mod loss;
mod pace;
mod prospect;
pub mod queue;
mod service;
mod settings;
pub mod wifi;
pub mod wire;

pub use access::{AccessConstant, Preset, asymmetry};
pub use conditioning::{Condition, Shortfall};
pub use counters::{Imbalance, LineCounters, PacketTally};
pub use direct::{DirectKind, DirectSettings};
pub use fifo_line::{FifoDelivery, FifoLine, FifoReading};
pub use framing::Framing;
pub use impairments::{Corruption, Jitter, Pareto, Reorder, Shift, Spread};
pub use line::Line;
pub use loss::{Bernoulli, Bursts, GilbertElliott, Loss, Periodic};
pub use netrig_core::SettingsError;
pub use prospect::{Prospect, ShallowBucket};
pub use queue::{Class, Discipline, Egress, Queue};
pub use service::Service;
pub use settings::{LineSettings, LinkSettings, Outage};
pub use wifi::{Medium, WifiSettings};
pub use wire::{Wire, WireId, WireMeters};
