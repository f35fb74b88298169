//! What was measured at one place, replication by replication.

use std::collections::BTreeMap;

use netrig_stats::interval::{self, Bootstrap};
use netrig_stats::{Interval, StatsError};

use crate::{Derivation, Point, Status};

/// A place among the factors, with what was measured there or why nothing was.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Its levels.
    pub factors: Point,
    /// What was measured.
    pub sample: Result<Sample, Missing>,
}

/// Why there is nothing at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub status: Status,
    pub why: String,
}

/// The values of one place: for each replication the values of the points that it is derived from (one, for a plain
/// response), and how they become one number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    rows: BTreeMap<u32, Vec<f64>>,
    derivation: Derivation,
    /// How many of the values belong to the first operand; the rest are the reference of a difference or ratio.
    split: usize,
}

impl Sample {
    /// A plain response.
    pub(crate) fn plain(values: &BTreeMap<u32, f64>) -> Self {
        let rows = values.iter().map(|(replication, value)| (*replication, vec![*value])).collect();
        Self { rows, derivation: Derivation::Mean, split: 1 }
    }

    /// A derived response over several points, and a reference for differences and ratios. Only replications that all
    /// points have count.
    pub(crate) fn derived(
        derivation: Derivation,
        points: &[BTreeMap<u32, f64>],
        reference: &[BTreeMap<u32, f64>],
    ) -> Self {
        let all: Vec<&BTreeMap<u32, f64>> = points.iter().chain(reference).collect();
        let row = |replication: &u32| -> Option<Vec<f64>> {
            all.iter().map(|values| values.get(replication).copied()).collect()
        };
        let replications = all.first().into_iter().flat_map(|first| first.keys());
        let rows = replications.filter_map(|replication| Some((*replication, row(replication)?))).collect();
        Self { rows, derivation, split: points.len() }
    }

    /// How many replications it has.
    pub(crate) fn n(&self) -> usize {
        self.rows.len()
    }

    /// The replications that both have.
    pub(crate) fn shared(&self, other: &Self) -> Vec<u32> {
        self.rows.keys().filter(|replication| other.rows.contains_key(replication)).copied().collect()
    }

    /// All its replications.
    pub(crate) fn replications(&self) -> Vec<u32> {
        self.rows.keys().copied().collect()
    }

    /// Whether the number of the mean is the mean of the numbers, so that each replication has its own.
    pub(crate) fn is_linear(&self) -> bool {
        matches!(self.derivation, Derivation::Mean | Derivation::Difference)
    }

    /// One number per replication, in the order given; for a derivation that is not linear each replication's own
    /// spread, ratio and so on.
    pub(crate) fn values(&self, replications: &[u32]) -> Vec<f64> {
        replications.iter().map(|replication| self.reduce(&self.rows[replication])).collect()
    }

    /// The number over these replications (with repetitions): that of the points' means.
    pub(crate) fn statistic(&self, replications: &[u32]) -> f64 {
        let width = self.rows.values().next().map_or(0, Vec::len);
        let mut means = vec![0.0; width];
        for replication in replications {
            for (mean, value) in means.iter_mut().zip(&self.rows[replication]) {
                *mean += value / replications.len() as f64;
            }
        }
        self.reduce(&means)
    }

    fn reduce(&self, values: &[f64]) -> f64 {
        let (own, reference) = values.split_at(self.split.min(values.len()));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let min = || own.iter().copied().fold(f64::INFINITY, f64::min);
        let max = || own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match self.derivation {
            Derivation::Mean => mean(own),
            Derivation::Spread => max() - min(),
            Derivation::Min => min(),
            Derivation::Max => max(),
            Derivation::Difference => mean(own) - mean(reference),
            Derivation::Ratio => mean(own) / mean(reference),
        }
    }

    /// The two operands of a ratio, replication by replication.
    pub(crate) fn operands(&self, replications: &[u32]) -> (Vec<f64>, Vec<f64>) {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        replications
            .iter()
            .map(|replication| self.rows[replication].split_at(self.split))
            .map(|(own, reference)| (mean(own), mean(reference)))
            .unzip()
    }

    pub(crate) fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// The number with its interval: Student's where each replication has its own, Fieller's for a ratio, else the
    /// percentiles of the bootstrap over replications.
    ///
    /// # Errors
    /// No replication, or a ratio to a mean of zero.
    pub(crate) fn interval(&self, confidence: f64, seed: u64) -> Result<Interval, StatsError> {
        let replications = self.replications();
        if self.is_linear() {
            interval::student(&self.values(&replications), confidence)
        } else if self.derivation == Derivation::Ratio {
            let (own, reference) = self.operands(&replications);
            interval::paired_ratio(&own, &reference, confidence)
        } else {
            let statistic = |chosen: &[u32]| self.statistic(chosen);
            Bootstrap::new(seed).percentile(&replications, confidence, statistic)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[f64]) -> BTreeMap<u32, f64> {
        (1..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn only_replications_that_all_points_have_count() {
        let (mut a, b) = (values(&[1.0, 2.0, 3.0]), values(&[5.0, 6.0, 7.0]));
        a.remove(&2);
        let sample = Sample::derived(Derivation::Spread, &[a, b], &[]);
        assert_eq!(sample.replications(), [1, 3]);
    }

    /// Means over two replications: 2 and 5. Their spread is 3; the mean of each replication's own spread would be 4.
    #[test]
    fn a_spread_is_of_the_means() {
        let sample = Sample::derived(Derivation::Spread, &[values(&[1.0, 3.0]), values(&[6.0, 4.0])], &[]);
        assert_eq!(sample.statistic(&[1, 2]), 3.0);
        assert_eq!(sample.values(&[1, 2]), [5.0, 1.0]);
        assert_eq!(sample.statistic(&[1, 1]), 5.0);
    }

    /// (1 + 3)/2 = 2 and (2 + 4)/2 = 3 against 8: differences -6 and -5, ratio of means 2.5 / 8.
    #[test]
    fn differences_and_ratios_to_a_reference() {
        let points = [values(&[1.0, 2.0]), values(&[3.0, 4.0])];
        let reference = [values(&[8.0, 8.0])];
        let difference = Sample::derived(Derivation::Difference, &points, &reference);
        assert_eq!(difference.values(&[1, 2]), [-6.0, -5.0]);
        let ratio = Sample::derived(Derivation::Ratio, &points, &reference);
        assert_eq!(ratio.statistic(&[1, 2]), 2.5 / 8.0);
        assert_eq!(ratio.interval(0.95, 1).unwrap().estimate, 2.5 / 8.0);
    }
}
