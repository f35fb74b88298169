//! Runs in network namespaces, made without the command line.

use std::sync::atomic::AtomicBool;

use netrig_core::Sink;
use netrig_experiment::{Experiment, Run, RunError, RunOutcome, Substrate as _};
use netrig_netns::{Journals, Namespaces};
use netrig_test_support::Tape;

/// The first replication of a point of an experiment.
pub fn run(experiment: &str, point: usize) -> Run {
    let experiment = Experiment::parse("test", experiment).unwrap_or_else(|problems| panic!("{problems}"));
    experiment.plan().run(point, 1).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Makes a run in namespaces, with the programs of its nodes. `sink` gets the samples. The run stops when `cancel` is
/// set.
pub fn carry_out(run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
    let journals = tempfile::tempdir().expect("a folder for the journals");
    let substrate = Namespaces::new(env!("CARGO_BIN_EXE_netrig"), Journals::at(journals.path()));
    substrate.allow_programs();
    substrate.check(run).unwrap_or_else(|why| panic!("{why}"));
    substrate.run(run, sink, cancel)
}

/// Makes the first run of an experiment in namespaces, and records it on a tape.
pub fn recorded(experiment: &str, mut tape: Tape) -> (Tape, RunOutcome) {
    let outcome = carry_out(&run(experiment, 0), &mut tape, &AtomicBool::new(false));
    (tape, outcome.unwrap_or_else(|error| panic!("{error}")))
}
