//! The interval of a ratio of two means.
//!
//! It uses Fieller's theorem, which is exact for normal means and needs no seed. If the confidence interval of the mean of
//! the denominator contains 0, both ends are `None`. In this case the bootstrap would return meaningless numbers. Source: Fieller (1954), *Some problems
//! in interval estimation*, Journal of the Royal Statistical Society B 16(2).

use crate::error::{StatsError, check_confidence, check_pairs};
use crate::interval::mean::critical_t;
use crate::interval::{EstimationMethod, Interval};
use crate::summary::Summary;

/// The variances of the two sample means, and their covariance `shared`.
struct Errors {
    top: f64,
    bottom: f64,
    shared: f64,
}

/// The dimensionless ratio mean(`top`) / mean(`bottom`) of paired values, such as two systems under the same seeds.
/// Both ends are `None` at n = 1, or if the confidence interval of the mean of the denominator contains 0.
///
/// # Errors
/// An empty sample, lengths that differ, a value that is not finite, a denominator whose mean is 0, or
/// `confidence` not strictly between 0 and 1.
pub fn paired_ratio(top: &[f64], bottom: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    check_pairs(top, bottom, 1)?;
    check_confidence(confidence)?;
    let n = top.len();
    let means = means(top, bottom)?;
    if n < 2 {
        return Ok(unbounded(means, n, confidence));
    }
    let products: f64 = top.iter().zip(bottom).map(|(a, b)| (a - means.0) * (b - means.1)).sum();
    let shared = products / ((n - 1) as f64 * n as f64);
    let errors = Errors { top: squared_error(top), bottom: squared_error(bottom), shared };
    let t = critical_t(n as f64 - 1.0, confidence)?;
    Ok(fieller(means, &errors, t, n, confidence))
}

fn means(top: &[f64], bottom: &[f64]) -> Result<(f64, f64), StatsError> {
    let mean = |values: &[f64]| values.iter().copied().collect::<Summary>().mean().unwrap_or(0.0);
    let means = (mean(top), mean(bottom));
    if means.1 == 0.0 {
        return Err(StatsError::OutOfRange {
            what: "denominator's mean",
            range: "different from 0",
            value: 0.0,
        });
    }
    Ok(means)
}

/// The variance of the mean of at least two values.
fn squared_error(values: &[f64]) -> f64 {
    let summary: Summary = values.iter().copied().collect();
    summary.variance().unwrap_or(0.0) / values.len() as f64
}

fn unbounded(means: (f64, f64), n: usize, confidence: f64) -> Interval {
    Interval::symmetric(means.0 / means.1, None, n, confidence, EstimationMethod::Fieller)
}

/// The interval of the ratios r for which a t-test of mean(top) - r mean(bottom) = 0 does not reject. Its ends are the
/// roots of a quadratic equation.
fn fieller(means: (f64, f64), errors: &Errors, t: f64, n: usize, confidence: f64) -> Interval {
    let square = t * t;
    let a = means.1 * means.1 - square * errors.bottom;
    let half_b = means.0 * means.1 - square * errors.shared;
    let c = means.0 * means.0 - square * errors.top;
    if a <= 0.0 {
        return unbounded(means, n, confidence);
    }
    let root = (half_b * half_b - a * c).max(0.0).sqrt();
    Interval {
        estimate: means.0 / means.1,
        low: Some((half_b - root) / a),
        high: Some((half_b + root) / a),
        n,
        confidence,
        method: EstimationMethod::Fieller,
    }
}
