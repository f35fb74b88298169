//! A source of datagrams at a variable rate, and a sink that counts them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netrig_core::{Data, Duration, Instant, Rate, Seeds, Stream};
use rustix::net::{SocketType, ipproto, sockopt};

use super::Effort;
use super::arrival_clock::StampedBatch;
use super::losses::{LossLog, LossPeriods};
use netrig_host::DatagramFormat;
use netrig_host::Outbox;
use netrig_host::Precedence;
use netrig_host::socket::{Buffers, LONGEST_DATAGRAM, SocketBuilder, SocketError, TimestampMode, drops};
use netrig_host::sys::{MESSAGES, option_int, set_option_int};
use netrig_host::{ArrivalCounts, ArrivalKind, ArrivalLog};
use netrig_host::{Clock, Pacer, monotonic_nanos};
use netrig_host::{DatagramStamp, STAMP_LEN};
use netrig_host::{RequestedGaps, SourceReport};
use netrig_host::{SPIN, Watch};

/// Requested size of the receive buffer, bytes: about 100 ms at 500 Mbit/s. The system may limit it.
const ROOM: usize = 8 << 20;

/// Interval at which a source checks its rate.
const LOOK: Duration = Duration::from_millis(2);

/// If a source is further behind its schedule than this, it skips and counts the overdue datagrams.
const PATIENCE: Duration = Duration::from_millis(100);

/// While datagrams arrive, the sink reads its socket at this interval, so that not every datagram causes a wake-up.
const LOOK_FOR: Duration = Duration::from_micros(500);

/// Minimum overhead of a message in the receive buffer, bytes (Linux: `SKB_TRUESIZE`, 576 where pointers have 64 bits).
const OVERHEAD: u64 = 512;

/// Opens a socket for datagrams to and from one address, with the kernel's time stamps, a large receive buffer and
/// `UDP_GRO`. If `buffers` contains sizes, the socket has exactly these sizes.
///
/// # Errors
/// The error of the step that the kernel refused.
pub fn datagram_socket(
    local: SocketAddr,
    peer: SocketAddr,
    buffers: Buffers,
) -> Result<UdpSocket, SocketError> {
    let making = SocketBuilder::open(SocketType::DGRAM, Some(ipproto::UDP), local)?;
    making.stamped(TimestampMode::Received)?;
    if buffers.receive.is_none() {
        making.receive_at_least(ROOM)?;
    }
    making.buffers(buffers)?;
    making.number("UDP_GRO", libc::SOL_UDP, libc::UDP_GRO, 1)?;
    making.number("SO_RXQ_OVFL", libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    let socket = making.bound()?;
    rustix::net::connect(&socket, &peer).map_err(|error| SocketError::Refused {
        what: "connect",
        address: local,
        source: error.into(),
    })?;
    Ok(socket.into())
}

/// Switches `UDP_GRO` off for a socket of [`datagram_socket`]. A sink then keeps only the first bytes of each datagram,
/// which saves memory if there are many sinks. Call this function before the first datagram arrives.
///
/// # Errors
/// The error of the kernel.
pub fn disable_gro(socket: &UdpSocket) -> io::Result<()> {
    set_option_int(socket, libc::SOL_UDP, libc::UDP_GRO, 0)
}

/// Opens a socket for the first datagrams of any peer. Sockets of [`datagram_socket`] may have the same local address.
/// Each of them receives the datagrams of its peer.
///
/// # Errors
/// The error of the step that the kernel refused.
pub fn shared_datagram_socket(local: SocketAddr) -> Result<UdpSocket, SocketError> {
    let making = SocketBuilder::open(SocketType::DGRAM, Some(ipproto::UDP), local)?;
    Ok(making.bound()?.into())
}

/// The rate of a source, which another thread may change at any time.
#[derive(Debug)]
pub struct Throttle(AtomicU64);

impl Throttle {
    /// A throttle with an initial payload rate. At rate zero, the source sends nothing.
    pub const fn new(rate: Rate) -> Self {
        Self(AtomicU64::new(rate.bits_per_s()))
    }

    /// Sets the rate from now on.
    pub fn set(&self, rate: Rate) {
        self.0.store(rate.bits_per_s(), Ordering::Relaxed);
    }

    /// The current rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bits_per_s(self.0.load(Ordering::Relaxed))
    }
}

