//! `netrig probe`: a file for each probe, and one for the far end of all.

mod arguments;
mod ending;
mod key;
mod media;
mod mtu;
mod one_way;
mod path_arguments;
mod ping;
mod reflect;
mod show;
mod stamp;
mod target;
mod trace;
mod train;
mod typed_train;
mod web;

use std::process::ExitCode;

use netrig_probe::OneWayMetric;

use crate::failure::Failure;

use arguments::Kind;
pub use arguments::Probe;
pub use key::read as read_key;
pub use path_arguments::{KeyPlace, Target};
pub use target::{host, loopback, resolve};

/// Runs a probe, or serves as the far end.
pub fn probe(arguments: &Probe) -> Result<ExitCode, Failure> {
    match &arguments.kind {
        Kind::Owd(arguments) => one_way::one_way(arguments, OneWayMetric::Delay),
        Kind::Loss(arguments) => one_way::one_way(arguments, OneWayMetric::Loss),
        Kind::Ping(arguments) => ping::ping(arguments),
        Kind::Trace(arguments) => trace::trace(arguments),
        Kind::Mtu(arguments) => mtu::mtu(arguments),
        Kind::Train(arguments) => train::train(arguments),
        Kind::Web(arguments) => web::web(arguments),
        Kind::Stamp(arguments) => stamp::stamp(arguments),
        Kind::Transfer(arguments) => media::transfer(arguments),
        Kind::Voice(arguments) => media::voice(arguments),
        Kind::Video(arguments) => media::video(arguments),
        Kind::Reflect(arguments) => reflect::reflect(arguments),
    }
}
