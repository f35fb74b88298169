//! The value of a response in one run.

use std::sync::Arc;

/// The value of a response in one run.
#[derive(Clone, Debug, PartialEq)]
pub enum MeasuredValue {
    /// A finite number, in the response's unit.
    Value {
        /// The number.
        value: f64,
        /// The part that MSER-5 removed, if MSER-5 was requested.
        warm_up: Option<Cut>,
    },
    /// There is no number, for this reason.
    NotMeasured(Box<str>),
}

/// The part at the start of a run that MSER-5 removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of removed observations or sampling intervals.
    pub discarded: usize,
    /// Whether the end of the removed part lies in the second half of the run. Then the run was too short to show a
    /// steady state.
    pub too_short: bool,
}

/// The measured values of one run, by response. All runs of an experiment share the memory of the names, because there
/// may be a million runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredValues {
    names: Arc<[Box<str>]>,
    values: Box<[MeasuredValue]>,
}

impl MeasuredValues {
    /// Values of the responses with these names, in the same order.
    pub fn new(names: Arc<[Box<str>]>, values: impl IntoIterator<Item = MeasuredValue>) -> Self {
        Self { names, values: values.into_iter().collect() }
    }

    /// The value of a response; `None` if the run does not have the response.
    pub fn get(&self, response: &str) -> Option<&MeasuredValue> {
        self.names.iter().zip(&self.values).find(|(name, _)| &***name == response).map(|(_, value)| value)
    }
}

impl<N: Into<Box<str>>> FromIterator<(N, MeasuredValue)> for MeasuredValues {
    fn from_iter<I: IntoIterator<Item = (N, MeasuredValue)>>(values: I) -> Self {
        let (names, values): (Vec<Box<str>>, Vec<MeasuredValue>) =
            values.into_iter().map(|(name, value)| (name.into(), value)).unzip();
        Self { names: names.into(), values: values.into() }
    }
}

impl MeasuredValue {
    /// A missing value, with the reason `why`.
    pub fn not(why: impl Into<String>) -> Self {
        Self::NotMeasured(why.into().into())
    }

    /// The number; `None` if the response was not measured.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Value { value, .. } => Some(*value),
            Self::NotMeasured(_) => None,
        }
    }
}

impl From<f64> for MeasuredValue {
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Self::Value { value, warm_up: None }
        } else {
            Self::not("a sample was not a finite number")
        }
    }
}
