//! Processing of received packets (RFC 9260 sections 3.2, 6.2 and 8.5).

use std::net::IpAddr;

use netrig_core::{CloseReason, Header, Instant};

use super::{Association, AssociationState, PendingControl};
use crate::sctp::listener::out_of_the_blue;
use crate::sctp::packet::chunk::{self, Abort};
use crate::sctp::packet::{Cause, Chunk, Packet};
use crate::sctp::rx::TsnArrival;

/// Path, addresses and verification tag of a received packet.
#[derive(Clone, Copy)]
struct PacketOrigin {
    /// The path over which it was received.
    arrived: usize,
    /// The path for replies.
    path: usize,
    /// Source and destination address of the packet.
    source: (IpAddr, IpAddr),
    /// The verification tag of the packet.
    tag: u32,
}

/// Whether the chunks of one packet require a SACK, and whether without delay.
#[derive(Default)]
struct AckDemand {
    any: bool,
    at_once: bool,
}

impl Association {
    /// Handles a packet, and removes its chunks.
    pub(super) fn receive(&mut self, now: Instant, header: &Header, sctp: &mut Packet) {
        self.receive_behind(now, header, sctp, self.outgoing.len());
    }

    /// Handles the chunks after the COOKIE ECHO that created this association. The COOKIE ACK that waits to be sent
    /// counts as one of the replies.
    pub(in crate::sctp) fn receive_rest(&mut self, now: Instant, header: &Header, sctp: &mut Packet) {
        self.refill_burst();
        self.receive_behind(now, header, sctp, 0);
    }

    /// Handles a packet. Its replies are appended to `outgoing`, after the first `waiting` entries.
    fn receive_behind(&mut self, now: Instant, header: &Header, sctp: &mut Packet, waiting: usize) {
        self.counters.packets_received += 1;
        if self.state == AssociationState::Closed {
            let header = Header { dscp: self.dscp, ..*header };
            let answer = out_of_the_blue(&header, sctp);
            self.outgoing.extend(answer.map(PendingControl::Packet));
            return;
        }
        let source = (header.flow.src, header.flow.dst);
        let arrived = self.path_of(source.0, source.1).unwrap_or(self.primary);
        let path = self.answer_path(arrived);
        let mut seen = AckDemand { any: false, at_once: self.arrivals.has_gaps() };
        let verification_tag = sctp.verification_tag;
        let alone = sctp.chunks.len() == 1;
        for chunk in sctp.chunks.drain(..) {
            if !self.tag_fits(verification_tag, alone, &chunk) {
                break;
            }
            let from = PacketOrigin { arrived, path, source, tag: verification_tag };
            let goes_on = self.handle_chunk(now, from, chunk, &mut seen);
            if !goes_on || self.state == AssociationState::Closed || self.is_answered_by_packet(waiting) {
                break;
            }
        }
        if seen.any && self.state != AssociationState::Closed {
            self.counters.data_packets_received += 1;
            let at_once =
                seen.at_once || self.arrivals.has_gaps() || self.state == AssociationState::ShutdownSent;
            self.acknowledger.packet(now, path, at_once, &self.config);
            if self.is_answered_elsewhere(waiting, path) {
                self.acknowledger.postpone(now, &self.config);
            }
            self.repeat_shutdown(now);
        }
        if self.outgoing.len() > waiting + 1 {
            self.answer_by_one_packet(waiting);
        }
    }

    /// Whether the last reply after the first `waiting` entries is a complete packet.
    fn is_answered_by_packet(&self, waiting: usize) -> bool {
        self.outgoing.len() > waiting && matches!(self.outgoing.back(), Some(PendingControl::Packet(_)))
    }

    /// Whether the replies after the first `waiting` entries leave no room for a SACK over `path`.
    fn is_answered_elsewhere(&self, waiting: usize, path: usize) -> bool {
        match self.outgoing.get(waiting) {
            None => false,
            Some(PendingControl::Packet(_)) => true,
            Some(PendingControl::Chunk(of, chunk)) => {
                *of != path || !self.config.bundling || chunk.padded_len() > self.room_beside_sack(path)
            }
        }
    }

