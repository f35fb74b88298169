//! SCTP associations of netrig's own endpoint, in real time.
//!
//! The endpoint is the one of the simulator ([`netrig_transport::sctp`]), with the same constants and the same random
//! streams. Here, the time comes from the kernel's clock, and IP or UDP sockets of the kernel carry the packets.

mod options;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use netrig_bulk::sctp_socket::{PacketOutcome, PathSocket, ReceivedPacket};
use netrig_core::{
    CLIENT_PORT, CloseReason, ConnectionEvent, Dscp, Endpoint, Instant, Note, Sample, Seeds, Stream, Subject,
};
use netrig_host::socket::{SocketError, drops};
use netrig_host::sys::ReceiveBatch;
use netrig_host::{Lateness, Pacer, Watch};
use netrig_traffic::{AppAction, AppEvent, ConnId, FlowSide, ReadSchedule, Reads};
use netrig_transport::sctp::{
    Association, Config, Endpoints, Listener, ListenerResponse, PathAddresses, out_of_the_blue,
};
use netrig_transport::{Connection, Counters, Incident, Packet, PathId, Payload, ReportingEnds};

pub use self::options::{SctpOptions, SctpPath, TimedControl};
use crate::carrier::{EndContext, EndState, FIRST_SOCKET, FlowCarrier, Samples, TURNS};
use crate::order::EndOrder;
use crate::report::{EndReport, SctpReport};
use crate::roster::{Named, Roster};
use crate::{AgentError, AgentResult};

/// Number of ports that the client of a flow may use.
const CLIENT_PORTS: u32 = 16_384;

/// Length of the longest packet, bytes.
const LONGEST: usize = 65_535;

/// The associations of one end.
pub(crate) struct SctpEnd {
    side: FlowSide,
    name: String,
    seeds: Seeds,
    server_port: u16,
    config: Arc<Config>,
    dscp: Dscp,
    reads: Option<Reads>,
    paths: Vec<PathAddresses>,
    path_names: Vec<String>,
    /// One for each path.
    sockets: Vec<PathSocket>,
    listener: Option<Listener>,
    associations: Roster<SctpConn>,
    /// Index of each association, by the client's port.
    by_port: BTreeMap<u16, u32>,
    failed: u32,
    gone: Counters,
    /// Scheduled events that are not yet due.
    controls: VecDeque<TimedControl>,
    /// Whether the sockets may hold more packets.
    more: bool,
    /// Received packets that are not yet handled.
    arrived: VecDeque<ReceivedPacket>,
    batch: ReceiveBatch,
    /// Time from the arrival of packets to their handling.
    lateness: Lateness,
    no_room: u64,
    reported: Counters,
    events: Vec<ConnectionEvent>,
    incidents: Vec<Incident>,
}

/// An association, with its identifiers for the application and for the network.
struct SctpConn {
    id: ConnId,
    client_port: u16,
    association: Box<Association>,
    /// Read schedule of the application. `None`: the application reads data as soon as it arrives.
    reader: Option<ReadSchedule>,
}

impl SctpConn {
    /// The time of the association's next timer or read.
    fn next(&self) -> Option<Instant> {
        self.association.poll_timeout().into_iter().chain(self.reader.map(|reader| reader.next())).min()
    }
}

impl Named for SctpConn {
    type Name = ConnId;

    fn name(&self) -> ConnId {
        self.id
    }
}

