//! The receiving part of a server's sockets.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::Instant;
use netrig_sip::header::Transport;
use netrig_sip::server::{Server, Source, TargetChange, refuse_unreadable};
use netrig_sip::{Framed, Message, Method, Name, Status};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::super::handover::{Handover, HandoverItem};
use super::super::order::{ServeError, kernel};
use super::Sockets;
use crate::ledger::Purse;
use netrig_host::sys::{MESSAGES, ReceiveBatch};

/// After this number of datagrams, a turn of the server's loop receives no further batch from a socket. Timers are
/// handled between turns, so a peer that sends faster than the server receives delays a timer by at most one turn.
const DATAGRAMS_AT_ONCE: usize = 16 * MESSAGES;

/// Maximum number of connections accepted in one turn.
const ACCEPTED_AT_ONCE: usize = 64;

/// Maximum number of batches of other threads handled in one turn.
const HANDOVERS_AT_ONCE: usize = 64;

/// Maximum number of senders whose UDP socket is stored, if the server has several UDP sockets.
const MOST_STRANGERS: usize = 1 << 16;

/// `Retry-After` of a 503 response to a connection without a slot, s.
const RETRY_AFTER: &str = "10";

/// Why the kernel could not accept a connection.
fn not_accepted(error: Errno) -> String {
    match error {
        Errno::MFILE | Errno::NFILE => "the system allows no more open files (`ulimit -n`)".to_owned(),
        other => io::Error::from(other).kind().to_string(),
    }
}

impl Sockets {
    pub(super) fn take_datagrams(
        &mut self,
        server: &mut dyn Server,
        batch: &mut ReceiveBatch,
    ) -> Result<(), ServeError> {
        for place in 0..self.datagrams.len() {
            let mut taken = 0;
            while self.datagrams[place].ready && taken < DATAGRAMS_AT_ONCE {
                taken += self.take_batch(place, server, batch)?;
            }
        }
        Ok(())
    }

