//! One end of a flow: an application, and the connections that carry it.

use std::net::SocketAddr;

use netrig_core::{
    CloseReason, ConnectionEvent, Data, DatagramId, Ecn, FiveTuple, Header, Instant, Sample, Sink, Stream,
    Subject, Timeline, protocol,
};
use netrig_experiment::Carrier;
use netrig_traffic::{AppAction, AppEvent, ConnId, FlowSide, ReadSchedule, react};
use netrig_transport::{Control, Counters, Datagram, Incident, Packet, PathId, Payload};

use crate::actor::{Actor, EndId};
use crate::agenda::{Agenda, Appointment};
use crate::blueprint::{Blueprint, FlowPath, name_of, way_of};
use crate::flow_record::FlowRecord;
use crate::network::Network;
use crate::parcel::Carriage;
use crate::transport_endpoint::TransportEndpoint;

/// The parts of the simulation that an end may use.
pub(crate) struct EndContext<'a> {
    pub network: &'a mut Network,
    pub record: &'a mut FlowRecord,
    pub timers: &'a mut Vec<TimerOwner>,
    pub timeline: &'a Timeline,
    /// The reason for which an application gave up the run, if one did.
    pub given_up: &'a mut Option<String>,
    pub sink: &'a mut dyn Sink,
}

/// The owner of a timer: the end, and the number of its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerOwner {
    pub end: EndId,
    pub conn: u32,
}

/// One connection of an end. It takes whole cache lines. The fields that each packet needs are in the first.
#[repr(C, align(64))]
pub(crate) struct FlowConnection {
    pub endpoint: TransportEndpoint,
    pub appointment: Appointment,
    /// Index in the list of timers.
    pub timer: u32,
    /// Whether it has reported its end to the application.
    pub closed: bool,
    pub id: ConnId,
    /// The reading schedule of the application. `None` if it reads data as soon as it arrives.
    pub reader: Option<ReadSchedule>,
}

/// One end of a flow. The order of the fields is the order in memory: the fields that each packet needs take one cache line.
#[repr(C, align(64))]
pub(crate) struct FlowEnd {
    /// Connections by their number. The client opens those with even numbers, the server those with odd numbers.
    pub conns: Vec<Option<FlowConnection>>,
    /// Whether the application now only sends data and records samples
    /// ([`Application::only_offers`](netrig_traffic::Application::only_offers)).
    only_offers: bool,
    /// Whether due deadlines of the application are deferred until the next event at this end. If the sink does not
    /// want the quantities of the offered data, they are deferred further, until the connections run out of data.
    is_behind: bool,
    /// If a test sets it, no deadline is deferred.
    #[cfg(test)]
    pub is_eager: bool,
    /// Whether a connection has ended before all data arrived.
    pub broken: bool,
    /// Number of connections that have not reported their end.
    pub open: u32,
    pub plan: Blueprint,
    appointment: Appointment,
    /// Numbers of the connections that were accepted from the peer, in the order of acceptance. Numbers may be missing:
    /// a connection can fail before its first packet reaches this end.
    pub accepted: Vec<u32>,
    datagrams: u64,
    /// Counters of removed connections, and of datagrams.
    gone: Counters,
    actions: Vec<AppAction>,
    /// Connections that actions have changed, and that [`FlowEnd::settle`] has not handled since.
    touched: Vec<u32>,
}