    /// RFC 9260 section 12.4: the replies to one packet must fit one packet. They are the entries after the first
    /// `waiting`. Replies that do not fit are discarded. If the last reply is a complete packet, it replaces all
    /// others.
    fn answer_by_one_packet(&mut self, waiting: usize) {
        let mut answers = self.outgoing.split_off(waiting);
        if let Some(PendingControl::Packet(_)) = answers.back() {
            self.outgoing.extend(answers.pop_back());
            return;
        }
        let Some(PendingControl::Chunk(first, _)) = answers.front() else { return };
        let first = *first;
        // Chunks that already wait for the path share the packet.
        let mut room = self.room_beside_sack(first).saturating_sub(self.waiting_len(first));
        for (place, answer) in answers.into_iter().enumerate() {
            let PendingControl::Chunk(path, chunk) = &answer else { continue };
            let len = chunk.padded_len();
            if place == 0 || self.config.bundling && *path == first && len <= room {
                room = room.saturating_sub(len);
                self.outgoing.push_back(answer);
            }
        }
    }

    /// Total length of the waiting control chunks for `path`, bytes.
    fn waiting_len(&self, path: usize) -> u32 {
        let waiting = self.outgoing.iter().filter_map(|waiting| match waiting {
            PendingControl::Chunk(of, chunk) if *of == path => Some(chunk.padded_len()),
            _ => None,
        });
        waiting.sum()
    }

    /// Whether the verification tag is valid for the chunk (RFC 9260 section 8.5).
    fn tag_fits(&self, tag: u32, alone: bool, chunk: &Chunk) -> bool {
        match chunk {
            Chunk::Init(_) => tag == 0 && alone,
            // The cookie contains the expected tag, because the peer may have restarted and have a new one.
            Chunk::CookieEcho(_) => true,
            // Section 8.5.1 E: such a chunk is out of the blue. It belongs to an association that this host has
            // removed.
            Chunk::ShutdownAck
                if matches!(self.state, AssociationState::CookieWait | AssociationState::CookieEchoed) =>
            {
                true
            }
            Chunk::Abort(Abort { reflected, .. }) | Chunk::ShutdownComplete { reflected } => {
                if *reflected {
                    tag == self.peer_tag && self.peer_tag != 0
                } else {
                    tag == self.local_tag
                }
            }
            _ => tag == self.local_tag,
        }
    }

    /// Handles a chunk. Returns false if the rest of the packet must be ignored.
    fn handle_chunk(&mut self, now: Instant, from: PacketOrigin, chunk: Chunk, seen: &mut AckDemand) -> bool {
        let PacketOrigin { arrived, path, source, tag } = from;
        match chunk {
            Chunk::Data(data) => self.handle_data(path, data, seen),
            Chunk::Sack(sack) => {
                if self.state.sends_data() {
                    self.handle_sack(now, &sack);
                }
            }
            Chunk::Init(init) => self.handle_init(now, source, &init),
            Chunk::InitAck(init) => self.handle_init_ack(now, source, *init),
            Chunk::CookieEcho(cookie) => self.handle_cookie_echo(now, path, tag, &cookie),
            Chunk::CookieAck => self.handle_cookie_ack(now),
            // RFC 9260 section 8.3: the content is returned unchanged to the source.
            Chunk::Heartbeat(heartbeat) => self.send_chunk(arrived, Chunk::HeartbeatAck(heartbeat)),
            Chunk::HeartbeatAck(heartbeat) => self.handle_heartbeat_ack(now, &heartbeat),
            Chunk::Abort(_) => {
                let refused =
                    matches!(self.state, AssociationState::CookieWait | AssociationState::CookieEchoed);
                self.finish(if refused { CloseReason::Refused } else { CloseReason::Aborted });
            }
            Chunk::Error(causes) => {
                if causes.iter().any(|cause| matches!(cause, Cause::StaleCookie(_))) {
                    self.handle_stale_cookie(now);
                }
            }
            Chunk::Shutdown(cumulative) => self.handle_shutdown(now, path, cumulative),
            Chunk::ShutdownAck => self.handle_shutdown_ack(path, tag),
            Chunk::ShutdownComplete { .. } => self.handle_shutdown_complete(),
            // ECN is not negotiated, so these chunks are ignored.
            Chunk::EcnEcho(_) | Chunk::Cwr(_) => {}
            Chunk::Unknown(unknown) => {
                let action = unknown.action();
                if action.report && unknown.value.len() + 4 <= Cause::MOST_RETURNED {
                    let mut bytes = vec![unknown.kind, unknown.flags];
                    bytes.extend_from_slice(&(4 + unknown.value.len() as u16).to_be_bytes());
                    bytes.extend_from_slice(&unknown.value);
                    self.send_chunk(path, Chunk::Error(vec![Cause::UnrecognizedChunk(bytes)]));
                }
                return action.skip;
            }
        }
        true
    }

