//! Tests of many claims with a common error rate.

use crate::error::{StatsError, check_sample};

/// Holm's step-down adjusted p-values, in the order of `p_values`.
///
/// If every claim with an adjusted value of at most alpha is rejected, the probability of any false rejection is at
/// most alpha, whatever the dependence between the tests. Source: Holm (1979), *A simple sequentially rejective
/// multiple test procedure*.
///
/// # Errors
/// A value outside [0, 1].
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, StatsError> {
    check_sample(p_values, 0)?;
    if let Some(&value) = p_values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(StatsError::OutOfRange { what: "p-value", range: "between 0 and 1", value });
    }
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        let remaining = (p_values.len() - rank) as f64;
        largest = largest.max(remaining * p_values[index]).min(1.0);
        adjusted[index] = largest;
    }
    Ok(adjusted)
}