    /// Receives at most one batch of one socket. Returns the number of datagrams.
    fn take_batch(
        &mut self,
        place: usize,
        server: &mut dyn Server,
        batch: &mut ReceiveBatch,
    ) -> Result<usize, ServeError> {
        let count = self.datagrams[place].receive(batch).map_err(kernel("recvmmsg"))?;
        let now = self.clock.now();
        // A datagram of this batch may be the reaction to a response of another thread. That thread has sent its
        // handovers to this thread before the response, so they are handled first.
        self.take_handovers(now, server);
        let mut taken = 0;
        // A sender with port 0 cannot be answered.
        let incoming = (0..count).filter_map(|at| batch.get(at)).filter(|incoming| incoming.from.port() != 0);
        for incoming in incoming {
            for (bytes, _) in incoming.datagrams() {
                self.take_datagram(now, (place, incoming.from), bytes, server);
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Handles a datagram of one socket. A datagram for another partition is handed to the thread of that partition, or
    /// dropped if the queue to that thread is full.
    fn take_datagram(
        &mut self,
        now: Instant,
        (place, from): (usize, SocketAddr),
        bytes: &[u8],
        server: &mut dyn Server,
    ) {
        if self.point_for(from) != Some(place) {
            self.remember(from, place);
            if let Some(handover) = &mut self.handover {
                handover.queue_to_all(&HandoverItem::Stranger { from, place }, &[]);
            }
        }
        if let Some(handover) = &mut self.handover
            && let Some(owner) = handover.owner_of(bytes)
        {
            let from = Source { transport: Transport::Udp, address: from };
            let has_room = handover.queue(owner, HandoverItem::Datagram { from, place }, bytes);
            self.tally.socket_drops += u64::from(!has_room);
            return;
        }
        self.take_own_datagram(now, (place, from), bytes, server);
    }

    /// Handles a datagram of this thread's partition.
    fn take_own_datagram(
        &mut self,
        now: Instant,
        (place, from): (usize, SocketAddr),
        bytes: &[u8],
        server: &mut dyn Server,
    ) {
        self.ledger.receive(now, from, bytes.len());
        self.tell_tap(false, Transport::Udp, Some([self.datagrams[place].local(), from]), bytes);
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

    /// If the message is a plain request, lets the server handle it, and counts it. Returns whether it was one.
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

    /// If the message is a plain request, lets the server handle it, puts the responses into `self.responses`, and
    /// returns the method.
    fn answer_plain(
        &mut self,
        now: Instant,
        bytes: &[u8],
        from: Source,
        server: &mut dyn Server,
    ) -> Option<&'static Method> {
        // With a configured delay, no request is handled as a plain one, because delayed responses are stored as parsed
        // messages.
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

    /// Answers a request that cannot be parsed, if it has the header fields that a response needs.
    fn refuse(&mut self, now: Instant, bytes: &Bytes, from: Source) {
        if let Some((to, response)) = refuse_unreadable(bytes, from) {
            self.send(now, &to, response.into());
        }
    }

    /// Parses a message. Returns `None` if it is invalid.
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

    /// Parses a message received over a connection, and passes it to the tap.
    fn read_along(&mut self, bytes: &Bytes, from: Source) -> Option<Message> {
        self.tell_tap_along(bytes, from);
        self.read(bytes)
    }

    /// Passes a message of a connection to the tap.
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

    pub(super) fn take_connections(&mut self, now: Instant) {
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

    pub(super) fn take_streams(&mut self, now: Instant, server: &mut dyn Server) {
        let mut came = Vec::new();
        self.connections.receive(now, |framed, from, place| came.push((framed, from, place)));
        for (framed, from, place) in came {
            match framed {
                Framed::Ping => self.tally.keep_alives += 1,
                Framed::Message(bytes) if self.hand_streamed(&bytes, from, place, &*server) => {}
                // The first message of a connection must be accepted by the strict parser.
                Framed::Message(bytes)
                    if self.connections.is_proven(place) && self.take_plain(now, &bytes, from, server) => {}
                Framed::Message(bytes) => match self.read_along(&bytes, from) {
                    Some(message) if !self.admit(place, &message, &*server) => {}
                    // The message was counted when it was read.
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
                        if has_proof {
                            self.accept_proof(place);
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

    /// Whether a message of a connection may be handled. If there is no slot for the connection, the message is refused
    /// with 503. If the server does not authenticate users, a complete message validates the peer.
    fn admit(&mut self, place: usize, message: &Message, server: &dyn Server) -> bool {
        let is_admitted =
            !self.connections.is_refused(place) && (server.authenticates() || self.connections.prove(place));
        if !is_admitted {
            self.turn_away(place, message);
        }
        is_admitted
    }

    /// Records that the peer of a connection has sent valid credentials. Closes the connection if there is no slot for
    /// it.
    fn accept_proof(&mut self, place: usize) {
        if !self.connections.prove(place) {
            self.connections.finish(place);
        }
    }

    /// If a message of a connection belongs to another partition, hands it to the thread of that partition. Returns
    /// whether the message was handed over, or refused with 503.
    fn hand_streamed(&mut self, bytes: &Bytes, from: Source, place: usize, server: &dyn Server) -> bool {
        let Some(owner) = self.handover.as_ref().and_then(|handover| handover.owner_of(bytes)) else {
            return false;
        };
        if !self.connections.is_proven(place) {
            // A message that cannot be parsed does not validate the peer. This thread refuses it.
            let Ok(message) = Message::parse(bytes) else { return false };
            if !self.admit(place, &message, server) {
                self.tally.received.count(&message);
                self.tell_tap_along(bytes, from);
                return true;
            }
        }
        // Each request except ACK is answered.
        if !bytes.starts_with(b"ACK ") && !bytes.starts_with(b"SIP/") {
            self.connections.asked(from);
        }
        if let Some(handover) = &mut self.handover {
            handover.queue(owner, HandoverItem::Streamed { from }, bytes);
        }
        true
    }

    /// Handles a message that the thread of partition `by` received over one of its connections.
    fn take_streamed(&mut self, now: Instant, by: u32, from: Source, bytes: &[u8], server: &mut dyn Server) {
        if self.take_plain(now, bytes, from, server) {
            return;
        }
        let bytes = Bytes::copy_from_slice(bytes);
        let message = self.read_along(&bytes, from);
        self.purse = self.ledger.purse(now, from.address, bytes.len(), true);
        let found = match message {
            Some(message) => {
                server.handle(now, message, from);
                let has_proof = server.take_proof();
                self.transmit(now, server);
                has_proof.then_some(HandoverItem::Proof { of: from })
            }
            None => {
                self.refuse(now, &bytes, from);
                Some(HandoverItem::Unreadable { of: from })
            }
        };
        self.purse = Purse::default();
        if let (Some(handover), Some(found)) = (&mut self.handover, found) {
            handover.queue(by, found, &[]);
        }
    }

    /// Handles waiting batches of other threads, up to a limit.
    pub(super) fn take_handovers(&mut self, now: Instant, server: &mut dyn Server) {
        for _ in 0..HANDOVERS_AT_ONCE {
            let Some(batch) = self.handover.as_mut().and_then(Handover::receive) else { return };
            for (item, bytes) in batch.items.iter() {
                self.take_handover(now, batch.by, item, bytes, server);
            }
        }
    }

    fn take_handover(
        &mut self,
        now: Instant,
        by: u32,
        item: &HandoverItem,
        bytes: &[u8],
        server: &mut dyn Server,
    ) {
        match item {
            HandoverItem::Datagram { from, place } => {
                self.take_own_datagram(now, (*place, from.address), bytes, server);
            }
            HandoverItem::Streamed { from } => self.take_streamed(now, by, *from, bytes, server),
            HandoverItem::Outgoing { to, host, status } => {
                self.send_for_other(now, by, (*to, host, *status), bytes);
            }
            HandoverItem::Unsent => {
                self.unsent.extend(Message::parse(&Bytes::copy_from_slice(bytes)).ok());
            }
            HandoverItem::Proof { of } => {
                self.connections.slot_of(*of).into_iter().for_each(|place| self.accept_proof(place));
            }
            HandoverItem::Unreadable { of } => {
                self.connections
                    .slot_of(*of)
                    .into_iter()
                    .for_each(|place| self.connections.unreadable(place));
            }
            HandoverItem::Connection { with, is_open } => {
                self.handover.iter_mut().for_each(|handover| handover.record_connection(*with, by, *is_open));
            }
            HandoverItem::Stranger { from, place } => self.remember(*from, *place),
            HandoverItem::Place { is_added } => {
                let target = String::from_utf8_lossy(bytes).into_owned();
                server.handle_target_change(&TargetChange { target, is_added: *is_added });
            }
        }
    }

    /// Refuses a message with 503 because there is no slot for its connection (RFC 3261 section 21.5.4).
    fn turn_away(&mut self, place: usize, message: &Message) {
        let request = message.as_request().filter(|request| request.method != Method::Ack);
        let Some(request) = request else { return self.connections.unreadable(place) };
        let mut response = request.response(Status::SERVICE_UNAVAILABLE);
        response.headers.push(Name::RetryAfter, RETRY_AFTER);
        let response = Message::Response(response);
        self.tally.sent.count(&response);
        self.connections.turn_away(place, &response);
    }
}
