//! One end of a flow: an application, and the sockets that carry it.

mod associations;
mod connections;
mod faults;
mod report;

use std::collections::VecDeque;
use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Data, DatagramId, Duration, Instant, Note, Sample, Subject, quantity};
use netrig_traffic::{AppAction, AppEvent, Application, Reads, react};
use netrig_transport::Counters;

pub use self::report::{EndRemark, EndReport};
use crate::AgentError;
use crate::meter::{Counted, EndMeter, Samples};
use crate::order::{CarrierOptions, EndOrder};
use crate::sctp::SctpEnd;
use crate::side::Side;
use crate::tcp::{PathInfo, TcpEnd};
use crate::udp::{Received, UdpEnd};
use netrig_host::Interruptions;
use netrig_host::RealtimeOffset;
use netrig_host::TcpCounts;
use netrig_host::Watch;
use netrig_host::quantity as own;
use netrig_host::{Clock, Lateness, Pacer};

/// The listening socket, or the one for datagrams, among the sockets of an end; connections come after it.
const FIRST_SOCKET: u32 = 0;

/// Bytes read at a time.
const READ: usize = 1 << 18;

/// A source for which nothing is due for so long has time for its own meter, which takes a tenth of that for each of
/// [`METERED`] datagrams.
const QUIET: Duration = Duration::from_micros(8);
const METERED: usize = 8;

/// What an end works with.
pub(crate) struct Surroundings<'a> {
    pub clock: &'a Clock,
    pub offset: &'a RealtimeOffset,
    pub pacer: &'a Pacer,
    pub samples: &'a mut Samples,
}

/// One end of a flow.
pub(crate) struct FlowEnd {
    order: EndOrder,
    /// Its place among the ends of its loop, for the keys of its sockets.
    place: u32,
    application: Box<dyn Application>,
    deadline: Option<Instant>,
    /// The last moment that the application was told: for it time never runs backwards.
    told: Instant,
    started: bool,
    stopped: bool,
    /// When the run ends: what arrives later does not count.
    until: Instant,
    sockets: Sockets,
    meter: EndMeter,
    actions: Vec<AppAction>,
    /// Connections that are to have a turn.
    turns: VecDeque<u32>,
    /// Whether more datagrams wait than were taken.
    more: bool,
    /// Datagrams that were on their way when the run ended.
    on_their_way: u64,
    /// Whether it had nothing more to do when it was last asked.
    idle: bool,
    /// Space for what one look finds.
    arrived: Vec<Received>,
    /// How late the application of connections was told of its deadlines.
    deadlines: Lateness,
    reported: TcpCounts,
    reported_sctp: Counters,
    /// What happened to associations, in words.
    notes: Vec<Note>,
    events: Vec<ConnectionEvent>,
    buffer: Vec<u8>,
}

enum Sockets {
    Udp(Box<UdpEnd>),
    Tcp(Box<TcpEnd>),
    Sctp(Box<SctpEnd>),
}