impl SctpEnd {
    /// Opens the sockets of all paths.
    pub fn open(order: &EndOrder, options: &SctpOptions, seed: u64) -> Result<Self, SocketError> {
        let config = Arc::new(options.config.clone());
        let paths = options.paths_of(order.side);
        let sockets = paths.iter().map(|path| PathSocket::open(*path, &config, order.dscp));
        let sockets = sockets.collect::<Result<_, _>>()?;
        let (seeds, dscp, server_port) = (Seeds::new(seed), Dscp(order.dscp), order.server.port());
        let listener = (order.side == FlowSide::Server).then(|| {
            let random = seeds.stream(&format!("flow/{}/listener", order.name));
            Listener::new(config.clone(), server_port, paths.clone(), dscp, random)
        });
        Ok(Self {
            side: order.side,
            name: order.name.clone(),
            seeds,
            server_port,
            config,
            dscp,
            reads: order.reads,
            paths,
            path_names: options.paths.iter().map(|path| path.name.clone()).collect(),
            sockets,
            listener,
            associations: Roster::default(),
            by_port: BTreeMap::new(),
            failed: 0,
            gone: Counters::default(),
            controls: options.controls.iter().copied().collect(),
            more: false,
            arrived: VecDeque::new(),
            batch: ReceiveBatch::new(LONGEST),
            lateness: Lateness::default(),
            no_room: 0,
            reported: Counters::default(),
            events: Vec::new(),
            incidents: Vec::new(),
        })
    }

    /// Starts to open an association.
    ///
    /// # Errors
    /// If all ports are in use, or a system call fails that succeeds in normal operation.
    fn connect(&mut self, id: ConnId, now: Instant) -> AgentResult {
        let ConnId::Opened(number) = id else { return Ok(()) };
        let no_port = || AgentError::NoPort { flow: self.name.clone(), associations: self.by_port.len() };
        let client_port = free_port(number, &self.by_port).ok_or_else(no_port)?;
        let endpoints = Endpoints {
            local_port: client_port,
            remote_port: self.server_port,
            primary: self.paths[0],
            alternates: self.paths[1..].to_vec(),
            dscp: self.dscp,
        };
        let random = self.stream(&format!("connection/{}", 2 * number));
        let mut association = Box::new(Association::new(self.config.clone(), &endpoints, random));
        association.open(now);
        let place = self.enrol(now, id, client_port, association);
        self.transmit(place, now)
    }

    /// The random stream of this end for one purpose. The simulator draws from the same stream.
    fn stream(&self, purpose: &str) -> Stream {
        self.side.stream(&self.seeds, &self.name, purpose)
    }

    fn enrol(
        &mut self,
        now: Instant,
        id: ConnId,
        client_port: u16,
        mut association: Box<Association>,
    ) -> u32 {
        let reader = self.reads.map(|reads| ReadSchedule::new(reads, now));
        if reader.is_some() {
            association.set_reading(false);
        }
        let place = self.associations.enrol(SctpConn { id, client_port, association, reader });
        self.by_port.insert(client_port, place);
        place
    }

    /// Handles the next packet that has arrived, and gives its association a turn. Returns whether there was a packet.
    fn take_packet(&mut self, end: &mut EndState, around: &mut EndContext) -> AgentResult<bool> {
        if self.arrived.is_empty() {
            self.receive()?;
        }
        let Some(ReceivedPacket { stamp, packet }) = self.arrived.pop_front() else { return Ok(false) };
        let now = around.clock.now();
        let at = stamp.map_or(now, |ns| around.clock.instant(around.offset.monotonic(ns)).min(now));
        self.lateness.record(now - at);
        let (carries_data, ip_len) = (packet.payload.carries_data(), packet.header.ip_len);
        let handled = self.handle(now, packet)?;
        if carries_data && !end.order.sends_data() {
            end.meter.packet_arrived(ip_len.into());
            if handled.is_some_and(|(_, is_new)| is_new) {
                end.meter.data_arrived(at, &mut around.samples);
            }
        }
        if let Some((place, _)) = handled {
            self.take_turn(around.clock.now(), place, end, around)?;
        }
        Ok(true)
    }

    /// Receives packets from the sockets.
    fn receive(&mut self) -> AgentResult {
        let Self { side, server_port, sockets, batch, arrived, .. } = self;
        let wanted = |source, destination| match side {
            FlowSide::Client => source == *server_port,
            FlowSide::Server => destination == *server_port,
        };
        if !std::mem::take(&mut self.more) {
            return Ok(());
        }
        for socket in sockets {
            let more = socket.receive(batch, wanted, |taken| arrived.push_back(taken));
            self.more |= more.map_err(AgentError::kernel("recvmmsg"))?;
        }
        // Packets of different paths are handled in the order of their arrival.
        arrived.make_contiguous().sort_by_key(|taken| taken.stamp);
        Ok(())
    }

