//! TCP to a receiver: so many bytes over so many connections, watched by TCP_INFO.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::metrics::{Framework, Path};
use crate::probe::ProbeFailure;
use crate::probe::receiver::{LONGEST, MOST_CONNECTIONS, Remote};
use crate::socket::Making;
use crate::{TcpInfo, TcpOptions, monotonic_nanos};

/// How long a connection may take to be made, ns.
const CONNECT_PATIENCE: u64 = 10_000_000_000;
/// Given to the kernel at a time.
const BLOCK: usize = 64 << 10;
/// A full segment without options over Ethernet, and its headers, where the kernel does not tell.
const ETHERNET_IP: u32 = 1500;

/// A transfer that is to be made.
#[derive(Clone, Debug)]
pub struct TcpOrder {
    /// Application bytes over all connections together.
    pub bytes: u64,
    /// Connections, 1 to [`MOST_CONNECTIONS`].
    pub streams: u16,
    /// What the sockets are made with.
    pub options: TcpOptions,
    /// Code point of the packets, below 64.
    pub dscp: u8,
    /// What the path carries at most, bits of IP packets per second, if it is known.
    pub bottleneck_bits_per_s: Option<f64>,
    /// How often TCP_INFO is read.
    pub sample_every: Duration,
}

/// A reading of all connections together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpSample {
    /// Since the start, s.
    pub at_s: f64,
    /// Congestion windows, bytes.
    pub cwnd: u64,
    /// User bytes outstanding.
    pub flight: u64,
    /// Mean smoothed round-trip time, s.
    pub srtt_s: Option<f64>,
    /// Delivery rates, bytes per second.
    pub delivery_bytes_per_s: u64,
    /// User bytes sent again since the start.
    pub sent_again: u64,
}

/// What became of a transfer.
#[derive(Clone, Debug)]
pub struct TcpReport {
    /// Application bytes that were sent, and that the receiver says it got.
    pub bytes: u64,
    /// From the first connection's request until the receiver had everything, s.
    pub took_s: f64,
    /// From the first byte given to the kernel until the receiver had everything, s.
    pub transfer_s: f64,
    /// Baseline round-trip time: of the handshakes, before the path was filled.
    pub round_trip: Duration,
    /// What the path could carry, if its bottleneck is known.
    pub path: Option<Path>,
    /// RFC 6349's metrics.
    pub framework: Option<Framework>,
    /// The congestion control that the kernel used.
    pub congestion: String,
    /// Segments with data that were sent, first time or again.
    pub segments: u64,
    /// User bytes sent again.
    pub sent_again: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Readings of TCP_INFO.
    pub samples: Vec<TcpSample>,
}

/// Sends so many bytes to a receiver.
///
/// # Errors
/// If the receiver or a socket fails, or the receiver got something else than was sent; if `cancel` was set.
pub fn tcp(remote: &mut Remote, order: &TcpOrder, cancel: &AtomicBool) -> Result<TcpReport, ProbeFailure> {
    let streams = order.streams.clamp(1, MOST_CONNECTIONS);
    let to = remote.sink(streams, LONGEST)?;
    let begun = monotonic_nanos();
    let connections =
        (0..streams).map(|_| connect(remote.local()?, to, order, cancel)).collect::<Result<Vec<_>, _>>()?;
    let congestion = rustix::net::sockopt::tcp_congestion(&connections[0])
        .map_err(|error| ProbeFailure::step("TCP_CONGESTION")(error.into()))?;
    // The handshake of an idle path: RFC 6349 section 3.2.
    let handshakes: Vec<TcpInfo> = infos(&connections)?;
    let round_trip =
        handshakes.iter().filter_map(|info| info.min_rtt).min().unwrap_or_else(|| remote.round_trip());
    let first = monotonic_nanos();
    let (samples, sent) = carry(&connections, order, first, cancel)?;
    let last = infos(&connections)?;
    drop(connections);
    let bytes = remote.sunk()?;
    let ended = monotonic_nanos();
    if bytes != sent {
        let why = format!("{bytes} B of {sent} B arrived");
        return Err(ProbeFailure::Refused { target: to, why });
    }
    let transfer_s = (ended - first) as f64 * 1e-9;
    let headers = if to.is_ipv4() { 40 } else { 60 };
    // Every kernel has time stamps on (RFC 7323): twelve bytes of options.
    let (headers, segment) = (headers + 12, ETHERNET_IP - headers - 12);
    let known = |bottleneck_bits_per_s| Path { round_trip, bottleneck_bits_per_s, segment, headers };
    let path = order.bottleneck_bits_per_s.map(known);
    let sent_again = last.iter().map(|info| info.counts.bytes_retransmitted).sum();
    let trips: Vec<f64> = samples.iter().filter_map(|sample| sample.srtt_s).collect();
    let mean_trip = (!trips.is_empty()).then(|| trips.iter().sum::<f64>() / trips.len() as f64);
    Ok(TcpReport {
        bytes,
        took_s: (ended - begun) as f64 * 1e-9,
        transfer_s,
        round_trip,
        path,
        framework: Framework::of(
            path.as_ref(),
            bytes,
            transfer_s,
            sent_again,
            [mean_trip, Some(round_trip.as_secs_f64())],
        ),
        congestion: String::from_utf8_lossy(congestion.as_ref()).into_owned(),
        segments: last.iter().map(|info| info.counts.data_segments_sent).sum(),
        sent_again,
        timeouts: last.iter().map(|info| info.counts.timeouts).sum(),
        samples,
    })
}

