//! Tests of a difference or a ratio of two means.

use super::{Alternative, Comparison, p_of_t, t_statistic};
use crate::error::{StatsError, check_confidence, check_number, check_pairs, check_sample};
use crate::interval::{self, EstimationMethod, Interval, critical_t};
use crate::summary::Summary;

/// The mean difference `left - right` of paired values, by Student's t over the differences (Law, *Simulation Modeling and Analysis*, 5th ed., section 10.2.1).
///
/// `null` is the difference to exceed, in the unit of the values: 0 for "greater", 5 with [`Alternative::Greater`] for
/// "greater by more than 5", -5 with [`Alternative::Less`] for "less by more than 5".
///
/// # Errors
/// An empty sample, lengths that differ, a value or `null` that is not finite, or `confidence` not strictly
/// between 0 and 1.
pub fn paired(
    left: &[f64],
    right: &[f64],
    null: f64,
    alternative: Alternative,
    confidence: f64,
) -> Result<Comparison, StatsError> {
    check_pairs(left, right, 1)?;
    check_number("null value", null)?;
    let differences: Summary = left.iter().zip(right).map(|(a, b)| a - b).collect();
    one_mean(&differences, null, alternative, confidence)
}

/// Tests one mean against a null value.
pub(crate) fn one_mean(
    differences: &Summary,
    null: f64,
    alternative: Alternative,
    confidence: f64,
) -> Result<Comparison, StatsError> {
    let interval = interval::student_of(differences, confidence)?;
    let error = differences.standard_error();
    let statistic = t_statistic(interval.estimate - null, error.unwrap_or(0.0));
    let p_value = match error {
        Some(_) => Some(p_of_t(statistic, differences.n() as f64 - 1.0, alternative)?),
        None => None,
    };
    Ok(Comparison { interval, statistic, p_value })
}

/// The difference of the means of two independent samples whose variances may differ (Welch 1947, degrees of
/// freedom after Satterthwaite 1946). `null` is as in [`paired`]; `n` of the interval is the smaller sample's size.
/// Samples without spread do not show how far away other values may be, so there is no p-value and the interval is
/// open.
///
/// # Errors
/// As [`paired`], except that the lengths may differ.
pub fn welch(
    left: &[f64],
    right: &[f64],
    null: f64,
    alternative: Alternative,
    confidence: f64,
) -> Result<Comparison, StatsError> {
    check_confidence(confidence)?;
    check_number("null value", null)?;
    let (a, b) = (Summary::of(left)?, Summary::of(right)?);
    let difference = a.mean().unwrap_or(0.0) - b.mean().unwrap_or(0.0);
    let n = a.n().min(b.n());
    // Equal values from different computations may differ in their last digits.
    let rounding = 1e-12 * a.mean().unwrap_or(0.0).abs().max(b.mean().unwrap_or(0.0).abs());
    let errors = a.standard_error().zip(b.standard_error()).filter(|(a, b)| a + b > rounding);
    let Some((error_a, error_b)) = errors else {
        let interval = Interval::symmetric(difference, None, n, confidence, EstimationMethod::Welch);
        return Ok(Comparison { interval, statistic: t_statistic(difference - null, 0.0), p_value: None });
    };
    let (square_a, square_b) = (error_a * error_a, error_b * error_b);
    let total = square_a + square_b;
    let parts = square_a * square_a / (a.n() as f64 - 1.0) + square_b * square_b / (b.n() as f64 - 1.0);
    let df = total * total / parts;
    let error = total.sqrt();
    let statistic = t_statistic(difference - null, error);
    let half_width = Some(critical_t(df, confidence)? * error);
    let interval = Interval::symmetric(difference, half_width, n, confidence, EstimationMethod::Welch);
    Ok(Comparison { interval, statistic, p_value: Some(p_of_t(statistic, df, alternative)?) })
}

/// The ratio mean(`left`) / mean(`right`) of paired values, for margins in percent: "more than 10 % greater"
/// is `null` = 1.1 with [`Alternative::Greater`].
///
/// The test is Student's t over `left - null * right`, with opposite sign if the denominator is negative. The interval
/// is Fieller's, which contains exactly the ratios that the two-sided test does not reject.
///
/// # Errors
/// As [`paired`], or a denominator whose mean is 0.
pub fn paired_ratio(
    left: &[f64],
    right: &[f64],
    null: f64,
    alternative: Alternative,
    confidence: f64,
) -> Result<Comparison, StatsError> {
    check_sample(&[null], 1)?;
    let interval = interval::paired_ratio(left, right, confidence)?;
    let bottom: f64 = right.iter().sum();
    let distances: Summary = left.iter().zip(right).map(|(a, b)| (a - null * b) * bottom.signum()).collect();
    let test = one_mean(&distances, 0.0, alternative, confidence)?;
    Ok(Comparison { interval, ..test })
}
