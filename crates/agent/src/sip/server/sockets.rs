//! The sockets of a server, and the loop that carries messages between them and it.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::header::Transport;
use netrig_sip::location::Abilities;
use netrig_sip::server::{
    Destination, Domain, PlainResponse, PlainResponses, Server, Source, Waiting, on_link_of,
    refuse_unreadable,
};
use netrig_sip::{Framed, Host, Message, Method, Name, Status};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::connections::{Connections, FIRST_KEY, Opening};
use super::datagrams::DatagramPoint;
use super::names::Names;
use super::order::{ServeError, SocketsOrder, abilities, allowed_connections, kernel, not_had, speaking};
use super::tally::Tally;
use super::unsent::SendError;
use crate::clock::{RealtimeOffset, monotonic_nanos};
use crate::sip::ListeningPoint;
use crate::sip::datagrams::is_without_room;
use crate::sip::ledger::{AmplificationLedger, Purse, short_answer};
use crate::sip::tap::{MessageTap, PassedMessage};
use crate::socket::{Making, SocketError, refused};
use crate::sys::ReceiveBatch;
use crate::{Clock, DescriptorShortage, Pacer, SPIN, TcpOptions, Watch};

/// Calls that may wait at a listening socket; the kernel cuts it to net.core.somaxconn.
const CALLS: i32 = 4096;

/// Batches of datagrams that are taken in a row, at each socket, before what is due is looked at: whoever was kept from looking
/// would ask again for responses that wait in the socket. Whoever sends faster than is taken here keeps no timer from its time.
const BATCHES: usize = 16;

/// Connections that are taken in one turn.
const ACCEPTED_AT_ONCE: usize = 64;

/// Under these numbers the pacer reports listening sockets: this and their place.
const FIRST_LISTENER: u64 = 1 << 32;

/// Senders of which is remembered at which of several sockets they are served.
const MOST_STRANGERS: usize = 1 << 16;

/// After how long a client for which there is no room may come again, s.
const RETRY_AFTER: &str = "10";
/// Why a message over UDP was not sent.
const WITHHELD: &str = "the address had proved nothing, and had its share of bytes";

/// How often who watches is told.
const GLANCE: Duration = Duration::from_secs(1);

struct Listener {
    socket: OwnedFd,
    transport: Transport,
    ready: bool,
}

/// Why the kernel gives no connection that has come.
fn not_accepted(error: Errno) -> String {
    match error {
        Errno::MFILE | Errno::NFILE => "the system allows no more open files (`ulimit -n`)".to_owned(),
        other => io::Error::from(other).kind().to_string(),
    }
}

/// Is told what a server has done so far.
type Watcher = Box<dyn FnMut(&Tally) + Send>;

/// A tap, and how it tells the time of day.
struct SocketsTap {
    tap: Box<dyn MessageTap>,
    offset: RealtimeOffset,
}

/// Sockets that are open, with nobody to answer yet: [`Sockets::serve`].
pub struct Sockets {
    clock: Clock,
    pacer: Pacer,
    domain: Domain,
    datagrams: Vec<DatagramPoint>,
    listeners: Vec<Listener>,
    connections: Connections,
    /// Responses to the plain request that is being handled.
    responses: PlainResponses,
    /// Senders who are served at another socket than the first that fits, and its place.
    strangers: HashMap<SocketAddr, usize>,
    /// What addresses get over UDP that have not proved themselves.
    ledger: AmplificationLedger,
    /// Budget of the received message that is being handled.
    purse: Purse,
    /// [`Server::forwards`].
    forwards: bool,
    names: Names,
    abilities: Abilities,
    seeds: Seeds,
    waiting: Option<Waiting>,
    /// Messages that have not left, and of which the server has not been told.
    unsent: Vec<Message>,
    tally: Tally,
    /// Who is told of it each second.
    watcher: Option<Watcher>,
    /// Who sees each message.
    tap: Option<SocketsTap>,
    shortage: Option<DescriptorShortage>,
}