/// Gaps between the datagrams of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Constant gaps.
    Constant,
    /// Exponential gaps, a Poisson process.
    Poisson {
        /// The seed.
        seed: u64,
    },
}

/// Parameters of a source.
#[derive(Clone, Copy, Debug)]
pub struct SourceOrder {
    /// Number of the flow. The receiver ignores datagrams of another flow.
    pub flow: u32,
    /// Payload of each datagram, bytes; at least [`STAMP_LEN`](netrig_host::STAMP_LEN).
    pub size: u16,
    /// Gaps between datagrams.
    pub spacing: Spacing,
    /// Time between two readings.
    pub every: Duration,
}

/// Counts of a source at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourceReading {
    /// Time of the reading, ns of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// Datagrams that the kernel accepted.
    pub datagrams: u64,
    /// Datagrams that were due and skipped because the source was too far behind.
    pub skipped: u64,
    /// Processor time of the thread since sending started.
    pub effort: Effort,
}

/// Sends datagrams at the rate of a [`Throttle`].
pub struct DatagramSource<'a> {
    socket: UdpSocket,
    peer: SocketAddr,
    order: SourceOrder,
    throttle: &'a Throttle,
    clock: Clock,
    outbox: Outbox,
    gaps: Option<Stream>,
    /// The rate at which the most recent datagrams were scheduled.
    paced: Rate,
    skipped: u64,
    effort: Effort,
}

impl<'a> DatagramSource<'a> {
    /// Makes a source over a connected socket. The times in the stamps are relative to the epoch of `clock`.
    ///
    /// # Errors
    /// If the socket is not connected.
    pub fn new(
        socket: UdpSocket,
        clock: Clock,
        order: SourceOrder,
        throttle: &'a Throttle,
    ) -> io::Result<Self> {
        let peer = socket.peer_addr()?;
        socket.set_nonblocking(true)?;
        let gaps = match order.spacing {
            Spacing::Constant => None,
            Spacing::Poisson { seed } => Some(Seeds::new(seed).stream("speed/gaps")),
        };
        let asked = match (order.spacing, throttle.rate().bits_per_s()) {
            (Spacing::Poisson { .. }, 1..) => RequestedGaps::Exponential {
                mean_ns: throttle.rate().time_for(order.size.into()).as_nanos() as f64,
            },
            _ => RequestedGaps::Schedule,
        };
        let outbox = Outbox::new(order.flow, asked, Some(peer));
        let effort = Effort::default();
        let paced = throttle.rate();
        Ok(Self { socket, peer, order, throttle, clock, outbox, gaps, paced, skipped: 0, effort })
    }

    /// Sends datagrams with the header `format`. With `None`, the datagrams have netrig's own header.
    pub fn with_format(self, format: Option<Arc<dyn DatagramFormat>>) -> Self {
        match format {
            Some(format) => Self { outbox: self.outbox.with_format(format), ..self },
            None => self,
        }
    }

