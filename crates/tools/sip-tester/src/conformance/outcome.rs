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

/// [`PurposeEnd::Fail`] with a formatted text.
macro_rules! failure {
    ($($text:tt)+) => { $crate::conformance::PurposeEnd::Fail(format!($($text)+)) };
}

/// [`PurposeEnd::Inconclusive`] with a formatted text.
macro_rules! inconclusive {
    ($($text:tt)+) => { $crate::conformance::PurposeEnd::Inconclusive(format!($($text)+)) };
}

/// The outcome of the last check of a purpose: a pass if a condition holds, otherwise a failure.
macro_rules! ensured {
    ($condition:expr, $($text:tt)+) => {
        if $condition { Ok(()) } else { Err($crate::conformance::outcome::failure!($($text)+)) }
    };
}

/// Ends a purpose with a failure unless a condition holds.
macro_rules! ensure {
    ($($check:tt)+) => { $crate::conformance::outcome::ensured!($($check)+)? };
}

/// The outcome of the last check of a step: a pass if a condition holds, otherwise inconclusive.
macro_rules! required {
    ($condition:expr, $($text:tt)+) => {
        if $condition { Ok(()) } else { Err($crate::conformance::outcome::inconclusive!($($text)+)) }
    };
}

/// Ends a purpose as inconclusive unless a condition holds.
macro_rules! require {
    ($($check:tt)+) => { $crate::conformance::outcome::required!($($check)+)? };
}

/// Turns the failure of a preparing step into an inconclusive outcome, because it shows nothing about the rule.
pub(super) fn as_inconclusive(end: PurposeEnd) -> PurposeEnd {
    match end {
        PurposeEnd::Fail(text) | PurposeEnd::Inconclusive(text) => PurposeEnd::Inconclusive(text),
    }
}

pub(super) use {ensure, ensured, failure, inconclusive, require, required};