impl FlowEnd {
    pub fn new(plan: Blueprint) -> Self {
        Self {
            plan,
            appointment: Appointment::default(),
            only_offers: false,
            is_behind: false,
            #[cfg(test)]
            is_eager: false,
            conns: Vec::new(),
            open: 0,
            broken: false,
            accepted: Vec::new(),
            datagrams: 0,
            gone: Counters::default(),
            actions: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Passes an event to the application, and performs its actions.
    pub fn notify(&mut self, now: Instant, event: AppEvent, context: &mut EndContext) {
        if self.plan.offers {
            self.catch_up(now, context);
        }
        let actions = &mut self.actions;
        let deadline = react(&mut *self.plan.application, now, event, |action| actions.push(action));
        if self.plan.offers {
            self.only_offers = self.plan.application.only_offers();
        }
        if self.only_offers {
            self.carry_out(now, context);
            self.await_deadline(now, context);
        } else {
            self.appointment.keep(deadline, Actor::Application(self.plan.id), &mut context.network.agenda);
            self.carry_out(now, context);
        }
    }

    /// Handles the deadlines of the application that were deferred.
    #[inline]
    pub fn catch_up(&mut self, now: Instant, context: &mut EndContext) {
        if std::mem::take(&mut self.is_behind) {
            self.offer(now, context);
        }
    }

    /// Handles deferred deadlines at the end of a sampling interval, so that the data offered in it is counted in it.
    pub fn offer_until(&mut self, now: Instant, context: &mut EndContext) {
        if self.is_behind && self.plan.counts_offers {
            self.offer(now, context);
        }
    }

    /// Handles deferred deadlines before another event at this end, if they must not be deferred further.
    #[inline(never)]
    fn prepare_for_event(&mut self, now: Instant, context: &mut EndContext) {
        if self.is_behind && (self.plan.counts_offers || !self.have_plenty()) {
            self.catch_up(now, context);
        }
    }

    fn have_plenty(&self) -> bool {
        self.conns.iter().flatten().all(|conn| conn.endpoint.has_plenty())
    }

    /// After an event of a connection while deadlines are deferred: transmits while the connection has plenty of data.
    /// If a connection no longer has plenty, handles the deferred deadlines.
    #[inline(never)]
    fn feed(&mut self, now: Instant, conn: u32, context: &mut EndContext) {
        if !self.is_behind {
            return;
        }
        let Some(Some(FlowConnection { endpoint, .. })) = self.conns.get_mut(conn as usize) else { return };
        transmit(now, conn, endpoint, &self.plan.paths, context, TransportEndpoint::has_plenty);
        if !self.have_plenty() {
            self.catch_up(now, context);
        }
    }

    #[cold]
    fn offer(&mut self, now: Instant, context: &mut EndContext) {
        let Self { plan, conns, actions, accepted, .. } = self;
        let (side, flow, sends_data) = (plan.side, plan.flow, plan.sends_data);
        plan.application.offer(now, &mut |at, action| match action {
            AppAction::Send { conn, stream, data } => {
                if sends_data {
                    context.record.meter.offered(data.size());
                }
                if let Some(Some(FlowConnection { endpoint, .. })) =
                    conns.get_mut(number_at(side, accepted, conn) as usize)
                {
                    endpoint.send_late(at, stream, data);
                }
            }
            AppAction::Record(sample) => context.sink.sample(Subject::Flow(flow), sample),
            // An application that only offers has no other actions.
            other => actions.push(other),
        });
    }

    /// Schedules the deadline of an application that only offers data, or defers it if it would have no effect before
    /// the next event at this end.
    #[inline(never)]
    fn await_deadline(&mut self, now: Instant, context: &mut EndContext) {
        if !self.only_offers {
            return;
        }
        // A trace contains a sample for every event of an end, so a traced end defers no deadline.
        let is_behind =
            !self.plan.traces && self.conns.iter().flatten().all(|conn| conn.endpoint.ignores_more_data(now));
        #[cfg(test)]
        let is_behind = is_behind && !self.is_eager;
        if is_behind {
            self.is_behind = true;
        } else {
            self.catch_up(now, context);
            let deadline = self.plan.application.poll_timeout();
            self.appointment.keep(deadline, Actor::Application(self.plan.id), &mut context.network.agenda);
        }
    }

    /// Schedules the first deadline of the application, before its first event.
    pub fn prepare(&mut self, agenda: &mut Agenda) {
        let deadline = self.plan.application.poll_timeout();
        self.appointment.keep(deadline, Actor::Application(self.plan.id), agenda);
    }

    /// Handles an entry of the agenda for the application.
    pub fn application_timeout(&mut self, now: Instant, context: &mut EndContext) {
        if !self.appointment.met(now) || self.is_behind {
            return;
        }
        match self.plan.application.poll_timeout() {
            Some(at) if at <= now => self.notify(now, AppEvent::Timeout, context),
            later => {
                self.appointment.keep(later, Actor::Application(self.plan.id), &mut context.network.agenda)
            }
        }
    }

    /// Handles an entry of the agenda for a connection.
    pub fn connection_timeout(&mut self, now: Instant, conn: u32, context: &mut EndContext) {
        self.prepare_for_event(now, context);
        self.time_out(now, conn, context);
        self.await_deadline(now, context);
    }

    fn time_out(&mut self, now: Instant, conn: u32, context: &mut EndContext) {
        let Some(Some(FlowConnection { endpoint, appointment, timer, .. })) =
            self.conns.get_mut(conn as usize)
        else {
            return;
        };
        if !appointment.met(now) {
            return;
        }
        match endpoint.poll_timeout() {
            Some(at) if at <= now => {
                endpoint.handle_timeout(now);
                self.feed(now, conn, context);
                self.settle(now, conn, context);
            }
            later => appointment.keep(later, Actor::Timer(*timer), &mut context.network.agenda),
        }
    }

    /// Performs one step of the reading schedule of an application with a limited rate.
    pub fn read(&mut self, now: Instant, conn: u32, context: &mut EndContext) {
        self.prepare_for_event(now, context);
        if let Some(Some(FlowConnection { endpoint, timer, reader: Some(reader), .. })) =
            self.conns.get_mut(conn as usize)
        {
            let bytes = reader.take(now);
            context.network.agenda.enter(reader.next(), Actor::Reader(*timer));
            if endpoint.read(bytes) > 0 {
                self.settle(now, conn, context);
            }
        }
        self.await_deadline(now, context);
    }

    /// Handles an arrived packet. Duplicate datagrams are dropped here.
    #[inline(always)]
    pub fn packet(&mut self, now: Instant, carriage: &mut Carriage, context: &mut EndContext) {
        if !self.plan.sends_data && carriage.packet.payload.carries_data() {
            context.record.meter.packet_arrived(carriage.packet.header.ip_len.into());
        }
        // Only datagrams have no connection.
        let Some(conn) = carriage.conn else {
            return self.take_datagram(now, carriage.packet.take(), context);
        };
        if self.only_offers {
            self.prepare_for_event(now, context);
        }
        self.segment(now, conn, &mut carriage.packet, context);
        if self.only_offers {
            self.await_deadline(now, context);
        }
    }

    #[inline(never)]
    fn take_datagram(&mut self, now: Instant, packet: Packet, context: &mut EndContext) {
        let Packet { header, payload: Payload::Udp(Datagram { number, sent, answers, data }) } = packet
        else {
            return;
        };
        let first = if self.plan.sends_data {
            context.record.answer_arrived(now, number)
        } else {
            context.record.datagram_arrived(now, number, data.size())
        };
        if !first {
            return;
        }
        if !self.plan.sends_data {
            context.record.meter.data_arrived(now, context.sink);
        }
        let from = SocketAddr::new(header.flow.src, header.flow.src_port);
        let event = match answers {
            Some(datagram) => AppEvent::Answered { datagram, data },
            None => AppEvent::Datagram { from, number, sent, data },
        };
        self.notify(now, event, context);
    }

    #[inline(always)]
    fn segment(&mut self, now: Instant, conn: u32, packet: &mut Packet, context: &mut EndContext) {
        let slot = if let Some(slot @ Some(_)) = self.conns.get_mut(conn as usize) {
            slot
        } else {
            if !self.accept(now, conn, packet, context) {
                return;
            }
            let Some(slot) = self.conns.get_mut(conn as usize) else { return };
            slot
        };
        let Some(connection) = slot else { return };
        let arrived = (!self.plan.sends_data).then(|| connection.endpoint.arrived());
        connection.endpoint.take_packet(now, packet);
        if arrived.is_some_and(|arrived| connection.endpoint.arrived() != arrived) {
            context.record.meter.data_arrived(now, context.sink);
        }
        if self.is_behind {
            self.feed(now, conn, context);
            return self.settle(now, conn, context);
        }
        if let Some(event) = connection.drain(now, conn, &self.plan, context) {
            self.deliver_events(now, conn, event, context);
            self.conclude(now, conn, context);
        } else {
            Self::follow_up(now, slot, &self.plan, &mut self.gone, context);
        }
    }

    /// Takes all packets and events of a connection after a change. If the application reacts to an event with actions,
    /// the connections that they change are settled too.
    #[inline(never)]
    pub(crate) fn settle(&mut self, now: Instant, conn: u32, context: &mut EndContext) {
        let Some(Some(connection)) = self.conns.get_mut(conn as usize) else { return };
        if let Some(event) = connection.drain(now, conn, &self.plan, context) {
            self.deliver_events(now, conn, event, context);
        }
        self.conclude(now, conn, context);
    }

    /// The last step of settling a connection: reports its incidents, and then removes it if it has closed, or
    /// reschedules its timer.
    #[inline(never)]
    fn conclude(&mut self, now: Instant, conn: u32, context: &mut EndContext) {
        if let Some(slot) = self.conns.get_mut(conn as usize) {
            Self::follow_up(now, slot, &self.plan, &mut self.gone, context);
        }
    }

    /// [`FlowEnd::conclude`] for the connection in `slot`.
    #[inline(always)]
    fn follow_up(
        now: Instant,
        slot: &mut Option<FlowConnection>,
        plan: &Blueprint,
        gone: &mut Counters,
        context: &mut EndContext,
    ) {
        let Some(FlowConnection { endpoint, closed, appointment, timer, .. }) = slot else { return };
        while let Some(incident) = endpoint.poll_incident() {
            plan.report(now, &incident, endpoint, context);
        }
        if plan.traces {
            trace(now, plan.flow, plan.paths.len(), endpoint, context.sink);
        }
        if *closed && endpoint.may_be_forgotten() {
            *gone += &endpoint.counters();
            *slot = None;
        } else {
            appointment.keep(endpoint.poll_timeout(), Actor::Timer(*timer), &mut context.network.agenda);
        }
    }

    /// Passes this event of a connection and all later ones to the application.
    fn deliver_events(&mut self, now: Instant, conn: u32, event: ConnectionEvent, context: &mut EndContext) {
        let mut next = Some(event);
        while let Some(Some(FlowConnection { id, endpoint, closed, .. })) = self.conns.get_mut(conn as usize)
            && let Some(event) = next.take().or_else(|| endpoint.poll_event())
        {
            let id = *id;
            if let ConnectionEvent::Closed(reason) = event
                && !std::mem::replace(closed, true)
            {
                self.open -= 1;
                self.broken |= reason != CloseReason::Finished;
            }
            if let ConnectionEvent::Received { data, .. } = &event
                && !self.plan.sends_data
            {
                context.record.meter.received(data.size());
            }
            self.notify(now, AppEvent::Connection { conn: id, event }, context);
        }
    }

    /// Performs all actions of the application before it receives the resulting events.
    fn carry_out(&mut self, now: Instant, context: &mut EndContext) {
        if self.actions.is_empty() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                AppAction::Open { conn, .. } => self.open(now, conn, context),
                AppAction::Send { conn, stream, data } => {
                    if self.plan.sends_data {
                        context.record.meter.offered(data.size());
                    }
                    self.mutate(now, conn, |endpoint| endpoint.send(now, stream, data), context);
                }
                AppAction::Close { conn } => self.mutate(now, conn, |endpoint| endpoint.close(now), context),
                AppAction::Datagram { data, .. } => self.datagram(now, data, None, context),
                AppAction::Answer { datagram, data, .. } => self.datagram(now, data, Some(datagram), context),
                AppAction::Record(sample) => context.sink.sample(Subject::Flow(self.plan.flow), sample),
                AppAction::GiveUp { why } => {
                    context.given_up.get_or_insert(why);
                }
            }
        }
        if self.actions.is_empty() {
            // Reuses the memory of the list.
            self.actions = actions;
        }
        let mut touched = std::mem::take(&mut self.touched);
        for conn in touched.drain(..) {
            self.settle(now, conn, context);
        }
        if self.touched.is_empty() {
            self.touched = touched;
        }
    }

