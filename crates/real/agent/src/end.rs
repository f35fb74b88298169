//! One end of a flow: an application, and the sockets that carry it.

mod associations;
mod connections;

use std::collections::VecDeque;
use std::net::SocketAddr;

use netrig_core::{
    ConnectionEvent, Data, DatagramId, Duration, FlowMeter, Instant, Note, Sample, Subject, quantity,
};
use netrig_traffic::{AppAction, AppEvent, Application, FlowSide, Reads, react};
use netrig_transport::Counters;

use crate::AgentError;
use crate::faults;
use crate::order::{CarrierOptions, EndOrder};
use crate::report::EndReport;
use crate::sctp::SctpEnd;
use crate::tcp::{PathInfo, TcpEnd};
use crate::udp::{ReceivedDatagram, UdpEnd};
use netrig_host::Interruptions;
use netrig_host::RealtimeOffset;
use netrig_host::TcpCounts;
use netrig_host::Watch;
use netrig_host::quantity as own;
use netrig_host::{Clock, Lateness, Pacer};

/// The listening socket, or the UDP socket, among the sockets of an end; the sockets of connections follow it.
const FIRST_SOCKET: u32 = 0;

/// Bytes per read.
const READ: usize = 1 << 18;

/// If nothing is due for this long, a source runs its own meter, which takes a tenth of this time for each of
/// [`METERED`] datagrams.
const QUIET: Duration = Duration::from_micros(8);
const METERED: usize = 8;

/// Samples in the order of their creation.
pub type Samples = Vec<(Subject, Sample)>;

/// The clocks, the poller and the output of samples that the ends of a loop share.
pub(crate) struct EndContext<'a> {
    pub clock: &'a Clock,
    pub offset: &'a RealtimeOffset,
    pub pacer: &'a Pacer,
    pub samples: &'a mut Samples,
}

/// One end of a flow.
pub(crate) struct FlowEnd {
    order: EndOrder,
    /// The position among the ends of its loop, for the keys of its sockets.
    place: u32,
    application: Box<dyn Application>,
    deadline: Option<Instant>,
    /// The latest time that was passed to the application, for which time never runs backwards.
    latest_event: Instant,
    started: bool,
    stopped: bool,
    /// The end of the run: later arrivals do not count.
    until: Instant,
    sockets: CarrierSockets,
    meter: FlowMeter,
    actions: Vec<AppAction>,
    /// Positions of the connections that are due a turn.
    turns: VecDeque<u32>,
    /// Whether more datagrams wait in the socket.
    more: bool,
    /// Datagrams in flight at the end of the run.
    in_flight: u64,
    /// Whether it was idle at the last check.
    idle: bool,
    /// Buffer for the datagrams of one receive call.
    arrived: Vec<ReceivedDatagram>,
    /// Lateness with which the application of connections got its deadlines.
    deadlines: Lateness,
    reported: TcpCounts,
    reported_sctp: Counters,
    /// Events of associations, as sentences.
    notes: Vec<Note>,
    events: Vec<ConnectionEvent>,
    buffer: Vec<u8>,
}

enum CarrierSockets {
    Udp(Box<UdpEnd>),
    Tcp(Box<TcpEnd>),
    Sctp(Box<SctpEnd>),
}

impl CarrierSockets {
    /// Opens the sockets that the carrier and the application of an end need.
    fn open(order: &EndOrder, seed: u64, until: Instant) -> Result<Self, AgentError> {
        let wrong = |why: &str| Err(AgentError::Order { flow: order.name.clone(), why: why.to_owned() });
        let datagrams = order.application.sends_datagrams();
        let sockets = match &order.carrier {
            CarrierOptions::Udp(options) if datagrams => {
                UdpEnd::open(order, *options, until).map(|end| Self::Udp(Box::new(end)))
            }
            CarrierOptions::Tcp(options) if !datagrams => {
                let listens = order.side == FlowSide::Server;
                let reads = !order.application.sends_fill_only();
                TcpEnd::open(options.clone(), order.dscp, order.local(), listens, reads)
                    .map(|end| Self::Tcp(Box::new(end)))
            }
            CarrierOptions::Sctp(options) if !datagrams => {
                if options.paths.is_empty() {
                    return wrong("its association has no path");
                }
                SctpEnd::open(order, options, seed).map(|end| Self::Sctp(Box::new(end)))
            }
            CarrierOptions::Udp(_) => return wrong("its application needs connections, and UDP has none"),
            CarrierOptions::Tcp(_) | CarrierOptions::Sctp(_) => {
                return wrong("its application sends datagrams, and its carrier has only connections");
            }
        };
        sockets.map_err(|source| AgentError::Socket { flow: order.name.clone(), source })
    }
}

