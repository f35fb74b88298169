//! `netrig sip capacity`.

mod arguments;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netrig_sip_net::load::{LoadError, LoadOrder, Offered, Steering};
use netrig_sip_net::tap::MessageTaps;
use netrig_sip_tester::capacity::{
    CapacityError, CapacityOrder, CapacityVerdict, JournalError, SearchDrive, SearchEnd, table,
};
use netrig_sip_tester::conformance::{ConformancePlan, GateReport};
use netrig_sip_tester::keep::Keeper;
use netrig_sip_tester::request::LoadRequest;
use netrig_sip_tester::screen::{KeyEffects, ScreenState};

use self::arguments::{CapacitySettings, typed_name};
use crate::commands::sip::load;
use crate::commands::sip::refusal::{flagged, refused};
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::interruption::{abort, until_interrupted};
use netrig_sip_tester::watchers::Watchers;

pub use arguments::Capacity;
pub use netrig_sip_tester::capacity::CapacityDocument;

/// Searches for the highest rate that a server sustains.
pub fn capacity(typed: &Capacity) -> Result<ExitCode, Failure> {
    // A wrong request is refused before the first call.
    let settings = typed.settings()?;
    let first = settings.load.step(settings.search.search.start, 1.0, Some(1)).map_err(refused)?;
    let order = order(typed, &settings, &first);
    let mut drive = SearchDrive::new(&order).map_err(failure)?;
    let known = drive.search().journal().steps().count();
    if let Some(file) = order.journal.as_deref().filter(|_| known > 0) {
        eprintln!("{known} steps are in {}: the search goes on from there", file.display());
    }
    let stop = until_interrupted()?;
    let effects = KeyEffects { stop: Arc::clone(&stop), control: None, abort };
    let state = ScreenState { title: order.target.clone(), is_search: true, ..ScreenState::default() };
    let watchers = typed.watching.open(state, effects)?;
    let gate = if typed.conform { Some(gate(&first, &stop, &watchers)?) } else { None };
    let keeper = typed.keeping.begin()?;
    let taps = keeper.as_ref().map(|keeper| keeper as &dyn MessageTaps);
    let verdict = drive.carry_out(&first, Steering { stop: &stop, control: None, taps }, &watchers);
    let written = typed.watching.finish(watchers);
    // The kept messages are also finished if the search has failed.
    let messages = keeper.map(Keeper::finish);
    let verdict = verdict.map_err(failure)?;
    let end = SearchEnd {
        gate: gate.as_ref(),
        journal: &drive.search().journal(),
        baseline: drive.baseline(),
        verdict: verdict.as_ref(),
        notes: drive.notes(),
        messages: messages.as_ref(),
    };
    if typed.json {
        let document = CapacityDocument::new(&order, Offered::of(&first), end);
        print(serde_json::to_string_pretty(&document).map_err(Failure::failed)?)?;
    } else {
        print(table(&order, end, typed.verbose).trim_end())?;
    }
    // The result was printed above, even if the last metrics could not be written.
    written?;
    Ok(exit_code(verdict.as_ref()))
}

/// The order of the search. `first` is the load of its first step.
fn order<'a>(typed: &Capacity, settings: &'a CapacitySettings, first: &LoadOrder) -> CapacityOrder<'a> {
    let load = |rate, at_most_s, calls| {
        let step = settings.load.step(rate, at_most_s, calls);
        step.map_err(|error| LoadError::Request(flagged(&error.to_string())))
    };
    let LoadRequest { load: own, tester } = &settings.load;
    let work = first.plan.work;
    CapacityOrder {
        target: tester.target.clone(),
        transport: first.carrier.transport(),
        work,
        hold: own.hold.0.mean(),
        success: tester.success,
        statistic: tester.statistic.words(),
        settings: settings.search.settings(first, work),
        load: Box::new(load),
        journal: typed.journal.clone(),
        asked: settings.asked.clone(),
    }
}

/// The failure of a search.
fn failure(error: CapacityError) -> Failure {
    match error {
        CapacityError::Load(error) => load::failure(error),
        CapacityError::Watch(_) => Failure::Tester(error.to_string()),
        CapacityError::NoAnswers | CapacityError::Journal(JournalError::Write { .. }) => {
            Failure::failed(error)
        }
        CapacityError::Journal(JournalError::Settings(error)) => Failure::request(error.sentence(typed_name)),
        CapacityError::Journal(JournalError::Refused { .. }) => Failure::request(error),
    }
}

/// Tests the server against the rules of basic calls, before the search.
fn gate(order: &LoadOrder, stop: &AtomicBool, watchers: &Watchers) -> Result<GateReport, Failure> {
    let plan = ConformancePlan::before_load(order).map_err(Failure::request)?;
    watchers.show(|state| state.title = "conformance before the search".to_owned());
    let result = plan.run(stop, &|_| {}).map_err(load::failure)?;
    let report = GateReport::of(plan.role, &result);
    for line in report.lines() {
        watchers.say(|| line.clone());
    }
    Ok(report)
}

/// The exit code. It depends on whether a capacity was found and whether the tester was the limit.
fn exit_code(verdict: Option<&CapacityVerdict>) -> ExitCode {
    match verdict {
        None => ExitCode::from(INTERRUPTED),
        Some(CapacityVerdict::Capacity(_) | CapacityVerdict::MoreThan { .. }) => ExitCode::SUCCESS,
        Some(CapacityVerdict::TesterLimit { .. }) => ExitCode::from(TESTER),
        Some(
            CapacityVerdict::Unanswered { .. }
            | CapacityVerdict::LessThan { .. }
            | CapacityVerdict::NotRecovered { .. }
            | CapacityVerdict::Unsettled { .. },
        ) => ExitCode::from(FAILED),
    }
}
