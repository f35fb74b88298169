//! The connections of a server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::header::Transport;
use netrig_sip::server::Source;
use netrig_sip::{Framed, Host, Message, Status};
use rustls::{ClientConfig, ServerConfig};
use slab::Slab;

use super::tally::ConnectionTally;
use super::unsent::{ConnectionEnd, SendError};
use crate::{Bounds, SipStream, StreamError, Turn, server_name};
use netrig_host::{ConnectionSlots, EnteredSlot, HostAddress, Pacer, SlotId, SlotLimits, Watch};
use netrig_host::{MemoryBudget, MemoryExhausted, MemoryReservation};

/// Interval of the checks of idle times.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Number of unreadable messages after which a connection is closed.
const MOST_UNREADABLE: u32 = 8;

/// Maximum number of connections without a slot. Each stays open until its first request, which is answered with 503;
/// at the limit, a new one is closed immediately. They need descriptors in addition to those of `Limits::connections`.
pub(super) const MOST_REFUSED: usize = 64;

/// Memory limit for all connections of all threads together, bytes.
pub(super) const MOST_KEPT: usize = 64 << 20;

/// The poller's key of a connection is this number plus the index of the connection.
pub(super) const FIRST_KEY: u64 = 1 << 33;

/// Limits of the number and duration of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of simultaneous connections; by default 10,000, or fewer if the system allows fewer descriptors.
    /// At the limit, a new connection replaces one that has not yet sent a message. If most such connections are from
    /// the address of the new one, the new one is closed instead.
    pub connections: Option<usize>,
    /// Whether clients that do not trust each other share the server. An eighth of all connections is then reserved for
    /// those that have not yet sent a message. By default an address outside the loopback interface has at most half of
    /// all connections, and a subnet (see `per_group`) three quarters. A server of an experiment has no such limits,
    /// because one node may be its only client.
    pub shared: bool,
    /// Limit of the connections from one IPv4 address or one IPv6 /64 prefix.
    pub per_address: Option<usize>,
    /// Limit of the connections from one IPv4 /24 or IPv6 /48 prefix.
    pub per_group: Option<usize>,
    /// A connection without messages for this time is closed.
    pub idle: Duration,
    /// Time limit of a handshake, of an incomplete message, and of a peer that receives none of the data that wait for
    /// it.
    pub patience: Duration,
    /// Memory limits of each connection.
    pub bounds: Bounds,
}

impl Default for Limits {
    /// The default limit of connections, two minutes for `idle`, ten seconds for `patience`.
    fn default() -> Self {
        Self {
            connections: None,
            shared: false,
            per_address: None,
            per_group: None,
            idle: Duration::from_secs(120),
            patience: Duration::from_secs(10),
            bounds: Bounds::default(),
        }
    }
}

/// TLS configurations.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls {
    pub server: Option<Arc<ServerConfig>>,
    pub client: Option<Arc<ClientConfig>>,
}

/// A connection that has opened or ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionChange {
    pub with: Source,
    pub is_open: bool,
}

/// All connections, by their index (`place`).
pub(super) struct ServerConnections {
    most: usize,
    limits: Limits,
    tls: Tls,
    /// Slots of connections that peers have opened.
    admission: ConnectionSlots,
    by_slot: HashMap<SlotId, usize>,
    slots: Slab<Box<PeerConnection>>,
    by_peer: HashMap<Source, usize>,
    /// Connections that may have more received bytes because a limit stopped the last read.
    go_on: Vec<usize>,
    /// Connections with data to send.
    dirty: Vec<usize>,
    /// Number of connections without a slot, at most [`MOST_REFUSED`].
    refused: usize,
    memory: MemoryBudget,
    look: Instant,
    /// Messages that can no longer be sent.
    unsent: Vec<(Bytes, ConnectionEnd)>,
    /// Connections that have opened or ended; `None` if these changes are not recorded.
    changes: Option<Vec<ConnectionChange>>,
    pub tally: ConnectionTally,
}

