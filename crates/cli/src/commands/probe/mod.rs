//! `netrig probe`.

mod arguments;
mod common;
mod media;
mod paths;
mod reflect;

use std::process::ExitCode;

use netrig_probe::OneWayMetric;

use crate::failure::Failure;

use arguments::Kind;
pub use arguments::Probe;
pub use common::{IpVersionFlags, KeyPlace, TARGET_HELP, Target};

/// Runs a probe, or serves as the far end.
pub fn probe(arguments: &Probe) -> Result<ExitCode, Failure> {
    match &arguments.kind {
        Kind::Owd(arguments) => paths::one_way(arguments, OneWayMetric::Delay),
        Kind::Loss(arguments) => paths::one_way(arguments, OneWayMetric::Loss),
        Kind::Ping(arguments) => paths::ping(arguments),
        Kind::Trace(arguments) => paths::trace(arguments),
        Kind::Mtu(arguments) => paths::mtu(arguments),
        Kind::Train(arguments) => paths::train(arguments),
        Kind::Web(arguments) => paths::web(arguments),
        Kind::Stamp(arguments) => paths::stamp(arguments),
        Kind::Transfer(arguments) => media::transfer(arguments),
        Kind::Voice(arguments) => media::voice(arguments),
        Kind::Video(arguments) => media::video(arguments),
        Kind::Reflect(arguments) => reflect::reflect(arguments),
    }
}
