//! Comparing two systems, or one system over the levels of a factor.
//!
//! Replications of two points share their random streams (common random numbers), so their values are paired. Start from
//! [`paired`], which removes the common part. [`welch`] compares independent samples, such as two substrates;
//! [`proportions`] compares shares of independent trials.

mod knee;
mod means;
mod proportions;

pub use knee::{Knee, knee};
pub use means::{paired, paired_ratio, welch};
pub use proportions::{Proportion, design_effect, proportions};

use crate::distribution::StudentT;
use crate::error::StatsError;
use crate::interval::Interval;

/// The alternative hypothesis about a difference or a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// The effect is greater than the null value.
    Greater,
    /// The effect is less than the null value.
    Less,
    /// The effect differs from the null value.
    TwoSided,
}

/// The outcome of a test: the effect, its interval and its p-value under the null value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The effect with its two-sided interval.
    pub interval: Interval,
    /// The test statistic: t or the odds ratio.
    pub statistic: f64,
    /// The probability of an effect at least as far towards the alternative if the null value is true. `None` at n = 1.
    ///
    /// If paired differences have no spread, the p-value is 0, 0.5 or 1. This is a proof only if other values are
    /// impossible. If they are possible, use [`EqualValues`](crate::interval::EqualValues).
    pub p_value: Option<f64>,
}

/// The distance divided by its standard error. Without spread the result is infinite, or 0 for a distance of 0.
fn t_statistic(distance: f64, error: f64) -> f64 {
    if error > 0.0 {
        distance / error
    } else if distance == 0.0 {
        0.0
    } else {
        f64::INFINITY.copysign(distance)
    }
}

/// The p-value of a t statistic.
fn p_of_t(t: f64, df: f64, alternative: Alternative) -> Result<f64, StatsError> {
    let student = StudentT::new(df)?;
    Ok(match alternative {
        Alternative::Greater => student.upper(t),
        Alternative::Less => student.cdf(t),
        Alternative::TwoSided => student.both_tails(t),
    })
}
