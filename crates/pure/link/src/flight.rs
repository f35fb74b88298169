//! Packets on the line in the order of their arrival.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use netrig_core::{DropReason, Instant};

/// A packet on the line.
#[derive(Clone, Debug)]
pub(crate) struct Flying<P> {
    /// Arrival at the far end.
    pub(crate) at: Instant,
    /// The reason if the packet is dropped at the far end.
    pub(crate) lost: Option<DropReason>,
    pub(crate) packet: P,
}

/// Packets on the line. Packets that arrive in the order of sending are in a plain queue. Jitter or a shorter delay may
/// let packets overtake; these packets are few and are kept in a heap.
///
/// If two packets arrive at the same moment, the packet that was sent first comes first. If one is in the queue and the
/// other in the heap, the packet in the queue was sent first: a packet goes into the heap only if it arrives *before*
/// the last packet of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Flight<P> {
    in_order: VecDeque<Flying<P>>,
    /// Arrival of the last packet that was added to `in_order`.
    latest: Instant,
    overtaking: BinaryHeap<Overtaking<P>>,
    /// Number of packets that have overtaken since the start. It orders ties in the heap by the time of sending.
    overtaken: u64,
}

impl<P> Flight<P> {
    pub(crate) fn new() -> Self {
        Self { in_order: VecDeque::new(), latest: Instant::ZERO, overtaking: BinaryHeap::new(), overtaken: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, flying: Flying<P>) {
        if self.latest <= flying.at || self.in_order.is_empty() {
            self.latest = flying.at;
            self.in_order.push_back(flying);
        } else {
            self.overtake(flying);
        }
    }

    #[cold]
    #[inline(never)]
    fn overtake(&mut self, flying: Flying<P>) {
        self.overtaken += 1;
        self.overtaking.push(Overtaking { number: self.overtaken, flying });
    }

    /// Arrival of the next packet.
    #[inline]
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        let head = self.in_order.front().map(|flying| flying.at);
        match self.overtaking.peek() {
            None => head,
            Some(first) => Some(head.map_or(first.flying.at, |at| at.min(first.flying.at))),
        }
    }

    /// The next packet, if it arrives by `now`.
    #[inline]
    pub(crate) fn pop_by(&mut self, now: Instant) -> Option<Flying<P>> {
        if !self.overtaking.is_empty() {
            return self.pop_either_by(now);
        }
        self.in_order.pop_front_if(|flying| flying.at <= now)
    }

    #[cold]
    #[inline(never)]
    fn pop_either_by(&mut self, now: Instant) -> Option<Flying<P>> {
        let head = self.in_order.front().map(|flying| flying.at);
        match self.overtaking.peek() {
            Some(first) if first.flying.at <= now && head.is_none_or(|head| first.flying.at < head) => {
                self.overtaking.pop().map(|first| first.flying)
            }
            _ => self.in_order.pop_front_if(|flying| flying.at <= now),
        }
    }

    /// Removes all packets that would arrive after `now`, and passes them to `lost` in the order of their arrival.
    pub(crate) fn cut(&mut self, now: Instant, mut lost: impl FnMut(P)) {
        let mut arrived: VecDeque<Flying<P>> = VecDeque::new();
        while let Some(flying) = self.pop_by(Instant::NEVER) {
            if flying.at <= now {
                arrived.push_back(flying);
            } else {
                lost(flying.packet);
            }
        }
        self.latest = arrived.back().map_or(Instant::ZERO, |flying| flying.at);
        self.in_order = arrived;
    }
}

#[derive(Clone, Debug)]
struct Overtaking<P> {
    number: u64,
    flying: Flying<P>,
}

impl<P> Overtaking<P> {
    fn key(&self) -> (Instant, u64) {
        (self.flying.at, self.number)
    }
}

impl<P> PartialEq for Overtaking<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Overtaking<P> {}

impl<P> PartialOrd for Overtaking<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Overtaking<P> {
    /// The order is reversed, because the heap returns its greatest element and the earliest packet is needed.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a stable sort, which keeps ties in the order of sending. Packets are added and removed in
        /// random order.
        #[test]
        fn arrivals_are_sorted_and_ties_keep_the_order_of_sending(
            steps in prop::collection::vec((0u64..30, any::<bool>()), 1..200),
        ) {
            let (mut flight, mut model, mut now) = (Flight::new(), Vec::new(), 0);
            for (number, (ahead, pop)) in steps.into_iter().enumerate() {
                let at = now + ahead;
                flight.push(Flying { at: Instant::from_nanos(at), lost: None, packet: number });
                model.push((at, number));
                model.sort_by_key(|(at, _)| *at);
                if pop {
                    prop_assert_eq!(flight.next_arrival(), model.first().map(|(at, _)| Instant::from_nanos(*at)));
                    now = model[0].0;
                    let popped = flight.pop_by(Instant::from_nanos(now)).map(|f| (f.at.as_nanos(), f.packet));
                    prop_assert_eq!(popped, Some(model.remove(0)));
                }
                prop_assert_eq!(flight.len(), model.len());
            }
            let mut lost = Vec::new();
            flight.cut(Instant::from_nanos(now + 5), |packet| lost.push(packet));
            let kept = model.iter().filter(|(at, _)| *at <= now + 5).count();
            prop_assert_eq!(flight.len(), kept);
            prop_assert_eq!(lost, model[kept..].iter().map(|(_, number)| *number).collect::<Vec<_>>());
        }
    }
}
