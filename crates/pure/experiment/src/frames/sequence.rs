//! Sequence numbers against time, from the frames at one node (Stevens, *TCP/IP Illustrated*, volume 1, section
//! 20.8): what was sent, what was sent again, and what the peer said of it.
//!
//! Start from [`SequenceReader`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use netrig_core::{Frame, Heading, Instant, protocol};
use netrig_transport::Serial;

use super::reading::{Body, ChunkReading, Ends, Reading, TcpReading, read};
use super::unwrapped::Unwrapped;

/// What the numbers of a sequence count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// TCP: bytes, relative to the SYN, or to the first number seen.
    Bytes,
    /// SCTP: DATA chunks by their TSN, relative to the initial one, or to the first seen.
    Tsns,
}

/// Numbers from `from` up to, not including, `to`, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// When.
    pub at: Instant,
    /// The first number.
    pub from: u64,
    /// The one behind the last.
    pub to: u64,
}

/// One direction of a connection as a node saw it: data one way, and what was said of it the other way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// What the numbers count.
    pub numbers: Numbers,
    /// Address and port of the end that sent the data, and of the other; of several addresses the first seen.
    pub ends: [(IpAddr, u16); 2],
    /// Data that went beyond all before.
    pub sent: Vec<Numbered>,
    /// Data that did not.
    pub sent_again: Vec<Numbered>,
    /// The number that the peer expects next.
    pub acknowledged: Vec<(Instant, u64)>,
    /// The end of the peer's window; nothing if the capture does not tell how windows are scaled, or for SCTP, whose
    /// window counts bytes and not chunks.
    pub window: Vec<(Instant, u64)>,
    /// What the peer has beyond what it expects next (SACK).
    pub sacked: Vec<Numbered>,
    /// What was earlier is not kept.
    since: Instant,
    /// Up to the one behind the highest that was sent; nothing before the first.
    serials: Option<Unwrapped>,
}

/// Reads the frames that pass one node.
#[derive(Debug)]
pub struct SequenceReader {
    from: Instant,
    conversations: BTreeMap<Ends, Conversation>,
}

/// Both directions of a connection.
#[derive(Debug)]
struct Conversation {
    /// Of data outbound and inbound.
    halves: [Sequence; 2],
    /// The window scale of the SYN that went outbound and inbound, if one was seen, and if it offered one.
    scales: [Option<Option<u8>>; 2],
}

impl SequenceReader {
    /// A reader that has seen nothing, and keeps what is at `from` or later. Frames before that tell it where numbers
    /// begin and how windows are scaled.
    pub fn new(from: Instant) -> Self {
        Self { from, conversations: BTreeMap::new() }
    }

    /// The next frame, in the order of time. What is neither TCP nor SCTP, or cannot be read, is passed over.
    pub fn take(&mut self, frame: &Frame<'_>) {
        let Some(Reading { ends, body }) = read(frame.bytes) else { return };
        let inbound = frame.heading == Heading::Inbound;
        let own = if inbound { ends.reversed() } else { ends };
        let conversation =
            self.conversations.entry(own.key()).or_insert_with(|| Conversation::between(own, self.from));
        match body {
            Body::Tcp(segment) => conversation.segment(frame.at, inbound, &segment),
            Body::Sctp(chunks) => {
                chunks.iter().for_each(|chunk| conversation.chunk(frame.at, inbound, chunk))
            }
        }
    }

    /// The direction of a connection in which most data packets went; `None` if there were none.
    pub fn busiest(self) -> Option<Sequence> {
        let halves = self.conversations.into_values().flat_map(|conversation| conversation.halves);
        let count = |half: &Sequence| half.sent.len() + half.sent_again.len();
        halves.filter(|half| count(half) > 0).max_by_key(count)
    }
}

