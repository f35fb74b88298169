//! Theory: expected results of measurements under stated assumptions.
//!
//! Each model is a type whose constructor refuses parameters outside the formula's domain (an unstable load, a loss
//! probability of 2). Names of methods include their units. [`curve`] finds a formula by its name in experiment files.

pub mod arq;
pub mod cardwell;
pub mod cubic;
mod curve;
pub mod dcf;
pub mod e_model;
pub mod erlang;
pub mod finite;
pub mod padhye;
pub mod periodic_loss;
pub mod priority;
pub mod queue;
mod registry;
pub mod retransmission;
pub mod tcp;
pub mod token_bucket;

pub use curve::{CurveParameter, TheoryCurve};
pub use registry::{curve, curves};

/// Why a formula has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TheoryError {
    /// The load is 1 or more: there is no steady state.
    #[error("the load of {load} is not below 1, so there is no steady state")]
    Unstable {
        /// Offered work per server, dimensionless.
        load: f64,
    },
    /// A parameter lies outside its range.
    #[error("{parameter} must be {range}, not {value}")]
    OutOfRange {
        /// The parameter's name.
        parameter: &'static str,
        /// The allowed values, in words.
        range: &'static str,
        /// The given value.
        value: f64,
    },
    /// A curve's parameter is missing and has no default.
    #[error("the curve {curve} needs the parameter {parameter}")]
    Missing {
        /// The curve's name.
        curve: &'static str,
        /// The parameter's name.
        parameter: &'static str,
    },
    /// A parameter that the curve does not have.
    #[error("the curve {curve} has no parameter {parameter}; it has {known}")]
    Unknown {
        /// The curve's name.
        curve: &'static str,
        /// The given name.
        parameter: String,
        /// The names of the curve's parameters, separated by commas.
        known: String,
    },
}

/// Checks that a number is finite and greater than zero.
fn positive(parameter: &'static str, value: f64) -> Result<f64, TheoryError> {
    let range = "a positive finite number";
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value })
    }
}

/// Checks that a number is finite and not negative.
fn not_negative(parameter: &'static str, value: f64) -> Result<f64, TheoryError> {
    let range = "a finite number from 0";
    if value >= 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value })
    }
}

/// Checks that a loss probability is from 0 to below 1.
fn loss_probability(parameter: &'static str, value: f64) -> Result<f64, TheoryError> {
    let range = "from 0 to below 1";
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value })
    }
}

/// Checks that a load is below 1.
fn stable(load: f64) -> Result<f64, TheoryError> {
    if load < 1.0 { Ok(load) } else { Err(TheoryError::Unstable { load }) }
}

/// Checks the number of iterations of a formula. It is at most ten million, so that no experiment file can make it run
/// for hours.
fn size(parameter: &'static str, value: u32) -> Result<u32, TheoryError> {
    let range = "at most ten million";
    if value <= 10_000_000 {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value: f64::from(value) })
    }
}
