//! Converts the readings of a transfer to the types of the protocol.

use netrig_bulk::SinkReading;
use netrig_core::{Duration, Instant};

use crate::protocol::DatagramCounts;

/// If no datagram arrived for this time before the end of a phase, the path was silent. A shorter silence is the wait
/// for datagrams in flight.
const STRAGGLERS: Duration = Duration::from_millis(200);

/// The counts of received datagrams at a reading. `begun` is the start of the phase, ns of `CLOCK_MONOTONIC`.
pub(super) fn heard_of(taken: &SinkReading, begun: u64) -> DatagramCounts {
    DatagramCounts {
        at_ns: taken.at - begun,
        received: taken.arrivals.received,
        dropped: Some(taken.dropped_before),
        expected: taken.arrivals.expected,
        bytes: taken.bytes,
        last_arrival_ns: taken.last_arrival.since(Instant::ZERO).as_nanos(),
        last_sent_ns: taken.last_sent.since(Instant::ZERO).as_nanos(),
        passage_ns: taken.passage.map(|passage| [passage.least, passage.mean as i64, passage.most]),
        jitter_ns: taken.known_jitter().map(|seconds| (seconds * 1e9).round() as u64),
    }
}

/// The duration of a phase, ns, that began and ended at these times of `CLOCK_MONOTONIC`. For datagrams, `stopped` is
/// the time at which the receiver learned of the end. The message that ends the phase may be lost and then arrives
/// late, but the receiver knows the planned duration `lasts`, which bounds the result.
pub(super) fn lasted([begun, ended]: [u64; 2], stopped: Option<u64>, lasts: u64) -> u64 {
    stopped.map_or(ended.saturating_sub(begun), |stopped| stopped.saturating_sub(begun).min(lasts))
}

/// The readings up to the last datagram. The readings after the last datagram are removed, because the wait for
/// datagrams in flight is not silence of the path. The last remaining reading gets the time of the last arrival. If it
/// covers less than half an interval, it is merged with the reading before. If the silence began well before the end of
/// the phase (`lasted`, ns), the path caused it, and the readings until the end of the phase are kept.
pub(super) fn until_silence(mut heard: Vec<DatagramCounts>, lasted: u64) -> Vec<DatagramCounts> {
    let all = heard.last().map_or(0, |last| last.bytes);
    let Some(at) = heard.iter().position(|reading| reading.bytes == all).filter(|_| all > 0) else {
        return heard;
    };
    if heard[at].last_arrival_ns + STRAGGLERS.as_nanos() < lasted {
        heard.retain(|reading| reading.at_ns <= lasted);
        return heard;
    }
    heard.truncate(at + 1);
    let before = |back: usize| at.checked_sub(back).map_or(0, |place| heard[place].at_ns);
    let (last, before_it) = (before(1), before(2));
    let end = heard[at].last_arrival_ns.clamp((last + 1).min(heard[at].at_ns), heard[at].at_ns);
    heard[at].at_ns = end;
    if at > 0 && (end - last) * 2 < last - before_it {
        let earlier = heard.remove(at - 1);
        let counts = [earlier.received, heard[at - 1].received.saturating_sub(earlier.received)];
        heard[at - 1].passage_ns = both(earlier.passage_ns, heard[at - 1].passage_ns, counts);
    }
    heard
}

/// Minimum, mean and maximum of two sets together. `counts` has the number of values in each set.
fn both(one: Option<[i64; 3]>, other: Option<[i64; 3]>, counts: [u64; 2]) -> Option<[i64; 3]> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    let [a, b] = counts.map(|count| count.max(1) as f64);
    let mean = (one[1] as f64 * a + other[1] as f64 * b) / (a + b);
    Some([one[0].min(other[0]), mean.round() as i64, one[2].max(other[2])])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn heard(at_ms: u64, bytes: u64, last_arrival_ms: u64) -> DatagramCounts {
        DatagramCounts {
            at_ns: at_ms * MS,
            bytes,
            last_arrival_ns: last_arrival_ms * MS,
            ..DatagramCounts::default()
        }
    }

    fn times(heard: &[DatagramCounts]) -> Vec<u64> {
        heard.iter().map(|reading| reading.at_ns / MS).collect()
    }

    /// Datagrams arrive for one second without a pause. The message that ends the phase arrives 600 ms late.
    #[test]
    fn a_word_that_comes_late_makes_a_phase_no_longer() {
        let came = || {
            let reading = |n: u64| heard(n * 100, n.min(10) * 10, (n * 100).min(1003) - 3);
            (1..=16).map(reading).collect()
        };
        let (begun, told) = (7 * MS, 1607 * MS);
        let lasts = lasted([begun, told], Some(told), 1000 * MS);
        assert_eq!(lasts, 1000 * MS);
        let kept = until_silence(came(), lasts);
        assert_eq!((kept.len(), kept.last().map(|last| last.bytes)), (10, Some(100)));
        // An aborted phase ends at the time of the abort.
        assert_eq!(lasted([begun, 507 * MS], Some(507 * MS), 1000 * MS), 500 * MS);
        // Connections carry data until the phase is ended.
        assert_eq!(lasted([begun, told], None, 1000 * MS), 1600 * MS);
    }

    #[test]
    fn what_is_waited_for_behind_the_last_datagram_is_no_time_of_the_phase() {
        let all = |last_ms| {
            let came = [heard(100, 10, 99), heard(200, 20, 199), heard(300, 21, last_ms)];
            came.into_iter().chain([heard(400, 21, last_ms), heard(500, 21, last_ms)]).collect()
        };
        // The last interval ends with the last arrival. If it is too short for a rate, it is merged with the one before it.
        assert_eq!(times(&until_silence(all(260), 250 * MS)), [100, 200, 260]);
        assert_eq!(times(&until_silence(all(205), 200 * MS)), [100, 205]);
        // A silence before the end of the phase is kept.
        assert_eq!(times(&until_silence(all(205), 450 * MS)), [100, 200, 300, 400]);
        let none: Vec<DatagramCounts> = (1..4).map(|n| heard(n * 100, 0, 0)).collect();
        assert_eq!(times(&until_silence(none, 100 * MS)), [100, 200, 300]);
        assert!(until_silence(Vec::new(), 100).is_empty());
    }
}
