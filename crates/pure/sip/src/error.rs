//! Errors in messages: broken grammar, and broken rules.

use std::borrow::Cow;

/// A text breaks the grammar of RFC 3261 section 25.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: expected {expected} ({rule})")]
pub struct ParseError {
    /// Position of the error, bytes from the start of the parsed text.
    pub at: usize,
    /// The element that the grammar requires there.
    pub expected: &'static str,
    /// The section with the grammar: `RFC 3261 section 20.42`.
    pub rule: &'static str,
}

impl ParseError {
    /// The same error with its position `by` bytes later, for a text that begins that much earlier.
    pub(crate) fn moved(self, by: usize) -> Self {
        Self { at: self.at + by, ..self }
    }
}

/// A message follows the grammar but breaks another rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({rule})")]
pub struct Violation {
    /// The defect, with the wrong values: ``the CSeq's method is `BYE`, the request's `INVITE` ``.
    pub what: Cow<'static, str>,
    /// The section with the rule: `RFC 3261 section 8.1.1.5`.
    pub rule: &'static str,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, what: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into(), rule }
    }
}
