//! The outcome of a step, and its reason.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use netrig_core::named;
use netrig_core::number::{counted, time};
use netrig_sip::index::DelayStatistic;

named! {
    /// The outcome of a step at its rate.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum StepOutcome {
        /// The server sustains the rate.
        Passed = "passed",
        /// The server does not sustain the rate.
        Failed = "failed",
        /// No verdict: the tester was the limit, the machine stalled, or the step was cut short.
        Invalid = "invalid",
    }
}

/// The outcome of a step, and its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepDecision {
    /// The outcome.
    pub outcome: StepOutcome,
    /// The reason.
    pub reason: StepReason,
}

/// Why a step passed, failed or is invalid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepReason {
    /// Passed: the sequential test accepts, every threshold is met, and the number of open calls does not grow.
    Shown,
    /// Passed: as [`Shown`](Self::Shown), but the step ended before the test had decided. The stated risks do not hold.
    ByShare,
    /// Passed: every call succeeded.
    AllSucceeded,
    /// Passed: the share of inadequately handled calls is below the objective.
    Objective,
    /// Failed: the sequential test rejects, even if all open calls succeed.
    Failures,
    /// Failed: the step ended before the test had decided, and the share of failures is nearer to that of a bad server.
    FailuresByShare,
    /// Failed: not every call succeeded.
    NotAll,
    /// Failed: a delay was above its threshold.
    Threshold {
        /// The name of the delay.
        delay: String,
        /// The statistic of the delay.
        statistic: DelayStatistic,
        /// The measured value, s.
        was_s: f64,
        /// The threshold, s.
        most_s: f64,
    },
    /// Failed: too many calls were overdue at the same time.
    Overdue {
        /// The number of overdue calls.
        calls: u64,
    },
    /// Failed: the number of open calls grew.
    Backlog {
        /// The growth in the second half of the step.
        growth: u64,
    },
    /// Failed: too many requests were retransmitted, so the server handled more messages than the rate implies.
    Again {
        /// The number of retransmitted requests.
        requests: u64,
    },
    /// Failed: the server could not be prepared, for example because users could not be registered.
    Unprepared(
        /// The reason, in a sentence.
        String,
    ),
    /// Failed: too many calls were handled inadequately.
    NotObjective {
        /// The number of calls that failed, are still open, or were late.
        calls: u64,
    },
    /// Failed: nothing was received from the server.
    Unanswered {
        /// Started calls; 0 if users could not be registered before.
        calls: u64,
        /// Why they failed, in words; `None` if none has failed yet.
        why: Option<String>,
    },
    /// Invalid: the whole machine stalled, which may have prevented a pass.
    Stalled {
        /// The number of stalls.
        count: u64,
        /// The longest stall, s.
        longest_s: f64,
    },
    /// Invalid: the tester was the limit.
    Tester(
        /// The faults of the tester, in sentences.
        Vec<String>,
    ),
    /// Invalid: the step ended before a decision.
    CutShort,
}

/// The reason of a failed call if no other is known.
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

impl fmt::Display for StepDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.outcome, self.reason)
    }
}

impl fmt::Display for StepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown => f.write_str("enough succeed, and every threshold is met"),
            Self::ByShare => f.write_str(
                "every threshold is met; too few calls to show at the stated risks that enough succeed",
            ),
            Self::AllSucceeded => f.write_str("all succeeded"),
            Self::Objective => f.write_str("the objective was met"),
            Self::Failures => f.write_str("too many failed"),
            Self::FailuresByShare => {
                f.write_str("too many failed; too few calls to show it at the stated risks")
            }
            Self::NotAll => f.write_str("not all succeeded"),
            Self::Threshold { delay, statistic, was_s, most_s } => {
                let name = statistic.name();
                write!(f, "{delay}: {name} {}, at most {}", time(*was_s), time(*most_s))
            }
            Self::Overdue { calls } => write!(f, "{calls} were overdue at the same time"),
            Self::Backlog { growth } => write!(f, "the backlog grew by {growth} in the second half"),
            Self::Again { requests } => write!(f, "{requests} requests were retransmitted"),
            Self::Unprepared(why) => write!(f, "the server could not be prepared: {why}"),
            Self::NotObjective { calls } => write!(f, "{calls} were handled inadequately"),
            Self::Unanswered { calls, why } => {
                let why = why.as_deref().unwrap_or(SILENCE);
                match calls {
                    0 => write!(f, "no answer: {why}"),
                    _ => write!(f, "none of {calls} was answered: {why}"),
                }
            }
            Self::Stalled { count, longest_s } => {
                let times = counted(*count, "time", "times");
                write!(f, "the machine stalled {times}, for up to {}", time(*longest_s))
            }
            Self::Tester(faults) => write!(f, "the tester was the limit: {}", faults.join("; ")),
            Self::CutShort => f.write_str("the step ended before a decision"),
        }
    }
}
