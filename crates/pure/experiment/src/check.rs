//! Faults in a part of an experiment file, by field, so that the loader finds the line.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserializer, de};

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

/// Reads a value that the file writes as a text. The error arises while the text is visited, so that a reader
/// that knows the position of the text can add it.
pub(crate) fn from_text<'de, T, D>(deserializer: D, expected: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    struct TextVisitor<T>(&'static str, PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> de::Visitor<'_> for TextVisitor<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_any(TextVisitor(expected, PhantomData))
}