    /// Sends until `stop` is set. Passes a reading to `each` at every interval and at the end. Returns how well the source kept
    /// its schedule.
    ///
    /// # Errors
    /// The error of the kernel. A datagram that the peer refuses is not an error.
    pub fn send(
        &mut self,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&SourceReading),
    ) -> io::Result<SourceReport> {
        let mut pacer = Pacer::new(self.clock, SPIN)?;
        self.take_precedence(self.throttle.rate());
        self.effort = Effort::of_this_thread();
        let mut due = self.clock.now();
        let mut reading = due + self.order.every;
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now >= reading {
                each(&self.reading());
                reading = (reading + self.order.every).max(now);
            }
            due = self.fill(due, now)?;
            self.outbox.flush(&self.socket, &self.clock)?;
            let next = if self.throttle.rate().bits_per_s() == 0 { now + LOOK } else { due };
            let next = self.outbox.retry().map_or(next, |retry| next.max(retry));
            // A source with a low rate also checks its rate and `stop` at short intervals.
            pacer.rest(next.min(reading).min(now + LOOK))?;
        }
        each(&self.reading());
        Ok(self.outbox.source().report())
    }

    /// Sets the scheduling priority for a rate. The source spins for a fixed time before each datagram, so its load is
    /// proportional to its rate.
    fn take_precedence(&self, rate: Rate) {
        let per_s = rate.bits_per_s() as f64 / (8.0 * f64::from(self.order.size));
        Precedence::take(per_s * SPIN.as_secs_f64());
    }

    /// Moves due datagrams to the outbox. Returns when the next datagram is due.
    fn fill(&mut self, mut due: Instant, now: Instant) -> io::Result<Instant> {
        let rate = self.throttle.rate();
        if rate.bits_per_s() == 0 {
            return Ok(now);
        }
        let gap = rate.time_for(self.order.size.into()).max(Duration::from_nanos(1));
        let before = std::mem::replace(&mut self.paced, rate);
        if rate != before {
            self.take_precedence(rate);
        }
        // A higher rate takes effect immediately, not after a gap of the old rate.
        if rate > before {
            due = due.min(now + gap);
        }
        if now - due > PATIENCE {
            self.skipped += (now - due).as_nanos() / gap.as_nanos();
            due = now;
        }
        // A datagram that becomes due during the system call may leave with that call.
        let until = self.outbox.grace().map_or(now, |grace| grace.max(now));
        while due <= until && self.outbox.has_room() {
            let fill = Data::Fill(self.order.size.into());
            self.outbox.push(due, self.peer, None, fill).map_err(io::Error::other)?;
            due += match &mut self.gaps {
                Some(gaps) => gaps.exponential_duration(gap),
                None => gap,
            };
        }
        Ok(due)
    }

    fn reading(&self) -> SourceReading {
        SourceReading {
            at: monotonic_nanos(),
            datagrams: self.outbox.sent(),
            skipped: self.skipped,
            effort: Effort::of_this_thread().since(&self.effort),
        }
    }
}

/// Counts of a sink at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SinkReading {
    /// Time of the reading, ns of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// Counts of received datagrams.
    pub arrivals: ArrivalCounts,
    /// Payload without duplicates, bytes.
    pub bytes: u64,
    /// Payload of all received datagrams, including duplicates and datagrams of other flows, bytes.
    pub all_bytes: u64,
    /// Smoothed change of the transit time between consecutive datagrams, s (RFC 3550 section 6.4.1).
    pub jitter: f64,
    /// Arrival time of the last datagram by the kernel's time stamp, since the epoch of the sink's clock; zero before
    /// the first datagram.
    pub last_arrival: Instant,
    /// Latest send time of a received datagram, by the sender's clock; zero before the first datagram.
    pub last_sent: Instant,
    /// Losses and loss periods.
    pub losses: LossPeriods,
    /// Datagrams that were dropped because the receive buffer was full.
    pub dropped: u64,
    /// The part of `dropped` that was dropped before the last received datagram.
    pub dropped_before: u64,
    /// Transit times since the previous reading, ns: arrival times by this host's clock minus send times by the
    /// sender's clock. The clocks may differ, so only differences between these values are meaningful.
    pub passage: Option<RelativeDelays>,
    /// Largest step of the wall clock, from which the kernel takes its time stamps; `None` if it was not stepped. A
    /// step does not change arrival times, but datagrams that are read around a step have no transit time.
    pub clock_set: Option<Duration>,
    /// Processor time of the thread since receiving started.
    pub effort: Effort,
}

impl SinkReading {
    /// Jitter, s; `None` before the second datagram.
    pub fn known_jitter(&self) -> Option<f64> {
        (self.arrivals.received > 1).then_some(self.jitter)
    }
}

/// Statistics of transit times between two clocks with an unknown offset, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelativeDelays {
    /// Minimum.
    pub least: i64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub most: i64,
    /// Number of datagrams.
    pub of: u64,
}

impl RelativeDelays {
    fn add(passage: &mut Option<Self>, took: i64) {
        let all = passage.get_or_insert(Self { least: took, mean: 0.0, most: took, of: 0 });
        all.of += 1;
        all.mean += (took as f64 - all.mean) / all.of as f64;
        all.least = all.least.min(took);
        all.most = all.most.max(took);
    }
}

/// Transit times of a flow and their variation, updated with each datagram.
#[derive(Default)]
struct DelayVariation {
    /// Interarrival jitter, s (RFC 3550 section 6.4.1).
    jitter: f64,
    /// Transit time of the last datagram, ns; `None` if it is not known.
    took: Option<i64>,
    /// Statistics of the transit times since the last reading.
    passage: Option<RelativeDelays>,
}

