//! The pattern of losses: which numbers of a sequence never came, and how they lie beside each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number that has not come when so many higher ones have is taken for lost. Twice what a path reorders by at 10 Gbit/s and
/// 1 ms. A power of two.
const WINDOW: u64 = 1 << 14;

/// Losses and their periods: losses of neighbouring numbers are one (RFC 3357 section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossPeriods {
    /// Numbers that never came.
    pub lost: u64,
    /// Periods of losses.
    pub periods: u64,
    /// Losses in the longest period.
    pub longest: u64,
    /// Losses that lie no more than [`NOTICEABLE`] behind another one (RFC 3357 section 5.1, "noticeable").
    pub noticeable: u64,
}

/// The distance from the loss before up to which a loss is noticeable (RFC 3357 section 5.1: delta), packets.
pub const NOTICEABLE: u64 = 99;

/// Tells losses from what is late, in bounded memory.
#[derive(Clone, Debug)]
pub(super) struct LossLog {
    /// Whether the numbers from `decided` on have come, in a ring.
    came: Vec<u64>,
    /// All numbers below have been decided about.
    decided: u64,
    /// One more than the highest that came.
    next: u64,
    last_lost: Option<u64>,
    period: u64,
    counts: LossPeriods,
}

impl Default for LossLog {
    fn default() -> Self {
        Self {
            came: vec![0; (WINDOW / 64) as usize],
            decided: 0,
            next: 0,
            last_lost: None,
            period: 0,
            counts: LossPeriods::default(),
        }
    }
}

impl LossLog {
    /// A number came.
    pub fn came(&mut self, number: u64) {
        if number < self.decided {
            return;
        }
        if number >= self.decided + WINDOW {
            self.decide_until(number + 1 - WINDOW);
        }
        self.next = self.next.max(number + 1);
        let (word, bit) = place(number);
        self.came[word] |= bit;
    }

    /// So far. What is underway counts as neither.
    pub fn counts(&self) -> LossPeriods {
        self.counts
    }

    /// All that came has come, of `sent` numbers if that is known.
    pub fn finish(&mut self, sent: Option<u64>) -> LossPeriods {
        self.decide_until(sent.map_or(self.next, |sent| sent.max(self.next)));
        self.counts
    }

    fn decide_until(&mut self, until: u64) {
        // Beyond what the ring holds nothing has come.
        let held = until.min(self.decided + WINDOW);
        while self.decided < held {
            let (word, bit) = place(self.decided);
            let came = self.came[word] & bit != 0;
            self.came[word] &= !bit;
            if came {
                self.period = 0
            } else {
                self.lost(self.decided, 1)
            }
            self.decided += 1;
        }
        if until > self.decided {
            self.lost(self.decided, until - self.decided);
            self.decided = until;
        }
    }

    /// So many numbers from `first` on are lost.
    fn lost(&mut self, first: u64, count: u64) {
        self.counts.lost += count;
        self.counts.periods += u64::from(self.period == 0);
        self.period += count;
        self.counts.longest = self.counts.longest.max(self.period);
        let near = self.last_lost.is_some_and(|last| first - last <= NOTICEABLE);
        self.counts.noticeable += u64::from(near) + count - 1;
        self.last_lost = Some(first + count - 1);
    }
}

const fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(came: impl IntoIterator<Item = u64>, sent: Option<u64>) -> LossPeriods {
        let mut log = LossLog::default();
        came.into_iter().for_each(|number| log.came(number));
        log.finish(sent)
    }

    /// RFC 3357 section 6: of 1 to 9, those with the numbers 5, 6 and 9 … here counted from 0: two periods, and the last one a
    /// single loss.
    #[test]
    fn neighbours_are_one_period() {
        let counts = of([0, 1, 2, 3, 4, 7, 8], Some(10));
        assert_eq!(counts, LossPeriods { lost: 3, periods: 2, longest: 2, noticeable: 2 });
    }

    #[test]
    fn what_comes_late_is_not_lost() {
        assert_eq!(of([0, 3, 1, 2, 4], None), LossPeriods::default());
        let far = of([0, 2 * WINDOW], None);
        assert_eq!((far.lost, far.periods, far.longest), (2 * WINDOW - 1, 1, 2 * WINDOW - 1));
        // Too late to be told from a loss.
        assert_eq!(of([0, 2 + WINDOW, 1], None).lost, WINDOW + 1);
    }

    #[test]
    fn a_loss_far_behind_the_one_before_is_not_noticeable() {
        let but = |lost: [u64; 2]| of((0..500).filter(|number| !lost.contains(number)), None).noticeable;
        assert_eq!(but([100, 199]), 1);
        assert_eq!(but([100, 200]), 0);
    }

    proptest! {
        /// Against what is counted with all of it in memory.
        #[test]
        fn counts_are_those_of_the_whole_sequence(
            lost in proptest::collection::btree_set(0..3000_u64, 0..200),
            swaps in proptest::collection::vec((0..2990_usize, 1..9_usize), 0..50),
        ) {
            let mut came: Vec<_> = (0..3000).filter(|number| !lost.contains(number)).collect();
            for (at, by) in swaps {
                if at + by < came.len() { came.swap(at, at + by); }
            }
            let counts = of(came, Some(3000));
            let starts = lost.iter().filter(|number| **number == 0 || !lost.contains(&(*number - 1)));
            let lost_in_order: Vec<_> = lost.iter().copied().collect();
            let near = lost_in_order.windows(2).filter(|pair| pair[1] - pair[0] <= NOTICEABLE).count();
            prop_assert_eq!(counts.lost, lost.len() as u64);
            prop_assert_eq!(counts.periods, starts.count() as u64);
            prop_assert_eq!(counts.noticeable, near as u64);
        }
    }
}
