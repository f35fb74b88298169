//! Comparing two systems, or one system over the levels of a factor.
//!
//! Replications of two points share their random streams (common random numbers), so the values belong
//! together pair by pair and [`paired`] is the comparison to start from: it removes what both have in common.
//! [`welch`] is for samples that share nothing, such as two substrates; [`proportions`] for shares of independent trials.

mod equivalence;
mod knee;
mod means;
mod proportions;
mod ranks;
mod trend;

pub use equivalence::{Equivalence, Margin, equivalent_paired, equivalent_ratio, equivalent_welch};
pub use knee::{Knee, knee};
pub use means::{paired, paired_ratio, welch};
pub use proportions::{Proportion, design_effect, proportions};
pub use ranks::{sign_test, wilcoxon};
pub use trend::{PageTest, Trend, TrendDirection, monotone, page};

use crate::distribution::StudentT;
use crate::error::StatsError;
use crate::interval::Interval;

/// What a test is to show about a difference or a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// It is greater than the null value.
    Greater,
    /// It is less than the null value.
    Less,
    /// It differs from the null value.
    TwoSided,
}

/// The outcome of a test: how large the effect is, how sure, and how surprising under the null value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The effect with its two-sided interval.
    pub interval: Interval,
    /// The test statistic: t, the odds ratio, the signed-rank sum, or the count of positive signs.
    pub statistic: f64,
    /// The probability of an effect at least as far towards the alternative if the null value were true;
    /// `None` at n = 1, where nothing can be said. Of paired values without any spread it is 0 or 1: whether that is proof
    /// is for the caller to know, who knows whether they could have differed ([`EqualValues`](crate::interval::EqualValues) if so).
    pub p_value: Option<f64>,
}

/// The distance in standard errors. Without any spread, a difference is infinitely far and none is no
/// distance.
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
