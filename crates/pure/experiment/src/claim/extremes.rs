//! Largest and smallest means, spreads, and their differences: intervals and tests that are valid for noisy means.
//!
//! The largest of several noisy means is biased upwards, and so is their spread. A bootstrap has the same bias in every
//! resample. A system with more noise but no effect would appear to have the larger spread. Single contrasts of means
//! have no such bias. The largest mean is above a value if and only if one of the means is. A spread is above a value
//! if the difference of one pair is. It is above the spread of another system if the difference of one pair is larger
//! than those of all pairs of the other system.
//!
//! Therefore each quantity is written as a matrix of contrasts: θ is the maximum over the rows of the minimum over the
//! columns. θ is above a value if all contrasts of one row are. The test is union–intersection over the rows, with
//! Bonferroni's correction, and intersection–union over the columns, without a correction. The test that θ is below a
//! value exchanges rows and columns. Each contrast is Student's t over replications, so variation that the replications
//! share cancels.

use netrig_stats::compare::Alternative;
use netrig_stats::distribution::StudentT;
use netrig_stats::interval::EstimationMethod;
use netrig_stats::summary::Summary;
use netrig_stats::{Interval, StatsError};

use super::sample::{Candidates, ReplicationSeries, Sample, has_spread};

/// A quantity that is the maximum over rows of the minimum over columns of contrasts of means.
#[derive(Clone, Debug)]
pub(super) struct Extremes {
    rows: Vec<Vec<Contrast>>,
    n: usize,
    deterministic: bool,
}

/// A mean over replications with its standard error.
#[derive(Clone, Copy, Debug)]
struct Contrast {
    mean: f64,
    error: f64,
}

impl Contrast {
    /// One series minus another. If all random differences are equal, they carry no information about the mean, and the
    /// error is infinite.
    fn of(a: &ReplicationSeries, b: &ReplicationSeries, n: usize, deterministic: bool) -> Self {
        let value = |series: &ReplicationSeries, at: usize| match series {
            ReplicationSeries::Nothing => 0.0,
            ReplicationSeries::Values(values) => values[at],
        };
        let differences: Vec<f64> = (0..n).map(|at| value(a, at) - value(b, at)).collect();
        let largest = (0..n).map(|at| value(a, at).abs().max(value(b, at).abs())).fold(0.0, f64::max);
        let summary: Summary = differences.iter().copied().collect();
        let mean = summary.mean().unwrap_or(f64::NAN);
        let error = match summary.standard_error() {
            Some(error) if has_spread(summary.sd(), largest) => error,
            Some(_)
                if deterministic || (a, b) == (&ReplicationSeries::Nothing, &ReplicationSeries::Nothing) =>
            {
                0.0
            }
            _ => f64::INFINITY,
        };
        Self { mean, error }
    }
}

impl Extremes {
    /// `first` minus `second`, or `first` alone, over these replications.
    pub(super) fn new(first: &Sample, second: Option<&Sample>, replications: &[u32]) -> Self {
        let a = first.candidates(replications);
        let b = second
            .map_or(Candidates::Only(ReplicationSeries::Nothing), |second| second.candidates(replications));
        let deterministic =
            first.nature().deterministic && second.is_none_or(|second| second.nature().deterministic);
        // The candidates of a maximum are rows, those of a minimum are columns. A subtracted maximum becomes a minimum.
        let (a_rows, a_columns) = a.split();
        let (b_columns, b_rows) = b.split();
        let contrast = |a: &ReplicationSeries, b: &ReplicationSeries| {
            Contrast::of(a, b, replications.len(), deterministic)
        };
        let row = |(i, k): (usize, usize)| {
            let columns =
                a_columns.iter().enumerate().flat_map(|(j, _)| (0..b_columns.len()).map(move |l| (j, l)));
            let pick = |(j, l): (usize, usize)| {
                let a = if a_columns.len() > 1 { a_columns[j] } else { a_rows[i] };
                let b = if b_columns.len() > 1 { b_columns[l] } else { b_rows[k] };
                contrast(a, b)
            };
            columns.map(pick).collect()
        };
        let rows = (0..a_rows.len()).flat_map(|i| (0..b_rows.len()).map(move |k| (i, k)));
        Self { rows: rows.map(row).collect(), n: replications.len(), deterministic }
    }