    /// Sends the packets that follow from an action. The connection is settled after all actions have been performed.
    pub(crate) fn acted_upon(&mut self, now: Instant, conn: u32, context: &mut EndContext) {
        if let Some(Some(FlowConnection { endpoint, .. })) = self.conns.get_mut(conn as usize) {
            transmit(now, conn, endpoint, &self.plan.paths, context, |_| true);
        }
        if self.touched.last() != Some(&conn) {
            self.touched.push(conn);
        }
    }

    /// Applies a change to a connection that the application names, if the connection still exists.
    fn mutate(
        &mut self,
        now: Instant,
        id: ConnId,
        change: impl FnOnce(&mut TransportEndpoint),
        context: &mut EndContext,
    ) {
        let conn = self.number_of(id);
        if let Some(Some(FlowConnection { endpoint, .. })) = self.conns.get_mut(conn as usize) {
            change(endpoint);
            self.acted_upon(now, conn, context);
        }
    }

    pub(crate) fn number_of(&self, id: ConnId) -> u32 {
        number_at(self.plan.side, &self.accepted, id)
    }

    fn datagram(&mut self, now: Instant, data: Data, answers: Option<DatagramId>, context: &mut EndContext) {
        let headers = !matches!(self.plan.carrier, Carrier::Udp { headers: false });
        let flow = self.five_tuple(0, protocol::UDP, self.plan.ports);
        let overhead = if headers { flow.ip_header_len() + 8 } else { 0 };
        // The cast is lossless: no datagram of an experiment has 4 GB.
        let ip_len = data.size() as u32 + overhead;
        if self.plan.sends_data {
            context.record.datagram_sent(now, data.size());
        } else {
            context.record.answer_sent(now);
        }
        self.gone.packets_sent += 1;
        self.gone.data_packets_sent += 1;
        let number = self.datagrams;
        self.datagrams += 1;
        let header = Header { flow, ip_len, dscp: self.plan.dscp, ecn: Ecn::NotEct };
        let payload = Payload::Udp(Datagram { number, sent: now, answers, data });
        let mut carriage = context.network.vacant();
        carriage.packet = Packet { header, payload };
        (carriage.conn, carriage.stop) = (None, self.plan.paths[0].way);
        context.network.send(now, carriage, context.sink);
    }