struct PeerConnection {
    stream: SipStream,
    of: Source,
    /// The slot, if the peer has opened it.
    slot: Option<SlotId>,
    /// The peer opened the connection when there was no slot. Its first request is answered with 503.
    is_refused: bool,
    /// The peer is validated, or the server opened the connection: see [`ServerConnections::prove`].
    is_proven: bool,
    made: Instant,
    /// Time of the last message; before the first one, the time at which the connection was established.
    active: Instant,
    /// Since when a message has been incomplete.
    incomplete: Option<Instant>,
    /// Since when the peer has received none of the waiting data.
    stuck: Option<Instant>,
    goes_on: bool,
    is_dirty: bool,
    /// The peer has closed its sending direction, and may still receive.
    has_finished: bool,
    /// Number of requests of the peer without a final response.
    open: u32,
    unreadable: u32,
    kept: MemoryReservation,
}

/// The parameters of a connection that is opened if there is none.
pub(super) struct Opening<'a> {
    pub local: SocketAddr,
    pub host: &'a Host,
}

impl ServerConnections {
    /// At most `most` connections within `memory`. With `records_changes`, [`ServerConnections::take_changes`] returns
    /// opened and ended connections.
    pub fn new(
        most: usize,
        limits: Limits,
        (tls, memory): (Tls, MemoryBudget),
        records_changes: bool,
    ) -> Self {
        Self {
            most,
            limits,
            tls,
            changes: records_changes.then(Vec::new),
            admission: ConnectionSlots::new(slot_limits(most, &limits)),
            by_slot: HashMap::new(),
            slots: Slab::new(),
            by_peer: HashMap::new(),
            go_on: Vec::new(),
            dirty: Vec::new(),
            refused: 0,
            memory,
            look: Instant::ZERO,
            unsent: Vec::new(),
            tally: ConnectionTally::default(),
        }
    }

    /// The limit of connections.
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Number of connections.
    fn len(&self) -> usize {
        self.slots.len()
    }

    /// Accepts a connection.
    pub fn accept(&mut self, now: Instant, pacer: &Pacer, socket: OwnedFd, from: Source) {
        self.admission.set_total(self.most.saturating_sub(self.opened()));
        let Ok(EnteredSlot { slot, gives_way }) = self.admission.enter(from.address.ip()) else {
            self.tally.refused += 1;
            self.refuse(now, pacer, socket, from);
            return;
        };
        if let Some(place) = gives_way.and_then(|slot| self.by_slot.get(&slot)).copied() {
            self.end(place, Some(ConnectionEnd::GaveWay));
        }
        let tls = self.tls.server.as_ref().filter(|_| from.transport == Transport::Tls);
        let made = SipStream::accepted(socket, from.address, tls, self.limits.bounds);
        match made.and_then(|stream| self.insert(now, pacer, stream, from, Some(slot))) {
            Ok(place) => {
                self.by_slot.insert(slot, place);
                self.tally.accepted += 1;
            }
            Err(error) => {
                self.admission.leave(slot);
                self.tally.broken.count(ConnectionEnd::from(&error).to_string());
            }
        }
    }

    /// Number of connections that the server has opened.
    fn opened(&self) -> usize {
        self.len() - self.admission.len() - self.refused
    }

    /// Keeps a connection without a slot open until its first request, unless [`MOST_REFUSED`] such connections are
    /// open.
    fn refuse(&mut self, now: Instant, pacer: &Pacer, socket: OwnedFd, from: Source) {
        if self.refused >= MOST_REFUSED {
            return;
        }
        let tls = self.tls.server.as_ref().filter(|_| from.transport == Transport::Tls);
        let made = SipStream::accepted(socket, from.address, tls, self.limits.bounds);
        let Ok(place) = made.and_then(|stream| self.insert(now, pacer, stream, from, None)) else { return };
        if let Some(connection) = self.slots.get_mut(place) {
            connection.is_refused = true;
            self.refused += 1;
        }
    }

    /// Whether the connection has no slot.
    pub fn is_refused(&self, place: usize) -> bool {
        self.slots.get(place).is_some_and(|connection| connection.is_refused)
    }

