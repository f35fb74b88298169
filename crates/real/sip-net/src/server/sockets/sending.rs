//! The sending part of a server's sockets.

use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::Instant;
use netrig_sip::header::Transport;
use netrig_sip::server::{Destination, PlainResponse, Server, Source, on_link_of};
use netrig_sip::{Host, Message, Name, Status};

use super::super::connections::Opening;
use super::super::handover::HandoverItem;
use super::super::unsent::SendError;
use super::Sockets;
use crate::datagrams::is_without_room;
use crate::ledger::{Purse, short_answer};

/// The reason under which a message that this server does not send over UDP is counted.
const WITHHELD: &str = "the address had proved nothing, and its budget of bytes was used up";

impl Sockets {
    /// Sends the responses to a plain request that has `bytes` bytes.
    pub(super) fn send_plain(&mut self, now: Instant, bytes: usize, from: Source) {
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
        self.send_along(now, (to, &host, Some(status)), Bytes::copy_from_slice(bytes)).map(|()| true)
    }

    /// Queues a datagram for the next flush.
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

    /// The index of the socket for datagrams to an address.
    pub(super) fn point_for(&self, to: SocketAddr) -> Option<usize> {
        self.strangers.get(&to).copied().or_else(|| {
            let local = self.domain.listens_towards(Transport::Udp, Some(to.ip()))?;
            self.datagrams.iter().position(|point| point.local() == local)
        })
    }

    /// Sends the server's messages, and reports to it those that cannot be sent.
    pub(super) fn transmit(&mut self, now: Instant, server: &mut dyn Server) {
        self.tell_places(server);
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

    pub(super) fn send(&mut self, now: Instant, to: &Destination, message: Message) {
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

    /// Queues a message for the next flush. Returns false if the destination is unvalidated and has used up its bytes.
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
        if self.tap.is_some() {
            self.tell_tap(true, to.transport, local.map(|local| [local, to.address]), &message.to_bytes());
        }
        let status = message.as_response().map(|response| response.status);
        self.send_along(now, (to, &host, status), message.to_bytes()).map(|()| true)
    }

    /// Queues a message on the connection to its destination, or hands the message to the thread that owns this
    /// connection.
    fn send_along(
        &mut self,
        now: Instant,
        (to, host, status): (Source, &Host, Option<Status>),
        bytes: Bytes,
    ) -> Result<(), SendError> {
        if let Some(handover) = &mut self.handover
            && let Some(owner) = handover.connection_owner(to)
            && self.connections.slot_of(to).is_none()
        {
            let item = HandoverItem::Outgoing { to, host: host.clone(), status };
            return if handover.queue(owner, item, &bytes) { Ok(()) } else { Err(SendError::NoRoomInThread) };
        }
        self.send_here(now, (to, host, status), bytes)
    }

    /// Queues a message on a connection of this thread.
    fn send_here(
        &mut self,
        now: Instant,
        (to, host, status): (Source, &Host, Option<Status>),
        bytes: Bytes,
    ) -> Result<(), SendError> {
        // The peer may send its response over a new connection (RFC 3261 section 18.1.1). Therefore a connection is
        // opened only if the server listens over the same transport.
        let local = self.domain.listens_towards(to.transport, Some(to.address.ip()));
        let opening = local.map(|local| Opening { local, host });
        self.connections.send(now, &self.pacer, to, (bytes, status), opening)
    }

    /// Sends a message over a connection of this thread. It comes from the thread of the partition with the number `by`,
    /// to which a failure is reported.
    pub(super) fn send_for_other(
        &mut self,
        now: Instant,
        by: u32,
        to: (Source, &Host, Option<Status>),
        bytes: &[u8],
    ) {
        if let Err(why) = self.send_here(now, to, Bytes::copy_from_slice(bytes)) {
            self.tally.unsent.count(why.to_string());
            if let Some(handover) = &mut self.handover {
                handover.queue(by, HandoverItem::Unsent, bytes);
            }
        }
    }

    /// The bytes that may be sent to an address over UDP: those of `message`, those of a short response instead, or
    /// `None`.
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
            // A datagram that does not fit into the send buffer is treated as lost in the network, and retransmitted by
            // its transaction.
            if !is_full && let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) {
                unsent.push(message);
            }
        });
    }

    pub(super) fn flush(&mut self, now: Instant, server: &mut dyn Server) {
        loop {
            (0..self.datagrams.len()).for_each(|place| self.flush_datagrams(now, place));
            self.connections.flush(now);
            for (bytes, why) in self.connections.take_unsent() {
                // The partition that sent the message is not recorded, so all threads get the report.
                if let Some(handover) = &mut self.handover {
                    handover.queue_to_all(&HandoverItem::Unsent, &bytes);
                }
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
}
