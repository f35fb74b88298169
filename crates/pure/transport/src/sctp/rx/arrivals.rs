//! Received TSNs (RFC 9260 sections 6.2 and 6.7).

use smallvec::SmallVec;

use crate::Serial;
use crate::sctp::packet::chunk::GapBlock;

/// Class of a received TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TsnArrival {
    /// The next expected TSN.
    Next,
    /// A new TSN beyond a gap.
    Beyond,
    /// A TSN that was received before.
    Duplicate,
    /// A TSN that is too far from the cumulative TSN for a gap block.
    TooFar,
}

/// First and last TSN of a block.
type Block = (Serial, Serial);

/// The cumulative TSN, the TSNs received beyond it, and duplicates.
#[derive(Debug)]
pub(crate) struct TsnArrivals {
    cumulative: Serial,
    /// In ascending order. At least one TSN is missing between two blocks, and between `cumulative` and the first
    /// block.
    blocks: Vec<Block>,
    duplicates: Vec<Serial>,
}

/// Largest number of duplicates that are stored. More do not fit a packet.
const MOST_DUPLICATES: usize = 256;

impl TsnArrivals {
    pub(crate) const fn new(initial_tsn: Serial) -> Self {
        Self { cumulative: initial_tsn.plus(u32::MAX), blocks: Vec::new(), duplicates: Vec::new() }
    }

    pub(crate) const fn cumulative(&self) -> Serial {
        self.cumulative
    }

    /// Whether a TSN is missing below a received one.
    pub(crate) const fn has_gaps(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Classifies `tsn` without recording it.
    pub(crate) fn judge(&self, tsn: Serial) -> TsnArrival {
        match tsn.offset_from(self.cumulative) {
            ..=0 => TsnArrival::Duplicate,
            1 => TsnArrival::Next,
            // The distances in gap blocks have 16 bits.
            65_536.. => TsnArrival::TooFar,
            distance => {
                let starts_by = |(first, _): &Block| first.offset_from(self.cumulative) <= distance;
                match self.blocks[..self.blocks.partition_point(starts_by)].last() {
                    Some((_, last)) if tsn.at_or_before(*last) => TsnArrival::Duplicate,
                    _ => TsnArrival::Beyond,
                }
            }
        }
    }

    /// Records a TSN that [`TsnArrivals::judge`] classified as `Next` or `Beyond`.
    pub(crate) fn insert(&mut self, tsn: Serial) {
        if tsn == self.cumulative.plus(1) {
            self.cumulative = tsn;
            if self.blocks.first().is_some_and(|(first, _)| *first == tsn.plus(1)) {
                self.cumulative = self.blocks.remove(0).1;
            }
            return;
        }
        // A new TSN usually belongs at the end.
        let at = self.blocks.iter().rposition(|(first, _)| first.before(tsn)).map_or(0, |i| i + 1);
        let joins_before = at > 0 && self.blocks[at - 1].1.plus(1) == tsn;
        let joins_after = self.blocks.get(at).is_some_and(|(first, _)| tsn.plus(1) == *first);
        match (joins_before, joins_after) {
            (true, true) => self.blocks[at - 1].1 = self.blocks.remove(at).1,
            (true, false) => self.blocks[at - 1].1 = tsn,
            (false, true) => self.blocks[at].0 = tsn,
            (false, false) => self.blocks.insert(at, (tsn, tsn)),
        }
    }

    pub(crate) fn note_duplicate(&mut self, tsn: Serial) {
        if self.duplicates.len() < MOST_DUPLICATES {
            self.duplicates.push(tsn);
        }
    }

    /// The first `most` gap blocks for a SACK.
    pub(crate) fn gaps(&self, most: usize) -> SmallVec<[GapBlock; 4]> {
        let distance = |tsn: Serial| tsn.offset_from(self.cumulative) as u16;
        self.blocks
            .iter()
            .take(most)
            .map(|(first, last)| GapBlock { start: distance(*first), end: distance(*last) })
            .collect()
    }

    /// At most `most` of the duplicates since the last call. The others are dropped.
    pub(crate) fn take_duplicates(&mut self, most: usize) -> Vec<Serial> {
        let mut duplicates = std::mem::take(&mut self.duplicates);
        duplicates.truncate(most);
        duplicates
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the TSNs with a plain set of offsets. The TSNs may wrap around.
        #[test]
        fn like_a_set(offsets in proptest::collection::vec(0u32..60, 1..200), start in prop_oneof![Just(0u32), Just(u32::MAX - 30), any::<u32>()]) {
            let mut arrivals = TsnArrivals::new(Serial(start));
            let mut set = BTreeSet::new();
            for offset in offsets {
                let tsn = Serial(start).plus(offset);
                let arrival = arrivals.judge(tsn);
                let new = set.insert(offset);
                prop_assert_eq!(arrival != TsnArrival::Duplicate, new);
                if new {
                    arrivals.insert(tsn);
                } else {
                    arrivals.note_duplicate(tsn);
                }
                let cumulative = (0..).find(|n| !set.contains(n)).unwrap_or(0);
                prop_assert_eq!(arrivals.cumulative(), Serial(start).plus(cumulative).plus(u32::MAX));
                let mut named = BTreeSet::new();
                for gap in arrivals.gaps(usize::MAX) {
                    prop_assert!(gap.start >= 2 && gap.start <= gap.end);
                    named.extend((gap.start..=gap.end).map(|distance| cumulative + u32::from(distance) - 1));
                }
                prop_assert_eq!(named, set.iter().copied().filter(|n| *n > cumulative).collect::<BTreeSet<_>>());
            }
        }
    }

    #[test]
    fn what_no_gap_block_can_name_is_refused() {
        let arrivals = TsnArrivals::new(Serial(100));
        assert_eq!(arrivals.judge(Serial(99 + 65_535)), TsnArrival::Beyond);
        assert_eq!(arrivals.judge(Serial(99 + 65_536)), TsnArrival::TooFar);
    }
}
