//! Bulk transfer over associations of netrig's own SCTP, which share one UDP socket (RFC 6951).

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{
    CLIENT_PORT, CloseReason, ConnectionEvent, Data, Dscp, Duration, Endpoint, Instant, Seeds, Size, StreamId,
};
use netrig_transport::sctp::{
    Association, Config, Encapsulation, Endpoints, Listener, ListenerResponse, out_of_the_blue,
};
use netrig_transport::{Connection, Counters, Packet, PathId, Payload, Profile};

use super::{Bucket, Effort, Reading, StreamCounts, TransferDirection, TransferEnd};
use crate::sctp_socket::{PacketOutcome, PathSocket};
use netrig_host::Watch;
use netrig_host::sys::ReceiveBatch;
use netrig_host::{Clock, Pacer, TcpInfo, monotonic_nanos};

/// Port of the listening end (discard, RFC 863; IANA assigns it for SCTP too).
const PORT: u16 = 9;

/// Maximum data that is queued for an association in one step, bytes.
const BLOCK: u64 = 1 << 18;

/// Size of the buffer for out-of-order data of a receiver and for unacknowledged data of a sender, bytes: ten times the
/// bandwidth-delay product of 100 Mbit/s and 100 ms. All associations of a receiver share this size, because a peer may
/// fill the buffers and then send nothing more.
const ROOM: u32 = 12_500_000;

/// Minimum receive buffer of one association, bytes.
const LEAST_ROOM: u32 = 1 << 16;

/// Bytes that paced associations may transfer ahead of their rate, and the minimum that is queued in one step.
const AHEAD: u64 = 1 << 16;
const LEAST: u64 = 1 << 12;

/// Lengths of the IPv4, IPv6 and UDP headers, bytes (RFC 791, RFC 8200, RFC 768).
const IPV4: u64 = 20;
const IPV6: u64 = 40;
const UDP: u64 = 8;

/// Length of the common header and the DATA chunk header, bytes (RFC 9260 sections 3.1, 3.3.1). The length of a chunk
/// is padded to a multiple of four.
const CHUNK: u32 = 28;

/// Interval at which a paced end checks its rate.
const LOOK: Duration = Duration::from_millis(2);

/// Maximum number of bytes that are kept of a datagram: the longest datagram.
const LONGEST: usize = 65_535;

/// Parameters of a transfer over associations.
#[derive(Clone, Copy, Debug)]
pub struct AssociationOrder {
    /// Number of associations.
    pub count: u16,
    /// Whether this end opens the associations.
    pub opens: bool,
    /// Direction of the data.
    pub direction: TransferDirection,
    /// Time between two readings.
    pub every: Duration,
    /// Maximum length of an SCTP packet, which is the payload of a UDP datagram, bytes.
    pub size: u16,
    /// Maximum rate of each association, B/s; `None` if it is unlimited. The end sends at most at this rate, and all
    /// its associations together read at most at the sum of their rates.
    pub pacing: Option<u32>,
    /// Receive window that this end offers to each association, bytes. With `None`, each association gets an equal part
    /// of [a buffer](ROOM) that suffices for most paths.
    pub window: Option<u32>,
    /// Seed of verification tags, sequence numbers and cookies. It must be secret.
    pub seed: u64,
}

impl AssociationOrder {
    fn window(&self) -> u32 {
        self.window.unwrap_or_else(|| (ROOM / u32::from(self.count.max(1))).max(LEAST_ROOM))
    }
}

/// A transfer over associations.
pub struct Associations {
    order: AssociationOrder,
    socket: PathSocket,
    config: Arc<Config>,
    payload: u32,
    listener: Option<Listener>,
    /// The associations. The index is the client port minus [`CLIENT_PORT`].
    members: Vec<Option<CarriedAssociation>>,
    clock: Clock,
    pacer: Pacer,
    batch: ReceiveBatch,
    /// Bytes queued so far.
    given: u64,
    /// The token buckets that limit reading and queueing, if the transfer is paced.
    buckets: Option<[Bucket; 2]>,
    /// Number of packets that were dropped because the send buffer was full.
    unsent: u64,
}

