//! The one-sample Kolmogorov-Smirnov test.

use std::f64::consts::PI;

use crate::error::{StatsError, check_sample};
use crate::quantile::sorted;

/// The outcome of a Kolmogorov-Smirnov test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KolmogorovSmirnov {
    /// The largest distance between the empirical and the claimed distribution function, in 0..=1.
    pub statistic: f64,
    /// The sample size.
    pub n: usize,
    /// The probability that a sample of the claimed distribution has a distance at least as large.
    pub p_value: f64,
}

/// Tests whether `values` come from the continuous distribution with function `cdf`, whose parameters must be known
/// beforehand. If the parameters are estimated from the same values, the p-value is far too large. For exponential gaps
/// of unknown mean use [`anderson_darling_exponential`](super::anderson_darling_exponential).
///
/// The p-value is the upper tail of Kolmogorov's limiting distribution at (sqrt(n) + 0.12 + 0.11 / sqrt(n)) D: Stephens
/// (1970), *Use of the Kolmogorov-Smirnov, Cramér-von Mises and related statistics without extensive tables*. For n of
/// 4 or more its error is at most 0.004 below p = 0.2, and at most 0.025 above p = 0.2.
///
/// # Errors
/// An empty sample, a value that is not finite, or a `cdf` that leaves [0, 1].
pub fn kolmogorov_smirnov(values: &[f64], cdf: impl Fn(f64) -> f64) -> Result<KolmogorovSmirnov, StatsError> {
    check_sample(values, 1)?;
    let n = values.len();
    let mut statistic: f64 = 0.0;
    for (rank, value) in sorted(values).into_iter().enumerate() {
        let claimed = cdf(value);
        if !(0.0..=1.0).contains(&claimed) {
            return Err(StatsError::OutOfRange { what: "cdf", range: "between 0 and 1", value: claimed });
        }
        let (before, after) = (rank as f64 / n as f64, (rank + 1) as f64 / n as f64);
        statistic = statistic.max(after - claimed).max(claimed - before);
    }
    let root = (n as f64).sqrt();
    let p_value = kolmogorov_upper((root + 0.12 + 0.11 / root) * statistic);
    Ok(KolmogorovSmirnov { statistic, n, p_value })
}

/// The upper tail of Kolmogorov's limiting distribution. Two forms of a theta function are used, each in the range in
/// which it converges in a few terms (Marsaglia, Tsang and Wang 2003).
fn kolmogorov_upper(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    if x < 1.0 {
        let term = |k: f64| libm::exp(-(2.0 * k - 1.0) * (2.0 * k - 1.0) * PI * PI / (8.0 * x * x));
        let sum: f64 = (1_u32..=20).map(|k| term(f64::from(k))).sum();
        1.0 - (2.0 * PI).sqrt() / x * sum
    } else {
        let term = |k: u32| {
            let size = libm::exp(-2.0 * f64::from(k) * f64::from(k) * x * x);
            if k % 2 == 1 { size } else { -size }
        };
        2.0 * (1_u32..=20).map(term).sum::<f64>()
    }
}
