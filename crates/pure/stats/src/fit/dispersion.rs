//! The index of dispersion of counts.

use crate::distribution::ChiSquare;
use crate::error::{StatsError, check_sample};
use crate::summary::mean;

/// The dispersion of counts per interval, compared with a Poisson process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dispersion {
    /// Variance over mean: 1 for a Poisson process, less for smoother, more for burstier traffic.
    pub index: f64,
    /// The number of intervals.
    pub n: usize,
    /// The two-sided p-value against a Poisson process.
    pub p_value: f64,
}

/// The index of dispersion of counts in equally long intervals. For a Poisson process (n - 1) index is chi-square with
/// n - 1 degrees of freedom. Source: Cox and Lewis, *The Statistical Analysis of Series of
/// Events* (1966), section 6.3.
///
/// # Errors
/// Fewer than two intervals, a count that is negative or not finite, or no event at all.
pub fn index_of_dispersion(counts: &[f64]) -> Result<Dispersion, StatsError> {
    check_sample(counts, 2)?;
    if let Some(&value) = counts.iter().find(|c| **c < 0.0) {
        return Err(StatsError::OutOfRange { what: "count", range: "a number from 0", value });
    }
    let n = counts.len();
    let mean = mean(counts);
    if mean == 0.0 {
        return Err(StatsError::OutOfRange { what: "number of events", range: "greater than 0", value: 0.0 });
    }
    let squares: f64 = counts.iter().map(|c| (c - mean) * (c - mean)).sum();
    let reference = ChiSquare::new(n as f64 - 1.0)?;
    let tail = reference.cdf(squares / mean).min(reference.upper(squares / mean));
    Ok(Dispersion { index: squares / (mean * (n as f64 - 1.0)), n, p_value: (2.0 * tail).min(1.0) })
}
