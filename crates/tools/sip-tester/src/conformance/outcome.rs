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

/// An end with a failure.
macro_rules! failure {
    ($($text:tt)+) => { $crate::conformance::PurposeEnd::Fail(format!($($text)+)) };
}

/// An end without a verdict.
macro_rules! inconclusive {
    ($($text:tt)+) => { $crate::conformance::PurposeEnd::Inconclusive(format!($($text)+)) };
}

/// The end of a purpose by its last check: a failure unless a condition holds.
macro_rules! ensured {
    ($condition:expr, $($text:tt)+) => {
        if $condition { Ok(()) } else { Err($crate::conformance::outcome::failure!($($text)+)) }
    };
}

/// Ends a purpose with a failure unless a condition holds.
macro_rules! ensure {
    ($($check:tt)+) => { $crate::conformance::outcome::ensured!($($check)+)? };
}

/// The end of a step by its last check: no verdict unless a condition holds.
macro_rules! required {
    ($condition:expr, $($text:tt)+) => {
        if $condition { Ok(()) } else { Err($crate::conformance::outcome::inconclusive!($($text)+)) }
    };
}

/// Ends a purpose without a verdict unless a condition holds.
macro_rules! require {
    ($($check:tt)+) => { $crate::conformance::outcome::required!($($check)+)? };
}

/// Turns the failure of a preparing step into an inconclusive end: it shows nothing about the rule.
pub(super) fn as_inconclusive(end: PurposeEnd) -> PurposeEnd {
    match end {
        PurposeEnd::Fail(text) | PurposeEnd::Inconclusive(text) => PurposeEnd::Inconclusive(text),
    }
}

pub(super) use {ensure, ensured, failure, inconclusive, require, required};
