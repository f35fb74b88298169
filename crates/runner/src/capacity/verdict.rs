//! What a search has found.

use std::fmt;

use netrig_stats::interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::Reason;

/// What a search has found. Rates are per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A number.
    Capacity(Capacity),
    /// The highest rate allowed passed: nothing was found that the server does not carry.
    MoreThan {
        /// The highest rate that passed.
        rate: f64,
    },
    /// The lowest rate allowed failed.
    LessThan {
        /// The lowest rate that failed.
        rate: f64,
    },
    /// Invalid: the tester was the limit, not the server.
    TesterLimit {
        /// At this rate.
        rate: f64,
        /// The highest rate that the server carried.
        carried: Option<f64>,
        /// Why the step did not count.
        why: Reason,
    },
    /// After a step that failed the server did not come back.
    NotRecovered {
        /// The rate of that step.
        after: f64,
        /// For so long nothing but a few calls were offered, s.
        waited_s: f64,
    },
    /// The steps were used up.
    Unsettled {
        /// The highest rate that passed.
        passed: Option<f64>,
        /// The lowest that failed.
        failed: Option<f64>,
        /// How many steps.
        steps: u32,
    },
}

/// A capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// The mean over the repeats of the highest rates that passed.
    pub rate: f64,
    /// The lower end of its interval, Student's; `None` of one repeat.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The confidence of the interval, over repeats: it says how well they agree, not how near a rate that failed is.
    pub confidence: f64,
    /// Each repeat.
    pub found: Vec<Found>,
    /// Rates that passed although others that are no higher failed: the server's behaviour is not a matter of the rate
    /// alone, or a test has erred.
    pub contradictions: Vec<Contradiction>,
}

/// What a repeat has found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The highest rate that passed.
    pub passed: f64,
    /// The lowest that failed, if one did.
    pub failed: Option<f64>,
}

/// A rate that passed, and one that failed and is not higher.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contradiction {
    /// It passed.
    pub passed: f64,
    /// It failed.
    pub failed: f64,
}

impl Capacity {
    /// Of what was found, at least once.
    pub(super) fn of(found: Vec<Found>, contradictions: Vec<Contradiction>, confidence: f64) -> Self {
        let rates: Vec<_> = found.iter().map(|found| found.passed).collect();
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let student = interval::student(&rates, confidence).ok();
        // Repeats that found the same do not show how far from it others lie.
        let ends = student.and_then(|student| student.low.zip(student.high)).filter(|(low, high)| low < high);
        let (low, high) = ends.unzip();
        Self { rate: mean, low, high, confidence, found, contradictions }
    }

    /// By which share the lowest rate that failed lies above the highest that passed, in the repeat where it is most.
    pub fn resolution(&self) -> Option<f64> {
        let apart = self.found.iter().filter_map(|found| Some(found.failed? / found.passed - 1.0));
        apart.reduce(f64::max)
    }
}

impl Verdict {
    /// The capacity per second, if there is one: "more than" and "less than" are none.
    pub const fn rate(&self) -> Option<f64> {
        match self {
            Self::Capacity(capacity) => Some(capacity.rate),
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
            Self::LessThan { rate } => {
                write!(f, "less than {rate} {unit}/s: no rate that was allowed passed")
            }
            Self::TesterLimit { rate, carried, why } => {
                write!(f, "invalid: the tester's limit at {rate} {unit}/s")?;
                if let Some(carried) = carried {
                    write!(f, "; the server carried {carried} {unit}/s")?;
                }
                write!(f, " ({why})")
            }
            Self::NotRecovered { after, waited_s } => {
                write!(f, "after {after} {unit}/s the server did not recover within {waited_s:.0} s")
            }
            Self::Unsettled { passed, failed, steps } => {
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

impl Capacity {
    fn write(&self, f: &mut impl fmt::Write, unit: &str) -> fmt::Result {
        write!(f, "{} {unit}/s", (self.rate * 10.0).round() / 10.0)?;
        if let (Some(low), Some(high)) = (self.low, self.high) {
            let (confidence, n) = (100.0 * self.confidence, self.found.len());
            write!(f, " ({confidence} % interval {low:.1} to {high:.1}, {n} repeats)")?;
        }
        if let Some(resolution) = self.resolution() {
            write!(f, "; a rate that failed lies at most {:.1} % above", 100.0 * resolution)?;
        }
        for Contradiction { passed, failed } in &self.contradictions {
            write!(f, "; {passed} {unit}/s passed although {failed} failed")?;
        }
        Ok(())
    }
}
