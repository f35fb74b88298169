//! One end of a flow: an application, and the sockets that carry it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use netrig_core::{ConnectionEvent, Data, DatagramId, Instant, Sample, Subject, quantity};
use netrig_traffic::{AppAction, AppEvent, Application, ConnId, react};
use serde::{Deserialize, Serialize};

use crate::clock::RealtimeOffset;
use crate::meter::{Counted, EndMeter, Samples};
use crate::order::{Carrier, EndOrder, Side};
use crate::quantity as own;
use crate::source_report::SourceReport;
use crate::tcp::{TcpEnd, Turn};
use crate::tcp_info::TcpCounts;
use crate::udp::{Received, UdpEnd, UdpReport};
use crate::{AgentError, Clock, Pacer};

/// The listening socket, or the one for datagrams, among the sockets of an end; connections come after it.
const FIRST_SOCKET: u32 = 0;

/// Turns that the connections of an end have in a row before the other ends are looked at.
const TURNS: usize = 64;

/// Bytes read at a time.
const READ: usize = 1 << 16;

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
    reported: TcpCounts,
    events: Vec<ConnectionEvent>,
    buffer: Vec<u8>,
}

enum Sockets {
    Udp(Box<UdpEnd>),
    Tcp(Box<TcpEnd>),
}

