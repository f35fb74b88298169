//! The received data of a phase over time.

use std::collections::BTreeMap;

use netrig_stats::warmup::{Warmup, WarmupVerdict};
use schemars::JsonSchema;
use serde::Serialize;

use crate::protocol::{ConnectionCounts, DatagramCounts};

/// Share of a phase that counts as the warm-up if the phase is too short to detect the warm-up.
const BEGINNING: f64 = 0.2;

/// If the last interval is shorter than this share of the previous one, it is merged with the previous one.
const SHORT: f64 = 0.5;

/// The rate after the warm-up is steady if the rates of the two halves differ by at most this share of the total rate.
const STEADY: f64 = 0.1;

/// The number of bytes received until the end of each interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArrivalCourse {
    /// End of each interval, s since the phase began, and bytes received by then.
    points: Vec<(f64, u64)>,
}

/// The rate of received data, and its steadiness.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Throughput {
    /// Payload bits per second after the warm-up.
    pub bits_per_s: f64,
    /// Payload bits per second from the first byte on.
    pub whole_bits_per_s: f64,
    /// Duration of the warm-up, s. It is left out.
    pub warm_up_s: f64,
    /// Whether the rate after the warm-up is steady: its halves differ by at most a tenth. If not, the phase was too short.
    pub steady: bool,
    /// Instability: standard deviation of the rates of the intervals divided by their mean, after the warm-up. For connections,
    /// segments count when they arrive, in order or not.
    pub instability: f64,
    /// The longest time without received data, s. Its resolution is the interval.
    pub longest_stall_s: f64,
    /// Total bytes.
    pub bytes: u64,
    /// Duration of the measurement, s.
    pub lasted_s: f64,
}

impl ArrivalCourse {
    /// The sum over these connections. Out-of-order segments count as received, although the program cannot read them
    /// yet.
    pub fn of_streams(counted: &[ConnectionCounts]) -> Self {
        let mut streams: BTreeMap<u16, Vec<&ConnectionCounts>> = BTreeMap::new();
        for counted in counted {
            streams.entry(counted.stream).or_default().push(counted);
        }
        let mut points: BTreeMap<u64, u64> = BTreeMap::new();
        for (at_ns, bytes) in streams.values().flat_map(|readings| arrived(readings)) {
            let point = points.entry(at_ns).or_default();
            *point = point.saturating_add(bytes);
        }
        Self::of(points)
    }

    /// The received data of datagrams, from the counts of the receiver.
    pub fn of_datagrams(heard: &[DatagramCounts]) -> Self {
        Self::of(heard.iter().map(|heard| (heard.at_ns, heard.bytes)))
    }

    fn of(points: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut points: Vec<_> = points.into_iter().map(|(at, bytes)| (at as f64 * 1e-9, bytes)).collect();
        // The last reading may follow immediately after a regular one. The rate of such a short interval is useless.
        if let [.., before, due, last] = points[..]
            && last.0 - due.0 < SHORT * (due.0 - before.0)
        {
            points.remove(points.len() - 2);
        }
        Self { points }
    }

    /// End of each interval, s since the phase began, and bytes received by then.
    pub fn points(&self) -> &[(f64, u64)] {
        &self.points
    }

    /// The end of each interval, s, and its rate, payload bits per second.
    pub fn rates(&self) -> Vec<(f64, f64)> {
        let begun = (0.0, 0);
        let before = std::iter::once(&begun).chain(&self.points);
        before.zip(&self.points).filter_map(|(before, now)| Some((now.0, rate(*before, *now)?))).collect()
    }

    /// The throughput. `None` if there are fewer than three readings, or if no data arrived.
    pub fn throughput(&self) -> Option<Throughput> {
        let (last, rates) = (*self.points.last()?, self.rates());
        if self.points.len() < 3 || last.1 == 0 {
            return None;
        }
        let values: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
        let found = Warmup::mser5(&values);
        let is_long_enough = found.as_ref().is_ok_and(|found| found.verdict == WarmupVerdict::Steady);
        let is_short = found.is_err();
        let warm_up =
            found.or_else(|_| Warmup::fixed(values.len(), (values.len() as f64 * BEGINNING).ceil() as usize));
        let warm_up = warm_up.ok()?;
        // If a phase never becomes steady, its first half is the warm-up and `steady` is false.
        let cut = warm_up.discard.min(values.len() / 2);
        let from = if cut == 0 { (0.0, 0) } else { *self.points.get(cut - 1)? };
        let kept = values.get(cut..)?;
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        let squares: f64 = kept.iter().map(|rate| (rate - mean) * (rate - mean)).sum();
        let deviation = (squares / (kept.len().max(2) - 1) as f64).sqrt();
        let first = self.points.iter().rev().take_while(|(_, bytes)| *bytes > 0).last()?;
        let begun = self.points.iter().rev().find(|(at, _)| at < &first.0).map_or(0.0, |(at, _)| *at);
        Some(Throughput {
            bits_per_s: rate(from, last)?,
            whole_bits_per_s: rate((begun, 0), last)?,
            warm_up_s: from.0,
            steady: (is_short || is_long_enough) && self.has_even_halves(from, last),
            instability: if mean > 0.0 { deviation / mean } else { 0.0 },
            longest_stall_s: self.longest_stall(),
            bytes: last.1,
            lasted_s: last.0,
        })
    }