    pub(crate) fn five_tuple(&self, path: usize, protocol: u8, [src_port, dst_port]: [u16; 2]) -> FiveTuple {
        let FlowPath { local: src, remote: dst, .. } = self.plan.paths[path];
        FiveTuple { src, dst, src_port, dst_port, protocol }
    }

    /// The random stream for one purpose at this end of the flow.
    pub(crate) fn stream(&self, purpose: &str) -> Stream {
        self.plan.side.stream(&self.plan.seeds, &self.plan.name, purpose)
    }

    /// A count over all connections of this end.
    pub fn counted(&self, of: fn(&Counters) -> u64) -> u64 {
        of(&self.gone) + self.conns.iter().flatten().map(|conn| of(&conn.endpoint.counters())).sum::<u64>()
    }

    /// Whether it has had connections, all of them have ended, and the application has no deadline.
    pub fn is_done(&self) -> bool {
        self.open == 0 && !self.conns.is_empty() && self.plan.application.poll_timeout().is_none()
    }

    /// Whether it has had connections, and all of them have ended after all data arrived.
    pub fn has_delivered(&self) -> bool {
        self.open == 0 && !self.conns.is_empty() && !self.broken
    }

    /// Handles a change of this node's interface to `link`: it is up if `up` is true, and down otherwise.
    pub fn interface(&mut self, now: Instant, link: usize, up: bool, context: &mut EndContext) {
        self.control(now, link, if up { Control::InterfaceUp } else { Control::InterfaceDown }, context);
    }

