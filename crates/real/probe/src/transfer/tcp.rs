//! TCP transfers to a receiver over several connections, sampled with TCP_INFO.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use netrig_core::Duration;
use rustix::io::Errno;

use super::metrics::{Framework, TcpPath};
use super::verdict::{TransferObservation, TransferWatch};
use crate::ProbeError;
use crate::receiver::{LONGEST, MOST_CONNECTIONS, Remote};
use netrig_bulk::Effort;
use netrig_host::socket::SocketBuilder;
use netrig_host::socket::TcpOptions;
use netrig_host::{HostAddress, TcpCounts, TcpInfo, monotonic_nanos, writable};

/// Time-out of a connection attempt, ns.
const CONNECT_PATIENCE: u64 = 10_000_000_000;
/// Bytes of one write.
const BLOCK: usize = 64 << 10;

/// Settings of a transfer.
#[derive(Clone, Debug)]
pub struct TcpOrder {
    /// Application bytes of all connections together.
    pub bytes: u64,
    /// Connections, 1 to [`MOST_CONNECTIONS`].
    pub streams: u16,
    /// Options of the sockets.
    pub options: TcpOptions,
    /// DSCP of the packets, below 64.
    pub dscp: u8,
    /// Highest rate of the path, bits of IP packets per second, if known.
    pub bottleneck_bits_per_s: Option<f64>,
    /// Interval of the TCP_INFO samples.
    pub sample_every: Duration,
}

/// A sample of all connections together.
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
    /// Application bytes that the receiver confirmed. For an interrupted transfer, the bytes that were acknowledged by
    /// then.
    pub bytes: u64,
    /// Time from the first connection request until the receiver had everything, s.
    pub took_s: f64,
    /// Time from the first byte given to the kernel until the receiver had everything, s.
    pub transfer_s: f64,
    /// Baseline round-trip time: that of the handshakes, before the path was filled.
    pub round_trip: Duration,
    /// Properties of the path, if its bottleneck is known.
    pub path: Option<TcpPath>,
    /// The kernel's estimate of the path MTU, bytes (RFC 6349 section 3.1). The minimum of all connections.
    pub path_mtu: u32,
    /// Payload of a full segment, bytes. The minimum of all connections.
    pub segment: u32,
    /// Sum of the send buffer sizes at the end, bytes, including the kernel's book-keeping (`SO_SNDBUF`).
    pub send_buffer: u64,
    /// The largest sum of the windows that the far end offered, bytes; 0 if the kernel does not report it.
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
    /// Reasons why an end, and not the path, was the limit, or that the transfer was interrupted. Empty if the results
    /// are valid.
    pub faults: Vec<String>,
    /// The transfer was interrupted; the results cover the time until then.
    pub interrupted: bool,
}

/// Sends the bytes of an order to a receiver.
///
/// If the receiver or a socket fails, if the receiver got a different number of bytes, or if `cancel` was set before
/// any byte arrived.
pub fn tcp(remote: &mut Remote, order: &TcpOrder, cancel: &AtomicBool) -> Result<TcpReport, ProbeError> {
    let streams = order.streams.clamp(1, MOST_CONNECTIONS);
    let to = remote.sink(streams, LONGEST)?;
    let begun = monotonic_nanos();
    let connections =
        (0..streams).map(|_| connect(remote.local()?, to, order, cancel)).collect::<Result<Vec<_>, _>>()?;
    let congestion = rustix::net::sockopt::tcp_congestion(&connections[0])
        .map_err(|error| ProbeError::kernel("TCP_CONGESTION")(error.into()))?;
    // The handshakes measure the idle path: RFC 6349 section 3.2.
    let opening = infos(&connections)?;
    let round_trip =
        opening.iter().filter_map(|info| info.min_rtt).min().unwrap_or_else(|| remote.round_trip());
    let (watch, first) = (TransferWatch::start(), monotonic_nanos());
    let Carried { samples, wanted_s, sunk, ended } = carry(&connections, remote, order, first, cancel)?;
    let interrupted = sunk.is_none();
    let last = infos(&connections)?;
    let bytes = sunk.or_else(|| acknowledged(&opening, &last)).ok_or(ProbeError::Interrupted)?;
    let transfer_s = (ended - first) as f64 * 1e-9;
    let segment = last.iter().min_by_key(|info| info.segment).copied().unwrap_or_default();
    let path = order.bottleneck_bits_per_s.map(|rate| path_over(to, &segment, round_trip, rate));
    let counts = last.iter().fold(TcpCounts::default(), |mut all, info| {
        all += info.counts;
        all
    });
    let trips = [mean_trip(&samples, &last), Some(round_trip.as_secs_f64())];
    let again = counts.bytes_retransmitted as f64 / counts.bytes_sent.max(1) as f64;
    let ideal = path.as_ref().map(TcpPath::ideal_bytes_per_s);
    let framework = (bytes > 0 && transfer_s > 0.0)
        .then(|| Framework::of(bytes as f64 / transfer_s, ideal, again, trips));
    let mut seen = TransferObservation { wanted_s, trips, ..TransferObservation::default() };
    last.iter().for_each(|info| seen.add(info));
    let mut faults: Vec<_> = watch.limits(last.len(), &seen).into_iter().map(|limit| limit.why).collect();
    faults.extend(framework.and_then(|framework| framework.fault()));
    faults.extend(
        interrupted.then(|| format!("the transfer was interrupted after {bytes} B of {} B", order.bytes)),
    );
    let windows = samples.iter().map(|sample| sample.window).chain([windows(&last)]);
    Ok(TcpReport {
        bytes,
        took_s: (ended - begun) as f64 * 1e-9,
        transfer_s,
        round_trip,
        path,
        path_mtu: last.iter().map(|info| info.path_mtu).min().unwrap_or_default(),
        segment: segment.segment,
        send_buffer: send_buffers(&connections)?,
        far_window: windows.max().unwrap_or_default(),
        framework,
        congestion: String::from_utf8_lossy(congestion.as_ref()).into_owned(),
        segments: counts.data_segments_sent,
        sent_again: counts.bytes_retransmitted,
        timeouts: counts.timeouts,
        samples,
        faults,
        interrupted,
    })
}

