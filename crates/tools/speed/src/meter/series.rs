//! Time series of a phase.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::ArrivalCourse;
use crate::protocol::{ConnectionCounts, DatagramCounts};

/// Received data of one direction of a phase, as columns: values with the same index belong to the same time.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Series {
    /// Time, s since the phase began at the receiver.
    pub at_s: Vec<f64>,
    /// Payload received by then, bytes.
    pub bytes: Vec<u64>,
    /// Readings of the sender's connections, all of them together.
    pub connections: Option<ConnectionSeries>,
    /// Readings of the datagrams, at the same times.
    pub datagrams: Option<DatagramSeries>,
}

/// Readings of the sending connections. They have times of their own because each end reads its own clock.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ConnectionSeries {
    /// Time, s since the phase began at the sender.
    pub at_s: Vec<f64>,
    /// Sum of the congestion windows, bytes. Absent if the sender does not report windows.
    pub cwnd: Vec<Option<u64>>,
    /// Sum of the receive windows of the peer, bytes.
    pub window: Vec<Option<u64>>,
    /// Mean of the smoothed round-trip times, s. Absent until a connection has one.
    pub round_trip_s: Vec<Option<f64>>,
    /// Bytes retransmitted by then. Absent if the sender does not report them.
    pub sent_again: Vec<Option<u64>>,
}

/// Readings of datagrams.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct DatagramSeries {
    /// Datagrams received, without duplicates.
    pub received: Vec<u64>,
    /// Missing datagrams with numbers below the highest received one. A late datagram is lost until it arrives.
    pub lost: Vec<u64>,
    /// Lost datagrams that the kernel dropped because the receive buffer was full.
    pub dropped: Vec<Option<u64>>,
    /// Shortest one-way delay since the previous reading, s. The two clocks have an unknown offset, so only differences
    /// have a meaning. Absent if no datagram arrived.
    pub least_passage_s: Vec<Option<f64>>,
    /// Longest one-way delay since the previous reading, s.
    pub most_passage_s: Vec<Option<f64>>,
}

impl Series {
    /// The series of connections or associations, from the counts of the sender and the received data over time.
    pub fn of_streams(sender: &[ConnectionCounts], arrived: &ArrivalCourse) -> Self {
        Self {
            at_s: arrived.points().iter().map(|(at_s, _)| nanos(*at_s)).collect(),
            bytes: arrived.points().iter().map(|(_, bytes)| *bytes).collect(),
            connections: ConnectionSeries::of(sender),
            datagrams: None,
        }
    }

    /// The series of datagrams, from the counts of the receiver.
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
    /// The series of the connections that have sent data. A connection that only receives belongs to the other
    /// direction and is omitted.
    fn of(counted: &[ConnectionCounts]) -> Option<Self> {
        let mut sent: BTreeMap<u16, u64> = BTreeMap::new();
        for counted in counted {
            sent.insert(counted.stream, counted.sent);
        }
        let mut moments: BTreeMap<u64, Vec<&ConnectionCounts>> = BTreeMap::new();
        for counted in counted.iter().filter(|counted| sent.get(&counted.stream) > Some(&0)) {
            moments.entry(counted.at_ns).or_default().push(counted);
        }
        let mut series = Self::default();
        for (at_ns, all) in &moments {
            series.push(*at_ns, all);
        }
        (!moments.is_empty()).then_some(series)
    }

    fn push(&mut self, at_ns: u64, all: &[&ConnectionCounts]) {
        let sum = |of: fn(&ConnectionCounts) -> u64| all.iter().copied().map(of).fold(0, u64::saturating_add);
        // If the kernel reports windows, the congestion window is never zero, but the receive window may be zero.
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

/// Converts ns to s. The division gives the number with the fewest digits in JSON.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A time rounded to nanoseconds, s.
fn nanos(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counted(at_ms: u64, stream: u16, sent: u64, received: u64) -> ConnectionCounts {
        ConnectionCounts { at_ns: at_ms * MS, stream, sent, received, ..ConnectionCounts::default() }
    }

    #[test]
    fn connections_of_one_moment_are_one_reading() {
        let sends = |at_ms, stream, srtt_ns| ConnectionCounts {
            cwnd: 10_000,
            window: 60_000,
            sent_again: Some(100),
            srtt_ns,
            ..counted(at_ms, stream, 5000, 0)
        };
        // The third connection carries data in the other direction.
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
        // An end that reports only bytes does not report windows.
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

    /// Values are written with at most nine decimals, the resolution of the readings.
    #[test]
    fn times_have_no_more_digits_than_nanoseconds() {
        let text =
            serde_json::to_string(&[seconds(100_123_456), seconds(300 * MS), nanos(0.1 + 0.2)]).unwrap();
        assert_eq!(text, "[0.100123456,0.3,0.3]");
    }
}
