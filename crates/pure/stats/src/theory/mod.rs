//! Closed forms: what a measurement should have been under stated assumptions.
//!
//! Each model is a type whose constructor refuses parameters for which the formula says nothing (an unstable
//! load, a loss probability of 2); its methods carry their units in their names. [`curve`] finds a formula by
//! the name that an experiment file uses.

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

/// Why a formula gives no number.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TheoryError {
    /// More arrives than can be served: no steady state exists.
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
        /// The values it may take, in words.
        range: &'static str,
        /// The value that was given.
        value: f64,
    },
    /// A curve's parameter was not given and has no default.
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
        /// The name that was given.
        parameter: String,
        /// The names that it has, separated by commas.
        known: String,
    },
}

/// A finite number greater than zero.
fn positive(parameter: &'static str, value: f64) -> Result<f64, TheoryError> {
    let range = "a positive finite number";
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value })
    }
}

/// A finite number from zero on.
fn not_negative(parameter: &'static str, value: f64) -> Result<f64, TheoryError> {
    let range = "a finite number from 0";
    if value >= 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value })
    }
}

/// A probability that leaves some chance of success: from 0 to below 1.
fn loss_probability(parameter: &'static str, value: f64) -> Result<f64, TheoryError> {
    let range = "from 0 to below 1";
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value })
    }
}

/// A load below 1.
fn stable(load: f64) -> Result<f64, TheoryError> {
    if load < 1.0 { Ok(load) } else { Err(TheoryError::Unstable { load }) }
}

/// A size that a formula counts up to, one by one: at most ten million, so that no file makes it count for
/// hours.
fn size(parameter: &'static str, value: u32) -> Result<u32, TheoryError> {
    let range = "at most ten million";
    if value <= 10_000_000 {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range, value: f64::from(value) })
    }
}