impl FlowEnd {
    /// Opens the sockets of an end. The keys under which they are polled begin with `place`.
    pub fn open(
        order: EndOrder,
        place: u32,
        seed: u64,
        until: Instant,
        meter: FlowMeter,
    ) -> Result<Self, AgentError> {
        let wrong = |why: String| AgentError::Order { flow: order.name.clone(), why };
        order.application.check().map_err(|error| wrong(error.to_string()))?;
        order.reads.iter().try_for_each(Reads::check).map_err(|error| wrong(error.to_string()))?;
        if order.dscp > 63 {
            return Err(wrong(format!("the DSCP {} is above 63", order.dscp)));
        }
        let sockets = CarrierSockets::open(&order, seed, until)?;
        Ok(Self {
            application: order.make_application(seed),
            order,
            place,
            deadline: None,
            latest_event: Instant::ZERO,
            started: false,
            stopped: false,
            until,
            sockets,
            meter,
            actions: Vec::new(),
            turns: VecDeque::new(),
            more: false,
            in_flight: 0,
            idle: false,
            arrived: Vec::new(),
            deadlines: Lateness::default(),
            reported: TcpCounts::default(),
            reported_sctp: Counters::default(),
            notes: Vec::new(),
            events: Vec::new(),
            buffer: vec![0; READ],
        })
    }

    /// The flow's index in the scenario.
    pub const fn flow(&self) -> u32 {
        self.order.flow
    }

    pub const fn side(&self) -> FlowSide {
        self.order.side
    }

    /// Whether the end is idle, if that has changed since the last call. An end is idle if it has had connections, all of
    /// them have closed, and its application waits for nothing.
    pub fn becomes_idle(&mut self) -> Option<bool> {
        let over = match &self.sockets {
            CarrierSockets::Udp(_) => return None,
            CarrierSockets::Tcp(tcp) => tcp.has_been_used() && tcp.is_empty(),
            CarrierSockets::Sctp(sctp) => sctp.has_been_used() && sctp.is_empty(),
        };
        let idle = over && self.deadline.is_none();
        (idle != std::mem::replace(&mut self.idle, idle)).then_some(idle)
    }

    /// Whether an end sends datagrams by a schedule, so its loop must be precise.
    pub fn is_precise(order: &EndOrder) -> bool {
        order.side == FlowSide::Client && order.application.sends_datagrams()
    }

    /// Whether an end has SCTP associations, which the work of other ends must not delay.
    pub fn is_association(order: &EndOrder) -> bool {
        matches!(order.carrier, CarrierOptions::Sctp(_))
    }

    /// Registers the listening socket, or the UDP socket, with the poller. A source without answers is not polled.
    pub fn watch(&self, pacer: &Pacer) -> Result<(), AgentError> {
        let key = self.key(FIRST_SOCKET);
        let watched = match &self.sockets {
            CarrierSockets::Udp(udp) if !self.order.application.is_one_way() => {
                pacer.watch(udp.fd(), key, Watch::Reading)
            }
            CarrierSockets::Udp(udp) if self.order.side == FlowSide::Server => {
                pacer.watch(udp.fd(), key, Watch::ReadingOnce)
            }
            CarrierSockets::Udp(_) => Ok(()),
            CarrierSockets::Tcp(tcp) => tcp.listener().map_or(Ok(()), |fd| pacer.watch(fd, key, Watch::Both)),
            CarrierSockets::Sctp(sctp) => sctp.fds().try_for_each(|fd| pacer.watch(fd, key, Watch::Reading)),
        };
        watched.map_err(AgentError::kernel("epoll_ctl"))
    }

    fn key(&self, socket: u32) -> u64 {
        u64::from(self.place) << 32 | u64::from(socket)
    }

