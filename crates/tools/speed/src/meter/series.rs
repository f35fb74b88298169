//! What was read in a phase, reading by reading.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::ArrivalCourse;
use crate::protocol::{DatagramCounts, StreamCounts};

/// What arrived one way of a phase, as columns: the values at one place of each are of the same moment.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Series {
    /// When, s since the phase began at the end that receives.
    pub at_s: Vec<f64>,
    /// Payload that had arrived there by then, bytes.
    pub bytes: Vec<u64>,
    /// What the end that sends told of its connections, all of them together.
    pub connections: Option<ConnectionSeries>,
    /// What had become of the datagrams, at the same moments.
    pub datagrams: Option<DatagramSeries>,
}

/// Readings of the connections that send, at moments of their own: each end reads by its own clock.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ConnectionSeries {
    /// When, s since the phase began at the end that sends.
    pub at_s: Vec<f64>,
    /// The congestion windows, all of them together, bytes; nothing of an end that keeps them to itself, as of the windows.
    pub cwnd: Vec<Option<u64>>,
    /// The windows that the other end offers, all of them together, bytes.
    pub window: Vec<Option<u64>>,
    /// The mean of the connections' smoothed round trips, s; nothing if none has one yet.
    pub round_trip_s: Vec<Option<f64>>,
    /// Bytes that had been sent again by then; nothing of an end that does not tell.
    pub sent_again: Vec<Option<u64>>,
}

/// Readings of datagrams.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct DatagramSeries {
    /// Datagrams that had arrived, each once.
    pub received: Vec<u64>,
    /// Those with lower numbers than the highest that had arrived which had not; a late one is lost until it comes.
    pub lost: Vec<u64>,
    /// Of these, those that the receiving socket had no room for.
    pub dropped: Vec<Option<u64>>,
    /// The shortest time on the way of those that arrived since the reading before, s, between the clocks of two ends, which begin
    /// each with its own phase: only differences of these mean anything. Nothing if none arrived.
    pub least_passage_s: Vec<Option<f64>>,
    /// The longest, the same way.
    pub most_passage_s: Vec<Option<f64>>,
}

impl Series {
    /// Of connections or associations: what the end that sends has counted of them, and what has arrived.
    pub fn of_streams(sender: &[StreamCounts], arrived: &ArrivalCourse) -> Self {
        Self {
            at_s: arrived.points().iter().map(|(at_s, _)| nanos(*at_s)).collect(),
            bytes: arrived.points().iter().map(|(_, bytes)| *bytes).collect(),
            connections: ConnectionSeries::of(sender),
            datagrams: None,
        }
    }

    /// Of datagrams, as their receiver has heard them.
    pub fn of_datagrams(heard: &[DatagramCounts]) -> Self {
        Self {
            at_s: heard.iter().map(|heard| seconds(heard.at_ns)).collect(),
            bytes: heard.iter().map(|heard| heard.bytes).collect(),
            connections: None,
            datagrams: (!heard.is_empty()).then(|| DatagramSeries::of(heard)),
        }
    }
}

impl ConnectionSeries {
    /// Of those that have sent something: where each way has connections of its own those of the other way say nothing of this one.
    fn of(counted: &[StreamCounts]) -> Option<Self> {
        let mut sent: BTreeMap<u16, u64> = BTreeMap::new();
        for counted in counted {
            sent.insert(counted.stream, counted.sent);
        }
        let mut moments: BTreeMap<u64, Vec<&StreamCounts>> = BTreeMap::new();
        for counted in counted.iter().filter(|counted| sent.get(&counted.stream) > Some(&0)) {
            moments.entry(counted.at_ns).or_default().push(counted);
        }
        let mut series = Self::default();
        for (at_ns, all) in &moments {
            series.push(*at_ns, all);
        }
        (!moments.is_empty()).then_some(series)
    }

    fn push(&mut self, at_ns: u64, all: &[&StreamCounts]) {
        let sum = |of: fn(&StreamCounts) -> u64| all.iter().copied().map(of).fold(0, u64::saturating_add);
        // A kernel that tells has a congestion window; the other end's may be closed.
        let cwnd = Some(sum(|counted| counted.cwnd)).filter(|bytes| *bytes > 0);
        let trips: Vec<_> = all.iter().filter_map(|counted| counted.srtt_ns).map(seconds).collect();
        self.at_s.push(seconds(at_ns));
        self.cwnd.push(cwnd);
        self.window.push(cwnd.map(|_| sum(|counted| counted.window)));
        self.round_trip_s
            .push((!trips.is_empty()).then(|| nanos(trips.iter().sum::<f64>() / trips.len() as f64)));
        let again = all.iter().filter_map(|counted| counted.sent_again).reduce(u64::saturating_add);
        self.sent_again.push(again);
    }
}

