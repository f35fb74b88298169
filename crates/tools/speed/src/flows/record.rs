//! What streams had carried, from interval to interval.

use crate::iperf3::{StreamInterval, StreamTotals, TcpReadings, UdpReadings};
use crate::protocol::StreamCounts;

/// Rows that are kept of one worker's streams at most, over all of them; what comes later is told as one interval.
const MOST_ROWS: usize = 40_000;

/// What a stream had carried at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamMark {
    /// Bytes that were sent, or received.
    pub bytes: u64,
    /// What the kernel says of a sender's connection; the retransmissions are all that there were until then.
    pub tcp: Option<TcpReadings>,
    /// What it says of any connection, in netrig's own words.
    pub kernel: StreamCounts,
    /// Bytes that the other end has acknowledged, of a connection that this one sends over.
    pub acknowledged: u64,
    /// What was counted of datagrams until then.
    pub udp: UdpReadings,
    /// Datagrams that were due by then and that this end could not send; of one that sends as fast as it can none is due.
    pub skipped: u64,
    /// Datagrams that had reached this host by then, and that the socket had no room for.
    pub dropped: u64,
    /// Arrivals of datagrams that had arrived before.
    pub twice: u64,
}

/// What some streams had carried at the ends of intervals.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    every_ns: u64,
    warm_up_ns: u64,
    next_ns: u64,
    /// The place of the row at which the warm-up was over.
    warm: Option<usize>,
    /// When, ns since the streams began, and each stream.
    rows: Vec<(u64, Vec<StreamMark>)>,
}

impl StreamRecord {
    /// Of so many streams: a row whenever so much time is over, and one at the end of the warm-up.
    pub fn new(streams: usize, every_ns: u64, warm_up_ns: u64) -> Self {
        let warm = (warm_up_ns == 0).then_some(0);
        let rows = vec![(0, vec![StreamMark::default(); streams])];
        Self { every_ns, warm_up_ns, next_ns: every_ns, warm, rows }
    }

    /// What was read at a moment.
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

    /// What there is in the end, and when the test ended: what came after that was underway.
    pub fn finish(&mut self, ended_ns: u64, marks: Vec<StreamMark>) {
        let is_warm = |(at, _): &(u64, _)| *at < ended_ns;
        // Nothing is taken away from the zeros at the beginning, nor from the end of the warm-up.
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

    /// When, ns, and what the streams had carried by then.
    pub fn rows(&self) -> &[(u64, Vec<StreamMark>)] {
        &self.rows
    }

    /// When the warm-up was over and when the last reading was, s since the streams began; the same if it never was.
    pub fn span_s(&self) -> [f64; 2] {
        let last = self.rows.len() - 1;
        [self.warm.unwrap_or(last), last].map(|row| self.rows[row].0 as f64 * 1e-9)
    }

    /// What one stream had carried at the end of the warm-up and at the last reading.
    pub fn of(&self, stream: usize) -> [StreamMark; 2] {
        let last = self.rows.len() - 1;
        [self.warm.unwrap_or(last), last].map(|row| self.rows[row].1[stream])
    }

    /// One stream from reading to reading.
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
                bytes: after.bytes - before.bytes,
                tcp: after.tcp.map(|tcp| TcpReadings { retransmits: tcp.retransmits - again, ..tcp }),
                udp: since(after.udp, before.udp),
            }
        });
        interval.collect()
    }

    /// One stream on the whole, without the warm-up.
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

/// Counts between two moments; the jitter is that of the later one. What comes late may take a loss away.
fn since(now: UdpReadings, before: UdpReadings) -> UdpReadings {
    UdpReadings {
        packets: now.packets - before.packets,
        lost: now.lost.saturating_sub(before.lost),
        out_of_order: now.out_of_order - before.out_of_order,
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
