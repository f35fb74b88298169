//! The interval of a proportion, such as the share of calls that failed.

use crate::distribution::Normal;
use crate::error::{StatsError, check_confidence};
use crate::interval::{Interval, Method};

/// Wilson's (1927) score interval of `successes / trials`: sensible at 0 and 1, where the textbook's
/// collapses.
///
/// Source: Brown, Cai and DasGupta (2001), *Interval estimation for a binomial proportion*.
///
/// # Errors
/// No trial, more successes than trials, or `confidence` not strictly between 0 and 1.
pub fn wilson(successes: usize, trials: usize, confidence: f64) -> Result<Interval, StatsError> {
    check_confidence(confidence)?;
    if trials == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    if successes > trials {
        let value = successes as f64;
        return Err(StatsError::OutOfRange {
            what: "successes",
            range: "at most the number of trials",
            value,
        });
    }
    let n = trials as f64;
    let share = successes as f64 / n;
    let z = Normal.quantile(0.5 + 0.5 * confidence)?;
    let square = z * z / n;
    let centre = (share + 0.5 * square) / (1.0 + square);
    let reach = z * (share * (1.0 - share) / n + 0.25 * square / n).sqrt() / (1.0 + square);
    // At none or all the end is the share itself; rounding must not push it outside.
    let low = if successes == 0 { 0.0 } else { centre - reach };
    let high = if successes == trials { 1.0 } else { centre + reach };
    let ends = if trials == 1 { (None, None) } else { (Some(low), Some(high)) };
    Ok(Interval { estimate: share, low: ends.0, high: ends.1, n: trials, confidence, method: Method::Wilson })
}
