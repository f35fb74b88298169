//! A theory curve: a formula with a name, for figures.

use std::collections::BTreeMap;

use super::TheoryError;

/// A parameter of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurveParameter {
    /// The name with its unit, such as `rtt_s`.
    pub name: &'static str,
    /// The unit; `"1"` for a pure number.
    pub unit: &'static str,
    /// The description.
    pub doc: &'static str,
    /// The default; `None` if the parameter is required.
    pub default: Option<f64>,
}

impl CurveParameter {
    pub(super) const fn required(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        Self { name, unit, doc, default: None }
    }

    pub(super) const fn optional(
        name: &'static str,
        unit: &'static str,
        doc: &'static str,
        default: f64,
    ) -> Self {
        Self { name, unit, doc, default: Some(default) }
    }
}

/// A formula with a name.
///
/// ```
/// use std::collections::BTreeMap;
/// use netrig_stats::theory;
/// let delay = theory::curve("mm1").unwrap();
/// let service = BTreeMap::from([("service_per_s", 10.0)]);
/// assert_eq!(delay.at(8.0, &service)?, 0.5); // half a second in the system at a load of 0.8
/// # Ok::<(), theory::TheoryError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TheoryCurve {
    /// The name in an experiment file.
    pub name: &'static str,
    /// The title for a legend.
    pub title: &'static str,
    /// All parameters. The first one is usually on the x axis of a figure.
    pub parameters: &'static [CurveParameter],
    /// The unit of the value; `"1"` for a pure number.
    pub unit: &'static str,
    /// The source of the formula.
    pub source: &'static str,
    pub(super) formula: fn(&Arguments) -> Result<f64, TheoryError>,
}

impl TheoryCurve {
    /// The parameter that is usually on the x axis of a figure.
    #[must_use]
    pub fn x(&self) -> &'static CurveParameter {
        &self.parameters[0]
    }

    /// The value for these parameters, given by name. Parameters with a default may be omitted.
    ///
    /// # Errors
    /// A parameter that is missing, unknown or out of range, or an unstable load.
    pub fn eval<K: AsRef<str> + Ord>(&self, parameters: &BTreeMap<K, f64>) -> Result<f64, TheoryError> {
        self.resolve(parameters.iter().map(|(name, value)| (name.as_ref(), *value)))
    }

    /// The value with the first parameter at `x` and the other parameters by name.
    ///
    /// # Errors
    /// As [`eval`](Self::eval).
    pub fn at<K: AsRef<str> + Ord>(&self, x: f64, parameters: &BTreeMap<K, f64>) -> Result<f64, TheoryError> {
        let others = parameters.iter().map(|(name, value)| (name.as_ref(), *value));
        self.resolve(others.chain([(self.x().name, x)]))
    }

    fn resolve<'a>(&self, given: impl Iterator<Item = (&'a str, f64)>) -> Result<f64, TheoryError> {
        let defaults = self.parameters.iter().filter_map(|p| p.default.map(|value| (p.name, value)));
        let mut values: BTreeMap<&'static str, f64> = defaults.collect();
        for (name, value) in given {
            let parameter =
                self.parameters.iter().find(|p| p.name == name).ok_or_else(|| self.unknown(name))?;
            values.insert(parameter.name, value);
        }
        match self.parameters.iter().find(|p| !values.contains_key(p.name)) {
            Some(missing) => Err(TheoryError::Missing { curve: self.name, parameter: missing.name }),
            None => (self.formula)(&Arguments { curve: self.name, values }),
        }
    }

    fn unknown(&self, name: &str) -> TheoryError {
        let known: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
        TheoryError::Unknown { curve: self.name, parameter: name.to_owned(), known: known.join(", ") }
    }
}

/// The values of all parameters of a curve.
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    curve: &'static str,
    values: BTreeMap<&'static str, f64>,
}

impl Arguments {
    /// The value of the parameter.
    pub(super) fn get(&self, parameter: &'static str) -> Result<f64, TheoryError> {
        self.values.get(parameter).copied().ok_or(TheoryError::Missing { curve: self.curve, parameter })
    }

    /// The value of a parameter that is a count: an integer of at least `least`, below 2^32.
    pub(super) fn count(&self, parameter: &'static str, least: u32) -> Result<u32, TheoryError> {
        let value = self.get(parameter)?;
        if value >= f64::from(least) && value <= f64::from(u32::MAX) && value.fract() == 0.0 {
            return Ok(value as u32);
        }
        let range = if least == 0 { "a whole number from 0" } else { "a whole number from 1" };
        Err(TheoryError::OutOfRange { parameter, range, value })
    }
}