    /// Whether the peer is validated, and has a slot.
    pub fn is_proven(&self, place: usize) -> bool {
        self.slots.get(place).is_some_and(|connection| connection.is_proven && !connection.is_refused)
    }

    /// Closes the connection as soon as the messages that wait have been sent.
    pub fn finish(&mut self, place: usize) {
        let Some(connection) = self.slots.get_mut(place) else { return };
        connection.has_finished = true;
        if !std::mem::replace(&mut connection.is_dirty, true) {
            self.dirty.push(place);
        }
    }

    /// Validates the peer of a connection, and moves it to the slots of validated peers. Returns false if none of these
    /// is free.
    pub fn prove(&mut self, place: usize) -> bool {
        let slot = self.slots.get(place).and_then(|connection| connection.slot);
        let Some(slot) = slot else { return true };
        if self.admission.prove(slot).is_ok() {
            if let Some(connection) = self.slots.get_mut(place) {
                connection.is_proven = true;
            }
            return true;
        }
        self.by_slot.remove(&slot);
        self.tally.refused += 1;
        false
    }

    /// Sends a last message over a connection, and then closes the connection.
    pub fn turn_away(&mut self, place: usize, last: &Message) {
        self.finish(place);
        let Some(connection) = self.slots.get_mut(place) else { return };
        if let Err(error) = connection.stream.queue(last.to_bytes()) {
            self.fail(place, &error);
        }
    }

    fn insert(
        &mut self,
        now: Instant,
        pacer: &Pacer,
        stream: SipStream,
        of: Source,
        slot: Option<SlotId>,
    ) -> Result<usize, StreamError> {
        let place = self.slots.vacant_key();
        pacer.watch(stream.fd(), FIRST_KEY + place as u64, Watch::Both)?;
        let connection = PeerConnection {
            stream,
            of,
            slot,
            is_refused: false,
            is_proven: slot.is_none(),
            made: now,
            active: now,
            incomplete: None,
            stuck: None,
            goes_on: false,
            is_dirty: false,
            has_finished: false,
            open: 0,
            unreadable: 0,
            kept: self.memory.none(),
        };
        self.slots.insert(Box::new(connection));
        self.by_peer.insert(of, place);
        self.changes
            .iter_mut()
            .for_each(|changes| changes.push(ConnectionChange { with: of, is_open: true }));
        Ok(place)
    }

    /// Sends a request, or a response with its status, over the connection with a peer, which is opened if there is
    /// none.
    ///
    /// # Errors
    /// Why the message cannot be sent.
    pub fn send(
        &mut self,
        now: Instant,
        pacer: &Pacer,
        to: Source,
        (message, status): (Bytes, Option<Status>),
        opening: Option<Opening<'_>>,
    ) -> Result<(), SendError> {
        let place = match self.place_of(to) {
            // A peer that has closed its sending direction would not answer a request.
            Some((place, has_finished)) if status.is_some() || !has_finished => place,
            _ => {
                let opening = opening.ok_or(SendError::NoConnection)?;
                self.open(now, pacer, to, &opening)?
            }
        };
        let Some(connection) = self.slots.get_mut(place) else {
            return Err(SendError::NoConnection);
        };
        connection.active = now;
        if status.is_some_and(Status::is_final) {
            connection.open = connection.open.saturating_sub(1);
        }
        if !std::mem::replace(&mut connection.is_dirty, true) {
            self.dirty.push(place);
        }
        let queued = connection.stream.queue(message);
        if let Err(error) = queued.and_then(|()| self.recount(place)) {
            self.fail(place, &error);
            return Err(ConnectionEnd::from(&error).into());
        }
        Ok(())
    }

    /// The connection with a peer, and whether the peer has closed its sending direction.
    fn place_of(&self, peer: Source) -> Option<(usize, bool)> {
        let place = *self.by_peer.get(&peer)?;
        self.slots.get(place).map(|connection| (place, connection.has_finished))
    }

    /// The index of the connection with a peer.
    pub fn slot_of(&self, peer: Source) -> Option<usize> {
        self.place_of(peer).map(|(place, _)| place)
    }

