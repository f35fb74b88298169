//! Probes of a path: they send packets by a known schedule and report which of them arrived, and when.
//!
//! | probe | far end | measures |
//! |---|---|---|
//! | [`ping`] | any host | round trip and two-way loss, by ICMP (RFC 2681, RFC 6673) |
//! | [`trace`](trace::trace) | any host | the routers of the path, and the rates of its links |
//! | [`path_mtu`](path_mtu::path_mtu) | any host, or [`FarEnd`] | the path MTU (RFC 8899), and the sizes of TCP segments |
//! | [`train`](train::train) | any host | round-trip times by packet size, and their slope |
//! | [`web`](web::web) | any HTTP server | the throughput of one object |
//! | [`stamp`] | any STAMP or TWAMP Light reflector | round trip and loss, also per direction (RFC 8762, RFC 8972) |
//! | [`transfer`] | [`FarEnd`], or any FTP server | TCP throughput (RFC 6349), files by FTP |
//! | [`voice`], [`video`] | [`FarEnd`] | calls and video over RTP |
//! | [`one_way`] | [`FarEnd`] | one-way delay, loss, delay variation and reordering of one direction (RFC 7679, RFC 7680, RFC 3393, RFC 3357, RFC 4737) |
//!
//! Every probe sends by an absolute schedule and uses the kernel's time stamps where they exist. If this host, not the
//! path, limited the measurement, the report says so. Packets go only to addresses that the user named.
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
pub mod greeting;
pub mod icmp;
pub mod icmp_error;
mod keyring;
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
mod text;
pub mod trace;
pub mod train;
pub mod transfer;
mod two_way;
pub mod video;
pub mod voice;
pub mod web;

pub use control::StreamDirection;
pub use error::{ProbeError, ProbeResult};
pub use far_end::{FarEnd, FarEndOrder, FarEndSettings, FarEndTally, LONGEST_STREAM, MOST_PROBES};
pub use keyring::{Keyring, KeyringError};
pub use media_stream::{DelayBasis, MediaDatagram, MediaStreamReport};
pub use offset::ClockOffset;
pub use one_way::{OneWayMetric, OneWayOrder, OneWaySettings, one_way};
pub use ping::{PingOrder, PingSettings, ping};
pub use report::{Measure, ProbeReport, Punctuality, Section, Stamps};
pub use schedule::{Gaps, GapsKind, Schedule};
pub use stamp_sender::{StampOrder, StampSettings, stamp};
pub use two_way::{MOST_PACKETS, PacketSettings, ProbePlan};

/// Seconds from one time to a later one. Both are in nanoseconds and may come from different clocks. The result is
/// negative if `later` is earlier than `earlier`.
fn seconds_between(earlier: u64, later: u64) -> f64 {
    later.wrapping_sub(earlier).cast_signed() as f64 * 1e-9
}

// The tests of the public interface are compiled into the same test binary as the unit tests.
#[cfg(test)]
extern crate self as netrig_probe;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