    /// Handles a packet. Returns the index of its association, and whether the packet carried new data.
    fn handle(&mut self, now: Instant, packet: Packet) -> AgentResult<Option<(u32, bool)>> {
        let Payload::Sctp(body) = &packet.payload else { return Ok(None) };
        let client_port = if self.side == FlowSide::Client { body.dst_port } else { body.src_port };
        if let Some(place) = self.by_port.get(&client_port).copied() {
            let mut is_new = false;
            if let Some(SctpConn { association, .. }) = self.associations.get_mut(place) {
                let arrived = association.arrived();
                association.handle_packet(now, packet);
                is_new = association.arrived() != arrived;
            }
            self.transmit(place, now)?;
            return Ok(Some((place, is_new)));
        }
        let response = match &mut self.listener {
            Some(listener) => listener.handle_packet(now, packet),
            None => out_of_the_blue(&packet.header, body).map(ListenerResponse::Reply),
        };
        match response {
            Some(ListenerResponse::Reply(reply)) => {
                self.send(&reply)?;
                Ok(None)
            }
            Some(ListenerResponse::Accepted(association)) => {
                let is_new = association.arrived() > 0;
                // A server only accepts associations, so the number of all its associations numbers the accepted ones.
                let place =
                    self.enrol(now, ConnId::Accepted(self.associations.made()), client_port, association);
                self.transmit(place, now)?;
                Ok(Some((place, is_new)))
            }
            None => Ok(None),
        }
    }

    /// Handles scheduled events that are due and timers that have expired.
    fn expire(&mut self, now: Instant) -> AgentResult {
        while let Some(TimedControl { control, .. }) = self.controls.pop_front_if(|due| due.at() <= now) {
            for place in self.places(|_| true) {
                self.change(place, now, |association| association.control(now, control))?;
            }
        }
        for place in self.places(|conn| conn.association.poll_timeout().is_some_and(|at| at <= now)) {
            self.change(place, now, |association| association.handle_timeout(now))?;
        }
        Ok(())
    }

    /// Reads the data that applications with a read schedule are due to read at `now`.
    fn take_steps(&mut self, now: Instant) -> AgentResult {
        for place in self.places(|conn| conn.reader.is_some_and(|reader| reader.next() <= now)) {
            let reader = self.associations.get_mut(place).and_then(|conn| conn.reader.as_mut());
            let bytes = reader.map_or(0, |reader| reader.take(now));
            self.change(place, now, |association| {
                association.read(bytes);
            })?;
        }
        Ok(())
    }

    /// The indices of the associations for which `holds` is true.
    fn places(&self, holds: impl Fn(&SctpConn) -> bool) -> Vec<u32> {
        self.associations.iter().filter(|(_, conn)| holds(conn)).map(|(place, _)| place).collect()
    }

    /// Processes the pending events and incidents of the association with the index `place`, if it still exists.
    fn take_turn(
        &mut self,
        now: Instant,
        place: u32,
        end: &mut EndState,
        around: &mut EndContext,
    ) -> AgentResult {
        let Some(SctpConn { id, association, .. }) = self.associations.get_mut(place) else { return Ok(()) };
        let (id, mut events) = (*id, std::mem::take(&mut self.events));
        events.extend(std::iter::from_fn(|| association.poll_event()));
        self.incidents.extend(std::iter::from_fn(|| association.poll_incident()));
        self.report_incidents(now, end, around);
        for event in events.drain(..) {
            end.connection_event(now, id, &event, &mut around.samples);
            if let ConnectionEvent::Closed(reason) = &event {
                self.forget(place, *reason);
            }
            self.notify(now, AppEvent::Connection { conn: id, event }, end, around)?;
        }
        self.events = events;
        Ok(())
    }

