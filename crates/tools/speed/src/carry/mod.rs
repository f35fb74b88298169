//! One end of a phase: the threads that send and receive, their counts, and the counters of their host.
//!
//! The client and the server use the same code. They differ only in the direction of the data.

mod readings;

use std::io;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use netrig_bulk::{
    AssociationOrder, Associations, DatagramSink, DatagramSource, Effort, HostCounters, Radio, Reading,
    SourceOrder, SourceReading, Spacing, StreamCounts, StreamOrder, Streams, Throttle, TransferDirection,
    pacing,
};
use netrig_core::{Duration, Rate};
use netrig_host::{Clock, SourceReport, monotonic_nanos, random};
use rustix::net::sockopt;

use self::readings::{STRAGGLERS, heard_of, lasted, tell_taken, until_silence};
use crate::protocol::{
    Carrier, ConnectionCounts, DataDirection, DatagramCounts, DatagramLoad, Datagrams, EndReport,
    MeasurementPhase,
};

/// Length of the queue of live readings. If it is full, a reading appears only in the outcome.
const UNTAKEN: usize = 64;

/// Datagrams are waited for no longer than this after all were sent.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// Which end of a phase this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRole {
    /// The end that requested the phase.
    Client,
    /// The end that serves it.
    Server,
}

impl EndRole {
    /// Whether this end sends, receives, or does both for a direction of data.
    pub const fn direction(self, way: DataDirection) -> TransferDirection {
        match (self, way) {
            (_, DataDirection::Both) => TransferDirection::Both,
            (Self::Client, DataDirection::Up) | (Self::Server, DataDirection::Down) => {
                TransferDirection::Sends
            }
            (Self::Client, DataDirection::Down) | (Self::Server, DataDirection::Up) => {
                TransferDirection::Receives
            }
        }
    }
}

/// The sockets of a phase.
#[derive(Debug)]
pub enum PhaseSockets {
    /// No socket: an idle phase.
    None,
    /// TCP connections.
    Tcp {
        /// In the order of the stream numbers.
        streams: Vec<TcpStream>,
        /// The largest receive window of this end, bytes. The kernel chooses it if absent.
        window: Option<u32>,
    },
    /// A UDP socket that is connected to the peer.
    Udp(UdpSocket),
    /// A UDP socket that is connected to the peer and carries SCTP packets.
    Sctp {
        /// The socket.
        socket: UdpSocket,
        /// The largest receive window of this end, bytes. If absent, a default that suffices for most paths.
        window: Option<u32>,
    },
}

impl PhaseSockets {
    /// The address of the peer.
    fn peer(&self) -> Option<IpAddr> {
        let peer = match self {
            Self::None => return None,
            Self::Tcp { streams, .. } => streams.first()?.peer_addr(),
            Self::Udp(socket) | Self::Sctp { socket, .. } => socket.peer_addr(),
        };
        peer.ok().map(|peer| peer.ip())
    }
}

/// A reading that an end reports during a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LiveReading {
    /// The sums over all connections.
    Bytes {
        /// Since the phase began, ns.
        at_ns: u64,
        /// Bytes received.
        received: u64,
        /// Bytes given to the kernel.
        sent: u64,
    },
    /// The counts of received datagrams.
    Datagrams(DatagramCounts),
}

/// What one end has counted in a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseOutcome {
    /// The counts of each connection at each reading.
    pub counted: Vec<ConnectionCounts>,
    /// The counts of received datagrams at each reading.
    pub heard: Vec<DatagramCounts>,
    /// The totals of the phase.
    pub report: EndReport,
}

impl PhaseOutcome {
    /// Appends a live reading. Readings of connections are sums over all of them.
    pub(crate) fn keep(&mut self, live: &LiveReading) {
        match live {
            LiveReading::Bytes { at_ns, received, sent } => self.counted.push(ConnectionCounts {
                at_ns: *at_ns,
                received: *received,
                sent: *sent,
                ..ConnectionCounts::default()
            }),
            LiveReading::Datagrams(heard) => self.heard.push(*heard),
        }
    }
}

/// The limits of what a session may carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// The highest rate in each direction. Unlimited if absent.
    pub rate: Option<Rate>,
    /// The most bytes that its connections send. Unlimited if absent. Datagrams are checked while they are sent.
    pub bytes: Option<u64>,
}

