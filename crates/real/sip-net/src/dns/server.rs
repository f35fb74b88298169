//! A DNS server that answers from a zone, with a configured delay and loss.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant, Seeds, SpanDistribution, Stream};
use netrig_sip::header::Transport;
use rustix::net::SocketFlags;
use serde::Serialize;

use super::connections::NameConnections;
use super::live::LiveZone;
use super::message::{answer_within, asked};
use crate::ListeningPoint;
use crate::datagrams::DatagramSocket;
use crate::ledger::{AmplificationLedger, FACTOR};
use crate::send_batch::OutgoingDatagram;
use netrig_host::MemoryReservation;
use netrig_host::socket::SocketBuilder;
use netrig_host::socket::{SocketError, TcpOptions};
use netrig_host::sys::{MESSAGES, ReceiveBatch};
use netrig_host::{Clock, DescriptorShortage, Pacer, SlotId, SlotLimits, Watch, connections_within};

/// Number of bytes that are read of a datagram. A query is never longer.
const KEPT: usize = 4096;

/// The receive buffer of a socket, bytes.
const ROOM: u32 = 4 << 20;

/// Maximum number of delayed responses. Further queries get no response.
const MOST_WAITING: usize = 1 << 16;

/// Number of descriptors in addition to those of connections: files, sockets, the poller.
const OTHER_DESCRIPTORS: u64 = 64;

/// Number of batches that are read from one socket before the clock, the stop flag and the other sockets are checked.
const BATCHES: usize = 16;

/// Maximum number of connections accepted in one turn of the loop.
const ACCEPTED_AT_ONCE: usize = 64;

/// Backlog of a listening socket.
const BACKLOG: i32 = 1024;

/// The poller's key of the listening sockets and of all connections.
const CONNECTIONS: u64 = u64::MAX;

/// Interval between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// The addresses and the behaviour of a server.
#[derive(Clone, Debug)]
pub struct NameServerOrder {
    /// UDP and TCP addresses.
    pub listen: Vec<ListeningPoint>,
    /// The zone.
    pub zone: Arc<LiveZone>,
    /// Hosts whose addresses count as validated, so that they get complete responses over UDP.
    pub proven: Vec<IpAddr>,
    /// Distribution of the delay of responses.
    pub delay: Option<SpanDistribution>,
    /// The share of responses over UDP that are dropped, 0 to 1, drawn from the stream `dns/loss`.
    pub loss: f64,
    /// Limits of connections; by default [`NameServerOrder::SLOTS`].
    pub slots: SlotLimits,
    /// Seeds of all random streams.
    pub seeds: Seeds,
}

impl NameServerOrder {
    /// Default limits of a server for clients that do not trust each other.
    pub const SLOTS: SlotLimits = SlotLimits::shared(1024);
}

/// Counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NameTally {
    /// Messages received over UDP.
    pub over_udp: u64,
    /// Messages received over TCP.
    pub over_tcp: u64,
    /// Responses sent.
    pub answered: u64,
    /// Responses dropped by configuration.
    pub lost: u64,
    /// Messages that were not a query, or whose response exceeded the limit of delayed responses.
    pub ignored: u64,
    /// Connections that were closed because their number or their memory reached the limit.
    pub refused: u64,
}

impl NameTally {
    /// The counts in a line.
    pub fn text(&self) -> String {
        let Self { over_udp, over_tcp, answered, lost, ignored, refused } = self;
        format!(
            "{over_udp} messages over UDP, {over_tcp} over TCP; {answered} answered, {lost} lost on purpose, {ignored} ignored; \
             connections refused: {refused}"
        )
    }
}

enum ResponsePath {
    Datagram(usize, SocketAddr),
    /// The connection, and the memory reserved for the response until it is sent.
    Connection(SlotId, MemoryReservation),
}

/// A server with open sockets.
pub struct NameServer {
    order: NameServerOrder,
    datagrams: Vec<DatagramSocket>,
    listeners: Vec<OwnedFd>,
    listens: Vec<ListeningPoint>,
    loss: Stream,
    delay: Stream,
    waiting: BTreeMap<(Instant, u64), (ResponsePath, Vec<u8>)>,
    connections: NameConnections,
    number: u64,
    /// Addresses that a connection has validated.
    ledger: AmplificationLedger,
    tally: NameTally,
    shortage: Option<DescriptorShortage>,
}

