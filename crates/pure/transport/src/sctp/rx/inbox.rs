//! Reassembly: fragments, and complete messages that wait for earlier messages (RFC 9260 sections 6.5 to 6.9).

use std::collections::VecDeque;

use netrig_core::{Data, StreamId};
use smallvec::SmallVec;

use crate::Serial;
use crate::sctp::config::Config;
use crate::sctp::packet::chunk;

/// Fragments with consecutive TSNs.
#[derive(Debug)]
struct FragmentRun {
    stream: StreamId,
    first: Serial,
    /// TSN after the last fragment.
    next: Serial,
    /// Whether the first fragment is the beginning of the message.
    begun: bool,
    /// Whether the last fragment is the end of the message.
    ended: bool,
    data: SmallVec<[Data; 1]>,
    size: u64,
}

impl FragmentRun {
    fn of(chunk: chunk::Data) -> Self {
        Self {
            stream: chunk.stream,
            first: chunk.tsn,
            next: chunk.tsn.plus(1),
            begun: chunk.beginning,
            ended: chunk.ending,
            size: chunk.data.size(),
            data: SmallVec::from_iter([chunk.data]),
        }
    }

    /// Whether `later` follows this run directly and belongs to the same message.
    fn continued_by(&self, later: &Self) -> bool {
        self.next == later.first && !self.ended && !later.begun && self.stream == later.stream
    }

    fn append(&mut self, later: Self) {
        self.next = later.next;
        self.ended = later.ended;
        self.size += later.size;
        for data in later.data {
            match (self.data.last_mut(), data) {
                (Some(Data::Fill(have)), Data::Fill(more)) => *have += more,
                (_, data) => self.data.push(data),
            }
        }
    }
}

/// Inserts `run` by TSN and joins it with its neighbours. Returns its index.
fn insert(runs: &mut SmallVec<[FragmentRun; 1]>, run: FragmentRun) -> usize {
    let at = runs.iter().rposition(|other| other.first.before(run.first)).map_or(0, |i| i + 1);
    let mut place = at;
    if at > 0 && runs[at - 1].continued_by(&run) {
        place = at - 1;
        runs[place].append(run);
    } else {
        runs.insert(at, run);
    }
    if place + 1 < runs.len() && runs[place].continued_by(&runs[place + 1]) {
        let later = runs.remove(place + 1);
        runs[place].append(later);
    }
    place
}

/// An ordered message of which at least one fragment has arrived.
#[derive(Debug)]
struct PartialMessage {
    ssn: u16,
    runs: SmallVec<[FragmentRun; 1]>,
}

#[derive(Debug, Default)]
struct InStream {
    next_ssn: u16,
    /// In ascending order of SSN, from `next_ssn`.
    waiting: VecDeque<PartialMessage>,
}

/// Received data that cannot be delivered yet.
#[derive(Debug)]
pub(crate) struct MessageInbox {
    streams: Vec<InStream>,
    unordered: SmallVec<[FragmentRun; 1]>,
    /// Number of user bytes in the inbox.
    held: u64,
    /// Number of chunks in the inbox.
    chunks: u64,
    /// If this number of bytes of a message has arrived, delivery of the message begins before its end has arrived.
    partial: u64,
}

impl MessageInbox {
    pub(crate) fn new(config: &Config) -> Self {
        // A message that fills the buffer could never be completed. Its parts must be delivered before that.
        let partial = config.partial_delivery.bytes().min(config.receive_buffer.bytes() / 2);
        Self { streams: Vec::new(), unordered: SmallVec::new(), held: 0, chunks: 0, partial }
    }

    /// Number of user bytes in the inbox.
    pub(crate) const fn held(&self) -> u64 {
        self.held
    }

    /// Number of chunks taken since the inbox was last empty. It limits the memory that a hostile peer can use.
    pub(crate) const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Takes a chunk with a new TSN, and calls `deliver` for all data that can now be delivered.
    pub(crate) fn accept(&mut self, chunk: chunk::Data, mut deliver: impl FnMut(StreamId, Data)) {
        let stream = chunk.stream;
        let whole = chunk.beginning && chunk.ending;
        if chunk.unordered {
            if whole {
                deliver(stream, chunk.data);
            } else {
                self.accept_unordered(chunk, &mut deliver);
            }
            return;
        }
        let place = usize::from(stream.0);
        if place >= self.streams.len() {
            self.streams.resize_with(place + 1, InStream::default);
        }
        let state = &mut self.streams[place];
        if whole && chunk.ssn == state.next_ssn && state.waiting.front().is_none_or(|m| m.ssn != chunk.ssn) {
            state.next_ssn = state.next_ssn.wrapping_add(1);
            deliver(stream, chunk.data);
            if state.waiting.is_empty() {
                return;
            }
        } else {
            let ahead = |ssn: u16, next: u16| ssn.wrapping_sub(next);
            let offset = ahead(chunk.ssn, state.next_ssn);
            if offset >= 0x8000 {
                // The message with this stream sequence number was already delivered, so the peer's number is wrong.
                return;
            }
            self.held += chunk.data.size();
            self.chunks += 1;
            let at = state.waiting.partition_point(|m| ahead(m.ssn, state.next_ssn) < offset);
            if state.waiting.get(at).is_none_or(|m| m.ssn != chunk.ssn) {
                state.waiting.insert(at, PartialMessage { ssn: chunk.ssn, runs: SmallVec::new() });
            }
            insert(&mut state.waiting[at].runs, FragmentRun::of(chunk));
        }
        self.deliver_in_order(place, deliver);
    }