    /// Records a request that must be answered.
    pub fn asked(&mut self, by: Source) {
        let place = self.slot_of(by);
        if let Some(connection) = place.and_then(|place| self.slots.get_mut(place)) {
            connection.open += 1;
        }
    }

    fn open(
        &mut self,
        now: Instant,
        pacer: &Pacer,
        to: Source,
        opening: &Opening<'_>,
    ) -> Result<usize, SendError> {
        // An eighth of all connections is reserved for those that peers open.
        let opened = self.opened();
        if opened + self.admission.len() >= self.most || opened >= self.most - self.most / 8 {
            return Err(SendError::TooManyConnections);
        }
        let tls = match (&self.tls.client, to.transport) {
            (Some(config), Transport::Tls) => {
                let name = server_name(opening.host);
                let name = name.ok_or_else(|| SendError::NoServerName(opening.host.clone()))?;
                Some((config, name))
            }
            (None, Transport::Tls) => return Err(SendError::NoTls),
            _ => None,
        };
        let local = HostAddress::from(opening.local).at(0);
        let made = SipStream::connect(local, to.address, tls, self.limits.bounds);
        let place = made.and_then(|stream| self.insert(now, pacer, stream, to, None));
        let place = place.map_err(|error| ConnectionEnd::from(&error))?;
        self.tally.opened += 1;
        Ok(place)
    }

    /// Handles a poll event of a connection.
    pub fn ready(&mut self, place: usize) {
        if let Some(connection) = self.slots.get_mut(place) {
            for (flag, list) in
                [(&mut connection.goes_on, &mut self.go_on), (&mut connection.is_dirty, &mut self.dirty)]
            {
                if !std::mem::replace(flag, true) {
                    list.push(place);
                }
            }
        }
    }

    /// Whether a connection may have more received bytes.
    pub fn has_more(&self) -> bool {
        !self.go_on.is_empty()
    }

    /// Gives each ready connection a turn, and passes on the received messages.
    pub fn receive(&mut self, now: Instant, mut each: impl FnMut(Framed, Source, usize)) {
        for place in std::mem::take(&mut self.go_on) {
            let Some(connection) = self.slots.get_mut(place) else { continue };
            connection.goes_on = false;
            let (of, mut came) = (connection.of, false);
            let turn = connection.stream.receive(true, |framed, _| {
                came = true;
                each(framed, of, place);
            });
            if came {
                connection.active = now;
            }
            let is_incomplete = connection.stream.incomplete() > 0;
            connection.has_finished |= matches!(turn, Err(StreamError::Closed));
            connection.incomplete = if is_incomplete && !connection.has_finished {
                connection.incomplete.filter(|_| !came).or(Some(now))
            } else {
                None
            };
            // Flushing sends the pongs. It also closes the connection if the peer has closed its sending direction and
            // nothing is left to send.
            let is_due = connection.stream.has_unsent() || connection.has_finished;
            if is_due && !std::mem::replace(&mut connection.is_dirty, true) {
                self.dirty.push(place);
            }
            let goes_on = turn.and_then(|turn| self.recount(place).map(|()| turn));
            match goes_on {
                Ok(Turn::Waits) => {}
                Ok(Turn::GoesOn) => {
                    if let Some(connection) = self.slots.get_mut(place) {
                        connection.goes_on = true;
                        self.go_on.push(place);
                    }
                }
                Err(StreamError::Closed) => {}
                Err(error) => self.fail(place, &error),
            }
        }
    }

    /// Ends a failed connection. If the peer had already closed its sending direction, the connection counts as closed
    /// by the peer.
    fn fail(&mut self, place: usize, error: &StreamError) {
        let has_finished = self.slots.get(place).is_some_and(|connection| connection.has_finished);
        self.end(place, (!has_finished).then(|| error.into()));
    }

    /// Records a message that could not be parsed. After too many of them the connection is closed.
    pub fn unreadable(&mut self, place: usize) {
        let Some(connection) = self.slots.get_mut(place) else { return };
        connection.unreadable += 1;
        if connection.unreadable >= MOST_UNREADABLE {
            self.end(place, Some(ConnectionEnd::NoSip));
        }
    }

