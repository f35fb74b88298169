//! A log-linear histogram for millions of delays.

use serde::{Deserialize, Serialize};

use crate::Duration;

/// A histogram of spans. Each octave, from one power of two to the next, has `PER_OCTAVE` buckets of equal width;
/// `PER_OCTAVE` is a power of two. The width of a bucket is at most 1/`PER_OCTAVE` of its values, and below
/// `PER_OCTAVE` ns each nanosecond has its own bucket. Sum, minimum and maximum are exact.
///
/// The memory depends on the longest span. With 128 buckets per octave, it is 16 KB for 1 ms and 37 KB for a minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram<const PER_OCTAVE: u64 = 128> {
    buckets: Vec<u64>,
    count: u64,
    #[serde(default)]
    sum_ns: u128,
    #[serde(default)]
    min_ns: u64,
    max_ns: u64,
}

impl<const PER_OCTAVE: u64> Histogram<PER_OCTAVE> {
    /// Counts one span.
    pub fn record(&mut self, span: Duration) {
        let nanos = span.as_nanos();
        let bucket = Self::bucket_of(nanos);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.min_ns = if self.count == 0 { nanos } else { self.min_ns.min(nanos) };
        self.max_ns = self.max_ns.max(nanos);
        self.count += 1;
        self.sum_ns += u128::from(nanos);
    }

    /// Number of counted spans.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The exact shortest span. `None` if the histogram is empty.
    pub fn min(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.min_ns))
    }

    /// The exact longest span. `None` if the histogram is empty.
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.max_ns))
    }

    /// The mean, to a nanosecond. `None` if the histogram is empty.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_ns.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The sum of all spans, s.
    pub fn sum(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Number of spans longer than `most`, with the resolution of a bucket.
    pub fn above(&self, most: Duration) -> u64 {
        self.buckets.iter().skip(Self::bucket_of(most.as_nanos()) + 1).sum()
    }

    /// The smallest span that at least the share `p` (0 to 1) of all spans does not exceed. It is the middle of its
    /// bucket, but never outside the minimum and the maximum. `None` if the histogram is empty.
    pub fn quantile(&self, p: f64) -> Option<Duration> {
        if self.rank(p) >= self.count {
            return self.max();
        }
        let (first, last) = self.ends_at(p)?;
        Some(Duration::from_nanos(first.midpoint(last).clamp(self.min_ns, self.max_ns)))
    }

    /// As [`quantile`](Self::quantile), rounded up to the end of its bucket, but at most the longest span. Zero if the
    /// histogram is empty.
    pub fn quantile_at_most(&self, p: f64) -> Duration {
        Duration::from_nanos(self.ends_at(p).map_or(0, |(_, last)| last.min(self.max_ns)))
    }

    fn rank(&self, p: f64) -> u64 {
        (p * self.count as f64).ceil().max(1.0) as u64
    }

    /// The smallest and the largest value of the bucket of a quantile.
    fn ends_at(&self, p: f64) -> Option<(u64, u64)> {
        let (wanted, mut below) = (self.rank(p), 0);
        let reaches = |count: &u64| {
            below += count;
            below >= wanted
        };
        self.buckets.iter().position(reaches).map(Self::ends_of)
    }

    /// The index of a value's bucket. A value below `PER_OCTAVE` has its own bucket. For a larger value, the highest
    /// set bit and the log2(`PER_OCTAVE`) bits after it select the bucket.
    fn bucket_of(nanos: u64) -> usize {
        let octave = nanos.checked_ilog2().unwrap_or(0).saturating_sub(PER_OCTAVE.ilog2());
        // There are at most 64 octaves, so the index fits.
        (u64::from(octave) * PER_OCTAVE + (nanos >> octave)) as usize
    }

    /// The smallest and the largest value of a bucket.
    fn ends_of(bucket: usize) -> (u64, u64) {
        let bucket = bucket as u64;
        let octave = (bucket / PER_OCTAVE).saturating_sub(1);
        let first = (bucket - octave * PER_OCTAVE) << octave;
        (first, first + ((1 << octave) - 1))
    }
}

impl<const PER_OCTAVE: u64> std::ops::AddAssign<&Self> for Histogram<PER_OCTAVE> {
    fn add_assign(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, more)| *own += more);
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn narrow<const PER_OCTAVE: u64>(nanos: u64) -> Result<(), TestCaseError> {
        let (first, last) = Histogram::<PER_OCTAVE>::ends_of(Histogram::<PER_OCTAVE>::bucket_of(nanos));
        prop_assert!(first <= nanos && nanos <= last);
        prop_assert!(last - first <= nanos / PER_OCTAVE);
        Ok(())
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_which_is_narrow(nanos: u64) {
            narrow::<128>(nanos)?;
            narrow::<16>(nanos)?;
        }

        /// Any way of merging gives the histogram of all spans.
        #[test]
        fn parts_make_the_whole(spans in proptest::collection::vec(0..10_000_000_000_u64, 0..200), cut in 0..200_usize) {
            let of = |spans: &[u64]| {
                let mut all = Histogram::<128>::default();
                spans.iter().for_each(|nanos| all.record(Duration::from_nanos(*nanos)));
                all
            };
            let (left, right) = spans.split_at(cut.min(spans.len()));
            for (first, second) in [(left, right), (right, left)] {
                let mut merged = of(first);
                merged += &of(second);
                prop_assert_eq!(&merged, &of(&spans));
            }
        }
    }

    #[test]
    fn what_is_above_a_bound_is_counted() {
        let mut spans = Histogram::<128>::default();
        (1..=100).for_each(|ms| spans.record(Duration::from_millis(ms)));
        assert_eq!(spans.sum(), 5.05);
        assert_eq!([0, 50, 100].map(|ms| spans.above(Duration::from_millis(ms))), [100, 50, 0]);
    }

    #[test]
    fn quantiles_of_a_histogram_are_those_of_the_values() {
        let mut all = Histogram::<128>::default();
        (1..=10_000).for_each(|us| all.record(Duration::from_micros(us)));
        for (p, us) in [(0.5, 5000.0), (0.95, 9500.0), (0.99, 9900.0), (0.999, 9990.0)] {
            let got = all.quantile(p).unwrap().as_secs_f64() * 1e6;
            assert!((got / us - 1.0).abs() <= 1.0 / 256.0, "{p}: {got}");
        }
        // Ten spans from 11 to 20 ms. The quantiles equal RFC 2330's percentiles within 1/256.
        let mut ten = Histogram::<128>::default();
        (11..=20).for_each(|ms| ten.record(Duration::from_millis(ms)));
        for (p, ms) in [(0.25, 13.0), (0.5, 15.0), (0.9, 19.0), (0.95, 20.0)] {
            let got = ten.quantile(p).unwrap().as_secs_f64() * 1e3;
            assert!((got / ms - 1.0).abs() <= 1.0 / 256.0, "{p}: {got}");
        }
        assert_eq!(all.quantile(1.0).unwrap(), all.max().unwrap());
        assert_eq!([all.min(), all.max()], [1, 10_000].map(|us| Some(Duration::from_micros(us))));
        assert_eq!(all.mean(), Some(Duration::from_nanos(5_000_500)));
    }

    #[test]
    fn of_nothing_there_is_nothing() {
        let none = Histogram::<128>::default();
        assert_eq!([none.quantile(0.5), none.mean(), none.min(), none.max()], [None; 4]);
    }
}
