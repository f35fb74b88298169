//! How a probe ends: what it prints, and its exit code.

use std::process::ExitCode;

use netrig_probe::{ProbeError, ProbeReport};

use super::path_arguments::Form;
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};

/// Prints what was measured; the exit code says whether it can be used.
pub fn tell(report: &ProbeReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(report.text().trim_end())?;
    }
    let is_useless = report.valid && !report.interrupted && !report.is_answered();
    Ok(if is_useless { ExitCode::from(FAILED) } else { exit_code(report.interrupted, report.valid) })
}

/// How a probe ends that has measured something: what can be used, what an end and not the path has made, what somebody
/// ended before its time.
pub fn exit_code(interrupted: bool, valid: bool) -> ExitCode {
    match (interrupted, valid) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (_, false) => ExitCode::from(TESTER),
        _ => ExitCode::SUCCESS,
    }
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
