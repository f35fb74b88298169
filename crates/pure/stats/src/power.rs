//! The number of replications that a test needs, given the spread between replications.
//!
//! The formulas use Student's quantiles at n instead of the noncentral t (Guenther 1981, *Sample size formulas for
//! normal theory t tests*). The error is at most one replication.

use crate::distribution::StudentT;
use crate::error::{StatsError, check_confidence, check_open_unit, check_positive};
use crate::interval::critical_t;

/// The largest result. A larger n is reported as this number.
pub const MOST: usize = 1_000_000_000;

/// The smallest n, at least 2, at which Student's interval of a mean is as narrow as `half_width` (same unit as `sd`).
///
/// # Errors
/// `sd` negative or not finite, `half_width` not positive, or `confidence` not strictly between 0 and 1.
pub fn for_half_width(sd: f64, half_width: f64, confidence: f64) -> Result<usize, StatsError> {
    check_positive("half width", half_width)?;
    check_confidence(confidence)?;
    smallest(sd, half_width, |df| critical_t(df, confidence))
}

/// The number of pairs at which a one-sided paired t-test at `level` finds a true mean difference of
/// `difference` with probability `power`. `sd` is the standard deviation of the differences, in the same unit. For a
/// two-sided test, halve `level`.
///
/// # Errors
/// `sd` negative or not finite, `difference` not positive, `level` or `power` not strictly between 0 and 1.
pub fn for_difference(sd: f64, difference: f64, level: f64, power: f64) -> Result<usize, StatsError> {
    check_positive("difference", difference)?;
    check_open_unit("level", level)?;
    check_open_unit("power", power)?;
    smallest(sd, difference, |df| {
        let t = StudentT::new(df)?;
        Ok(t.quantile(1.0 - level)? + t.quantile(power)?)
    })
}

/// The number of pairs at which two one-sided tests at `level` show that a true mean difference of
/// `difference` lies inside ±`margin` with probability `power` (Chow, Shao and Wang, *Sample Size
/// Calculations in Clinical Research*, 2nd ed., section 3.1). `sd` is the standard deviation of the differences, in
/// the same unit.
///
/// # Errors
/// `sd` negative or not finite, `margin` not greater than `difference`'s magnitude, `level` or `power` not
/// strictly between 0 and 1.
pub fn for_equivalence(
    sd: f64,
    difference: f64,
    margin: f64,
    level: f64,
    power: f64,
) -> Result<usize, StatsError> {
    check_open_unit("level", level)?;
    check_open_unit("power", power)?;
    let room = check_positive("margin beyond the difference", margin - difference.abs())?;
    // At a difference of 0 both tests can fail, each with half of the error. Otherwise one of the tests almost never
    // fails.
    let error = if difference == 0.0 { 0.5 * (1.0 - power) } else { 1.0 - power };
    smallest(sd, room, |df| {
        let t = StudentT::new(df)?;
        Ok(t.quantile(1.0 - level)? + t.quantile(1.0 - error)?)
    })
}

/// The smallest n with `factor(n - 1) sd / sqrt(n) <= width`. `factor` falls with the degrees of freedom, so its value
/// at [`MOST`] gives a lower bound. The result is a few steps above this bound.
fn smallest(
    sd: f64,
    width: f64,
    factor: impl Fn(f64) -> Result<f64, StatsError>,
) -> Result<usize, StatsError> {
    if !(sd >= 0.0 && sd.is_finite()) {
        return Err(StatsError::OutOfRange {
            what: "standard deviation",
            range: "a finite number from 0",
            value: sd,
        });
    }
    let root = factor(MOST as f64)? * sd / width;
    let mut n = ((root * root).floor() as usize).clamp(2, MOST);
    while n < MOST && factor(n as f64 - 1.0)? * sd > width * (n as f64).sqrt() {
        n += 1;
    }
    Ok(n)
}
