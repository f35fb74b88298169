//! Fairness of shares of a resource.

use crate::error::{StatsError, check_sample};

/// Jain's fairness index of the shares of n flows: (sum x)^2 / (n sum x^2), from 1/n (one flow has all) to 1
/// (all equal).
///
/// Source: Jain, Chiu and Hawe (1984), *A quantitative measure of fairness and discrimination for resource
/// allocation*, DEC TR-301.
///
/// # Errors
/// No flow, a share that is negative or not finite, or shares that are all 0.
pub fn jain(shares: &[f64]) -> Result<f64, StatsError> {
    check_sample(shares, 1)?;
    if let Some(&value) = shares.iter().find(|x| **x < 0.0) {
        return Err(StatsError::OutOfRange { what: "share", range: "a number from 0", value });
    }
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return Err(StatsError::OutOfRange {
            what: "sum of the shares",
            range: "greater than 0",
            value: 0.0,
        });
    }
    // The index does not depend on the unit. If the largest share is the unit, the squares stay in range.
    let (sum, squares) = shares.iter().map(|x| x / largest).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    Ok(sum * sum / (shares.len() as f64 * squares))
}