impl NameServer {
    /// Opens the sockets.
    ///
    /// # Errors
    /// If a socket cannot be opened.
    pub fn open(order: NameServerOrder) -> Result<Self, SocketError> {
        let (mut datagrams, mut listeners, mut listens) = (Vec::new(), Vec::new(), Vec::new());
        for ListeningPoint { transport, address } in &order.listen {
            let address = if *transport == Transport::Udp {
                let socket = DatagramSocket::open(*address, ROOM, None)?;
                let local = socket.local();
                datagrams.push(socket);
                local
            } else {
                let refused = |what| {
                    move |error: rustix::io::Errno| SocketError::Refused {
                        what,
                        address: *address,
                        source: error.into(),
                    }
                };
                let socket = SocketBuilder::tcp(&TcpOptions::default(), 0, *address)?.bound()?;
                rustix::net::listen(&socket, BACKLOG).map_err(refused("listen"))?;
                let local = rustix::net::getsockname(&socket).map_err(refused("getsockname"))?;
                listeners.push(socket);
                local.try_into().unwrap_or(*address)
            };
            listens.push(ListeningPoint { transport: *transport, address });
        }
        let (held, shortage) = match listeners.as_slice() {
            [] => (order.slots.total, None),
            _ => connections_within(order.slots.total, 1, OTHER_DESCRIPTORS),
        };
        // At least one connection is allowed, because otherwise no query over TCP would be answered.
        let slots = order.slots.within(held.max(1));
        let stream = |name| order.seeds.stream(name);
        Ok(Self {
            loss: stream("dns/loss"),
            delay: stream("dns/delay"),
            order,
            datagrams,
            listeners,
            listens,
            waiting: BTreeMap::new(),
            connections: NameConnections::new(slots),
            number: 0,
            ledger: AmplificationLedger::default(),
            tally: NameTally::default(),
            shortage,
        })
    }

    /// The missing resource, if the system allows fewer open files than the connections need.
    pub const fn shortage(&self) -> Option<DescriptorShortage> {
        self.shortage
    }

    /// The listening addresses.
    pub fn listens(&self) -> &[ListeningPoint] {
        &self.listens
    }

    /// Answers until `stop` is set, or for the given time.
    ///
    /// # Errors
    /// If a system call fails that succeeds in normal operation.
    pub fn serve(mut self, lasts: Option<Duration>, stop: &AtomicBool) -> io::Result<NameTally> {
        let clock = Clock::starting_in(Duration::ZERO);
        let end = lasts.map_or(Instant::NEVER, |lasts| Instant::ZERO + lasts);
        let mut pacer = Pacer::new(clock, Duration::ZERO)?;
        for (key, socket) in (0..).zip(&self.datagrams) {
            pacer.watch(socket.fd(), key, Watch::Reading)?;
        }
        for listener in &self.listeners {
            pacer.watch(listener, CONNECTIONS, Watch::Reading)?;
        }
        let (mut batch, mut heard) = (ReceiveBatch::new(KEPT), Instant::ZERO);
        // The poller reports readiness once. If a turn of the loop does not read all datagrams of a socket, the next
        // turn continues.
        let mut has_more = vec![true; self.datagrams.len()];
        while clock.now() < end && !stop.load(Ordering::Relaxed) {
            let look = if has_more.contains(&true) { clock.now() } else { (clock.now() + LOOK).min(end) };
            let due = self.waiting.first_key_value().map(|((due, _), _)| *due);
            let ready = pacer.wait(due.map_or(look, |due| due.min(look)))?;
            let is_called = ready.iter().any(|(key, _)| *key == CONNECTIONS) || clock.now() >= heard + LOOK;
            for (place, has_more) in has_more.iter_mut().enumerate() {
                *has_more = true;
                for _ in 0..BATCHES {
                    *has_more = self.receive(place, &mut batch, clock.now())?;
                    if !*has_more {
                        break;
                    }
                }
            }
            if is_called {
                heard = clock.now();
                self.accept(&pacer, heard)?;
                self.hear(heard);
            }
            self.send(clock.now());
        }
        Ok(NameTally { refused: self.connections.refused, ..self.tally })
    }

