//! How a test purpose ends.

/// Why a purpose ended before its last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurposeEnd {
    /// The server broke the rule; the text describes its behaviour.
    Fail(String),
    /// The rule could not be tried; the text gives the reason.
    Inconclusive(String),
}

/// The end of a purpose; `Ok` is a pass.
pub type PurposeOutcome<T = ()> = Result<T, PurposeEnd>;

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

/// Turns the failure of a preparing step into an inconclusive end: it shows nothing about the rule.
pub(super) fn as_inconclusive(end: PurposeEnd) -> PurposeEnd {
    match end {
        PurposeEnd::Fail(text) | PurposeEnd::Inconclusive(text) => PurposeEnd::Inconclusive(text),
    }
}

pub(super) use {ensure, require};
