//! What became of each message of an association, from the frames at both of its ends.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{Frame, Heading, Instant};

use super::reading::{Body, ChunkReading, Ends, Piece, Reading, read};
use super::unwrapped::Unwrapped;

/// A message that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageDelivery {
    /// Its stream (RFC 9260 section 1.3).
    pub stream: u16,
    /// When its first chunk was sent for the first time.
    pub sent: Instant,
    /// When the last of its chunks that was missing arrived.
    pub arrived: Instant,
    /// When the receiver could deliver it: at once, or after the messages before it in its stream.
    pub delivered: Instant,
}

/// Reads the DATA chunks that pass one node in one direction, each the first time that it does.
#[derive(Debug)]
pub struct DeliveryReader {
    heading: Heading,
    associations: BTreeMap<Ends, Pieces>,
}

/// The chunks of one direction of an association, by their distance from the first TSN that was seen.
#[derive(Debug)]
struct Pieces {
    tsns: Unwrapped,
    seen: BTreeMap<i64, (Instant, Piece)>,
}

impl DeliveryReader {
    /// A reader of what a node sends (outbound) or gets (inbound).
    pub fn new(heading: Heading) -> Self {
        Self { heading, associations: BTreeMap::new() }
    }

    /// The next frame, in the order of time. What is not SCTP's, or goes the other way, is passed over.
    pub fn take(&mut self, frame: &Frame<'_>) {
        if frame.heading != self.heading {
            return;
        }
        let Some(Reading { ends, body: Body::Sctp(chunks) }) = read(frame.bytes) else { return };
        for chunk in chunks {
            if let ChunkReading::Data(piece) = chunk {
                let new = || Pieces { tsns: Unwrapped::new(piece.tsn), seen: BTreeMap::new() };
                self.associations.entry(ends.key()).or_insert_with(new).take(frame.at, piece);
            }
        }
    }

    /// What became of the messages of the association of which `self`, at the sender, saw most chunks, and which `far`
    /// saw arrive; in the order in which they were sent. What did not arrive in time is not among them, nor is what
    /// waits for it.
    pub fn deliveries(&self, far: &Self) -> Vec<MessageDelivery> {
        let busiest = self.associations.iter().max_by_key(|(_, pieces)| pieces.seen.len());
        let both = busiest.and_then(|(ends, sent)| Some((sent, far.associations.get(ends)?)));
        both.map(|(sent, arrived)| sent.deliveries(arrived)).unwrap_or_default()
    }
}

impl Pieces {
    fn take(&mut self, at: Instant, piece: Piece) {
        let distance = self.tsns.distance(piece.tsn);
        self.tsns.reach(distance);
        self.seen.entry(distance).or_insert((at, piece));
    }

    fn deliveries(&self, arrived: &Self) -> Vec<MessageDelivery> {
        // The first TSN that was sent need not be the first that arrived.
        let apart = i64::from(arrived.tsns.base.offset_from(self.tsns.base));
        let arrival = |distance: i64| arrived.seen.get(&(distance - apart)).map(|(at, _)| *at);
        let mut deliveries = Vec::new();
        let (mut free_from, mut stuck) = (BTreeMap::<u16, Instant>::new(), BTreeSet::new());
        let mut under_way: Option<(Instant, Option<Instant>)> = None;
        for (distance, (at, piece)) in &self.seen {
            // RFC 9260 section 6.9: the pieces of a message have TSNs one after the other.
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
                    // RFC 9260 section 6.6: in the order of their stream.
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
