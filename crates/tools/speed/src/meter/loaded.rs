//! Delays of the loading flows themselves, without echoes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Delays;
use crate::protocol::{ConnectionCounts, DatagramCounts};

/// How much longer the one-way delays of the loading datagrams after the warm-up are than the shortest delay of the whole phase.
///
/// It uses differences only, so the offset of the clocks cancels out. There are two limits. A queue that is never empty in the phase
/// is not visible, because the shortest delay includes it. A clock drift adds to the delay: 20 ppm add 0.2 ms in 10 s.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct AddedDelay {
    /// Shortest, s.
    pub least_s: f64,
    /// Mean, s.
    pub mean_s: f64,
    /// Longest, s.
    pub most_s: f64,
}

/// Round-trip times of the loading connections or associations, after the warm-up. Each reading is the smoothed round-trip time
/// (RFC 6298: the last sample has a weight of one eighth). These are quantiles of readings, not of packets: short peaks are flattened.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct RoundTrips {
    /// Number of readings over all connections.
    pub readings: usize,
    /// Median, s.
    pub p50_s: f64,
    /// 95th percentile, s.
    pub p95_s: f64,
    /// 99th percentile, s.
    pub p99_s: f64,
}

/// A phase that was too short for its line: it shows the start of connections rather than the path under load.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct TooShort {
    /// Duration, s.
    pub lasted_s: f64,
    /// Connections that carried data.
    pub connections: usize,
    /// Connections without acknowledged data at the end.
    pub unacknowledged: usize,
    /// 95th percentile of the round-trip times under load, s. Absent if there was none.
    pub round_trip_s: Option<f64>,
    /// Estimated duration that would suffice, s.
    pub enough_s: f64,
}

/// Minimum number of round trips under load in a phase. A queue takes several round trips to fill, and half of a phase
/// may be warm-up.
const LEAST_ROUND_TRIPS: f64 = 5.0;

/// A number of round trips that suffices in any case.
const ENOUGH_ROUND_TRIPS: f64 = 10.0;

impl TooShort {
    /// Checks the duration of a phase, from the counts of the sender. `None` if the phase was long enough.
    pub fn of(sender: &[ConnectionCounts], warm_up_s: f64, lasted_s: f64) -> Option<Self> {
        let mut last = BTreeMap::new();
        for counted in sender.iter().filter(|counted| counted.sent > 0) {
            last.insert(counted.stream, counted.is_under_load());
        }
        let unacknowledged = last.values().filter(|is_under_load| !**is_under_load).count();
        let round_trip_s = RoundTrips::of(sender, warm_up_s).map(|told| told.p95_s);
        let longest_s = round_trip_s.filter(|round_trip_s| round_trip_s * LEAST_ROUND_TRIPS > lasted_s);
        if unacknowledged == 0 && longest_s.is_none() {
            return None;
        }
        // If the data of a connection were not acknowledged, the round trip is longer than the phase.
        let least_s = if unacknowledged > 0 { lasted_s } else { 0.0 };
        let enough_s = (ENOUGH_ROUND_TRIPS * longest_s.unwrap_or(0.0).max(least_s)).ceil();
        Some(Self { lasted_s, connections: last.len(), unacknowledged, round_trip_s, enough_s })
    }
}

impl AddedDelay {
    /// The delay in the readings after `from_s` seconds, minus the shortest delay of all readings. `None` if no reading
    /// has delays.
    pub fn of(heard: &[DatagramCounts], from_s: f64) -> Option<Self> {
        let floor = heard.iter().filter_map(|heard| heard.passage_ns).map(|[least, ..]| least).min()?;
        let above = |passage: i64| (passage as f64 - floor as f64) * 1e-9;
        let (mut told, mut came, mut before): (Option<Self>, _, _) = (None, 0.0, 0);
        for now in heard {
            let of = now.received.saturating_sub(std::mem::replace(&mut before, now.received)) as f64;
            // A reading covers the datagrams since the previous one.
            let Some(passage) = now.passage_ns.filter(|_| now.at_ns as f64 * 1e-9 > from_s && of > 0.0)
            else {
                continue;
            };
            let [least_s, mean_s, most_s] = passage.map(above);
            let all = told.get_or_insert(Self { least_s, mean_s, most_s });
            came += of;
            all.least_s = all.least_s.min(least_s);
            all.mean_s += (mean_s - all.mean_s) * of / came;
            all.most_s = all.most_s.max(most_s);
        }
        told
    }
}