    /// Delivers the messages that are next in order on the stream with index `place`.
    fn deliver_in_order(&mut self, place: usize, mut deliver: impl FnMut(StreamId, Data)) {
        let state = &mut self.streams[place];
        while let Some(message) = state.waiting.front_mut() {
            if message.ssn != state.next_ssn {
                break;
            }
            let runs = message.runs.len();
            let Some(head) = message.runs.first_mut().filter(|head| head.begun) else { break };
            let complete = head.ended && runs == 1;
            if !complete && head.size < self.partial {
                break;
            }
            self.held -= std::mem::take(&mut head.size);
            head.data.drain(..).for_each(|data| deliver(head.stream, data));
            if !complete {
                break;
            }
            state.waiting.pop_front();
            state.next_ssn = state.next_ssn.wrapping_add(1);
        }
        self.forget_count();
    }

    fn accept_unordered(&mut self, chunk: chunk::Data, deliver: &mut impl FnMut(StreamId, Data)) {
        self.held += chunk.data.size();
        self.chunks += 1;
        let place = insert(&mut self.unordered, FragmentRun::of(chunk));
        let run = &mut self.unordered[place];
        if run.begun && (run.ended || run.size >= self.partial) {
            self.held -= std::mem::take(&mut run.size);
            run.data.drain(..).for_each(|data| deliver(run.stream, data));
            if run.ended {
                self.unordered.remove(place);
            }
        }
        self.forget_count();
    }

    fn forget_count(&mut self) {
        if self.held == 0 {
            self.chunks = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(tsn: u32, stream: u16, ssn: u16, flags: &str, size: u64) -> chunk::Data {
        chunk::Data {
            tsn: Serial(tsn),
            stream: StreamId(stream),
            ssn,
            ppid: 0,
            unordered: flags.contains('U'),
            beginning: flags.contains('B'),
            ending: flags.contains('E'),
            immediate: false,
            data: Data::Fill(size),
        }
    }

    /// An inbox that starts to deliver a message before its end if at least `partial` bytes of it have arrived.
    fn inbox(partial: u64) -> MessageInbox {
        let partial_delivery = netrig_core::Size::from_bytes(partial);
        let receive_buffer = netrig_core::Size::from_bytes(4 * partial);
        MessageInbox::new(&Config { partial_delivery, receive_buffer, ..Config::of(crate::Profile::Rfc) })
    }

    fn take(inbox: &mut MessageInbox, chunk: chunk::Data) -> Vec<(u16, u64)> {
        let mut got = Vec::new();
        inbox.accept(chunk, |stream, data| got.push((stream.0, data.size())));
        got
    }

    #[test]
    fn a_stream_waits_and_the_others_do_not() {
        let mut inbox = inbox(1 << 20);
        assert_eq!(take(&mut inbox, chunk(2, 0, 1, "BE", 10)), []);
        assert_eq!(take(&mut inbox, chunk(3, 1, 0, "BE", 20)), [(1, 20)]);
        assert_eq!(inbox.held(), 10);
        assert_eq!(take(&mut inbox, chunk(1, 0, 0, "BE", 30)), [(0, 30), (0, 10)]);
        assert_eq!(inbox.held(), 0);
    }

    #[test]
    fn fragments_in_any_order_make_a_message() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut inbox = inbox(1 << 20);
            let pieces = ["B", "", "E"];
            let got: Vec<_> = order
                .iter()
                .map(|i| take(&mut inbox, chunk(u32::MAX.wrapping_add(*i as u32), 4, 0, pieces[*i], 7)))
                .collect();
            assert_eq!(got, [vec![], vec![], vec![(4, 21)]], "{order:?}");
        }
    }

    #[test]
    fn unordered_messages_pass_those_that_wait() {
        let mut inbox = inbox(1 << 20);
        assert_eq!(take(&mut inbox, chunk(5, 0, 3, "BE", 1)), []);
        assert_eq!(take(&mut inbox, chunk(6, 0, 0, "UBE", 2)), [(0, 2)]);
        assert_eq!(take(&mut inbox, chunk(8, 0, 0, "UE", 4)), []);
        assert_eq!(take(&mut inbox, chunk(7, 0, 0, "UB", 3)), [(0, 7)]);
    }

    #[test]
    fn neighbours_of_other_messages_are_not_joined() {
        let mut inbox = inbox(1 << 20);
        assert_eq!(take(&mut inbox, chunk(2, 0, 0, "UE", 1)), []);
        assert_eq!(take(&mut inbox, chunk(3, 0, 0, "UB", 1)), []);
        assert_eq!(take(&mut inbox, chunk(1, 0, 0, "UB", 1)), [(0, 2)]);
        assert_eq!(take(&mut inbox, chunk(4, 0, 0, "UE", 1)), [(0, 2)]);
    }

    #[test]
    fn a_message_larger_than_the_buffer_is_handed_on_in_parts() {
        let mut inbox = inbox(1000);
        let mut got = 0;
        for tsn in 0..100 {
            let flags = if tsn == 0 {
                "B"
            } else if tsn == 99 {
                "E"
            } else {
                ""
            };
            got += take(&mut inbox, chunk(tsn, 0, 0, flags, 100)).iter().map(|(_, n)| n).sum::<u64>();
            assert!(inbox.held() < 1000);
        }
        assert_eq!(got, 10_000);
        assert_eq!(take(&mut inbox, chunk(100, 0, 1, "BE", 5)), [(0, 5)]);
    }

    #[test]
    fn stream_sequence_numbers_wrap() {
        let mut inbox = inbox(1 << 20);
        for i in 0..70_000u32 {
            assert_eq!(take(&mut inbox, chunk(i, 0, i as u16, "BE", 1)), [(0, 1)]);
        }
    }
}