impl Conversation {
    fn between(own: Ends, since: Instant) -> Self {
        let numbers = if own.protocol == protocol::SCTP { Numbers::Tsns } else { Numbers::Bytes };
        let half = |ends: Ends| Sequence {
            numbers,
            ends: [(ends.addresses[0], ends.ports[0]), (ends.addresses[1], ends.ports[1])],
            sent: Vec::new(),
            sent_again: Vec::new(),
            acknowledged: Vec::new(),
            window: Vec::new(),
            sacked: Vec::new(),
            since,
            serials: None,
        };
        Self { halves: [half(own), half(own.reversed())], scales: [None; 2] }
    }

    fn segment(&mut self, at: Instant, inbound: bool, segment: &TcpReading) {
        let (own, other) = (usize::from(inbound), usize::from(!inbound));
        if segment.syn {
            self.scales[own] = Some(segment.window_scale);
            self.halves[own].begin(segment.seq);
        }
        let controls = u32::from(segment.syn) + u32::from(segment.fin);
        if segment.data > 0 {
            // The number of SYN comes before the data.
            let first = segment.seq.wrapping_add(u32::from(segment.syn));
            self.halves[own].data(at, first, segment.data);
        } else if controls > 0 {
            self.halves[own].send(segment.seq, controls);
        }
        let Some(ack) = segment.ack else { return };
        let window = self.window(own, segment);
        self.halves[other].acknowledgement(at, ack, window, &segment.sack);
    }

    /// Bytes that the sender of a segment has room for, if both openings were seen.
    fn window(&self, own: usize, segment: &TcpReading) -> Option<u64> {
        let [outbound, inbound] = self.scales;
        let (outbound, inbound) = (outbound?, inbound?);
        // RFC 7323 section 2.2: scaled only if both offer it, never on a SYN itself; section 2.3: at most 14.
        let scaled = outbound.is_some() && inbound.is_some() && !segment.syn;
        let shift = if scaled { self.scales[own].flatten().unwrap_or(0).min(14) } else { 0 };
        Some(u64::from(segment.window) << shift)
    }

    fn chunk(&mut self, at: Instant, inbound: bool, chunk: &ChunkReading) {
        let (own, other) = (usize::from(inbound), usize::from(!inbound));
        match chunk {
            ChunkReading::Opening { initial_tsn } => self.halves[own].begin(*initial_tsn),
            ChunkReading::Data(piece) => self.halves[own].data(at, piece.tsn, 1),
            ChunkReading::Sack { cumulative, gaps } => {
                self.halves[other].acknowledgement(at, cumulative.wrapping_add(1), None, gaps);
            }
        }
    }
}

impl Sequence {
    /// Numbers are relative to this one.
    fn begin(&mut self, base: u32) {
        self.serials.get_or_insert(Unwrapped::new(base)).base = Serial(base);
    }

    /// A number that wraps, as one that does not. `None` before the first.
    fn unwrapped(&mut self, number: u32) -> Option<u64> {
        let serials = self.serials.get_or_insert(Unwrapped::new(number));
        u64::try_from(serials.distance(number)).ok()
    }

    /// The numbers of `count` from `first` on are sent: where they begin and end, and whether that is beyond all before.
    fn send(&mut self, first: u32, count: u32) -> Option<(u64, u64, bool)> {
        let from = self.unwrapped(first)?;
        let serials = self.serials.as_mut()?;
        let (end, before) = (from as i64 + i64::from(count), serials.highest);
        serials.reach(end);
        Some((from, from + u64::from(count), end > before))
    }

    fn data(&mut self, at: Instant, first: u32, count: u32) {
        let Some((from, to, beyond)) = self.send(first, count) else { return };
        let list = if beyond { &mut self.sent } else { &mut self.sent_again };
        if at >= self.since {
            list.push(Numbered { at, from, to });
        }
    }

    fn acknowledgement(&mut self, at: Instant, next: u32, window: Option<u64>, sacked: &[[u32; 2]]) {
        let Some(next) = self.unwrapped(next).filter(|_| at >= self.since) else { return };
        self.acknowledged.push((at, next));
        self.window.extend(window.map(|window| (at, next + window)));
        for [from, to] in sacked {
            if let Some((from, to)) = self.unwrapped(*from).zip(self.unwrapped(*to))
                && from < to
            {
                self.sacked.push(Numbered { at, from, to });
            }
        }
    }
}
