//! The result of a test at one end, converted to iperf3's results and documents.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use netrig_bulk::TransferOutcome;

use super::readings::StreamThread;
use super::record::{StreamMark, StreamRecord};
use crate::iperf3::{
    CpuUse, DocumentStart, StreamPath, StreamReadings, StreamResult, StreamTotals, TestDocument,
    TestParameters, TestResults, TestRole, UdpReadings,
};
use crate::protocol::EndReport;

/// The result of a test at one end.
#[derive(Clone, Debug)]
pub struct TestFindings {
    /// The requested parameters.
    pub asked: TestParameters,
    /// All streams in the order of their numbers.
    pub streams: Vec<StreamFindings>,
    /// The time at which data began to flow, ns of `CLOCK_MONOTONIC`.
    pub begun: u64,
    /// Processor use.
    pub cpu: CpuUse,
    /// The report of this end, in the type of netrig's own protocol.
    pub report: EndReport,
}

/// The result of a stream at one end.
#[derive(Clone, Debug)]
pub struct StreamFindings {
    /// The stream number.
    pub id: u32,
    /// Whether this end sends.
    pub sends: bool,
    /// The addresses of this end and of the peer.
    pub ends: [SocketAddr; 2],
    /// The record of all streams of the thread that ran this stream.
    record: Arc<StreamRecord>,
    /// The index of the stream in the record.
    place: usize,
}

impl TestFindings {
    pub(super) fn of(
        asked: &TestParameters,
        streams: &[(u32, bool, [SocketAddr; 2])],
        begun: u64,
        threads: Vec<StreamThread>,
        outcome: TransferOutcome,
    ) -> Self {
        let told_ns = outcome.stopped.saturating_sub(begun);
        let (mut found, mut lasted_s) = (Vec::new(), 0.0_f64);
        for (part, (places, recorder)) in threads.into_iter().enumerate() {
            let arrived = outcome.sinks.iter().find(|(place, _)| *place == part).map(|(_, taken)| taken);
            let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
            let record = Arc::new(recorder.finish(told_ns, asked, arrived));
            lasted_s = lasted_s.max(record.span_s()[1]);
            for (place, stream) in places.into_iter().enumerate() {
                let (id, sends, ends) = streams[stream];
                found.push(StreamFindings { id, sends, ends, record: Arc::clone(&record), place });
            }
        }
        found.sort_by_key(|stream| stream.id);
        let [user, system] =
            outcome.ran_s.map(|ran| if lasted_s > 0.0 { 100.0 * ran / lasted_s } else { 0.0 });
        Self {
            asked: asked.clone(),
            streams: found,
            begun,
            cpu: CpuUse { total: user + system, user, system },
            report: outcome.report((lasted_s * 1e9) as u64),
        }
    }

    /// The results that are sent to the peer.
    pub fn results(&self) -> TestResults {
        let tcp = self.asked.is_tcp();
        let sends = self.streams.iter().any(|stream| stream.sends);
        TestResults {
            cpu: self.cpu,
            // Over UDP, iperf3 always sends false.
            counts_retransmits: if tcp { sends.then_some(true) } else { Some(false) },
            congestion: self.report.congestion.clone().filter(|_| tcp),
            streams: self.streams.iter().map(|stream| stream.result(tcp)).collect(),
            server_output: None,
        }
    }

    /// The JSON document of the test. `theirs` are the results of the peer, if received.
    pub fn document(&self, start: DocumentStart, theirs: Option<&TestResults>) -> TestDocument {
        let readings = |stream: &StreamFindings| StreamReadings {
            path: StreamPath { socket: 4 + stream.id, local: stream.ends[0], remote: stream.ends[1] },
            sends: stream.sends,
            intervals: stream.record.intervals(stream.place),
            local: Some(stream.end()),
            remote: theirs.and_then(|theirs| theirs.stream(stream.id)).map(|told| end(told, stream)),
        };
        let [send_buffer, receive_buffer] = buffers_in_32_bits(&self.report);
        TestDocument {
            start: DocumentStart {
                mss: self.report.segment.unwrap_or(start.mss),
                send_buffer,
                receive_buffer,
                ..start
            },
            streams: self.streams.iter().map(readings).collect(),
            cpu: self.cpu,
            remote_cpu: theirs.map_or(CpuUse::default(), |theirs| theirs.cpu),
            congestion: self.report.congestion.clone(),
            remote_congestion: theirs.and_then(|theirs| theirs.congestion.clone()),
            server_output: theirs.and_then(|theirs| theirs.server_output.clone()),
            error: None,
        }
    }
}

impl StreamFindings {
    /// The totals of this end without the warm-up.
    pub fn end(&self) -> StreamTotals {
        self.record.end(self.place)
    }

    /// The totals of the stream at each recorded time, ns since the streams began.
    pub fn marks(&self) -> impl Iterator<Item = (u64, StreamMark)> {
        self.record.rows().iter().map(|(at, marks)| (*at, marks[self.place]))
    }

    fn result(&self, tcp: bool) -> StreamResult {
        let ([warm, last], end) = (self.record.of(self.place), self.end());
        StreamResult {
            id: self.id,
            bytes: end.bytes,
            retransmits: end.retransmits.filter(|_| tcp),
            jitter: last.udp.jitter,
            errors: last.udp.lost,
            omitted_errors: Some(warm.udp.lost),
            packets: last.udp.packets,
            omitted_packets: Some(warm.udp.packets),
            seconds: Some(end.seconds),
        }
    }
}

/// The totals of a stream, as the peer reported them.
fn end(told: &StreamResult, stream: &StreamFindings) -> StreamTotals {
    StreamTotals {
        seconds: told.seconds.unwrap_or_else(|| stream.end().seconds),
        bytes: told.bytes,
        retransmits: told.retransmits,
        udp: UdpReadings {
            packets: told.packets.saturating_sub(told.omitted_packets.unwrap_or(0)),
            lost: told.errors.saturating_sub(told.omitted_errors.unwrap_or(0)),
            out_of_order: 0,
            jitter: told.jitter,
        },
    }
}

/// Sizes of the send and the receive buffer, bytes, limited to 32 bits, as in the documents.
pub(crate) fn buffers_in_32_bits(report: &EndReport) -> [u32; 2] {
    report.buffers.unwrap_or_default().map(|bytes| bytes.try_into().unwrap_or(u32::MAX))
}

/// The start section of a document: this program, this host and the current time.
pub fn start(role: TestRole, cookie: String, asked: TestParameters) -> DocumentStart {
    let kernel = |name: &str| netrig_host::sysctl::get(&format!("kernel.{name}")).unwrap_or_default();
    DocumentStart {
        // Readers expect `iperf 3.` at the beginning.
        version: format!("iperf 3.12 (netrig {})", env!("CARGO_PKG_VERSION")),
        system: ["ostype", "hostname", "osrelease", "version"].map(kernel).join(" "),
        unix_seconds: netrig_host::realtime_nanos() / 1_000_000_000,
        role,
        cookie,
        asked,
        mss: 0,
        send_buffer: 0,
        receive_buffer: 0,
    }
}
