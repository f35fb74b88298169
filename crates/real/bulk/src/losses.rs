//! The loss pattern of a flow: which sequence numbers were lost, and their distances.

use netrig_core::counts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sequence number counts as lost if it has not arrived before a number that is higher by this value. The value is
/// twice the reordering of a path of 10 Gbit/s and 1 ms. It must be a power of two.
const WINDOW: u64 = 1 << 14;

counts! {
    /// Losses and loss periods: consecutive lost sequence numbers are one period (RFC 3357 section 4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LossPeriods {
        /// Lost sequence numbers.
        pub lost: u64,
        /// Loss periods.
        pub periods: u64,
        /// Losses in the longest period.
        pub longest: u64 as max,
        /// Losses at most [`NOTICEABLE`] after the previous loss (RFC 3357 section 5.1, "noticeable").
        pub noticeable: u64,
    }
}

/// A loss is noticeable if its distance from the previous loss is at most this many packets (RFC 3357 section 5.1:
/// delta).
pub const NOTICEABLE: u64 = 99;

/// Distinguishes losses from late arrivals, in bounded memory.
#[derive(Clone, Debug)]
pub(super) struct LossLog {
    /// Ring buffer with one bit for each number from `decided` on: whether the number has arrived.
    came: Vec<u64>,
    /// All numbers below this one are decided: they count as received or as lost.
    decided: u64,
    /// One more than the highest number that arrived.
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
    /// Records the arrival of a number.
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

    /// The counts so far. Numbers that may still arrive are not included.
    pub fn counts(&self) -> LossPeriods {
        self.counts
    }

    /// Ends the flow: no more numbers arrive. `sent` is the number of sent datagrams, if known.
    pub fn finish(&mut self, sent: Option<u64>) -> LossPeriods {
        self.decide_until(sent.map_or(self.next, |sent| sent.max(self.next)));
        self.counts
    }

    fn decide_until(&mut self, until: u64) {
        // No number beyond the ring buffer has arrived.
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

    /// Records `count` lost numbers from `first` on.
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

    /// The example of RFC 3357 section 6 with numbers from 0: the losses 5 and 6 are one period, the loss 9 is another
    /// period.
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
        // The number 1 arrives after the window, so it counts as lost.
        assert_eq!(of([0, 2 + WINDOW, 1], None).lost, WINDOW + 1);
    }

    #[test]
    fn a_loss_far_behind_the_one_before_is_not_noticeable() {
        let but = |lost: [u64; 2]| of((0..500).filter(|number| !lost.contains(number)), None).noticeable;
        assert_eq!(but([100, 199]), 1);
        assert_eq!(but([100, 200]), 0);
    }

    proptest! {
        /// Compares the counts with counts that are computed from the whole sequence in memory.
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