impl Sockets {
    /// Opens them.
    ///
    /// # Errors
    /// One of them cannot be had as it was asked for.
    pub fn open(order: SocketsOrder) -> Result<Self, ServeError> {
        let has_streams = order.listen.iter().any(|point| point.transport != Transport::Udp);
        let (most, shortage) =
            if has_streams { allowed_connections(order.limits.connections)? } else { (0, None) };
        let needs_identity = order.listen.iter().find(|point| point.transport == Transport::Tls);
        if let Some(point) = needs_identity.filter(|_| order.identity.is_none()) {
            return Err(ServeError::NoIdentity(*point));
        }
        let clock = Clock::starting_in(Duration::ZERO);
        // What is to leave at a moment leaves then; all else may be as late as a sleep is.
        let tail = if order.delay.is_some() { SPIN } else { Duration::ZERO };
        let pacer = Pacer::new(clock, tail).map_err(kernel("epoll_create"))?;
        let (mut datagrams, mut listeners, mut listens) = (Vec::new(), Vec::new(), Vec::new());
        for point in &order.listen {
            let local = if point.transport == Transport::Udp {
                let opened = DatagramPoint::open(point.address).map_err(|error| not_had(*point, error))?;
                pacer
                    .watch(opened.fd(), datagrams.len() as u64, Watch::Reading)
                    .map_err(kernel("epoll_ctl"))?;
                let local = opened.local();
                datagrams.push(opened);
                local
            } else {
                let (listener, local) = listen(point).map_err(|error| not_had(*point, error))?;
                let key = FIRST_LISTENER + listeners.len() as u64;
                pacer.watch(&listener.socket, key, Watch::Reading).map_err(kernel("epoll_ctl"))?;
                listeners.push(listener);
                local
            };
            listens.push((point.transport, local));
        }
        let waiting = order.delay.as_ref();
        let waiting = waiting.map(|law| Waiting::new(law.clone(), order.seeds.stream("sip/serve/delay")));
        Ok(Self {
            clock,
            pacer,
            abilities: abilities(&listens),
            domain: Domain { names: Vec::new(), listens },
            datagrams,
            listeners,
            connections: Connections::new(most, order.limits, speaking(&order)?),
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
        })
    }

    /// What the system lacks, if it allows fewer open files than the connections that may come need.
    pub const fn shortage(&self) -> Option<DescriptorShortage> {
        self.shortage
    }

    /// Where they listen, with the ports that the system has chosen.
    pub fn listens(&self) -> &[(Transport, SocketAddr)] {
        &self.domain.listens
    }

