//! What a search has found.

use std::fmt;

use netrig_stats::fit::CredibleLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{SILENCE, StepReason};

/// What a search has found. Rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A number.
    Capacity(CapacityEstimate),
    /// The highest rate allowed passed: nothing was found that the server does not carry.
    MoreThan {
        /// The highest rate that passed.
        rate: f64,
    },
    /// Nothing was received from the server.
    Unanswered {
        /// Calls that were begun; 0 if users could not be registered before.
        calls: u64,
        /// Why they failed, in words; `None` of silence.
        why: Option<String>,
    },
    /// The lowest rate allowed failed.
    LessThan {
        /// The lowest rate that failed.
        rate: f64,
    },
    /// Above a rate no step counts: the tester was the limit, or stalls of the machine spoilt every attempt.
    TesterLimit {
        /// At this rate.
        rate: f64,
        /// The highest rate that the server carried.
        carried: Option<f64>,
        /// Why the step did not count.
        why: StepReason,
    },
    /// After a step that failed the server did not come back.
    NotRecovered {
        /// The rate of that step.
        after: f64,
        /// For so long nothing but a few calls were offered, s.
        waited_s: f64,
    },
    /// The time or the steps were used up before one passed and one failed.
    Unsettled {
        /// The highest rate that passed.
        passed: Option<f64>,
        /// The lowest that failed.
        failed: Option<f64>,
        /// How many steps.
        steps: u32,
    },
}

/// A capacity, from all steps together. Rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityEstimate {
    /// The rate at which 95 % of the steps pass, but for those that fail by mischance: the median of what the steps say.
    pub rate: f64,
    /// The lower end of its interval: the lower end of [`most`](Self::most).
    pub low: f64,
    /// The upper end: that of [`half`](Self::half).
    pub high: f64,
    /// The confidence of each end's interval.
    pub confidence: f64,
    /// The rate at which 95 % of the steps pass; `None` of a mode that fits no curve.
    pub most: Option<RateInterval>,
    /// The rate at which half of the steps pass; `None` of a mode that fits no curve.
    pub half: Option<RateInterval>,
    /// The highest rate that was offered for long and passed; `None` if the time was up before.
    pub held: Option<HeldRate>,
    /// How many steps it is from.
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

/// A rate that was offered for long and passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldRate {
    /// Per second.
    pub rate: f64,
    /// For so long, s.
    pub span_s: f64,
}

impl Verdict {
    /// The capacity per second, if there is one: "more than" and "less than" are none.
    pub const fn rate(&self) -> Option<f64> {
        match self {
            Self::Capacity(capacity) => Some(capacity.rate),
            _ => None,
        }
    }

    /// What stands behind a capacity, in words: see [`CapacityEstimate::details`].
    pub fn details(&self) -> Option<String> {
        match self {
            Self::Capacity(capacity) => capacity.details(),
            _ => None,
        }
    }

    /// In words, of `unit` per second (`calls`).
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
                write!(f, "more than {rate} {unit}/s: no rate that was allowed failed")
            }
            Self::Unanswered { calls, why } => {
                let why = why.as_deref().unwrap_or(SILENCE);
                match calls {
                    0 => write!(f, "no answer: {why}"),
                    _ => write!(f, "no answer: none of {calls} {unit} had a response ({why})"),
                }
            }
            Self::LessThan { rate } => {
                write!(f, "less than {rate} {unit}/s: no rate that was allowed passed")
            }
            Self::TesterLimit { rate, carried, why } => {
                let limit = match why {
                    StepReason::Stalled { .. } => "stalls of the machine spoil every step",
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
                    return write!(f, "at least {passed} {unit}/s: the time was up before a rate failed");
                }
                write!(f, "not settled after {steps} steps")?;
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
    /// Of a mode that fits no curve: the highest rate that passed, and the lowest above it that failed if one did.
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

    /// The rates at which 95 % and half of the steps pass, with their intervals, and the rate that held for long, in words; `None`
    /// of a mode that fits no curve.
    pub fn details(&self) -> Option<String> {
        let of = |RateInterval { low, value, high }| {
            format!("{}/s ({} to {})", whole(value), whole(low), whole(high))
        };
        let held = match self.held {
            Some(HeldRate { rate, span_s }) => format!("{}/s held for {span_s:.0} s", whole(rate)),
            None => "the time was up before a rate could be held for long".to_owned(),
        };
        Some(format!(
            "95 % of the steps pass at {}, half of them at {}; {held}",
            of(self.most?),
            of(self.half?)
        ))
    }
}

/// A rate as people read it: three digits below 100, whole above.
fn whole(rate: f64) -> String {
    match rate {
        _ if rate >= 100.0 => format!("{rate:.0}"),
        _ if rate >= 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}
