//! `netrig sip load`.

mod arguments;
mod order;
mod show;

use std::process::ExitCode;

use netrig_agent::sip::load::{LoadError, LoadReport, Readiness, SoFar, run};

use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::interruption::until_interrupted;

pub use arguments::Load;

/// Puts a load on a server.
pub fn load(arguments: &Load) -> Result<ExitCode, Failure> {
    let order = order::order(arguments)?;
    let ready = |readiness: &Readiness| {
        readiness.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    };
    let second = |second: &_, _: SoFar<'_>| eprintln!("{}", show::second(second));
    let report = run(&order, &*until_interrupted()?, ready, second).map_err(failure)?;
    if arguments.json {
        print(serde_json::to_string_pretty(&report).map_err(Failure::failed)?)?;
    } else {
        print(show::table(&report).trim_end())?;
    }
    Ok(exit_code(&report))
}

/// Whether the thresholds were kept, and whether that can be said.
fn exit_code(report: &LoadReport) -> ExitCode {
    match (report.interrupted, report.valid, report.kept) {
        (true, ..) => ExitCode::from(INTERRUPTED),
        (_, false, _) => ExitCode::from(TESTER),
        (_, _, false) => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// A load that could not be: the request's fault, or not.
pub fn failure(error: LoadError) -> Failure {
    match error {
        LoadError::Request(why) => Failure::Request(why),
        LoadError::Domain(_) => Failure::request(error),
        LoadError::Interrupted => Failure::Interrupted,
        other => Failure::failed(other),
    }
}
