//! Which datagrams of a flow have arrived, how often and in which order.

use serde::{Deserialize, Serialize};

/// Number of datagrams whose arrival is remembered. Older datagrams are counted as stale. The number is a power of two.
const WINDOW: u64 = 1 << 17;

/// A sequence number this far ahead of the expected number does not belong to the flow, because no flow continues after
/// a million consecutive losses.
const FARTHEST: u64 = 1 << 20;

/// Counts of a flow's datagrams at its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalCounts {
    /// Received datagrams, without duplicates.
    pub received: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// Datagrams that arrived after one with a higher number (RFC 4737 section 3.3: type-P-reordered).
    pub reordered: u64,
    /// Datagrams that arrived so late that duplicates cannot be recognised. They count as lost.
    pub stale: u64,
    /// One more than the highest sequence number that arrived.
    pub expected: u64,
}

impl ArrivalCounts {
    /// Number of missing datagrams below the highest received sequence number.
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// Classification of one arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalKind {
    /// The first arrival of this sequence number.
    First,
    /// A repeated arrival of this sequence number.
    Duplicate,
    /// Too late to distinguish a first arrival from a duplicate.
    Stale,
    /// The flow cannot have reached this sequence number.
    Foreign,
}

/// Distinguishes first arrivals from duplicates, in bounded memory.
#[derive(Debug)]
pub struct ArrivalLog {
    seen: Vec<u64>,
    counts: ArrivalCounts,
}

impl Default for ArrivalLog {
    fn default() -> Self {
        Self { seen: vec![0; (WINDOW / 64) as usize], counts: ArrivalCounts::default() }
    }
}

impl ArrivalLog {
    /// Records the arrival of datagram `number`, from 0.
    pub fn arrived(&mut self, number: u64) -> ArrivalKind {
        let next = self.counts.expected;
        if number >= next {
            if number - next >= FARTHEST {
                return ArrivalKind::Foreign;
            }
            self.advance(next, number);
        } else if next - number > WINDOW {
            self.counts.stale += 1;
            return ArrivalKind::Stale;
        }
        let (word, bit) = place(number);
        if self.seen[word] & bit != 0 {
            self.counts.duplicated += 1;
            return ArrivalKind::Duplicate;
        }
        self.seen[word] |= bit;
        self.counts.received += 1;
        // RFC 4737 section 3.3: a datagram is reordered if its number is smaller than the next expected number.
        self.counts.reordered += u64::from(number < next);
        ArrivalKind::First
    }

    /// Clears the bits of the numbers from `next` to `number`.
    fn advance(&mut self, next: u64, number: u64) {
        if number - next >= WINDOW {
            self.seen.fill(0);
        } else {
            for fresh in next..=number {
                let (word, bit) = place(fresh);
                self.seen[word] &= !bit;
            }
        }
        self.counts.expected = number + 1;
    }

    /// The counts so far.
    pub const fn counts(&self) -> ArrivalCounts {
        self.counts
    }
}

/// The index of the word and the bit in that word for a number.
const fn place(number: u64) -> (usize, u64) {
    (((number % WINDOW) / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the counts with those of a log with unbounded memory.
        #[test]
        fn counts_are_those_of_an_unbounded_log(numbers in proptest::collection::vec(0..200_u64, 0..400)) {
            let mut log = ArrivalLog::default();
            let (mut seen, mut duplicated, mut reordered) = (BTreeSet::new(), 0, 0);
            for number in numbers {
                let late = seen.last().is_some_and(|last| number < *last);
                let first = seen.insert(number);
                duplicated += u64::from(!first);
                reordered += u64::from(first && late);
                prop_assert_eq!(log.arrived(number), if first { ArrivalKind::First } else { ArrivalKind::Duplicate });
            }
            let expected = seen.last().map_or(0, |last| last + 1);
            let received = seen.len() as u64;
            prop_assert_eq!(log.counts(), ArrivalCounts { received, duplicated, reordered, stale: 0, expected });
            prop_assert_eq!(log.counts().lost(), expected - received);
        }

        #[test]
        fn no_numbers_break_it(numbers in proptest::collection::vec(any::<u64>(), 0..100)) {
            let mut log = ArrivalLog::default();
            numbers.into_iter().for_each(|number| { log.arrived(number); });
            prop_assert!(log.counts().received <= log.counts().expected);
        }
    }

    /// Like the example of RFC 4737 section 3.3: in the sequence 1, 2, 3, 7, 8, 4, 5, 6, 9, three packets are
    /// reordered.
    #[test]
    fn late_ones_are_reordered_and_early_ones_are_not() {
        let mut log = ArrivalLog::default();
        for number in [1, 2, 3, 7, 8, 4, 5, 6, 9] {
            log.arrived(number - 1);
        }
        assert_eq!((log.counts().reordered, log.counts().lost()), (3, 0));
    }

    #[test]
    fn what_is_older_than_the_window_is_stale() {
        let mut log = ArrivalLog::default();
        for number in (1..3 * WINDOW).filter(|number| *number != 2 * WINDOW) {
            assert_eq!(log.arrived(number), ArrivalKind::First);
        }
        assert_eq!(log.arrived(0), ArrivalKind::Stale);
        assert_eq!(log.arrived(2 * WINDOW), ArrivalKind::First);
        assert_eq!(log.arrived(2 * WINDOW), ArrivalKind::Duplicate);
        assert_eq!(log.arrived(u64::MAX), ArrivalKind::Foreign);
        assert_eq!(log.counts().lost(), 1);
    }
}
