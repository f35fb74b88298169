//! How a test purpose ends.

/// Why a purpose ended before its last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurposeEnd {
    /// The server broke the rule. The text says what it did.
    Fail(String),
    /// The rule could not be tried. The text says why.
    Inconclusive(String),
}

/// How a purpose ends: `Ok` is a pass.
pub type PurposeOutcome = Result<(), PurposeEnd>;

/// Ends a purpose with a failure unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::conformance::PurposeEnd::Fail(format!($($text)+)));
        }
    };
}

/// Ends a purpose without a verdict unless a condition holds.
macro_rules! require {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::conformance::PurposeEnd::Inconclusive(format!($($text)+)));
        }
    };
}

/// A failure of a step that only prepares says nothing about the rule.
pub(super) fn as_inconclusive(end: PurposeEnd) -> PurposeEnd {
    match end {
        PurposeEnd::Fail(text) | PurposeEnd::Inconclusive(text) => PurposeEnd::Inconclusive(text),
    }
}

pub(super) use {ensure, require};