    /// Reports the incidents of an association, if this end sends the flow's data. Incidents do not include
    /// establishment and close, which are reported as events of every connection.
    fn report_incidents(&mut self, at: Instant, end: &EndState, around: &mut EndContext) {
        let (flow, sends) = (end.order.flow, end.order.sends_data());
        let name = |path: PathId| self.path_names.get(usize::from(path.0)).map_or("?", String::as_str);
        for incident in self.incidents.drain(..).filter(|_| sends) {
            let text = incident.words("T3-rtx", name);
            around.notes.push(Note { at, subject: Subject::Flow(flow), text });
            if let Some((subject @ Subject::Path(..), quantity, value)) = incident.moment(flow) {
                around.samples.push((subject, Sample { at, quantity, value }));
            }
        }
    }

    /// Changes an association and sends the resulting packets immediately. The resulting events wait for the
    /// association's next turn.
    fn change(&mut self, place: u32, now: Instant, change: impl FnOnce(&mut Association)) -> AgentResult {
        if let Some(conn) = self.associations.get_mut(place) {
            change(&mut conn.association);
        }
        self.associations.queue_turn(place);
        self.transmit(place, now)
    }

    /// Sends all packets that an association has ready.
    fn transmit(&mut self, place: u32, now: Instant) -> AgentResult {
        while let Some(conn) = self.associations.get_mut(place)
            && let Some(packet) = conn.association.poll_transmit(now)
        {
            self.send(&packet)?;
        }
        Ok(())
    }

    fn send(&mut self, packet: &Packet) -> AgentResult {
        let Packet { header, payload: Payload::Sctp(body) } = packet else { return Ok(()) };
        let named = PathAddresses { local: header.flow.src, remote: header.flow.dst };
        // Both ends have the same list of address pairs, so a packet with another pair cannot occur.
        let Some(socket) = self.sockets.iter().find(|socket| socket.addresses() == named) else {
            return Ok(());
        };
        let sent = socket.send(body).map_err(AgentError::kernel("send"))?;
        self.no_room += u64::from(sent == PacketOutcome::NoRoom);
        Ok(())
    }

    /// Removes a closed association and keeps its counts. SCTP answers later packets without state, as "out of the
    /// blue" packets (RFC 9260 section 8.4).
    fn forget(&mut self, place: u32, reason: CloseReason) {
        self.failed += u32::from(reason != CloseReason::Finished);
        let Some(conn) = self.associations.remove(place) else { return };
        self.gone += &conn.association.counters();
        if self.by_port.get(&conn.client_port) == Some(&place) {
            self.by_port.remove(&conn.client_port);
        }
    }

    /// The counts of all associations, including closed ones.
    fn counters(&self) -> Counters {
        let mut counters = self.gone;
        self.associations.members().for_each(|conn| counters += &conn.association.counters());
        counters
    }
}

impl FlowCarrier for SctpEnd {
    fn watch(&self, end: &EndState, pacer: &Pacer) -> AgentResult {
        let key = end.key(FIRST_SOCKET);
        let mut fds = self.sockets.iter().map(PathSocket::fd);
        fds.try_for_each(|fd| pacer.watch(fd, key, Watch::Reading)).map_err(AgentError::kernel("epoll_ctl"))
    }

    fn next(&self) -> Option<Instant> {
        if self.more || !self.arrived.is_empty() || self.associations.has_turns() {
            return Some(Instant::ZERO);
        }
        let timers = self.associations.members().filter_map(SctpConn::next);
        timers.chain(self.controls.front().map(TimedControl::at)).min()
    }

    fn ready(&mut self, _: u32, _: &EndState, _: &EndContext) -> AgentResult {
        self.more = true;
        Ok(())
    }