    /// Whether the two halves of the time between two points have the same rate, within [`STEADY`].
    fn has_even_halves(&self, from: (f64, u64), last: (f64, u64)) -> bool {
        let middle = f64::midpoint(from.0, last.0);
        let Some(at) = self.points.iter().rev().find(|(at, _)| *at <= middle) else { return false };
        match (rate(from, *at), rate(*at, last), rate(from, last)) {
            (Some(one), Some(other), Some(all)) => (one - other).abs() <= STEADY * all,
            // There are too few points for two halves.
            _ => false,
        }
    }

    /// The longest time without received data after the first byte.
    fn longest_stall(&self) -> f64 {
        let (mut since, mut longest) = (None, 0.0_f64);
        for (before, now) in self.points.iter().zip(self.points.iter().skip(1)) {
            if now.1 > before.1 || now.1 == 0 {
                since = None;
                continue;
            }
            let begun = *since.get_or_insert(before.0);
            longest = longest.max(now.0 - begun);
        }
        longest
    }
}

/// Time of each reading of one connection, ns, and the bytes received by then. If a reading has no hole in the sequence
/// numbers, they are the bytes that can be read. Between two such readings, they grow in proportion to the number of
/// segments. After the last such reading, each segment counts with the mean size of the segments before it, because
/// most segments are full.
fn arrived(readings: &[&ConnectionCounts]) -> Vec<(u64, u64)> {
    let mut whole = ConnectionCounts::default();
    let mut points = Vec::with_capacity(readings.len());
    let mut rest = readings;
    while let Some(reading) = rest.first() {
        let behind = rest.iter().take_while(|reading| reading.has_hole).count();
        let next = rest.get(behind).copied();
        let (segments, bytes) = next.map_or((whole.segments, whole.received), |next| {
            (next.segments.saturating_sub(whole.segments), next.received.saturating_sub(whole.received))
        });
        let each = bytes as f64 / segments.max(1) as f64;
        let came = |reading: &&ConnectionCounts| {
            let came = (each * reading.segments.saturating_sub(whole.segments) as f64).round() as u64;
            (reading.at_ns, whole.received.saturating_add(came).max(reading.received))
        };
        points.extend(rest[..behind].iter().map(came));
        points.extend(next.map(|next| (next.at_ns, next.received)));
        whole = *next.unwrap_or(reading);
        rest = rest.get(behind + 1..).unwrap_or_default();
    }
    points
}

