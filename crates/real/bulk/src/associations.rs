//! Associations of netrig's own SCTP over one socket of UDP (RFC 6951) that carry as much as the path lets through.

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

use super::{Bucket, Effort, Reading, TransferDirection, TransferEnd};
use crate::sctp_socket::{PacketOutcome, PathSocket};
use netrig_host::Watch;
use netrig_host::sys::ReceiveBatch;
use netrig_host::{Clock, Pacer, monotonic_nanos};

/// The port of the end that does not open (discard, RFC 863: IANA has it for SCTP, too).
const PORT: u16 = 9;

/// What an association is given at a time, bytes.
const BLOCK: u64 = 1 << 18;

/// Room for what a receiver has not in order yet, and for what a sender has not acknowledged, bytes: ten times what 100 Mbit/s
/// have underway in 100 ms. A receiver's is that of all its associations together, for a peer may fill it and leave it so.
const ROOM: u32 = 12_500_000;

/// The least room of one association, bytes.
const LEAST_ROOM: u32 = 1 << 16;

/// What associations may have got before their rate lets them, and the least that they are given, bytes.
const AHEAD: u64 = 1 << 16;
const LEAST: u64 = 1 << 12;

/// Headers, bytes (RFC 791, RFC 8200, RFC 768).
const IPV4: u64 = 20;
const IPV6: u64 = 40;
const UDP: u64 = 8;

/// Headers of a packet and of its DATA chunk, bytes (RFC 9260 sections 3.1, 3.3.1); a chunk is padded to a multiple of four.
const CHUNK: u32 = 28;

/// How often who waits for its rate looks.
const LOOK: Duration = Duration::from_millis(2);

/// Bytes that are kept of a datagram: all of the longest.
const LONGEST: usize = 65_535;

/// What associations are to carry.
#[derive(Clone, Copy, Debug)]
pub struct AssociationOrder {
    /// How many there are.
    pub count: u16,
    /// Whether this end opens them.
    pub opens: bool,
    /// Which way data goes.
    pub direction: TransferDirection,
    /// Time between two readings.
    pub every: Duration,
    /// The longest packet of SCTP, bytes: payload of a datagram.
    pub size: u16,
    /// What each association carries at most, B/s; all that the path takes if not given. No more is sent, and what comes is
    /// read no faster, all together.
    pub pacing: Option<u32>,
    /// The window that this end offers each association, bytes; if not given an equal part of [enough](ROOM) for most paths.
    pub window: Option<u32>,
    /// Whence tags, sequence numbers and cookies come: what nobody else can know.
    pub seed: u64,
}

impl AssociationOrder {
    fn window(&self) -> u32 {
        self.window.unwrap_or_else(|| (ROOM / u32::from(self.count.max(1))).max(LEAST_ROOM))
    }
}

/// What one association had carried at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AssociationCounts {
    /// User bytes that were sent, each once.
    pub sent: u64,
    /// User bytes that arrived, in order or not, each once.
    pub received: u64,
    /// User bytes that were sent again.
    pub sent_again: u64,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// The window that the peer offers, bytes.
    pub window: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// For how long there was something to send, or sent and not acknowledged.
    pub busy: Duration,
    /// For how long there was more to send than the peer's window let through.
    pub window_limited: Duration,
}

/// Associations that carry data.
pub struct Associations {
    order: AssociationOrder,
    socket: PathSocket,
    config: Arc<Config>,
    payload: u32,
    listener: Option<Listener>,
    /// By their place: that of the opener's port above [`CLIENT_PORT`].
    members: Vec<Option<CarriedAssociation>>,
    clock: Clock,
    pacer: Pacer,
    batch: ReceiveBatch,
    /// What has been given to them, bytes.
    given: u64,
    /// What may be read and given, if that has a bound.
    buckets: Option<[Bucket; 2]>,
    /// Packets that this host had no room for.
    unsent: u64,
}

struct CarriedAssociation {
    association: Box<Association>,
    /// It waits to be given more.
    wants: bool,
    busy: Duration,
    window_limited: Duration,
    /// Until when these two were counted.
    looked: Instant,
    over: Option<CloseReason>,
}

