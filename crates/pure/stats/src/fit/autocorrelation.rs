//! Autocorrelation, and Ljung and Box's test.

use crate::distribution::ChiSquare;
use crate::error::{StatsError, check_sample};
use crate::summary::mean_and_squares;

/// The sample autocorrelation at `lag`, in -1..=1: the sum of products of values `lag` apart, both less the
/// mean, over the sum of squares. Source: Box, Jenkins and Reinsel, *Time Series Analysis*, 4th ed., section
/// 2.1.5.
///
/// # Errors
/// Fewer than `lag` + 2 values, a value that is not finite, or values that are all equal.
pub fn autocorrelation(values: &[f64], lag: usize) -> Result<f64, StatsError> {
    check_sample(values, lag + 2)?;
    let (mean, squares) = mean_and_squares(values);
    if squares == 0.0 {
        return Err(StatsError::NoSpread { what: "the autocorrelation" });
    }
    let products: f64 = values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum();
    Ok(products / squares)
}

/// The outcome of Ljung and Box's test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LjungBox {
    /// Q, the weighted sum of squared autocorrelations.
    pub statistic: f64,
    /// The number of lags, which is the degrees of freedom.
    pub lags: usize,
    /// The probability of a Q at least as large from independent values.
    pub p_value: f64,
}

/// Tests whether the first `lags` autocorrelations are all zero: Ljung and Box (1978), *On a measure of lack
/// of fit in time series models*.
///
/// # Errors
/// As [`autocorrelation`] at `lags`, or no lag.
pub fn ljung_box(values: &[f64], lags: usize) -> Result<LjungBox, StatsError> {
    let reference = ChiSquare::new(lags as f64)?;
    let n = values.len() as f64;
    let mut sum = 0.0;
    for lag in 1..=lags {
        let r = autocorrelation(values, lag)?;
        sum += r * r / (n - lag as f64);
    }
    let statistic = n * (n + 2.0) * sum;
    Ok(LjungBox { statistic, lags, p_value: reference.upper(statistic) })
}
