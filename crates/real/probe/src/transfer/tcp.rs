//! TCP transfers to a receiver over several connections, sampled with TCP_INFO.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use netrig_bulk::{
    ByteBudget, ConnectionCounts, ConnectionSummary, EndReport, MeasuredHost, PacketShape, PartReading,
    PathDelays, Reading, RunningTransfer, StreamEnding, StreamOrder, TransferDirection, TransferEnds,
    TransferPart, connect,
};
use netrig_core::Duration;
use netrig_host::socket::SocketBuilder;
use netrig_host::{HostAddress, InterruptionCounts, Precedence, TcpCounts, TcpInfo, monotonic_nanos};
use netrig_stats::summary::mean;

use super::fault;
use super::metrics::{Framework, TcpPath};
use super::settings::TransferSettings;
use crate::receiver::{LONGEST, MOST_CONNECTIONS, Remote};
use crate::{ProbeError, ProbeResult};

/// Time-out of a connection attempt.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A sample over all connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpSample {
    /// Time since the start, s.
    pub at_s: f64,
    /// Sum of the congestion windows, bytes.
    pub cwnd: u64,
    /// Unacknowledged user bytes.
    pub flight: u64,
    /// Mean smoothed round-trip time, s.
    pub srtt_s: Option<f64>,
    /// Sum of the delivery rates, bytes per second.
    pub delivery_bytes_per_s: u64,
    /// User bytes retransmitted since the start.
    pub sent_again: u64,
    /// Sum of the windows that the far end offers, bytes.
    pub window: u64,
}

/// Results of a transfer.
#[derive(Clone, Debug)]
pub struct TcpReport {
    /// Application bytes that the receiver confirmed. If the transfer was interrupted: the bytes that were acknowledged
    /// before.
    pub bytes: u64,
    /// Time from the first connection request until the receiver had all bytes, s.
    pub took_s: f64,
    /// Time from the first byte given to the kernel until the receiver had all bytes, s.
    pub transfer_s: f64,
    /// Baseline round-trip time, measured in the handshakes, before the path was filled.
    pub round_trip: Duration,
    /// Properties of the path, if its bottleneck is known.
    pub path: Option<TcpPath>,
    /// The kernel's estimate of the path MTU, bytes (RFC 6349 section 3.1). This is the minimum over all connections.
    pub path_mtu: u32,
    /// Payload of a full segment, bytes. This is the minimum over all connections.
    pub segment: u32,
    /// Sum of the send buffer sizes at the end, bytes, including the kernel's book-keeping (`SO_SNDBUF`).
    pub send_buffer: u64,
    /// Maximum over time of the sum of the windows that the far end offered, bytes; 0 if the kernel does not report it.
    pub far_window: u64,
    /// Metrics of RFC 6349.
    pub framework: Option<Framework>,
    /// Congestion control of the kernel.
    pub congestion: String,
    /// Sent segments with data, including retransmissions.
    pub segments: u64,
    /// Retransmitted user bytes.
    pub sent_again: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Samples of TCP_INFO.
    pub samples: Vec<TcpSample>,
    /// Reasons why the results do not describe the path: an end limited the transfer, or it was interrupted. Empty if
    /// the results are valid.
    pub faults: Vec<String>,
    /// Whether the transfer was interrupted. The results then cover the time before the interruption.
    pub interrupted: bool,
}

