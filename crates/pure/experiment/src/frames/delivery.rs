//! Computes the delivery of each message of an association from the frames at both ends.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Frame, Heading, Instant};

use super::reading::{ChunkReading, MessagePiece, PacketBody, PacketEnds, PacketReading, read};
use super::unwrapped::Unwrapped;

/// A delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageDelivery {
    /// The stream of the message (RFC 9260 section 1.3).
    pub stream: u16,
    /// Time of the first transmission of its first chunk.
    pub sent: Instant,
    /// Time at which all its chunks had arrived.
    pub arrived: Instant,
    /// Time at which the receiver could deliver it: on arrival, or after the earlier messages of its stream.
    pub delivered: Instant,
}

/// Collects the DATA chunks that pass one node in one direction. Of each chunk, only the first transmission is kept.
#[derive(Debug)]
pub struct DeliveryReader {
    heading: Heading,
    associations: BTreeMap<PacketEnds, Pieces>,
}

/// The chunks of one direction of an association, by the distance of their TSN from the first observed TSN.
#[derive(Debug)]
struct Pieces {
    tsns: Unwrapped,
    seen: BTreeMap<i64, (Instant, MessagePiece)>,
}

impl DeliveryReader {
    /// A reader of the chunks that a node sends (outbound) or receives (inbound).
    pub fn new(heading: Heading) -> Self {
        Self { heading, associations: BTreeMap::new() }
    }

    /// Takes the next frame, in the order of time. Frames that are not SCTP, and frames in the other direction, are
    /// skipped.
    pub fn take(&mut self, frame: &Frame<'_>) {
        if frame.heading != self.heading {
            return;
        }
        let Some(PacketReading { ends, body: PacketBody::Sctp(chunks) }) = read(frame.bytes) else { return };
        for chunk in chunks {
            if let ChunkReading::Data(piece) = chunk {
                let new = || Pieces { tsns: Unwrapped::new(piece.tsn), seen: BTreeMap::new() };
                self.associations.entry(ends.key()).or_insert_with(new).take(frame.at, piece);
            }
        }
    }

    /// The delivered messages of the association with most chunks at the sender, in the order of sending. `self`
    /// observed the sender, `far` the receiver. Messages that did not arrive before the end, and messages that wait for
    /// such a message, are left out.
    pub fn deliveries(&self, far: &Self) -> Vec<MessageDelivery> {
        let busiest = self.associations.iter().max_by_key(|(_, pieces)| pieces.seen.len());
        let both = busiest.and_then(|(ends, sent)| Some((sent, far.associations.get(ends)?)));
        both.map(|(sent, arrived)| sent.deliveries(arrived)).unwrap_or_default()
    }
}

impl Pieces {
    fn take(&mut self, at: Instant, piece: MessagePiece) {
        let distance = self.tsns.distance(piece.tsn);
        self.tsns.reach(distance);
        self.seen.entry(distance).or_insert((at, piece));
    }

    fn deliveries(&self, arrived: &Self) -> Vec<MessageDelivery> {
        // The base of the sent TSNs may differ from the base of the arrived TSNs.
        let apart = i64::from(arrived.tsns.base.offset_from(self.tsns.base));
        let arrival = |distance: i64| arrived.seen.get(&(distance - apart)).map(|(at, _)| *at);
        let mut deliveries = Vec::new();
        let (mut free_from, mut stuck) = (BTreeMap::<u16, Instant>::new(), BTreeSet::new());
        let mut under_way: Option<(Instant, Option<Instant>)> = None;
        for (distance, (at, piece)) in &self.seen {
            // RFC 9260 section 6.9: the fragments of a message have consecutive TSNs.
            let (sent, before) = under_way.filter(|_| !piece.beginning).unwrap_or((*at, Some(Instant::ZERO)));
            let whole = before.zip(arrival(*distance)).map(|(before, last)| before.max(last));
            if !piece.ending {
                under_way = Some((sent, whole));
                continue;
            }
            under_way = None;
            let stream = piece.stream;
            match whole {
                Some(arrived) if piece.unordered => {
                    deliveries.push(MessageDelivery { stream, sent, arrived, delivered: arrived });
                }
                Some(arrived) if !stuck.contains(&stream) => {
                    // RFC 9260 section 6.6: ordered messages of a stream are delivered in order.
                    let free = free_from.entry(stream).or_default();
                    let delivered = arrived.max(*free);
                    *free = delivered;
                    deliveries.push(MessageDelivery { stream, sent, arrived, delivered });
                }
                _ if piece.unordered => {}
                _ => drop(stuck.insert(stream)),
            }
        }
        deliveries
    }
}
