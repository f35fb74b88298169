//! Records the totals of streams at the ends of intervals.

use crate::iperf3::{StreamInterval, StreamTotals, TcpReadings, UdpReadings};
use crate::protocol::ConnectionCounts;

/// Maximum number of entries of one record: rows multiplied by streams. All later data become one interval.
const MOST_ROWS: usize = 40_000;

/// Totals of a stream at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamMark {
    /// Bytes sent or received.
    pub bytes: u64,
    /// Kernel counters of a sender's connection. Retransmissions are a total.
    pub tcp: Option<TcpReadings>,
    /// Kernel counters of a connection in either direction, in the type of netrig's own protocol.
    pub kernel: ConnectionCounts,
    /// Totals of datagrams.
    pub udp: UdpReadings,
    /// Datagrams that reached this host and that the kernel dropped because the socket buffer was full.
    pub dropped: u64,
}

/// Totals of some streams at the ends of intervals.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    every_ns: u64,
    warm_up_ns: u64,
    next_ns: u64,
    /// The index of the row at the end of the warm-up. `None` before that time.
    warm: Option<usize>,
    /// For each recorded time, ns since the streams began, the totals of each stream.
    rows: Vec<(u64, Vec<StreamMark>)>,
}

impl StreamRecord {
    /// An empty record. It gets a row every `every_ns` and one at the end of the warm-up.
    pub fn new(streams: usize, every_ns: u64, warm_up_ns: u64) -> Self {
        let warm = (warm_up_ns == 0).then_some(0);
        let rows = vec![(0, vec![StreamMark::default(); streams])];
        Self { every_ns, warm_up_ns, next_ns: every_ns, warm, rows }
    }

    /// The record of one stream with these rows after the first: times, ns, and totals.
    pub fn of_rows(rows: impl Iterator<Item = (u64, StreamMark)>) -> Self {
        let mut record = Self::new(1, 0, 0);
        record.rows.extend(rows.map(|(at_ns, mark)| (at_ns, vec![mark])));
        record
    }

    /// Takes a reading. `marks` is called only if a row is due.
    pub fn read(&mut self, at_ns: u64, marks: impl FnOnce() -> Vec<StreamMark>) {
        let turns_warm = self.warm.is_none() && at_ns >= self.warm_up_ns;
        let has_room = self.rows.len() * self.rows[0].1.len() < MOST_ROWS;
        if !(turns_warm || at_ns >= self.next_ns && has_room) {
            return;
        }
        if turns_warm {
            self.warm = Some(self.rows.len());
            self.next_ns = at_ns;
        }
        self.next_ns = (self.next_ns + self.every_ns).max(at_ns);
        self.rows.push((at_ns, marks()));
    }

    /// Takes the last reading. Its totals count at the end of the test, because data that arrived later were in flight
    /// then.
    pub fn finish(&mut self, ended_ns: u64, marks: Vec<StreamMark>) {
        let is_warm = |(at, _): &(u64, _)| *at < ended_ns;
        // The first row (zeros) and the row at the end of the warm-up are kept.
        let kept = self.rows.iter().take_while(|row| is_warm(row)).count();
        self.rows.truncate(kept.max(self.warm.unwrap_or(0) + 1));
        let last = self.rows.last().map_or(0, |(at, _)| *at);
        self.read_anyway(ended_ns.max(last), marks);
    }

    fn read_anyway(&mut self, at_ns: u64, marks: Vec<StreamMark>) {
        if self.warm.is_none() && at_ns >= self.warm_up_ns {
            self.warm = Some(self.rows.len());
        }
        self.rows.push((at_ns, marks));
    }

    /// For each recorded time, ns since the streams began, the totals of each stream.
    pub fn rows(&self) -> &[(u64, Vec<StreamMark>)] {
        &self.rows
    }

    /// End of the warm-up and time of the last reading, s since the streams began. Both are equal if the warm-up never
    /// ended.
    pub fn span_s(&self) -> [f64; 2] {
        let last = self.rows.len() - 1;
        [self.warm.unwrap_or(last), last].map(|row| self.rows[row].0 as f64 * 1e-9)
    }

    /// Totals of one stream at the end of the warm-up and at the last reading.
    pub fn of(&self, stream: usize) -> [StreamMark; 2] {
        let last = self.rows.len() - 1;
        [self.warm.unwrap_or(last), last].map(|row| self.rows[row].1[stream])
    }

