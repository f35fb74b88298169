//! The SIP tester as a library: conformance, scenarios, comparison of results, and evidence about calls.
//!
//! * [`conformance`]: test purposes and their procedures.
//! * [`scenario`]: loads of calls that follow a scenario file; [`media`] of their calls.
//! * [`manual`]: one call, controlled by keys or by a script.
//! * [`request`]: builds the order of a load from its settings.
//! * [`capacity`]: the search for the highest rate that a server sustains.
//! * [`compare`]: two results, index by index or purpose by purpose.
//! * [`watchers`], [`screen`], [`metrics`], [`load_text`]: the progress of a load and its report, for users and for
//!   Prometheus.
//! * [`keep::Keeper`] writes a message log and a capture. [`trace::SipTrace`] reads a log or a capture,
//!   [`ladder::calls`] finds its calls, and [`ladder::Ladder`] draws them.
//!
//! [`ExperimentTester`] provides these for the flows of an experiment.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a tester of real servers needs sockets, files, threads, a terminal and a clock"
)]

pub mod capacity;
pub mod compare;
pub mod conformance;
mod flow;
pub mod keep;
pub mod ladder;
pub mod load_text;
pub mod manual;
pub mod media;
pub mod metrics;
pub mod request;
pub mod scenario;
pub mod screen;
pub mod trace;
pub mod watchers;

pub use flow::{ExperimentTester, FlowScenario, FlowScenarioError};

// The tests of the public interface, in one test binary with the unit tests.
#[cfg(test)]
extern crate self as netrig_sip_tester;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