impl DelayVariation {
    /// Records a datagram with its transit time, ns; `None` if the transit time is not known.
    fn passed(&mut self, took: Option<i64>) {
        let before = std::mem::replace(&mut self.took, took);
        let Some(took) = took else { return };
        let change = before.map_or(0, |before| took.wrapping_sub(before));
        self.jitter += (change.unsigned_abs() as f64 * 1e-9 - self.jitter) / 16.0;
        RelativeDelays::add(&mut self.passage, took);
    }
}

/// Receives the datagrams of one flow and counts them.
pub struct DatagramSink {
    socket: OwnedFd,
    flow: u32,
    format: Option<Arc<dyn DatagramFormat>>,
    every: Duration,
    clock: Clock,
    batch: StampedBatch,
    log: ArrivalLog,
    losses: LossLog,
    bytes: u64,
    all_bytes: u64,
    way: DelayVariation,
    last_arrival: Instant,
    last_sent: Instant,
    /// Number of datagrams that the socket dropped before the last received datagram.
    dropped_before: u32,
    effort: Effort,
}

impl DatagramSink {
    /// Makes a sink over a socket of [`datagram_socket`] that serves one flow. All drops since the socket was opened
    /// count as drops of the flow, including those before the first read.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(socket: UdpSocket, clock: Clock, flow: u32, every: Duration) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // Coalesced datagrams are read completely, to find the first bytes of each.
        let come_together = option_int(&socket, libc::SOL_UDP, libc::UDP_GRO)? != 0;
        Ok(Self {
            dropped_before: 0,
            socket: socket.into(),
            flow,
            format: None,
            every,
            clock,
            batch: StampedBatch::new(if come_together { LONGEST_DATAGRAM } else { STAMP_LEN }),
            log: ArrivalLog::default(),
            losses: LossLog::default(),
            bytes: 0,
            all_bytes: 0,
            way: DelayVariation::default(),
            last_arrival: Instant::ZERO,
            last_sent: Instant::ZERO,
            effort: Effort::default(),
        })
    }

    /// Receives datagrams with the header `format`. With `None`, the datagrams have netrig's own header.
    pub fn with_format(self, format: Option<Arc<dyn DatagramFormat>>) -> Self {
        Self { format, ..self }
    }

    /// Receives until `stop` is set, and passes a reading to `each` at every interval.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn take(&mut self, stop: &AtomicBool, each: &mut dyn FnMut(&SinkReading)) -> io::Result<()> {
        let mut pacer = Pacer::new(self.clock, Duration::ZERO)?;
        pacer.watch(&self.socket, 0, Watch::ReadingOnce)?;
        Precedence::take(1.0);
        self.effort = Effort::of_this_thread();
        let mut reading = self.clock.now() + self.every;
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now >= reading {
                each(&self.reading()?);
                reading = (reading + self.every).max(now);
            }
            match self.receive()? {
                MESSAGES => {}
                0 => {
                    pacer.watch_again(&self.socket, 0, Watch::ReadingOnce)?;
                    pacer.wait(reading)?;
                }
                _ => pacer.rest(reading.min(now + LOOK_FOR))?,
            }
        }
        Ok(())
    }

    /// Reads the rest of the receive buffer and returns the final counts. `sent` is the number of sent datagrams, if
    /// known. Datagrams that have not arrived count as lost.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn finish(&mut self, sent: Option<u64>) -> io::Result<SinkReading> {
        // A flooded socket never becomes empty, so reading stops after as many bytes as the socket can have held: its
        // buffer size and one last message.
        let room = (sockopt::socket_recv_buffer_size(&self.socket)? + LONGEST_DATAGRAM) as u64;
        let (before, mut messages) = (self.all_bytes, 0);
        while self.all_bytes - before + messages * OVERHEAD <= room {
            match self.receive()? {
                0 => break,
                count => messages += count as u64,
            }
        }
        self.losses.finish(sent);
        self.reading()
    }

    /// Receives one batch and returns its number of messages.
    fn receive(&mut self) -> io::Result<usize> {
        self.batch.receive(&self.socket, |message, at, is_certain| {
            self.dropped_before = message.dropped.unwrap_or(self.dropped_before);
            let arrived = self.clock.instant(at);
            for (head, len) in message.datagrams() {
                self.all_bytes += len as u64;
                let read = match &self.format {
                    Some(format) => format.read(head),
                    None => DatagramStamp::decode(head)
                        .filter(|stamp| stamp.flow == self.flow)
                        .map(|stamp| (stamp.number, stamp.sent)),
                };
                let Some((number, sent)) = read else { continue };
                if self.log.arrived(number) == ArrivalKind::First {
                    self.losses.came(number);
                    self.bytes += len as u64;
                    self.last_arrival = self.last_arrival.max(arrived);
                    self.last_sent = self.last_sent.max(sent);
                    let took = arrived.as_nanos().wrapping_sub(sent.as_nanos()).cast_signed();
                    self.way.passed(is_certain.then_some(took));
                }
            }
        })
    }

    fn reading(&mut self) -> io::Result<SinkReading> {
        Ok(SinkReading {
            at: monotonic_nanos(),
            arrivals: self.log.counts(),
            bytes: self.bytes,
            all_bytes: self.all_bytes,
            jitter: self.way.jitter,
            last_arrival: self.last_arrival,
            last_sent: self.last_sent,
            losses: self.losses.counts(),
            dropped: drops(self.socket.as_fd())?.into(),
            dropped_before: self.dropped_before.into(),
            passage: self.way.passage.take(),
            clock_set: self.batch.arrivals.largest_step(),
            effort: Effort::of_this_thread().since(&self.effort),
        })
    }
}

