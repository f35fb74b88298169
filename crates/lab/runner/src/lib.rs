//! Carries an experiment's plan out: what the store does not have yet is run on its substrate, recorded
//! at once, and handed to the judge.
//!
//! Results never depend on how many workers there are or on who finished first: replications are judged in
//! their order, 1 to n, and what was run beyond a decision plays no part. A run that panics, fails or does
//! not account for its packets costs that run and no other. The runner knows substrates only as
//! [`Substrate`](netrig_experiment::Substrate), and prints nothing: [`ProgressListener`] is told.
//!
//! Start from [`carry_out`], or from [`found`] if nothing is to be run.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the runner is where wall clocks and the machine belong: what it runs on, how long a run took"
)]

mod agenda;
pub mod capacity;
mod carry_out;
mod error;
mod execution;
mod machine;
mod progress;
mod record;
mod recorded;
mod workers;

pub use carry_out::{PlanOutcome, PlanRequest, carry_out, first_that_count, found};
pub use error::RunnerError;
pub use machine::provenance;
pub use progress::{ProgressListener, RunEvent, RunTally};
pub use recorded::{StoredResults, recorded};

// The tests of the public interface, in one test binary with the unit tests.
#[cfg(test)]
extern crate self as netrig_runner;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