/// What an end did in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// The flow's place in the scenario.
    pub flow: u32,
    /// Which of its ends.
    pub side: Side,
    /// How well it kept to the schedule of its datagrams, if it sent any.
    pub source: Option<SourceReport>,
    /// What became of the other end's datagrams, if it takes any.
    pub datagrams: Option<UdpReport>,
    /// Connections that it opened and accepted.
    pub connections: u32,
    /// Connections that ended before everything had arrived.
    pub failed: u32,
    /// Connections of MPTCP that fell back to TCP.
    pub fallbacks: u32,
    /// Why the run must not be trusted: each a sentence.
    pub faults: Vec<String>,
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
        if order.dscp > 63 {
            return Err(wrong(format!("a code point of {} is above 63", order.dscp)));
        }
        let datagrams = order.application.sends_datagrams();
        let (local, dscp) = (order.local(), order.dscp);
        let sockets = match &order.carrier {
            Carrier::Udp(buffers) if datagrams => {
                UdpEnd::open(order.flow, local, dscp, *buffers, order.asked())
                    .map(|end| Sockets::Udp(Box::new(end)))
            }
            Carrier::Tcp(options) if !datagrams => {
                let listens = order.side == Side::Server;
                TcpEnd::open(options.clone(), dscp, local, listens).map(|end| Sockets::Tcp(Box::new(end)))
            }
            Carrier::Udp(_) => {
                return Err(wrong("its application opens connections, which UDP has not".into()));
            }
            Carrier::Tcp(_) => {
                return Err(wrong("its application sends datagrams, which TCP has not".into()));
            }
        };
        let sockets = sockets.map_err(|source| AgentError::Socket { flow: order.name.clone(), source })?;
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
            reported: TcpCounts::default(),
            events: Vec::new(),
            buffer: vec![0; READ],
        })
    }

    /// The flow's place in the scenario.
    pub const fn flow(&self) -> u32 {
        self.order.flow
    }

    /// Whether it sends datagrams by a schedule, so that its loop must be precise.
    pub fn is_precise(order: &EndOrder) -> bool {
        order.side == Side::Client && order.application.sends_datagrams()
    }

    /// Has its listening socket, or the one for datagrams, watched.
    pub fn watch(&self, pacer: &Pacer) -> Result<(), AgentError> {
        let first = match &self.sockets {
            Sockets::Udp(udp) => Some(udp.fd()),
            Sockets::Tcp(tcp) => tcp.listener(),
        };
        first
            .map_or(Ok(()), |fd| pacer.watch(fd, self.key(FIRST_SOCKET)))
            .map_err(AgentError::kernel("epoll_ctl"))
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
        [start, stop, deadline].into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    fn has_room(&self) -> bool {
        match &self.sockets {
            Sockets::Udp(udp) => udp.has_room(),
            Sockets::Tcp(_) => true,
        }
    }

    /// A socket of this end has something to say.
    pub fn ready(&mut self, socket: u32, around: &mut Surroundings) -> Result<(), AgentError> {
        match &self.sockets {
            Sockets::Udp(_) => self.more = true,
            Sockets::Tcp(_) if socket == FIRST_SOCKET => self.accept(around)?,
            Sockets::Tcp(_) => self.turns.push_back(socket - 1),
        }
        Ok(())
    }

    fn accept(&mut self, around: &mut Surroundings) -> Result<(), AgentError> {
        while let Sockets::Tcp(tcp) = &mut self.sockets
            && let Some(place) = tcp.accept().map_err(AgentError::kernel("accept"))?
        {
            self.enrol(place, around)?;
        }
        Ok(())
    }

    /// A connection that was made gets its first turn, and is watched.
    fn enrol(&mut self, place: u32, around: &mut Surroundings) -> Result<(), AgentError> {
        let key = self.key(place + 1);
        if let Sockets::Tcp(tcp) = &mut self.sockets
            && let Some(conn) = tcp.get(place)
        {
            around.pacer.watch(conn.fd(), key).map_err(AgentError::kernel("epoll_ctl"))?;
        }
        self.turns.push_back(place);
        Ok(())
    }

    /// Does everything that is due at `now`: takes what arrived, then tells the application of the moments that have come,
    /// each with the time that it was due, and carries out what it asks for.
    pub fn advance(&mut self, now: Instant, around: &mut Surroundings) -> Result<(), AgentError> {
        if !self.started && self.order.start() <= now {
            self.started = true;
            self.tell(self.order.start(), AppEvent::Started, around)?;
        }
        self.take_datagrams(around)?;
        self.take_turns(now, around)?;
        while self.started {
            let stop = (!self.stopped && self.order.side == Side::Client).then(|| self.order.stop());
            let stop = stop.filter(|at| *at <= now);
            let due = self.deadline.filter(|at| *at <= now && stop.is_none_or(|stop| *at < stop));
            match (due, stop) {
                // What was due before the flow stops is sent, however late.
                (Some(at), _) => {
                    if !self.has_room() {
                        self.flush(around)?;
                    }
                    if !self.has_room() {
                        break;
                    }
                    self.tell(at, AppEvent::Timeout, around)?;
                }
                (None, Some(at)) => {
                    self.stopped = true;
                    self.tell(at, AppEvent::Stopped, around)?;
                }
                (None, None) => break,
            }
        }
        self.flush(around)
    }

    /// Sends the datagrams that wait.
    fn flush(&mut self, around: &Surroundings) -> Result<(), AgentError> {
        let Sockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let before = udp.sent();
        udp.flush(around.clock).map_err(AgentError::kernel("sendmmsg"))?;
        // Answers are no part of what the flow carries.
        if self.order.sends_data() {
            self.meter.count(Counted::DatagramsSent, udp.sent() - before);
        }
        Ok(())
    }

    fn take_datagrams(&mut self, around: &mut Surroundings) -> Result<(), AgentError> {
        if !std::mem::take(&mut self.more) {
            return Ok(());
        }
        let Sockets::Udp(udp) = &mut self.sockets else { return Ok(()) };
        let mut arrived = Vec::new();
        self.more = udp
            .receive(around.clock, around.offset, |received| arrived.push(received))
            .map_err(AgentError::kernel("recvmmsg"))?;
        for Received { at, from, stamp, answers, data } in arrived {
            if at > self.until {
                self.on_their_way += u64::from(stamp.sent <= self.until);
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
        Ok(())
    }

    /// Whether datagrams come here.
    pub fn receives_datagrams(&self) -> bool {
        self.order.side == Side::Server && matches!(self.sockets, Sockets::Udp(_))
    }

    /// A socket has something to say after the end of the run: what comes was on its way.
    pub fn take_late(&mut self, around: &mut Surroundings) -> Result<(), AgentError> {
        self.more = matches!(self.sockets, Sockets::Udp(_));
        while self.more {
            self.take_datagrams(around)?;
        }
        Ok(())
    }

    /// Gives the connections that have something to do their turns.
    fn take_turns(&mut self, now: Instant, around: &mut Surroundings) -> Result<(), AgentError> {
        for _ in 0..TURNS {
            let Some(place) = self.turns.pop_front() else { break };
            let Sockets::Tcp(tcp) = &mut self.sockets else { break };
            let Some(conn) = tcp.get(place) else { continue };
            let id = conn.id;
            let mut events = std::mem::take(&mut self.events);
            if conn.take_turn(&mut self.buffer, &mut events) == Turn::GoesOn {
                self.turns.push_back(place);
            }
            for event in events.drain(..) {
                self.hear(now, place, id, event, around)?;
            }
            self.events = events;
        }
        Ok(())
    }

    /// A connection reports.
    fn hear(
        &mut self,
        now: Instant,
        place: u32,
        id: ConnId,
        event: ConnectionEvent,
        around: &mut Surroundings,
    ) -> Result<(), AgentError> {
        let sends = self.order.sends_data();
        match &event {
            ConnectionEvent::Connected { .. } if matches!(id, ConnId::Opened(_)) => {
                self.meter.mark(now, &quantity::ESTABLISHED, 0.0, around.samples);
            }
            ConnectionEvent::Received { data, .. } if !sends => {
                self.meter.count(Counted::ReceivedBytes, data.size());
                self.meter.data_arrived(now, around.samples);
            }
            ConnectionEvent::Closed(reason) => {
                if sends {
                    self.meter.mark(now, &quantity::CLOSED, f64::from(*reason as u8), around.samples);
                }
                if let Sockets::Tcp(tcp) = &mut self.sockets {
                    tcp.forget(place, *reason);
                }
            }
            _ => {}
        }
        self.tell(now, AppEvent::Connection { conn: id, event }, around)
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
                AppAction::Open { conn, to } => self.connect(conn, to, around)?,
                AppAction::Send { conn, data, .. } => {
                    if self.order.sends_data() {
                        self.meter.count(Counted::OfferedBytes, data.size());
                    }
                    self.act(conn, |conn| conn.send(data));
                }
                AppAction::Close { conn } => self.act(conn, crate::tcp::Conn::close),
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
        udp.push(intended, to, answers, data)
            .map_err(|why| AgentError::Order { flow: self.order.name.clone(), why })?;
        if self.order.sends_data() {
            self.meter.count(Counted::OfferedBytes, size);
        }
        Ok(())
    }

    fn connect(&mut self, id: ConnId, to: SocketAddr, around: &mut Surroundings) -> Result<(), AgentError> {
        let Sockets::Tcp(tcp) = &mut self.sockets else { return Ok(()) };
        let place = tcp
            .connect(id, to)
            .map_err(|source| AgentError::Socket { flow: self.order.name.clone(), source })?;
        self.enrol(place, around)
    }

    /// Changes a connection of the application's, if it still is; it gets a turn.
    fn act(&mut self, id: ConnId, change: impl FnOnce(&mut crate::tcp::Conn)) {
        let Sockets::Tcp(tcp) = &mut self.sockets else { return };
        let Some(place) = tcp.place_of(id) else { return };
        if let Some(conn) = tcp.get(place) {
            change(conn);
        }
        if self.turns.back() != Some(&place) {
            self.turns.push_back(place);
        }
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
                for (quantity, value) in [
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
                let (now, before) = (tcp.counts(), std::mem::replace(&mut self.reported, tcp.counts()));
                let sends = self.order.sends_data();
                for (quantity, wanted, of) in COUNTED_BY_TCP {
                    let value = of(&now).saturating_sub(of(&before));
                    if value > 0 && wanted.is_none_or(|sender| sender == sends) {
                        self.meter.mark(at, quantity, value as f64, out);
                    }
                }
                if sends {
                    trace(at, self.order.flow, tcp, out);
                }
            }
        }
        Ok(())
    }

    /// The run is over at `now`: what was due is done, what has arrived in time is taken, and the report made.
    pub fn finish(&mut self, now: Instant, around: &mut Surroundings) -> Result<EndReport, AgentError> {
        self.advance(now, around)?;
        self.take_late(around)?;
        self.tick(now, around.samples)?;
        if self.on_their_way > 0 {
            let taken_back = -(self.on_their_way as f64);
            self.meter.mark(self.until, &quantity::DATAGRAMS_SENT, taken_back, around.samples);
        }
        self.meter.finish(around.samples);
        let mut report = EndReport {
            flow: self.order.flow,
            side: self.order.side,
            source: None,
            datagrams: None,
            connections: 0,
            failed: 0,
            fallbacks: 0,
            faults: Vec::new(),
        };
        match &self.sockets {
            Sockets::Udp(udp) if self.order.side == Side::Client => {
                report.source = Some(udp.source().report())
            }
            Sockets::Udp(udp) => {
                report.datagrams = Some(udp.report().map_err(AgentError::kernel("SO_MEMINFO"))?);
            }
            Sockets::Tcp(tcp) => [report.connections, report.failed, report.fallbacks] = tcp.tally(),
        }
        report.faults = faults(&report, &self.order.name);
        if !self.has_room() {
            report
                .faults
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

/// Reports the state of the flow's connection; of several the first that stands.
fn trace(at: Instant, flow: u32, tcp: &TcpEnd, out: &mut Samples) {
    let Some(info) = tcp.infos().next() else { return };
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
    out.extend(known.map(|(quantity, value)| (Subject::Path(flow, 0), Sample { at, quantity, value })));
}

/// Why the run must not be trusted.
fn faults(report: &EndReport, flow: &str) -> Vec<String> {
    let source = report.source.as_ref().and_then(SourceReport::fault);
    let dropped = report.datagrams.map_or(0, |datagrams| datagrams.socket_dropped);
    let receiver = (dropped > 0).then(|| {
        format!("the receiving socket had no room for {dropped} datagrams that had reached their host")
    });
    let fallbacks = report.fallbacks;
    let fallback = (fallbacks > 0).then(|| format!("{fallbacks} connections of MPTCP fell back to TCP"));
    [source, receiver, fallback].into_iter().flatten().map(|why| format!("flow `{flow}`: {why}")).collect()
}
