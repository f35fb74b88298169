//! Converts readings of streams to iperf3's counts. Reads and writes the header of iperf3's datagrams.

use std::sync::{Arc, Mutex, PoisonError};

use netrig_bulk::{PartObserver, PartReading, SinkReading, StreamCounts};
use netrig_core::{Duration, Instant};
use netrig_host::{DatagramFormat, STAMP_LEN};

use super::record::{StreamMark, StreamRecord};
use crate::iperf3::datagram::{CounterWidth, DatagramHeader};
use crate::iperf3::{TcpReadings, TestParameters, UdpReadings};
use crate::protocol::ConnectionCounts;

/// The record of the streams of a thread, and the latest reading of each stream.
#[derive(Debug)]
pub(super) struct StreamRecorder {
    record: StreamRecord,
    /// The time of the last reading, ns since the streams began, and the totals of each stream.
    last: (u64, Vec<StreamMark>),
}

/// A thread of a test: the indices of its streams, and the recorder that it fills.
pub(super) type StreamThread = (Vec<usize>, Arc<Mutex<StreamRecorder>>);

impl StreamRecorder {
    /// An empty recorder with a row at each interval, and one at the end of the test's warm-up.
    pub fn new(streams: usize, every: Duration, asked: &TestParameters) -> Self {
        let warm_up = Duration::from_secs(asked.omit.into());
        let record = StreamRecord::new(streams, every.as_nanos(), warm_up.as_nanos());
        Self { record, last: (0, vec![StreamMark::default(); streams]) }
    }

    fn read(&mut self, at_ns: u64, marks: Vec<StreamMark>) {
        self.record.read(at_ns, || marks.clone());
        self.last = (at_ns, marks);
    }

    /// Takes the record at the end of a test. The message that ends the test arrived at `told_ns`, ns since the streams
    /// began. For a receiver of datagrams, `arrived` is its final reading.
    pub fn finish(
        &mut self,
        told_ns: u64,
        asked: &TestParameters,
        arrived: Option<&SinkReading>,
    ) -> StreamRecord {
        let (at_ns, marks) = std::mem::take(&mut self.last);
        let (ended, marks) = match arrived {
            Some(taken) => (over(told_ns, Some(asked)), vec![mark_of_sink(taken)]),
            // Connections may have ended earlier.
            None => (told_ns.min(at_ns), marks),
        };
        self.record.finish(ended, marks);
        std::mem::replace(&mut self.record, StreamRecord::new(0, 0, 0))
    }
}

/// Returns an observer that records the readings of streams, which send or receive. A datagram has `size` bytes.
pub(super) fn record_into(
    recorder: &Arc<Mutex<StreamRecorder>>,
    begun: u64,
    sends: bool,
    size: u64,
) -> PartObserver {
    let recorder = Arc::clone(recorder);
    Box::new(move |reading| {
        let (at, marks) = match reading {
            PartReading::Streams(reading) => {
                (reading.at, reading.connections.iter().map(|carried| mark(carried, sends)).collect())
            }
            PartReading::Source(sent) => {
                let udp = UdpReadings { packets: sent.datagrams, ..UdpReadings::default() };
                let bytes = sent.datagrams * size;
                (sent.at, vec![StreamMark { bytes, udp, ..StreamMark::default() }])
            }
            PartReading::Sink(taken) => (taken.at, vec![mark_of_sink(taken)]),
        };
        recorder.lock().unwrap_or_else(PoisonError::into_inner).read(at - begun, marks);
    })
}

fn mark(carried: &StreamCounts, sends: bool) -> StreamMark {
    let tcp = carried.info.filter(|_| sends).map(|info| TcpReadings {
        retransmits: info.counts.segments_retransmitted,
        congestion_window: info.cwnd,
        send_window: info.window,
        rtt: micros(info.srtt.unwrap_or_default()),
        rtt_variation: micros(info.rtt_variation),
        path_mtu: info.path_mtu.into(),
    });
    let bytes = if sends { carried.sent } else { carried.received };
    let mut kernel = ConnectionCounts::from(carried);
    if !sends {
        // At a receiver, the kernel's smoothed round-trip time is only that of the handshake. The receiver-side
        // estimate is used instead.
        let received = carried.info.and_then(|info| info.received_rtt);
        kernel.srtt_ns = received.map(Duration::as_nanos);
    }
    StreamMark { bytes, tcp, kernel, ..StreamMark::default() }
}

