//! `netrig sip load`.

mod arguments;

use std::process::ExitCode;
use std::sync::Arc;

pub use netrig_sip_net::load::LoadReport as LoadDocument;
use netrig_sip_net::load::{
    Control, LoadError, LoadOrder, LoadReport, LoadStage, SecondRow, SoFar, Steering, run,
};
use netrig_sip_tester::load_text;

use super::keeping::evidence;
use super::refusal::{flagged, refused};
use super::scenario::load_of;
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::interruption::{abort, until_interrupted};
use netrig_sip_tester::screen::{KeyEffects, ScreenState};

pub use arguments::Load;

/// Runs a load on a server.
pub fn load(arguments: &Load) -> Result<ExitCode, Failure> {
    if arguments.script.scenario_file.is_some() || arguments.script.script.media.is_some() {
        return load_of(arguments);
    }
    if let Some(flag) = arguments.script.script.given() {
        return Err(Failure::request(format!("{flag} belongs to a scenario: give it with --scenario-file")));
    }
    let (request, period) = arguments.settings()?;
    let order = request.order(&period).map_err(refused)?;
    let title = format!("{}, {}", request.tester.target, request.scenario());
    let (report, written) = watched(arguments, title, &order)?;
    if arguments.json {
        print(serde_json::to_string_pretty(&report).map_err(Failure::failed)?)?;
    } else {
        print(load_text::table(&report).trim_end())?;
    }
    // The result was printed above, even if the last metrics could not be written.
    written?;
    Ok(exit_code(&report))
}

/// Runs the load with its screen, progress lines and metrics. The second result is that of writing the last metrics.
fn watched(
    arguments: &Load,
    title: String,
    order: &LoadOrder,
) -> Result<(LoadReport, Result<(), Failure>), Failure> {
    let stop = until_interrupted()?;
    let control = Arc::new(Control::default());
    let effects = KeyEffects { stop: Arc::clone(&stop), control: Some(Arc::clone(&control)), abort };
    let watchers = arguments.watching.open(ScreenState::of(title, order), effects)?;
    let keeping = evidence(&arguments.keeping, &arguments.records)?;
    let taps = keeping.taps();
    // Without a screen there is no keyboard control, so the load need not poll for changes.
    let control = watchers.has_screen().then_some(&*control);
    let steering = Steering { stop: &stop, control, taps };
    let second = |row: &SecondRow, so_far: SoFar<'_>| {
        watchers.second(row, so_far, order);
        watchers.say(|| load_text::second(row));
    };
    let stage = |stage: LoadStage<'_>| {
        if let LoadStage::Open(ready) = stage {
            watchers.warn(&ready.warnings);
        }
    };
    let report = run(order, steering, stage, second);
    // The kept messages are also finished if the load has failed.
    let (messages, records) = keeping.finish();
    let report = LoadReport { messages, records, ..report.map_err(failure)? };
    Ok((report, arguments.watching.finish(watchers)))
}

/// The exit code. It depends on whether the load was interrupted, is valid, and meets its thresholds.
fn exit_code(report: &LoadReport) -> ExitCode {
    match (report.interrupted, report.valid, report.kept) {
        (true, ..) => ExitCode::from(INTERRUPTED),
        (_, false, _) => ExitCode::from(TESTER),
        (_, _, false) => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// The failure of a load. If a port, an address or a name cannot be used, the request was wrong. Other failures are
/// caused by the tester, its host or the server.
pub fn failure(error: LoadError) -> Failure {
    match error {
        LoadError::Request(why) => Failure::Request(why),
        LoadError::Plan(error) => Failure::request(flagged(&error.to_string())),
        LoadError::Domain(_) | LoadError::Socket(_) | LoadError::Unlocated { .. } => Failure::request(error),
        LoadError::Kernel { .. } | LoadError::Panicked => Failure::Tester(error.to_string()),
        LoadError::Preparation { limit, .. } => {
            Failure::failed(load_text::with_flag(&error.to_string(), limit))
        }
        LoadError::Late => Failure::failed(error),
        LoadError::Interrupted => Failure::Interrupted,
    }
}