impl Sockets {
    /// Those of an end, as its carrier says and as its application needs them.
    fn open(order: &EndOrder, seed: u64, until: Instant) -> Result<Self, AgentError> {
        let wrong = |why: &str| Err(AgentError::Order { flow: order.name.clone(), why: why.to_owned() });
        let datagrams = order.application.sends_datagrams();
        let sockets = match &order.carrier {
            CarrierOptions::Udp(options) if datagrams => {
                UdpEnd::open(order, *options, until).map(|end| Self::Udp(Box::new(end)))
            }
            CarrierOptions::Tcp(options) if !datagrams => {
                let listens = order.side == Side::Server;
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
            CarrierOptions::Udp(_) => return wrong("its application opens connections, which UDP has not"),
            CarrierOptions::Tcp(_) | CarrierOptions::Sctp(_) => {
                return wrong("its application sends datagrams, which connections have not");
            }
        };
        sockets.map_err(|source| AgentError::Socket { flow: order.name.clone(), source })
    }
}

impl FlowEnd {
    /// Opens the sockets of an end, and the listening ones are watched under keys that begin with `place`.
    pub fn open(
        order: EndOrder,
        place: u32,
        seed: u64,
        until: Instant,
        meter: EndMeter,
    ) -> Result<Self, AgentError> {
        let wrong = |why: String| AgentError::Order { flow: order.name.clone(), why };
        order.application.check().map_err(|error| wrong(error.to_string()))?;
        order.reads.iter().try_for_each(Reads::check).map_err(|error| wrong(error.to_string()))?;
        if order.dscp > 63 {
            return Err(wrong(format!("a code point of {} is above 63", order.dscp)));
        }
        let sockets = Sockets::open(&order, seed, until)?;
        Ok(Self {
            application: order.make_application(seed),
            order,
            place,
            deadline: None,
            told: Instant::ZERO,
            started: false,
            stopped: false,
            until,
            sockets,
            meter,
            actions: Vec::new(),
            turns: VecDeque::new(),
            more: false,
            on_their_way: 0,
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

    /// The flow's place in the scenario.
    pub const fn flow(&self) -> u32 {
        self.order.flow
    }

    /// Which of its ends.
    pub const fn side(&self) -> Side {
        self.order.side
    }

    /// Whether it has nothing more to do, if that is not as it was when it was last asked: it has had connections, all of
    /// them have closed, and its application waits for nothing.
    pub fn becomes_idle(&mut self) -> Option<bool> {
        let over = match &self.sockets {
            Sockets::Udp(_) => return None,
            Sockets::Tcp(tcp) => tcp.has_been_used() && tcp.is_empty(),
            Sockets::Sctp(sctp) => sctp.has_been_used() && sctp.is_empty(),
        };
        let idle = over && self.deadline.is_none();
        (idle != std::mem::replace(&mut self.idle, idle)).then_some(idle)
    }

    /// Whether it sends datagrams by a schedule, so that its loop must be precise.
    pub fn is_precise(order: &EndOrder) -> bool {
        order.side == Side::Client && order.application.sends_datagrams()
    }

    /// Whether it has associations of SCTP, which no other's work must make late.
    pub fn is_association(order: &EndOrder) -> bool {
        matches!(order.carrier, CarrierOptions::Sctp(_))
    }

    /// Has its listening socket, or the one for datagrams, watched; that of a source that gets no answer is not.
    pub fn watch(&self, pacer: &Pacer) -> Result<(), AgentError> {
        let key = self.key(FIRST_SOCKET);
        let watched = match &self.sockets {
            Sockets::Udp(udp) if !self.order.application.is_one_way() => {
                pacer.watch(udp.fd(), key, Watch::Reading)
            }
            Sockets::Udp(udp) if self.order.side == Side::Server => {
                pacer.watch(udp.fd(), key, Watch::ReadingOnce)
            }
            Sockets::Udp(_) => Ok(()),
            Sockets::Tcp(tcp) => tcp.listener().map_or(Ok(()), |fd| pacer.watch(fd, key, Watch::Both)),
            Sockets::Sctp(sctp) => sctp.fds().try_for_each(|fd| pacer.watch(fd, key, Watch::Reading)),
        };
        watched.map_err(AgentError::kernel("epoll_ctl"))
    }

    fn key(&self, socket: u32) -> u64 {
        u64::from(self.place) << 32 | u64::from(socket)
    }

    /// When it next has something to do by itself; [`Instant::ZERO`] if at once.
    pub fn next(&self) -> Instant {
        if self.more || !self.turns.is_empty() {
            return Instant::ZERO;
        }
        let start = (!self.started).then(|| self.order.start());
        let stop =
            (self.started && !self.stopped && self.order.side == Side::Client).then(|| self.order.stop());
        let deadline = self.deadline.filter(|_| self.has_room());
        let (retry, look) = match &self.sockets {
            Sockets::Udp(udp) => (udp.outbox.retry(), udp.next_look()),
            Sockets::Tcp(tcp) => (self.order.reads.and_then(|_| tcp.next_read()), None),
            Sockets::Sctp(sctp) => (sctp.next(), None),
        };
        [start, stop, deadline, retry, look].into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    fn has_room(&self) -> bool {
        match &self.sockets {
            Sockets::Udp(udp) => udp.outbox.has_room(),
            Sockets::Tcp(_) | Sockets::Sctp(_) => true,
        }
    }

    /// A socket of this end has something to say.
    pub fn ready(&mut self, socket: u32, around: &mut Surroundings) -> Result<(), AgentError> {
        match &mut self.sockets {
            Sockets::Udp(_) => self.more = true,
            Sockets::Sctp(sctp) => sctp.is_ready(),
            Sockets::Tcp(_) if socket == FIRST_SOCKET => self.accept(around)?,
            Sockets::Tcp(tcp) => {
                if let Some(conn) = tcp.get(socket - 1) {
                    conn.is_ready();
                }
                self.turns.push_back(socket - 1);
            }
        }
        Ok(())
    }

    /// Does everything that is due at `now`: takes what arrived, then tells the application of the moments that have come,
    /// each with the time that it was due, and carries out what it asks for.
    pub fn advance(&mut self, now: Instant, around: &mut Surroundings) -> Result<(), AgentError> {
        if !self.started && self.order.start() <= now {
            self.started = true;
            self.tell(self.order.start(), AppEvent::Started, around)?;
        }
        self.take_datagrams(now, around)?;
        self.take_packets(around)?;
        self.take_steps(now, around)?;
        self.take_turns(now, around)?;
        let mut now = now;
        while self.started {
            let stop = (!self.stopped && self.order.side == Side::Client).then(|| self.order.stop());
            let stop = stop.filter(|at| *at <= now);
            let due = self.deadline.filter(|at| *at <= now && stop.is_none_or(|stop| *at < stop));
            match (due, stop) {
                // What was due before the flow stops is sent, however late, as long as somebody receives it.
                (Some(at), _) => {
                    if !self.has_room() {
                        self.flush(around)?;
                    }
                    if !self.has_room() {
                        break;
                    }
                    if !matches!(self.sockets, Sockets::Udp(_)) {
                        self.deadlines.record(around.clock.now() - at);
                    }
                    self.tell(at, AppEvent::Timeout, around)?;
                }
                (None, Some(at)) => {
                    self.stopped = true;
                    self.tell(at, AppEvent::Stopped, around)?;
                }
                (None, None) => match self.next_with_those_that_wait() {
                    Some(at) => {
                        around.clock.spin_until(at);
                        now = at;
                    }
                    None => break,
                },
            }
        }
        self.flush(around)?;
        if let Sockets::Udp(udp) = &mut self.sockets
            && udp.outbox.unmetered() >= METERED
            && self.deadline.is_none_or(|at| around.clock.left_until(at) > QUIET)
        {
            udp.outbox.meter(METERED);
        }
        Ok(())
    }

    /// When the application is to be told next, if what it sends then had better leave with the datagrams that wait now.
    fn next_with_those_that_wait(&self) -> Option<Instant> {
        let Sockets::Udp(udp) = &self.sockets else { return None };
        let grace = udp.outbox.grace()?.min(self.until);
        self.deadline
            .filter(|at| *at <= grace && udp.outbox.has_room() && (self.stopped || *at < self.order.stop()))
    }

    /// Sends the datagrams that wait.
    fn flush(&mut self, around: &Surroundings) -> Result<(), AgentError> {
        let Sockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let before = udp.outbox.sent();
        udp.flush(around.clock).map_err(AgentError::kernel("sendmmsg"))?;
        // Answers are no part of what the flow carries.
        if self.order.sends_data() {
            self.meter.count(Counted::DatagramsSent, udp.outbox.sent() - before);
        }
        Ok(())
    }

    fn take_datagrams(&mut self, now: Instant, around: &mut Surroundings) -> Result<(), AgentError> {
        let key = self.key(FIRST_SOCKET);
        let Sockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let looks = udp.next_look().is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.more) && !looks {
            return Ok(());
        }
        let mut arrived = std::mem::take(&mut self.arrived);
        self.more = udp
            .receive(around.clock, around.offset, |received| arrived.push(received))
            .map_err(AgentError::kernel("recvmmsg"))?;
        let watched_once = self.order.side == Side::Server && self.order.application.is_one_way();
        if watched_once && !self.more && !udp.look_again(around.clock.now(), !arrived.is_empty()) {
            around
                .pacer
                .watch_again(udp.fd(), key, Watch::ReadingOnce)
                .map_err(AgentError::kernel("epoll_ctl"))?;
        }
        for Received { at, from, stamp, answers, data } in arrived.drain(..) {
            if at > self.until {
                let counts = !self.order.sends_data() && stamp.intended() <= self.until;
                self.on_their_way += u64::from(counts);
                continue;
            }
            if !self.order.sends_data() {
                let headers = if from.is_ipv4() { 28 } else { 48 };
                self.meter.count(Counted::ReceivedBytes, data.size());
                self.meter.count(Counted::WireBytes, data.size() + headers);
                self.meter.count(Counted::DataPacketsReceived, 1);
                self.meter.data_arrived(at, around.samples);
            }
            let event = match answers {
                Some(datagram) => AppEvent::Answered { datagram, data },
                None => AppEvent::Datagram { from, number: stamp.number, sent: stamp.sent, data },
            };
            self.tell(at, event, around)?;
        }
        self.arrived = arrived;
        Ok(())
    }

    /// Whether datagrams come here.
    pub fn receives_datagrams(&self) -> bool {
        self.order.side == Side::Server && matches!(self.sockets, Sockets::Udp(_))
    }

    /// Takes all that has come.
    pub fn take_late(&mut self, now: Instant, around: &mut Surroundings) -> Result<(), AgentError> {
        self.more = matches!(self.sockets, Sockets::Udp(_));
        while self.more {
            self.take_datagrams(now, around)?;
        }
        Ok(())
    }

    /// Tells the application, and does what it asks for.
    fn tell(&mut self, at: Instant, event: AppEvent, around: &mut Surroundings) -> Result<(), AgentError> {
        self.told = self.told.max(at);
        let mut actions = std::mem::take(&mut self.actions);
        self.deadline = react(&mut *self.application, self.told, event, |action| actions.push(action));
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
                        self.meter.count(Counted::OfferedBytes, data.size());
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
        let Sockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let size = data.size();
        udp.outbox
            .push(intended, to, answers, data)
            .map_err(|why| AgentError::Order { flow: self.order.name.clone(), why })?;
        if self.order.sends_data() {
            self.meter.count(Counted::OfferedBytes, size);
        }
        Ok(())
    }

    /// The flow stops now, if that is earlier than it was told.
    pub fn stop(&mut self, now: Instant) {
        self.order.stop_ns = self.order.stop_ns.min(now.as_nanos());
    }

    /// Reports what was counted since the last tick, and the levels of now.
    pub fn tick(&mut self, at: Instant, out: &mut Samples) -> Result<(), AgentError> {
        self.meter.tick(at, out);
        match &mut self.sockets {
            Sockets::Udp(udp) => {
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
            Sockets::Tcp(tcp) => {
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
            Sockets::Sctp(_) => self.tick_associations(at, out),
        }
        Ok(())
    }

    /// The run is over at `now`: what was due is done, what has arrived in time is taken, and the report made.
    pub fn finish(
        &mut self,
        now: Instant,
        interruptions: Interruptions,
        around: &mut Surroundings,
    ) -> Result<EndReport, AgentError> {
        self.advance(now, around)?;
        self.take_late(now, around)?;
        self.tick(now, around.samples)?;
        if self.on_their_way > 0 {
            let taken_back = -(self.on_their_way as f64);
            self.meter.mark(self.until, &quantity::DATAGRAMS_SENT, taken_back, around.samples);
        }
        self.meter.finish(around.samples);
        let mut report =
            EndReport { deadlines: self.deadlines.clone(), ..EndReport::empty(&self.order, interruptions) };
        if let Sockets::Udp(udp) = &self.sockets {
            report.passed = Some(udp.passage().map_err(AgentError::kernel("SO_MEMINFO"))?);
        }
        match &mut self.sockets {
            Sockets::Udp(udp) if self.order.side == Side::Client => {
                report.source = Some(udp.outbox.source().report())
            }
            Sockets::Udp(udp) => {
                report.datagrams = Some(udp.report().map_err(AgentError::kernel("SO_MEMINFO"))?);
            }
            Sockets::Tcp(tcp) => {
                [report.connections, report.failed, report.fallbacks] = tcp.tally();
                report.subflows = tcp.most_subflows();
            }
            Sockets::Sctp(sctp) => {
                [report.connections, report.failed] = sctp.tally();
                report.sctp = Some(sctp.report()?);
            }
        }
        let found = faults::of(&report, &self.order);
        (report.faults, report.strains, report.notes) = (found.faults, found.strains, found.notes);
        if !self.has_room() {
            report
                .strains
                .push(format!("flow `{}`: the sending socket had no room for what was due", self.order.name));
        }
        Ok(report)
    }
}

/// Takes one number out of what TCP has counted.
type Count = fn(&TcpCounts) -> u64;

/// What TCP counts itself: of which end it is reported (true: the one that sends the flow's data, none: both).
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
