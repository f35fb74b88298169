//! Associations of SCTP: netrig's own endpoint, in real time.
//!
//! The endpoint is the simulator's ([`netrig_transport::sctp`]), with the same constants and the same random streams. Here
//! the kernel's clock gives the time, and IP or UDP sockets of the kernel carry the packets.

mod faults;
mod options;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use netrig_core::{
    CLIENT_PORT, CloseReason, ConnectionEvent, Data, Dscp, Endpoint, Instant, Quantity, Seeds, Stream,
    StreamId,
};
use netrig_traffic::{ConnId, FlowSide, ReadSchedule, Reads};
use netrig_transport::sctp::{
    Association, Config, Endpoints, Listener, ListenerResponse, PathAddresses, out_of_the_blue,
};
use netrig_transport::{Connection, Counters, Incident, Packet, PathId, PathStatus, Payload};

pub use self::options::{SctpOptions, SctpPath, TimedControl};
use crate::AgentError;
use crate::order::EndOrder;
use crate::report::SctpReport;
use crate::roster::{Named, Roster};
use netrig_bulk::sctp_socket::ReceivedPacket;
pub(crate) use netrig_bulk::sctp_socket::{PacketOutcome, PathSocket};
use netrig_host::RealtimeOffset;
use netrig_host::socket::{SocketError, drops};
use netrig_host::sys::ReceiveBatch;
use netrig_host::{Clock, Lateness};

/// Number of ports that a flow's first end may use.
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
    /// One for each path.
    sockets: Vec<PathSocket>,
    listener: Option<Listener>,
    associations: Roster<SctpConn>,
    /// Places of the associations by the client's port.
    by_port: BTreeMap<u16, u32>,
    failed: u32,
    gone: Counters,
    /// Controls that are not yet due.
    controls: VecDeque<TimedControl>,
    /// Whether the sockets may hold more packets.
    more: bool,
    /// Received packets that are not yet handled.
    arrived: VecDeque<ReceivedPacket>,
    batch: ReceiveBatch,
    /// Time from the arrival of packets to their handling.
    lateness: Lateness,
    no_room: u64,
}

/// An association, with its identifiers for the application and for the network.
struct SctpConn {
    id: ConnId,
    client_port: u16,
    association: Box<Association>,
    /// Read schedule of the application, if it does not read at once.
    reader: Option<ReadSchedule>,
}