    /// The user sets the path over `link` as the primary.
    pub fn set_primary(&mut self, now: Instant, link: usize, context: &mut EndContext) {
        self.control(now, link, Control::SetPrimary, context);
    }

    fn control(
        &mut self,
        now: Instant,
        link: usize,
        control: fn(PathId) -> Control,
        context: &mut EndContext,
    ) {
        let Some(path) = self.plan.paths.iter().position(|path| path.link == link) else { return };
        self.catch_up(now, context);
        for conn in 0..self.conns.len() as u32 {
            if let Some(Some(FlowConnection { endpoint, .. })) = self.conns.get_mut(conn as usize) {
                endpoint.control(now, control(PathId(path as u8)));
                self.settle(now, conn, context);
            }
        }
        self.await_deadline(now, context);
    }
}

impl FlowConnection {
    /// Sends all packets that the connection has, and returns its first event.
    #[inline(always)]
    fn drain(
        &mut self,
        now: Instant,
        conn: u32,
        plan: &Blueprint,
        context: &mut EndContext,
    ) -> Option<ConnectionEvent> {
        transmit(now, conn, &mut self.endpoint, &plan.paths, context, |_| true);
        if !plan.sends_data {
            context.record.meter.received(self.endpoint.take_ignored());
        }
        self.endpoint.poll_event()
    }
}

