//! A transfer that is running: a thread for each part, the bytes carried so far, and the report at the end.

use std::io;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use netrig_core::Duration;
use netrig_host::proc::{self, TICK_S};
use netrig_host::{Clock, DatagramFormat, monotonic_nanos};

use super::streams::buffers;
use super::{
    AssociationOrder, Associations, DatagramSink, DatagramSource, Datagrams, Effort, EndReport, HostCounters,
    Radio, Reading, SinkReading, SourceOrder, SourceReading, StreamOrder, Streams, Throttle,
    TransferDirection,
};

/// The wait for data in flight ends when none has arrived for this time and for two intervals between readings, and at the latest
/// after `LONGEST_WAIT`.
const SILENCE: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// Interval of the check during that wait.
const LOOK: StdDuration = StdDuration::from_millis(10);

/// A part of a transfer, which has a thread of its own.
pub enum TransferPart {
    /// TCP connections.
    Streams {
        /// The open connections.
        sockets: Vec<TcpStream>,
        /// The parameters.
        order: StreamOrder,
        /// How they end.
        ending: StreamEnding,
    },
    /// Associations of SCTP. They are aborted at the end.
    Associations {
        /// The connected socket that carries them.
        socket: UdpSocket,
        /// The parameters.
        order: AssociationOrder,
    },
    /// A source of datagrams.
    Source {
        /// The connected socket.
        socket: UdpSocket,
        /// The clock of the times in the datagrams.
        clock: Clock,
        /// The parameters.
        order: SourceOrder,
        /// The rate.
        throttle: Arc<Throttle>,
        /// The header of the datagrams; netrig's own if not given.
        format: Option<Arc<dyn DatagramFormat>>,
        /// Whether the source has a schedule, so that missing it is a fault.
        is_scheduled: bool,
    },
    /// A sink of datagrams.
    Sink {
        /// The connected socket.
        socket: UdpSocket,
        /// The clock of the times in the datagrams.
        clock: Clock,
        /// The number of the flow, in netrig's own header.
        flow: u32,
        /// Time between two readings.
        every: Duration,
        /// The header of the datagrams; netrig's own if not given.
        format: Option<Arc<dyn DatagramFormat>>,
    },
}

/// How the connections of a part end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// They carry data until the end of the transfer, which aborts them.
    Abort,
    /// Senders stop with [`RunningTransfer::stop_sending`] and stay open until the end of the transfer, which closes them. If all bytes
    /// of their order are sent, they close at once. Receivers read until the peer closes, or until no data has arrived for a while
    /// after the end.
    Close,
}