    /// Handles a DATA chunk (RFC 9260 section 6.2).
    fn handle_data(&mut self, path: usize, data: chunk::Data, seen: &mut AckDemand) {
        if !self.state.takes_data() {
            return;
        }
        let size = data.data.size();
        if size == 0 {
            // RFC 9260 section 6.2: "it SHOULD send an ABORT chunk with a "No User Data" error cause".
            self.abort_with(Cause::NoUserData(data.tsn.0), CloseReason::Aborted);
            return;
        }
        seen.any = true;
        seen.at_once |= data.immediate;
        match self.arrivals.judge(data.tsn) {
            TsnArrival::Duplicate => {
                // RFC 9260 section 6.2: a duplicate is reported without delay.
                self.arrivals.note_duplicate(data.tsn);
                self.counters.bytes_duplicated += size;
                seen.at_once = true;
                return;
            }
            arrival if self.has_no_room(arrival, size) => {
                // RFC 9260 section 6.2: "if such a DATA chunk is dropped, the receiver MUST immediately send back
                // a SACK chunk".
                seen.at_once = true;
                return;
            }
            _ => {}
        }
        self.arrivals.insert(data.tsn);
        if data.stream.0 >= self.inbound_streams {
            // RFC 9260 section 6.5: such a chunk is acknowledged and reported, but not delivered.
            let cause = Cause::InvalidStream(data.stream.0);
            self.send_chunk(path, Chunk::Error(vec![cause]));
            return;
        }
        self.arrived += size;
        let (events, counters, delivery) = (&mut self.events, &mut self.counters, &mut self.delivery);
        self.inbox.accept(data, |stream, data| {
            counters.bytes_delivered += delivery.accept(stream, data, events);
        });
    }

    /// Whether a new chunk must be dropped because the receive buffer is full.
    fn has_no_room(&self, arrival: TsnArrival, size: u64) -> bool {
        match arrival {
            TsnArrival::TooFar => true,
            TsnArrival::Beyond => self.is_full(size),
            // The user must read first. The peer retransmits the chunk, and it is accepted when there is room.
            _ if self.delivery.unread() > 0 => self.free() < size,
            // The next expected chunk is accepted, because it allows the delivery of the chunks after it.
            _ => self.inbox.held() > 2 * self.config.receive_buffer.bytes(),
        }
    }

    /// Free space of the receive buffer, bytes.
    pub(super) fn free(&self) -> u64 {
        self.config.receive_buffer.bytes().saturating_sub(self.inbox.held() + self.delivery.unread())
    }

    /// The smallest nonzero window that a SACK advertises if the user does not read immediately. It is also the
    /// smallest increase of the window that causes a SACK. Bytes: one chunk, or half of the receive buffer if that is
    /// less.
    pub(super) fn least_window(&self) -> u64 {
        self.most_user_bytes().min(self.config.receive_buffer.bytes() / 2)
    }

    /// Whether there is no room for data beyond a gap. The number of chunks is limited too, because a small chunk takes
    /// more memory than its bytes.
    fn is_full(&self, size: u64) -> bool {
        let buffer = self.config.receive_buffer.bytes();
        self.free() < size || self.inbox.chunks() >= (buffer / 32).max(1000)
    }
}