    /// The estimate with its interval.
    ///
    /// # Errors
    /// No replication, or a mean that is not finite.
    pub(super) fn interval(&self, confidence: f64) -> Result<Interval, StatsError> {
        if self.n == 0 {
            return Err(StatsError::TooFew { needed: 1, got: 0 });
        }
        let estimate = self.largest_of_smallest(|contrast| contrast.mean);
        if !estimate.is_finite() {
            return Err(StatsError::NotFinite { index: 0 });
        }
        let tail = 0.5 * (1.0 - confidence);
        let ends = if self.n < 2 {
            None
        } else {
            let reach = |many: usize| StudentT::new(self.n as f64 - 1.0)?.quantile(1.0 - tail / many as f64);
            let (down, up) = (reach(self.rows.len())?, reach(self.columns())?);
            let low = self.largest_of_smallest(|contrast| contrast.mean - down * contrast.error);
            let high = self.smallest_of_largest(|contrast| contrast.mean + up * contrast.error);
            Some((low, high))
        };
        let bounded = |end: f64| end.is_finite().then_some(end);
        let (low, high) = (ends.and_then(|ends| bounded(ends.0)), ends.and_then(|ends| bounded(ends.1)));
        Ok(Interval { estimate, low, high, n: self.n, confidence, method: EstimationMethod::Student })
    }

    /// The one-sided p-value against `null`. A contrast without spread that is exactly `null` counts as beyond `null`
    /// if `at_null` is 0.
    pub(super) fn p(&self, null: f64, side: Alternative, at_null: f64) -> Option<f64> {
        let student = StudentT::new(self.n as f64 - 1.0).ok()?;
        let sign = if side == Alternative::Greater { 1.0 } else { -1.0 };
        let t = |contrast: &Contrast| {
            let distance = sign * (contrast.mean - null);
            if contrast.error > 0.0 {
                distance / contrast.error
            } else if distance == 0.0 {
                if at_null == 0.0 { f64::INFINITY } else { f64::NEG_INFINITY }
            } else {
                f64::INFINITY.copysign(distance)
            }
        };
        let (t, many) = match side {
            Alternative::Greater => (self.largest_of_smallest(t), self.rows.len()),
            // In each column, the largest contrast decides; of these, the smallest.
            _ => (-self.smallest_of_largest(|contrast| -t(contrast)), self.columns()),
        };
        let p = if t == f64::NEG_INFINITY { 1.0 } else { student.upper(t) };
        Some((many as f64 * p).min(1.0))
    }

    /// The standard deviation of one replication in the contrast that equals the estimate. If several contrasts equal
    /// it, the largest of their deviations. `None` if one of these is unknown.
    pub(super) fn sd(&self) -> Option<f64> {
        let estimate = self.largest_of_smallest(|contrast| contrast.mean);
        let attained = self.rows.iter().flatten().filter(|contrast| contrast.mean == estimate);
        let error = attained.map(|contrast| contrast.error).max_by(f64::total_cmp)?;
        (self.n > 1 && error.is_finite()).then(|| error * (self.n as f64).sqrt())
    }

    /// Whether another seed would give the same values.
    pub(super) fn deterministic(&self) -> bool {
        self.deterministic
    }

    /// Number of rows or of columns, whichever is larger: the number of contrasts of which the estimate is the extreme.
    pub(super) fn looked_at(&self) -> usize {
        self.rows.len().max(self.columns())
    }

