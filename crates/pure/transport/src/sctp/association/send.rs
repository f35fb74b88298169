//! Composition of packets (RFC 9260 sections 6.1 and 6.10).

use netrig_core::{ConnectionEvent, Ecn, Header, Instant};

use super::path;
use super::{Association, AssociationState, PendingControl};
use crate::sctp::packet::chunk::{DATA_HEADER, Data, Sack};
use crate::sctp::packet::{Chunk, Chunks, Packet};
use crate::sctp::tx::{LossSign, SentChunk, SentState};
use crate::{PathId, Payload};

/// A packet that is being composed.
struct PacketDraft<'a> {
    path: usize,
    chunks: &'a mut Chunks,
    /// Free bytes for chunks.
    room: u32,
    /// Total length of the chunks in the packet, bytes.
    len: u32,
}

impl PacketDraft<'_> {
    fn push(&mut self, chunk: Chunk) {
        let len = chunk.padded_len();
        self.room = self.room.saturating_sub(len);
        self.len += len;
        self.chunks.push(chunk);
    }

    /// Whether the remaining room is too small even for the smallest DATA chunk.
    const fn is_full(&self) -> bool {
        self.room < DATA_HEADER + 4
    }

    /// Whether a DATA chunk with `user_bytes` user bytes fits.
    fn fits(&self, user_bytes: u64) -> bool {
        u64::from(self.room) >= u64::from(DATA_HEADER) + user_bytes.next_multiple_of(4)
    }
}

impl Association {
    /// Writes the next packet to `place`: control chunks, a SACK, and then lost data or new data. Returns whether there
    /// is a packet.
    pub(super) fn write_packet(&mut self, now: Instant, place: &mut crate::Packet) -> bool {
        if let Some(PendingControl::Packet(_)) = self.outgoing.front() {
            let Some(PendingControl::Packet(packet)) = self.outgoing.pop_front() else { return false };
            self.counters.packets_sent += 1;
            *place = packet;
            return true;
        }
        if self.state == AssociationState::Closed {
            return false;
        }
        let control = match self.outgoing.front() {
            Some(PendingControl::Chunk(path, _)) => Some(*path),
            _ => None,
        };
        let data = self.data_turn(now);
        let Some(path) = control.or(self.acknowledger.due()).or(data.map(|turn| turn.path)) else {
            return false;
        };
        let Some(body) = place.payload.empty_sctp() else { return false };
        let mut draft = PacketDraft { path, room: self.room(path), chunks: &mut body.chunks, len: 0 };
        self.add_control(&mut draft);
        let data = data.filter(|turn| turn.path == path && (self.config.bundling || draft.chunks.is_empty()));
        self.add_sack(&mut draft, data);
        if let Some(turn) = data.filter(|_| self.config.bundling || draft.chunks.is_empty()) {
            match turn.kind {
                DataTurnKind::Lost { free } => self.add_lost(now, &mut draft, free),
                DataTurnKind::New => self.add_new(now, &mut draft),
            }
        }
        if draft.chunks.is_empty() {
            return false;
        }
        self.counters.packets_sent += 1;
        place.header = self.header(path, draft.len);
        (body.src_port, body.dst_port) = (self.local_port, self.remote_port);
        body.verification_tag = self.peer_tag;
        true
    }

    /// Number of bytes for chunks in a packet over `path`.
    fn room(&self, path: usize) -> u32 {
        let mtu = u32::try_from(self.config.mtu.bytes()).unwrap_or(u32::MAX).min(65_535);
        // Even with a very small MTU there must be room for one word of data.
        mtu.saturating_sub(self.paths[path].overhead).max(DATA_HEADER + 4)
    }

    /// Number of bytes for control chunks in a packet over `path`. If a SACK is due, its length is subtracted.
    pub(super) fn room_beside_sack(&self, path: usize) -> u32 {
        let sack = if self.acknowledger.due().is_some() { Sack::MIN_LEN } else { 0 };
        self.room(path).saturating_sub(sack)
    }

    /// Creates a complete packet with these chunks.
    pub(super) fn make_packet(
        &self,
        path: usize,
        verification_tag: u32,
        chunks: impl IntoIterator<Item = Chunk>,
    ) -> crate::Packet {
        let chunks: Chunks = chunks.into_iter().collect();
        let len = chunks.iter().map(Chunk::padded_len).sum();
        let (src_port, dst_port) = (self.local_port, self.remote_port);
        let body = Packet { src_port, dst_port, verification_tag, chunks };
        crate::Packet { header: self.header(path, len), payload: Payload::Sctp(Box::new(body)) }
    }