    /// Reads one batch from a socket. Returns whether more datagrams may be waiting.
    fn receive(&mut self, place: usize, batch: &mut ReceiveBatch, now: Instant) -> io::Result<bool> {
        let mut come = Vec::new();
        let more = self.datagrams[place].receive(batch, MESSAGES, |incoming| {
            come.push((incoming.from, incoming.head.to_vec()));
        })?;
        for (from, bytes) in come {
            self.tally.over_udp += 1;
            // A response to an unvalidated address is truncated if it is too long. The client then repeats the query
            // over TCP, which validates the address.
            let is_proven = self.order.proven.contains(&from.ip()) || self.ledger.is_proven(now, from);
            let most = if is_proven { usize::MAX } else { FACTOR as usize * bytes.len() };
            match self.answer(&bytes, (from.ip(), Transport::Udp), most) {
                Some(_) if self.loss.chance(self.order.loss) => self.tally.lost += 1,
                Some(message) => self.put(now, ResponsePath::Datagram(place, from), message),
                None => self.tally.ignored += 1,
            }
        }
        Ok(more)
    }

    /// The response to a message from `from`. Over UDP it has at most `most` bytes. The query is recorded if the zone
    /// records queries.
    fn answer(&self, bytes: &[u8], (from, transport): (IpAddr, Transport), most: usize) -> Option<Vec<u8>> {
        let zone = &self.order.zone;
        let answer = zone.with(|zone| answer_within(bytes, zone, transport == Transport::Udp, most))?;
        if zone.is_recording()
            && let Some(question) = asked(bytes)
        {
            zone.record(question, from, transport);
        }
        Some(answer)
    }

    /// Queues a response until its drawn delay is over.
    fn put(&mut self, now: Instant, to: ResponsePath, message: Vec<u8>) {
        if self.waiting.len() >= MOST_WAITING {
            self.tally.ignored += 1;
            return;
        }
        let span = self.order.delay.as_ref().map_or(Duration::ZERO, |law| law.draw(&mut self.delay));
        self.number += 1;
        self.waiting.insert((now + span, self.number), (to, message));
    }

    fn accept(&mut self, pacer: &Pacer, now: Instant) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for listener in &self.listeners {
            for _ in 0..ACCEPTED_AT_ONCE {
                let Ok((socket, peer)) = rustix::net::acceptfrom_with(listener, flags) else { break };
                let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { continue };
                self.ledger.prove_host(now, peer.ip());
                pacer.watch(&socket, CONNECTIONS, Watch::Both)?;
                self.connections.accept(now, socket.into(), peer.ip());
            }
        }
        Ok(())
    }

    /// Handles the queries of all connections, and closes finished connections.
    fn hear(&mut self, now: Instant) {
        for slot in self.connections.slots() {
            self.connections.carry(slot);
            while let Some(from) = self.connections.peer(slot)
                && let Some(question) = self.connections.take_question(now, slot)
            {
                self.tally.over_tcp += 1;
                let answer = self.answer(&question, (from, Transport::Tcp), usize::MAX);
                let answer = answer.filter(|_| self.waiting.len() < MOST_WAITING);
                let kept = answer.as_ref().and_then(|answer| self.connections.owe(slot, answer.capacity()));
                match (answer, kept) {
                    (Some(answer), Some(kept)) => self.put(now, ResponsePath::Connection(slot, kept), answer),
                    _ => self.tally.ignored += 1,
                }
            }
            self.connections.settle(now, slot);
        }
    }

    /// Sends the responses that are due.
    fn send(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now) {
            let (to, message) = first.remove();
            self.tally.answered += 1;
            match to {
                ResponsePath::Datagram(place, to) => {
                    // A datagram that the kernel refuses counts as lost in the network.
                    let datagram = OutgoingDatagram { to, bytes: &message, order_key: None };
                    self.datagrams[place].send(now, &[datagram], |_, _| ());
                }
                ResponsePath::Connection(slot, kept) => self.connections.send(now, slot, &message, kept),
            }
        }
    }
}
