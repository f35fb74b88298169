//! What a driver tells of a step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{Statistic, Threshold};

/// A step so far, or after its end: everything cumulated since its beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// How long calls were begun: it stands still when the driver has stopped and waits for those that are open.
    pub span_s: f64,
    /// Calls.
    pub counts: Counts,
    /// Delays of the calls that have ended. One that the scenario does not have is left out.
    pub delays: Vec<DelaySeen>,
    /// Why most of those that failed did, in words; `None` if none has, or nobody can say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_mostly: Option<String>,
    /// The tester itself.
    pub tester: TesterSeen,
    /// Why the server could not be made ready for the step: then none of it was offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprepared: Option<String>,
}

/// Calls of a step, in three classes: succeeded, failed, and the rest, which is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// That were begun.
    pub begun: u64,
    /// That went as they should.
    pub succeeded: u64,
    /// That are known to have failed.
    pub failed: u64,
    /// Of the open ones, those that have lasted longer than they need by themselves and [`patience_s`].
    ///
    /// [`patience_s`]: super::Settings::patience_s
    pub overdue: u64,
    /// Of those that succeeded, those of which a delay was over its own threshold.
    pub late: u64,
    /// Requests that were sent again because nobody had answered in time.
    #[serde(default)]
    pub again: u64,
}

impl Counts {
    /// Calls of which it is not known how they will end.
    pub const fn open(&self) -> u64 {
        self.begun.saturating_sub(self.succeeded).saturating_sub(self.failed)
    }

    /// The share of those begun that succeeded; 0 of none.
    pub fn success(&self) -> f64 {
        if self.begun == 0 { 0.0 } else { self.succeeded as f64 / self.begun as f64 }
    }
}

/// A delay over the calls that have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelaySeen {
    /// Which.
    pub delay: String,
    /// How many there were.
    pub n: u64,
    /// The mean.
    pub mean_s: f64,
    /// 95 % are no longer.
    pub p95_s: f64,
    /// The longest.
    pub max_s: f64,
}

impl DelaySeen {
    const fn of(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Mean => self.mean_s,
            Statistic::P95 => self.p95_s,
            Statistic::Max => self.max_s,
        }
    }
}

/// What the tester tells of itself. The evidence stays in the journal; what must not be put down to the server is a
/// fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TesterSeen {
    /// Why the step does not count, in sentences.
    pub faults: Vec<String>,
    /// Its time on processors.
    pub cpu_s: f64,
    /// 99 % of what was to begin began no later than this after its moment.
    pub late_p99_s: f64,
    /// Datagrams for which its sockets had no room.
    pub dropped: u64,
}

/// A threshold and what was held against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The threshold.
    pub threshold: Threshold,
    /// What the statistic was; `None` if no call had that delay.
    pub was_s: Option<f64>,
    /// Whether it was kept. Of what no call had nothing can be said: it is.
    pub kept: bool,
}

impl Seen {
    /// Each threshold with its value.
    pub fn judged(&self, thresholds: &[Threshold]) -> Vec<Judged> {
        let judge = |threshold: &Threshold| {
            let seen = self.delays.iter().find(|seen| seen.delay == threshold.delay && seen.n > 0);
            let was_s = seen.map(|seen| seen.of(threshold.statistic));
            Judged {
                threshold: threshold.clone(),
                was_s,
                kept: was_s.is_none_or(|was| was <= threshold.most_s),
            }
        };
        thresholds.iter().map(judge).collect()
    }

    /// Calls begun per second; 0 of no time.
    pub fn offered(&self) -> f64 {
        if self.span_s > 0.0 { self.counts.begun as f64 / self.span_s } else { 0.0 }
    }
}