    /// The header of a packet over `path` with `len` bytes of chunks.
    fn header(&self, path: usize, len: u32) -> Header {
        let path = &self.paths[path];
        Header { flow: path.flow, ip_len: path.overhead + len, dscp: self.dscp, ecn: Ecn::NotEct }
    }

    /// Adds the control chunks for the path that fit. The first chunk of a packet is always added.
    fn add_control(&mut self, draft: &mut PacketDraft) {
        while let Some(PendingControl::Chunk(path, chunk)) = self.outgoing.front() {
            let fits = draft.chunks.is_empty() || self.config.bundling && chunk.padded_len() <= draft.room;
            if *path != draft.path || !fits {
                return;
            }
            let Some(PendingControl::Chunk(_, chunk)) = self.outgoing.pop_front() else { return };
            draft.push(chunk);
        }
    }

    /// Adds a SACK if one is due on this path, or if one is useful and the following data leaves room for it.
    fn add_sack(&mut self, draft: &mut PacketDraft, data: Option<DataTurn>) {
        let due = self.acknowledger.due() == Some(draft.path);
        let alone = draft.chunks.is_empty();
        let fits = alone || self.config.bundling && draft.room >= Sack::MIN_LEN;
        if !fits || !due && !self.sack_fits_beside(draft, data) {
            return;
        }
        // RFC 9260 section 6.2: first as many gap blocks as fit, then as many duplicates as fit.
        let mut fields = (draft.room.saturating_sub(Sack::MIN_LEN) / 4) as usize;
        let gaps = self.arrivals.gaps(fields);
        fields -= gaps.len();
        let duplicates = self.arrivals.take_duplicates(fields);
        let free = self.free();
        let window =
            if self.delivery.waits() { self.delivery.advertise(free, self.least_window()) } else { free };
        draft.push(Chunk::Sack(Sack {
            cumulative_tsn: self.arrivals.cumulative(),
            a_rwnd: u32::try_from(window).unwrap_or(u32::MAX),
            gaps,
            duplicates,
        }));
        self.acknowledger.sent();
    }

    /// Whether a SACK that is not yet due can share the packet with the following data.
    fn sack_fits_beside(&mut self, draft: &PacketDraft, data: Option<DataTurn>) -> bool {
        let Some(turn) = data.filter(|_| self.config.bundling && self.acknowledger.useful_on(draft.path))
        else {
            return false;
        };
        let next = match turn.kind {
            DataTurnKind::New => {
                let most = self.most_user_bytes();
                self.queue.next_len(most)
            }
            DataTurnKind::Lost { .. } => {
                let place = self.outstanding.first_lost();
                place.and_then(|place| self.outstanding.get(place)).map(|lost| lost.chunk.data.size())
            }
        };
        next.is_some_and(|len| draft.fits(len + u64::from(Sack::MIN_LEN)))
    }

    /// The data that may be sent now, and its path. `None` if no data may be sent.
    fn data_turn(&mut self, now: Instant) -> Option<DataTurn> {
        if !self.state.sends_data() {
            return None;
        }
        if self.just_given && self.config.send_passes_losses && self.new_data_may_leave(now) {
            return Some(DataTurn { path: self.data_path, kind: DataTurnKind::New });
        }
        if let Some(place) = self.outstanding.first_lost() {
            if let Some(path) = self.retransmission_due {
                return Some(DataTurn { path, kind: DataTurnKind::Lost { free: true } });
            }
            if self.retransmissions_held {
                return None;
            }
            // RFC 9260 section 6.1 C: lost data is sent before new data, "limited by the current cwnd".
            let path = self.path_for_lost(place)?;
            let may = self.paths[path].may_resend();
            return may.then_some(DataTurn { path, kind: DataTurnKind::Lost { free: false } });
        }
        self.retransmission_due = None;
        let held = self.retransmissions_held && self.config.timeout_holds_new_data;
        let may = !held && self.new_data_may_leave(now);
        may.then_some(DataTurn { path: self.data_path, kind: DataTurnKind::New })
    }

    /// Whether there is new data, and the windows and the configuration allow it to be sent.
    fn new_data_may_leave(&mut self, now: Instant) -> bool {
        if self.queue.unsent() == 0 || self.burst == 0 {
            return false;
        }
        let path = &mut self.paths[self.data_path];
        path.decay(now, &self.config);
        if !path.may_send_new(&self.config) {
            return false;
        }
        if !self.may_take_new() {
            self.await_window(now);
            return false;
        }
        !self.waits_for_more()
    }

