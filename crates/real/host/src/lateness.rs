//! A small histogram of delays, exact to 1/16.

use netrig_core::Duration;
use serde::{Deserialize, Serialize};

/// Buckets of equal width in each octave: a value is known to 1/16 of itself.
const PER_OCTAVE: u64 = 16;

/// A histogram of spans with a bounded number of buckets, each 1/16 of its value wide (below 16 ns each nanosecond has
/// its own).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Counts by [`bucket_of`].
    buckets: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Lateness {
    /// Counts one span.
    pub fn record(&mut self, late: Duration) {
        let bucket = bucket_of(late.as_nanos());
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(late.as_nanos());
    }

    /// How many spans were counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest span, exact; zero without spans.
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// The smallest span that at least the share `p` (0 to 1) of all do not exceed, rounded up to the end of its bucket but never
    /// beyond the longest; zero without spans.
    pub fn quantile(&self, p: f64) -> Duration {
        let wanted = (p * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= wanted {
                return Duration::from_nanos(last_of(bucket).min(self.max_ns));
            }
        }
        self.max()
    }

    /// The buckets that are not empty: the longest span of each and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (Duration::from_nanos(last_of(bucket)), *count))
    }
}

/// The bucket of a value: one for each value below 16, else by the highest bit and the next four bits.
fn bucket_of(nanos: u64) -> usize {
    let octave = nanos.checked_ilog2().unwrap_or(0).saturating_sub(PER_OCTAVE.ilog2());
    // At most 61 octaves of 16.
    (u64::from(octave) * PER_OCTAVE + (nanos >> octave)) as usize
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let octave = (bucket / PER_OCTAVE).saturating_sub(1);
    let first = (bucket - octave * PER_OCTAVE) << octave;
    first + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_and_is_known_to_a_sixteenth(nanos: u64) {
            let last = last_of(bucket_of(nanos));
            prop_assert!(last >= nanos);
            prop_assert!(last - nanos <= nanos / PER_OCTAVE);
            prop_assert!(nanos == 0 || bucket_of(last) == bucket_of(nanos));
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut lateness = Lateness::default();
        (1..=1000).for_each(|us| lateness.record(Duration::from_micros(us)));
        for (p, us) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let exact = Duration::from_micros(us);
            let got = lateness.quantile(p);
            assert!(got >= exact && (got - exact).as_nanos() <= exact.as_nanos() / 16, "{p}: {got:?}");
        }
        assert_eq!(lateness.max(), Duration::from_millis(1));
        assert_eq!(lateness.buckets().map(|(_, count)| count).sum::<u64>(), lateness.count());
    }

    #[test]
    fn of_nothing_everything_is_zero() {
        assert_eq!(Lateness::default().quantile(0.99), Duration::ZERO);
    }
}