    /// The intervals of one stream.
    pub fn intervals(&self, stream: usize) -> Vec<StreamInterval> {
        let warm = self.warm.unwrap_or(self.rows.len());
        let origin = |at: usize| if at < warm { 0.0 } else { self.rows[warm].0 as f64 * 1e-9 };
        let pairs = self.rows.windows(2).enumerate();
        let interval = pairs.map(|(at, pair)| {
            let [(start, before), (end, after)] = pair else { return StreamInterval::default() };
            let (before, after) = (before[stream], after[stream]);
            let again = before.tcp.map_or(0, |tcp| tcp.retransmits);
            StreamInterval {
                start: *start as f64 * 1e-9 - origin(at),
                end: *end as f64 * 1e-9 - origin(at),
                omitted: at < warm,
                bytes: after.bytes.saturating_sub(before.bytes),
                tcp: after
                    .tcp
                    .map(|tcp| TcpReadings { retransmits: tcp.retransmits.saturating_sub(again), ..tcp }),
                udp: since(after.udp, before.udp),
            }
        });
        interval.collect()
    }

    /// Totals of one stream without the warm-up.
    pub fn end(&self, stream: usize) -> StreamTotals {
        let ([warm, last], [from, until]) = (self.of(stream), self.span_s());
        let again = warm.tcp.map_or(0, |tcp| tcp.retransmits);
        StreamTotals {
            seconds: until - from,
            bytes: last.bytes - warm.bytes,
            retransmits: last.tcp.map(|tcp| tcp.retransmits - again),
            udp: since(last.udp, warm.udp),
        }
    }
}

/// Differences of the totals between two times. The jitter is that of the later time. The subtraction saturates,
/// because a late datagram may reduce the loss, and a peer may send any numbers.
fn since(now: UdpReadings, before: UdpReadings) -> UdpReadings {
    UdpReadings {
        packets: now.packets.saturating_sub(before.packets),
        lost: now.lost.saturating_sub(before.lost),
        out_of_order: now.out_of_order.saturating_sub(before.out_of_order),
        jitter: now.jitter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(bytes: u64, lost: u64) -> StreamMark {
        StreamMark {
            bytes,
            udp: UdpReadings { packets: bytes, lost, ..UdpReadings::default() },
            ..StreamMark::default()
        }
    }

    #[test]
    fn a_warm_up_is_an_interval_of_its_own() {
        let mut record = StreamRecord::new(1, 1_000, 1_500);
        for (at, bytes) in [(500, 1), (1_000, 2), (1_600, 3), (2_000, 4), (2_600, 6), (3_100, 7)] {
            record.read(at, || vec![mark(bytes, 0)]);
        }
        record.finish(2_900, vec![mark(7, 0)]);
        let told: Vec<_> =
            record.intervals(0).iter().map(|interval| (interval.bytes, interval.omitted)).collect();
        assert_eq!(told, [(2, true), (1, true), (3, false), (1, false)]);
        let first = record.intervals(0)[2];
        assert!(first.start.abs() < 1e-15 && (first.end - 1e-6).abs() < 1e-12, "{first:?}");
        let end = record.end(0);
        assert_eq!((end.bytes, end.udp.packets, end.retransmits), (4, 4, None));
        assert!((end.seconds - 1.3e-6).abs() < 1e-12);
    }

    #[test]
    fn what_ends_in_its_warm_up_has_measured_nothing() {
        let mut record = StreamRecord::new(1, 1_000, 10_000);
        record.finish(700, vec![mark(5, 1)]);
        assert_eq!((record.end(0).bytes, record.intervals(0).len()), (0, 1));
        assert!(record.intervals(0)[0].omitted);
    }

    #[test]
    fn a_loss_that_turns_out_to_be_late_is_taken_back() {
        let mut record = StreamRecord::new(1, 10, 0);
        record.read(10, || vec![mark(9, 1)]);
        record.finish(20, vec![mark(10, 0)]);
        assert_eq!((record.intervals(0)[1].udp.lost, record.end(0).udp.lost), (0, 0));
    }

    #[test]
    fn memory_is_bounded_however_long_it_takes() {
        let mut record = StreamRecord::new(128, 1, 0);
        (0..100_000).for_each(|at| record.read(at, || vec![mark(at, 0); 128]));
        record.finish(99_999, vec![mark(99_999, 0); 128]);
        assert!(record.rows().len() * 128 <= MOST_ROWS + 256 && record.end(127).bytes == 99_999);
    }
}
