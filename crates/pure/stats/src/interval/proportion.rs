//! The interval of a proportion, such as the share of failed calls.

use crate::distribution::Normal;
use crate::error::{StatsError, check_confidence};
use crate::interval::{EstimationMethod, Interval};

/// Wilson's (1927) score interval of `successes / trials`. It is also valid for a share of 0 or 1, for which the
/// textbook interval has no width.
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
    // With no success or with only successes, the end is exactly 0 or 1, without a rounding error.
    let low = if successes == 0 { 0.0 } else { centre - reach };
    let high = if successes == trials { 1.0 } else { centre + reach };
    let ends = if trials == 1 { (None, None) } else { (Some(low), Some(high)) };
    Ok(Interval {
        estimate: share,
        low: ends.0,
        high: ends.1,
        n: trials,
        confidence,
        method: EstimationMethod::Wilson,
    })
}

/// The largest probability that an outcome may have if it was absent in all `trials`, at this confidence. It is near 3
/// / n at 95 %, the rule of three (Hanley and Lippman-Hand 1983).
///
/// # Errors
/// No trial, or `confidence` not strictly between 0 and 1.
pub fn most_unseen(trials: usize, confidence: f64) -> Result<f64, StatsError> {
    check_confidence(confidence)?;
    if trials == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    Ok(1.0 - libm::pow(1.0 - confidence, 1.0 / trials as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An outcome of probability p is absent in n trials with probability (1 − p)^n: 0.2589 for ten, 0.4507 for five.
    #[test]
    fn what_may_be_unseen_is_in_no_trial_of_one_in_twenty_samples() {
        for (trials, expected) in [(1, 0.95), (5, 0.4507), (10, 0.2589), (59, 0.0495), (299, 0.01)] {
            let unseen = most_unseen(trials, 0.95).unwrap();
            assert!((unseen - expected).abs() < 1e-4, "{trials}: {unseen}");
            assert!((libm::pow(1.0 - unseen, trials as f64) - 0.05).abs() < 1e-12);
        }
        assert!(most_unseen(0, 0.95).is_err() && most_unseen(10, 1.0).is_err());
    }
}
