//! Executes the plan of an experiment. A run that the store does not have is executed on its substrate, recorded
//! immediately, and reduced to a record from which claims are judged.
//!
//! Results do not depend on the number of workers or on the order in which runs end: replications are judged in their
//! order, 1 to n, and runs beyond a decision are ignored. If a run panics, fails or does not account for its packets,
//! other runs are not affected. The runner sees substrates only as [`Substrate`](netrig_experiment::Substrate). It
//! prints nothing, but reports events to a [`ProgressListener`].
//!
//! Start from [`carry_out`], or from [`found`] to read results without running anything.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the runner reads the wall clock and describes the machine: provenance and duration of runs"
)]

mod carry_out;
mod error;
mod execution;
mod machine;
mod pending_runs;
mod progress;
mod recorded;
mod trial;
mod workers;

pub use carry_out::{PlanOutcome, PlanRequest, carry_out, first_that_count, found, identities, missing};
pub use error::RunnerError;
pub use machine::provenance;
pub use pending_runs::{EarlierRuns, PlannedRun};
pub use progress::{ProgressListener, RunEvent, RunTally};
pub use recorded::{StoredResults, recorded};
pub use trial::trial;

// The tests of the public interface are in the same test binary as the unit tests.
#[cfg(test)]
extern crate self as netrig_runner;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