fn rate(from: (f64, u64), to: (f64, u64)) -> Option<f64> {
    (to.0 > from.0).then(|| to.1.saturating_sub(from.1) as f64 * 8.0 / (to.0 - from.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings every 100 ms with these numbers of bytes.
    fn course(bytes: impl IntoIterator<Item = u64>) -> ArrivalCourse {
        let mut all = 0;
        ArrivalCourse::of(bytes.into_iter().zip(1..).map(|(bytes, n)| {
            all += bytes;
            (n * 100_000_000, all)
        }))
    }

    #[test]
    fn connections_are_added_up() {
        let counted = |at_ns, stream, received| ConnectionCounts {
            at_ns,
            stream,
            received,
            ..ConnectionCounts::default()
        };
        let course = ArrivalCourse::of_streams(&[
            counted(10, 0, 5),
            counted(10, 1, 7),
            counted(20, 0, 6),
            counted(20, 1, 9),
        ]);
        assert_eq!(course.points().iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [12, 15]);
    }

    /// A connection that receives a segment of 1000 bytes in each interval. `readable` of its segments can be read.
    fn reading(n: u64, readable: u64) -> ConnectionCounts {
        ConnectionCounts {
            at_ns: n * 100_000_000,
            segments: n,
            received: readable * 1000,
            has_hole: readable < n,
            ..ConnectionCounts::default()
        }
    }

    /// The second of two connections has a hole in its sequence numbers from 300 ms to 700 ms.
    #[test]
    fn what_waits_for_a_hole_has_arrived() {
        let readings = (1..=10).flat_map(|n| {
            let readable = if (3..7).contains(&n) { 2 } else { n };
            [reading(n, n), ConnectionCounts { stream: 1, ..reading(n, readable) }]
        });
        let course = ArrivalCourse::of_streams(&readings.collect::<Vec<_>>());
        assert!((1..).map(|n| n * 2000).zip(course.points()).all(|(bytes, point)| bytes == point.1));
        let told = course.throughput().unwrap();
        assert!((told.bits_per_s - 160_000.0).abs() < 100.0 && told.instability < 0.01, "{told:?}");
        assert_eq!((told.bytes, told.longest_stall_s), (20_000, 0.0));
    }

    /// In the first case, the last four of a hundred segments are after a hole. In the second, the first four arrived
    /// twice, and there is no hole.
    #[test]
    fn what_still_waits_for_a_hole_at_the_end_has_arrived_and_what_comes_twice_has_not() {
        let told = |readable: fn(u64) -> ConnectionCounts| {
            ArrivalCourse::of_streams(&(1..=100).map(readable).collect::<Vec<_>>()).throughput().unwrap()
        };
        let hole = told(|n| reading(n, n.min(96)));
        assert_eq!(hole.bytes, 100_000);
        assert!((hole.bits_per_s - 80_000.0).abs() < 1.0, "{hole:?}");
        let twice = told(|n| ConnectionCounts {
            has_hole: false,
            ..reading(n, if n < 5 { n } else { n.max(8) - 4 })
        });
        assert_eq!(twice.bytes, 96_000);
    }

    /// Impossible numbers of a peer cause no error.
    #[test]
    fn readings_that_run_backwards_are_taken_as_they_are() {
        let of = |segments, received, has_hole| ConnectionCounts {
            segments,
            received,
            has_hole,
            ..ConnectionCounts::default()
        };
        let all =
            [of(u64::MAX, u64::MAX, true), of(9, u64::MAX, false), of(0, 3, true), of(u64::MAX, 2, true)];
        let readings: Vec<_> = (1..).zip(all).map(|(at_ns, of)| ConnectionCounts { at_ns, ..of }).collect();
        assert_eq!(ArrivalCourse::of_streams(&readings).points().len(), 4);
    }

    #[test]
    fn a_reading_right_behind_another_makes_no_interval() {
        let of = |last_ns| {
            ArrivalCourse::of(
                [(100, 10), (200, 20), (300, 30), (last_ns, 31)].map(|(at, bytes)| (at * 1_000_000, bytes)),
            )
        };
        assert_eq!(of(303).points().len(), 3);
        assert_eq!(of(360).points().len(), 4);
        assert_eq!(of(303).points().last(), Some(&(0.303, 31)));
    }

    #[test]
    fn what_changes_while_it_is_measured_is_not_steady() {
        let steady = |bytes: &[u64]| course(bytes.iter().copied()).throughput().unwrap().steady;
        assert!(steady(&[100; 20]) && steady(&[0, 90, 110, 90, 110, 90, 110, 90, 110, 90, 110]));
        assert!(!steady(&[10, 20, 30, 40, 50, 60, 70, 80, 90, 100]));
        // The mean of so few and so different values is not accurate.
        assert!(!steady(&[100, 100, 0, 0, 300, 0, 0, 0, 0, 250, 0, 0]));
    }

    /// The rate of a connection grows for one second and is then 1 Mbit/s.
    #[test]
    fn the_beginning_is_left_out_and_told() {
        let growing =
            (1..=10).map(|n| n * 1250).chain((0..50).map(|n| if n % 2 == 0 { 12_000 } else { 13_000 }));
        let throughput = course(growing).throughput().unwrap();
        assert!((throughput.bits_per_s / 1e6 - 1.0).abs() < 0.01, "{throughput:?}");
        assert!(throughput.whole_bits_per_s < 0.95e6 && throughput.steady, "{throughput:?}");
        assert!((0.5..=1.5).contains(&throughput.warm_up_s), "{throughput:?}");
        assert!((throughput.instability - 0.04).abs() < 0.01, "{throughput:?}");
    }

    #[test]
    fn a_short_phase_leaves_out_its_first_fifth() {
        let throughput = course([0, 100, 100, 100, 100, 100, 100, 100, 100, 100]).throughput().unwrap();
        assert_eq!(throughput.warm_up_s, 0.2);
        // The times are sums of tenths, which are not exact.
        assert!(
            throughput.instability < 1e-12 && (throughput.bits_per_s - 8000.0).abs() < 1e-6,
            "{throughput:?}"
        );
        let whole = throughput.whole_bits_per_s;
        assert!((whole - 8000.0).abs() < 1e-6, "from the first byte on: {throughput:?}");
        assert_eq!(course([100, 100]).throughput(), None);
        assert_eq!(course([0; 9]).throughput(), None);
    }

    #[test]
    fn a_stall_is_the_longest_time_without_a_byte() {
        let of = |bytes: &[u64]| course(bytes.iter().copied()).longest_stall();
        assert!((of(&[0, 0, 0, 5, 5, 0, 0, 5, 0]) - 0.2).abs() < 1e-9);
        assert_eq!(of(&[5, 5, 5]), 0.0);
    }
}
