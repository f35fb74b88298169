//! Exact quantiles of a sample, and their distribution-free confidence intervals.

use crate::distribution::Binomial;
use crate::error::{StatsError, check_confidence, check_open_unit, check_sample};
use crate::interval::{EstimationMethod, Interval};

/// The definition of [`quantile`], as text for reports.
pub const DEFINITION: &str = "type 7 of Hyndman and Fan (1996), linear between the two nearest observations";

/// The values, sorted in rising order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The `p`-quantile of `values`, in the unit of the values. `p` is in [0, 1].
///
/// Type 7 of Hyndman and Fan (1996), *Sample quantiles in statistical packages*: linear between the order
/// statistics around position `(n - 1) p`, the default of R, NumPy and Excel. It is exact, without bins or sketches.
///
/// # Errors
/// An empty sample, a value that is not finite, or `p` outside [0, 1].
pub fn quantile(values: &[f64], p: f64) -> Result<f64, StatsError> {
    check_sample(values, 1)?;
    if !(0.0..=1.0).contains(&p) {
        return Err(StatsError::OutOfRange { what: "quantile", range: "between 0 and 1", value: p });
    }
    Ok(of_sorted(&sorted(values), p))
}

/// The median: the 0.5-quantile.
///
/// # Errors
/// An empty sample, or a value that is not finite.
pub fn median(values: &[f64]) -> Result<f64, StatsError> {
    quantile(values, 0.5)
}

/// [`quantile`] of a sample in rising order, which must not be empty.
pub(crate) fn of_sorted(sorted: &[f64], p: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * p;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let share = position - below as f64;
    if share == 0.0 { sorted[below] } else { sorted[below] + share * (sorted[above] - sorted[below]) }
}

/// The `p`-quantile with an interval between two order statistics, valid for any distribution.
///
/// The number of values below the true quantile is binomial(n, p). Each tail has a probability of at most half of
/// `1 - confidence` (Conover, *Practical Nonparametric Statistics*, 3rd ed., section 3.2), so coverage is at least
/// `confidence`. An end is `None` if the sample is too small to bound that side.
///
/// # Errors
/// An empty sample, a value that is not finite, `p` or `confidence` not strictly between 0 and 1.
pub fn interval(values: &[f64], p: f64, confidence: f64) -> Result<Interval, StatsError> {
    check_sample(values, 1)?;
    check_open_unit("quantile", p)?;
    let (low, high) = ranks(values.len(), p, confidence)?;
    let sorted = sorted(values);
    Ok(Interval {
        estimate: of_sorted(&sorted, p),
        low: low.map(|rank| sorted[rank]),
        high: high.map(|rank| sorted[rank]),
        n: sorted.len(),
        confidence,
        method: EstimationMethod::OrderStatistics,
    })
}

/// The ranks (from 0) of the two order statistics that bound the `p`-quantile in a sample of `n`. A rank is `None` if the
/// sample is too small to bound that side.
pub(crate) fn ranks(n: usize, p: f64, confidence: f64) -> Result<(Option<usize>, Option<usize>), StatsError> {
    let tail = 0.5 * (1.0 - check_confidence(confidence)?);
    if n == 0 {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    let below = Binomial::new(n, p)?;
    // The value of rank r (from 0) is above the quantile if at most r values are below the quantile.
    let low = first_where(n, |rank| below.cdf(rank) > tail);
    let high = first_where(n, |rank| below.upper(rank) <= tail);
    Ok((low.checked_sub(1), (high < n).then_some(high)))
}

/// The first rank in `0..n` for which `holds` is true; `n` if there is none. `holds` must be monotone.
fn first_where(n: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, n);
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) { to = middle } else { from = middle + 1 }
    }
    from
}
