//! Equivalence of two systems, by two one-sided tests.
//!
//! A difference that is not significant is no proof of equivalence. Equivalence at level alpha is shown if both "the
//! difference is above the lower margin" and "it is below the upper margin" are shown, each at alpha. Then the
//! interval at confidence 1 - 2 alpha lies inside the margin. Source: Schuirmann (1987), *A comparison of the
//! two one-sided tests procedure and the power approach for assessing the equivalence of average
//! bioavailability*.

use super::{Alternative, Comparison, paired, paired_ratio, welch};
use crate::error::{StatsError, check_number};
use crate::interval::Interval;

/// The range of differences (in the unit of the values) or of ratios that count as equivalent: `low..=high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    low: f64,
    high: f64,
}

impl Margin {
    /// From `low` to `high`.
    ///
    /// # Errors
    /// An end that is not finite, or `low` not below `high`.
    pub fn new(low: f64, high: f64) -> Result<Self, StatsError> {
        check_number("lower margin", low)?;
        check_number("upper margin", high)?;
        if low < high {
            Ok(Self { low, high })
        } else {
            Err(StatsError::OutOfRange { what: "upper margin", range: "above the lower margin", value: high })
        }
    }

    /// ±`width` around no difference, in the unit of the values.
    ///
    /// # Errors
    /// A width that is not positive and finite.
    pub fn within(width: f64) -> Result<Self, StatsError> {
        Self::new(-width, width)
    }

    /// Ratios within ±`share` of 1: 0.05 for "5 %".
    ///
    /// # Errors
    /// A share that is not positive and finite.
    pub fn within_share(share: f64) -> Result<Self, StatsError> {
        Self::new(1.0 - share, 1.0 + share)
    }
}

/// The outcome of two one-sided tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equivalence {
    /// The difference or ratio with its interval at confidence 1 - 2 alpha. The systems are equivalent if the interval
    /// lies inside the margin.
    pub interval: Interval,
    /// The p-value of the test that the effect is above the lower margin; `None` at n = 1.
    pub p_above_low: Option<f64>,
    /// The p-value of the test that the effect is below the upper margin; `None` at n = 1.
    pub p_below_high: Option<f64>,
    /// The larger of the two: equivalence is shown at this level and above. `None` at n = 1.
    pub p_value: Option<f64>,
}

/// Equivalence of paired values by the mean difference `left - right`. `confidence` is 1 - alpha: 0.95 gives
/// two tests at 5 % and the 90 % interval.
///
/// # Errors
/// As [`paired`], or `confidence` not above 0.5.
pub fn equivalent_paired(
    left: &[f64],
    right: &[f64],
    margin: Margin,
    confidence: f64,
) -> Result<Equivalence, StatsError> {
    two_one_sided(margin, confidence, |null, side, level| paired(left, right, null, side, level))
}

/// Equivalence of two independent samples by the difference of their means. The variances may differ.
///
/// # Errors
/// As [`welch`], or `confidence` not above 0.5.
pub fn equivalent_welch(
    left: &[f64],
    right: &[f64],
    margin: Margin,
    confidence: f64,
) -> Result<Equivalence, StatsError> {
    two_one_sided(margin, confidence, |null, side, level| welch(left, right, null, side, level))
}

/// Equivalence of paired values by the ratio mean(`left`) / mean(`right`), with a margin around 1 (Sasabuchi
/// 1980; Hauschke, Kieser and Hothorn 1999).
///
/// # Errors
/// As [`paired_ratio`], or `confidence` not above 0.5.
pub fn equivalent_ratio(
    left: &[f64],
    right: &[f64],
    margin: Margin,
    confidence: f64,
) -> Result<Equivalence, StatsError> {
    two_one_sided(margin, confidence, |null, side, level| paired_ratio(left, right, null, side, level))
}

fn two_one_sided(
    margin: Margin,
    confidence: f64,
    test: impl Fn(f64, Alternative, f64) -> Result<Comparison, StatsError>,
) -> Result<Equivalence, StatsError> {
    if !(confidence > 0.5 && confidence < 1.0) {
        let range = "between 0.5 and 1 (both excluded)";
        return Err(StatsError::OutOfRange { what: "confidence", range, value: confidence });
    }
    let interval_confidence = 2.0 * confidence - 1.0;
    let above = test(margin.low, Alternative::Greater, interval_confidence)?;
    let below = test(margin.high, Alternative::Less, interval_confidence)?;
    let p_value = above.p_value.zip(below.p_value).map(|(a, b)| a.max(b));
    Ok(Equivalence {
        interval: above.interval,
        p_above_low: above.p_value,
        p_below_high: below.p_value,
        p_value,
    })
}
