//! A step of a search (calls at one rate, its purpose and its criterion), and the pause between two steps.

use netrig_core::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::Sequential;

/// A step: calls at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStep {
    /// Calls per second.
    pub rate: f64,
    /// The purpose of this rate.
    pub purpose: StepPurpose,
    /// Whether this is another attempt after an invalid one.
    pub again: bool,
    /// The shortest time before a decision, s.
    pub least_s: f64,
    /// The longest duration of the step, s.
    pub at_most_s: f64,
    /// The number of calls after which the step ends; `None` if only time ends it.
    pub calls: Option<u64>,
    /// If the step ends without a decision: how long to wait for open calls, beyond the duration of a call, s.
    pub linger_s: f64,
    /// The rule that decides the step.
    pub(super) criterion: Criterion,
}

/// A pause without load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Drain")]
pub struct StepPause {
    /// Its duration, s.
    pub span_s: f64,
    /// The rate of the step before the pause, per second.
    pub after: f64,
}

named! {
    /// The purpose of a step.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    #[schemars(rename = "Purpose")]
    pub enum StepPurpose {
        /// Find a rate that passes and one that fails.
        Ramp = "ramp",
        /// Bisect the interval that remains after the steps so far.
        Between = "bisection",
        /// Check whether the only rate that failed fails again.
        Recheck = "recheck of the failed rate",
        /// Check whether the upper end of the interval fails.
        UpperEnd = "check of the upper end",
        /// Check whether a rate holds in a long step.
        Confirmation = "confirmation in a long step",
        /// Check whether the server has recovered.
        Recovery = "recovery check",
        /// RFC 7502: `send_traffic`.
        Traffic = "send_traffic of RFC 7502",
        /// TS 186 008: the next step of load.
        Load = "load step",
    }
}

/// The rule that decides a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Criterion {
    /// The sequential test, the thresholds, and whether the server keeps up.
    Sequential(Sequential),
    /// All calls of a fixed number succeed.
    Clean { calls: u64 },
    /// The share of inadequately handled scenarios is below `share`, 0 to 1.
    Objective { share: f64 },
}

/// Shortest and longest duration (s), calls and criterion of a step with a fixed number of calls. The longest duration
/// allows for the variation of random arrivals.
pub(super) fn counted(rate: f64, calls: u64) -> (f64, f64, Option<u64>, Criterion) {
    let span_s = calls as f64 / rate;
    (0.0, 2.0 * span_s + 10.0, Some(calls), Criterion::Clean { calls })
}

/// Shortest and longest duration (s), calls and criterion of a step with a sequential test. The longest duration is the
/// shortest one plus the time for three times the smallest number of calls with which the test can pass, but at most
/// what the settings allow.
pub(super) fn spans(
    sequential: &Sequential,
    rate: f64,
    purpose: StepPurpose,
) -> (f64, f64, Option<u64>, Criterion) {
    let clean = sequential.test.test().map_or(0, |test| test.fewest_clean()) as f64;
    let (least_s, most_s) = match purpose {
        StepPurpose::Confirmation => (sequential.confirm_s.max(sequential.least_s), sequential.most_s),
        // Most steps of a ramp are far from the capacity.
        StepPurpose::Ramp => (sequential.least_s, sequential.most_s / 2.0),
        _ => (sequential.least_s, sequential.most_s),
    };
    let at_most_s = (least_s + 3.0 * clean / rate).min(least_s.max(most_s));
    (least_s, at_most_s, None, Criterion::Sequential(sequential.clone()))
}

impl StepPurpose {
    /// Whether the step checks only if the server has recovered.
    pub const fn is_probe(self) -> bool {
        matches!(self, Self::Recovery)
    }
}
