//! The result of a search.

use std::fmt;

use netrig_core::number::counted;
use netrig_stats::fit::CredibleLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{SILENCE, StepReason};

/// The result of a search. Rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Verdict")]
pub enum CapacityVerdict {
    /// The capacity was found.
    Capacity(CapacityEstimate),
    /// The highest allowed rate passed, so the capacity is not below it.
    MoreThan {
        /// The highest rate that passed.
        rate: f64,
    },
    /// Nothing was received from the server.
    Unanswered {
        /// Started calls; 0 if users could not be registered before.
        calls: u64,
        /// Why they failed, in words; `None` if no reason is known.
        why: Option<String>,
    },
    /// The lowest allowed rate failed.
    LessThan {
        /// The lowest rate that failed.
        rate: f64,
    },
    /// No step above a rate is valid: the tester was the limit, or stalls of the machine invalidated every attempt.
    TesterLimit {
        /// The rate of the invalid step.
        rate: f64,
        /// The highest rate that the server sustained.
        carried: Option<f64>,
        /// Why the step is invalid.
        why: StepReason,
    },
    /// The server did not recover after a failed step.
    NotRecovered {
        /// The rate of that step.
        after: f64,
        /// How long only recovery checks were offered, s.
        waited_s: f64,
    },
    /// The limit of time or steps was reached before one step had passed and one had failed.
    Unsettled {
        /// The highest rate that passed.
        passed: Option<f64>,
        /// The lowest rate that failed.
        failed: Option<f64>,
        /// The number of steps.
        steps: u32,
    },
}

/// A capacity, from all steps together. Rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityEstimate {
    /// The rate at which 95 % of the steps pass (median of its distribution). Steps that fail by chance are not
    /// counted.
    pub rate: f64,
    /// The lower end of its interval: the lower end of [`most`](Self::most).
    pub low: f64,
    /// The upper end of its interval: the upper end of [`half`](Self::half).
    pub high: f64,
    /// The confidence of the intervals of both ends, 0 to 1.
    pub confidence: f64,
    /// The rate at which 95 % of the steps pass; `None` in a mode that fits no curve.
    pub most: Option<RateInterval>,
    /// The rate at which half of the steps pass; `None` in a mode that fits no curve.
    pub half: Option<RateInterval>,
    /// The highest rate that passed a long step; `None` if the time limit was reached before.
    pub held: Option<HeldRate>,
    /// The number of steps that the estimate uses.
    pub steps: u64,
}

/// A rate with its credible interval, per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateInterval {
    /// The lower end.
    pub low: f64,
    /// The median.
    pub value: f64,
    /// The upper end.
    pub high: f64,
}

impl From<CredibleLevel> for RateInterval {
    fn from(CredibleLevel { low, value, high }: CredibleLevel) -> Self {
        Self { low, value, high }
    }
}

/// A rate that passed a long step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldRate {
    /// The rate, per second.
    pub rate: f64,
    /// The duration of the step, s.
    pub span_s: f64,
}

impl CapacityVerdict {
    /// The capacity per second; `None` for any other verdict.
    pub const fn rate(&self) -> Option<f64> {
        match self {
            Self::Capacity(capacity) => Some(capacity.rate),
            _ => None,
        }
    }

    /// The details of a capacity, in words: see [`CapacityEstimate::details`].
    pub fn details(&self) -> Option<String> {
        match self {
            Self::Capacity(capacity) => capacity.details(),
            _ => None,
        }
    }

    /// The verdict in words. `unit` is the name of what is counted (`calls`).
    pub fn sentence(&self, unit: &str) -> String {
        let mut words = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut words, unit);
        words
    }

    fn write(&self, f: &mut impl fmt::Write, unit: &str) -> fmt::Result {
        match self {
            Self::Capacity(capacity) => capacity.write(f, unit),
            Self::MoreThan { rate } => {
                write!(f, "more than {rate} {unit}/s: no allowed rate failed")
            }
            Self::Unanswered { calls, why } => {
                let why = why.as_deref().unwrap_or(SILENCE);
                match calls {
                    0 => write!(f, "no answer: {why}"),
                    _ => write!(f, "no answer: none of {calls} {unit} had a response ({why})"),
                }
            }
            Self::LessThan { rate } => {
                write!(f, "less than {rate} {unit}/s: no allowed rate passed")
            }
            Self::TesterLimit { rate, carried, why } => {
                let limit = match why {
                    StepReason::Stalled { .. } => "stalls of the machine invalidate every step",
                    _ => "the tester is the limit",
                };
                match carried {
                    Some(carried) => write!(f, "at least {carried} {unit}/s; above, {limit}")?,
                    None => write!(f, "invalid: {limit}")?,
                }
                write!(f, ", at {rate} {unit}/s ({why})")
            }
            Self::NotRecovered { after, waited_s } => {
                write!(f, "after {after} {unit}/s the server did not recover within {waited_s:.0} s")
            }
            Self::Unsettled { passed, failed, steps } => {
                if let (Some(passed), None) = (passed, failed) {
                    return write!(
                        f,
                        "at least {passed} {unit}/s: the time limit was reached before a rate failed"
                    );
                }
                write!(f, "no result after {}", counted(*steps as u64, "step", "steps"))?;
                let mut say = |word, rate: &Option<f64>| match rate {
                    Some(rate) => write!(f, "; {rate} {unit}/s {word}"),
                    None => Ok(()),
                };
                say("passed", passed)?;
                say("failed", failed)
            }
        }
    }
}

impl CapacityEstimate {
    /// The capacity in a mode that fits no curve, from the highest rate that passed and the lowest failed rate above it.
    pub(super) fn between(passed: f64, failed: Option<f64>, steps: u64) -> Self {
        let high = failed.unwrap_or(passed);
        Self { rate: passed, low: passed, high, confidence: 0.95, most: None, half: None, held: None, steps }
    }

    fn write(&self, f: &mut impl fmt::Write, unit: &str) -> fmt::Result {
        let [low, high, rate] = [self.low, self.high, self.rate].map(whole);
        if self.half.is_some() {
            return write!(f, "between {low} and {high} {unit}/s");
        }
        write!(f, "{rate} {unit}/s")?;
        if self.high > self.low { write!(f, "; {high}/s failed") } else { Ok(()) }
    }

    /// The rates at which 95 % and half of the steps pass, with their intervals, and the rate that passed a long step, in words.
    /// `None` in a mode that fits no curve.
    pub fn details(&self) -> Option<String> {
        let of = |RateInterval { low, value, high }| {
            format!("{}/s ({} to {})", whole(value), whole(low), whole(high))
        };
        let held = match self.held {
            Some(HeldRate { rate, span_s }) => format!("{}/s held for {span_s:.0} s", whole(rate)),
            None => "the time limit was reached before a long step".to_owned(),
        };
        Some(format!(
            "95 % of the steps pass at {}, half of them at {}; {held}",
            of(self.most?),
            of(self.half?)
        ))
    }
}

/// A rate for display: three digits below 100, whole above.
fn whole(rate: f64) -> String {
    match rate {
        _ if rate >= 100.0 => format!("{rate:.0}"),
        _ if rate >= 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}
