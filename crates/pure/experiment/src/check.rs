//! Faults in a part of an experiment file, by field, so that the loader finds the line.

use crate::file::diagnostic::closest;

/// A value that its field cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {why}")]
pub struct SpecError {
    /// The key within the part, dotted: `where.down_for`.
    pub field: String,
    /// What is wrong, as a lower-case sentence.
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

/// `what`, then the known name that is closest to `given`, or all known names.
pub(crate) fn one_of(what: &str, given: &str, known: &[&str]) -> String {
    match closest(given, known) {
        Some(meant) => format!("{what}; did you mean `{meant}`?"),
        None if known.is_empty() => what.to_owned(),
        None => format!("{what} (there are: {})", known.join(", ")),
    }
}
