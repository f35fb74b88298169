//! The sockets of a server, and the loop that carries messages between the sockets and the server.

mod receiving;
mod sending;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::Message;
use netrig_sip::header::Transport;
use netrig_sip::location::Abilities;
use netrig_sip::server::{DelayedResponses, Domain, PlainResponses, Server, TargetChange};
use rustix::io::Errno;

use super::connections::{ConnectionChange, FIRST_KEY, MOST_KEPT, ServerConnections, Tls};
use super::datagrams::DatagramPoint;
use super::handover::{Handover, HandoverItem};
use super::names::Names;
use super::order::{ServeError, SocketsOrder, abilities, allowed_connections, kernel, not_had, speaking};
use super::tally::Tally;
use crate::ListeningPoint;
use crate::ledger::{AmplificationLedger, Purse};
use crate::tap::{MessageTap, StampedTap};
use netrig_host::MemoryBudget;
use netrig_host::socket::TcpOptions;
use netrig_host::socket::{SocketBuilder, SocketError, refused};
use netrig_host::sys::ReceiveBatch;
use netrig_host::{Clock, DescriptorShortage, Pacer, SPIN, Watch};

/// Backlog of a listening socket; the kernel limits it to net.core.somaxconn.
const CALLS: i32 = 4096;

/// The poller's key of a listening socket is this number plus the index of the socket.
const FIRST_LISTENER: u64 = 1 << 32;

/// The poller's key of the hand-over from other threads.
const WAKEUP: u64 = u64::MAX;

/// Interval at which a thread checks whether the queue to a congested thread has room again.
const CONGESTED: Duration = Duration::from_millis(1);

/// Interval of the calls of the watcher.
const GLANCE: Duration = Duration::from_secs(1);

struct PointListener {
    socket: OwnedFd,
    transport: Transport,
    ready: bool,
}

/// A function that gets the counts of a server.
pub(super) type Watcher = Box<dyn FnMut(&Tally) + Send>;

impl CommonParts {
    pub fn new(order: &SocketsOrder) -> Result<Self, ServeError> {
        let clock = Clock::starting_in(Duration::ZERO);
        Ok(Self { clock, tls: speaking(order)?, memory: MemoryBudget::of(MOST_KEPT) })
    }
}

/// The open sockets of a server. [`Sockets::serve`] runs a server on them.
pub struct Sockets {
    clock: Clock,
    pacer: Pacer,
    domain: Domain,
    datagrams: Vec<DatagramPoint>,
    listeners: Vec<PointListener>,
    connections: ServerConnections,
    /// Responses to the plain request that is being handled.
    responses: PlainResponses,
    /// Peers that use a UDP socket other than the first suitable one, and the index of that socket.
    strangers: HashMap<SocketAddr, usize>,
    /// Byte accounts of unvalidated addresses over UDP.
    ledger: AmplificationLedger,
    /// Remaining bytes that may be sent to unvalidated addresses because of the message that is being handled.
    purse: Purse,
    /// The result of [`Server::forwards`].
    forwards: bool,
    names: Names,
    abilities: Abilities,
    seeds: Seeds,
    waiting: Option<DelayedResponses>,
    /// Messages that could not be sent, and whose failure has not yet been reported to the server.
    unsent: Vec<Message>,
    tally: Tally,
    /// A function that is called each second with the counts.
    watcher: Option<Watcher>,
    /// The tap of messages.
    tap: Option<StampedTap>,
    shortage: Option<DescriptorShortage>,
    /// The hand-over to and from the other threads of a partitioned server.
    handover: Option<Handover>,
}

/// The parts that all threads of a server share.
#[derive(Clone)]
pub(super) struct CommonParts {
    clock: Clock,
    tls: Tls,
    /// Memory budget of the connections.
    memory: MemoryBudget,
}

impl Sockets {
    /// Opens the sockets.
    ///
    /// # Errors
    /// If a socket cannot be opened with its options.
    pub fn open(order: SocketsOrder) -> Result<Self, ServeError> {
        let common = CommonParts::new(&order)?;
        Self::open_partition(order, common, None)
    }

