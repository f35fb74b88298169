//! A step of a search: calls at one rate, why they are offered, what decides it; and the pause between two steps.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::Sequential;

/// A step: calls at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStep {
    /// Per second.
    pub rate: f64,
    /// Why this rate.
    pub purpose: Purpose,
    /// Whether it is another attempt, because the one before did not count.
    pub again: bool,
    /// It is not decided sooner, s.
    pub least_s: f64,
    /// It is over after so long, s.
    pub at_most_s: f64,
    /// It is over after so many calls, if it says so.
    pub calls: Option<u64>,
    /// How long open calls are waited for, beyond what one lasts by itself, if it is over without having been
    /// decided, s.
    pub linger_s: f64,
    /// What decides it.
    pub(super) criterion: Criterion,
}

/// Silence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drain {
    /// How long, s.
    pub span_s: f64,
    /// The rate of the step after which it is wanted.
    pub after: f64,
}

/// Why a rate is offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To find a rate that passes and one that fails.
    Ramp,
    /// In the middle of the interval that the steps so far leave.
    Between,
    /// To see whether the only rate that failed fails again.
    Recheck,
    /// To see whether the upper end of the interval fails.
    UpperEnd,
    /// To see whether a rate holds for long.
    Confirmation,
    /// To see whether the server has recovered.
    Recovery,
    /// RFC 7502: `send_traffic`.
    Traffic,
    /// TS 186 008: the next step of load.
    Load,
}

/// What decides a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Criterion {
    /// The sequential test, the thresholds, and whether the server keeps up.
    Sequential(Sequential),
    /// So many calls, all of which succeed.
    Clean {
        /// How many.
        calls: u64,
    },
    /// The share of what was handled inadequately is below this.
    Objective {
        /// The share.
        share: f64,
    },
}

/// A step of so many calls, with time to spare for arrivals that are left to chance.
pub(super) fn counted(rate: f64, calls: u64) -> (f64, f64, Option<u64>, Criterion) {
    let span_s = calls as f64 / rate;
    (0.0, 2.0 * span_s + 10.0, Some(calls), Criterion::Clean { calls })
}

/// How long a sequential test may take: beyond the shortest span three times as many calls as it needs at best,
/// within the settings.
pub(super) fn spans(
    sequential: &Sequential,
    rate: f64,
    purpose: Purpose,
) -> (f64, f64, Option<u64>, Criterion) {
    let clean = sequential.test.test().map_or(0, |test| test.fewest_clean()) as f64;
    let (least_s, most_s) = match purpose {
        Purpose::Confirmation => (sequential.confirm_s.max(sequential.least_s), sequential.most_s),
        // Most steps of a ramp are far from the capacity.
        Purpose::Ramp => (sequential.least_s, sequential.most_s / 2.0),
        _ => (sequential.least_s, sequential.most_s),
    };
    let at_most_s = (least_s + 3.0 * clean / rate).min(least_s.max(most_s));
    (least_s, at_most_s, None, Criterion::Sequential(sequential.clone()))
}

impl Purpose {
    /// Whether it asks whether the server has recovered.
    pub const fn is_probe(self) -> bool {
        matches!(self, Self::Recovery)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ramp => f.write_str("ramp"),
            Self::Between => f.write_str("between the ends"),
            Self::Recheck => f.write_str("does it fail again?"),
            Self::UpperEnd => f.write_str("does the upper end fail?"),
            Self::Confirmation => f.write_str("does it hold for long?"),
            Self::Recovery => f.write_str("has the server recovered?"),
            Self::Traffic => f.write_str("send_traffic of RFC 7502"),
            Self::Load => f.write_str("step of load"),
        }
    }
}
