//! How a probe ends: its output and its exit code.

use std::process::ExitCode;

use netrig_probe::{ProbeError, ProbeReport};
use serde::Serialize;

use super::path_arguments::Form;
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};

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
    if form.json {
        print(serde_json::to_string_pretty(document).map_err(Failure::failed)?)?;
    } else {
        print(text().trim_end())?;
    }
    Ok(match end {
        ProbeEnd { interrupted: true, .. } => ExitCode::from(INTERRUPTED),
        ProbeEnd { valid: false, .. } => ExitCode::from(TESTER),
        ProbeEnd { is_useful: false, .. } => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    })
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
