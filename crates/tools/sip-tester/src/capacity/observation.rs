//! The observations of a step that a driver reports.

pub use netrig_host::{MachineStalls, ServerReading};
use netrig_sip::index::DelayStatistic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::Threshold;

/// Observations of a step, accumulated since its start. A driver reports them during the step and after its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepObservation {
    /// How long calls were started, s. It does not grow while the driver waits for open calls.
    pub span_s: f64,
    /// The calls by their results.
    pub counts: CallCounts,
    /// Delays of the calls that have ended. A delay that the scenario does not have is left out.
    pub delays: Vec<DelaySeen>,
    /// The most frequent reason of failures, in words; `None` if no call failed or the reason is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_mostly: Option<String>,
    /// The tester's own measurements.
    pub tester: TesterSeen,
    /// Messages received from the server; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// The kernel's counters of the server on this host; `None` if the driver has not read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerReading>,
    /// Stalls of the whole machine while calls were started.
    #[serde(default)]
    pub stalls: MachineStalls,
    /// From the end of the previous step until the results of all calls were known or no longer awaited, s.
    #[serde(default)]
    pub took_s: f64,
    /// Why the server could not be prepared for the step. If set, no calls were offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprepared: Option<String>,
}

/// The calls of a step by their results: succeeded, failed, or open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCounts {
    /// Started calls.
    pub begun: u64,
    /// Successful calls.
    pub succeeded: u64,
    /// Calls that are known to have failed.
    pub failed: u64,
    /// Open calls that have lasted longer than the duration of a call plus [`patience_s`].
    ///
    /// [`patience_s`]: super::SearchSettings::patience_s
    pub overdue: u64,
    /// Successful calls with a delay above its threshold.
    pub late: u64,
    /// Requests that were retransmitted because no response arrived in time.
    #[serde(default)]
    pub again: u64,
}

impl CallCounts {
    /// Open calls: started, but neither successful nor failed.
    pub const fn open(&self) -> u64 {
        self.begun.saturating_sub(self.succeeded).saturating_sub(self.failed)
    }

    /// The share of started calls that succeeded, 0 to 1; 0 if none was started.
    pub fn success(&self) -> f64 {
        if self.begun == 0 { 0.0 } else { self.succeeded as f64 / self.begun as f64 }
    }
}

/// Statistics of a delay over the calls that have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DelaySeen {
    /// The name of the delay.
    pub delay: String,
    /// The number of samples.
    pub n: u64,
    /// The mean, s.
    pub mean_s: f64,
    /// The 95th percentile, s.
    pub p95_s: f64,
    /// The maximum, s.
    pub max_s: f64,
}

impl DelaySeen {
    const fn of(&self, statistic: DelayStatistic) -> f64 {
        match statistic {
            DelayStatistic::Mean => self.mean_s,
            DelayStatistic::P95 => self.p95_s,
            DelayStatistic::Max => self.max_s,
        }
    }
}

/// The tester's own measurements. A fault is an effect of the tester that must not be attributed to the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TesterSeen {
    /// Why the step is invalid, in sentences.
    pub faults: Vec<String>,
    /// Processor time of the tester, s.
    pub cpu_s: f64,
    /// The 99th percentile of the lateness of calls after their scheduled times, s.
    pub late_p99_s: f64,
    /// Datagrams that were dropped because a receive buffer of the tester was full.
    pub dropped: u64,
}

/// A threshold with the measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedThreshold {
    /// The threshold.
    pub threshold: Threshold,
    /// The measured value, s; `None` if no call had that delay.
    pub was_s: Option<f64>,
    /// Whether the threshold was met. It counts as met if no call had that delay.
    pub kept: bool,
}

impl StepObservation {
    /// Each threshold with the measured value.
    pub fn judged(&self, thresholds: &[Threshold]) -> Vec<JudgedThreshold> {
        let judge = |threshold: &Threshold| {
            let seen = self.delays.iter().find(|seen| seen.delay == threshold.delay && seen.n > 0);
            let was_s = seen.map(|seen| seen.of(threshold.statistic));
            JudgedThreshold {
                threshold: threshold.clone(),
                was_s,
                kept: was_s.is_none_or(|was| was <= threshold.most_s),
            }
        };
        thresholds.iter().map(judge).collect()
    }

    /// Calls started per second; 0 if no time has passed.
    pub fn offered(&self) -> f64 {
        if self.span_s > 0.0 { self.counts.begun as f64 / self.span_s } else { 0.0 }
    }
}
