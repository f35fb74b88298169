//! Unsent user data by stream, and the stream schedulers (RFC 8260 section 3).

use std::collections::VecDeque;

use netrig_core::{Data, StreamId};

use crate::sctp::config::{Config, Scheduler};

/// The data of one send call: one message, or several if messages have a fixed size. The data is not cut before it is
/// sent, so a gigabyte is a single record.
#[derive(Debug)]
struct QueuedData {
    data: Data,
    /// Number of bytes of `data` that have already been cut off and sent.
    cut: u64,
    /// Offset in `data` of the start of the current message.
    message_start: u64,
    /// Offset in `data` of the end of the current message. It equals `cut` between two messages.
    message_end: u64,
}

impl QueuedData {
    fn left(&self) -> u64 {
        self.data.size() - self.cut
    }

    /// Number of remaining bytes of the current message, or of the next message.
    fn message_left(&self, message_size: u64) -> u64 {
        if self.cut < self.message_end { self.message_end - self.cut } else { self.left().min(message_size) }
    }

    fn cut(&mut self, len: u64) -> Data {
        let from = self.cut;
        self.cut += len;
        match &self.data {
            Data::Fill(_) => Data::Fill(len),
            Data::Bytes(bytes) if len == bytes.len() as u64 => Data::Bytes(bytes.clone()),
            // Both indices are inside the slice, because `len` is at most the remaining length.
            Data::Bytes(bytes) => Data::Bytes(bytes[from as usize..self.cut as usize].into()),
        }
    }
}

#[derive(Debug, Default)]
struct OutStream {
    next_ssn: u16,
    pieces: VecDeque<QueuedData>,
    /// Number of bytes sent, divided by the stream's weight: its virtual time.
    served: u64,
}

/// A fragment of a message. It becomes the content of one DATA chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) stream: StreamId,
    pub(crate) ssn: u16,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    pub(crate) data: Data,
}

/// All unsent data.
#[derive(Debug)]
pub(crate) struct SendQueue {
    streams: Vec<OutStream>,
    /// With first come, first served: the stream of each send call, in order. With the other schedulers: each stream
    /// with data, once.
    turns: VecDeque<StreamId>,
    /// Index in `turns` of the stream with a started message. That message must be finished first, because without
    /// I-DATA the fragments of a message must have consecutive TSNs (RFC 9260 section 6.9).
    under_way: Option<usize>,
    unsent: u64,
    scheduler: Scheduler,
    values: Vec<u16>,
    message_size: u64,
    join: bool,
    /// `served` of the stream that was served last. A stream that receives new data continues from at least this value.
    virtual_time: u64,
}

