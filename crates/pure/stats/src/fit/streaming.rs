//! Goodness-of-fit statistics for streams of values in bounded memory, such as the values of a source that sends for
//! hours.

/// Counts values in parts that have equal probability in a given distribution. The error of the Kolmogorov-Smirnov
/// distance from this distribution is at most the probability of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistanceFrom {
    parts: Vec<u64>,
    count: u64,
}

impl DistanceFrom {
    /// Counts values in `parts` parts, at least one. 8192 parts take 64 KiB.
    #[must_use]
    pub fn in_parts(parts: usize) -> Self {
        Self { parts: vec![0; parts.max(1)], count: 0 }
    }

    /// Counts a value. `probability` is the value of the given distribution function at this value, 0 to 1. A number
    /// outside 0 to 1 counts as the nearest end.
    pub fn add(&mut self, probability: f64) {
        let place = (probability * self.parts.len() as f64) as usize;
        let last = self.parts.len() - 1;
        self.parts[place.min(last)] += 1;
        self.count += 1;
    }

    /// The largest distance between the counted and the given distribution function, at the borders of the parts.
    /// `None` without values.
    #[must_use]
    pub fn distance(&self) -> Option<f64> {
        let (mut below, mut largest) = (0, 0.0_f64);
        for (part, count) in self.parts.iter().enumerate() {
            // The distances at the lower and at the upper border of the part.
            let given = [part, part + 1].map(|border| border as f64 / self.parts.len() as f64);
            let before = below as f64 / self.count as f64;
            below += count;
            let behind = below as f64 / self.count as f64;
            largest = largest.max((before - given[0]).abs()).max((behind - given[1]).abs());
        }
        (self.count > 0).then_some(largest)
    }
}

/// Mean, coefficient of variation and lag-1 autocorrelation of a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunningMoments {
    count: u64,
    /// The first value. All sums are of differences from it, which keeps them small.
    origin: f64,
    last: f64,
    sum: f64,
    squares: f64,
    products: f64,
}

impl RunningMoments {
    /// Adds the next value.
    pub fn add(&mut self, value: f64) {
        if self.count == 0 {
            self.origin = value;
        }
        let value = value - self.origin;
        self.products += self.last * value;
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        self.last = value;
    }

    /// Number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Standard deviation divided by mean. `None` for fewer than two values or a mean that is not above zero.
    #[must_use]
    pub fn variation(&self) -> Option<f64> {
        let n = self.count as f64;
        let mean = self.origin + self.sum / n;
        let variance = (self.squares - self.sum * self.sum / n) / (n - 1.0);
        (self.count >= 2 && mean > 0.0).then(|| variance.max(0.0).sqrt() / mean)
    }

    /// The sample autocorrelation at lag 1, in -1..=1: the sum of products of consecutive deviations from the mean,
    /// divided by the sum of their squares (Box, Jenkins and Reinsel, *Time Series Analysis*, 4th ed., section 2.1.5).
    /// `None` for fewer than three values or for equal values.
    #[must_use]
    pub fn lag1_correlation(&self) -> Option<f64> {
        let n = self.count as f64;
        let mean = self.sum / n;
        let squares = self.squares - n * mean * mean;
        // Every value except the first, which is stored as zero, is the second of a pair. Every value except the last
        // is the first of a pair.
        let pairs = (self.sum - self.last) + self.sum;
        let products = self.products - mean * pairs + (n - 1.0) * mean * mean;
        (self.count >= 3 && squares > 0.0).then(|| products / squares)
    }
}

/// Counts events in windows of equal length.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowCounts {
    length: f64,
    first: Option<f64>,
    present: u64,
    in_present: u64,
    sum: f64,
    squares: f64,
}

impl WindowCounts {
    /// Counts in windows of this length, in the unit of the times. The first window begins with the first event.
    #[must_use]
    pub const fn of_length(length: f64) -> Self {
        Self { length, first: None, present: 0, in_present: 0, sum: 0.0, squares: 0.0 }
    }

    /// Counts an event at `at`, which must not lie before the previous event.
    pub fn add(&mut self, at: f64) {
        let window = ((at - *self.first.get_or_insert(at)) / self.length) as u64;
        if window > self.present {
            let count = self.in_present as f64;
            self.sum += count;
            self.squares += count * count;
            self.present = window;
            self.in_present = 0;
        }
        self.in_present += 1;
    }

    /// The index of dispersion of the complete windows, including those without an event: variance divided by mean,
    /// which is 1 for Poisson counts. `None` for fewer than two windows or without an event.
    #[must_use]
    pub fn dispersion(&self) -> Option<f64> {
        let n = self.present as f64;
        let mean = self.sum / n;
        let variance = (self.squares - self.sum * self.sum / n) / (n - 1.0);
        (self.present >= 2 && mean > 0.0).then(|| variance / mean)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::kolmogorov_smirnov;
    use super::*;
    use crate::summary::Summary;

    proptest! {
        /// Compared with the Kolmogorov-Smirnov test of the whole sample against the uniform distribution.
        #[test]
        fn the_distance_is_that_of_the_sample(values in proptest::collection::vec(0.0..1.0_f64, 1..200)) {
            let parts = 1 << 13;
            let mut counted = DistanceFrom::in_parts(parts);
            values.iter().for_each(|value| counted.add(*value));
            let exact = kolmogorov_smirnov(&values, |x| x).unwrap().statistic;
            prop_assert!((counted.distance().unwrap() - exact).abs() <= 1.0 / parts as f64);
        }

        #[test]
        fn moments_are_those_of_the_sample(values in proptest::collection::vec(1.0..1000.0_f64, 3..200)) {
            let mut moments = RunningMoments::default();
            values.iter().for_each(|value| moments.add(*value));
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
            prop_assert!((moments.variation().unwrap() - variance.sqrt() / mean).abs() < 1e-9);
            let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
            let exact = products / (variance * (n - 1.0));
            prop_assert!((moments.lag1_correlation().unwrap() - exact).abs() < 1e-9);
        }

        #[test]
        fn windows_count_what_falls_into_them(counts in proptest::collection::vec(0..5_u32, 3..100)) {
            // The first window begins with an event, and an event after the last window closes it.
            let mut counts = counts;
            counts[0] += 1;
            let mut windows = WindowCounts::of_length(10.0);
            for (window, count) in counts.iter().enumerate() {
                (0..*count).for_each(|event| windows.add(10.0 * window as f64 + f64::from(event)));
            }
            windows.add(10.0 * counts.len() as f64);
            let floats: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
            let summary = Summary::of(&floats).unwrap();
            let exact = summary.variance().unwrap() / summary.mean().unwrap();
            prop_assert!((windows.dispersion().unwrap() - exact).abs() < 1e-9);
        }
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        assert_eq!(DistanceFrom::in_parts(8).distance(), None);
        let moments = RunningMoments::default();
        assert_eq!((moments.count(), moments.variation(), moments.lag1_correlation()), (0, None, None));
        assert_eq!(WindowCounts::of_length(1.0).dispersion(), None);
    }

    /// Values far outside 0 to 1 count as the nearest end and need no more memory.
    #[test]
    fn what_lies_outside_is_the_nearest() {
        let mut counted = DistanceFrom::in_parts(4);
        [-1.0, 2.0, f64::NAN].into_iter().for_each(|value| counted.add(value));
        assert_eq!(counted.parts, [2, 0, 0, 1]);
    }
}
