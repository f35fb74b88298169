//! What is wrong with a message.

use std::borrow::Cow;

/// A text that does not follow the grammar of RFC 3261 section 25.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: expected {expected} ({rule})")]
pub struct ParseError {
    /// Where, in bytes from the start of what was parsed.
    pub at: usize,
    /// What should stand there.
    pub expected: &'static str,
    /// Where that is written: `RFC 3261 section 20.42`.
    pub rule: &'static str,
}

impl ParseError {
    /// The same error in a text that begins `by` bytes earlier.
    pub(crate) fn moved(self, by: usize) -> Self {
        Self { at: self.at + by, ..self }
    }
}

/// A message that follows the grammar and breaks a rule all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({rule})")]
pub struct Violation {
    /// What is wrong, with the values that are: ``the CSeq's method is `BYE`, the request's `INVITE` ``.
    pub what: Cow<'static, str>,
    /// Where the rule is written: `RFC 3261 section 8.1.1.5`.
    pub rule: &'static str,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, what: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into(), rule }
    }
}
