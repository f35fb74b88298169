//! Runs in network namespaces, without the command line around them.

use std::sync::atomic::AtomicBool;

use netrig_core::Sink;
use netrig_experiment::{Experiment, Run, RunError, RunOutcome, Substrate as _};
use netrig_netns::{Journals, Namespaces};

/// A replication of a point of an experiment.
pub fn run(experiment: &str, point: usize) -> Run {
    let experiment = Experiment::parse("test", experiment).unwrap_or_else(|problems| panic!("{problems}"));
    experiment.plan().run(point, 1).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Its execution in namespaces, with the programs of its nodes. It reports to `sink`, until `cancel` is set.
pub fn carry_out(run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
    let journals = tempfile::tempdir().expect("a folder for the journals");
    let substrate = Namespaces::new(env!("CARGO_BIN_EXE_netrig"), Journals::at(journals.path()));
    substrate.allow_programs();
    substrate.check(run).unwrap_or_else(|why| panic!("{why}"));
    substrate.run(run, sink, cancel)
}
