//! Merges: several lines that feed the same line.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use netrig_core::{Duration, Instant};

use crate::actor::Actor;
use crate::agenda::Agenda;
use crate::parcel::Parcel;

/// A packet that precedes at most this many packets of the list is inserted into the list. Any other early packet goes
/// into a heap.
const NEAR: usize = 16;

/// A packet that a line has accepted, and that a merge forwards to the target.
pub(crate) struct MergingPacket {
    /// When it leaves the line.
    pub at: Instant,
    /// The later of the time of its offer and the arrival of the preceding packet. It decides the order of packets with
    /// the same `at`.
    pub since: Instant,
    pub parcel: Parcel,
    /// The number of the line that it leaves.
    pub line: u32,
    /// The index of that line in the network's list of stops.
    pub stop: u32,
    pub ip_len: u32,
}

impl MergingPacket {
    /// The order in which separate entries of the agenda would be taken. No two packets leave the same line at the same
    /// time.
    #[inline(always)]
    fn key(&self) -> (Instant, Instant, u32) {
        (self.at, self.since, self.line)
    }
}

impl PartialEq for MergingPacket {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for MergingPacket {}

impl PartialOrd for MergingPacket {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MergingPacket {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// A merge of several lines, the feeders, into one line, the target.
///
/// A packet that enters the target leaves it at least one delay of the target later. The merge therefore does not need
/// an entry of the agenda for each packet: it collects the packets of a whole delay, and forwards them just before the
/// first of them can leave the target. They are forwarded in the order in which separate entries would be taken. All
/// packets of that period are known then, because the feeders have accepted them.
pub(crate) struct Merge {
    /// The number of the target line.
    pub target: u32,
    /// The numbers of the lines that feed the target.
    pub feeders: Vec<u32>,
    /// All packets except those in `early`, in order.
    packets: VecDeque<MergingPacket>,
    /// Packets that precede many packets of `packets`, for example because the queues of the feeders have different
    /// lengths.
    early: BinaryHeap<Reverse<MergingPacket>>,
    /// The delay of the target minus one nanosecond.
    holding_time: Duration,
    /// The times of its entries of the agenda, in descending order.
    entries: Vec<Instant>,
}

impl Merge {
    /// Smallest delay of a target. With a delay of 1 ns, the entry of the agenda would be at the time of the first
    /// packet, and would forward none.
    pub const LEAST_DELAY: Duration = Duration::from_nanos(2);

    /// A merge into the line `target` with delay `delay`, at least [`Merge::LEAST_DELAY`].
    pub fn new(target: u32, delay: Duration) -> Self {
        Self {
            target,
            feeders: Vec::new(),
            packets: VecDeque::new(),
            early: BinaryHeap::new(),
            holding_time: Duration::from_nanos(delay.as_nanos() - 1),
            entries: Vec::new(),
        }
    }

    /// Inserts a packet in the order of time. Most packets are appended.
    #[inline(always)]
    pub fn enter(&mut self, packet: MergingPacket) {
        if self.packets.back().is_none_or(|last| *last < packet) {
            self.packets.push_back(packet);
        } else {
            self.enter_before(packet);
        }
    }

    #[inline(never)]
    fn enter_before(&mut self, packet: MergingPacket) {
        let near = self.packets.iter().rev().take(NEAR);
        match near.enumerate().find(|(_, other)| **other < packet) {
            Some((after, _)) => self.packets.insert(self.packets.len() - after, packet),
            None if self.packets.len() < NEAR => self.packets.push_front(packet),
            None => self.early.push(Reverse(packet)),
        }
    }

    /// Takes the first packet if it leaves its line before `until`.
    #[inline(always)]
    pub fn next_before(&mut self, until: Instant) -> Option<MergingPacket> {
        if !self.early.is_empty()
            && let Some(packet) = self.next_early(until)
        {
            return Some(packet);
        }
        self.packets.pop_front_if(|first| first.at < until)
    }