/// Counts of received datagrams. Each datagram counts once (RFC 5560, RFC 7680). A duplicate does not count as payload
/// or as out of order, and does not reduce the loss. iperf3's receiver counts duplicates differently.
fn mark_of_sink(taken: &SinkReading) -> StreamMark {
    let arrivals = taken.arrivals;
    let udp = UdpReadings {
        packets: arrivals.expected,
        lost: arrivals.lost(),
        out_of_order: arrivals.reordered,
        jitter: taken.jitter,
    };
    StreamMark { bytes: taken.bytes, udp, dropped: taken.dropped, ..StreamMark::default() }
}

/// The end of a test, ns since the streams began, if the message that ends the test arrived at `told_ns`. `asked` is
/// given for a receiver of datagrams. The sender stops after the requested time, and a lost packet may delay the
/// message.
fn over(told_ns: u64, asked: Option<&TestParameters>) -> u64 {
    let seconds =
        asked.filter(|asked| asked.time > 0).map(|asked| u64::from(asked.omit) + u64::from(asked.time));
    seconds.map_or(told_ns, |seconds| told_ns.min(Duration::from_secs(seconds).as_nanos()))
}

/// The header of iperf3 datagrams. The numbers of the datagrams start at 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Iperf3Format(pub CounterWidth);

impl DatagramFormat for Iperf3Format {
    fn write(&self, number: u64, sent: Instant, head: &mut [u8; STAMP_LEN]) {
        let sent = sent.since(Instant::ZERO);
        DatagramHeader { sent, number: number + 1 }.write(self.0, head);
    }

    fn read(&self, datagram: &[u8]) -> Option<(u64, Instant)> {
        let header = DatagramHeader::read(self.0, datagram)?;
        Some((header.number.checked_sub(1)?, Instant::ZERO + header.sent))
    }
}

const fn micros(span: Duration) -> u64 {
    span.as_nanos() / 1_000
}

#[cfg(test)]
mod tests {
    use netrig_bulk::{Effort, LossPeriods};
    use netrig_host::ArrivalCounts;

    use super::*;

    #[test]
    fn a_datagram_of_iperf3_is_the_flows_and_no_other_is() {
        for counter in [CounterWidth::Bits32, CounterWidth::Bits64] {
            let format = Iperf3Format(counter);
            let (sent, mut head) = (Instant::from_nanos(7_000_000), [0; STAMP_LEN]);
            format.write(0, sent, &mut head);
            assert_eq!(DatagramHeader::read(counter, &head).map(|header| header.number), Some(1));
            assert_eq!(format.read(&head[..16]), Some((0, sent)));
            assert_eq!(format.read(&[0; STAMP_LEN]), None, "none has number 0");
            assert_eq!(format.read(b"9876"), None);
        }
    }

    #[test]
    fn datagrams_arrive_for_as_long_as_was_asked_for() {
        const SECOND: u64 = 1_000_000_000;
        let asked = TestParameters { time: 4, omit: 1, ..TestParameters::default() };
        assert_eq!(over(6 * SECOND, Some(&asked)), 5 * SECOND, "the word was late");
        assert_eq!(over(3 * SECOND, Some(&asked)), 3 * SECOND, "it was ended before its time");
        assert_eq!(over(6 * SECOND, None), 6 * SECOND);
        let by_bytes = TestParameters { time: 0, ..asked };
        assert_eq!(over(6 * SECOND, Some(&by_bytes)), 6 * SECOND);
    }

    /// Of 1676 datagrams of 1200 bytes, 34 are lost, 180 arrive twice and 5 arrive late.
    #[test]
    fn copies_are_no_goodput_and_take_no_loss_away() {
        let arrivals =
            ArrivalCounts { received: 1642, duplicated: 180, reordered: 5, stale: 0, expected: 1676 };
        let taken =
            SinkReading { arrivals, bytes: 1642 * 1200, all_bytes: 1822 * 1200, jitter: 0.001, ..nothing() };
        let mark = mark_of_sink(&taken);
        assert_eq!(mark.bytes, 1642 * 1200);
        assert_eq!(mark.udp, UdpReadings { packets: 1676, lost: 34, out_of_order: 5, jitter: 0.001 });
    }

    fn nothing() -> SinkReading {
        SinkReading {
            at: 0,
            arrivals: ArrivalCounts::default(),
            bytes: 0,
            all_bytes: 0,
            jitter: 0.0,
            last_arrival: Instant::ZERO,
            last_sent: Instant::ZERO,
            losses: LossPeriods::default(),
            dropped: 0,
            dropped_before: 0,
            passage: None,
            clock_set: None,
            effort: Effort::default(),
        }
    }
}
