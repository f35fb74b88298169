//! What comes to a server's sockets.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::Instant;
use netrig_sip::header::Transport;
use netrig_sip::server::{Server, Source, refuse_unreadable};
use netrig_sip::{Framed, Message, Method, Name, Status};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::super::order::{ServeError, kernel};
use super::Sockets;
use crate::sip::ledger::Purse;
use crate::sys::ReceiveBatch;

/// Batches of datagrams that are taken in a row, at each socket, before what is due is looked at: whoever was kept from looking
/// would ask again for responses that wait in the socket. Whoever sends faster than is taken here keeps no timer from its time.
const BATCHES: usize = 16;

/// Connections that are taken in one turn.
const ACCEPTED_AT_ONCE: usize = 64;

/// Senders of which is remembered at which of several sockets they are served.
const MOST_STRANGERS: usize = 1 << 16;

/// After how long a client for which there is no room may come again, s.
const RETRY_AFTER: &str = "10";

/// Why the kernel gives no connection that has come.
fn not_accepted(error: Errno) -> String {
    match error {
        Errno::MFILE | Errno::NFILE => "the system allows no more open files (`ulimit -n`)".to_owned(),
        other => io::Error::from(other).kind().to_string(),
    }
}

impl Sockets {
    pub(super) fn take_datagrams(
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
}
