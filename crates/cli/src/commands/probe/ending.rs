//! How a probe ends: its output and its exit code.

use std::process::ExitCode;

use netrig_probe::{ProbeError, ProbeReport};
use serde::Serialize;

use super::path_arguments::Form;
use crate::failure::{Failure, exit_code, print_report};

/// How a measurement ended.
#[derive(Clone, Copy)]
pub struct ProbeEnd {
    pub interrupted: bool,
    pub valid: bool,
    /// Whether there is a result.
    pub is_useful: bool,
}

/// Prints a report. The exit code says whether it can be used.
pub fn tell(
    document: &impl Serialize,
    text: impl FnOnce() -> String,
    form: Form,
    end: ProbeEnd,
) -> Result<ExitCode, Failure> {
    print_report(form.json, document, text)?;
    Ok(exit_code(end.interrupted, end.valid, end.is_useful))
}

/// Prints the report of a probe whose far end answers each packet.
pub fn tell_answers(report: &ProbeReport, form: Form) -> Result<ExitCode, Failure> {
    let ProbeReport { interrupted, valid, .. } = *report;
    tell(report, || report.text(), form, ProbeEnd { interrupted, valid, is_useful: report.is_answered() })
}

/// A probe that could not measure: the request's fault, or not.
pub fn failure(error: ProbeError) -> Failure {
    match error {
        ProbeError::Request(why) => Failure::Request(why),
        ProbeError::Clip(_) => Failure::request(error),
        ProbeError::Interrupted => Failure::Interrupted,
        other => Failure::failed(other),
    }
}
