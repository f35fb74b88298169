//! The values that a claim compares, replication by replication.

use std::collections::BTreeMap;

use netrig_stats::summary::{Summary, mean};

use crate::{Derivation, Point, Status};

/// A combination of levels, with its measured values or the reason for their absence.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The levels.
    pub factors: Point,
    /// The measured values.
    pub sample: Result<Sample, MissingSample>,
}

/// The reason why a cell has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingSample {
    pub status: Status,
    pub why: String,
}

/// The measured values of a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PointValues {
    /// The values of the valid runs, by replication.
    pub by_replication: BTreeMap<u32, f64>,
    pub nature: Nature,
}

/// Properties of the values that are known before any run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Nature {
    /// Whether the values are deterministic: another seed would give the same values. Only then do equal replications
    /// prove anything.
    pub deterministic: bool,
    /// The smallest and the largest possible value of a run, if both are known.
    pub range: Option<[f64; 2]>,
}

impl Nature {
    /// The properties of a difference: this value minus `other`.
    pub(super) fn less(self, other: Self) -> Self {
        let ends = self.range.zip(other.range);
        Self {
            deterministic: self.deterministic && other.deterministic,
            range: ends.map(|(a, b)| [a[0] - b[1], a[1] - b[0]]),
        }
    }

    /// The properties of a value without a known range that depends on this value and `other`.
    pub(super) fn with(self, other: Self) -> Self {
        Self { deterministic: self.deterministic && other.deterministic, range: None }
    }

    /// The properties of a mean over several points.
    fn over(points: &[PointValues]) -> Self {
        let range = points.first().and_then(|point| point.nature.range);
        Self {
            deterministic: points.iter().all(|point| point.nature.deterministic),
            range: range.filter(|range| points.iter().all(|point| point.nature.range == Some(*range))),
        }
    }
}

/// The values of one cell: for each replication, the values of the cell's points (one point for a plain response), and
/// the derivation of one number from them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    rows: BTreeMap<u32, Vec<f64>>,
    derivation: Derivation,
    /// Number of values of a row that belong to the first operand. The others are the reference of a difference or
    /// ratio.
    split: usize,
    nature: Nature,
}

impl Sample {
    /// A sample of a plain response at one point.
    pub(crate) fn plain(values: &PointValues) -> Self {
        let rows = values.by_replication.iter().map(|(replication, value)| (*replication, vec![*value]));
        Self { rows: rows.collect(), derivation: Derivation::Mean, split: 1, nature: values.nature }
    }

    /// A sample derived from several points, with a reference for differences and ratios. Only replications that all
    /// points have count.
    pub(crate) fn derived(derivation: Derivation, points: &[PointValues], reference: &[PointValues]) -> Self {
        let all: Vec<&BTreeMap<u32, f64>> =
            points.iter().chain(reference).map(|values| &values.by_replication).collect();
        let row = |replication: &u32| -> Option<Vec<f64>> {
            all.iter().map(|values| values.get(replication).copied()).collect()
        };
        let replications = all.first().into_iter().flat_map(|first| first.keys());
        let rows = replications.filter_map(|replication| Some((*replication, row(replication)?))).collect();
        let (own, other) = (Nature::over(points), Nature::over(reference));
        let nature = match derivation {
            Derivation::Mean => own,
            Derivation::Spread | Derivation::Min | Derivation::Max => Nature { range: None, ..own },
            Derivation::Difference => own.less(other),
            Derivation::Ratio => own.with(other),
        };
        Self { rows, derivation, split: points.len(), nature }
    }

    /// Number of replications.
    pub(crate) fn n(&self) -> usize {
        self.rows.len()
    }

    /// The replications that both samples have.
    pub(crate) fn shared(&self, other: &Self) -> Vec<u32> {
        self.rows.keys().filter(|replication| other.rows.contains_key(replication)).copied().collect()
    }

    pub(crate) fn replications(&self) -> Vec<u32> {
        self.rows.keys().copied().collect()
    }

    /// Whether the derivation is a maximum, a minimum or a spread of several means, which noise biases.
    pub(crate) fn is_extreme(&self) -> bool {
        matches!(self.derivation, Derivation::Spread | Derivation::Min | Derivation::Max)
    }

    /// One number per replication, in the given order. For a derivation that is not linear, each replication
    /// has its own spread, ratio and so on.
    pub(crate) fn values(&self, replications: &[u32]) -> Vec<f64> {
        replications.iter().map(|replication| self.reduce(&self.rows[replication])).collect()
    }