    /// Takes the first packet of `early` if it is before `until` and before all of `packets`.
    #[inline(never)]
    fn next_early(&mut self, until: Instant) -> Option<MergingPacket> {
        let Reverse(early) = self.early.peek()?;
        let is_first = self.packets.front().is_none_or(|first| early < first);
        if is_first && early.at < until { self.early.pop().map(|Reverse(packet)| packet) } else { None }
    }

    /// Removes the earliest entry of the agenda, which is due now.
    pub fn met(&mut self) {
        self.entries.pop();
    }

    /// Makes an entry of the agenda for the next packets, unless an earlier entry exists. `number` is the number of
    /// this merge.
    #[inline(always)]
    pub fn reappoint(&mut self, number: u32, agenda: &mut Agenda) {
        let early = self.early.peek().map(|Reverse(packet)| packet.at);
        let Some(first) = self.packets.front().map(|first| first.at).into_iter().chain(early).min() else {
            return;
        };
        let at = first + self.holding_time;
        if self.entries.last().is_none_or(|next| at < *next) {
            self.entries.push(at);
            agenda.enter(at, Actor::Merge(number));
        }
    }

    /// Number of packets in the merge.
    pub fn len(&self) -> usize {
        self.packets.len() + self.early.len()
    }

    /// Memory of the records of its packets, bytes.
    pub fn bytes(&self) -> usize {
        (self.packets.capacity() + self.early.capacity()) * size_of::<MergingPacket>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parcel::Carriage;

    proptest! {
        /// Compares with a stable sort by time. Some packets are much earlier than packets that were added before them.
        #[test]
        fn packets_go_on_in_the_order_of_their_moments(
            steps in prop::collection::vec((prop_oneof![0u64..20, 0u64..2000], 0u64..3, any::<bool>()), 1..400),
        ) {
            let mut merge = Merge::new(0, Merge::LEAST_DELAY);
            let (mut model, mut now) = (Vec::new(), 0);
            for (line, (ahead, since, take)) in (0..).zip(steps) {
                let (at, since) = (Instant::from_nanos(now + ahead), Instant::from_nanos(since));
                merge.enter(MergingPacket { at, since, parcel: Parcel(Carriage::vacant()), line, stop: 0, ip_len: 40 });
                model.push((at, since, line));
                if take {
                    model.sort();
                    let until = model[0].0 + Duration::from_nanos(1);
                    while model.first().is_some_and(|(at, ..)| *at < until) {
                        let taken = merge.next_before(until).map(|packet| packet.key());
                        prop_assert_eq!(taken, Some(model.remove(0)));
                    }
                    prop_assert!(merge.next_before(until).is_none());
                    now = until.as_nanos();
                }
                prop_assert_eq!(merge.len(), model.len());
            }
        }
    }

    #[test]
    fn a_packet_that_waits_long_has_one_entry() {
        let (mut merge, mut agenda) = (Merge::new(0, Duration::from_millis(1)), Agenda::default());
        let packet = |line, millis| MergingPacket {
            at: Instant::from_nanos(1_000_000 * millis),
            since: Instant::ZERO,
            parcel: Parcel(Carriage::vacant()),
            line,
            stop: 0,
            ip_len: 40,
        };
        merge.enter(packet(0, 1_000_000));
        merge.reappoint(0, &mut agenda);
        for millis in 1..100 {
            merge.enter(packet(1, millis));
            merge.reappoint(0, &mut agenda);
            let (now, actor) = agenda.next(Instant::NEVER).unwrap();
            assert_eq!((now.as_nanos(), actor), (1_000_000 * (millis + 1) - 1, Actor::Merge(0)));
            merge.met();
            assert!(merge.next_before(now).is_some() && merge.next_before(now).is_none());
            merge.reappoint(0, &mut agenda);
        }
        assert!(agenda.next(Instant::NEVER).is_some());
        assert_eq!(agenda.next(Instant::NEVER), None);
    }
}
