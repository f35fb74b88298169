//! Associations of SCTP: netrig's own endpoint, in real time.
//!
//! The endpoint is the simulator's ([`netrig_transport::sctp`]), with the same constants and the same random streams; here
//! the kernel's clock tells it the time, and the kernel's sockets of IP or UDP carry its packets.

mod faults;
mod options;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use netrig_core::{
    CLIENT_PORT, CloseReason, ConnectionEvent, Data, Dscp, Endpoint, Instant, Quantity, Seeds, Stream,
    StreamId,
};
use netrig_traffic::{ConnId, ReadSchedule, Reads};
use netrig_transport::sctp::{
    Association, Config, Endpoints, Listener, ListenerResponse, PathAddresses, out_of_the_blue,
};
use netrig_transport::{Connection, Counters, Incident, Packet, PathId, PathStatus, Payload};

pub use self::faults::SctpReport;
pub use self::options::{SctpOptions, SctpPath, TimedControl};
use crate::AgentError;
use crate::order::EndOrder;
use crate::roster::{Named, Roster};
use crate::side::Side;
use netrig_bulk::sctp_socket::ReceivedPacket;
pub(crate) use netrig_bulk::sctp_socket::{PacketOutcome, PathSocket};
use netrig_host::RealtimeOffset;
use netrig_host::socket::{SocketError, drops};
use netrig_host::sys::ReceiveBatch;
use netrig_host::{Clock, Lateness};

/// As many ports as a flow's first end can have.
const CLIENT_PORTS: u32 = 16_384;

/// Bytes that are kept of a packet: as many as the longest has.
const LONGEST: usize = 65_535;

/// One end's associations.
pub(crate) struct SctpEnd {
    side: Side,
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
    associations: Roster<Conn>,
    /// Their places by the client's port.
    by_port: BTreeMap<u16, u32>,
    failed: u32,
    gone: Counters,
    /// What is to be told to the associations yet.
    controls: VecDeque<TimedControl>,
    /// Sockets may have more than was taken.
    more: bool,
    /// Packets that were taken and not yet looked at.
    arrived: VecDeque<ReceivedPacket>,
    batch: ReceiveBatch,
    /// From the arrival of packets to when they were looked at.
    lateness: Lateness,
    no_room: u64,
}

/// An association, and how application and network call it.
struct Conn {
    id: ConnId,
    client_port: u16,
    association: Box<Association>,
    /// When its application reads, if not at once.
    reader: Option<ReadSchedule>,
}

impl Conn {
    /// When it has something to do by itself.
    fn next(&self) -> Option<Instant> {
        self.association.poll_timeout().into_iter().chain(self.reader.map(|reader| reader.next())).min()
    }
}

impl Named for Conn {
    type Name = ConnId;

    fn name(&self) -> ConnId {
        self.id
    }
}