impl SctpConn {
    /// The time of its next timer or read.
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

/// A packet that was handled.
pub(crate) struct HandledPacket {
    /// Arrival time.
    pub at: Instant,
    /// Its length with its IP header, bytes, if it carries user data.
    pub data: Option<u32>,
    /// Whether it carried data that had not arrived before.
    pub is_new: bool,
    /// The place of the association, which now may have events.
    pub place: Option<u32>,
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
        })
    }

    /// The sockets, in the order of the paths.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(PathSocket::fd)
    }

    /// Handles a poll event: the sockets may hold packets.
    pub const fn is_ready(&mut self) {
        self.more = true;
    }

    /// The time of the next action of its own; [`Instant::ZERO`] if at once.
    pub fn next(&self) -> Option<Instant> {
        if self.more || !self.arrived.is_empty() {
            return Some(Instant::ZERO);
        }
        let timers = self.associations.members().filter_map(SctpConn::next);
        timers.chain(self.controls.front().map(TimedControl::at)).min()
    }

    /// Whether there has been an association.
    pub const fn has_been_used(&self) -> bool {
        self.associations.made() > 0
    }

    /// Whether no association is left.
    pub fn is_empty(&self) -> bool {
        self.associations.is_empty()
    }

    /// Number of associations so far, and of those that ended before all data had arrived.
    pub const fn tally(&self) -> [u32; 2] {
        [self.associations.made(), self.failed]
    }

    /// Starts to open an association and returns its place.
    ///
    /// # Errors
    /// If all ports are in use, or a system call fails that succeeds in normal operation.
    pub fn connect(&mut self, id: ConnId, clock: &Clock) -> Result<Option<u32>, AgentError> {
        let ConnId::Opened(number) = id else { return Ok(None) };
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
        let now = clock.now();
        association.open(now);
        let place = self.enrol(now, id, client_port, association);
        self.transmit(place, now)?;
        Ok(Some(place))
    }

    /// The random stream of this end for one purpose, as in the simulator.
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

    /// Handles the next packet that has arrived, if there is one.
    pub fn handle_next(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
    ) -> Result<Option<HandledPacket>, AgentError> {
        if self.arrived.is_empty() {
            self.receive()?;
        }
        let Some(ReceivedPacket { stamp, packet }) = self.arrived.pop_front() else { return Ok(None) };
        let now = clock.now();
        let at = stamp.map_or(now, |ns| clock.instant(offset.monotonic(ns)).min(now));
        self.lateness.record(now - at);
        let data = packet.payload.carries_data().then_some(packet.header.ip_len);
        let handled = self.handle(now, packet)?;
        let is_new = handled.is_some_and(|(_, is_new)| is_new);
        Ok(Some(HandledPacket { at, data, is_new, place: handled.map(|(place, _)| place) }))
    }

    /// Receives packets from the sockets.
    fn receive(&mut self) -> Result<(), AgentError> {
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

    /// Handles a packet. Returns the place of its association, and whether the packet carried new data.
    fn handle(&mut self, now: Instant, packet: Packet) -> Result<Option<(u32, bool)>, AgentError> {
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
                // Opened and accepted associations are numbered separately; a server only accepts.
                let place =
                    self.enrol(now, ConnId::Accepted(self.associations.made()), client_port, association);
                self.transmit(place, now)?;
                Ok(Some((place, is_new)))
            }
            None => Ok(None),
        }
    }

    /// Handles due controls and timers. Adds the places of associations that may have events to `turns`.
    pub fn expire(&mut self, clock: &Clock, turns: &mut VecDeque<u32>) -> Result<(), AgentError> {
        let now = clock.now();
        while let Some(TimedControl { control, .. }) = self.controls.pop_front_if(|due| due.at() <= now) {
            for place in self.places() {
                self.change(place, clock, |association, now| association.control(now, control))?;
                turns.push_back(place);
            }
        }
        let is_due = |conn: &SctpConn| conn.association.poll_timeout().is_some_and(|at| at <= now);
        let due = self.associations.iter().filter(|(_, conn)| is_due(conn));
        let due: Vec<_> = due.map(|(place, _)| place).collect();
        for place in due {
            self.change(place, clock, |association, now| association.handle_timeout(now))?;
            turns.push_back(place);
        }
        Ok(())
    }

    /// Lets applications with read schedules read what is due. Adds the places of their associations to `turns`.
    pub fn take_steps(&mut self, clock: &Clock, turns: &mut VecDeque<u32>) -> Result<(), AgentError> {
        let now = clock.now();
        let mut due = Vec::new();
        for (place, conn) in self.associations.iter_mut() {
            if let Some(reader) = conn.reader.as_mut().filter(|reader| reader.next() <= now) {
                conn.association.read(reader.take(now));
                due.push(place);
            }
        }
        turns.extend(&due);
        due.into_iter().try_for_each(|place| self.transmit(place, now))
    }

    fn places(&self) -> Vec<u32> {
        self.associations.iter().map(|(place, _)| place).collect()
    }

    /// The place of the application's connection, if it still exists.
    pub fn place_of(&self, id: ConnId) -> Option<u32> {
        self.associations.place_of(id)
    }

    /// Sends data of the application.
    pub fn give(
        &mut self,
        place: u32,
        stream: StreamId,
        data: Data,
        clock: &Clock,
    ) -> Result<(), AgentError> {
        self.change(place, clock, |association, now| association.send(now, stream, data))
    }

    /// Closes an association for the application.
    pub fn close(&mut self, place: u32, clock: &Clock) -> Result<(), AgentError> {
        self.change(place, clock, |association, now| association.close(now))
    }

    /// Changes an association, and sends the resulting packets at once.
    fn change(
        &mut self,
        place: u32,
        clock: &Clock,
        change: impl FnOnce(&mut Association, Instant),
    ) -> Result<(), AgentError> {
        let now = clock.now();
        if let Some(conn) = self.associations.get_mut(place) {
            change(&mut conn.association, now);
        }
        self.transmit(place, now)
    }

    /// Sends all packets that an association has ready.
    fn transmit(&mut self, place: u32, now: Instant) -> Result<(), AgentError> {
        while let Some(conn) = self.associations.get_mut(place)
            && let Some(packet) = conn.association.poll_transmit(now)
        {
            self.send(&packet)?;
        }
        Ok(())
    }

    fn send(&mut self, packet: &Packet) -> Result<(), AgentError> {
        let Packet { header, payload: Payload::Sctp(body) } = packet else { return Ok(()) };
        let named = PathAddresses { local: header.flow.src, remote: header.flow.dst };
        // Both ends know the same pairs of addresses, so there is no other.
        let Some(socket) = self.sockets.iter().find(|socket| socket.addresses() == named) else {
            return Ok(());
        };
        let sent = socket.send(body).map_err(AgentError::kernel("send"))?;
        self.no_room += u64::from(sent == PacketOutcome::NoRoom);
        Ok(())
    }

    /// Takes the events and incidents of an association. Returns its name, if it still exists.
    pub fn take_events(
        &mut self,
        place: u32,
        events: &mut Vec<ConnectionEvent>,
        incidents: &mut Vec<Incident>,
    ) -> Option<ConnId> {
        let SctpConn { id, association, .. } = self.associations.get_mut(place)?;
        events.extend(std::iter::from_fn(|| association.poll_event()));
        incidents.extend(std::iter::from_fn(|| association.poll_incident()));
        Some(*id)
    }

    /// Removes an association that is over; its counts stay. SCTP needs no state to answer late packets: they are out of the
    /// blue.
    pub fn forget(&mut self, place: u32, reason: CloseReason) {
        self.failed += u32::from(reason != CloseReason::Finished);
        let Some(conn) = self.associations.remove(place) else { return };
        self.gone += conn.association.counters();
        if self.by_port.get(&conn.client_port) == Some(&place) {
            self.by_port.remove(&conn.client_port);
        }
    }

    /// The counts of all associations, including those that are over.
    pub fn counters(&self) -> Counters {
        let mut counters = self.gone;
        self.associations.members().for_each(|conn| counters += conn.association.counters());
        counters
    }

    /// The state of each path of the oldest association that still exists.
    pub fn path_levels(&self) -> impl Iterator<Item = (u8, &'static Quantity, f64)> {
        let first = self.associations.members().next().map(|conn| &conn.association);
        let status = move |path: u8| Some((path, first?.path_status(PathId(path))?));
        let levels = |(path, status): (u8, PathStatus)| {
            status.levels().map(move |(quantity, value)| (path, quantity, value))
        };
        (0..self.paths.len() as u8).filter_map(status).flat_map(levels)
    }

    /// Drops and lateness of this end.
    pub fn report(&self) -> Result<SctpReport, AgentError> {
        let dropped: Result<Vec<_>, _> = self.fds().map(drops).collect();
        let dropped = dropped.map_err(AgentError::kernel("SO_MEMINFO"))?.into_iter().sum();
        Ok(SctpReport { socket_dropped: dropped, no_room: self.no_room, lateness: self.lateness.clone() })
    }
}

/// The client port of the association with this number. Ports are reused in turn, except those that are still in use.
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
