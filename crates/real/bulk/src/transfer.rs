//! A running transfer: a thread for each part, a counter of the transferred bytes, and the report at the end.

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

/// The wait for data in flight ends when no data has arrived for this time or for two intervals between readings,
/// whichever is longer. It ends after `LONGEST_WAIT` at the latest.
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
        /// How the connections end.
        ending: StreamEnding,
    },
    /// SCTP associations. They are aborted at the end.
    Associations {
        /// The connected UDP socket that carries the associations.
        socket: UdpSocket,
        /// The parameters.
        order: AssociationOrder,
    },
    /// A source of datagrams.
    Source {
        /// The connected socket.
        socket: UdpSocket,
        /// The clock for the send times in the datagrams.
        clock: Clock,
        /// The parameters.
        order: SourceOrder,
        /// The rate.
        throttle: Arc<Throttle>,
        /// The header of the datagrams; `None` for netrig's own header.
        format: Option<Arc<dyn DatagramFormat>>,
        /// Whether the source has a schedule. If so, deviations from the schedule are a fault.
        is_scheduled: bool,
    },
    /// A sink of datagrams.
    Sink {
        /// The connected socket.
        socket: UdpSocket,
        /// The clock for the arrival times. Its epoch is that of the send times in the datagrams.
        clock: Clock,
        /// The number of the flow in netrig's own header.
        flow: u32,
        /// Time between two readings.
        every: Duration,
        /// The header of the datagrams; `None` for netrig's own header.
        format: Option<Arc<dyn DatagramFormat>>,
    },
}

/// How the connections of a part end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// The connections transfer data until the end of the transfer, which aborts them.
    Abort,
    /// The connections of a sender stop with [`RunningTransfer::stop_sending`] and stay open until the end of the
    /// transfer, which closes them. If all bytes of the order are sent earlier, they close immediately. The connections
    /// of a receiver are read until the peer closes them, or until no data has arrived for a while after the end of the
    /// transfer.
    Close,
}