/// A reading of a part.
pub enum PartReading<'a> {
    /// Of TCP connections or associations.
    Streams(&'a Reading),
    /// Of a source.
    Source(&'a SourceReading),
    /// Of a sink.
    Sink(&'a SinkReading),
}

/// Receives the readings of a part on its thread.
pub type PartObserver = Box<dyn FnMut(PartReading<'_>) + Send>;

/// The bytes of all parts so far. It stays valid after the transfer has ended.
#[derive(Clone, Debug)]
pub struct TransferCounter(Arc<TransferControl>);

impl TransferCounter {
    /// Payload bytes received and sent so far. Duplicate datagrams count.
    pub fn bytes(&self) -> [u64; 2] {
        self.0.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

/// State that the threads of a transfer share.
#[derive(Debug, Default)]
struct TransferControl {
    stop_sending: AtomicBool,
    stop: AtomicBool,
    /// Bytes received and sent.
    bytes: [AtomicU64; 2],
}

impl TransferControl {
    /// Adds the bytes that a part has carried since its last reading. `before` holds the totals of that reading.
    fn count(&self, before: &mut [u64; 2], now: [u64; 2]) {
        for ((bytes, before), now) in self.bytes.iter().zip(before).zip(now) {
            bytes.fetch_add(now - std::mem::replace(before, now), Ordering::Relaxed);
        }
    }
}

/// A running transfer at one end.
pub struct RunningTransfer {
    begun: u64,
    stopped: Option<u64>,
    host: HostCounters,
    radio: Option<Radio>,
    /// The longest time between two readings of a part.
    every: Duration,
    control: Arc<TransferControl>,
    running: Vec<RunningPart>,
    ended: Vec<(usize, EndedPart)>,
}

struct RunningPart {
    place: usize,
    /// Whether it ends when sending is stopped.
    is_sender: bool,
    /// Whether data may still arrive when the peer has stopped.
    waits: bool,
    thread: JoinHandle<io::Result<EndedPart>>,
}

/// The result of a thread.
#[derive(Default)]
struct EndedPart {
    report: EndReport,
    ran_s: [f64; 2],
    /// Connections that stay open.
    streams: Option<Streams>,
    /// A sink whose socket may still hold datagrams, and the bytes that it has counted.
    sink: Option<(DatagramSink, [u64; 2])>,
}

/// The result of a transfer at one end.
#[derive(Clone, Debug)]
pub struct TransferOutcome {
    /// The totals. Without the lifetimes of the threads, because the end of the transfer may have been announced late.
    pub report: EndReport,
    /// The same of each part, without the host.
    pub parts: Vec<EndReport>,
    /// Processor time of the threads in user and in kernel mode, s.
    pub ran_s: [f64; 2],
    /// The final reading of each sink, with the index of its part.
    pub sinks: Vec<(usize, SinkReading)>,
    /// When sending was stopped, ns of `CLOCK_MONOTONIC`.
    pub stopped: u64,
    /// When all threads had ended, ns of `CLOCK_MONOTONIC`.
    pub ended: u64,
}

impl RunningTransfer {
    /// Starts a transfer without parts. `peer` tells the outgoing interface.
    pub fn begin(peer: Option<IpAddr>) -> Self {
        Self {
            begun: monotonic_nanos(),
            stopped: None,
            host: HostCounters::read(),
            radio: peer.and_then(Radio::towards),
            every: Duration::ZERO,
            control: Arc::default(),
            running: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Starts a part on a thread of its own. Parts have the indices 0, 1, ... in this order.
    ///
    /// # Errors
    /// If the kernel refuses the thread.
    pub fn add(&mut self, part: TransferPart, mut each: PartObserver) -> io::Result<()> {
        let (control, place) = (Arc::clone(&self.control), self.running.len() + self.ended.len());
        let (name, every, is_sender, waits) = part.nature();
        self.every = self.every.max(every);
        let carry = move || {
            let stop = if is_sender { &control.stop_sending } else { &control.stop };
            part.carry(&control, stop, &mut *each)
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(carry)?;
        self.running.push(RunningPart { place, is_sender, waits, thread });
        Ok(())
    }

    /// When the transfer began, ns of `CLOCK_MONOTONIC`.
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// The counter of received and sent bytes.
    pub fn counter(&self) -> TransferCounter {
        TransferCounter(Arc::clone(&self.control))
    }

    /// Whether all parts have ended by themselves.
    pub fn is_over(&self) -> bool {
        !self.running.is_empty() && self.running.iter().all(|part| part.thread.is_finished())
    }

    /// Stops sources, and connections that only send and are [closed](StreamEnding::Close). Returns the number of datagrams that the
    /// sources have sent; `None` without a source.
    ///
    /// # Errors
    /// If sending has failed.
    pub fn stop_sending(&mut self) -> io::Result<Option<u64>> {
        self.stopped.get_or_insert_with(monotonic_nanos);
        self.control.stop_sending.store(true, Ordering::Relaxed);
        self.join(|part| part.is_sender)?;
        let sent = self.ended.iter().filter_map(|(_, part)| Some(part.report.datagrams?.sent));
        Ok(sent.reduce(|all, sent| all + sent))
    }

    /// Stops all parts. Connections that are [closed](StreamEnding::Close) stay open as long as this value exists.
    pub fn halt(&self) {
        self.control.stop_sending.store(true, Ordering::Relaxed);
        self.control.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the transfer. Data in flight is waited for; `sent_there` is the number of datagrams that the peer has sent, if known. The
    /// wait stops when `may` returns false for the bytes received and sent.
    ///
    /// # Errors
    /// If carrying has failed.
    pub fn end(
        mut self,
        sent_there: Option<u64>,
        may: &mut dyn FnMut([u64; 2]) -> bool,
    ) -> io::Result<TransferOutcome> {
        self.stop_sending()?;
        // Closing them tells the receivers that no data follows.
        self.ended.iter_mut().for_each(|(_, part)| part.streams = None);
        self.wait_for_stragglers(may);
        self.halt();
        self.join(|_| true)?;
        let mut outcome = TransferOutcome {
            report: EndReport::default(),
            parts: Vec::new(),
            ran_s: [0.0; 2],
            sinks: Vec::new(),
            stopped: self.stopped.unwrap_or(self.begun),
            ended: 0,
        };
        self.ended.sort_by_key(|(place, _)| *place);
        for (place, part) in std::mem::take(&mut self.ended) {
            outcome.parts.push(part.report.clone());
            outcome.report.add(part.report);
            outcome.ran_s.iter_mut().zip(part.ran_s).for_each(|(all, ran)| *all += ran);
            if let Some((mut sink, mut counted)) = part.sink {
                let taken = sink.finish(sent_there)?;
                self.control.count(&mut counted, [taken.all_bytes, 0]);
                outcome.report.datagrams.get_or_insert_default().receive(&taken);
                outcome.sinks.push((place, taken));
            }
        }
        outcome.ended = monotonic_nanos();
        outcome.report.datagrams.take_if(|datagrams| *datagrams == Datagrams::default());
        outcome.report.host = HostCounters::read().since(&self.host);
        outcome.report.radio = self.radio.take().and_then(Radio::report);
        Ok(outcome)
    }

    /// Waits until no data has arrived for a while, none can arrive, or `may` returns false.
    fn wait_for_stragglers(&self, may: &mut dyn FnMut([u64; 2]) -> bool) {
        let (begun, counter) = (monotonic_nanos(), self.counter());
        let patience = SILENCE.max(self.every * 2).as_nanos();
        let (mut had, mut since) = (counter.bytes()[0], begun);
        let is_open = |part: &RunningPart| part.waits && !part.thread.is_finished();
        while self.running.iter().any(is_open)
            && may(counter.bytes())
            && monotonic_nanos() - begun < LONGEST_WAIT.as_nanos()
            && monotonic_nanos() - since < patience
        {
            std::thread::sleep(LOOK);
            let has = counter.bytes()[0];
            if std::mem::replace(&mut had, has) != has {
                since = monotonic_nanos();
            }
        }
    }

    fn join(&mut self, which: impl Fn(&RunningPart) -> bool) -> io::Result<()> {
        while let Some(at) = self.running.iter().position(&which) {
            let part = self.running.swap_remove(at);
            let panicked = |_| Err(io::Error::other("the thread that carries data has panicked"));
            self.ended.push((part.place, part.thread.join().unwrap_or_else(panicked)?));
        }
        Ok(())
    }
}

/// An aborted transfer neither sends nor receives.
impl Drop for RunningTransfer {
    fn drop(&mut self) {
        self.halt();
        // The counts of an aborted transfer are not used.
        while self.join(|_| true).is_err() {}
    }
}

impl TransferPart {
    /// The name of its thread, the time between two readings, whether it ends when sending is stopped, and whether data may still
    /// arrive when the peer has stopped.
    fn nature(&self) -> (&'static str, Duration, bool, bool) {
        match self {
            Self::Streams { order, ending, .. } => {
                let closes = *ending == StreamEnding::Close;
                let sends = order.direction == TransferDirection::Sends;
                ("bulk-tcp", order.every, closes && sends, closes && !sends)
            }
            Self::Associations { order, .. } => ("bulk-sctp", order.every, false, false),
            Self::Source { order, .. } => ("bulk-udp-out", order.every, true, false),
            Self::Sink { every, .. } => ("bulk-udp-in", *every, false, true),
        }
    }

    fn carry(
        self,
        control: &TransferControl,
        stop: &AtomicBool,
        each: &mut dyn FnMut(PartReading<'_>),
    ) -> io::Result<EndedPart> {
        let (mut counted, mut part) = ([0; 2], EndedPart::default());
        let report = &mut part.report;
        match self {
            Self::Streams { sockets, order, ending } => {
                report.window = order.window;
                let (mut streams, mut last) = (Streams::new(sockets, order)?, Vec::new());
                if ending == StreamEnding::Close {
                    streams = streams.until_closed();
                }
                streams.carry(stop, &mut |reading| {
                    control.count(&mut counted, reading.bytes());
                    last.clone_from(&reading.connections);
                    each(PartReading::Streams(reading));
                })?;
                let infos = || last.iter().filter_map(|counts| counts.info.as_ref());
                report.segment = infos().map(|info| info.segment).min();
                report.path_mtu = infos().map(|info| info.path_mtu).min();
                report.timestamps = infos().any(|info| info.has_timestamps);
                (report.buffers, report.congestion) = streams.settings();
                match ending {
                    StreamEnding::Abort => streams.abort(),
                    StreamEnding::Close => part.streams = Some(streams),
                }
            }
            Self::Associations { socket, order } => {
                let mut associations = Associations::new(socket, order)?;
                report.segment = Some(associations.payload());
                report.window = Some(associations.window());
                associations.carry(stop, &mut |reading| {
                    control.count(&mut counted, reading.bytes());
                    each(PartReading::Streams(reading));
                })?;
                let unsent = associations.abort()?;
                report
                    .faults
                    .extend((unsent > 0).then(|| format!("this host had no room for {unsent} packets")));
            }
            Self::Source { socket, clock, order, throttle, format, is_scheduled } => {
                report.buffers = buffers(&socket);
                let source = DatagramSource::new(socket, clock, order, &throttle)?;
                let mut source = source.with_format(format);
                let mut datagrams = Datagrams::default();
                let kept = source.send(stop, &mut |sent| {
                    control.count(&mut counted, [0, sent.datagrams * u64::from(order.size)]);
                    (datagrams.sent, datagrams.skipped) = (sent.datagrams, sent.skipped);
                    each(PartReading::Source(sent));
                })?;
                report.datagrams = Some(datagrams);
                // A source whose rate is steered has no schedule to keep.
                report.faults.extend(kept.fault().filter(|_| is_scheduled));
            }
            Self::Sink { socket, clock, flow, every, format } => {
                report.buffers = buffers(&socket);
                let mut sink = DatagramSink::new(socket, clock, flow, every)?.with_format(format);
                sink.take(stop, &mut |taken| {
                    control.count(&mut counted, [taken.all_bytes, 0]);
                    each(PartReading::Sink(taken));
                })?;
                part.sink = Some((sink, counted));
            }
        }
        let effort = Effort::of_this_thread();
        (part.report.ran_ns, part.report.waited_ns) = (effort.ran.as_nanos(), effort.waited.as_nanos());
        part.ran_s = ran_s();
        Ok(part)
    }
}

/// Processor time of the calling thread in user and in kernel mode, s (proc(5): utime and stime, in hundredths).
fn ran_s() -> [f64; 2] {
    let stat = proc::text("/proc/thread-self/stat");
    let mut ticks = proc::stat_fields(&stat).skip(11).map(|field| field.parse().unwrap_or(0.0));
    [(); 2].map(|()| ticks.next().unwrap_or(0.0) * TICK_S)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;
    use crate::ByteBudget;

    /// Each connection has a thread. The parts end by themselves once the peer has everything and closes.
    #[test]
    fn parts_share_a_budget_and_close_after_it() {
        const BYTES: u64 = 5_000_001;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut transfer, budget) = (RunningTransfer::begin(None), ByteBudget::new(BYTES));
        let mut received = 0;
        let mut far = Vec::new();
        for _ in 0..2 {
            let sockets = vec![TcpStream::connect(listener.local_addr().unwrap()).unwrap()];
            far.push(listener.accept().unwrap().0);
            let (every, bytes) = (Duration::from_secs(600), Some(budget.clone()));
            let direction = TransferDirection::Sends;
            let order = StreamOrder { direction, every, bytes, pacing: None, window: None };
            let part = TransferPart::Streams { sockets, order, ending: StreamEnding::Close };
            transfer.add(part, Box::new(|_| ())).unwrap();
        }
        for mut socket in far {
            received += socket.read_to_end(&mut Vec::new()).unwrap() as u64;
        }
        while !transfer.is_over() {
            std::thread::sleep(LOOK);
        }
        let counter = transfer.counter();
        let outcome = transfer.end(None, &mut |_| true).unwrap();
        assert_eq!((received, counter.bytes(), outcome.parts.len()), (BYTES, [0, BYTES], 2));
        assert!(outcome.report.segment.is_some() && outcome.report.congestion.is_some(), "{outcome:?}");
    }

    #[test]
    fn a_worker_that_computes_has_run() {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 60 || ran_s().iter().sum::<f64>() == 0.0 {}
        assert!(ran_s().iter().all(|seconds| (0.0..1e6).contains(seconds)));
    }
}