    /// Opens the sockets of one thread of a partitioned server, or of a server with one thread if `handover` is `None`.
    pub(super) fn open_partition(
        order: SocketsOrder,
        common: CommonParts,
        handover: Option<Handover>,
    ) -> Result<Self, ServeError> {
        let is_shared = handover.is_some();
        let CommonParts { clock, tls, memory } = common;
        let has_streams = order.listen.iter().any(|point| point.transport != Transport::Udp);
        let (most, shortage) =
            if has_streams { allowed_connections(order.limits.connections)? } else { (0, None) };
        let needs_identity = order.listen.iter().find(|point| point.transport == Transport::Tls);
        if let Some(point) = needs_identity.filter(|_| order.identity.is_none()) {
            return Err(ServeError::NoIdentity(*point));
        }
        // The thread spins before a deadline only if responses are delayed, because these must leave on time. For all
        // other work the precision of a sleep suffices.
        let tail = if order.delay.is_some() { SPIN } else { Duration::ZERO };
        let pacer = Pacer::new(clock, tail).map_err(kernel("epoll_create"))?;
        if let Some(handover) = &handover {
            pacer.watch(handover.wakeup(), WAKEUP, Watch::Reading).map_err(kernel("epoll_ctl"))?;
        }
        let (mut datagrams, mut listeners, mut listens) = (Vec::new(), Vec::new(), Vec::new());
        for point in &order.listen {
            let local = if point.transport == Transport::Udp {
                let opened =
                    DatagramPoint::open(point.address, is_shared).map_err(|error| not_had(*point, error))?;
                pacer
                    .watch(opened.fd(), datagrams.len() as u64, Watch::Reading)
                    .map_err(kernel("epoll_ctl"))?;
                let local = opened.local();
                datagrams.push(opened);
                local
            } else {
                let (listener, local) = listen(point, is_shared).map_err(|error| not_had(*point, error))?;
                let key = FIRST_LISTENER + listeners.len() as u64;
                pacer.watch(&listener.socket, key, Watch::Reading).map_err(kernel("epoll_ctl"))?;
                listeners.push(listener);
                local
            };
            listens.push((point.transport, local));
        }
        let waiting = order.delay.as_ref();
        let name = match handover.as_ref().map_or(0, Handover::index) {
            0 => "sip/serve/delay".to_owned(),
            index => format!("sip/serve/delay/{index}"),
        };
        let waiting = waiting.map(|law| DelayedResponses::new(law.clone(), order.seeds.stream(&name)));
        Ok(Self {
            clock,
            pacer,
            abilities: abilities(&listens),
            domain: Domain { names: Vec::new(), listens },
            datagrams,
            listeners,
            connections: ServerConnections::new(most, order.limits, (tls, memory), is_shared),
            responses: PlainResponses::default(),
            strangers: HashMap::new(),
            ledger: AmplificationLedger::default(),
            purse: Purse::default(),
            forwards: false,
            names: order.names,
            seeds: order.seeds.clone(),
            waiting,
            unsent: Vec::new(),
            tally: Tally::default(),
            watcher: None,
            tap: None,
            shortage,
            handover,
        })
    }

    /// The missing resource, if the system allows fewer open files than the connections need.
    pub const fn shortage(&self) -> Option<DescriptorShortage> {
        self.shortage
    }

    /// The limit of connections, or `None` if the server listens over UDP only.
    pub(super) fn most_connections(&self) -> Option<usize> {
        Some(self.connections.most()).filter(|_| !self.listeners.is_empty())
    }

    /// The listening addresses, with the ports that the system has chosen.
    pub fn listens(&self) -> &[(Transport, SocketAddr)] {
        &self.domain.listens
    }

    /// Carries messages between the sockets and a server until `cancel` is set, or for the given time.
    ///
    /// # Errors
    /// If a system call fails that succeeds in normal operation.
    pub fn serve(
        self,
        server: &mut dyn Server,
        lasts: Option<Duration>,
        cancel: &AtomicBool,
    ) -> Result<Tally, ServeError> {
        self.serve_until(server, lasts, &[cancel])
    }

    /// As [`Self::serve`], until one of `ends` is set.
    pub(super) fn serve_until(
        mut self,
        server: &mut dyn Server,
        lasts: Option<Duration>,
        ends: &[&AtomicBool],
    ) -> Result<Tally, ServeError> {
        let until = lasts.map_or(Instant::NEVER, |lasts| self.clock.now() + lasts);
        self.forwards = server.forwards();
        let mut look = self.glance()?;
        let (mut ready, mut batch) = (Vec::new(), DatagramPoint::batch());
        while !ends.iter().any(|end| end.load(Ordering::Relaxed)) {
            let now = self.clock.now();
            if now >= until {
                break;
            }
            if now >= look {
                look = self.glance()?;
            }
            let look_again = if self.is_congested() { now + CONGESTED } else { Instant::NEVER };
            let next =
                if self.has_more() { now } else { self.next(server).min(until).min(look).min(look_again) };
            ready.clear();
            ready.extend(self.pacer.wait(next).map_err(kernel("ppoll"))?.iter().map(|(key, _)| *key));
            ready.iter().for_each(|key| self.note(*key));
            self.turn(server, &mut batch)?;
        }
        self.so_far()
    }

    /// Calls `watcher` each second with the counts so far.
    #[must_use]
    pub fn watched(self, watcher: impl FnMut(&Tally) + Send + 'static) -> Self {
        Self { watcher: Some(Box::new(watcher)), ..self }
    }

    /// Passes each received or sent message to `tap`.
    #[must_use]
    pub fn tapped(self, tap: Box<dyn MessageTap>) -> Self {
        Self { tap: Some(StampedTap::new(tap, self.clock, true)), ..self }
    }

    /// Passes a message between a local address and a peer to the tap.
    fn tell_tap(&mut self, is_sent: bool, transport: Transport, ends: Option<[SocketAddr; 2]>, bytes: &[u8]) {
        let (Some(tap), Some(ends)) = (&mut self.tap, ends) else { return };
        tap.message((self.clock.now(), transport), is_sent, ends, bytes);
    }

