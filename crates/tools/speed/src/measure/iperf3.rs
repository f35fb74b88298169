//! Measurements against an iperf3 server, and documents in the format of iperf3.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration as StdDuration, Instant};

use netrig_core::Duration;

use super::call::CarriedPhase;
use super::phase_reports::{self, CompletedTask};
use super::progress::MeasureProgress;
use super::report::SpeedReport;
use crate::carry::PhaseOutcome;
use crate::flows::{self, StreamFindings, StreamMark, StreamRecord, TestError, TestOrder, TestOutcome};
use crate::iperf3::{
    CpuUse, SessionError, StreamPath, StreamTotals, TestDocument, TestParameters, TestResults, TestRole,
};
use crate::iperf3::{StreamReadings, TcpReadings, TestTransport, UdpReadings, stream_id};
use crate::protocol::{
    Carrier, ConnectionCounts, DataDirection, DatagramCounts, DatagramLoad, Datagrams, EndReport,
    MeasurementPhase,
};

/// Time for which a server may still be busy with the previous test, and the interval of retries.
const UNTIL_FREE: StdDuration = StdDuration::from_secs(3);
const AGAIN: StdDuration = StdDuration::from_millis(100);

/// The order of a measurement against an iperf3 server.
#[derive(Clone, Debug)]
pub struct Iperf3Order {
    /// The address of the server.
    pub server: SocketAddr,
    /// The name of the server as the user gave it.
    pub host: String,
    /// The phases, in order.
    pub phases: Vec<MeasurementPhase>,
}