struct CarriedAssociation {
    association: Box<Association>,
    /// Whether the association can take more data.
    wants: bool,
    /// Time with unacknowledged data.
    busy: Duration,
    /// Time for which the peer's receive window stopped sending.
    window_limited: Duration,
    /// When `busy` and `window_limited` were last updated.
    looked: Instant,
    over: Option<CloseReason>,
}

impl Associations {
    /// Prepares a transfer over a connected socket. Call this function on the thread that will run the transfer.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(socket: UdpSocket, order: AssociationOrder) -> io::Result<Self> {
        let window = Size::from_bytes(order.window().into());
        let ip = if socket.local_addr()?.is_ipv4() { IPV4 } else { IPV6 };
        let payload = u32::from(order.size).saturating_sub(CHUNK) / 4 * 4;
        let config = Arc::new(Config {
            encapsulation: Encapsulation::Udp,
            mtu: Size::from_bytes(ip + UDP + u64::from(order.size)),
            // If each message fits into one packet, received data never waits for the rest of its message.
            message_size: Size::from_bytes(payload.into()),
            receive_buffer: window,
            send_buffer: Size::from_bytes(ROOM.into()),
            ..Config::of(Profile::Rfc)
        });
        let socket = PathSocket::over(socket, &config)?;
        let clock = Clock::starting_in(Duration::ZERO);
        let pacer = Pacer::new(clock, Duration::ZERO)?;
        pacer.watch(socket.fd(), 0, Watch::Reading)?;
        let listener = (!order.opens).then(|| {
            let random = Seeds::new(order.seed).stream("speed/listener");
            Listener::new(config.clone(), PORT, vec![socket.addresses()], Dscp::BE, random)
        });
        let mut made = Self {
            socket,
            config,
            payload,
            listener,
            members: (0..order.count).map(|_| None).collect(),
            clock,
            pacer,
            batch: ReceiveBatch::new(LONGEST),
            given: 0,
            buckets: None,
            unsent: 0,
            order,
        };
        if order.opens {
            (0..order.count).try_for_each(|place| made.open(place))?;
        }
        Ok(made)
    }

    /// User data of a full packet, bytes.
    pub const fn payload(&self) -> u32 {
        self.payload
    }

    /// The receive window that this end offers to each association, bytes.
    pub fn window(&self) -> u32 {
        self.order.window()
    }

    /// Transfers data until `stop` is set or all associations have closed. Passes a reading to `each` at every interval
    /// and at the end.
    ///
    /// # Errors
    /// The error of the kernel. A failed association is not an error.
    pub fn carry(&mut self, stop: &AtomicBool, each: &mut dyn FnMut(&Reading)) -> io::Result<TransferEnd> {
        let begun = self.clock.now();
        let all = self.order.pacing.map(|each| f64::from(each) * self.members.len() as f64);
        self.buckets = all.map(|rate| [Bucket::new(begun, rate, AHEAD, Bucket::AWAY); 2]);
        let mut next = begun + self.order.every;
        let end = loop {
            if stop.load(Ordering::Relaxed) {
                break TransferEnd::Stopped;
            }
            if self.members.iter().all(|member| member.as_ref().is_some_and(|member| member.over.is_some())) {
                break TransferEnd::Gone;
            }
            let now = self.clock.now();
            if now >= next {
                each(&self.reading());
                next = (next + self.order.every).max(now);
            }
            if self.is_ahead(now) {
                self.pacer.rest(next.min(now + LOOK))?;
                continue;
            }
            let more = self.receive()?;
            let now = self.clock.now();
            for place in 0..self.members.len() {
                self.take_turn(place, now)?;
            }
            if !more {
                self.pacer.wait(self.deadline(now).min(next))?;
            }
        };
        each(&self.reading());
        Ok(end)
    }

    /// Aborts the associations (ABORT, RFC 9260 section 9.1). Returns the number of packets that were dropped because
    /// the send buffer was full.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn abort(mut self) -> io::Result<u64> {
        let now = self.clock.now();
        for place in 0..self.members.len() {
            if let Some(member) = &mut self.members[place] {
                member.association.abort(now);
            }
            self.transmit(place, now)?;
        }
        Ok(self.unsent)
    }

    fn open(&mut self, place: u16) -> io::Result<()> {
        let endpoints = Endpoints {
            local_port: CLIENT_PORT + place,
            remote_port: PORT,
            primary: self.socket.addresses(),
            alternates: Vec::new(),
            dscp: Dscp::BE,
        };
        let random = Seeds::new(self.order.seed).stream(&format!("speed/association/{place}"));
        let mut association = Box::new(Association::new(self.config.clone(), &endpoints, random));
        let now = self.clock.now();
        association.open(now);
        self.members[usize::from(place)] = Some(CarriedAssociation::new(association, now));
        self.transmit(place.into(), now)
    }

    /// When the next timer expires or the rate must be checked, whichever is earlier.
    fn deadline(&self, now: Instant) -> Instant {
        let members = || self.members.iter().flatten().filter(|member| member.over.is_none());
        let timers = members().filter_map(|member| member.association.poll_timeout()).min();
        let waits = members().any(|member| member.wants).then_some(now + LOOK);
        timers.into_iter().chain(waits).min().unwrap_or(Instant::NEVER)
    }

    /// Whether more data has arrived so far than the rate allows.
    fn is_ahead(&mut self, now: Instant) -> bool {
        let Some([read, _]) = &mut self.buckets else { return false };
        read.left(now, self.members.iter().flatten().map(|member| member.association.arrived()).sum()) < 0.0
    }

    /// Number of bytes that may be queued now, at most [`BLOCK`].
    fn block(&mut self, now: Instant) -> u64 {
        let Some([_, given]) = &mut self.buckets else { return BLOCK };
        (given.left(now, self.given).max(0.0) as u64).min(BLOCK)
    }

    /// Receives and handles one batch of packets. Returns whether more packets may wait.
    fn receive(&mut self) -> io::Result<bool> {
        let mut arrived = Vec::new();
        let wanted = |_, _| true;
        let more = self.socket.receive(&mut self.batch, wanted, |taken| arrived.push(taken.packet))?;
        let now = self.clock.now();
        for packet in arrived {
            self.handle(packet, now)?;
        }
        Ok(more)
    }

    fn handle(&mut self, packet: Packet, now: Instant) -> io::Result<()> {
        let Payload::Sctp(body) = &packet.payload else { return Ok(()) };
        let port = if self.order.opens { body.dst_port } else { body.src_port };
        let place = usize::from(port.wrapping_sub(CLIENT_PORT));
        let Some(slot) = self.members.get_mut(place) else { return Ok(()) };
        if let Some(member) = slot {
            member.association.handle_packet(now, packet);
            return self.transmit(place, now);
        }
        let response = match &mut self.listener {
            Some(listener) => listener.handle_packet(now, packet),
            None => out_of_the_blue(&packet.header, body).map(ListenerResponse::Reply),
        };
        match response {
            Some(ListenerResponse::Reply(reply)) => self.send(&reply),
            Some(ListenerResponse::Accepted(association)) => {
                *slot = Some(CarriedAssociation::new(association, now));
                self.transmit(place, now)
            }
            None => Ok(()),
        }
    }

    /// Handles an association's timers and events, and queues more data for it.
    fn take_turn(&mut self, place: usize, now: Instant) -> io::Result<()> {
        let block = self.block(now);
        let Some(member) = self.members[place].as_mut().filter(|member| member.over.is_none()) else {
            return Ok(());
        };
        if member.association.poll_timeout().is_some_and(|at| at <= now) {
            member.association.handle_timeout(now);
        }
        member.handle_events(self.order.direction.sends());
        if member.wants && block >= LEAST {
            member.association.send(now, StreamId(0), Data::Fill(block));
            member.wants = false;
            self.given += block;
        }
        self.transmit(place, now)?;
        if let Some(member) = &mut self.members[place] {
            member.look(now);
        }
        Ok(())
    }

    /// Sends all pending packets of an association.
    fn transmit(&mut self, place: usize, now: Instant) -> io::Result<()> {
        while let Some(member) = &mut self.members[place]
            && let Some(packet) = member.association.poll_transmit(now)
        {
            self.send(&packet)?;
        }
        Ok(())
    }

    fn send(&mut self, packet: &Packet) -> io::Result<()> {
        if let Payload::Sctp(body) = &packet.payload {
            self.unsent += u64::from(self.socket.send(body)? == PacketOutcome::NoRoom);
        }
        Ok(())
    }

    fn reading(&self) -> Reading {
        let counts = |member: &Option<CarriedAssociation>| {
            member.as_ref().map(CarriedAssociation::counts).unwrap_or_default()
        };
        Reading {
            at: monotonic_nanos(),
            connections: self.members.iter().map(counts).collect(),
            effort: Effort::of_this_thread(),
        }
    }
}