/// A reading of a part.
pub enum PartReading<'a> {
    /// A reading of TCP connections or associations.
    Streams(&'a Reading),
    /// A reading of a source.
    Source(&'a SourceReading),
    /// A reading of a sink.
    Sink(&'a SinkReading),
}

/// A function that gets the readings of a part. It is called on the thread of the part.
pub type PartObserver = Box<dyn FnMut(PartReading<'_>) + Send>;

/// Counts the bytes of all parts. The counter stays valid after the transfer has ended.
#[derive(Clone, Debug)]
pub struct TransferCounter(Arc<TransferControl>);

impl TransferCounter {
    /// Payload bytes received and sent so far, in this order. Duplicate datagrams are included.
    pub fn bytes(&self) -> [u64; 2] {
        self.0.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

/// State that the threads of a transfer share.
#[derive(Debug, Default)]
struct TransferControl {
    stop_sending: AtomicBool,
    stop: AtomicBool,
    /// Bytes received and sent, in this order.
    bytes: [AtomicU64; 2],
}

impl TransferControl {
    /// Adds the bytes that a part has transferred since its last reading. `before` contains the totals at that reading
    /// and is replaced by `now`.
    fn count(&self, before: &mut [u64; 2], now: [u64; 2]) {
        for ((bytes, before), now) in self.bytes.iter().zip(before).zip(now) {
            bytes.fetch_add(now - std::mem::replace(before, now), Ordering::Relaxed);
        }
    }
}

/// One end of a running transfer.
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
    /// Whether the part ends when sending is stopped.
    is_sender: bool,
    /// Whether data of this part may still arrive after the peer has stopped.
    waits: bool,
    thread: JoinHandle<io::Result<EndedPart>>,
}

/// The result of the thread of a part.
#[derive(Default)]
struct EndedPart {
    report: EndReport,
    ran_s: [f64; 2],
    /// Connections that stay open until the end of the transfer.
    streams: Option<Streams>,
    /// A sink whose socket may still hold datagrams, and the bytes of this sink that have been counted.
    sink: Option<(DatagramSink, [u64; 2])>,
}

/// The result of a transfer at one end.
#[derive(Clone, Debug)]
pub struct TransferOutcome {
    /// The totals of all parts, without the lifetimes of the threads.
    totals: EndReport,
    /// The report of each part, without the counters of the host.
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

impl TransferOutcome {
    /// The report of this end, whose threads carried data for `lasted_ns`. The caller gives the duration, because the
    /// end of the transfer may have been announced late.
    pub fn report(&self, lasted_ns: u64) -> EndReport {
        EndReport { threads_ns: self.parts.len() as u64 * lasted_ns, ..self.totals.clone() }
    }
}

impl RunningTransfer {
    /// Starts a transfer without parts. The route to `peer` determines the outgoing interface for the radio statistics.
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

    /// Starts a part on a new thread. The parts get the indices 0, 1, ... in the order of the calls.
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

    /// The counter of received and sent bytes of all parts.
    pub fn counter(&self) -> TransferCounter {
        TransferCounter(Arc::clone(&self.control))
    }

    /// Whether all parts have ended by themselves.
    pub fn is_over(&self) -> bool {
        !self.running.is_empty() && self.running.iter().all(|part| part.thread.is_finished())
    }

    /// Stops sources, and connections that only send and have the ending [`StreamEnding::Close`]. Returns the number of
    /// datagrams that the sources have sent; `None` if there is no source.
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

    /// Stops all parts. Connections with the ending [`StreamEnding::Close`] stay open as long as this value exists.
    pub fn halt(&self) {
        self.control.stop_sending.store(true, Ordering::Relaxed);
        self.control.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for data in flight, and ends the transfer. `sent_there` is the number of datagrams that the peer has sent,
    /// if known. The wait stops when `may` returns false for the numbers of bytes received and sent.
    ///
    /// # Errors
    /// If a part has failed.
    pub fn end(
        mut self,
        sent_there: Option<u64>,
        may: &mut dyn FnMut([u64; 2]) -> bool,
    ) -> io::Result<TransferOutcome> {
        self.stop_sending()?;
        // Dropping the connections closes them, so the receivers detect the end of the data.
        self.ended.iter_mut().for_each(|(_, part)| part.streams = None);
        self.wait_for_stragglers(may);
        self.halt();
        self.join(|_| true)?;
        let mut outcome = TransferOutcome {
            totals: EndReport::default(),
            parts: Vec::new(),
            ran_s: [0.0; 2],
            sinks: Vec::new(),
            stopped: self.stopped.unwrap_or(self.begun),
            ended: 0,
        };
        self.ended.sort_by_key(|(place, _)| *place);
        for (place, part) in std::mem::take(&mut self.ended) {
            outcome.parts.push(part.report.clone());
            outcome.totals.add(part.report);
            outcome.ran_s.iter_mut().zip(part.ran_s).for_each(|(all, ran)| *all += ran);
            if let Some((mut sink, mut counted)) = part.sink {
                let taken = sink.finish(sent_there)?;
                self.control.count(&mut counted, [taken.all_bytes, 0]);
                outcome.totals.datagrams.get_or_insert_default().receive(&taken);
                outcome.sinks.push((place, taken));
            }
        }
        outcome.ended = monotonic_nanos();
        outcome.totals.datagrams.take_if(|datagrams| *datagrams == Datagrams::default());
        outcome.totals.host = HostCounters::read().since(&self.host);
        outcome.totals.radio = self.radio.take().and_then(Radio::report);
        Ok(outcome)
    }

    /// Waits until no data has arrived for a while, until no more data can arrive, or until `may` returns false.
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

/// Aborts the transfer: stops all threads and waits for them.
impl Drop for RunningTransfer {
    fn drop(&mut self) {
        self.halt();
        // The counts of an aborted transfer are not used.
        while self.join(|_| true).is_err() {}
    }
}

impl TransferPart {
    /// Properties of the part: the name of its thread, the time between two readings, whether it ends when sending is
    /// stopped, and whether data may still arrive after the peer has stopped.
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
                // If the rate of a source is adjusted during the transfer, the source has no schedule to follow.
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

/// Processor time of the calling thread in user mode and in kernel mode, s (proc(5): utime and stime, in ticks of 10
/// ms).
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

    /// Each connection is a part with its own thread. A part ends by itself when the peer has received everything and
    /// closes the connection.
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
        let report = outcome.report(1000);
        assert!(report.segment.is_some() && report.congestion.is_some(), "{outcome:?}");
        assert_eq!(report.threads_ns, 2000, "each connection has a thread");
    }

    #[test]
    fn a_worker_that_computes_has_run() {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 60 || ran_s().iter().sum::<f64>() == 0.0 {}
        assert!(ran_s().iter().all(|seconds| (0.0..1e6).contains(seconds)));
    }
}
