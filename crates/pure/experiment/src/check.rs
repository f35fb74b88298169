//! What can be wrong with a part of an experiment file, told by field so that the loader finds the line.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserializer, de};

use crate::file::diagnostic::closest;

/// A value that cannot stand where it stands.
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

/// `what`, then the name that was probably meant, or all of them.
pub(crate) fn one_of(what: &str, given: &str, known: &[&str]) -> String {
    match closest(given, known) {
        Some(meant) => format!("{what}; did you mean `{meant}`?"),
        None if known.is_empty() => what.to_owned(),
        None => format!("{what} (there are: {})", known.join(", ")),
    }
}

/// Reads what is written as a text. The error arises while the text is visited, so that a reader which knows
/// where the text stands can say so.
pub(crate) fn from_text<'de, T, D>(deserializer: D, expected: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    struct Text<T>(&'static str, PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> de::Visitor<'_> for Text<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Text(expected, PhantomData))
}