/// A phase that is running.
pub struct RunningPhase {
    begun: u64,
    /// The time at which this end stopped sending datagrams, ns of `CLOCK_MONOTONIC`.
    stopped: Option<u64>,
    /// The planned duration, ns.
    lasts: u64,
    has_schedule: bool,
    host: HostCounters,
    radio: Option<Radio>,
    /// The send and receive buffers of the datagram socket, bytes.
    buffers: Option<[u64; 2]>,
    throttle: Arc<Throttle>,
    stop_sending: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    streams: Option<JoinHandle<io::Result<StreamsEnd>>>,
    source: Option<JoinHandle<io::Result<SourceEnd>>>,
    sink: Option<JoinHandle<io::Result<SinkEnd>>>,
    /// The result of the source once it has ended.
    sent: Option<SourceEnd>,
    /// Time between two readings.
    every: Duration,
    live: Receiver<LiveReading>,
    counter: PhaseCounter,
}

/// Payload bytes received and sent so far. Duplicate datagrams count.
#[derive(Clone, Debug, Default)]
pub struct PhaseCounter(Arc<[AtomicU64; 2]>);

impl PhaseCounter {
    /// Bytes received, bytes sent.
    pub fn bytes(&self) -> [u64; 2] {
        self.0.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    fn received(&self, bytes: u64) {
        self.0[0].store(bytes, Ordering::Relaxed);
    }

    fn sent(&self, bytes: u64) {
        self.0[1].store(bytes, Ordering::Relaxed);
    }
}

/// The result of the thread that carries connections.
#[derive(Default)]
struct StreamsEnd {
    counted: Vec<ConnectionCounts>,
    effort: Effort,
    last: Vec<StreamCounts>,
    buffers: Option<[u64; 2]>,
    window: Option<u32>,
    congestion: Option<String>,
    /// The payload of the packets that are sent, bytes, if it is known before they are.
    segment: Option<u32>,
    faults: Vec<String>,
}

struct SourceEnd {
    last: SourceReading,
    report: SourceReport,
}

struct SinkEnd {
    heard: Vec<DatagramCounts>,
    sink: DatagramSink,
    effort: Effort,
}

impl RunningPhase {
    /// Starts a phase.
    ///
    /// # Errors
    /// If the kernel refuses a thread or a socket.
    pub fn begin(phase: &MeasurementPhase, role: EndRole, sockets: PhaseSockets) -> io::Result<Self> {
        Self::begin_within(phase, role, sockets, Allowance::default())
    }

    /// Starts a phase within the limits of `allowance`.
    ///
    /// # Errors
    /// See [`begin`](Self::begin).
    pub fn begin_within(
        phase: &MeasurementPhase,
        role: EndRole,
        sockets: PhaseSockets,
        allowance: Allowance,
    ) -> io::Result<Self> {
        let (most, bytes) = (allowance.rate, allowance.bytes);
        let (told, live) = sync_channel(UNTAKEN);
        let rate = match &phase.carrier {
            Carrier::Udp { load, .. } => load.rate().map(|rate| most.map_or(rate, |most| most.min(rate))),
            _ => None,
        };
        let mut carrying = Self {
            begun: monotonic_nanos(),
            stopped: None,
            lasts: phase.lasts_ns,
            has_schedule: rate.is_some(),
            host: HostCounters::read(),
            radio: sockets.peer().and_then(Radio::towards),
            buffers: None,
            throttle: Arc::new(Throttle::new(rate.unwrap_or(Rate::from_bits_per_s(0)))),
            stop_sending: Arc::default(),
            stop: Arc::default(),
            streams: None,
            source: None,
            sink: None,
            sent: None,
            every: phase.every(),
            live,
            counter: PhaseCounter::default(),
        };
        match (&phase.carrier, sockets) {
            (Carrier::Tcp { way, congestion, .. }, PhaseSockets::Tcp { streams, window }) => {
                let direction = role.direction(*way);
                if let Some(name) = congestion.as_ref().filter(|_| direction != TransferDirection::Receives) {
                    streams.iter().try_for_each(|socket| set_congestion(socket, name))?;
                }
                let (pacing, every) = (each_of(most, streams.len()), phase.every());
                let order = StreamOrder { direction, every, bytes, pacing, window };
                carrying.carry_streams(order, streams, told)?;
            }
            (Carrier::Udp { way, size, load }, PhaseSockets::Udp(socket)) => {
                carrying.buffers = buffers(&socket);
                let direction = role.direction(*way);
                if direction != TransferDirection::Sends {
                    carrying.take_datagrams(phase, socket.try_clone()?, told)?;
                }
                if direction != TransferDirection::Receives {
                    carrying.send_datagrams(phase, *size, *load, socket)?;
                }
            }
            (Carrier::Sctp { way, streams, size }, PhaseSockets::Sctp { socket, window }) => {
                let order = AssociationOrder {
                    count: *streams,
                    opens: role == EndRole::Client,
                    direction: role.direction(*way),
                    every: phase.every(),
                    size: *size,
                    pacing: each_of(most, (*streams).into()),
                    window,
                    seed: u64::from_ne_bytes(random()?),
                };
                carrying.carry_associations(order, socket, told)?;
            }
            _ => {}
        }
        Ok(carrying)
    }

