//! Errors in the caller's numbers, and the functions that check for them.

/// The reason why a statistic cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// The sample is smaller than the method allows.
    #[error("needs at least {needed} values but has {got}")]
    TooFew {
        /// The smallest sample the method accepts.
        needed: usize,
        /// The size of the given sample.
        got: usize,
    },
    /// A value is infinite or not a number.
    #[error("value {index} is not a finite number")]
    NotFinite {
        /// The index of the first such value, from 0.
        index: usize,
    },
    /// Two paired samples differ in length.
    #[error("paired samples differ in length: {left} and {right}")]
    LengthsDiffer {
        /// The length of the first sample.
        left: usize,
        /// The length of the second sample.
        right: usize,
    },
    /// A parameter lies outside its range.
    #[error("{what} must be {range}, not {value}")]
    OutOfRange {
        /// The parameter's name.
        what: &'static str,
        /// The allowed values, in words.
        range: &'static str,
        /// The given value.
        value: f64,
    },
    /// All values are equal, but the method needs spread.
    #[error("{what} is undefined because all values are equal")]
    NoSpread {
        /// The requested statistic.
        what: &'static str,
    },
}

/// Checks that a confidence or probability lies strictly between 0 and 1.
pub(crate) fn check_open_unit(what: &'static str, value: f64) -> Result<f64, StatsError> {
    let range = "between 0 and 1 (both excluded)";
    if value > 0.0 && value < 1.0 { Ok(value) } else { Err(StatsError::OutOfRange { what, range, value }) }
}

/// Checks a confidence level such as 0.95.
pub(crate) fn check_confidence(confidence: f64) -> Result<f64, StatsError> {
    check_open_unit("confidence", confidence)
}

/// Checks that a number is finite and greater than zero.
pub(crate) fn check_positive(what: &'static str, value: f64) -> Result<f64, StatsError> {
    let range = "a positive finite number";
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(StatsError::OutOfRange { what, range, value })
    }
}

/// Checks that a number is finite.
pub(crate) fn check_number(what: &'static str, value: f64) -> Result<f64, StatsError> {
    let range = "a finite number";
    if value.is_finite() { Ok(value) } else { Err(StatsError::OutOfRange { what, range, value }) }
}

/// Checks that there are at least `needed` values, all finite.
pub(crate) fn check_sample(values: &[f64], needed: usize) -> Result<(), StatsError> {
    if values.len() < needed {
        return Err(StatsError::TooFew { needed, got: values.len() });
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { index }),
        None => Ok(()),
    }
}

/// Checks that two samples have the same length, at least `needed`, and that all values are finite.
pub(crate) fn check_pairs(left: &[f64], right: &[f64], needed: usize) -> Result<(), StatsError> {
    if left.len() != right.len() {
        return Err(StatsError::LengthsDiffer { left: left.len(), right: right.len() });
    }
    check_sample(left, needed)?;
    check_sample(right, needed)
}

/// Checks that there are at least `least` levels (at least 1), each with the same number of replications, which must be
/// at least `replications`. Returns that number.
pub(crate) fn check_levels(
    levels: &[Vec<f64>],
    least: usize,
    replications: usize,
) -> Result<usize, StatsError> {
    if levels.len() < least {
        return Err(StatsError::TooFew { needed: least, got: levels.len() });
    }
    for level in levels {
        check_pairs(&levels[0], level, replications)?;
    }
    Ok(levels[0].len())
}
