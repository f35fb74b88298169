//! A thread that carries streams, and its result.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netrig_bulk::{
    DatagramSink, DatagramSource, Effort, SinkReading, SourceOrder, Spacing, StreamCounts, StreamOrder,
    Streams, Throttle, TransferDirection, pacing,
};
use netrig_core::{Duration, Instant, Rate};
use netrig_host::{Clock, DatagramFormat, STAMP_LEN, monotonic_nanos};
use rustix::net::sockopt;

use super::record::{StreamMark, StreamRecord};
use crate::iperf3::datagram::{CounterWidth, DatagramHeader};
use crate::iperf3::{TcpReadings, TestParameters, TestTransport, UdpReadings};
use crate::protocol::ConnectionCounts;

/// Interval between readings.
const EVERY: Duration = Duration::from_millis(100);

/// The rate of datagrams without a limit, bit/s: more than any host can send.
const UNLIMITED: u64 = 400_000_000_000;

/// State that the threads of a test share.
#[derive(Debug)]
pub(super) struct FlowsControl {
    /// The end of the test, ns of `CLOCK_MONOTONIC`.
    pub ended: AtomicU64,
    pub stop_sending: AtomicBool,
    pub stop: AtomicBool,
    /// Bytes received and sent so far.
    pub bytes: [AtomicU64; 2],
}

/// The task of a thread.
pub(super) struct StreamWork {
    pub asked: TestParameters,
    pub sends: bool,
    /// Interval between readings that are kept.
    pub every: Duration,
    /// The highest rate of each stream.
    pub rate: Option<Rate>,
    /// Start of the test, ns of `CLOCK_MONOTONIC`.
    pub begun: u64,
    pub streams: usize,
    pub board: Arc<FlowsControl>,
}

/// The result of a thread.
pub(super) struct StreamWorkResult {
    pub record: StreamRecord,
    /// The connections, still open.
    pub connections: Option<Streams>,
    /// Processor time of the thread in user and in kernel mode, s.
    pub ran_s: [f64; 2],
    /// Processor time and time spent waiting for a processor.
    pub effort: Effort,
    /// Send and receive buffers, bytes.
    pub buffers: [u32; 2],
    /// Payload of a full segment, and the path MTU, bytes.
    pub segment: Option<[u32; 2]>,
    /// Whether segments have time stamps.
    pub timestamps: bool,
    pub congestion: Option<String>,
    /// Why the schedule of the sender was missed, in one sentence.
    pub fault: Option<String>,
}

impl StreamWork {
    /// Carries connections.
    pub fn connections(self, sockets: Vec<TcpStream>) -> io::Result<StreamWorkResult> {
        let first = sockets.first().map(TcpStream::try_clone).transpose()?;
        let direction = if self.sends { TransferDirection::Sends } else { TransferDirection::Receives };
        let pacing = self.rate.map(pacing);
        let order = StreamOrder { direction, every: EVERY, bytes: None, pacing, window: None };
        let mut streams = Streams::new(sockets, order)?;
        let (mut record, mut before) = (self.record(), 0);
        let stop = if self.sends { &self.board.stop_sending } else { &self.board.stop };
        let mut last = vec![StreamMark::default(); self.streams];
        let (mut segment, mut timestamps) = (None, false);
        streams.carry(stop, &mut |reading| {
            let at_ns = reading.at - self.begun;
            last = reading.connections.iter().map(|carried| self.mark(carried)).collect();
            record.read(at_ns, || last.clone());
            let infos = || reading.connections.iter().filter_map(|carried| carried.info);
            let shortest = infos().map(|info| [info.segment, info.path_mtu]).min();
            segment = shortest.or(segment);
            timestamps |= infos().any(|info| info.has_timestamps);
            self.count(&mut before, last.iter().map(|mark| mark.bytes).sum());
        })?;
        record.finish(self.ended(), last);
        let (buffers, congestion) = first.map(|socket| settings(&socket)).unwrap_or_default();
        Ok(StreamWorkResult {
            connections: Some(streams),
            segment,
            timestamps,
            congestion,
            ..StreamWorkResult::of(record, buffers)
        })
    }

