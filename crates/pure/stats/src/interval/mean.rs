//! Intervals of a mean over independent values, such as one value per replication.

use crate::distribution::StudentT;
use crate::error::{StatsError, check_confidence, check_sample};
use crate::interval::{EstimationMethod, Interval};
use crate::summary::Summary;

/// The two-sided critical value of Student's t: exceeded in magnitude with probability `1 - confidence`.
pub(crate) fn critical_t(df: f64, confidence: f64) -> Result<f64, StatsError> {
    StudentT::new(df)?.quantile(0.5 + 0.5 * confidence)
}

/// Student's interval of the mean (Student 1908): mean ± t s / sqrt(n). Both ends are `None` at n = 1.
///
/// The interval is exact for independent normal values. Means of runs are nearly normal. For clearly skewed values and
/// n below about 50 its coverage is too low (90 % instead of 95 % for ten exponential values): see [`skew_adjusted`].
///
/// # Errors
/// An empty sample, a value that is not finite, or `confidence` not strictly between 0 and 1.
pub fn student(values: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    student_of(&Summary::of(values)?, confidence)
}

/// [`student`] from a summary instead of the values.
///
/// # Errors
/// An empty summary, or `confidence` not strictly between 0 and 1.
pub fn student_of(summary: &Summary, confidence: f64) -> Result<Interval, StatsError> {
    check_confidence(confidence)?;
    let n = summary.n();
    let mean = summary.mean().ok_or(StatsError::TooFew { needed: 1, got: 0 })?;
    let half_width = match summary.standard_error() {
        Some(error) => Some(critical_t(n as f64 - 1.0, confidence)? * error),
        None => None,
    };
    Ok(Interval::symmetric(mean, half_width, n, confidence, EstimationMethod::Student))
}

/// Student's interval with each end moved outwards, never inwards, to account for the sample's skewness.
///
/// The shifted end is Willink's (2005), *A confidence interval and test for the mean of an asymmetric
/// distribution*, Communications in Statistics 34(4): mean - G(±t) s / sqrt(n) with G(r) = ((1 + 6 a (r -
/// a))^(1/3) - 1) / (2 a) and a = m3 / (6 sqrt(n) s^3), where m3 is the unbiased third central moment. On each side the
/// wider of Willink's and Student's end is used, which keeps the nominal coverage for symmetric samples. For
/// exponential values it raises coverage from 90 % to 94 % at n = 10. Below three values it equals [`student`].
///
/// # Errors
/// As [`student`].
pub fn skew_adjusted(values: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    check_sample(values, 1)?;
    let summary: Summary = values.iter().copied().collect();
    let plain = Interval { method: EstimationMethod::SkewAdjusted, ..student_of(&summary, confidence)? };
    let (Some(low), Some(high), Some(error)) = (plain.low, plain.high, summary.standard_error()) else {
        return Ok(plain);
    };
    if values.len() < 3 || error == 0.0 {
        return Ok(plain);
    }
    let n = values.len() as f64;
    let mean = plain.estimate;
    let cubes: f64 = values.iter().map(|v| (v - mean) / (error * n.sqrt())).map(|d| d * d * d).sum();
    let skewness = cubes * n / ((n - 1.0) * (n - 2.0));
    let t = (high - mean) / error;
    let shift = |r: f64| error * willink(skewness / (6.0 * n.sqrt()), r);
    Ok(Interval { low: Some(low.min(mean - shift(t))), high: Some(high.max(mean - shift(-t))), ..plain })
}

/// Willink's G(r). If the skewness approaches zero, its limit is r.
fn willink(a: f64, r: f64) -> f64 {
    if a.abs() < 1e-9 { r } else { (libm::cbrt(1.0 + 6.0 * a * (r - a)) - 1.0) / (2.0 * a) }
}
