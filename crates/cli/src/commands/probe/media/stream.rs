//! The common part of the transfer, voice and video probes: the far end, and the faults of a stream.

use netrig_core::Duration;
use netrig_probe::control::PORT;
use netrig_probe::receiver::Remote;
use netrig_probe::{DelayBasis, MediaStreamReport};
use serde_json::{Value, json};

use super::super::ending::failure;
use super::super::key;
use super::super::path_arguments::{KeyPlace, Target};
use super::super::target::resolve;
use crate::failure::Failure;

/// Connects to the receiver of the target.
pub fn connect(target: &Target, place: &KeyPlace) -> Result<Remote, Failure> {
    Remote::connect(resolve(target, PORT)?, key::read(place)?.as_ref()).map_err(failure)
}

/// The tester's own fault in a stream: a full socket at either end, a stepped clock, or packets that left later than
/// `bearable`.
pub fn fault(stream: &MediaStreamReport, bearable: Duration) -> Option<String> {
    if stream.no_room > 0 {
        let packets = stream.no_room;
        return Some(format!(
            "the sending socket had no room for {packets} packets: they never left this host"
        ));
    }
    if stream.dropped > 0 {
        return Some(format!(
            "the receiving socket had no room for {} packets that had reached its host",
            stream.dropped
        ));
    }
    if let Some(step) = stream.stepped {
        return Some(format!("the wall clock of the far end was stepped by {} s", step.as_secs_f64()));
    }
    let late = || {
        format!(
            "packets left up to {:.1} ms late: this machine is too busy",
            stream.latest.as_secs_f64() * 1e3
        )
    };
    (stream.latest > bearable).then(late)
}

/// The clocks by which delays were measured, in words.
pub fn measured_by(delay: DelayBasis) -> String {
    match delay {
        DelayBasis::OneClock => "one clock at both ends".to_owned(),
        DelayBasis::Assumed { within_s } => format!(
            "two clocks: the shortest delay is taken as half of the round trip, so all have the same error of at most {:.1} ms",
            within_s * 1e3
        ),
    }
}

pub fn delay_json(delay: DelayBasis) -> Value {
    match delay {
        DelayBasis::OneClock => json!({ "clock": "one", "error_s": 0.0 }),
        DelayBasis::Assumed { within_s } => json!({ "clock": "assumed", "error_s": within_s }),
    }
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use netrig_probe::icmp_error::IcmpErrors;

    use super::*;

    const BEARABLE: Duration = Duration::from_millis(20);

    fn stream() -> MediaStreamReport {
        MediaStreamReport {
            sent: 2,
            no_room: 0,
            arrivals: Vec::new(),
            delay: DelayBasis::OneClock,
            latest: BEARABLE,
            dropped: 0,
            icmp_errors: IcmpErrors::default(),
            stepped: None,
        }
    }

    /// Only faults of the tester's hosts make a stream invalid; loss on the path is a result.
    #[test]
    fn what_the_tester_did_makes_a_stream_invalid() {
        assert_eq!(fault(&stream(), BEARABLE), None);
        let late = BEARABLE + Duration::from_nanos(1);
        for (stream, says) in [
            (MediaStreamReport { no_room: 1, ..stream() }, "the sending socket had no room for 1 packets"),
            (MediaStreamReport { dropped: 3, ..stream() }, "the receiving socket had no room for 3 packets"),
            (
                MediaStreamReport { stepped: Some(Duration::from_millis(1500)), ..stream() },
                "was stepped by 1.5 s",
            ),
            (MediaStreamReport { latest: late, ..stream() }, "packets left up to 20.0 ms late"),
        ] {
            let sentence = fault(&stream, BEARABLE).expect(says);
            assert!(sentence.contains(says), "{sentence}");
        }
    }
}
