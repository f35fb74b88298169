//! Probes of a path: packets of a known schedule, and what became of them.
//!
//! | probe | far end | measures |
//! |---|---|---|
//! | [`ping`] | any host | round trip and two-way loss, by ICMP (RFC 2681, RFC 6673) |
//! | [`trace`](trace::trace) | any host | the hosts on the way, and the speed of the links between them |
//! | [`path_mtu`](path_mtu::path_mtu) | any host, or [`FarEnd`] | how long packets may be (RFC 8899), and TCP's segments |
//! | [`train`](train::train) | any host | round trips by size, and their slope |
//! | [`web`](web::web) | any HTTP server | bytes over seconds of an object |
//! | [`stamp`] | a STAMP or TWAMP Light reflector of anybody | the same, and both directions (RFC 8762, RFC 8972) |
//! | [`transfer`] | [`FarEnd`], or any FTP server | TCP throughput (RFC 6349), files by FTP |
//! | [`voice`], [`video`] | [`FarEnd`] | calls and video over RTP |
//! | [`one_way`] | [`FarEnd`] | one-way delay, loss, delay variation and order of one direction (RFC 7679, RFC 7680, RFC 3393, RFC 3357, RFC 4737) |
//!
//! Every probe sends by an absolute schedule, takes the kernel's stamps where it gives them, and says of itself when this
//! host, not the path, was the limit. Nothing is sent to an address that was not named by who asked.
//!
//! Start from [`StampOrder`], [`PingOrder`] or [`OneWayOrder`]; each gives a [`ProbeReport`].
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a probe needs the clocks and sockets of the kernel"
)]

pub mod control;
mod error;
mod far_end;
pub mod flow;
pub mod icmp;
pub mod icmp_error;
mod media_stream;
mod offset;
mod one_way;
mod pacing;
pub mod path_mtu;
mod path_sections;
mod ping;
mod rate_limit;
pub mod receiver;
mod report;
mod schedule;
pub mod segments;
mod socket;
pub mod stamp;
mod stamp_sender;
mod stream;
mod stream_packet;
pub mod trace;
pub mod train;
pub mod transfer;
mod two_way;
pub mod video;
pub mod voice;
pub mod web;
mod wire;

pub use control::StreamDirection;
pub use error::ProbeError;
pub use far_end::{FarEnd, FarEndOrder, FarEndTally, LONGEST_STREAM, MOST_PROBES};
pub use media_stream::{DelayBasis, MediaDatagram, MediaStreamReport};
pub use offset::ClockOffset;
pub use one_way::{OneWayMetric, OneWayOrder, one_way};
pub use ping::{PingOrder, ping};
pub use report::{Measure, ProbeReport, Punctuality, Section, Stamps};
pub use schedule::{Gaps, Schedule};
pub use stamp_sender::{StampOrder, stamp};
pub use two_way::{MOST_PACKETS, ProbePlan};

/// From one time to a later one, both in nanoseconds of clocks that may differ: seconds, negative if the second is earlier.
fn seconds_between(earlier: u64, later: u64) -> f64 {
    later.wrapping_sub(earlier).cast_signed() as f64 * 1e-9
}