    /// Calls the watcher if it is due. Returns the time of its next call.
    fn glance(&mut self) -> Result<Instant, ServeError> {
        if let Some(tap) = &mut self.tap {
            tap.tap.hand_on();
        }
        if self.watcher.is_none() {
            return Ok(if self.tap.is_some() { self.clock.now() + GLANCE } else { Instant::NEVER });
        }
        let tally = self.so_far()?;
        if let Some(watcher) = &mut self.watcher {
            watcher(&tally);
        }
        Ok(self.clock.now() + GLANCE)
    }

    fn has_more(&self) -> bool {
        !self.is_congested() && self.connections.has_more()
            || self.datagrams.iter().any(|point| point.ready)
            || self.listeners.iter().any(|listener| listener.ready)
            || self.handover.as_ref().is_some_and(|handover| handover.has_input)
    }

    fn next(&self, server: &dyn Server) -> Instant {
        let all = [
            server.poll_timeout(),
            self.connections.poll_timeout(),
            self.waiting.as_ref().and_then(DelayedResponses::next),
        ];
        all.into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// Handles a poll event.
    fn note(&mut self, key: u64) {
        let place = |first: u64| usize::try_from(key - first).unwrap_or(usize::MAX);
        if key == WAKEUP {
            self.handover.iter_mut().for_each(|handover| handover.has_input = true);
        } else if key >= FIRST_KEY {
            self.connections.ready(place(FIRST_KEY));
        } else if key >= FIRST_LISTENER {
            if let Some(listener) = self.listeners.get_mut(place(FIRST_LISTENER)) {
                listener.ready = true;
            }
        } else if let Some(point) = self.datagrams.get_mut(place(0)) {
            point.ready = true;
        }
    }

    /// Handles everything that is ready, within limits.
    fn turn(&mut self, server: &mut dyn Server, batch: &mut ReceiveBatch) -> Result<(), ServeError> {
        let now = self.clock.now();
        self.take_handovers(now, server);
        self.take_datagrams(server, batch)?;
        self.take_connections(now);
        // Other threads must get the report of a connection before they get messages of the connection.
        self.flush_handover();
        if !self.is_congested() {
            self.take_streams(now, server);
        }
        let now = self.clock.now();
        if server.poll_timeout().is_some_and(|at| at <= now) {
            server.handle_timeout(now);
            self.transmit(now, server);
        }
        while let Some((to, message)) = self.waiting.as_mut().and_then(|waiting| waiting.poll(now)) {
            self.send(now, &to, message);
        }
        if self.connections.handle_timeout(now) {
            // Connections that could not be accepted for lack of descriptors are still in the backlog.
            self.listeners.iter_mut().for_each(|listener| listener.ready = true);
        }
        self.tell_places(server);
        self.flush(now, server);
        self.flush_handover();
        Ok(())
    }

    /// Whether the queue to another thread is so long that this thread must not read from connections.
    fn is_congested(&self) -> bool {
        self.handover.as_ref().is_some_and(Handover::is_congested)
    }

    /// Reports opened and ended connections to the other threads, and sends them all queued items.
    fn flush_handover(&mut self) {
        let Some(handover) = &mut self.handover else { return };
        for ConnectionChange { with, is_open } in self.connections.take_changes() {
            handover.queue_to_all(&HandoverItem::Connection { with, is_open }, &[]);
        }
        handover.flush();
    }

    /// Reports added and removed targets of bindings to the other threads. It is called before responses are sent,
    /// because a response may cause a request to a new target.
    fn tell_places(&mut self, server: &mut dyn Server) {
        let Some(handover) = &mut self.handover else { return };
        let changes = server.take_target_changes();
        for TargetChange { target, is_added } in &changes {
            handover.queue_to_all(&HandoverItem::Place { is_added: *is_added }, target.as_bytes());
        }
        if !changes.is_empty() {
            handover.flush();
        }
    }

    /// The counts so far.
    fn so_far(&mut self) -> Result<Tally, ServeError> {
        for point in &mut self.datagrams {
            self.tally.socket_drops += point.take_drops().map_err(kernel("SO_MEMINFO"))?;
        }
        let mut tally = self.tally.clone();
        let broken = std::mem::replace(&mut tally.connections, self.connections.tally.clone()).broken;
        tally.connections.broken += &broken;
        Ok(tally)
    }
}

fn listen(point: &ListeningPoint, is_shared: bool) -> Result<(PointListener, SocketAddr), SocketError> {
    let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
    let failed = |what| move |error: Errno| refused(what, point.address, error);
    let making = SocketBuilder::tcp(&options, 0, point.address)?;
    if is_shared {
        making.share_address()?;
    }
    let socket = making.bound()?;
    rustix::net::listen(&socket, CALLS).map_err(failed("listen"))?;
    let local = rustix::net::getsockname(&socket).map_err(failed("getsockname"))?;
    let local = local.try_into().map_err(failed("getsockname"))?;
    Ok((PointListener { socket, transport: point.transport, ready: true }, local))
}
