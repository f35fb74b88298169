//! The vocabulary that every part of netrig shares: time, units, packets, random streams, samples, and
//! the contracts of models, endpoints and substrates.
//!
//! It never does I/O and never reads a clock. It draws random numbers only from named streams.
//!
//! Start from [`Instant`] (time), [`Header`] (a packet as links see it), [`Seeds`] (the source of random
//! numbers) and the contracts [`Link`], [`QueueDiscipline`] and [`Endpoint`].
//!
//! Three rules hold for everything built on this crate:
//!
//! * **Time is an argument.** A function that needs the time takes `now`. For one object, `now` never decreases.
//!   Everything that happens in a call happens at its `now`.
//! * **One mutation, then drain.** After any call that changes an [`Endpoint`], take all its packets and events before
//!   the next call, as [`drain`] does. A deadline from before the call is stale.
//! * **Random streams have names.** The same seed and the same name give the same numbers on any machine
//!   ([`Seeds::stream`]). So two runs, two protocols and two substrates can have the same losses.
#![forbid(unsafe_code)]

pub mod capture;
mod checksum;
mod counts;
mod data;
mod distribution;
mod dscp;
mod endpoint;
mod flow_meter;
mod frame;
mod histogram;
mod ip;
mod link;
mod named;
pub mod number;
mod packed_bytes;
mod packet;
mod packet_event;
pub mod pcapng;
mod prefix;
pub mod prometheus;
pub mod quantity;
mod random;
mod sample;
pub mod setting;
mod settings_error;
pub mod text;
mod time;
pub mod units;
pub mod written;
pub mod xml;

pub use checksum::{fnv1a, internet_checksum};
pub use data::{CloseReason, ConnectionEvent, Data, DatagramId, StreamId};
pub use distribution::{DistributionError, ParseDistributionError, SpanDistribution};
pub use dscp::{Colour, DscpError};
pub use endpoint::{Endpoint, EndpointOutput, drain};
pub use flow_meter::FlowMeter;
pub use frame::{Frame, Heading};
pub use histogram::Histogram;
pub use ip::{IpHeader, is_of_a_link};
pub use link::{
    Backlog, Delivery, Dequeue, Direction, DropReason, InFlight, Lane, Link, LinkEvent, LinkObserver,
    Observer, QueueDiscipline, Waiting,
};
pub use packed_bytes::PackedBytes;
pub use packet::{CLIENT_PORT, Dscp, Ecn, FiveTuple, HOP_LIMIT, Header, PacketMeta, protocol};
pub use packet_event::{PacketEvent, Step};
pub use prefix::{Prefix, PrefixError};
pub use random::{Seeds, Stream};
pub use sample::{CountRatio, Note, Quantity, QuantityKind, Sample, Sink, Subject, Timeline};
pub use settings_error::SettingsError;
pub use time::{Duration, Instant};
pub use units::{Fraction, Rate, Size, UnitError};
