//! Stopping rules for replications: stop when the interval is narrow enough, or at a maximum number.
//!
//! The rule uses the replications in the order of their numbers, not in the order of completion. So eight workers stop
//! at the same replication as one worker. A naive rule reduces coverage, because it stops at intervals that are narrow
//! by chance. Three measures keep coverage at its nominal level, as the tests show for normal and exponential values:
//! at least [`FEWEST`] replications, an interval that is widened for skewness, and a width that must stay narrow for
//! [`HOLD`] replications in a row (Singham and Schruben 2012, *Finite-sample performance of absolute precision stopping
//! rules*, show why one look is not enough).

use crate::distribution::Normal;
use crate::error::{StatsError, check_confidence, check_positive, check_sample};
use crate::interval::{self, Interval};
use crate::power;
use crate::summary::Summary;

/// The smallest number of replications with a stopping rule.
pub const FEWEST: usize = 10;

/// The number of consecutive replications after which the interval must be narrow enough.
pub const HOLD: usize = 3;

/// The wanted precision of an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Precision {
    /// The half width as a share of the mean's magnitude: 0.02 for "2 %".
    Relative(f64),
    /// The half width in the unit of the values.
    Absolute(f64),
}

impl Precision {
    /// The wanted half width around `mean`, in the unit of the values.
    #[must_use]
    pub fn half_width(self, mean: f64) -> f64 {
        match self {
            Self::Relative(share) => share * mean.abs(),
            Self::Absolute(half_width) => half_width,
        }
    }
}

/// A sequential stopping rule.
///
/// ```
/// use netrig_stats::stopping::{StoppingDecision, Precision, StoppingRule};
/// let rule = StoppingRule::new(Precision::Relative(0.02), 0.95, 10, 40)?;
/// assert!(matches!(rule.judge(&[1.0, 1.01, 0.99])?, StoppingDecision::Continue { .. }));
/// # Ok::<(), netrig_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoppingRule {
    precision: Precision,
    confidence: f64,
    min: usize,
    max: usize,
}

/// The decision of the rule after some replications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoppingDecision {
    /// More replications are needed.
    Continue {
        /// Estimated total number of replications, not limited by the rule's maximum. `None` if it cannot be estimated:
        /// for fewer than two values, for equal values at or above the minimum number, or for a relative precision if
        /// the mean is 0.
        needed: Option<usize>,
    },
    /// The first `n` replications are enough. Later values are ignored.
    Enough {
        /// Number of replications that are used.
        n: usize,
        /// The interval over them.
        interval: Interval,
    },
    /// The rule's maximum was reached, but the interval is not narrow enough.
    GaveUp {
        /// The rule's maximum.
        n: usize,
        /// The interval over them.
        interval: Interval,
        /// Estimated number of needed replications, from the observed spread. `None` as in
        /// [`StoppingDecision::Continue`].
        needed: Option<usize>,
    },
}

impl StoppingRule {
    /// A rule that stops at `min..=max` replications.
    ///
    /// # Errors
    /// A precision that is not positive, `confidence` not strictly between 0 and 1, `min` below [`FEWEST`],
    /// or `max` below `min`.
    pub fn new(precision: Precision, confidence: f64, min: usize, max: usize) -> Result<Self, StatsError> {
        let (Precision::Relative(width) | Precision::Absolute(width)) = precision;
        check_positive("half width", width)?;
        check_confidence(confidence)?;
        if min < FEWEST {
            return Err(StatsError::OutOfRange {
                what: "the least number of replications",
                range: "at least 10 while a stopping rule is on",
                value: min as f64,
            });
        }
        if max < min {
            return Err(StatsError::OutOfRange {
                what: "the greatest number of replications",
                range: "at least the least number",
                value: max as f64,
            });
        }
        Ok(Self { precision, confidence, min, max })
    }

    /// The decision about the values of replications 1, 2, 3, … in this order.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn judge(&self, values: &[f64]) -> Result<StoppingDecision, StatsError> {
        check_sample(values, 0)?;
        // Replications before the minimum count towards [`HOLD`], so that the rule can stop at `min`.
        let first_look = self.min + 1 - HOLD;
        let z = Normal.quantile(0.5 + 0.5 * self.confidence)?;
        let mut so_far = Summary::default();
        let mut narrow_in_a_row = 0;
        for (n, value) in (1..=self.max).zip(values) {
            so_far.push(*value);
            // No interval is narrower than the normal one, which is cheap to compute. Most checks end here.
            if n < first_look || !self.is_narrow(&so_far, z) {
                narrow_in_a_row = 0;
                continue;
            }
            let interval = interval::skew_adjusted(&values[..n], self.confidence)?;
            let wanted = self.precision.half_width(interval.estimate);
            narrow_in_a_row = if interval.half_width() <= Some(wanted) { narrow_in_a_row + 1 } else { 0 };
            if narrow_in_a_row >= HOLD {
                return Ok(StoppingDecision::Enough { n, interval });
            }
        }
        let seen = &values[..values.len().min(self.max)];
        let needed = self.needed(seen)?;
        if seen.len() < self.max {
            return Ok(StoppingDecision::Continue { needed });
        }
        let interval = interval::skew_adjusted(seen, self.confidence)?;
        Ok(StoppingDecision::GaveUp { n: self.max, interval, needed })
    }

    /// Whether the mean's interval is narrow enough at the critical value `z`. Equal values have no interval: they do
    /// not show how far away other values may be.
    fn is_narrow(&self, summary: &Summary, z: f64) -> bool {
        let wanted = summary.mean().map(|mean| self.precision.half_width(mean));
        summary.standard_error().zip(wanted).is_some_and(|(error, wanted)| error > 0.0 && z * error <= wanted)
    }

    /// Estimates the total number of replications from the observed spread and the current widening for skewness. The
    /// result is at least one more than the number of values, because these values were not enough.
    fn needed(&self, seen: &[f64]) -> Result<Option<usize>, StatsError> {
        let summary: Summary = seen.iter().copied().collect();
        let (Some(mean), Some(sd)) = (summary.mean(), summary.sd()) else { return Ok(None) };
        let wanted = self.precision.half_width(mean);
        if wanted <= 0.0 {
            return Ok(None);
        }
        let plain = interval::student_of(&summary, self.confidence)?.half_width();
        let widened = interval::skew_adjusted(seen, self.confidence)?.half_width();
        let widening = widened.zip(plain).map_or(1.0, |(w, p)| if p > 0.0 { w / p } else { 1.0 });
        if sd == 0.0 {
            return Ok((seen.len() < self.min).then_some(self.min));
        }
        let by_spread = power::for_half_width(sd * widening, wanted, self.confidence)?;
        Ok(Some(by_spread.max(self.min).max(seen.len() + 1)))
    }
}