    /// Carries datagrams.
    pub fn datagrams(self, socket: UdpSocket) -> io::Result<StreamWorkResult> {
        let buffers = [
            sockopt::socket_send_buffer_size(&socket).unwrap_or(0) as u32,
            sockopt::socket_recv_buffer_size(&socket).unwrap_or(0) as u32,
        ];
        let (record, fault) = if self.sends { self.send(socket)? } else { (self.take(socket)?, None) };
        Ok(StreamWorkResult { fault, ..StreamWorkResult::of(record, buffers) })
    }

    /// The record of what was sent, and the fault of the sender if it missed its schedule.
    fn send(&self, socket: UdpSocket) -> io::Result<(StreamRecord, Option<String>)> {
        let rate = self.rate.unwrap_or(Rate::from_bits_per_s(UNLIMITED));
        let throttle = Throttle::new(rate);
        let size = self.asked.len as u16;
        let order = SourceOrder { flow: 0, size, spacing: Spacing::Constant, every: EVERY };
        // Times are since the boot of the machine, as in iperf3.
        let source = DatagramSource::new(socket, Clock::starting_at(0), order, &throttle)?;
        let mut source = source.with_format(Arc::new(Iperf3Format(self.asked.counter)));
        let (mut record, mut before) = (self.record(), 0);
        let mut last = StreamMark::default();
        let report = source.send(&self.board.stop_sending, &mut |sent| {
            let udp = UdpReadings { packets: sent.datagrams, ..UdpReadings::default() };
            let bytes = sent.datagrams * u64::from(size);
            let skipped = self.rate.map_or(0, |_| sent.skipped);
            last = StreamMark { bytes, udp, skipped, ..StreamMark::default() };
            record.read(sent.at - self.begun, || vec![last]);
            self.count(&mut before, bytes);
        })?;
        record.finish(self.ended(), vec![last]);
        Ok((record, report.fault().filter(|_| self.rate.is_some())))
    }

    fn take(&self, socket: UdpSocket) -> io::Result<StreamRecord> {
        let sink = DatagramSink::new(socket, Clock::starting_at(0), 0, EVERY)?;
        let mut sink = sink.with_format(Arc::new(Iperf3Format(self.asked.counter)));
        let (mut record, mut before) = (self.record(), 0);
        sink.take(&self.board.stop, &mut |taken| {
            record.read(taken.at - self.begun, || vec![arrived(taken)]);
            self.count(&mut before, taken.all_bytes);
        })?;
        let taken = sink.finish(None)?;
        self.count(&mut before, taken.all_bytes);
        record.finish(self.ended(), vec![arrived(&taken)]);
        Ok(record)
    }

    fn record(&self) -> StreamRecord {
        let warm_up = Duration::from_secs(self.asked.omit.into());
        StreamRecord::new(self.streams, self.every.as_nanos(), warm_up.as_nanos())
    }

    /// The end of the test, ns since the streams began.
    fn ended(&self) -> u64 {
        let ended = self.board.ended.load(Ordering::Relaxed).min(monotonic_nanos());
        let arrives = !self.sends && self.asked.transport == TestTransport::Udp;
        over(ended.saturating_sub(self.begun), arrives.then_some(&self.asked))
    }

    /// Adds the bytes carried since the last call. `before` holds the total of that call.
    fn count(&self, before: &mut u64, bytes: u64) {
        let more = bytes - std::mem::replace(before, bytes);
        self.board.bytes[usize::from(self.sends)].fetch_add(more, Ordering::Relaxed);
    }