    fn reduce(&self, values: &[f64]) -> f64 {
        let (own, reference) = values.split_at(self.split.min(values.len()));
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

    /// The series over replications from which the sample is computed: the only one, or the one with the largest or
    /// smallest mean.
    pub(super) fn candidates(&self, replications: &[u32]) -> Candidates {
        let width = self.rows.values().next().map_or(0, Vec::len).min(self.split);
        let series =
            |index: usize| -> Vec<f64> { replications.iter().map(|r| self.rows[r][index]).collect() };
        let all = || (0..width).map(series).collect::<Vec<_>>();
        match self.derivation {
            Derivation::Max => {
                Candidates::Largest(all().into_iter().map(ReplicationSeries::Values).collect())
            }
            Derivation::Min => {
                Candidates::Smallest(all().into_iter().map(ReplicationSeries::Values).collect())
            }
            Derivation::Spread => {
                let less = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect();
                let (levels, mut pairs) = (all(), vec![ReplicationSeries::Nothing]);
                for (i, a) in levels.iter().enumerate() {
                    let others = levels.iter().enumerate().filter(|(j, _)| *j != i);
                    pairs.extend(others.map(|(_, b)| ReplicationSeries::Values(less(a, b))));
                }
                Candidates::Largest(pairs)
            }
            _ => Candidates::Only(ReplicationSeries::Values(self.values(replications))),
        }
    }

    /// The two operands of a ratio, replication by replication.
    pub(crate) fn operands(&self, replications: &[u32]) -> (Vec<f64>, Vec<f64>) {
        replications
            .iter()
            .map(|replication| self.rows[replication].split_at(self.split))
            .map(|(own, reference)| (mean(own), mean(reference)))
            .unzip()
    }

    pub(crate) fn derivation(&self) -> Derivation {
        self.derivation
    }

    pub(super) fn nature(&self) -> Nature {
        self.nature
    }
}

/// A standard deviation below this share of the values is a rounding error.
const ROUNDING: f64 = 1e-12;

/// Whether the standard deviation is more than a rounding error; `largest` is the largest absolute value.
pub(super) fn has_spread(sd: Option<f64>, largest: f64) -> bool {
    sd.is_some_and(|sd| sd > ROUNDING * largest)
}

/// Whether these values differ by more than a rounding error.
pub(crate) fn vary(values: &[f64]) -> bool {
    has_spread(values.iter().copied().collect::<Summary>().sd(), largest(values))
}

pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

/// A series with one number per replication.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReplicationSeries {
    /// Zero in every replication.
    Nothing,
    /// Measured values.
    Values(Vec<f64>),
}

/// The series from whose means the value of a sample is computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Candidates {
    /// The mean of one series.
    Only(ReplicationSeries),
    /// The largest mean of these series.
    Largest(Vec<ReplicationSeries>),
    /// The smallest mean of these series.
    Smallest(Vec<ReplicationSeries>),
}

impl Candidates {
    /// The candidates of a maximum, and the candidates of a minimum. A single series is in both lists.
    pub(super) fn split(&self) -> (Vec<&ReplicationSeries>, Vec<&ReplicationSeries>) {
        match self {
            Self::Only(series) => (vec![series], vec![series]),
            Self::Largest(many) => (many.iter().collect(), vec![&many[0]]),
            Self::Smallest(many) => (vec![&many[0]], many.iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[f64]) -> PointValues {
        PointValues { by_replication: (1..).zip(values.iter().copied()).collect(), nature: Nature::default() }
    }

    #[test]
    fn only_replications_that_all_points_have_count() {
        let (mut a, b) = (values(&[1.0, 2.0, 3.0]), values(&[5.0, 6.0, 7.0]));
        a.by_replication.remove(&2);
        let sample = Sample::derived(Derivation::Spread, &[a, b], &[]);
        assert_eq!(sample.replications(), [1, 3]);
    }

    /// The means over the points are (1 + 3)/2 = 2 and (2 + 4)/2 = 3, and the reference is 8. So the differences are -6
    /// and -5, and the operands of the ratio are 2 and 3 over 8.
    #[test]
    fn differences_and_ratios_to_a_reference() {
        let points = [values(&[1.0, 2.0]), values(&[3.0, 4.0])];
        let reference = [values(&[8.0, 8.0])];
        let difference = Sample::derived(Derivation::Difference, &points, &reference);
        assert_eq!(difference.values(&[1, 2]), [-6.0, -5.0]);
        let ratio = Sample::derived(Derivation::Ratio, &points, &reference);
        assert_eq!(ratio.operands(&[1, 2]), (vec![2.0, 3.0], vec![8.0, 8.0]));
        assert_eq!(ratio.values(&[1, 2]), [0.25, 0.375]);
    }

    /// The spread of two points is the maximum of zero and both differences.
    #[test]
    fn the_candidates_of_a_spread() {
        let sample = Sample::derived(Derivation::Spread, &[values(&[1.0, 3.0]), values(&[6.0, 4.0])], &[]);
        let pairs = vec![
            ReplicationSeries::Nothing,
            ReplicationSeries::Values(vec![-5.0, -1.0]),
            ReplicationSeries::Values(vec![5.0, 1.0]),
        ];
        assert_eq!(sample.candidates(&[1, 2]), Candidates::Largest(pairs));
    }
}
