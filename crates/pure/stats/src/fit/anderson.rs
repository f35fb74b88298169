//! The Anderson-Darling test for exponential values.

use crate::error::{StatsError, check_sample};
use crate::quantile::sorted;
use crate::summary::mean;

/// The outcome of an Anderson-Darling test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AndersonDarling {
    /// A squared: the distance between the distribution functions, weighted towards the tails.
    pub statistic: f64,
    /// The sample size.
    pub n: usize,
    /// The probability that an exponential sample has a statistic at least as large.
    pub p_value: f64,
}

impl AndersonDarling {
    /// A² (1 + 0.6 / n), the statistic of the published tables if the mean is estimated. One in twenty exponential
    /// samples exceeds 1.321 (D'Agostino and Stephens 1986, table 4.14).
    #[must_use]
    pub fn modified(&self) -> f64 {
        self.statistic * (1.0 + 0.6 / self.n as f64)
    }
}

/// Tests whether positive values, such as the gaps of a Poisson process, are exponential. The mean is estimated from the
/// values.
///
/// The p-value is a published function of A^2 (1 + 0.6 / n): D'Agostino and Stephens, *Goodness-of-Fit Techniques*
/// (1986), section 4.9. Below 0.25 its error is about 0.002.
///
/// # Errors
/// Fewer than three values, a value that is not finite or not positive.
pub fn anderson_darling_exponential(values: &[f64]) -> Result<AndersonDarling, StatsError> {
    check_sample(values, 3)?;
    if let Some(&value) = values.iter().find(|v| **v <= 0.0) {
        return Err(StatsError::OutOfRange { what: "value", range: "positive", value });
    }
    let n = values.len();
    let mean = mean(values);
    let sorted = sorted(values);
    // For the exponential distribution ln(1 - F(x)) is -x / mean, which has no rounding error.
    let term = |(rank, value): (usize, &f64)| {
        let ln_below = libm::log(-libm::expm1(-value / mean));
        let ln_above = -sorted[n - 1 - rank] / mean;
        (2.0 * rank as f64 + 1.0) * (ln_below + ln_above)
    };
    let statistic = -(n as f64) - sorted.iter().enumerate().map(term).sum::<f64>() / n as f64;
    let mut test = AndersonDarling { statistic, n, p_value: 0.0 };
    test.p_value = upper(test.modified());
    Ok(test)
}

/// The p-value as a published function of the statistic. The last piece has its minimum at 10.03, so larger arguments
/// are limited to 10.03.
fn upper(a: f64) -> f64 {
    let p = if a < 0.26 {
        -libm::expm1(-12.2204 + a * (67.459 - a * 110.3))
    } else if a < 0.51 {
        -libm::expm1(-6.1327 + a * (20.218 - a * 18.663))
    } else if a < 0.95 {
        libm::exp(0.9209 - a * (3.353 - a * 0.300))
    } else {
        let a = a.min(10.03);
        libm::exp(0.731 - a * (3.009 - a * 0.15))
    };
    p.clamp(0.0, 1.0)
}
