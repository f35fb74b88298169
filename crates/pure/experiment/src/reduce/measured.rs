//! What a run measured of a response.

use serde::{Deserialize, Serialize};

/// What a run measured of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// A finite number, in the response's unit.
    Value {
        /// The number.
        value: f64,
        /// What MSER-5 left out, if it was asked.
        warm_up: Option<Cut>,
    },
    /// There is no number, and why.
    NotMeasured(String),
}

/// What MSER-5 left out at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Observations or sampling intervals that were left out.
    pub discarded: usize,
    /// Whether the cut lies in the second half: the run was too short to show a steady state.
    pub too_short: bool,
}

impl Measured {
    /// Not measured, because of `why`.
    pub fn not(why: impl Into<String>) -> Self {
        Self::NotMeasured(why.into())
    }

    /// The number, if there is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Value { value, .. } => Some(*value),
            Self::NotMeasured(_) => None,
        }
    }
}

impl From<f64> for Measured {
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Self::Value { value, warm_up: None }
        } else {
            Self::not("a sample was not a finite number")
        }
    }
}