impl Associations {
    /// Over a socket that is connected to the other end's. Make it on the thread that will carry.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new(socket: UdpSocket, order: AssociationOrder) -> io::Result<Self> {
        let window = Size::from_bytes(order.window().into());
        let ip = if socket.local_addr()?.is_ipv4() { IPV4 } else { IPV6 };
        let payload = u32::from(order.size).saturating_sub(CHUNK) / 4 * 4;
        let config = Arc::new(Config {
            encapsulation: Encapsulation::Udp,
            mtu: Size::from_bytes(ip + UDP + u64::from(order.size)),
            // What arrives in order need not wait for the rest of a long message.
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

    /// User bytes of a full packet.
    pub const fn payload(&self) -> u32 {
        self.payload
    }

    /// The window that this end offers each association, bytes.
    pub fn window(&self) -> u32 {
        self.order.window()
    }

    /// Carries data until `stop` or until no association is left, and gives a reading whenever one is due, and one at the end.
    ///
    /// # Errors
    /// What the kernel answers; an association that breaks is none.
    pub fn carry(
        &mut self,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&Reading<AssociationCounts>),
    ) -> io::Result<TransferEnd> {
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

    /// Breaks them off: the peer is told (ABORT, RFC 9260 section 9.1). How many packets this host had no room for.
    ///
    /// # Errors
    /// What the kernel answers.
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

    /// When something is to be done although nothing comes.
    fn deadline(&self, now: Instant) -> Instant {
        let members = || self.members.iter().flatten().filter(|member| member.over.is_none());
        let timers = members().filter_map(|member| member.association.poll_timeout()).min();
        let waits = members().any(|member| member.wants).then_some(now + LOOK);
        timers.into_iter().chain(waits).min().unwrap_or(Instant::NEVER)
    }

    /// Whether more has come than may have by now.
    fn is_ahead(&mut self, now: Instant) -> bool {
        let Some([read, _]) = &mut self.buckets else { return false };
        read.left(now, self.members.iter().flatten().map(|member| member.association.arrived()).sum()) < 0.0
    }

    /// What associations may be given now, at most a block.
    fn block(&mut self, now: Instant) -> u64 {
        let Some([_, given]) = &mut self.buckets else { return BLOCK };
        (given.left(now, self.given).max(0.0) as u64).min(BLOCK)
    }

    /// Takes what has arrived, as much as one call gives; whether there may be more.
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

    /// An association's timers, what it has to say, and what it wants to be given.
    fn take_turn(&mut self, place: usize, now: Instant) -> io::Result<()> {
        let block = self.block(now);
        let Some(member) = self.members[place].as_mut().filter(|member| member.over.is_none()) else {
            return Ok(());
        };
        if member.association.poll_timeout().is_some_and(|at| at <= now) {
            member.association.handle_timeout(now);
        }
        member.hear(self.order.direction.sends());
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

    /// Sends all that an association has to send.
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

    fn reading(&self) -> Reading<AssociationCounts> {
        let borne = |member: &Option<CarriedAssociation>| {
            member.as_ref().map(CarriedAssociation::borne).unwrap_or_default()
        };
        Reading {
            at: monotonic_nanos(),
            connections: self.members.iter().map(borne).collect(),
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

    /// What the association has to say.
    fn hear(&mut self, sends: bool) {
        while self.association.poll_incident().is_some() {}
        while let Some(event) = self.association.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } | ConnectionEvent::Writable => self.wants |= sends,
                ConnectionEvent::Closed(reason) => self.over = Some(reason),
                _ => {}
            }
        }
    }

    /// Counts the time since it was last looked at by what it was then.
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

    fn borne(&self) -> AssociationCounts {
        let Counters { bytes_sent, bytes_retransmitted, .. } = self.association.counters();
        let path = self.association.path_status(PathId(0));
        AssociationCounts {
            sent: bytes_sent,
            received: self.association.arrived(),
            sent_again: bytes_retransmitted,
            cwnd: path.map_or(0, |path| path.cwnd),
            window: self.association.peer_window(),
            srtt: path.and_then(|path| path.srtt),
            busy: self.busy,
            window_limited: self.window_limited,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration as StdDuration;

    use super::*;
    use crate::datagram_socket;
    use netrig_host::socket::Buffers;

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

    fn sockets() -> [UdpSocket; 2] {
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (near, far) = (free(), free());
        [
            datagram_socket(near, far, Buffers::default()).unwrap(),
            datagram_socket(far, near, Buffers::default()).unwrap(),
        ]
    }

    type Ended = (TransferEnd, Vec<Reading<AssociationCounts>>);

    /// Both ends, each on a thread of its own. The near one is stopped first, and the other soon after: where its socket was
    /// full it has not heard of it.
    fn carried(near: AssociationOrder, far: AssociationOrder, lasts: StdDuration) -> [Ended; 2] {
        let [near_socket, far_socket] = sockets();
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

    fn last(readings: &[Reading<AssociationCounts>]) -> &[AssociationCounts] {
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
        // Who is told by an ABORT that it is over need not be stopped.
        assert_eq!((near.0, far.0), (TransferEnd::Stopped, TransferEnd::Gone));
        for borne in last(&near.1) {
            assert!(borne.window <= 6000 && borne.sent > 0, "{borne:?}");
            assert!(borne.window_limited > Duration::ZERO && borne.window_limited <= borne.busy, "{borne:?}");
        }
    }

    #[test]
    fn no_more_is_carried_than_may_be() {
        let paced = |opens, direction| AssociationOrder { pacing: Some(500_000), ..order(opens, direction) };
        let lasts = StdDuration::from_millis(400);
        let most = |readings: &[Reading<AssociationCounts>]| {
            let (first, last) = (&readings[0], readings.last().unwrap());
            let came: u64 = last.connections.iter().map(|borne| borne.received).sum();
            let time = (last.at - first.at) as f64 * 1e-9 + 0.05;
            (came as f64, 1e6 * time + 2.0 * AHEAD as f64 + f64::from(1 << 16))
        };
        // Whoever of the two is held to it.
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