    /// Carries messages between the sockets and a server until `cancel` is set, or so much time has passed.
    ///
    /// # Errors
    /// The kernel refuses what it always grants.
    pub fn serve(
        mut self,
        server: &mut dyn Server,
        lasts: Option<Duration>,
        cancel: &AtomicBool,
    ) -> Result<Tally, ServeError> {
        let until = lasts.map_or(Instant::NEVER, |lasts| self.clock.now() + lasts);
        self.forwards = server.forwards();
        let mut look = self.glance()?;
        let (mut ready, mut batch) = (Vec::new(), DatagramPoint::batch());
        while !cancel.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now >= until {
                break;
            }
            if now >= look {
                look = self.glance()?;
            }
            let next = if self.has_more() { now } else { self.next(server).min(until).min(look) };
            ready.clear();
            ready.extend(self.pacer.wait(next).map_err(kernel("ppoll"))?.iter().map(|(key, _)| *key));
            ready.iter().for_each(|key| self.note(*key));
            self.turn(server, &mut batch)?;
        }
        self.so_far()
    }

    /// Each second `watcher` is told what the server has done so far.
    #[must_use]
    pub fn watched(self, watcher: impl FnMut(&Tally) + Send + 'static) -> Self {
        Self { watcher: Some(Box::new(watcher)), ..self }
    }

    /// A tap sees each message that comes or leaves.
    #[must_use]
    pub fn tapped(self, tap: Box<dyn MessageTap>) -> Self {
        Self { tap: Some(SocketsTap { tap, offset: RealtimeOffset::measure() }), ..self }
    }

    /// A message passes between a local end and a peer.
    fn tell_tap(&mut self, is_sent: bool, transport: Transport, ends: Option<[SocketAddr; 2]>, bytes: &[u8]) {
        let (Some(SocketsTap { tap, offset }), Some([local, peer])) = (&mut self.tap, ends) else { return };
        let at_ns = offset.realtime(monotonic_nanos());
        tap.message(&PassedMessage { at_ns, is_sent, local, peer, transport, is_of_script: true, bytes });
    }

    /// Tells who watches; when again.
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
        self.connections.has_more()
            || self.datagrams.iter().any(|point| point.ready)
            || self.listeners.iter().any(|listener| listener.ready)
    }

    fn next(&self, server: &dyn Server) -> Instant {
        let all = [
            server.poll_timeout(),
            self.connections.poll_timeout(),
            self.waiting.as_ref().and_then(Waiting::next),
        ];
        all.into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// The kernel has something to say.
    fn note(&mut self, key: u64) {
        let place = |first: u64| usize::try_from(key - first).unwrap_or(usize::MAX);
        if key >= FIRST_KEY {
            self.connections.ready(place(FIRST_KEY));
        } else if key >= FIRST_LISTENER {
            if let Some(listener) = self.listeners.get_mut(place(FIRST_LISTENER)) {
                listener.ready = true;
            }
        } else if let Some(point) = self.datagrams.get_mut(place(0)) {
            point.ready = true;
        }
    }

    /// Whatever there is to do now, a bounded part of it.
    fn turn(&mut self, server: &mut dyn Server, batch: &mut ReceiveBatch) -> Result<(), ServeError> {
        let now = self.clock.now();
        self.take_datagrams(now, server, batch)?;
        self.take_connections(now);
        self.take_streams(now, server);
        let now = self.clock.now();
        if server.poll_timeout().is_some_and(|at| at <= now) {
            server.handle_timeout(now);
            self.transmit(now, server);
        }
        while let Some((to, message)) = self.waiting.as_mut().and_then(|waiting| waiting.poll(now)) {
            self.send(now, &to, message);
        }
        if self.connections.handle_timeout(now) {
            // One that could not be taken, for want of descriptors, waits still.
            self.listeners.iter_mut().for_each(|listener| listener.ready = true);
        }
        self.flush(now, server);
        Ok(())
    }

    fn take_datagrams(
        &mut self,
        now: Instant,
        server: &mut dyn Server,
        batch: &mut ReceiveBatch,
    ) -> Result<(), ServeError> {
        for place in 0..self.datagrams.len() {
            for _ in 0..BATCHES {
                if !self.datagrams[place].ready {
                    break;
                }
                self.take_batch(now, place, server, batch)?;
            }
        }
        Ok(())
    }

    /// At most one batch of one socket.
    fn take_batch(
        &mut self,
        now: Instant,
        place: usize,
        server: &mut dyn Server,
        batch: &mut ReceiveBatch,
    ) -> Result<(), ServeError> {
        let count = self.datagrams[place].receive(batch).map_err(kernel("recvmmsg"))?;
        // Of senders without a port nobody could be answered.
        let incoming = (0..count).filter_map(|at| batch.get(at)).filter(|incoming| incoming.from.port() != 0);
        for incoming in incoming {
            for (bytes, _) in incoming.datagrams() {
                self.take_datagram(now, (place, incoming.from), bytes, server);
            }
        }
        Ok(())
    }

    /// A datagram that has come to one socket.
    fn take_datagram(
        &mut self,
        now: Instant,
        (place, from): (usize, SocketAddr),
        bytes: &[u8],
        server: &mut dyn Server,
    ) {
        self.ledger.receive(now, from, bytes.len());
        self.tell_tap(false, Transport::Udp, Some([self.datagrams[place].local(), from]), bytes);
        if self.point_for(from) != Some(place) {
            self.remember(from, place);
        }
        let source = Source { transport: Transport::Udp, address: from };
        if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | b' ' | 0)) {
            self.tally.keep_alives += 1;
            return;
        }
        if self.take_plain(now, bytes, source, server) {
            return;
        }
        let bytes = Bytes::copy_from_slice(bytes);
        let message = self.read(&bytes);
        if let Some(message) = &message {
            self.ledger.look(now, from, message);
        }
        self.purse = self.ledger.purse(now, from, bytes.len(), false);
        match message {
            Some(message) => {
                server.handle(now, message, source);
                if server.take_proof() {
                    self.ledger.prove(now, from);
                }
                self.transmit(now, server);
            }
            None => self.refuse(now, &bytes, source),
        }
        self.purse = Purse::default();
    }

    /// Has the server handle a plain request, and counts it. Returns whether it was one.
    fn take_plain(&mut self, now: Instant, bytes: &[u8], from: Source, server: &mut dyn Server) -> bool {
        let heard = self.answer_plain(now, bytes, from, server);
        if let Some(method) = heard {
            self.tally.received.count_request(method);
            if from.transport.is_reliable() {
                self.tell_tap_along(bytes, from);
            }
            self.send_plain(now, bytes.len(), from);
        }
        heard.is_some()
    }

    /// Has the server handle a plain request, whose responses are then in `responses`. Returns its method if it was one.
    fn answer_plain(
        &mut self,
        now: Instant,
        bytes: &[u8],
        from: Source,
        server: &mut dyn Server,
    ) -> Option<&'static Method> {
        // Responses that wait are messages of the model.
        if self.waiting.is_some() {
            return None;
        }
        let heard = server.handle_plain(now, bytes, from, &mut self.responses)?;
        if let Some(texts) = heard.dialog.filter(|_| !from.transport.is_reliable()) {
            self.ledger.look_at(now, from.address, texts);
        }
        if from.transport.is_reliable() && *heard.method != Method::Ack {
            self.connections.asked(from);
        }
        Some(heard.method)
    }

    /// Sends the responses to a plain request of so many bytes.
    fn send_plain(&mut self, now: Instant, bytes: usize, from: Source) {
        self.purse = self.ledger.purse(now, from.address, bytes, from.transport.is_reliable());
        let mut responses = std::mem::take(&mut self.responses);
        for response in responses.iter() {
            match self.give_plain(now, &response, responses.dialog()) {
                Ok(true) => self.tally.sent.count_response(response.status.code()),
                Ok(false) => self.tally.unsent.count(WITHHELD),
                Err(why) => self.tally.unsent.count(why.to_string()),
            }
        }
        responses.clear();
        self.responses = responses;
        self.purse = Purse::default();
    }

    /// As [`Sockets::give`].
    fn give_plain(
        &mut self,
        now: Instant,
        response: &PlainResponse<'_>,
        dialog: (&str, &str),
    ) -> Result<bool, SendError> {
        let PlainResponse { to, status, bytes } = *response;
        let is_datagram = to.transport == Transport::Udp;
        if is_datagram && !self.ledger.admit_response(now, to.address, status, dialog, bytes.len()) {
            return Ok(false);
        }
        let local = self.domain.listens_towards(to.transport, Some(to.address.ip()));
        if is_datagram {
            return self.give_datagram(now, to, dialog.1, bytes).map(|()| true);
        }
        self.tell_tap(true, to.transport, local.map(|local| [local, to.address]), bytes);
        let host = Host::Address(to.address.ip());
        let opening = local.map(|local| Opening { local, host: &host });
        let message = (Bytes::copy_from_slice(bytes), Some(status));
        self.connections.send(now, &self.pacer, to, message, opening).map(|()| true)
    }

    /// Puts a datagram where it leaves with the next flush.
    fn give_datagram(
        &mut self,
        now: Instant,
        to: Source,
        call_id: &str,
        bytes: &[u8],
    ) -> Result<(), SendError> {
        let place = self.point_for(to.address).ok_or(SendError::NoSocket(to))?;
        self.tell_tap(true, Transport::Udp, Some([self.datagrams[place].local(), to.address]), bytes);
        self.datagrams[place].queue(to.address, call_id, bytes);
        if self.datagrams[place].is_full() {
            self.flush_datagrams(now, place);
        }
        Ok(())
    }

    /// Answers a request that cannot be read, if its sender can be answered.
    fn refuse(&mut self, now: Instant, bytes: &Bytes, from: Source) {
        if let Some((to, response)) = refuse_unreadable(bytes, from) {
            self.send(now, &to, response.into());
        }
    }

    /// A message, if it is one.
    fn read(&mut self, bytes: &Bytes) -> Option<Message> {
        match Message::parse(bytes) {
            Ok(message) => {
                self.tally.received.count(&message);
                Some(message)
            }
            Err(error) => {
                self.tally
                    .unreadable
                    .count(format!("not as {} has it: expected {}", error.rule, error.expected));
                None
            }
        }
    }

    /// The same of one that came along a connection.
    fn read_along(&mut self, bytes: &Bytes, from: Source) -> Option<Message> {
        self.tell_tap_along(bytes, from);
        self.read(bytes)
    }

    /// A message has come along a connection.
    fn tell_tap_along(&mut self, bytes: &[u8], from: Source) {
        if self.tap.is_some() {
            let local = self.domain.listens_towards(from.transport, Some(from.address.ip()));
            self.tell_tap(false, from.transport, local.map(|local| [local, from.address]), bytes);
        }
    }

    fn remember(&mut self, from: SocketAddr, place: usize) {
        if self.strangers.len() >= MOST_STRANGERS {
            self.strangers.clear();
        }
        self.strangers.insert(from, place);
    }

    /// The socket for datagrams to somebody.
    fn point_for(&self, to: SocketAddr) -> Option<usize> {
        self.strangers.get(&to).copied().or_else(|| {
            let local = self.domain.listens_towards(Transport::Udp, Some(to.ip()))?;
            self.datagrams.iter().position(|point| point.local() == local)
        })
    }

    fn take_connections(&mut self, now: Instant) {
        for listener in self.listeners.iter_mut().filter(|listener| listener.ready) {
            for _ in 0..ACCEPTED_AT_ONCE {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                match rustix::net::acceptfrom_with(&listener.socket, flags) {
                    Ok((socket, peer)) => {
                        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                        if let Some(address) = peer {
                            let from = Source { transport: listener.transport, address };
                            self.connections.accept(now, &self.pacer, socket, from);
                        }
                    }
                    Err(Errno::INTR | Errno::CONNABORTED) => {}
                    Err(error) => {
                        listener.ready = false;
                        if error != Errno::AGAIN {
                            self.tally.connections.broken.count(not_accepted(error));
                        }
                        break;
                    }
                }
            }
        }
    }

    fn take_streams(&mut self, now: Instant, server: &mut dyn Server) {
        let mut came = Vec::new();
        self.connections.receive(now, |framed, from, place| came.push((framed, from, place)));
        for (framed, from, place) in came {
            match framed {
                Framed::Ping => self.tally.keep_alives += 1,
                // A connection is proven by its first message, which the strict model reads.
                Framed::Message(bytes)
                    if self.connections.is_proven(place) && self.take_plain(now, &bytes, from, server) => {}
                Framed::Message(bytes) => match self.read_along(&bytes, from) {
                    // A server that asks for no credentials takes a whole message as proof.
                    Some(message)
                        if self.connections.is_refused(place)
                            || (!server.authenticates() && !self.connections.prove(place)) =>
                    {
                        self.turn_away(place, &message);
                    }
                    // It was counted when it was read.
                    Some(_) if self.answer_plain(now, &bytes, from, server).is_some() => {
                        self.send_plain(now, bytes.len(), from);
                    }
                    Some(message) => {
                        if message.as_request().is_some_and(|request| request.method != Method::Ack) {
                            self.connections.asked(from);
                        }
                        self.purse = self.ledger.purse(now, from.address, bytes.len(), true);
                        server.handle(now, message, from);
                        let has_proof = server.take_proof();
                        self.transmit(now, server);
                        self.purse = Purse::default();
                        if has_proof && !self.connections.prove(place) {
                            self.connections.finish(place);
                        }
                    }
                    None => {
                        if !self.connections.is_refused(place) {
                            self.purse = self.ledger.purse(now, from.address, bytes.len(), true);
                            self.refuse(now, &bytes, from);
                            self.purse = Purse::default();
                        }
                        self.connections.unreadable(place);
                    }
                },
            }
        }
    }

    /// There is no room for the connection along which this message came (RFC 3261 section 21.5.4).
    fn turn_away(&mut self, place: usize, message: &Message) {
        let request = message.as_request().filter(|request| request.method != Method::Ack);
        let Some(request) = request else { return self.connections.unreadable(place) };
        let mut response = request.response(Status::SERVICE_UNAVAILABLE);
        response.headers.push(Name::RetryAfter, RETRY_AFTER);
        let response = Message::Response(response);
        self.tally.sent.count(&response);
        self.connections.turn_away(place, &response);
    }

    /// Sends what the server has to say, and tells it of what cannot be sent.
    fn transmit(&mut self, now: Instant, server: &mut dyn Server) {
        loop {
            while let Some((to, message)) = server.poll_transmit() {
                match (message, &mut self.waiting) {
                    (Message::Response(response), Some(waiting)) => {
                        if let Err(response) = waiting.put(now, to, response) {
                            self.has_not_left(response.into(), &SendError::TooManyWait);
                        }
                    }
                    (message, _) => self.send(now, &to, message),
                }
            }
            if self.unsent.is_empty() {
                return;
            }
            for message in std::mem::take(&mut self.unsent) {
                server.handle_failure(now, &message);
            }
        }
    }

    fn send(&mut self, now: Instant, to: &Destination, message: Message) {
        match self.give(now, to, &message) {
            Ok(true) => self.tally.sent.count(&message),
            Ok(false) => self.tally.unsent.count(WITHHELD),
            Err(why) => self.has_not_left(message, &why),
        }
    }

    fn has_not_left(&mut self, message: Message, why: &SendError) {
        self.tally.unsent.count(why.to_string());
        self.unsent.push(message);
    }

    /// Puts a message where it leaves with the next flush. Whether its address may have it: an address that has proved nothing
    /// gets a bounded number of bytes.
    fn give(&mut self, now: Instant, to: &Destination, message: &Message) -> Result<bool, SendError> {
        let (to, host) = match to {
            Destination::Address(source) => (*source, Host::Address(source.address.ip())),
            Destination::Uri(uri) => {
                let random = self.seeds.stream("sip/serve/location");
                let found = self.names.locate(uri, self.abilities.clone(), random);
                (found?, uri.host.clone())
            }
        };
        let local = self.domain.listens_towards(to.transport, Some(to.address.ip()));
        let address = local.map_or(to.address, |local| on_link_of(to.address, local));
        let to = Source { address, ..to };
        if to.transport == Transport::Udp {
            if self.point_for(to.address).is_none() {
                return Err(SendError::NoSocket(to));
            }
            let Some(bytes) = self.admitted(now, to.address, message) else { return Ok(false) };
            let call_id = message.headers().get(&Name::CallId).unwrap_or_default();
            return self.give_datagram(now, to, call_id, &bytes).map(|()| true);
        }
        // Who is asked may answer along another connection, so one is opened only where such would be taken (RFC 3261
        // section 18.1.1).
        let opening = local.map(|local| Opening { local, host: &host });
        if self.tap.is_some() {
            self.tell_tap(true, to.transport, local.map(|local| [local, to.address]), &message.to_bytes());
        }
        let status = message.as_response().map(|response| response.status);
        self.connections.send(now, &self.pacer, to, (message.to_bytes(), status), opening).map(|()| true)
    }

    /// What an address gets of a message over UDP: the message, a short answer in its place, or nothing.
    fn admitted(&mut self, now: Instant, to: SocketAddr, message: &Message) -> Option<Bytes> {
        let bytes = message.to_bytes();
        if self.ledger.admit(now, to, message, (bytes.len(), self.forwards), &mut self.purse) {
            return Some(bytes);
        }
        let short = Message::from(message.as_response().and_then(short_answer)?);
        let bytes = short.to_bytes();
        self.ledger.admit(now, to, &short, (bytes.len(), self.forwards), &mut self.purse).then_some(bytes)
    }

    fn flush_datagrams(&mut self, now: Instant, place: usize) {
        let (tally, unsent) = (&mut self.tally, &mut self.unsent);
        self.datagrams[place].flush(now, |bytes, error| {
            let is_full = is_without_room(&error);
            let why = if is_full { SendError::NoRoomInSocket } else { SendError::Kernel(error.kind()) };
            tally.unsent.count(why.to_string());
            // What the socket had no room for is lost like any other datagram, and sent again.
            if !is_full && let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) {
                unsent.push(message);
            }
        });
    }

    fn flush(&mut self, now: Instant, server: &mut dyn Server) {
        loop {
            (0..self.datagrams.len()).for_each(|place| self.flush_datagrams(now, place));
            self.connections.flush(now);
            for (bytes, why) in self.connections.take_unsent() {
                if let Ok(message) = Message::parse(&bytes) {
                    self.has_not_left(message, &why.into());
                }
            }
            if self.unsent.is_empty() {
                return;
            }
            self.transmit(now, server);
        }
    }

    /// What it has done so far.
    fn so_far(&mut self) -> Result<Tally, ServeError> {
        for point in &mut self.datagrams {
            self.tally.socket_drops += point.take_drops().map_err(kernel("SO_MEMINFO"))?;
        }
        let mut tally = self.tally.clone();
        let broken = std::mem::replace(&mut tally.connections, self.connections.tally.clone()).broken;
        for (why, count) in broken.0 {
            *tally.connections.broken.0.entry(why).or_default() += count;
        }
        Ok(tally)
    }
}

fn listen(point: &ListeningPoint) -> Result<(Listener, SocketAddr), SocketError> {
    let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
    let failed = |what| move |error: Errno| refused(what, point.address, error);
    let socket = Making::tcp(&options, 0, point.address)?.bound()?;
    rustix::net::listen(&socket, CALLS).map_err(failed("listen"))?;
    let local = rustix::net::getsockname(&socket).map_err(failed("getsockname"))?;
    let local = local.try_into().map_err(failed("getsockname"))?;
    Ok((Listener { socket, transport: point.transport, ready: true }, local))
}