impl CarriedAssociation {
    fn new(association: Box<Association>, now: Instant) -> Self {
        Self {
            association,
            wants: false,
            busy: Duration::ZERO,
            window_limited: Duration::ZERO,
            looked: now,
            over: None,
        }
    }

    /// Handles the association's events.
    fn handle_events(&mut self, sends: bool) {
        while self.association.poll_incident().is_some() {}
        while let Some(event) = self.association.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } | ConnectionEvent::Writable => self.wants |= sends,
                ConnectionEvent::Closed(reason) => self.over = Some(reason),
                _ => {}
            }
        }
    }

    /// Adds the time since the last update to `busy` and `window_limited`, according to the present state.
    fn look(&mut self, now: Instant) {
        let span = now - self.looked;
        self.looked = now;
        if self.association.unacknowledged() > 0 {
            self.busy += span;
        }
        if self.association.is_held_by_window() {
            self.window_limited += span;
        }
    }

    /// The counts of the association, in the same fields as the kernel's counts of a TCP connection.
    fn counts(&self) -> StreamCounts {
        let Counters { bytes_sent, bytes_retransmitted, .. } = self.association.counters();
        let path = self.association.path_status(PathId(0));
        let mut info = TcpInfo::default();
        info.counts.bytes_sent = bytes_sent + bytes_retransmitted;
        info.counts.bytes_retransmitted = bytes_retransmitted;
        info.cwnd = path.map_or(0, |path| path.cwnd);
        info.window = self.association.peer_window();
        info.srtt = path.and_then(|path| path.srtt);
        (info.busy, info.window_limited) = (self.busy, self.window_limited);
        StreamCounts {
            sent: bytes_sent,
            received: self.association.arrived(),
            info: Some(info),
            ..StreamCounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration as StdDuration;

    use super::*;
    use crate::datagrams::socket_pair;

    fn order(opens: bool, direction: TransferDirection) -> AssociationOrder {
        AssociationOrder {
            count: 2,
            opens,
            direction,
            every: Duration::from_millis(20),
            size: 1232,
            pacing: None,
            window: None,
            seed: 7,
        }
    }

    type Ended = (TransferEnd, Vec<Reading>);

    /// Runs both ends, each on its own thread. The near end is stopped first. The far end is stopped soon after,
    /// because the ABORT of the near end may be lost if a socket buffer is full.
    fn carried(near: AssociationOrder, far: AssociationOrder, lasts: StdDuration) -> [Ended; 2] {
        let [near_socket, far_socket] = socket_pair();
        let (near_stop, far_stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let end = |socket, order, stop: &AtomicBool| {
            let mut readings = Vec::new();
            let mut associations = Associations::new(socket, order).unwrap();
            let end = associations.carry(stop, &mut |reading| readings.push(reading.clone())).unwrap();
            associations.abort().unwrap();
            (end, readings)
        };
        std::thread::scope(|scope| {
            let far = scope.spawn(|| end(far_socket, far, &far_stop));
            let near = scope.spawn(|| end(near_socket, near, &near_stop));
            std::thread::sleep(lasts);
            near_stop.store(true, Ordering::Relaxed);
            std::thread::sleep(StdDuration::from_millis(200));
            far_stop.store(true, Ordering::Relaxed);
            [near.join().unwrap(), far.join().unwrap()]
        })
    }

    fn last(readings: &[Reading]) -> &[StreamCounts] {
        &readings.last().unwrap().connections
    }

    #[test]
    fn data_goes_either_way_and_both_ways() {
        let lasts = StdDuration::from_millis(300);
        for (near, far) in [
            (TransferDirection::Sends, TransferDirection::Receives),
            (TransferDirection::Receives, TransferDirection::Sends),
            (TransferDirection::Both, TransferDirection::Both),
        ] {
            let [opened, accepted] = carried(order(true, near), order(false, far), lasts);
            assert_eq!(opened.0, TransferEnd::Stopped);
            for (readings, receives) in [
                (&opened.1, near != TransferDirection::Sends),
                (&accepted.1, far != TransferDirection::Sends),
            ] {
                assert!(
                    last(readings).iter().all(|borne| (borne.received > 0) == receives),
                    "{:?}",
                    last(readings)
                );
            }
            let sent: u64 = last(&opened.1).iter().map(|borne| borne.sent).sum();
            let came: u64 = last(&accepted.1).iter().map(|borne| borne.received).sum();
            assert!(sent >= came, "{sent} {came}");
        }
    }

    #[test]
    fn a_small_window_holds_the_sender_back_and_it_says_so() {
        let receives = AssociationOrder { window: Some(6000), ..order(false, TransferDirection::Receives) };
        let [near, far] =
            carried(order(true, TransferDirection::Sends), receives, StdDuration::from_millis(300));
        // The far end finishes because it receives the ABORT.
        assert_eq!((near.0, far.0), (TransferEnd::Stopped, TransferEnd::Gone));
        for borne in last(&near.1) {
            let info = borne.info.unwrap();
            assert!(info.window <= 6000 && borne.sent > 0, "{borne:?}");
            assert!(info.window_limited > Duration::ZERO && info.window_limited <= info.busy, "{borne:?}");
        }
    }

    #[test]
    fn no_more_is_carried_than_may_be() {
        let paced = |opens, direction| AssociationOrder { pacing: Some(500_000), ..order(opens, direction) };
        let lasts = StdDuration::from_millis(400);
        let most = |readings: &[Reading]| {
            let (first, last) = (&readings[0], readings.last().unwrap());
            let came: u64 = last.connections.iter().map(|borne| borne.received).sum();
            let time = (last.at - first.at) as f64 * 1e-9 + 0.05;
            (came as f64, 1e6 * time + 2.0 * AHEAD as f64 + f64::from(1 << 16))
        };
        // First the sender is paced, then the receiver.
        let [_, far] =
            carried(paced(true, TransferDirection::Sends), order(false, TransferDirection::Receives), lasts);
        let [_, slow] =
            carried(order(true, TransferDirection::Sends), paced(false, TransferDirection::Receives), lasts);
        for readings in [&far.1, &slow.1] {
            let (came, allowed) = most(readings);
            assert!(came > 0.0 && came <= allowed, "{came} of {allowed}");
        }
    }
}