    /// Handles new data for which the peer's window has no room. If nothing is outstanding, T3-rtx determines the time
    /// of a probe (RFC 9260 section 6.1 A).
    fn await_window(&mut self, now: Instant) {
        let path = &mut self.paths[self.data_path];
        if self.outstanding.is_empty() && !path.t3_runs() {
            path.start_t3(now, &self.config);
        }
    }

    /// Returns true only if [`Association::write_packet`] has no packet to send: nothing except new data is waiting,
    /// and the congestion window for it is full. It may return false even then.
    pub(super) fn has_no_packet(&self) -> bool {
        self.has_but_new_data()
            && (self.queue.unsent() == 0
                || !self.state.sends_data()
                || !self.paths[self.data_path].may_send_new(&self.config))
    }

    /// Whether nothing except new data is waiting to be sent.
    fn has_but_new_data(&self) -> bool {
        self.outgoing.is_empty()
            && self.acknowledger.due().is_none()
            && !self.outstanding.has_lost()
            && self.retransmission_due.is_none()
    }

    /// Whether the congestion window, the peer's window or the send buffer prevents the sending of the next chunk.
    fn has_full_window(&self) -> bool {
        let path = &self.paths[self.data_path];
        // If no data is in flight, the window may decay, so the result could change.
        !path.may_send_new(&self.config) || path.flight > 0 && !self.may_take_new()
    }

    /// Whether more data would have no effect: unsent data already waits for a full window, and more data would wait
    /// after it.
    pub(super) fn keeps_data_back(&self) -> bool {
        self.queue.unsent() > 0
            && self.queue.keeps_its_turn()
            && self.state.sends_data()
            && self.has_but_new_data()
            && self.has_full_window()
    }

    /// The path for the retransmission of the lost chunk with index `place`.
    fn path_for_lost(&self, place: usize) -> Option<usize> {
        let sent = self.outstanding.get(place)?;
        let SentState::Lost(sign) = sent.state else { return None };
        Some(self.retransmission_path(usize::from(sent.path.0), sign))
    }

    /// Largest number of user bytes in a chunk on the data path.
    pub(super) fn most_user_bytes(&self) -> u64 {
        // Chunks are padded to multiples of four.
        let room = self.room(self.data_path).saturating_sub(DATA_HEADER) / 4 * 4;
        u64::from(room).min(self.config.max_chunk.bytes()).max(1)
    }

    /// Whether the receiver's window and the send buffer allow the next chunk. If nothing is outstanding and a probe is
    /// due, one chunk is allowed even if the window is closed (RFC 9260 section 6.1 A).
    #[inline]
    fn may_take_new(&self) -> bool {
        let most = self.most_user_bytes();
        if self.outstanding.is_empty() {
            return self.probe_due || self.queue.next_len(most).is_none_or(|len| len <= self.peer_rwnd);
        }
        let Some(len) = self.queue.next_len(most) else { return false };
        let windowed = u64::from(path::counted(self.config.window_counts, len));
        windowed <= self.peer_rwnd.saturating_sub(self.outstanding.in_flight()) && self.is_buffered(len)
    }

    /// Whether the send buffer contains the next chunk, of `len` user bytes. A message that fits the buffer enters it
    /// as a whole, so the rest of a started message is always in it. A larger message enters in fragments.
    fn is_buffered(&self, len: u64) -> bool {
        let size = self.config.send_buffer.bytes();
        self.queue.size_under_way().is_some_and(|message| message <= size)
            || self.outstanding.charged() + self.config.chunk_charge.of(len) <= size
    }

    /// Nagle's rule (RFC 1122 section 4.2.3.4, RFC 9260 section 6.1): an amount of data smaller than a packet waits
    /// while other data is outstanding.
    fn waits_for_more(&self) -> bool {
        self.config.nagle
            && self.state == AssociationState::Established
            && !self.outstanding.is_empty()
            && !self.queue.message_under_way()
            && self.queue.unsent() < self.most_user_bytes()
    }