    /// Sends waiting messages.
    pub fn flush(&mut self, now: Instant) {
        for place in std::mem::take(&mut self.dirty) {
            let Some(connection) = self.slots.get_mut(place) else { continue };
            connection.is_dirty = false;
            let before = connection.stream.waiting();
            let flushed = connection.stream.flush();
            let waiting = connection.stream.waiting();
            connection.stuck = match connection.stuck {
                _ if waiting == 0 => None,
                Some(since) if waiting >= before => Some(since),
                _ => Some(now),
            };
            let is_over = connection.has_finished && connection.open == 0 && !connection.stream.has_unsent();
            match flushed.and_then(|()| self.recount(place)) {
                Ok(()) if is_over => self.end(place, None),
                Ok(()) => {}
                Err(error) => self.fail(place, &error),
            }
        }
    }

    /// Updates the reserved memory of a connection.
    ///
    /// # Errors
    /// If the memory of all connections exceeds the limit.
    fn recount(&mut self, place: usize) -> Result<(), StreamError> {
        let Some(connection) = self.slots.get_mut(place) else { return Ok(()) };
        let kept = connection.stream.waiting() + connection.stream.incomplete();
        connection.kept.set(kept).map_err(|MemoryExhausted { most }| StreamError::NoRoom { most })
    }

    fn end(&mut self, place: usize, why: Option<ConnectionEnd>) {
        let Some(connection) = self.slots.try_remove(place) else { return };
        self.refused -= usize::from(connection.is_refused);
        if let Some(slot) = connection.slot {
            self.admission.leave(slot);
            self.by_slot.remove(&slot);
        }
        if self.by_peer.get(&connection.of) == Some(&place) {
            self.by_peer.remove(&connection.of);
            let change = ConnectionChange { with: connection.of, is_open: false };
            self.changes.iter_mut().for_each(|changes| changes.push(change));
        }
        let told = why.clone().unwrap_or(ConnectionEnd::Closed);
        self.unsent.extend(connection.stream.into_unsent().map(|message| (message, told.clone())));
        if let Some(why) = why {
            self.tally.broken.count(why.to_string());
        }
    }

    /// Connections that have opened or ended since the last call.
    pub fn take_changes(&mut self) -> Vec<ConnectionChange> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Messages that were not sent because their connection has ended, each with the reason.
    pub fn take_unsent(&mut self) -> Vec<(Bytes, ConnectionEnd)> {
        std::mem::take(&mut self.unsent)
    }

    /// Time of the next check of idle times.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.len() > 0).then_some(self.look)
    }

    /// Ends connections that have exceeded a time limit. Returns whether a check was due.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        if now < self.look {
            return false;
        }
        self.look = now + LOOK_EVERY;
        let is_over = |since: Option<Instant>| since.is_some_and(|since| now - since > self.limits.patience);
        let end_of = |connection: &PeerConnection| match connection {
            _ if connection.is_refused && is_over(Some(connection.made)) => Some(ConnectionEnd::Refused),
            _ if !connection.stream.is_established() && is_over(Some(connection.made)) => {
                Some(ConnectionEnd::HalfHandshake)
            }
            _ if is_over(connection.incomplete) => Some(ConnectionEnd::HalfMessage),
            _ if is_over(connection.stuck) => Some(ConnectionEnd::NotTaken),
            _ if now - connection.active > self.limits.idle => Some(ConnectionEnd::Idle),
            _ => None,
        };
        let ends = self.slots.iter().filter_map(|(place, connection)| Some((place, end_of(connection)?)));
        for (place, why) in ends.collect::<Vec<_>>() {
            self.end(place, Some(why));
        }
        true
    }
}

/// The limits of the connections that peers open.
fn slot_limits(most: usize, limits: &Limits) -> SlotLimits {
    let slots = if limits.shared { SlotLimits::shared(most) } else { SlotLimits::unshared(most) };
    slots.set(limits.per_address, limits.per_group)
}