    fn mark(&self, carried: &StreamCounts) -> StreamMark {
        let tcp = carried.info.filter(|_| self.sends).map(|info| TcpReadings {
            retransmits: info.counts.segments_retransmitted,
            congestion_window: info.cwnd,
            send_window: info.window,
            rtt: micros(info.srtt.unwrap_or_default()),
            rtt_variation: micros(info.rtt_variation),
            path_mtu: info.path_mtu.into(),
        });
        let bytes = if self.sends { carried.sent } else { carried.received };
        let mut kernel = ConnectionCounts::from(carried);
        if !self.sends {
            // A receiver's own round-trip time is that of the handshake, so the receiver-side estimate is used.
            let received = carried.info.and_then(|info| info.received_rtt);
            kernel.srtt_ns = received.map(Duration::as_nanos);
        }
        StreamMark { bytes, tcp, kernel, acknowledged: carried.acknowledged, ..StreamMark::default() }
    }
}

/// Counts of received datagrams. Each counts once: a duplicate is neither payload nor out of order and reduces no loss, unlike in
/// the receiver of iperf3 (RFC 5560, RFC 7680).
fn arrived(taken: &SinkReading) -> StreamMark {
    let arrivals = taken.arrivals;
    let udp = UdpReadings {
        packets: arrivals.expected,
        lost: arrivals.lost(),
        out_of_order: arrivals.reordered,
        jitter: taken.jitter,
    };
    let (bytes, twice) = (taken.bytes, arrivals.duplicated);
    StreamMark { bytes, udp, dropped: taken.dropped, twice, ..StreamMark::default() }
}

/// The end of a test, ns since its start, whose end was announced after `told_ns`. `asked` is given for a receiver of datagrams:
/// the sender stops after the requested time, and a lost packet may delay the message that ends the test.
fn over(told_ns: u64, asked: Option<&TestParameters>) -> u64 {
    let seconds =
        asked.filter(|asked| asked.time > 0).map(|asked| u64::from(asked.omit) + u64::from(asked.time));
    seconds.map_or(told_ns, |seconds| told_ns.min(Duration::from_secs(seconds).as_nanos()))
}

impl StreamWorkResult {
    fn of(record: StreamRecord, buffers: [u32; 2]) -> Self {
        let effort = Effort::of_this_thread();
        let (segment, timestamps, congestion) = (None, false, None);
        let (connections, fault) = (None, None);
        Self { record, connections, ran_s: ran(), effort, buffers, segment, timestamps, congestion, fault }
    }
}

/// The header of iperf3 datagrams. Their numbers start at 1.
#[derive(Clone, Copy, Debug)]
struct Iperf3Format(CounterWidth);

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

/// The send and receive buffers of a connection, and its congestion control.
fn settings(socket: &TcpStream) -> ([u32; 2], Option<String>) {
    let buffers = [sockopt::socket_send_buffer_size(socket), sockopt::socket_recv_buffer_size(socket)];
    (buffers.map(|bytes| bytes.unwrap_or(0) as u32), sockopt::tcp_congestion(socket).ok())
}

/// Processor time of the calling thread in user and in kernel mode, s (proc(5): utime and stime, in hundredths).
fn ran() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // The name may contain any character and stands in parentheses. The third field follows it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0.0));
    [(); 2].map(|()| ticks.next().unwrap_or(0.0) * 0.01)
}

#[cfg(test)]
mod tests {
    use netrig_bulk::LossPeriods;
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

    /// 1676 datagrams of 1200 bytes: 34 are lost, 180 arrive twice and 5 arrive late.
    #[test]
    fn copies_are_no_goodput_and_take_no_loss_away() {
        let arrivals =
            ArrivalCounts { received: 1642, duplicated: 180, reordered: 5, stale: 0, expected: 1676 };
        let taken =
            SinkReading { arrivals, bytes: 1642 * 1200, all_bytes: 1822 * 1200, jitter: 0.001, ..nothing() };
        let mark = arrived(&taken);
        assert_eq!((mark.bytes, mark.twice), (1642 * 1200, 180));
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

    #[test]
    fn a_worker_that_computes_has_run() {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 60 || ran().iter().sum::<f64>() == 0.0 {}
        assert!(ran().iter().all(|seconds| (0.0..1e6).contains(seconds)));
    }
}