    /// Adds the earliest lost chunks to the packet. If `free` is true, the packet is sent regardless of the window.
    fn add_lost(&mut self, now: Instant, draft: &mut PacketDraft, free: bool) {
        self.paths[draft.path].decay(now, &self.config);
        let mut earliest = false;
        let mut count = 0;
        while let Some(place) = self.outstanding.first_lost().filter(|_| count == 0 || !draft.is_full()) {
            if !free && self.path_for_lost(place) != Some(draft.path) {
                break;
            }
            let Some(lost) = self.outstanding.get(place) else { break };
            // A chunk that has become too large for the MTU is sent anyway, because a TSN cannot be split.
            if count > 0 && (!self.config.bundling || !draft.fits(lost.chunk.data.size())) {
                break;
            }
            if count == 0 && !draft.chunks.is_empty() && !draft.fits(lost.chunk.data.size()) {
                return;
            }
            match lost.state {
                SentState::Lost(LossSign::Missing) => self.counters.fast_retransmissions += 1,
                _ => self.counters.timeout_retransmissions += 1,
            }
            self.counters.bytes_retransmitted += lost.chunk.data.size();
            earliest |= place == 0 && lost.state == SentState::Lost(LossSign::Missing);
            self.paths[usize::from(lost.path.0)].leaves(lost);
            let Some(sent) = self.outstanding.resend(place, PathId(draft.path as u8)) else { break };
            let path = &mut self.paths[draft.path];
            path.flight += u64::from(sent.counted);
            let chunk = sent.chunk.clone();
            if !self.config.measures_past_retransmissions {
                self.paths.iter_mut().for_each(|path| path.lower_was_sent_again(chunk.tsn));
            }
            draft.push(Chunk::Data(chunk));
            count += 1;
        }
        if free {
            self.retransmission_due = None;
        }
        if count == 0 {
            return;
        }
        self.counters.data_packets_sent += 1;
        let path = &mut self.paths[draft.path];
        path.begin_idleness(now);
        // T3-rtx is restarted: RFC 9260 sections 6.3.2 R1 and 7.2.4 (4).
        if !path.t3_runs() || earliest {
            path.start_t3(now, &self.config);
        }
    }

    /// Adds new chunks to the packet until it is full or the windows are.
    fn add_new(&mut self, now: Instant, draft: &mut PacketDraft) {
        let most = self.most_user_bytes();
        let before = self.outstanding.next_tsn();
        let mut count = 0;
        while count == 0 || !draft.is_full() && self.may_take_new() {
            let Some(len) = self.queue.next_len(most) else { break };
            if !draft.fits(len) || count > 0 && !self.config.bundling {
                break;
            }
            let probe = self.outstanding.is_empty() && len > self.peer_rwnd;
            if probe {
                (self.window_closed, self.probe_due) = (true, false);
                self.counters.window_probes += 1;
            }
            let Some(fragment) = self.queue.cut(most) else { break };
            let last = self.state == AssociationState::ShutdownPending && self.queue.unsent() == 0;
            let chunk = Data {
                tsn: self.outstanding.next_tsn(),
                stream: fragment.stream,
                // RFC 9260 section 6.6: an unordered message has no stream sequence number.
                ssn: if self.config.ordered { fragment.ssn } else { 0 },
                ppid: 0,
                unordered: !self.config.ordered,
                beginning: fragment.beginning,
                ending: fragment.ending,
                immediate: self.config.sack_immediately && (probe || last),
                data: fragment.data,
            };
            let counted = path::counted(self.config.counted, len);
            self.counters.bytes_sent += len;
            self.paths[draft.path].flight += u64::from(counted);
            self.outstanding.push(SentChunk {
                chunk: chunk.clone(),
                path: PathId(draft.path as u8),
                state: SentState::InFlight,
                misses: 0,
                retransmitted: false,
                fast_retransmitted: false,
                counted,
                windowed: path::counted(self.config.window_counts, len),
            });
            draft.push(Chunk::Data(chunk));
            count += 1;
        }
        if count == 0 {
            return;
        }
        self.queue.packet_done();
        self.burst -= 1;
        self.counters.data_packets_sent += 1;
        let path = &mut self.paths[draft.path];
        path.begin_idleness(now);
        // RFC 9260 section 6.3.1 C4: one measurement per round trip.
        path.timed.get_or_insert((before, now));
        if !path.t3_runs() {
            path.start_t3(now, &self.config);
        }
        if self.writable_owed && self.queue.unsent() < 2 * self.config.mtu.bytes() {
            self.writable_owed = false;
            self.events.push_back(ConnectionEvent::Writable);
        }
    }
}

/// The data to send next.
#[derive(Clone, Copy, Debug)]
struct DataTurn {
    path: usize,
    kind: DataTurnKind,
}

#[derive(Clone, Copy, Debug)]
enum DataTurnKind {
    /// Lost data. If `free` is true, it is sent regardless of the window.
    Lost {
        free: bool,
    },
    New,
}
