//! Evidence about SIP: messages of loads that are kept, messages that were seen on the wire, calls among them, and ladder diagrams of calls.
//!
//! [`keep::Keeper`] writes a message log and a capture. [`trace::SipTrace`] reads either. [`ladder::calls`] finds the calls in one, and
//! [`ladder::Ladder`] draws them. [`ExperimentTester`] is all of this for the flows of an experiment.

pub mod conformance;
mod flow;
pub mod keep;
pub mod ladder;
pub mod media;
pub mod scenario;
pub mod trace;

pub use flow::{ExperimentTester, FlowScenario, FlowScenarioError};

/// A number of things: `1 refresh`, `2 refreshes`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

// The tests of the public interface, in one test binary with the unit tests.
#[cfg(test)]
extern crate self as netrig_sip_tester;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