/// Why a measurement against iperf3 failed.
#[derive(Debug, thiserror::Error)]
pub enum Iperf3Error {
    /// The protocol of iperf3 cannot request this phase.
    #[error("iperf3 has no {0}: it supports connections, and datagrams at a fixed rate")]
    Carrier(&'static str),
    /// The test failed.
    #[error(transparent)]
    Test(#[from] TestError),
}

/// Runs one test per phase. Returns the report and the document of each test as `iperf3 -J` would print it.
///
/// # Errors
/// If nothing could be measured. If a later test failed, the report is partial.
pub fn measure_iperf3(
    order: &Iperf3Order,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<(SpeedReport, Vec<TestDocument>), Iperf3Error> {
    let (mut done, mut documents) = (Vec::new(), Vec::new());
    let (mut client, mut broken) = (order.server, None);
    for (place, phase) in order.phases.iter().enumerate() {
        progress(MeasureProgress::Task(place));
        let asked = asked(phase)?;
        let receives = asked.direction != DataDirection::Up;
        let way = if receives { DataDirection::Down } else { DataDirection::Up };
        let (server, host) = (order.server, order.host.clone());
        let test = TestOrder { server, host, asked, every: phase.every() };
        let tested = test_when_free(&test, place > 0, cancel, &mut |at_s, [received, sent]| {
            progress(MeasureProgress::Arrived { way, at_s, bytes: if receives { received } else { sent } });
        });
        let tested = match tested {
            Ok(tested) => tested,
            Err(error) if done.is_empty() => return Err(error.into()),
            // Earlier results are kept.
            Err(error) => {
                broken = Some(error.to_string());
                break;
            }
        };
        client = tested.ends[0];
        broken = tested.error.as_ref().map(ToString::to_string);
        let carriage = carriage(&tested, phase, place as u32 + 1);
        done.push(CompletedTask { carriage, found: None });
        documents.push(tested.document());
        if broken.is_some() {
            break;
        }
    }
    Ok((phase_reports::report([client, order.server], done, None, None, broken), documents))
}

/// Runs a test. The server may still be busy with the previous test, so the connection is retried.
fn test_when_free(
    order: &TestOrder,
    is_behind_another: bool,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(f64, [u64; 2]),
) -> Result<TestOutcome, TestError> {
    let begun = Instant::now();
    loop {
        match flows::test(order, cancel, watch) {
            Err(
                TestError::Session(SessionError::Busy | SessionError::Closed(_)) | TestError::Connect { .. },
            ) if is_behind_another && begun.elapsed() < UNTIL_FREE => {
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

/// The parameters for a phase.
fn asked(phase: &MeasurementPhase) -> Result<TestParameters, Iperf3Error> {
    // iperf3 supports only whole seconds.
    let time = phase.lasts_ns.div_ceil(1_000_000_000).try_into().unwrap_or(u32::MAX);
    let every = TestParameters { time, ..TestParameters::default() };
    match &phase.carrier {
        Carrier::Idle => Err(Iperf3Error::Carrier("idle path")),
        Carrier::Tcp { way, streams, congestion } => Ok(TestParameters {
            direction: *way,
            parallel: (*streams).into(),
            congestion: congestion.clone(),
            ..every
        }),
        Carrier::Udp { way, size, load: DatagramLoad::Fixed { bits_per_s } } => Ok(TestParameters {
            transport: TestTransport::Udp,
            direction: *way,
            len: (*size).into(),
            rate: *bits_per_s,
            ..every
        }),
        Carrier::Udp { load: DatagramLoad::Poisson { .. }, .. } => Err(Iperf3Error::Carrier("random gaps")),
        Carrier::Sctp { .. } => Err(Iperf3Error::Carrier("SCTP over UDP")),
        Carrier::Udp { load: DatagramLoad::Told, .. } => {
            Err(Iperf3Error::Carrier("search for a line's capacity"))
        }
    }
}

/// Converts a test to a phase of a measurement.
fn carriage(tested: &TestOutcome, phase: &MeasurementPhase, number: u32) -> CarriedPhase {
    let found = &tested.found;
    // The threads of both directions read at different times. The times of the stream with the most readings are used
    // for both.
    let longest = found.streams.iter().max_by_key(|stream| stream.marks().count());
    let times: Vec<u64> =
        longest.map(|stream| stream.marks().map(|(at, _)| at).collect()).unwrap_or_default();
    let lasted = times.last().copied().unwrap_or(0);
    let (mut near, mut far) = (PhaseOutcome::default(), PhaseOutcome::default());
    for (stream, number) in found.streams.iter().zip(0..) {
        let told = tested.theirs.as_ref();
        let segment = found.report.segment.unwrap_or(0);
        tell((stream, number, &times), [&mut near, &mut far], told, segment);
    }
    // iperf3's documents have no distribution of losses, so it is omitted.
    let datagrams = found.report.datagrams.map(|all| Datagrams { loss_periods: None, ..all });
    near.report = EndReport { datagrams, ..found.report.clone() };
    far.report.congestion = tested.theirs.as_ref().and_then(|theirs| theirs.congestion.clone());
    // The server is assumed to send segments of the same size, because the path is the same.
    (far.report.segment, far.report.timestamps) = (near.report.segment, near.report.timestamps);
    far.report.path_mtu = near.report.path_mtu;
    CarriedPhase {
        phase: MeasurementPhase { number, ..phase.clone() },
        span: [found.begun, found.begun + lasted],
        near,
        far,
        talked: None,
        cut_short: tested.error.is_some(),
    }
}

/// Adds the counts of a stream at both ends. The server reports totals only. For datagrams that it receives and for
/// data that it sends, the distribution over time is assumed to be that of this end.
fn tell(
    (stream, number, times): (&StreamFindings, u16, &[u64]),
    [near, far]: [&mut PhaseOutcome; 2],
    told: Option<&TestResults>,
    segment: u32,
) {
    let marks: Vec<StreamMark> = stream.marks().map(|(_, mark)| mark).collect();
    let told = told.and_then(|told| told.stream(stream.id));
    let ours = stream.end();
    let scale = |value: u64, theirs: u64, ours: u64| {
        if ours == 0 { 0 } else { (value as f64 * (theirs as f64 / ours as f64)).round() as u64 }
    };
    let is_udp = ours.udp.packets > 0;
    // The server reports its retransmissions as a total number of segments.
    let again = told.and_then(|told| told.retransmits).map(|count| count.saturating_mul(u64::from(segment)));
    // Data that arrived over connections after the end of the test were in flight, so the last reading does not form an
    // interval.
    let readings = if is_udp { times.len() } else { times.len().saturating_sub(1) };
    for (place, at_ns) in times.iter().copied().enumerate().take(readings.max(2)).skip(1) {
        let Some(mark) = marks.get(place).or(marks.last()).copied() else { return };
        let theirs = told.map_or(0, |told| scale(mark.bytes, told.bytes, ours.bytes));
        if is_udp && stream.sends && told.is_none() {
            // The server has not reported how many datagrams arrived.
            continue;
        }
        if is_udp {
            let lost = told.map_or(0, |told| scale(mark.udp.packets, told.errors, ours.udp.packets));
            let (to, bytes, lost) = if stream.sends {
                (&mut *far, theirs, lost)
            } else {
                (&mut *near, mark.bytes, mark.udp.lost)
            };
            let expected = mark.udp.packets;
            let received = expected.saturating_sub(lost);
            // The server reports its jitter only for the whole test.
            let jitter_ns = (!stream.sends).then_some((mark.udp.jitter * 1e9).round() as u64);
            to.heard.push(DatagramCounts {
                at_ns,
                received,
                dropped: (!stream.sends).then_some(mark.dropped),
                expected,
                bytes,
                jitter_ns,
                ..DatagramCounts::default()
            });
        } else {
            let of = |received, sent| ConnectionCounts {
                at_ns,
                stream: number,
                received,
                sent,
                ..ConnectionCounts::default()
            };
            if stream.sends {
                near.counted.push(ConnectionCounts {
                    at_ns,
                    stream: number,
                    received: 0,
                    sent: mark.bytes,
                    ..mark.kernel
                });
                // The server reports received bytes only at the end, so acknowledged bytes are used.
                far.counted.push(of(mark.kernel.acknowledged.unwrap_or(0), 0));
            } else {
                let ConnectionCounts { segments, has_hole, .. } = mark.kernel;
                near.counted.push(ConnectionCounts { segments, has_hole, ..of(mark.bytes, 0) });
                // The round-trip time of the connection is measured by the kernel of this end.
                let ConnectionCounts { srtt_ns, min_rtt_ns, .. } = mark.kernel;
                let sent_again = again.map(|again| scale(mark.bytes, again, ours.bytes));
                // The server has transmitted the received bytes and the retransmissions.
                let transmitted = sent_again.map(|again| mark.bytes.saturating_add(again));
                let of_far = of(0, theirs);
                far.counted.push(ConnectionCounts { srtt_ns, min_rtt_ns, transmitted, sent_again, ..of_far });
            }
        }
    }
    // A server does not report late datagrams, duplicates, or drops of its socket.
    match told.filter(|_| is_udp) {
        Some(told) if stream.sends => {
            let all = far.report.datagrams.get_or_insert_default();
            all.received += told.packets.saturating_sub(told.errors);
            all.lost += told.errors;
            all.jitter_s = Some(told.jitter);
        }
        _ if is_udp && !stream.sends => {
            let sent = told.map_or(ours.udp.packets, |told| told.packets);
            far.report.datagrams.get_or_insert_default().sent += sent;
        }
        _ => {}
    }
}

impl CarriedPhase {
    /// Converts a phase of netrig's own protocol to the document that `iperf3 -c -J` would print. `None` for an idle
    /// phase.
    pub fn document(&self, host: &str, server: SocketAddr, client: SocketAddr) -> Option<TestDocument> {
        let way = self.phase.way()?;
        let asked = self.asked(way);
        let role = TestRole::Client { host: host.to_owned(), port: server.port() };
        let mut start = flows::start(role, format!("phase-{}", self.phase.number), asked);
        let report = &self.near.report;
        start.mss = report.segment.or(self.far.report.segment).unwrap_or(0);
        [start.send_buffer, start.receive_buffer] = flows::buffers_in_32_bits(report);
        let halves = [(DataDirection::Up, true), (DataDirection::Down, false)];
        let halves = halves.into_iter().filter(|(half, _)| way == *half || way == DataDirection::Both);
        let streams = halves.flat_map(|(_, sends)| self.streams(sends));
        let streams = streams.zip(0..).map(|(readings, nth)| StreamReadings {
            path: StreamPath { socket: 4 + stream_id(nth), local: client, remote: server },
            ..readings
        });
        Some(TestDocument {
            start,
            streams: streams.collect(),
            cpu: cpu(report, self.phase.lasts()),
            remote_cpu: cpu(&self.far.report, self.phase.lasts()),
            congestion: report.congestion.clone(),
            remote_congestion: self.far.report.congestion.clone(),
            server_output: None,
            error: self.cut_short.then(|| "the measurement ended early".to_owned()),
        })
    }

    fn asked(&self, way: DataDirection) -> TestParameters {
        // iperf3 has no search and no random gaps: such a phase is described as datagrams at a fixed rate.
        asked(&self.phase).unwrap_or_else(|_| {
            let load = DatagramLoad::Fixed { bits_per_s: 0 };
            let size = if let Carrier::Udp { size, .. } = self.phase.carrier { size } else { 0 };
            let carrier = Carrier::Udp { way, size, load };
            asked(&MeasurementPhase { carrier, ..self.phase.clone() }).unwrap_or_default()
        })
    }

    /// The readings of the streams that this end sends, or of those that it receives.
    fn streams(&self, sends: bool) -> Vec<StreamReadings> {
        let (near, far) = (&self.near, &self.far);
        if let Carrier::Udp { size, .. } = self.phase.carrier {
            return vec![datagrams(near, far, sends, size.into())];
        }
        let numbers = 0..self.phase.streams();
        numbers.map(|number| stream(near, far, sends, number)).collect()
    }
}

const PATH: StreamPath = StreamPath {
    socket: 0,
    local: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
    remote: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
};

fn stream(near: &PhaseOutcome, far: &PhaseOutcome, sends: bool, number: u16) -> StreamReadings {
    let record = |outcome: &PhaseOutcome, sends: bool| {
        let segment = u64::from(outcome.report.segment.unwrap_or(1).max(1));
        let path_mtu = outcome.report.path_mtu.unwrap_or(0).into();
        let counted = outcome.counted.iter().filter(|counted| counted.stream == number);
        StreamRecord::of_rows(counted.map(|now| {
            let tcp = TcpReadings {
                retransmits: now.sent_again.unwrap_or(0) / segment,
                congestion_window: now.cwnd,
                send_window: now.window,
                rtt: now.srtt_ns.unwrap_or(0) / 1_000,
                path_mtu,
                ..TcpReadings::default()
            };
            let (bytes, tcp) = if sends { (now.sent, Some(tcp)) } else { (now.received, None) };
            (now.at_ns, StreamMark { bytes, tcp, ..StreamMark::default() })
        }))
    };
    let (local, remote) = (record(near, sends), record(far, !sends));
    let end = |record: &StreamRecord| (record.rows().len() > 1).then(|| record.end(0));
    StreamReadings {
        path: PATH,
        sends,
        intervals: local.intervals(0),
        local: end(&local),
        remote: end(&remote),
    }
}

fn datagrams(near: &PhaseOutcome, far: &PhaseOutcome, sends: bool, size: u64) -> StreamReadings {
    let (sender, receiver) = if sends { (near, far) } else { (far, near) };
    let record = StreamRecord::of_rows(receiver.heard.iter().map(|now| {
        let udp = UdpReadings {
            packets: now.expected,
            lost: now.expected.saturating_sub(now.received),
            jitter: now.jitter_ns.map_or(0.0, |ns| ns as f64 * 1e-9),
            ..UdpReadings::default()
        };
        let bytes = if sends { now.expected.saturating_mul(size) } else { now.bytes };
        (now.at_ns, StreamMark { bytes, udp, ..StreamMark::default() })
    }));
    let [sent, came] = [sender, receiver].map(|end| end.report.datagrams.unwrap_or_default());
    let seconds = record.span_s()[1];
    let sent_end = StreamTotals {
        seconds,
        bytes: sent.sent.saturating_mul(size),
        retransmits: None,
        udp: UdpReadings { packets: sent.sent, ..UdpReadings::default() },
    };
    let lost = came.lost;
    let udp = UdpReadings {
        packets: came.received.saturating_add(lost),
        lost,
        out_of_order: came.reordered.unwrap_or(0),
        jitter: came.jitter_s.unwrap_or(0.0),
    };
    let bytes = receiver.heard.last().map_or(0, |last| last.bytes);
    let came_end = StreamTotals { seconds, bytes, retransmits: None, udp };
    let (local, remote) = if sends { (sent_end, came_end) } else { (came_end, sent_end) };
    let intervals = record.intervals(0);
    StreamReadings { path: PATH, sends, intervals, local: Some(local), remote: Some(remote) }
}

/// Processor time of the transfer, per cent of one processor. Nearly all of it is kernel time, but the exact share is
/// not known.
fn cpu(report: &EndReport, lasts: Duration) -> CpuUse {
    let total = 100.0 * report.ran_ns as f64 / lasts.as_nanos().max(1) as f64;
    CpuUse { total, user: 0.0, system: total }
}