impl DatagramSeries {
    fn of(heard: &[DatagramCounts]) -> Self {
        let counts = |of: fn(&DatagramCounts) -> u64| heard.iter().map(of).collect();
        let passage = |at: usize| {
            let of = move |heard: &DatagramCounts| heard.passage_ns.map(|passage| passage[at] as f64 / 1e9);
            heard.iter().map(of).collect()
        };
        Self {
            received: counts(|heard| heard.received),
            lost: counts(|heard| heard.expected.saturating_sub(heard.received)),
            dropped: heard.iter().map(|heard| heard.dropped).collect(),
            least_passage_s: passage(0),
            most_passage_s: passage(2),
        }
    }
}

/// A division gives the number that has the fewest digits: these are written down.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A time without what is beneath a nanosecond, s.
fn nanos(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counted(at_ms: u64, stream: u16, sent: u64, received: u64) -> StreamCounts {
        StreamCounts { at_ns: at_ms * MS, stream, sent, received, ..StreamCounts::default() }
    }

    #[test]
    fn connections_of_one_moment_are_one_reading() {
        let sends = |at_ms, stream, srtt_ns| StreamCounts {
            cwnd: 10_000,
            window: 60_000,
            sent_again: Some(100),
            srtt_ns,
            ..counted(at_ms, stream, 5000, 0)
        };
        // The third carries the other way.
        let sender = [
            sends(100, 0, Some(20 * MS)),
            sends(100, 1, None),
            counted(100, 2, 0, 7),
            sends(200, 0, Some(20 * MS)),
            sends(200, 1, Some(40 * MS)),
        ];
        let arrived = ArrivalCourse::of_streams(&[100, 200, 300].map(|at| counted(at, 0, 0, at * 10)));
        let series = Series::of_streams(&sender, &arrived);
        assert_eq!((&series.at_s[..], &series.bytes[..]), (&[0.1, 0.2, 0.3][..], &[1000, 2000, 3000][..]));
        assert_eq!(series.bytes.last(), arrived.throughput().map(|told| told.bytes).as_ref());
        let told = series.connections.unwrap();
        assert_eq!(told.at_s, [0.1, 0.2]);
        assert_eq!((&told.cwnd[..], &told.window[..]), (&[Some(20_000); 2][..], &[Some(120_000); 2][..]));
        assert_eq!(
            (&told.round_trip_s[..], &told.sent_again[..]),
            (&[Some(0.02), Some(0.03)][..], &[Some(200); 2][..])
        );
        // An end that tells no more than bytes has told no windows.
        let told = Series::of_streams(&[counted(100, 0, 9, 0)], &arrived).connections.unwrap();
        assert_eq!((told.cwnd, told.window, told.round_trip_s), (vec![None], vec![None], vec![None]));
        assert_eq!(Series::of_streams(&[], &arrived).connections, None);
    }

    #[test]
    fn datagrams_are_lost_until_they_come() {
        let heard = |at_ms, received, expected, passage_ns| DatagramCounts {
            at_ns: at_ms * MS,
            received,
            expected,
            dropped: Some(1),
            bytes: received * 500,
            passage_ns,
            ..DatagramCounts::default()
        };
        let all = [heard(50, 9, 10, Some([-2_000_000, 0, 3_000_000])), heard(100, 10, 10, None)];
        let series = Series::of_datagrams(&all);
        assert_eq!((&series.at_s[..], &series.bytes[..]), (&[0.05, 0.1][..], &[4500, 5000][..]));
        let told = series.datagrams.unwrap();
        assert_eq!(
            (&told.received[..], &told.lost[..], &told.dropped[..]),
            (&[9, 10][..], &[1, 0][..], &[Some(1), Some(1)][..])
        );
        assert_eq!(
            (told.least_passage_s, told.most_passage_s),
            (vec![Some(-0.002), None], vec![Some(0.003), None])
        );
    }

    /// What is read is written down as it was told, and no longer.
    #[test]
    fn times_have_no_more_digits_than_nanoseconds() {
        let text =
            serde_json::to_string(&[seconds(100_123_456), seconds(300 * MS), nanos(0.1 + 0.2)]).unwrap();
        assert_eq!(text, "[0.100123456,0.3,0.3]");
    }
}