/// Bytes acknowledged between two samples; nothing if there were none.
fn acknowledged(opening: &[TcpInfo], last: &[TcpInfo]) -> Option<u64> {
    let of = |infos: &[TcpInfo]| infos.iter().map(|info| info.counts.bytes_acknowledged).sum::<u64>();
    of(last).checked_sub(of(opening)).filter(|bytes| *bytes > 0)
}

/// Waits until all connections are closed, and checks that all bytes arrived.
fn all_sunk(remote: &mut Remote, sent: u64) -> Result<u64, ProbeError> {
    let bytes = remote.sunk()?;
    if bytes != sent {
        let why = format!("{bytes} B of {sent} B arrived");
        return Err(ProbeError::Refused { target: remote.target(), why });
    }
    Ok(bytes)
}

/// The path to an address, over which the kernel sends segments like the last.
fn path_over(to: SocketAddr, last: &TcpInfo, round_trip: Duration, bottleneck_bits_per_s: f64) -> TcpPath {
    // IP and TCP headers, and the time stamps option (RFC 7323) if it was negotiated.
    let headers = if to.is_ipv4() { 40 } else { 60 } + if last.has_timestamps { 12 } else { 0 };
    TcpPath { round_trip, bottleneck_bits_per_s, segment: last.segment, headers }
}

fn windows(infos: &[TcpInfo]) -> u64 {
    infos.iter().map(|info| info.window).sum()
}

fn send_buffers(connections: &[TcpStream]) -> Result<u64, ProbeError> {
    let size = |stream| rustix::net::sockopt::socket_send_buffer_size(stream).map(|size| size as u64);
    let all: Result<u64, Errno> = connections.iter().map(size).sum();
    all.map_err(|error| ProbeError::kernel("SO_SNDBUF")(error.into()))
}

/// The mean smoothed round-trip time during a transfer, s. If it was too short for samples, that at its end.
fn mean_trip(samples: &[TcpSample], last: &[TcpInfo]) -> Option<f64> {
    let watched: Vec<f64> = samples.iter().filter_map(|sample| sample.srtt_s).collect();
    if watched.is_empty() { mean(last.iter().filter_map(srtt_s).collect()) } else { mean(watched) }
}