/// Sends data to a receiver.
///
/// Fails if the receiver or a socket fails, if the receiver got a different number of bytes, or if `cancel` was set
/// before any byte arrived.
pub fn tcp(remote: &mut Remote, settings: &TransferSettings, cancel: &AtomicBool) -> ProbeResult<TcpReport> {
    let (streams, asked) = (settings.streams.clamp(1, MOST_CONNECTIONS), settings.tcp_bytes());
    let to = remote.sink(streams, LONGEST)?;
    let begun = monotonic_nanos();
    let connections =
        (0..streams).map(|_| open(remote.local()?, to, settings, cancel)).collect::<Result<Vec<_>, _>>()?;
    // The handshakes measure the round-trip time of the idle path (RFC 6349 section 3.2).
    let opening = connections.iter().filter_map(|stream| TcpInfo::read(stream).ok()?.min_rtt).min();
    let round_trip = opening.unwrap_or_else(|| remote.round_trip());
    let (mut transfer, interruptions) = (RunningTransfer::begin(None), InterruptionCounts::read());
    let (first, budget) = (monotonic_nanos(), ByteBudget::new(asked));
    // Each connection has a thread, which sends and also takes the samples.
    let begin = |stream| begin(&mut transfer, stream, settings.sample_every, &budget);
    let courses = connections.into_iter().map(begin).collect::<io::Result<Vec<_>>>();
    let courses = courses.map_err(ProbeError::kernel("thread"))?;
    while !cancel.load(Ordering::Relaxed) && !transfer.is_over() && !remote.has_reply()? {}
    let interrupted = cancel.load(Ordering::Relaxed);
    if !interrupted && transfer.is_over() && acknowledged(&courses) < asked {
        return Err(ProbeError::kernel("send")(io::ErrorKind::ConnectionAborted.into()));
    }
    let sunk = if interrupted { None } else { Some(all_sunk(remote, asked)?) };
    let ended = monotonic_nanos();
    let outcome = transfer.end(None, &mut |_| true).map_err(ProbeError::kernel("send"))?;
    let acknowledged = Some(acknowledged(&courses).min(asked)).filter(|bytes| *bytes > 0);
    let bytes = sunk.or(acknowledged).ok_or(ProbeError::Interrupted)?;
    let (samples, last) = samples(&courses, first);
    let (report, transfer_s) = (outcome.report(ended - first), (ended - first) as f64 * 1e-9);
    let segment = report.segment.unwrap_or_default();
    let packet = PacketShape::segment(segment, report.timestamps, to.is_ipv4());
    let path = |bottleneck_bits_per_s| TcpPath { round_trip, bottleneck_bits_per_s, packet };
    let path = settings.bottleneck.map(|rate| path(rate.bits_per_s() as f64));
    let counts = last.iter().fold(TcpCounts::default(), |mut all, info| {
        all += &info.counts;
        all
    });
    let connections = summary(&courses, first);
    let trips = [connections.and_then(|told| told.round_trip_s), Some(round_trip.as_secs_f64())];
    let again = connections.and_then(|told| told.sent_again).unwrap_or(0.0);
    let ideal = path.as_ref().map(TcpPath::ideal_bytes_per_s);
    let framework = (bytes > 0 && transfer_s > 0.0)
        .then(|| Framework::of(bytes as f64 / transfer_s, ideal, again, trips));
    let ends = TransferEnds {
        sends: MeasuredHost::Client,
        sender: &report,
        receiver: &EndReport::default(),
        connections: connections.as_ref(),
        streams,
        payload: Some(bytes as f64 * 8.0 / transfer_s),
        delays: PathDelays::of(trips[0], trips[1]),
    };
    let interruptions = InterruptionCounts::read().since(&interruptions, Precedence::None, false);
    let mut faults: Vec<_> = ends.limit().iter().map(fault).chain(interruptions.fault()).collect();
    faults.extend(framework.and_then(|framework| framework.fault()));
    faults.extend(interrupted.then(|| format!("the transfer was interrupted after {bytes} B of {asked} B")));
    let windows = samples.iter().map(|sample| sample.window).chain([windows(&last)]);
    Ok(TcpReport {
        bytes,
        took_s: (ended - begun) as f64 * 1e-9,
        transfer_s,
        round_trip,
        path,
        path_mtu: report.path_mtu.unwrap_or_default(),
        segment,
        send_buffer: outcome.parts.iter().filter_map(|part| Some(part.buffers?[0])).sum(),
        far_window: windows.max().unwrap_or_default(),
        framework,
        congestion: report.congestion.unwrap_or_default(),
        segments: counts.data_segments_sent,
        sent_again: counts.bytes_retransmitted,
        timeouts: counts.timeouts,
        samples,
        faults,
        interrupted,
    })
}

/// The readings of a connection.
type ConnectionReadings = Arc<Mutex<Vec<Reading>>>;

