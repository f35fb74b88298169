//! Computes sequence numbers against time from the frames at one node (Stevens, *TCP/IP Illustrated*, volume 1, section
//! 20.8): first transmissions, retransmissions, and the peer's acknowledgements.
//!
//! Start from [`SequenceReader`].

use std::collections::BTreeMap;
use std::net::IpAddr;

use netrig_core::{Frame, Heading, Instant, protocol};
use netrig_transport::Serial;

use super::reading::{ChunkReading, PacketBody, PacketEnds, PacketReading, TcpReading, read};
use super::unwrapped::Unwrapped;

/// The unit of a sequence's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// TCP: bytes, relative to the SYN, or to the first observed number.
    Bytes,
    /// SCTP: DATA chunks by TSN, relative to the initial TSN, or to the first observed one.
    Tsns,
}

/// Numbers from `from` up to, but not including, `to`, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Time of the frame.
    pub at: Instant,
    /// The first number.
    pub from: u64,
    /// The number after the last.
    pub to: u64,
}

/// One direction of a connection as a node observed it: the data, and the acknowledgements in the other
/// direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The unit of the numbers.
    pub numbers: Numbers,
    /// Address and port of the end that sent the data, and of the other end. If an end has several addresses, the first
    /// observed one.
    pub ends: [(IpAddr, u16); 2],
    /// First transmissions: data beyond all earlier data.
    pub sent: Vec<Numbered>,
    /// Retransmissions.
    pub sent_again: Vec<Numbered>,
    /// Times and values of the cumulative acknowledgement: the number that the peer expects next.
    pub acknowledged: Vec<(Instant, u64)>,
    /// Times and values of the right edge of the peer's window. Empty if the frames do not contain both window scales,
    /// and for SCTP, whose window counts bytes instead of chunks.
    pub window: Vec<(Instant, u64)>,
    /// Data that the peer has received out of order (SACK).
    pub sacked: Vec<Numbered>,
    /// Frames before this time are not added to the lists.
    since: Instant,
    /// Converts wrapping numbers. The highest is the number after the last sent one. `None` before the first frame.
    serials: Option<Unwrapped>,
}

/// Collects the frames that pass one node.
#[derive(Debug)]
pub struct SequenceReader {
    from: Instant,
    conversations: BTreeMap<PacketEnds, FlowConversation>,
}

/// Both directions of a connection.
#[derive(Debug)]
struct FlowConversation {
    /// The sequences of outbound and inbound data.
    halves: [Sequence; 2],
    /// The window scale of the outbound and of the inbound SYN. `None` if the SYN was not observed, `Some(None)` if it
    /// has no such option.
    scales: [Option<Option<u8>>; 2],
}

impl SequenceReader {
    /// A reader that keeps the frames from `from` on. From earlier frames, it takes only the initial numbers and the
    /// window scales.
    pub fn new(from: Instant) -> Self {
        Self { from, conversations: BTreeMap::new() }
    }

    /// Takes the next frame, in the order of time. Frames of other protocols and malformed frames are skipped.
    pub fn take(&mut self, frame: &Frame<'_>) {
        let Some(PacketReading { ends, body }) = read(frame.bytes) else { return };
        let inbound = frame.heading == Heading::Inbound;
        let own = if inbound { ends.reversed() } else { ends };
        let conversation =
            self.conversations.entry(own.key()).or_insert_with(|| FlowConversation::between(own, self.from));
        match body {
            PacketBody::Tcp(segment) => conversation.segment(frame.at, inbound, &segment),
            PacketBody::Sctp(chunks) => {
                chunks.iter().for_each(|chunk| conversation.chunk(frame.at, inbound, chunk))
            }
        }
    }

    /// The direction of a connection that has most data packets. `None` if there are no data packets.
    pub fn busiest(self) -> Option<Sequence> {
        let halves = self.conversations.into_values().flat_map(|conversation| conversation.halves);
        let count = |half: &Sequence| half.sent.len() + half.sent_again.len();
        halves.filter(|half| count(half) > 0).max_by_key(count)
    }
}

impl FlowConversation {
    fn between(own: PacketEnds, since: Instant) -> Self {
        let numbers = if own.protocol == protocol::SCTP { Numbers::Tsns } else { Numbers::Bytes };
        let half = |ends: PacketEnds| Sequence {
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
            // SYN has the first number; the data follow.
            let first = segment.seq.wrapping_add(u32::from(segment.syn));
            self.halves[own].data(at, first, segment.data);
        } else if controls > 0 {
            self.halves[own].send(segment.seq, controls);
        }
        let Some(ack) = segment.ack else { return };
        let window = self.window(own, segment);
        self.halves[other].acknowledgement(at, ack, window, &segment.sack);
    }

    /// The window of a segment's sender in bytes; `None` unless both SYN segments were observed.
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
    /// Sets the base of the relative numbers.
    fn begin(&mut self, base: u32) {
        self.serials.get_or_insert(Unwrapped::new(base)).base = Serial(base);
    }

    /// Converts a wrapping number to a relative number without wrap. `None` if it is before the base.
    fn unwrapped(&mut self, number: u32) -> Option<u64> {
        let serials = self.serials.get_or_insert(Unwrapped::new(number));
        u64::try_from(serials.distance(number)).ok()
    }

    /// Registers the transmission of `count` numbers from `first` on. Returns the relative begin and end, and whether
    /// the end is beyond all earlier numbers.
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