/// A packet that was given to whom it is for.
pub(crate) struct Handled {
    /// When it arrived.
    pub at: Instant,
    /// Its length with its IP header, bytes, if user data is in it.
    pub data: Option<u32>,
    /// Whether some of the data had not arrived before.
    pub is_new: bool,
    /// The place of the association that now has something to say.
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
        let listener = (order.side == Side::Server).then(|| {
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

    /// The sockets, whose places are their numbers.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(PathSocket::fd)
    }

    /// The kernel has reported a socket.
    pub const fn is_ready(&mut self) {
        self.more = true;
    }

    /// When it next has something to do by itself; [`Instant::ZERO`] if at once.
    pub fn next(&self) -> Option<Instant> {
        if self.more || !self.arrived.is_empty() {
            return Some(Instant::ZERO);
        }
        let timers = self.associations.members().filter_map(Conn::next);
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

    /// Associations made so far, and those that ended before everything had arrived.
    pub const fn tally(&self) -> [u32; 2] {
        [self.associations.made(), self.failed]
    }

    /// Begins to open an association; its place.
    ///
    /// # Errors
    /// If all ports are in use, or the kernel refuses what it always grants.
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

    /// This end's own random stream for one purpose, as in the simulator.
    fn stream(&self, purpose: &str) -> Stream {
        let side = if self.side == Side::Client { "client" } else { "server" };
        self.seeds.stream(&format!("flow/{}/{side}/{purpose}", self.name))
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
        let place = self.associations.enrol(Conn { id, client_port, association, reader });
        self.by_port.insert(client_port, place);
        place
    }

    /// Gives the next packet that has arrived to whom it is for, if there is one.
    pub fn handle_next(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
    ) -> Result<Option<Handled>, AgentError> {
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
        Ok(Some(Handled { at, data, is_new, place: handled.map(|(place, _)| place) }))
    }

    /// Takes packets from the sockets.
    fn receive(&mut self) -> Result<(), AgentError> {
        let Self { side, server_port, sockets, batch, arrived, .. } = self;
        let wanted = |source, destination| match side {
            Side::Client => source == *server_port,
            Side::Server => destination == *server_port,
        };
        if !std::mem::take(&mut self.more) {
            return Ok(());
        }
        for socket in sockets {
            let more = socket.receive(batch, wanted, |taken| arrived.push_back(taken));
            self.more |= more.map_err(AgentError::kernel("recvmmsg"))?;
        }
        // What the paths brought together is looked at in the order of its arrival.
        arrived.make_contiguous().sort_by_key(|taken| taken.stamp);
        Ok(())
    }

    /// A packet arrived. The place of the association that has it, and whether it brought data that had not arrived before.
    fn handle(&mut self, now: Instant, packet: Packet) -> Result<Option<(u32, bool)>, AgentError> {
        let Payload::Sctp(body) = &packet.payload else { return Ok(None) };
        let client_port = if self.side == Side::Client { body.dst_port } else { body.src_port };
        if let Some(place) = self.by_port.get(&client_port).copied() {
            let mut is_new = false;
            if let Some(Conn { association, .. }) = self.associations.get_mut(place) {
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
                // Those that this end has opened or accepted are numbered apart; a server only accepts.
                let place =
                    self.enrol(now, ConnId::Accepted(self.associations.made()), client_port, association);
                self.transmit(place, now)?;
                Ok(Some((place, is_new)))
            }
            None => Ok(None),
        }
    }

    /// Does what is due by now; the places of those that may have something to say are added to `turns`.
    pub fn expire(&mut self, clock: &Clock, turns: &mut VecDeque<u32>) -> Result<(), AgentError> {
        let now = clock.now();
        while let Some(TimedControl { control, .. }) = self.controls.pop_front_if(|due| due.at() <= now) {
            for place in self.places() {
                self.change(place, clock, |association, now| association.control(now, control))?;
                turns.push_back(place);
            }
        }
        let is_due = |conn: &Conn| conn.association.poll_timeout().is_some_and(|at| at <= now);
        let due = self.associations.iter().filter(|(_, conn)| is_due(conn));
        let due: Vec<_> = due.map(|(place, _)| place).collect();
        for place in due {
            self.change(place, clock, |association, now| association.handle_timeout(now))?;
            turns.push_back(place);
        }
        Ok(())
    }

    /// Applications that do not read at once read what is due; the places of their associations are added to `turns`.
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

    /// The place of the application's connection, if it still is.
    pub fn place_of(&self, id: ConnId) -> Option<u32> {
        self.associations.place_of(id)
    }

    /// The application gives data to be sent.
    pub fn give(
        &mut self,
        place: u32,
        stream: StreamId,
        data: Data,
        clock: &Clock,
    ) -> Result<(), AgentError> {
        self.change(place, clock, |association, now| association.send(now, stream, data))
    }

    /// The application closes.
    pub fn close(&mut self, place: u32, clock: &Clock) -> Result<(), AgentError> {
        self.change(place, clock, |association, now| association.close(now))
    }

    /// Changes an association, and sends what follows from it at once.
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

    /// Sends all that an association has to send.
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
        // Both ends know the same pairs, so there is no other.
        let Some(socket) = self.sockets.iter().find(|socket| socket.addresses() == named) else {
            return Ok(());
        };
        let sent = socket.send(body).map_err(AgentError::kernel("send"))?;
        self.no_room += u64::from(sent == PacketOutcome::NoRoom);
        Ok(())
    }

    /// What an association has to say: to the application, and to who watches. Its name, if it still is.
    pub fn hear(
        &mut self,
        place: u32,
        events: &mut Vec<ConnectionEvent>,
        incidents: &mut Vec<Incident>,
    ) -> Option<ConnId> {
        let Conn { id, association, .. } = self.associations.get_mut(place)?;
        events.extend(std::iter::from_fn(|| association.poll_event()));
        incidents.extend(std::iter::from_fn(|| association.poll_incident()));
        Some(*id)
    }

    /// Forgets an association that is over; what it has counted stays. SCTP has not to answer for it: what comes late is
    /// out of the blue.
    pub fn forget(&mut self, place: u32, reason: CloseReason) {
        self.failed += u32::from(reason != CloseReason::Finished);
        let Some(conn) = self.associations.remove(place) else { return };
        self.gone += conn.association.counters();
        if self.by_port.get(&conn.client_port) == Some(&place) {
            self.by_port.remove(&conn.client_port);
        }
    }

    /// What the associations, those that are over too, have counted.
    pub fn counters(&self) -> Counters {
        let mut counters = self.gone;
        self.associations.members().for_each(|conn| counters += conn.association.counters());
        counters
    }

    /// The state of every path of the end's first association that stands.
    pub fn path_levels(&self) -> impl Iterator<Item = (u8, &'static Quantity, f64)> {
        let first = self.associations.members().next().map(|conn| &conn.association);
        let status = move |path: u8| Some((path, first?.path_status(PathId(path))?));
        let levels = |(path, status): (u8, PathStatus)| {
            status.levels().map(move |(quantity, value)| (path, quantity, value))
        };
        (0..self.paths.len() as u8).filter_map(status).flat_map(levels)
    }

    /// What kept it from its work.
    pub fn report(&self) -> Result<SctpReport, AgentError> {
        let dropped: Result<Vec<_>, _> = self.fds().map(drops).collect();
        let dropped = dropped.map_err(AgentError::kernel("SO_MEMINFO"))?.into_iter().sum();
        Ok(SctpReport { socket_dropped: dropped, no_room: self.no_room, lateness: self.lateness.clone() })
    }
}

/// The port of a first end's association with this number: they come round again, but for those that are still in use.
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
