//! `netrig sip compare`: two results of loads or of searches, index by index, or of conformance, purpose by purpose.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use netrig_core::Fraction;
use netrig_sip_tester::conformance::{ConformanceComparison, ConformanceDocument};

use crate::failure::{FAILED, Failure, print_report};
use crate::input::read;
use crate::output::terminal_width;
use netrig_sip_tester::compare::{self, ComparisonError, ComparisonSettings, ResultDocument};

/// Exit code of a comparison without a result.
const UNSAID: u8 = 2;

/// `netrig sip compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// The earlier result: a document of `netrig sip load`, `netrig sip capacity` or `netrig sip conform` with --json
    #[arg(value_name = "BEFORE.json")]
    pub before: PathBuf,
    /// The later result
    #[arg(value_name = "NOW.json")]
    pub now: PathBuf,
    /// Joint confidence of all differences
    #[arg(long, value_name = "SHARE", default_value = "95%")]
    pub confidence: Fraction,
    /// Allowed growth of a delay, as a share of the earlier one
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub margin: Fraction,
    /// Compare even if scenarios, transports or rates differ, or a result is invalid
    #[arg(long)]
    pub anyway: bool,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Compares two results.
pub fn compare(typed: &Compare) -> Result<ExitCode, Failure> {
    let [before, now] = [document(&typed.before)?, document(&typed.now)?];
    if let (ResultDocument::Conformance(before), ResultDocument::Conformance(now)) = (&before, &now) {
        return conformance(before, now, typed.json);
    }
    let settings = ComparisonSettings { confidence: typed.confidence.get(), margin: typed.margin.get() };
    let comparison =
        compare::compare(&before, &now, settings, typed.anyway).map_err(|error| match error {
            ComparisonError::Statistics(_) => Failure::failed(error),
            _ => Failure::request(error),
        })?;
    print_report(typed.json, &comparison, || compare::text(&comparison))?;
    Ok(match (comparison.worse, comparison.open.is_empty()) {
        (true, _) => ExitCode::from(FAILED),
        (false, false) => ExitCode::from(UNSAID),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// Reads a result.
fn document(file: &Path) -> Result<ResultDocument, Failure> {
    read(file)?
        .parse()
        .map_err(|error: ComparisonError| Failure::request(format!("{}: {error}", file.display())))
}

/// Prints the differences of two conformance results. The exit code is 1 if a test purpose fails now and did not fail
/// before.
fn conformance(
    before: &ConformanceDocument,
    now: &ConformanceDocument,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let comparison = ConformanceComparison::of(before, now).map_err(Failure::request)?;
    print_report(as_json, &comparison, || compare::conformance_text(&comparison, terminal_width()))?;
    Ok(if comparison.newly_failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