/// Starts to send over a connection.
fn begin(
    transfer: &mut RunningTransfer,
    socket: TcpStream,
    every: Duration,
    budget: &ByteBudget,
) -> io::Result<ConnectionReadings> {
    let order = StreamOrder {
        direction: TransferDirection::Sends,
        every,
        bytes: Some(budget.clone()),
        pacing: None,
        window: None,
    };
    let part = TransferPart::Streams { sockets: vec![socket], order, ending: StreamEnding::Close };
    let course = ConnectionReadings::default();
    let kept = Arc::clone(&course);
    let keep = move |reading: PartReading<'_>| {
        if let PartReading::Streams(reading) = reading {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(reading.clone());
        }
    };
    transfer.add(part, Box::new(keep))?;
    Ok(course)
}

/// Number of acknowledged bytes in the last readings of all connections.
fn acknowledged(courses: &[ConnectionReadings]) -> u64 {
    let of = |course: &ConnectionReadings| {
        let readings = course.lock().unwrap_or_else(PoisonError::into_inner);
        readings.last().and_then(|last| last.connections[0].acknowledged).unwrap_or(0)
    };
    courses.iter().map(of).sum()
}

/// The samples over all connections, and the last TCP_INFO of each. If a connection ended earlier than others, its last
/// reading is used in their later samples.
fn samples(courses: &[ConnectionReadings], first: u64) -> (Vec<TcpSample>, Vec<TcpInfo>) {
    let courses: Vec<_> =
        courses.iter().map(|course| course.lock().unwrap_or_else(PoisonError::into_inner)).collect();
    let at = |place: usize| -> Vec<TcpInfo> {
        let readings = courses.iter().filter_map(|course| course.get(place).or(course.last()));
        readings.map(|reading| reading.connections[0].info.unwrap_or_default()).collect()
    };
    let count = courses.iter().map(|course| course.len()).max().unwrap_or_default();
    let sampled = (0..count.saturating_sub(1)).map(|place| {
        let at_ns = courses.iter().filter_map(|course| Some(course.get(place)?.at)).max();
        sample(&at(place), at_ns.unwrap_or(first) - first)
    });
    (sampled.collect(), at(usize::MAX))
}

/// The summary of the connections of a transfer that began at `first`.
fn summary(courses: &[ConnectionReadings], first: u64) -> Option<ConnectionSummary> {
    let mut counted = Vec::new();
    for (course, stream) in courses.iter().zip(0..) {
        counted.push(ConnectionCounts { stream, ..ConnectionCounts::default() });
        let readings = course.lock().unwrap_or_else(PoisonError::into_inner);
        counted.extend(readings.iter().map(|reading| ConnectionCounts {
            at_ns: reading.at - first,
            stream,
            ..(&reading.connections[0]).into()
        }));
    }
    ConnectionSummary::of(&counted, 0.0)
}

/// Waits until all connections are closed, and checks that all bytes arrived.
fn all_sunk(remote: &mut Remote, sent: u64) -> ProbeResult<u64> {
    let bytes = remote.sunk()?;
    if bytes != sent {
        let why = format!("{bytes} B of {sent} B arrived");
        return Err(ProbeError::Refused { target: remote.target(), why });
    }
    Ok(bytes)
}

fn windows(infos: &[TcpInfo]) -> u64 {
    infos.iter().map(|info| info.window).sum()
}

/// Opens one connection.
fn open(
    local: SocketAddr,
    to: SocketAddr,
    settings: &TransferSettings,
    cancel: &AtomicBool,
) -> ProbeResult<TcpStream> {
    let local = HostAddress::from(local).at(0);
    let socket = SocketBuilder::tcp(&settings.options(), settings.dscp.0, local)?.bound()?;
    connect(socket, to, CONNECT_PATIENCE, cancel).map_err(|source| match source.kind() {
        io::ErrorKind::Interrupted => ProbeError::Interrupted,
        _ => ProbeError::Connect { target: to, source },
    })
}

fn sample(infos: &[TcpInfo], at_ns: u64) -> TcpSample {
    let trips: Vec<f64> = infos.iter().filter_map(|info| Some(info.srtt?.as_secs_f64())).collect();
    TcpSample {
        at_s: at_ns as f64 * 1e-9,
        cwnd: infos.iter().map(|info| info.cwnd).sum(),
        flight: infos.iter().map(|info| info.flight).sum(),
        srtt_s: (!trips.is_empty()).then(|| mean(&trips)),
        delivery_bytes_per_s: infos.iter().map(|info| info.delivery_rate).sum(),
        sent_again: infos.iter().map(|info| info.counts.bytes_retransmitted).sum(),
        window: windows(infos),
    }
}