    fn columns(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    fn largest_of_smallest(&self, value: impl Fn(&Contrast) -> f64) -> f64 {
        let smallest = |row: &Vec<Contrast>| row.iter().map(&value).fold(f64::INFINITY, f64::min);
        self.rows.iter().map(smallest).fold(f64::NEG_INFINITY, f64::max)
    }

    fn smallest_of_largest(&self, value: impl Fn(&Contrast) -> f64) -> f64 {
        let largest =
            |column: usize| self.rows.iter().map(|row| value(&row[column])).fold(f64::NEG_INFINITY, f64::max);
        (0..self.columns()).map(largest).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Seeds, Stream};

    use super::*;
    use crate::Derivation;
    use crate::claim::sample::{Nature, PointValues};

    /// A sample over levels with these means and normal noise, with ten replications.
    fn sample(derivation: Derivation, means: &[f64], sd: f64, luck: &mut Stream) -> Sample {
        let mut level = |mean: &f64| PointValues {
            by_replication: (1..=10).map(|r| (r, mean + luck.normal(0.0, sd))).collect(),
            nature: Nature { deterministic: sd == 0.0, range: None },
        };
        Sample::derived(derivation, &means.iter().map(&mut level).collect::<Vec<_>>(), &[])
    }

    /// The random values are equal: the spread is 0 in each replication, and the number of replications that would
    /// decide is unknown.
    #[test]
    fn a_spread_of_nothing_by_chance_has_no_deviation() {
        let known = |deterministic: bool| {
            let level = || PointValues {
                by_replication: (1..=5).map(|replication| (replication, 10.0)).collect(),
                nature: Nature { deterministic, range: None },
            };
            let spread = Sample::derived(Derivation::Spread, &[level(), level(), level()], &[]);
            Extremes::new(&spread, None, &spread.replications()).sd()
        };
        assert_eq!((known(true), known(false)), (Some(0.0), None));
    }

    /// Without noise every interval is the number itself.
    #[test]
    fn estimates_are_what_they_say() {
        let mut luck = Seeds::new(1).stream("extremes");
        let mut of = |derivation| sample(derivation, &[1.0, 4.0, 2.5], 0.0, &mut luck);
        let (spread, max, min) = (of(Derivation::Spread), of(Derivation::Max), of(Derivation::Min));
        let exactly = |first: &Sample, second: Option<&Sample>| {
            let interval = Extremes::new(first, second, &first.replications()).interval(0.95).unwrap();
            assert_eq!((interval.low, interval.high), (Some(interval.estimate), Some(interval.estimate)));
            interval.estimate
        };
        assert_eq!((exactly(&spread, None), exactly(&max, None), exactly(&min, None)), (3.0, 4.0, 1.0));
        assert_eq!(
            (exactly(&spread, Some(&max)), exactly(&max, Some(&min)), exactly(&min, Some(&min))),
            (-1.0, 3.0, 0.0)
        );
        assert_eq!(
            (exactly(&min, Some(&max)), exactly(&min, Some(&spread)), exactly(&max, Some(&spread))),
            (-3.0, -2.0, 1.0)
        );
    }

    /// The share of experiments whose interval misses the true value: at most 5 %, within the accuracy of 400
    /// trials (0.05 + 3 √(0.05 · 0.95 / 400) = 0.083).
    fn misses(truth: f64, make: impl Fn(&mut Stream) -> Extremes) -> f64 {
        let trials = 400;
        let missed = (0..trials).filter(|trial| {
            let interval = make(&mut Seeds::new(*trial).stream("trial")).interval(0.95).unwrap();
            !interval.contains(truth)
        });
        missed.count() as f64 / trials as f64
    }

    #[test]
    fn intervals_hold_the_truth() {
        let one = |derivation, means: [f64; 5]| {
            move |luck: &mut Stream| {
                let sample = sample(derivation, &means, 1.0, luck);
                Extremes::new(&sample, None, &sample.replications())
            }
        };
        let (flat, apart) = ([0.0; 5], [0.0, 1.0, 2.0, 3.0, 10.0]);
        for (truth, rate) in [
            (0.0, misses(0.0, one(Derivation::Spread, flat))),
            (10.0, misses(10.0, one(Derivation::Spread, apart))),
            (0.0, misses(0.0, one(Derivation::Max, flat))),
            (10.0, misses(10.0, one(Derivation::Max, apart))),
            (0.0, misses(0.0, one(Derivation::Min, flat))),
        ] {
            assert!(rate <= 0.083, "{truth}: {rate}");
        }
    }

    /// Neither system depends on the factor, but the first has ten times the noise. Its spread must not be found
    /// larger.
    #[test]
    fn noise_is_no_spread() {
        let rate = misses(0.0, |luck| {
            let (noisy, quiet) = (
                sample(Derivation::Spread, &[5.0; 5], 10.0, luck),
                sample(Derivation::Spread, &[5.0; 5], 1.0, luck),
            );
            Extremes::new(&noisy, Some(&quiet), &noisy.replications())
        });
        assert!(rate <= 0.083, "{rate}");
    }

    /// Tests and intervals agree: the two-sided test at 5 % rejects the values outside the 95 % interval.
    #[test]
    fn tests_and_intervals_agree() {
        let mut luck = Seeds::new(3).stream("agree");
        let a = sample(Derivation::Spread, &[0.0, 2.0, 5.0], 1.0, &mut luck);
        let b = sample(Derivation::Spread, &[0.0, 1.0, 2.0], 1.0, &mut luck);
        let extremes = Extremes::new(&a, Some(&b), &a.replications());
        let interval = extremes.interval(0.95).unwrap();
        let (low, high) = (interval.low.unwrap(), interval.high.unwrap());
        let above = |null| extremes.p(null, Alternative::Greater, 1.0).unwrap();
        let below = |null| extremes.p(null, Alternative::Less, 1.0).unwrap();
        assert!(above(low - 1e-6) < 0.025 && above(low + 1e-6) > 0.025);
        assert!(below(high + 1e-6) < 0.025 && below(high - 1e-6) > 0.025);
    }
}