fn mean(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn srtt_s(info: &TcpInfo) -> Option<f64> {
    info.srtt.map(Duration::as_secs_f64)
}

fn infos(connections: &[TcpStream]) -> Result<Vec<TcpInfo>, ProbeError> {
    let all: io::Result<Vec<TcpInfo>> = connections.iter().map(TcpInfo::read).collect();
    all.map_err(ProbeError::kernel("TCP_INFO"))
}

/// Opens one connection.
fn connect(
    local: SocketAddr,
    to: SocketAddr,
    order: &TcpOrder,
    cancel: &AtomicBool,
) -> Result<TcpStream, ProbeError> {
    let socket = SocketBuilder::tcp(&order.options, order.dscp, HostAddress::from(local).at(0))?.bound()?;
    let failed = |error: Errno| ProbeError::Connect { target: to, source: error.into() };
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(failed(error)),
    }
    let deadline = monotonic_nanos() + CONNECT_PATIENCE;
    while !writable(&socket).map_err(ProbeError::kernel("poll"))? {
        if cancel.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        if monotonic_nanos() > deadline {
            return Err(failed(Errno::TIMEDOUT));
        }
    }
    match rustix::net::sockopt::socket_error(&socket) {
        Ok(Ok(())) => Ok(TcpStream::from(socket)),
        Ok(Err(error)) | Err(error) => Err(failed(error)),
    }
}

/// Results of the sending phase.
struct Carried {
    samples: Vec<TcpSample>,
    /// Time for which the threads ran or waited for a processor, s.
    wanted_s: f64,
    /// Bytes that the receiver got; nothing if the sending was interrupted.
    sunk: Option<u64>,
    /// Time at which the receiver had them, ns of `CLOCK_MONOTONIC`.
    ended: u64,
}

/// Sends everything with a thread for each connection, and samples TCP_INFO until the receiver has it. The sampling
/// delays no thread.
fn carry(
    connections: &[TcpStream],
    remote: &mut Remote,
    order: &TcpOrder,
    first: u64,
    cancel: &AtomicBool,
) -> Result<Carried, ProbeError> {
    let left = Mutex::new(order.bytes);
    // The whole effort of each thread counts: it does nothing else.
    let pour = |stream| pour(stream, &left, cancel).map(|()| Effort::of_this_thread().wanted_s());
    std::thread::scope(|scope| {
        // On every return the sender of the channel is dropped, which ends the sampling.
        let (over, is_over) = mpsc::channel();
        let watching = scope.spawn(move || watch(connections, order.sample_every, first, &is_over));
        let senders: Vec<_> = connections.iter().map(|stream| scope.spawn(move || pour(stream))).collect();
        let mut wanted_s = 0.0;
        for sender in senders {
            let poured = sender.join().map_err(|_| ProbeError::Panicked)?;
            wanted_s += poured.map_err(ProbeError::kernel("send"))?;
        }
        let interrupted = cancel.load(Ordering::Relaxed);
        let sunk = if interrupted { None } else { Some(all_sunk(remote, order.bytes)?) };
        let ended = monotonic_nanos();
        drop(over);
        let samples = watching.join().map_err(|_| ProbeError::Panicked)??;
        Ok(Carried { samples, wanted_s, sunk, ended })
    })
}

/// Samples TCP_INFO until the sender of the channel is dropped.
fn watch(
    connections: &[TcpStream],
    every: Duration,
    first: u64,
    is_over: &Receiver<()>,
) -> Result<Vec<TcpSample>, ProbeError> {
    let mut samples = Vec::new();
    while is_over.recv_timeout(every.into()) == Err(RecvTimeoutError::Timeout) {
        samples.push(sample(&infos(connections)?, first));
    }
    Ok(samples)
}

/// Sends blocks while bytes are left, then closes the sending side; or returns when `cancel` is set. Faster connections
/// send more.
fn pour(mut stream: &TcpStream, left: &Mutex<u64>, cancel: &AtomicBool) -> io::Result<()> {
    let zeros = vec![0; BLOCK];
    loop {
        let size = {
            let mut left = left.lock().map_err(|_| io::ErrorKind::Other)?;
            let size = (*left).min(BLOCK as u64);
            *left -= size;
            size as usize
        };
        if size == 0 {
            return stream.shutdown(Shutdown::Write);
        }
        let mut block = &zeros[..size];
        while !block.is_empty() {
            if cancel.load(Ordering::Relaxed) {
                return Ok(());
            }
            match stream.write(block) {
                Ok(sent) => block = &block[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    writable(stream)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn sample(infos: &[TcpInfo], first: u64) -> TcpSample {
    TcpSample {
        at_s: (monotonic_nanos() - first) as f64 * 1e-9,
        cwnd: infos.iter().map(|info| info.cwnd).sum(),
        flight: infos.iter().map(|info| info.flight).sum(),
        srtt_s: mean(infos.iter().filter_map(srtt_s).collect()),
        delivery_bytes_per_s: infos.iter().map(|info| info.delivery_rate).sum(),
        sent_again: infos.iter().map(|info| info.counts.bytes_retransmitted).sum(),
        window: windows(infos),
    }
}