    /// Sets the rate at which datagrams are sent.
    pub fn pace(&self, rate: Rate) {
        self.throttle.set(rate);
    }

    /// The next live reading.
    pub fn poll_live(&self) -> Option<LiveReading> {
        self.live.try_recv().ok()
    }

    /// Bytes received and sent so far.
    pub fn bytes(&self) -> [u64; 2] {
        self.counter.bytes()
    }

    /// The counter of these bytes. It stays valid after the phase has ended.
    pub fn counter(&self) -> PhaseCounter {
        self.counter.clone()
    }

    /// Whether the connections were closed before the phase was ended.
    pub fn is_over(&self) -> bool {
        self.streams.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Stops sending datagrams. Returns the number of datagrams sent if this end sends any.
    ///
    /// # Errors
    /// If sending has failed.
    pub fn stop_sending(&mut self) -> io::Result<Option<u64>> {
        self.stopped.get_or_insert_with(monotonic_nanos);
        self.stop_sending.store(true, Ordering::Relaxed);
        if let Some(source) = self.source.take() {
            self.sent = Some(joined(source)?);
        }
        Ok(self.sent.as_ref().map(|sent| sent.last.datagrams))
    }

    /// Ends the phase. Connections are aborted. Datagrams in flight are waited for; `sent_there` is the number that the peer has
    /// sent, if known.
    ///
    /// # Errors
    /// If carrying has failed.
    pub fn end(self, sent_there: Option<u64>) -> io::Result<PhaseOutcome> {
        self.end_while(sent_there, &mut |_| true)
    }

    /// Ends the phase. The wait for datagrams in flight stops when `may` returns false for the bytes received and sent.
    ///
    /// # Errors
    /// See [`end`](Self::end).
    pub fn end_while(
        mut self,
        sent_there: Option<u64>,
        may: &mut dyn FnMut([u64; 2]) -> bool,
    ) -> io::Result<PhaseOutcome> {
        self.stop_sending()?;
        if self.sink.is_some() {
            self.wait_for_stragglers(may);
        }
        self.stop.store(true, Ordering::Relaxed);
        // The wait for datagrams in flight does not lengthen the phase.
        let stopped = self.stopped.filter(|_| self.sink.is_some() || self.sent.is_some());
        let (begun, lasts) = (self.begun, self.lasts);
        let lasted = |ended: u64| lasted([begun, ended], stopped, lasts);
        let mut outcome = PhaseOutcome::default();
        outcome.report.buffers = self.buffers;
        let mut effort = Vec::new();
        if let Some(streams) = self.streams.take() {
            let end = joined(streams)?;
            effort.push(end.effort);
            end.tell(&mut outcome.report);
            outcome.counted = end.counted;
        }
        let mut datagrams = Datagrams::default();
        if let Some(sink) = self.sink.take() {
            let mut end = joined(sink)?;
            let taken = end.sink.finish(sent_there)?;
            effort.push(end.effort);
            tell_taken(&taken, &mut datagrams);
            outcome.heard = until_silence(end.heard, lasted(monotonic_nanos()));
        }
        if let Some(sent) = &self.sent {
            effort.push(sent.last.effort);
            (datagrams.sent, datagrams.skipped) = (sent.last.datagrams, sent.last.skipped);
            // A source whose rate is steered has no schedule to keep.
            outcome.report.faults.extend(sent.report.fault().filter(|_| self.has_schedule));
        }
        outcome.report.datagrams = (datagrams != Datagrams::default()).then_some(datagrams);
        outcome.report.threads_ns = effort.len() as u64 * lasted(monotonic_nanos());
        outcome.report.ran_ns = effort.iter().map(|effort| effort.ran.as_nanos()).sum();
        outcome.report.waited_ns = effort.iter().map(|effort| effort.waited.as_nanos()).sum();
        outcome.report.host = HostCounters::read().since(&self.host);
        outcome.report.radio = self.radio.take().and_then(Radio::report);
        Ok(outcome)
    }

    /// Until no datagram has come for a while, or more has been carried than may be.
    fn wait_for_stragglers(&self, may: &mut dyn FnMut([u64; 2]) -> bool) {
        let begun = monotonic_nanos();
        let (mut last, mut since) = (None, begun);
        // That nothing has come only a reading tells.
        let patience = STRAGGLERS.max(self.every * 2);
        while may(self.bytes()) && monotonic_nanos() - begun < LONGEST_WAIT.as_nanos() {
            while let Some(live) = self.poll_live() {
                let LiveReading::Datagrams(heard) = live else { continue };
                if last.replace(heard.received) != Some(heard.received) {
                    since = monotonic_nanos();
                }
            }
            if monotonic_nanos() - since > patience.as_nanos() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn carry_streams(
        &mut self,
        order: StreamOrder,
        sockets: Vec<TcpStream>,
        told: SyncSender<LiveReading>,
    ) -> io::Result<()> {
        let (stop, begun, counter) = (Arc::clone(&self.stop), self.begun, self.counter.clone());
        let carry = move || {
            let settings = sockets.first().map(|socket| settings(socket, order.direction));
            let mut streams = Streams::new(sockets, order)?;
            let mut end = StreamsEnd { window: order.window, ..StreamsEnd::default() };
            (end.buffers, end.congestion) = settings.unwrap_or_default();
            streams.carry(&stop, &mut |reading| {
                end.read(reading, begun, &counter, &told);
                end.last.clone_from(&reading.connections);
            })?;
            streams.abort();
            Ok(end)
        };
        self.streams = Some(std::thread::Builder::new().name("speed-tcp".to_owned()).spawn(carry)?);
        Ok(())
    }

    fn carry_associations(
        &mut self,
        order: AssociationOrder,
        socket: UdpSocket,
        told: SyncSender<LiveReading>,
    ) -> io::Result<()> {
        let (stop, begun, counter) = (Arc::clone(&self.stop), self.begun, self.counter.clone());
        let carry = move || {
            let mut associations = Associations::new(socket, order)?;
            let (segment, window) = (Some(associations.payload()), Some(associations.window()));
            let mut end = StreamsEnd { segment, window, ..StreamsEnd::default() };
            associations.carry(&stop, &mut |reading| end.read(reading, begun, &counter, &told))?;
            let unsent = associations.abort()?;
            end.faults.extend((unsent > 0).then(|| format!("this host had no room for {unsent} packets")));
            Ok(end)
        };
        self.streams = Some(std::thread::Builder::new().name("speed-sctp".to_owned()).spawn(carry)?);
        Ok(())
    }

    fn take_datagrams(
        &mut self,
        phase: &MeasurementPhase,
        socket: UdpSocket,
        told: SyncSender<LiveReading>,
    ) -> io::Result<()> {
        let (stop, begun, every) = (Arc::clone(&self.stop), self.begun, phase.every());
        let counter = self.counter.clone();
        let flow = phase.number;
        let take = move || {
            let mut sink = DatagramSink::new(socket, Clock::starting_at(begun), flow, every)?;
            let (mut heard, mut effort) = (Vec::new(), Effort::default());
            sink.take(&stop, &mut |taken| {
                let now = heard_of(taken, begun);
                counter.received(taken.all_bytes);
                heard.push(now);
                effort = taken.effort;
                // If the queue is full, the reader gets a later reading.
                let _ = told.try_send(LiveReading::Datagrams(now));
            })?;
            Ok(SinkEnd { heard, sink, effort })
        };
        self.sink = Some(std::thread::Builder::new().name("speed-udp-in".to_owned()).spawn(take)?);
        Ok(())
    }

    fn send_datagrams(
        &mut self,
        phase: &MeasurementPhase,
        size: u16,
        load: DatagramLoad,
        socket: UdpSocket,
    ) -> io::Result<()> {
        let spacing = match load {
            DatagramLoad::Poisson { seed, .. } => Spacing::Poisson { seed },
            DatagramLoad::Fixed { .. } | DatagramLoad::Told => Spacing::Constant,
        };
        let order = SourceOrder { flow: phase.number, size, spacing, every: phase.every() };
        let (stop, throttle, begun) =
            (Arc::clone(&self.stop_sending), Arc::clone(&self.throttle), self.begun);
        let counter = self.counter.clone();
        let send = move || {
            let mut source = DatagramSource::new(socket, Clock::starting_at(begun), order, &throttle)?;
            let mut last = SourceReading::default();
            let report = source.send(&stop, &mut |sent| {
                counter.sent(sent.datagrams * u64::from(size));
                last = *sent;
            })?;
            Ok(SourceEnd { last, report })
        };
        self.source = Some(std::thread::Builder::new().name("speed-udp-out".to_owned()).spawn(send)?);
        Ok(())
    }
}

/// An aborted phase neither sends nor receives: its connections are aborted.
impl Drop for RunningPhase {
    fn drop(&mut self) {
        self.stop_sending.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        // The counts of an aborted phase are not used.
        self.streams.take().map(joined);
        self.source.take().map(joined);
        self.sink.take().map(joined);
    }
}

/// The share of each of `count` connections, B/s, if `most` limits all of them together.
fn each_of(most: Option<Rate>, count: usize) -> Option<u32> {
    Some(pacing(Rate::from_bits_per_s(most?.bits_per_s() / count.max(1) as u64)))
}

/// The result of a thread that has ended.
pub(crate) fn joined<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that carries data has panicked")))
}

fn set_congestion(socket: &TcpStream, name: &str) -> io::Result<()> {
    sockopt::set_tcp_congestion(socket, name)
        .map_err(|error| io::Error::other(format!("the kernel has no congestion control `{name}`: {error}")))
}

/// The send and receive buffers of a connection and, if it sends, its congestion control.
fn settings(socket: &TcpStream, direction: TransferDirection) -> (Option<[u64; 2]>, Option<String>) {
    let congestion =
        if direction == TransferDirection::Receives { None } else { sockopt::tcp_congestion(socket).ok() };
    (buffers(socket), congestion)
}

/// The send and receive buffers of a socket, bytes as the kernel counts them.
fn buffers(socket: impl AsFd) -> Option<[u64; 2]> {
    let send = sockopt::socket_send_buffer_size(&socket).ok()?;
    Some([send as u64, sockopt::socket_recv_buffer_size(&socket).ok()? as u64])
}

impl StreamsEnd {
    fn read<C>(
        &mut self,
        reading: &Reading<C>,
        begun: u64,
        counter: &PhaseCounter,
        told: &SyncSender<LiveReading>,
    ) where
        for<'a> &'a C: Into<ConnectionCounts>,
    {
        let at_ns = reading.at - begun;
        let now = reading.connections.iter().zip(0..);
        let now = now.map(|(carried, stream)| ConnectionCounts { at_ns, stream, ..carried.into() });
        let before = self.counted.len();
        self.counted.extend(now);
        let sum = |of: fn(&ConnectionCounts) -> u64| self.counted[before..].iter().map(of).sum();
        let (received, sent) = (sum(|counted| counted.received), sum(|counted| counted.sent));
        counter.received(received);
        counter.sent(sent);
        // If the queue is full, the reader gets a later reading.
        let _ = told.try_send(LiveReading::Bytes { at_ns, received, sent });
        self.effort = reading.effort;
    }

    fn tell(&self, report: &mut EndReport) {
        let infos = || self.last.iter().filter_map(|carried| carried.info.as_ref());
        report.segment = infos().map(|info| info.segment).min().or(self.segment);
        report.timestamps = infos().any(|info| info.has_timestamps);
        report.path_mtu = infos().map(|info| info.path_mtu).min();
        report.buffers = self.buffers;
        report.window = self.window;
        report.congestion.clone_from(&self.congestion);
        report.faults.extend_from_slice(&self.faults);
    }
}
