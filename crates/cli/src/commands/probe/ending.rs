//! The end of a probe: its output and its exit code.

use std::process::ExitCode;

use netrig_probe::{ProbeError, ProbeReport};

use super::path_arguments::Form;
use super::show;
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};

/// Prints the report; the exit code says whether it can be used.
pub fn tell(report: &ProbeReport, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        print(serde_json::to_string_pretty(report).map_err(Failure::failed)?)?;
    } else {
        print(show::table(report).trim_end())?;
    }
    let is_useless = report.valid && !report.interrupted && !report.is_answered();
    Ok(if is_useless { ExitCode::from(FAILED) } else { exit_code(report.interrupted, report.valid) })
}

/// The exit code of a probe with a report: interrupted, invalid because of a tester's fault, or usable.
pub fn exit_code(interrupted: bool, valid: bool) -> ExitCode {
    match (interrupted, valid) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (_, false) => ExitCode::from(TESTER),
        _ => ExitCode::SUCCESS,
    }
}

/// The failure of a probe that could not measure.
pub fn failure(error: ProbeError) -> Failure {
    match error {
        ProbeError::Request(why) => Failure::Request(why),
        ProbeError::Clip(_) => Failure::request(error),
        ProbeError::Interrupted => Failure::Interrupted,
        other => Failure::failed(other),
    }
}