fn infos(connections: &[TcpStream]) -> Result<Vec<TcpInfo>, ProbeFailure> {
    let all: io::Result<Vec<TcpInfo>> = connections.iter().map(TcpInfo::read).collect();
    all.map_err(ProbeFailure::step("TCP_INFO"))
}

/// One connection, made.
fn connect(
    local: SocketAddr,
    to: SocketAddr,
    order: &TcpOrder,
    cancel: &AtomicBool,
) -> Result<TcpStream, ProbeFailure> {
    let socket = Making::tcp(&order.options, order.dscp, SocketAddr::new(local.ip(), 0))?.bound()?;
    let failed = |error: Errno| ProbeFailure::Connect { target: to, source: error.into() };
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(failed(error)),
    }
    let deadline = monotonic_nanos() + CONNECT_PATIENCE;
    while !writable(&socket).map_err(ProbeFailure::step("poll"))? {
        if cancel.load(Ordering::Relaxed) {
            return Err(ProbeFailure::Interrupted);
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

/// Waits a little for room in a socket.
fn writable(socket: impl AsFd) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sends everything, a thread for each connection, and reads TCP_INFO all the while. What was read, and how much was sent.
fn carry(
    connections: &[TcpStream],
    order: &TcpOrder,
    first: u64,
    cancel: &AtomicBool,
) -> Result<(Vec<TcpSample>, u64), ProbeFailure> {
    let left = Mutex::new(order.bytes);
    let samples = std::thread::scope(|scope| {
        let senders: Vec<_> =
            connections.iter().map(|stream| scope.spawn(|| pour(stream, &left, cancel))).collect();
        let mut samples = Vec::new();
        while senders.iter().any(|sender| !sender.is_finished()) {
            std::thread::sleep(order.sample_every.into());
            samples.push(sample(&infos(connections)?, first));
        }
        for sender in senders {
            sender.join().map_err(|_| ProbeFailure::Panicked)?.map_err(ProbeFailure::step("send"))?;
        }
        Ok::<_, ProbeFailure>(samples)
    })?;
    if cancel.load(Ordering::Relaxed) {
        return Err(ProbeFailure::Interrupted);
    }
    // Nothing more comes from here: the receiver sees the end of each.
    for stream in connections {
        stream.shutdown(std::net::Shutdown::Write).map_err(ProbeFailure::step("shutdown"))?;
    }
    Ok((samples, order.bytes))
}

/// Sends blocks while there are some, until `cancel` is set; connections that are faster send more.
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
            return Ok(());
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
    let trips: Vec<f64> = infos.iter().filter_map(|info| info.srtt).map(Duration::as_secs_f64).collect();
    TcpSample {
        at_s: (monotonic_nanos() - first) as f64 * 1e-9,
        cwnd: infos.iter().map(|info| info.cwnd).sum(),
        flight: infos.iter().map(|info| info.flight).sum(),
        srtt_s: (!trips.is_empty()).then(|| trips.iter().sum::<f64>() / trips.len() as f64),
        delivery_bytes_per_s: infos.iter().map(|info| info.delivery_rate).sum(),
        sent_again: infos.iter().map(|info| info.counts.bytes_retransmitted).sum(),
    }
}