impl Blueprint {
    /// Reports an incident of a connection, if this end sends the data.
    fn report(
        &self,
        now: Instant,
        incident: &Incident,
        endpoint: &TransportEndpoint,
        context: &mut EndContext,
    ) {
        if !self.sends_data {
            return;
        }
        let timer =
            if matches!(endpoint, TransportEndpoint::Sctp(_)) { "T3-rtx" } else { "retransmission time-out" };
        let words = || incident.words(timer, |path| name_of(&self.paths, path));
        context.timeline.note(now, Subject::Flow(self.flow), words, context.sink);
        if let Some((subject, quantity, value)) = incident.moment(self.flow) {
            context.sink.sample(subject, Sample { at: now, quantity, value });
        }
    }
}

/// The number of a connection, equal at both ends, from its identifier at the application on this side. Connections of
/// the client have even numbers, those of the server odd numbers. `u32::MAX` if `id` names a connection that was never
/// accepted.
fn number_at(side: FlowSide, accepted: &[u32], id: ConnId) -> u32 {
    match (id, side) {
        (ConnId::Opened(n), FlowSide::Client) => 2 * n,
        (ConnId::Opened(n), FlowSide::Server) => 2 * n + 1,
        (ConnId::Accepted(n), _) => accepted.get(n as usize).copied().unwrap_or(u32::MAX),
    }
}

/// Sends the packets of a connection while `may_go_on` returns true.
#[inline]
fn transmit(
    now: Instant,
    conn: u32,
    endpoint: &mut TransportEndpoint,
    paths: &[FlowPath],
    context: &mut EndContext,
    may_go_on: impl Fn(&TransportEndpoint) -> bool,
) {
    while !endpoint.is_silent(now) && may_go_on(endpoint) {
        let mut carriage = context.network.vacant();
        if !endpoint.transmit_into(now, &mut carriage.packet) {
            return context.network.recycle(carriage);
        }
        carriage.conn = Some(conn);
        carriage.stop = way_of(paths, &carriage.packet.header.flow);
        context.network.send(now, carriage, context.sink);
    }
}

/// Reports the state of every path to the sink.
fn trace(now: Instant, flow: u32, paths: usize, endpoint: &TransportEndpoint, sink: &mut dyn Sink) {
    for path in 0..paths as u8 {
        let Some(status) = endpoint.path_status(PathId(path)) else { continue };
        for (quantity, value) in status.levels() {
            sink.sample(Subject::Path(flow, path), Sample { at: now, quantity, value });
        }
    }
}