impl SendQueue {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            streams: Vec::new(),
            turns: VecDeque::new(),
            under_way: None,
            unsent: 0,
            scheduler: config.scheduler,
            values: config.stream_values.clone(),
            message_size: match config.message_size.bytes() {
                0 => u64::MAX,
                size => size,
            },
            join: config.join_sends,
            virtual_time: 0,
        }
    }

    /// Number of unsent bytes.
    pub(crate) const fn unsent(&self) -> u64 {
        self.unsent
    }

    pub(crate) fn push(&mut self, stream: StreamId, data: Data) {
        let size = data.size();
        if size == 0 {
            // RFC 9260 section 3.3.1: DATA without user data is an error.
            return;
        }
        let place = usize::from(stream.0);
        if place >= self.streams.len() {
            self.streams.resize_with(place + 1, OutStream::default);
        }
        let out = &mut self.streams[place];
        self.unsent += size;
        if let (true, Some(QueuedData { data: Data::Fill(have), .. }), Data::Fill(more)) =
            (self.join, out.pieces.back_mut(), &data)
        {
            *have += more;
            return;
        }
        if out.pieces.is_empty() || self.scheduler == Scheduler::Fcfs {
            self.turns.push_back(stream);
            out.served = out.served.max(self.virtual_time);
        }
        out.pieces.push_back(QueuedData { data, cut: 0, message_start: 0, message_end: 0 });
    }

    /// Size of the started message. `None` if no message is started.
    pub(crate) fn size_under_way(&self) -> Option<u64> {
        let stream = &self.streams[usize::from(self.turns[self.under_way?].0)];
        stream.pieces.front().map(|piece| piece.message_end - piece.message_start)
    }

    /// Whether the next fragment belongs to a started message.
    pub(crate) const fn message_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether data is sent in the order of the send calls, so that later data does not affect earlier data.
    pub(crate) const fn is_in_order(&self) -> bool {
        matches!(self.scheduler, Scheduler::Fcfs) || self.streams.len() < 2
    }

    /// Whether more data cannot change which stream is served next.
    pub(crate) const fn keeps_its_turn(&self) -> bool {
        self.under_way.is_some()
            || matches!(self.scheduler, Scheduler::Fcfs | Scheduler::RoundRobin | Scheduler::RoundRobinPacket)
    }

    /// Number of user bytes in the next fragment if a chunk can contain at most `most`. `None` if there is no unsent
    /// data.
    #[inline]
    pub(crate) fn next_len(&self, most: u64) -> Option<u64> {
        let turn = self.turn()?;
        let stream = &self.streams[usize::from(self.turns[turn].0)];
        stream.pieces.front().map(|piece| piece.message_left(self.message_size).min(most))
    }

    /// Cuts off the next fragment, of at most `most` bytes.
    pub(crate) fn cut(&mut self, most: u64) -> Option<Fragment> {
        let turn = self.turn()?;
        let id = self.turns[turn];
        let weight = self.weight(id);
        let stream = &mut self.streams[usize::from(id.0)];
        let piece = stream.pieces.front_mut()?;
        let beginning = piece.cut == piece.message_end;
        if beginning {
            piece.message_start = piece.cut;
            piece.message_end = piece.cut + piece.left().min(self.message_size);
        }
        let len = (piece.message_end - piece.cut).min(most);
        let data = piece.cut(len);
        let ending = piece.cut == piece.message_end;
        let ssn = stream.next_ssn;
        self.virtual_time = stream.served;
        stream.served += len / weight;
        self.unsent -= len;
        self.under_way = Some(turn);
        if ending {
            stream.next_ssn = ssn.wrapping_add(1);
            self.finish_message(turn, id);
        }
        Some(Fragment { stream: id, ssn, beginning, ending, data })
    }

    /// Updates the order of the streams after a message is finished.
    fn finish_message(&mut self, turn: usize, id: StreamId) {
        self.under_way = None;
        let stream = &mut self.streams[usize::from(id.0)];
        let piece_done = stream.pieces.front().is_some_and(|piece| piece.left() == 0);
        if piece_done {
            stream.pieces.pop_front();
        }
        let stays = match self.scheduler {
            Scheduler::Fcfs => !piece_done,
            _ => !stream.pieces.is_empty(),
        };
        match self.scheduler {
            _ if !stays => drop(self.turns.remove(turn)),
            Scheduler::RoundRobin | Scheduler::Priority => {
                self.turns.remove(turn);
                self.turns.push_back(id);
            }
            // `RoundRobinPacket` changes the stream after each packet, in `packet_done`. The other schedulers do not
            // depend on the order after a message.
            Scheduler::RoundRobinPacket | Scheduler::Fcfs | Scheduler::Fair | Scheduler::WeightedFair => {}
        }
    }

    /// Updates the order of the streams after a packet is full.
    pub(crate) fn packet_done(&mut self) {
        if self.scheduler == Scheduler::RoundRobinPacket && self.under_way.is_none() && self.turns.len() > 1 {
            self.turns.rotate_left(1);
        }
    }

    /// Index in `turns` of the stream that is served next.
    #[inline]
    fn turn(&self) -> Option<usize> {
        if self.under_way.is_some() || self.turns.len() < 2 {
            return self.under_way.or((!self.turns.is_empty()).then_some(0));
        }
        let places = 0..self.turns.len();
        match self.scheduler {
            Scheduler::Fcfs | Scheduler::RoundRobin | Scheduler::RoundRobinPacket => Some(0),
            // Of several streams with equal priority, the first in `turns`, so that they take turns.
            Scheduler::Priority => places.min_by_key(|i| self.value(self.turns[*i])),
            Scheduler::Fair | Scheduler::WeightedFair => {
                places.min_by_key(|i| self.streams[usize::from(self.turns[*i].0)].served)
            }
        }
    }

    fn value(&self, stream: StreamId) -> u16 {
        self.values.get(usize::from(stream.0)).copied().unwrap_or(1)
    }

    fn weight(&self, stream: StreamId) -> u64 {
        match self.scheduler {
            Scheduler::WeightedFair => u64::from(self.value(stream)).max(1),
            _ => 1,
        }
    }

    /// Handles a peer that accepts only `count` streams: data for a stream beyond them moves to its number modulo
    /// `count`.
    pub(crate) fn limit_streams(&mut self, count: u16) {
        let beyond = usize::from(count.max(1)).min(self.streams.len());
        let orphans = self.streams.split_off(beyond);
        self.turns.retain(|stream| usize::from(stream.0) < beyond);
        for (i, orphan) in orphans.into_iter().enumerate() {
            for piece in orphan.pieces {
                self.unsent -= piece.left();
                self.push(StreamId(((beyond + i) % beyond) as u16), piece.data);
            }
        }
    }

    /// Drops all data after the peer restarted.
    pub(crate) fn clear(&mut self) {
        self.streams.clear();
        self.turns.clear();
        self.under_way = None;
        self.unsent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use netrig_core::Size;

    fn queue(scheduler: Scheduler, message: u64, values: &[u16]) -> SendQueue {
        SendQueue::new(&Config {
            scheduler,
            message_size: Size::from_bytes(message),
            stream_values: values.to_vec(),
            ..Config::of(Profile::Rfc)
        })
    }

    /// The stream number of each next fragment, as a string of digits.
    fn order(queue: &mut SendQueue, most: u64) -> String {
        std::iter::from_fn(|| queue.cut(most)).map(|fragment| fragment.stream.0.to_string()).collect()
    }

    fn fill(queue: &mut SendQueue, sizes: &[(u16, u64)]) {
        for (stream, size) in sizes {
            queue.push(StreamId(*stream), Data::Fill(*size));
        }
    }

    #[test]
    fn schedulers_choose_as_they_are_named() {
        let given = [(0, 300), (1, 200), (2, 100), (0, 100)];
        let cases = [
            (Scheduler::Fcfs, "0001120"),
            (Scheduler::RoundRobin, "0120100"),
            (Scheduler::Priority, "2110000"),
            (Scheduler::Fair, "0120100"),
        ];
        for (scheduler, expected) in cases {
            let mut queue = queue(scheduler, 100, &[9, 5, 1]);
            fill(&mut queue, &given);
            assert_eq!(order(&mut queue, 1000), expected, "{scheduler:?}");
            assert_eq!(queue.unsent(), 0);
        }
    }

    #[test]
    fn weights_share_bytes_in_proportion() {
        let mut queue = queue(Scheduler::WeightedFair, 100, &[3, 1]);
        fill(&mut queue, &[(0, 100_000), (1, 100_000)]);
        let first: Vec<_> = (0..400).filter_map(|_| queue.cut(1000)).collect();
        let of_0 = first.iter().filter(|fragment| fragment.stream == StreamId(0)).count();
        assert!((299..=301).contains(&of_0), "{of_0}");
    }

    #[test]
    fn by_the_packet_a_stream_keeps_its_turn_until_the_packet_is_full() {
        let mut queue = queue(Scheduler::RoundRobinPacket, 100, &[]);
        fill(&mut queue, &[(0, 400), (1, 400)]);
        let mut order = String::new();
        for _ in 0..4 {
            for _ in 0..2 {
                let fragment = queue.cut(1000).expect("eight messages");
                order += &fragment.stream.0.to_string();
            }
            queue.packet_done();
        }
        assert_eq!(order, "00110011");
    }

    #[test]
    fn a_message_is_finished_before_another_begins() {
        let mut queue = queue(Scheduler::RoundRobin, 0, &[]);
        fill(&mut queue, &[(0, 250), (1, 100)]);
        let flags: Vec<_> = std::iter::from_fn(|| queue.cut(100))
            .map(|f| (f.stream.0, f.ssn, f.beginning, f.ending, f.data.size()))
            .collect();
        assert_eq!(
            flags,
            [
                (0, 0, true, false, 100),
                (0, 0, false, false, 100),
                (0, 0, false, true, 50),
                (1, 0, true, true, 100)
            ]
        );
    }

    #[test]
    fn contents_are_cut_in_order() {
        let mut queue = queue(Scheduler::Fcfs, 7, &[]);
        queue.push(StreamId(0), Data::Bytes((*b"the quick brown fox").into()));
        let mut text = Vec::new();
        while let Some(fragment) = queue.cut(5) {
            let Data::Bytes(bytes) = fragment.data else { panic!("bytes stay bytes") };
            text.extend_from_slice(&bytes);
        }
        assert_eq!(text, b"the quick brown fox");
    }
}
