//! `netrig probe`: a file for each probe, and one for the far end of all.

mod arguments;
mod key;
mod media;
mod mtu;
mod one_way;
mod ping;
mod reflect;
mod show;
mod stamp;
mod target;
mod trace;
mod train;
mod web;

use std::process::ExitCode;

use netrig_probe::{OneWayMetric, ProbeError, ProbeReport};

use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};

use arguments::{Form, Kind};
pub use arguments::{KeyPlace, Probe, Target};
pub use key::read as read_key;
pub use target::{host, loopback, resolve};

/// Measures a path, or is the far end of who does.
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

/// Prints what was measured; the exit code says whether it can be used.
fn tell(report: &ProbeReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(show::table(report).trim_end())?;
    }
    let is_useless = report.valid && !report.interrupted && !report.is_answered();
    Ok(if is_useless { ExitCode::from(FAILED) } else { exit_code(report.interrupted, report.valid) })
}

/// How a probe ends that has measured something: what can be used, what an end and not the path has made, what somebody
/// ended before its time.
fn exit_code(interrupted: bool, valid: bool) -> ExitCode {
    match (interrupted, valid) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (_, false) => ExitCode::from(TESTER),
        _ => ExitCode::SUCCESS,
    }
}

/// A probe that could not measure: the request's fault, or not.
fn failure(error: ProbeError) -> Failure {
    match error {
        ProbeError::Request(why) => Failure::Request(why),
        ProbeError::Clip(_) => Failure::request(error),
        ProbeError::Interrupted => Failure::Interrupted,
        other => Failure::failed(other),
    }
}