/// Two sockets of [`datagram_socket`] that are connected to each other.
#[cfg(test)]
pub(crate) fn socket_pair() -> [UdpSocket; 2] {
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (near, far) = (free(), free());
    [
        datagram_socket(near, far, Buffers::default()).unwrap(),
        datagram_socket(far, near, Buffers::default()).unwrap(),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration as StdDuration;

    use netrig_host::RealtimeOffset;

    use super::*;
    use crate::arrival_clock::ArrivalClock;

    const EVERY: Duration = Duration::from_millis(20);

    fn send_one(from: &UdpSocket, flow: u32, number: u64, sent: Instant) {
        let stamp =
            DatagramStamp { flow, number, sent, late: Duration::ZERO, rest: netrig_host::PayloadKind::Fill };
        from.send(&stamp.encode()).unwrap();
    }

    fn order(spacing: Spacing) -> SourceOrder {
        SourceOrder { flow: 7, size: 200, spacing, every: EVERY }
    }

    /// Sends and receives for the time `lasts`, at a rate that `steer` may change. Returns the report, the source's
    /// readings and the sink's final reading.
    fn carried(
        lasts: StdDuration,
        spacing: Spacing,
        rate: Rate,
        steer: impl FnOnce(&Throttle) + Send,
    ) -> (SourceReport, Vec<SourceReading>, SinkReading) {
        let [near, far] = socket_pair();
        let clock = Clock::starting_in(Duration::ZERO);
        let (throttle, stop, over) = (Throttle::new(rate), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let sink = scope.spawn(|| {
                let mut sink = DatagramSink::new(far, clock, 7, EVERY).unwrap();
                sink.take(&over, &mut |_| {}).unwrap();
                sink
            });
            let source = scope.spawn(|| {
                let mut sent = Vec::new();
                let mut source = DatagramSource::new(near, clock, order(spacing), &throttle).unwrap();
                let report = source.send(&stop, &mut |reading| sent.push(*reading)).unwrap();
                (report, sent)
            });
            steer(&throttle);
            std::thread::sleep(lasts);
            stop.store(true, Ordering::Relaxed);
            let (report, sent) = source.join().unwrap();
            over.store(true, Ordering::Relaxed);
            let mut sink = sink.join().unwrap();
            let taken = sink.finish(sent.last().map(|sent| sent.datagrams)).unwrap();
            (report, sent, taken)
        })
    }

    #[test]
    fn what_was_sent_came_or_was_lost() {
        for spacing in [Spacing::Constant, Spacing::Poisson { seed: 1 }] {
            let lasts = StdDuration::from_millis(200);
            let (report, sent, taken) = carried(lasts, spacing, Rate::from_bits_per_s(1_600_000), |_| {});
            let all = sent.last().unwrap().datagrams;
            assert!(all > 0 && report.sent == all, "{report:?}");
            assert_eq!(taken.arrivals.received + taken.losses.lost, all, "{taken:?}");
            assert_eq!(taken.bytes, 200 * taken.arrivals.received);
            // Both ends use the same clock, so no transit time is negative.
            assert!(taken.passage.is_none_or(|passage| passage.least > 0), "{taken:?}");
        }
    }

    #[test]
    fn nothing_leaves_at_no_rate_and_much_at_a_higher_one() {
        let steer = |throttle: &Throttle| {
            std::thread::sleep(StdDuration::from_millis(100));
            throttle.set(Rate::from_bits_per_s(16_000_000));
        };
        let none = Rate::from_bits_per_s(0);
        let (_, sent, taken) = carried(StdDuration::from_millis(100), Spacing::Constant, none, steer);
        assert_eq!(sent[0].datagrams, 0);
        assert!(taken.arrivals.received > 0);
    }

    /// If the receiving thread starts late, the full receive buffer drops datagrams. They are not losses of the path.
    #[test]
    fn what_had_no_room_before_somebody_reads_was_dropped_here() {
        let [near, far] = socket_pair();
        let clock = Clock::starting_in(Duration::ZERO);
        let mut sent = 0;
        while drops(&far).unwrap() < 10 {
            send_one(&near, 7, sent, clock.now());
            sent += 1;
        }
        let mut sink = DatagramSink::new(far, clock, 7, EVERY).unwrap();
        let taken = sink.finish(Some(sent)).unwrap();
        assert_eq!((taken.losses.lost, taken.arrivals.received + taken.dropped), (taken.dropped, sent));
        assert!(taken.dropped >= 10, "{taken:?}");
    }

    #[test]
    fn what_belongs_to_another_flow_does_not_count() {
        let [near, far] = socket_pair();
        let clock = Clock::starting_in(Duration::ZERO);
        near.send(&[0; 100]).unwrap();
        send_one(&near, 8, 0, Instant::ZERO);
        let mut sink = DatagramSink::new(far, clock, 7, EVERY).unwrap();
        assert_eq!(sink.finish(None).unwrap().arrivals, ArrivalCounts::default());
    }

    /// At the end, the datagrams in the receive buffer are counted. A flood of other datagrams does not delay the end.
    #[test]
    fn who_floods_it_does_not_hold_its_end_up() {
        const LAY: u64 = 100;
        let [near, far] = socket_pair();
        let clock = Clock::starting_in(Duration::ZERO);
        let mut sink = DatagramSink::new(far, clock, 7, EVERY).unwrap();
        for number in 0..LAY {
            send_one(&near, 7, number, clock.now());
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        near.send(&[0; 60]).unwrap();
                    }
                });
            }
            let taken = sink.finish(Some(LAY));
            over.store(true, Ordering::Relaxed);
            assert_eq!(taken.unwrap().arrivals.received, LAY);
        });
    }

    /// The kernel takes its time stamps from the wall clock. The wall clock is stepped by one hour after the sink
    /// started, and stepped back between two reads.
    #[test]
    fn who_sets_the_wall_clock_moves_no_arrival() {
        const HOUR: u64 = 3_600_000_000_000;
        let [near, far] = socket_pair();
        let clock = Clock::starting_in(Duration::ZERO);
        let mut sink = DatagramSink::new(far, clock, 7, EVERY).unwrap();
        let before_it_was_set = |ahead: u64| {
            let (now, real) = (monotonic_nanos(), RealtimeOffset::measure().realtime(monotonic_nanos()));
            ArrivalClock::new(RealtimeOffset::between(now, real.wrapping_sub(ahead), now), now)
        };
        let send = |number| {
            send_one(&near, 7, number, clock.now());
            clock.now()
        };
        for (round, ahead) in [HOUR, 0_u64.wrapping_sub(HOUR)].into_iter().enumerate() {
            sink.batch.arrivals = before_it_was_set(ahead);
            let sent = send(2 * round as u64);
            let taken = sink.finish(None).unwrap();
            // The arrival time is known, but the transit time is not.
            assert!(taken.last_arrival <= clock.now() && taken.last_arrival + EVERY > sent, "{taken:?}");
            assert_eq!((taken.passage, taken.jitter), (None, 0.0));
            let set = taken.clock_set.unwrap().as_nanos();
            assert!(set.abs_diff(HOUR) < 1_000_000, "{set}");
            send(2 * round as u64 + 1);
            let passage = sink.finish(None).unwrap().passage.unwrap();
            assert!(passage.least > 0 && passage.most < 1_000_000_000, "{passage:?}");
        }
    }
}