impl RoundTrips {
    /// Quantiles of the sender's readings after `from_s` seconds. `None` if there are no such readings.
    pub fn of(sender: &[ConnectionCounts], from_s: f64) -> Option<Self> {
        let kept = |counted: &&ConnectionCounts| {
            counted.sent > 0 && counted.is_under_load() && counted.at_ns as f64 * 1e-9 >= from_s
        };
        let times = sender.iter().filter(kept).filter_map(|counted| counted.srtt_ns);
        let all = Delays::of_times(times.map(|ns| Some(ns as f64 * 1e-9)))?;
        Some(Self { readings: all.sent, p50_s: all.p50_s?, p95_s: all.p95_s?, p99_s: all.p99_s? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn heard(at_ms: u64, received: u64, passage_ms: Option<[i64; 3]>) -> DatagramCounts {
        let passage_ns = passage_ms.map(|passage| passage.map(|ms| ms * MS));
        DatagramCounts { at_ns: at_ms * MS.unsigned_abs(), received, passage_ns, ..DatagramCounts::default() }
    }

    /// The shortest delay occurs in the warm-up. The clocks differ by an hour in either direction.
    #[test]
    fn a_delay_is_above_the_shortest_whatever_the_clocks_show() {
        for apart in [-3_600_000, 0, 3_600_000] {
            let all = [
                heard(100, 10, Some([5, 30, 90].map(|ms| ms + apart))),
                heard(200, 20, Some([7, 10, 15].map(|ms| ms + apart))),
                heard(300, 20, None),
                heard(400, 50, Some([9, 14, 25].map(|ms| ms + apart))),
            ];
            let told = AddedDelay::of(&all, 0.1).unwrap();
            // The mean added delay is 5 ms for ten datagrams and 9 ms for thirty.
            for (told, ms) in [(told.least_s, 2.0), (told.mean_s, 8.0), (told.most_s, 20.0)] {
                assert!((told * 1e3 - ms).abs() < 1e-3, "{told}, not {ms}");
            }
        }
        assert_eq!(AddedDelay::of(&[heard(100, 10, None)], 0.0), None);
        assert_eq!(AddedDelay::of(&[], 0.0), None);
    }

    #[test]
    fn round_trips_are_of_readings_of_those_that_send_after_the_warm_up() {
        let counted = |at_ms: u64, sent, srtt_ms: Option<u64>| ConnectionCounts {
            at_ns: at_ms * 1_000_000,
            sent,
            srtt_ns: srtt_ms.map(|ms| ms * 1_000_000),
            ..ConnectionCounts::default()
        };
        let mut all: Vec<_> = (1..=100).map(|n| counted(1000 + n, 1, Some(n))).collect();
        all.extend([counted(500, 1, Some(900)), counted(2000, 0, Some(900)), counted(2000, 1, None)]);
        let told = RoundTrips::of(&all, 1.0).unwrap();
        assert_eq!(told.readings, 100);
        for (told, ms) in [(told.p50_s, 50.0), (told.p95_s, 95.0), (told.p99_s, 99.0)] {
            assert!((told * 1e3 - ms).abs() < 1e-9, "{told}, not {ms}");
        }
        assert_eq!(RoundTrips::of(&all, 3.0), None);
    }

    /// On a slow line the first data is acknowledged after 4 s. Until then, the kernel reports the round-trip time of
    /// the handshake.
    #[test]
    fn what_the_handshake_took_is_no_round_trip_under_load() {
        let reading = |n: u64| ConnectionCounts {
            at_ns: n * 100_000_000,
            sent: 200_000,
            acknowledged: Some(n.saturating_sub(39) * 1448),
            srtt_ns: Some(if n < 40 { 40_000_000 } else { 500_000_000 }),
            ..ConnectionCounts::default()
        };
        let all: Vec<_> = (1..=50).map(reading).collect();
        assert_eq!(RoundTrips::of(&all[..39], 0.6), None, "no reading is under load");
        let told = RoundTrips::of(&all, 0.6).unwrap();
        assert_eq!((told.readings, told.p50_s), (11, 0.5));
        // If an end does not report acknowledgements, all of its readings are used.
        let untold: Vec<_> = all.iter().map(|now| ConnectionCounts { acknowledged: None, ..*now }).collect();
        assert_eq!(RoundTrips::of(&untold, 0.0).unwrap().readings, 50);
    }

    #[test]
    fn a_phase_is_too_short_until_data_is_acknowledged_and_for_long_round_trips() {
        let reading = |stream, acknowledged, srtt_ms: u64| ConnectionCounts {
            at_ns: 2_000_000_000,
            stream,
            sent: 200_000,
            acknowledged,
            srtt_ns: Some(srtt_ms * 1_000_000),
            ..ConnectionCounts::default()
        };
        let told = |all: &[ConnectionCounts]| TooShort::of(all, 0.6, 3.0);
        assert_eq!(told(&[reading(0, Some(1448), 90), reading(1, Some(2896), 90)]), None);
        assert_eq!(told(&[reading(0, None, 90)]), None, "an end that tells no acknowledgements");
        let waits = told(&[reading(0, Some(1448), 90), reading(1, Some(0), 40)]).unwrap();
        assert_eq!((waits.connections, waits.unacknowledged, waits.enough_s), (2, 1, 30.0));
        let slow = told(&[reading(0, Some(1448), 1000)]).unwrap();
        assert_eq!((slow.unacknowledged, slow.round_trip_s, slow.enough_s), (0, Some(1.0), 10.0));
        assert_eq!(told(&[]), None);
    }
}
