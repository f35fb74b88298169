//! Tests of a difference of two proportions, such as shares of failed calls.

use super::Comparison;
use crate::error::{StatsError, check_confidence};
use crate::interval::{self, EstimationMethod, Interval};
use crate::special::ln_beta;

/// A proportion of successes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proportion {
    /// Number of successes.
    pub successes: usize,
    /// Number of trials.
    pub trials: usize,
}

impl Proportion {
    /// The share, in 0..=1.
    fn value(self) -> f64 {
        self.successes as f64 / self.trials as f64
    }
}

/// The difference `left - right` of two proportions. The interval is method 10 of Newcombe (1998), computed from two
/// Wilson intervals. The two-sided p-value comes from Fisher's exact test: the sum over all tables that are not more
/// likely than the observed table. The statistic is the odds ratio, infinite or NaN if the table has zeros. `n` is the
/// smaller number of trials.
///
/// The function assumes independent trials. Divide clustered trials by their [`design_effect`] first.
///
/// # Errors
/// No trial, more successes than trials, or `confidence` not strictly between 0 and 1.
pub fn proportions(left: Proportion, right: Proportion, confidence: f64) -> Result<Comparison, StatsError> {
    check_confidence(confidence)?;
    let ends = |share: Proportion| {
        let wilson = interval::wilson(share.successes, share.trials, confidence)?;
        // One trial does not bound a proportion.
        Ok((wilson.low.unwrap_or(0.0), wilson.high.unwrap_or(1.0)))
    };
    let ((low_l, high_l), (low_r, high_r)) = (ends(left)?, ends(right)?);
    let (p, q) = (left.value(), right.value());
    let reach = |a: f64, b: f64| (a * a + b * b).sqrt();
    let interval = Interval {
        estimate: p - q,
        low: Some(p - q - reach(p - low_l, high_r - q)),
        high: Some(p - q + reach(high_l - p, q - low_r)),
        n: left.trials.min(right.trials),
        confidence,
        method: EstimationMethod::Newcombe,
    };
    let odds = |share: Proportion| share.successes as f64 / (share.trials - share.successes) as f64;
    Ok(Comparison { interval, statistic: odds(left) / odds(right), p_value: Some(fisher(left, right)) })
}

/// Fisher's exact test, two-sided.
fn fisher(left: Proportion, right: Proportion) -> f64 {
    // Tables count as equally likely within this rounding error.
    const ROUNDING: f64 = 1e-7;
    let successes = left.successes + right.successes;
    let least = successes.saturating_sub(right.trials);
    let most = successes.min(left.trials);
    let ln = |at_left: usize| {
        ln_choose(left.trials, at_left) + ln_choose(right.trials, successes - at_left)
            - ln_choose(left.trials + right.trials, successes)
    };
    let seen = ln(left.successes);
    let all: f64 = (least..=most).map(ln).filter(|one| *one <= seen + ROUNDING).map(libm::exp).sum();
    all.min(1.0)
}

/// The logarithm of the binomial coefficient (n over k).
fn ln_choose(n: usize, k: usize) -> f64 {
    let (n, k) = (n as f64, k as f64);
    -libm::log(n + 1.0) - ln_beta(n - k + 1.0, k + 1.0)
}

/// The design effect: the variance of a proportion over clusters (such as seconds of a load), divided by the variance
/// for independent trials. It is at least 1, and is 1 without variation. [`proportions`] is valid for clusters if
/// successes and trials are divided by the design effect: Rao and Scott (1992), *A simple method for the analysis of
/// clustered binary data*, Biometrics 48(2).
///
/// # Errors
/// Fewer than two clusters, more successes than trials, or no trial at all.
pub fn design_effect(clusters: &[Proportion]) -> Result<f64, StatsError> {
    if clusters.len() < 2 {
        return Err(StatsError::TooFew { needed: 2, got: clusters.len() });
    }
    if let Some(wrong) = clusters.iter().find(|share| share.successes > share.trials) {
        let value = wrong.successes as f64;
        return Err(StatsError::OutOfRange {
            what: "successes",
            range: "at most the number of trials",
            value,
        });
    }
    let trials: usize = clusters.iter().map(|share| share.trials).sum();
    if trials == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    let successes: usize = clusters.iter().map(|share| share.successes).sum();
    let (m, n) = (clusters.len() as f64, trials as f64);
    let share = successes as f64 / n;
    if share == 0.0 || share == 1.0 {
        return Ok(1.0);
    }
    let residue = |cluster: &Proportion| cluster.successes as f64 - cluster.trials as f64 * share;
    let squares: f64 = clusters.iter().map(|cluster| residue(cluster) * residue(cluster)).sum();
    let variance = m / ((m - 1.0) * n * n) * squares;
    Ok((n * variance / (share * (1.0 - share))).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(successes: usize, trials: usize) -> Proportion {
        Proportion { successes, trials }
    }

    fn near(value: f64, wanted: f64, within: f64) {
        assert!((value - wanted).abs() < within, "{value} is not {wanted}");
    }

    /// Newcombe (1998), *Interval estimation for the difference between independent proportions*, table II: method 10.
    #[test]
    fn intervals_are_newcombes() {
        for ((a, m), (b, n), low, high) in [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((5, 56), (0, 29), -0.0381, 0.1926),
            ((0, 10), (0, 10), -0.2775, 0.2775),
            ((10, 10), (0, 10), 0.6075, 1.0),
        ] {
            let interval = proportions(share(a, m), share(b, n), 0.95).unwrap().interval;
            near(interval.low.unwrap(), low, 1e-4);
            near(interval.high.unwrap(), high, 1e-4);
        }
    }

    /// Fisher's lady tasting tea: 34/70 for 3 of 4 right, 2/70 for all right. The example of convictions of R's
    /// `fisher.test`: 0.0005367.
    #[test]
    fn p_values_are_fishers() {
        let p = |left, right| proportions(left, right, 0.95).unwrap().p_value.unwrap();
        near(p(share(3, 4), share(1, 4)), 34.0 / 70.0, 1e-12);
        near(p(share(4, 4), share(0, 4)), 2.0 / 70.0, 1e-12);
        near(p(share(2, 17), share(10, 13)), 0.000_536_7, 1e-7);
        near(p(share(0, 50_000), share(0, 40_000)), 1.0, 1e-9);
        near(p(share(5, 10_000), share(0, 10_000)), 0.0625, 1e-4);
    }

    #[test]
    fn clusters_that_fail_together_count_for_less() {
        let even: Vec<_> = (0..20).map(|_| share(5, 10)).collect();
        assert_eq!(design_effect(&even).unwrap(), 1.0);
        // In each cluster all trials succeed or all fail: ten trials count as one, except for the correction of the
        // mean.
        let together: Vec<_> = (0..20).map(|place| share(10 * (place % 2), 10)).collect();
        near(design_effect(&together).unwrap(), 10.0 * 20.0 / 19.0, 1e-9);
        assert_eq!(design_effect(&[share(0, 10), share(0, 5)]).unwrap(), 1.0);
        assert!(
            design_effect(&[share(1, 2)]).is_err() && design_effect(&[share(2, 1), share(0, 1)]).is_err()
        );
        assert!(design_effect(&[share(0, 0), share(0, 0)]).is_err());
    }

    #[test]
    fn what_is_no_share_is_refused() {
        assert!(proportions(share(1, 0), share(0, 1), 0.95).is_err());
        assert!(proportions(share(2, 1), share(0, 1), 0.95).is_err());
        assert!(proportions(share(1, 2), share(0, 1), 1.0).is_err());
    }
}