    /// The time of its next own action; [`Instant::ZERO`] if at once.
    pub fn next(&self) -> Instant {
        if self.more || !self.turns.is_empty() {
            return Instant::ZERO;
        }
        let start = (!self.started).then(|| self.order.start());
        let stop =
            (self.started && !self.stopped && self.order.side == FlowSide::Client).then(|| self.order.stop());
        let deadline = self.deadline.filter(|_| self.has_room());
        let (retry, look) = match &self.sockets {
            CarrierSockets::Udp(udp) => (udp.outbox.retry(), udp.next_look()),
            CarrierSockets::Tcp(tcp) => (self.order.reads.and_then(|_| tcp.next_read()), None),
            CarrierSockets::Sctp(sctp) => (sctp.next(), None),
        };
        [start, stop, deadline, retry, look].into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    fn has_room(&self) -> bool {
        match &self.sockets {
            CarrierSockets::Udp(udp) => udp.outbox.has_room(),
            CarrierSockets::Tcp(_) | CarrierSockets::Sctp(_) => true,
        }
    }

    /// Handles an event of the poller for a socket of this end.
    pub fn ready(&mut self, socket: u32, around: &mut EndContext) -> Result<(), AgentError> {
        match &mut self.sockets {
            CarrierSockets::Udp(_) => self.more = true,
            CarrierSockets::Sctp(sctp) => sctp.is_ready(),
            CarrierSockets::Tcp(_) if socket == FIRST_SOCKET => self.accept(around)?,
            CarrierSockets::Tcp(tcp) => {
                if let Some(conn) = tcp.get(socket - 1) {
                    conn.is_ready();
                }
                self.turns.push_back(socket - 1);
            }
        }
        Ok(())
    }

    /// Does everything that is due at `now`: takes arrivals, then passes the deadlines that have come to the application, each
    /// with the time that it was due, and carries out the resulting actions.
    pub fn advance(&mut self, now: Instant, around: &mut EndContext) -> Result<(), AgentError> {
        if !self.started && self.order.start() <= now {
            self.started = true;
            self.notify(self.order.start(), AppEvent::Started, around)?;
        }
        self.take_datagrams(now, around)?;
        self.take_packets(around)?;
        self.take_steps(now, around)?;
        self.take_turns(now, around)?;
        let mut now = now;
        while self.started {
            let stop = (!self.stopped && self.order.side == FlowSide::Client).then(|| self.order.stop());
            let stop = stop.filter(|at| *at <= now);
            let due = self.deadline.filter(|at| *at <= now && stop.is_none_or(|stop| *at < stop));
            match (due, stop) {
                // Datagrams due before the flow stops are sent, however late, while the receiver waits for them.
                (Some(at), _) => {
                    if !self.has_room() {
                        self.flush(around)?;
                    }
                    if !self.has_room() {
                        break;
                    }
                    if !matches!(self.sockets, CarrierSockets::Udp(_)) {
                        self.deadlines.record(around.clock.now() - at);
                    }
                    self.notify(at, AppEvent::Timeout, around)?;
                }
                (None, Some(at)) => {
                    self.stopped = true;
                    self.notify(at, AppEvent::Stopped, around)?;
                }
                (None, None) => match self.next_deadline_within_grace() {
                    Some(at) => {
                        around.clock.spin_until(at);
                        now = at;
                    }
                    None => break,
                },
            }
        }
        self.flush(around)?;
        if let CarrierSockets::Udp(udp) = &mut self.sockets
            && udp.outbox.unmetered() >= METERED
            && self.deadline.is_none_or(|at| around.clock.left_until(at) > QUIET)
        {
            udp.outbox.meter(METERED);
        }
        Ok(())
    }

    /// The next deadline, if what the application sends then should leave together with the queued datagrams.
    fn next_deadline_within_grace(&self) -> Option<Instant> {
        let CarrierSockets::Udp(udp) = &self.sockets else { return None };
        let grace = udp.outbox.grace()?.min(self.until);
        self.deadline
            .filter(|at| *at <= grace && udp.outbox.has_room() && (self.stopped || *at < self.order.stop()))
    }

    /// Sends the queued datagrams.
    fn flush(&mut self, around: &EndContext) -> Result<(), AgentError> {
        let CarrierSockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let before = udp.outbox.sent();
        udp.flush(around.clock).map_err(AgentError::kernel("sendmmsg"))?;
        // Answers do not count as data of the flow.
        if self.order.sends_data() {
            self.meter.datagrams_sent(udp.outbox.sent() - before);
        }
        Ok(())
    }

    fn take_datagrams(&mut self, now: Instant, around: &mut EndContext) -> Result<(), AgentError> {
        let key = self.key(FIRST_SOCKET);
        let CarrierSockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let looks = udp.next_look().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.more) && !looks {
            return Ok(());
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        self.more = udp
            .receive(around.clock, around.offset, |received| arrived.push(received))
            .map_err(AgentError::kernel("recvmmsg"))?;
        let watched_once = self.order.side == FlowSide::Server && self.order.application.is_one_way();
        if watched_once && !self.more && !udp.look_again(around.clock.now(), !arrived.is_empty()) {
            around
                .pacer
                .watch_again(udp.fd(), key, Watch::ReadingOnce)
                .map_err(AgentError::kernel("epoll_ctl"))?;
        }
        for ReceivedDatagram { at, from, stamp, answers, data } in arrived.drain(..) {
            if at > self.until {
                let counts = !self.order.sends_data() && stamp.intended() <= self.until;
                self.in_flight += u64::from(counts);
                continue;
            }
            if !self.order.sends_data() {
                let headers = if from.is_ipv4() { 28 } else { 48 };
                self.meter.received(data.size());
                self.meter.packet_arrived(data.size() + headers);
                self.meter.data_arrived(at, around.samples);
            }
            let event = match answers {
                Some(datagram) => AppEvent::Answered { datagram, data },
                None => AppEvent::Datagram { from, number: stamp.number, sent: stamp.sent, data },
            };
            self.notify(at, event, around)?;
        }
        self.arrived = arrived;
        Ok(())
    }

    /// Whether this end receives datagrams.
    pub fn receives_datagrams(&self) -> bool {
        self.order.side == FlowSide::Server && matches!(self.sockets, CarrierSockets::Udp(_))
    }

    /// Takes all datagrams that have arrived.
    pub fn take_late(&mut self, now: Instant, around: &mut EndContext) -> Result<(), AgentError> {
        self.more = matches!(self.sockets, CarrierSockets::Udp(_));
        while self.more {
            self.take_datagrams(now, around)?;
        }
        Ok(())
    }

    /// Passes an event to the application, and carries out its actions.
    fn notify(&mut self, at: Instant, event: AppEvent, around: &mut EndContext) -> Result<(), AgentError> {
        self.latest_event = self.latest_event.max(at);
        let mut actions = std::mem::take(&mut self.actions);
        self.deadline =
            react(&mut *self.application, self.latest_event, event, |action| actions.push(action));
        for action in actions.drain(..) {
            match action {
                AppAction::Datagram { to, data } => self.datagram(at, to, None, data)?,
                AppAction::Answer { to, datagram, data } => self.datagram(at, to, Some(datagram), data)?,
                AppAction::Record(sample) => around.samples.push((Subject::Flow(self.order.flow), sample)),
                AppAction::GiveUp { why } => {
                    return Err(AgentError::Order { flow: self.order.name.clone(), why });
                }
                AppAction::Open { conn, to } => self.connect(conn, to, around)?,
                AppAction::Send { conn, stream, data } => {
                    if self.order.sends_data() {
                        self.meter.offered(data.size());
                    }
                    self.send(conn, stream, data, around)?;
                }
                AppAction::Close { conn } => self.close(conn, around)?,
            }
        }
        self.actions = actions;
        Ok(())
    }

    fn datagram(
        &mut self,
        intended: Instant,
        to: SocketAddr,
        answers: Option<DatagramId>,
        data: Data,
    ) -> Result<(), AgentError> {
        let CarrierSockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let size = data.size();
        udp.outbox
            .push(intended, to, answers, data)
            .map_err(|why| AgentError::Order { flow: self.order.name.clone(), why })?;
        if self.order.sends_data() {
            self.meter.offered(size);
        }
        Ok(())
    }

    /// The flow stops at `now`, if that is earlier than its configured stop.
    pub fn stop(&mut self, now: Instant) {
        self.order.stop_ns = self.order.stop_ns.min(now.as_nanos());
    }

    /// Reports the counts since the last tick, and the current levels.
    pub fn tick(&mut self, at: Instant, out: &mut Samples) -> Result<(), AgentError> {
        for (quantity, count) in self.meter.take_counts().filter(|(_, count)| *count > 0) {
            self.meter.mark(at, quantity, count as f64, out);
        }
        match &mut self.sockets {
            CarrierSockets::Udp(udp) => {
                let counts = udp.take_counts().map_err(AgentError::kernel("SO_MEMINFO"))?;
                let data_sent = if self.order.sends_data() { counts.sent } else { 0 };
                for (quantity, value) in [
                    (&quantity::PACKETS_SENT, counts.sent),
                    (&quantity::DATA_PACKETS_SENT, data_sent),
                    (&own::DATAGRAMS_DUPLICATED, counts.duplicated),
                    (&own::DATAGRAMS_REORDERED, counts.reordered),
                    (&own::SOCKET_DROPPED, counts.socket_dropped.into()),
                ] {
                    if value > 0 {
                        self.meter.mark(at, quantity, value as f64, out);
                    }
                }
            }
            CarrierSockets::Tcp(tcp) => {
                let now = tcp.counts();
                let before = std::mem::replace(&mut self.reported, now);
                let sends = self.order.sends_data();
                for (quantity, wanted, of) in COUNTED_BY_TCP {
                    let value = of(&now).saturating_sub(of(&before));
                    if value > 0 && wanted.is_none_or(|sender| sender == sends) {
                        self.meter.mark(at, quantity, value as f64, out);
                    }
                }
                if sends {
                    tcp.infos().iter().for_each(|path| trace(at, self.order.flow, path, out));
                }
                if let Some(subflows) = tcp.subflows().filter(|_| sends) {
                    self.meter.mark(at, &own::SUBFLOWS, subflows.into(), out);
                }
            }
            CarrierSockets::Sctp(_) => self.tick_associations(at, out),
        }
        Ok(())
    }

    /// Ends the run at `now`: does what is due, takes what has arrived in time, and makes the report.
    pub fn finish(
        &mut self,
        now: Instant,
        interruptions: Interruptions,
        around: &mut EndContext,
    ) -> Result<EndReport, AgentError> {
        self.advance(now, around)?;
        self.take_late(now, around)?;
        self.tick(now, around.samples)?;
        if self.in_flight > 0 {
            let taken_back = -(self.in_flight as f64);
            self.meter.mark(self.until, &quantity::DATAGRAMS_SENT, taken_back, around.samples);
        }
        self.meter.finish(around.samples);
        let mut report =
            EndReport { deadlines: self.deadlines.clone(), ..EndReport::empty(&self.order, interruptions) };
        if let CarrierSockets::Udp(udp) = &self.sockets {
            report.passed = Some(udp.passage().map_err(AgentError::kernel("SO_MEMINFO"))?);
        }
        match &mut self.sockets {
            CarrierSockets::Udp(udp) if self.order.side == FlowSide::Client => {
                report.source = Some(udp.outbox.source().report())
            }
            CarrierSockets::Udp(udp) => {
                report.datagrams = Some(udp.report().map_err(AgentError::kernel("SO_MEMINFO"))?);
            }
            CarrierSockets::Tcp(tcp) => {
                [report.connections, report.failed, report.fallbacks] = tcp.tally();
                report.subflows = tcp.most_subflows();
            }
            CarrierSockets::Sctp(sctp) => {
                [report.connections, report.failed] = sctp.tally();
                report.sctp = Some(sctp.report()?);
            }
        }
        let found = faults::of(&report, &self.order);
        (report.faults, report.strains, report.notes) = (found.faults, found.strains, found.notes);
        if !self.has_room() {
            report.strains.push(format!(
                "flow `{}`: the sending socket had no room for datagrams that were due",
                self.order.name
            ));
        }
        Ok(report)
    }
}

/// Selects one number of the kernel's TCP counts.
type Count = fn(&TcpCounts) -> u64;

/// TCP's own counts, and which end reports each (true: the one that sends the flow's data, false: the other, none: both).
static COUNTED_BY_TCP: [(&netrig_core::Quantity, Option<bool>, Count); 5] = [
    (&quantity::PACKETS_SENT, None, |c| c.segments_sent),
    (&quantity::DATA_PACKETS_SENT, Some(true), |c| c.data_segments_sent),
    (&quantity::DATA_PACKETS_RECEIVED, Some(false), |c| c.data_segments_received),
    (&quantity::RETRANSMITTED_BYTES, Some(true), |c| c.bytes_retransmitted),
    (&quantity::TIMEOUTS, None, |c| c.timeouts),
];

/// Reports the state of the flow's connection over one of its paths.
fn trace(at: Instant, flow: u32, PathInfo { path, info }: &PathInfo, out: &mut Samples) {
    let levels = [
        (&quantity::CWND, Some(info.cwnd as f64)),
        (&quantity::SSTHRESH, info.ssthresh.map(|bytes| bytes as f64)),
        (&quantity::FLIGHT, Some(info.flight as f64)),
        (&quantity::RTO, Some(info.rto.as_secs_f64())),
        (&quantity::SRTT, info.srtt.map(|span| span.as_secs_f64())),
        (&own::MIN_RTT, info.min_rtt.map(|span| span.as_secs_f64())),
        (&own::PACING_RATE, info.pacing_rate.map(|rate| rate as f64)),
        (&own::DELIVERY_RATE, Some(info.delivery_rate as f64)),
    ];
    let known = levels.into_iter().filter_map(|(quantity, value)| Some((quantity, value?)));
    out.extend(known.map(|(quantity, value)| (Subject::Path(flow, *path), Sample { at, quantity, value })));
}
