//! How a step ended, and why.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::DelayStatistic;

/// What a step says of its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// The server carries it.
    Passed,
    /// It does not.
    Failed,
    /// Nothing: the tester was the limit, or the step was cut short.
    Invalid,
}

/// How a step ended, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepDecision {
    /// What it says of the rate.
    pub outcome: StepOutcome,
    /// Why.
    pub reason: StepReason,
}

/// Why a step passed, failed or does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepReason {
    /// Passed: the sequential test accepts, every threshold is kept, the server keeps up.
    Shown,
    /// Passed: as [`Shown`](Self::Shown), but the longest span was over before the test had decided. The stated risks
    /// do not hold.
    ByShare,
    /// Passed: every call succeeded.
    AllSucceeded,
    /// Passed: fewer calls were handled inadequately than the objective allows.
    Objective,
    /// Failed: the sequential test rejects, whatever becomes of the open calls.
    Failures,
    /// Failed: the longest span was over before the test had decided, and the share of failures is nearer to the bad
    /// one.
    FailuresByShare,
    /// Failed: not every call succeeded.
    NotAll,
    /// Failed: a delay was over its threshold.
    Threshold {
        /// Which delay.
        delay: String,
        /// What of it.
        statistic: DelayStatistic,
        /// What it was.
        was_s: f64,
        /// The most that it might be.
        most_s: f64,
    },
    /// Failed: too large a share of the calls was open for too long at once.
    Overdue {
        /// So many.
        calls: u64,
    },
    /// Failed: more and more calls stayed open.
    Backlog {
        /// By so many in the second half of the step.
        growth: u64,
    },
    /// Failed: so many requests had to be sent again that what was answered took more than the rate says.
    Again {
        /// So many.
        requests: u64,
    },
    /// Failed: the server could not be made ready, although it could at a lower rate.
    Unprepared(
        /// Why, in a sentence.
        String,
    ),
    /// Failed: too many calls were handled inadequately.
    NotObjective {
        /// So many: failed, still open, or too late.
        calls: u64,
    },
    /// Failed: nothing was received from the server at all.
    Unanswered {
        /// Calls that were begun; 0 if users could not be registered before.
        calls: u64,
        /// Why they failed, in words; `None` if none has yet.
        why: Option<String>,
    },
    /// Invalid: the whole machine stalled, which may be why the step did not pass.
    Stalled {
        /// How often.
        count: u64,
        /// The longest, s.
        longest_s: f64,
    },
    /// Invalid: the tester was the limit.
    Tester(
        /// Why, in sentences.
        Vec<String>,
    ),
    /// Invalid: the step ended before anything could be decided.
    CutShort,
}

/// Why a call failed of which nothing is known.
pub(super) const SILENCE: &str = "no response, and no error from the network";

impl StepDecision {
    pub(super) const fn passed(reason: StepReason) -> Self {
        Self { outcome: StepOutcome::Passed, reason }
    }

    pub(super) const fn failed(reason: StepReason) -> Self {
        Self { outcome: StepOutcome::Failed, reason }
    }

    pub(super) const fn invalid(reason: StepReason) -> Self {
        Self { outcome: StepOutcome::Invalid, reason }
    }
}

impl fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        })
    }
}

impl fmt::Display for StepDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.outcome, self.reason)
    }
}

impl fmt::Display for StepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown => f.write_str("enough succeed, every threshold is kept"),
            Self::ByShare => f.write_str(
                "every threshold is kept; too few calls to show at the stated risks that enough succeed",
            ),
            Self::AllSucceeded => f.write_str("every one succeeded"),
            Self::Objective => f.write_str("the objective was met"),
            Self::Failures => f.write_str("too many failed"),
            Self::FailuresByShare => {
                f.write_str("too many failed; too few calls to show it at the stated risks")
            }
            Self::NotAll => f.write_str("not every one succeeded"),
            Self::Threshold { delay, statistic, was_s, most_s } => {
                let name = statistic.name();
                write!(f, "{delay}: {name} {:.1} ms, at most {:.1} ms", was_s * 1e3, most_s * 1e3)
            }
            Self::Overdue { calls } => write!(f, "{calls} were open for too long at once"),
            Self::Backlog { growth } => write!(f, "does not keep up: {growth} more were open at the end"),
            Self::Again { requests } => write!(f, "{requests} requests had to be sent again"),
            Self::Unprepared(why) => write!(f, "not ready: {why}"),
            Self::NotObjective { calls } => write!(f, "{calls} were handled inadequately"),
            Self::Unanswered { calls, why } => {
                let why = why.as_deref().unwrap_or(SILENCE);
                match calls {
                    0 => write!(f, "no answer: {why}"),
                    _ => write!(f, "none of {calls} was answered: {why}"),
                }
            }
            Self::Stalled { count, longest_s } => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "the machine stalled {count} time{s}, for up to {:.0} ms", longest_s * 1e3)
            }
            Self::Tester(faults) => write!(f, "the tester was the limit: {}", faults.join("; ")),
            Self::CutShort => f.write_str("it ended too soon to say anything"),
        }
    }
}
