//! Faults in a part of an experiment file. Each names its field, from which the loader finds the line.

use crate::file::diagnostic::closest;

/// A field has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct SpecError {
    /// The key within the part, with dots between nested keys: `where.down_for`.
    pub field: String,
    /// The fault, as a sentence in lower case.
    pub why: String,
}

impl SpecError {
    /// An error about `field`.
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }
}

/// Adds an error about `field`.
pub(crate) fn refuse(errors: &mut Vec<SpecError>, field: impl Into<String>, why: impl Into<String>) {
    errors.push(SpecError::new(field, why));
}

/// A message: `what`, then the known name that is closest to `given`. If no name is close, all known names.
pub(crate) fn one_of(what: &str, given: &str, known: &[&str]) -> String {
    match closest(given, known) {
        Some(meant) => format!("{what}; did you mean `{meant}`?"),
        None if known.is_empty() => what.to_owned(),
        None => format!("{what} (there are: {})", known.join(", ")),
    }
}