    /// Handles packets before timers, because a received packet may stop a timer.
    fn advance(&mut self, now: Instant, end: &mut EndState, around: &mut EndContext) -> AgentResult {
        for _ in 0..TURNS {
            if !self.take_packet(end, around)? {
                break;
            }
        }
        self.expire(around.clock.now())?;
        if self.reads.is_some() {
            self.take_steps(around.clock.now())?;
        }
        for _ in 0..TURNS {
            let Some(place) = self.associations.next_turn() else { break };
            self.take_turn(now, place, end, around)?;
        }
        Ok(())
    }

    fn carry(
        &mut self,
        _: Instant,
        action: AppAction,
        end: &mut EndState,
        around: &EndContext,
    ) -> AgentResult {
        let now = around.clock.now();
        match action {
            AppAction::Open { conn, .. } => self.connect(conn, now),
            AppAction::Send { conn, stream, data } => {
                end.offered(data.size());
                let Some(place) = self.associations.place_of(conn) else { return Ok(()) };
                self.change(place, now, |association| association.send(now, stream, data))
            }
            AppAction::Close { conn } => {
                let Some(place) = self.associations.place_of(conn) else { return Ok(()) };
                self.change(place, now, |association| association.close(now))
            }
            _ => Ok(()),
        }
    }

    fn tick(&mut self, at: Instant, end: &EndState, out: &mut Samples) -> AgentResult {
        let now = self.counters();
        let before = std::mem::replace(&mut self.reported, now);
        let sends = end.order.sends_data();
        let counts = Counters::REPORTED.iter().filter(|(_, ends, _)| sends || *ends == ReportingEnds::Both);
        end.report_counts(at, counts.map(|(quantity, _, of)| (*quantity, of(&now) - of(&before))), out);
        // The state of each path of the oldest association that still exists.
        if let Some(conn) = self.associations.members().next().filter(|_| sends) {
            for path in 0..self.paths.len() as u8 {
                let Some(status) = conn.association.path_status(PathId(path)) else { continue };
                let subject = Subject::Path(end.order.flow, path);
                let sample = |(quantity, value)| (subject, Sample { at, quantity, value });
                out.extend(status.levels().map(sample));
            }
        }
        Ok(())
    }

    fn report(&mut self, report: &mut EndReport, _: &EndState, _: &mut Samples) -> AgentResult {
        (report.connections, report.failed) = (self.associations.made(), self.failed);
        let dropped = self.sockets.iter().map(|socket| drops(socket.fd())).sum::<Result<u32, _>>();
        let socket_dropped = dropped.map_err(AgentError::kernel("SO_MEMINFO"))?;
        let (no_room, lateness) = (self.no_room, self.lateness.clone());
        report.sctp = Some(SctpReport { socket_dropped, no_room, lateness });
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.associations.is_over()
    }
}

/// The client port of the association with this number: the next port in cyclic order that is not in use.
fn free_port(number: u32, used: &BTreeMap<u16, u32>) -> Option<u16> {
    let mut ports =
        (0..CLIENT_PORTS).map(|step| CLIENT_PORT + (number.wrapping_add(step) % CLIENT_PORTS) as u16);
    ports.find(|port| !used.contains_key(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_association_keeps_its_port_as_long_as_it_lives() {
        let mut used: BTreeMap<u16, u32> = [(CLIENT_PORT, 0), (CLIENT_PORT + 1, 1), (u16::MAX, 9)].into();
        assert_eq!(free_port(5, &used), Some(CLIENT_PORT + 5));
        assert_eq!(
            free_port(CLIENT_PORTS, &used),
            Some(CLIENT_PORT + 2),
            "those of the first two are in use"
        );
        assert_eq!(free_port(u32::MAX, &used), Some(CLIENT_PORT + 2), "after the last comes the first");
        used.extend((CLIENT_PORT..=u16::MAX).map(|port| (port, 0)));
        assert_eq!(free_port(7, &used), None);
        used.remove(&(CLIENT_PORT + 3));
        assert_eq!(free_port(7, &used), Some(CLIENT_PORT + 3));
    }
}
