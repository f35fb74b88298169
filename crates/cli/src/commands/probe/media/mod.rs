//! Probes of a path by what its users do with it: `netrig probe transfer`, `voice` and `video`.

pub mod arguments;
mod transfer;
mod video;
mod voice;

use netrig_agent::probe::control::PORT;
use netrig_agent::probe::receiver::Remote;
use netrig_agent::probe::{Delay, ProbeFailure, Stream};
use netrig_core::Duration;
use serde_json::{Value, json};

use super::arguments::{KeyPlace, Target};
use super::key;
use super::target::resolve;
use crate::failure::Failure;

pub use transfer::transfer;
pub use video::video;
pub use voice::voice;

/// A probe that could not measure: the request's fault, or not.
fn failure(error: ProbeFailure) -> Failure {
    match error {
        ProbeFailure::Clip(_) => Failure::request(error),
        other => Failure::failed(other),
    }
}

/// The receiver that was named.
fn connect(target: &Target, place: &KeyPlace) -> Result<Remote, Failure> {
    Remote::connect(resolve(target, PORT)?, key::read(place)?.as_ref()).map_err(failure)
}

/// What of a stream is the tester's own fault: what left later than `bearable`, and what the far socket had no room for.
fn fault(stream: &Stream, bearable: Duration) -> Option<String> {
    if stream.dropped > 0 {
        return Some(format!(
            "the receiving socket had no room for {} packets that had reached its host",
            stream.dropped
        ));
    }
    let late = || {
        format!(
            "packets left up to {:.1} ms late: this machine is too busy",
            stream.latest.as_secs_f64() * 1e3
        )
    };
    (stream.latest > bearable).then(late)
}

/// What delays are measured by, in words.
fn measured_by(delay: Delay) -> String {
    match delay {
        Delay::OneClock => "one clock at both ends".to_owned(),
        Delay::Assumed { within_s } => format!(
            "two clocks: the shortest is taken for half of the round trip, so all are wrong by the same {:.1} ms at most",
            within_s * 1e3
        ),
    }
}

fn delay_json(delay: Delay) -> Value {
    match delay {
        Delay::OneClock => json!({ "clock": "one", "error_s": 0.0 }),
        Delay::Assumed { within_s } => json!({ "clock": "assumed", "error_s": within_s }),
    }
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}
