//! What a driver tells of a step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{DelayStatistic, Threshold};

/// A step so far, or after its end: everything cumulated since its beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// How long calls were begun: it stands still when the driver has stopped and waits for those that are open.
    pub span_s: f64,
    /// Calls.
    pub counts: CallCounts,
    /// Delays of the calls that have ended. One that the scenario does not have is left out.
    pub delays: Vec<DelaySeen>,
    /// The most frequent reason why calls failed, in words; `None` if none has failed or the reason is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_mostly: Option<String>,
    /// The tester itself.
    pub tester: TesterSeen,
    /// Messages received from the server; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// What this host's kernel counted of the server; `None` if the driver has not looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSeen>,
    /// Stalls of the whole machine while calls were begun.
    #[serde(default)]
    pub stalls: StallsSeen,
    /// From the end of the step before until all calls were known or given up, s.
    #[serde(default)]
    pub took_s: f64,
    /// Why the server could not be made ready for the step: then none of it was offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unprepared: Option<String>,
}

/// Calls of a step, in three classes: succeeded, failed, and the rest, which is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCounts {
    /// That were begun.
    pub begun: u64,
    /// That went as they should.
    pub succeeded: u64,
    /// That are known to have failed.
    pub failed: u64,
    /// Of the open ones, those that have lasted longer than they need by themselves and [`patience_s`].
    ///
    /// [`patience_s`]: super::SearchSettings::patience_s
    pub overdue: u64,
    /// Of those that succeeded, those of which a delay was over its own threshold.
    pub late: u64,
    /// Requests that were sent again because nobody had answered in time.
    #[serde(default)]
    pub again: u64,
}

impl CallCounts {
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
    const fn of(&self, statistic: DelayStatistic) -> f64 {
        match statistic {
            DelayStatistic::Mean => self.mean_s,
            DelayStatistic::P95 => self.p95_s,
            DelayStatistic::Max => self.max_s,
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
pub struct JudgedThreshold {
    /// The threshold.
    pub threshold: Threshold,
    /// What the statistic was; `None` if no call had that delay.
    pub was_s: Option<f64>,
    /// Whether it was kept. Of what no call had nothing can be said: it is.
    pub kept: bool,
}

/// What this host's kernel counted of the server's processes and sockets while calls were begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSeen {
    /// Why all else, or all but the sockets' counts, cannot be seen, in words: those values are zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
    /// Processes that have one of the server's sockets.
    pub processes: u32,
    /// Processors on which they may run.
    pub processors: u32,
    /// How long threads were counted, s.
    pub span_s: f64,
    /// How long the thread ran that ran the longest, s.
    pub busiest_s: f64,
    /// How long the same thread waited for a processor, s.
    pub busiest_waited_s: f64,
    /// How long all threads ran, s.
    pub ran_s: f64,
    /// How long its control groups kept it from running, s (`cpu.stat`).
    pub throttled_s: f64,
    /// Datagrams that were dropped because a receive buffer was full, until the step's end.
    pub dropped: u64,
    /// The size of the largest receive buffer, bytes; 0 if unknown.
    pub receive_buffer: u64,
    /// The most that waited in the receive queues of its sockets, bytes.
    pub most_waiting: u64,
    /// The least share of the receive buffers that was in use after the first drop, 0 to 1; `None` if nothing was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_full: Option<f64>,
    /// Connections that found the queue of a listening socket full, of all servers in the network namespace.
    pub overflows: u64,
}

/// Stalls of the whole machine: a thread that only sleeps woke late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StallsSeen {
    /// How many.
    pub count: u64,
    /// The longest, s.
    pub longest_s: f64,
    /// The sum of all, s.
    pub total_s: f64,
    /// The share of all processors' time that the hypervisor gave to others, 0 to 1.
    pub steal: f64,
}

impl Seen {
    /// Each threshold with its value.
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

    /// Calls begun per second; 0 of no time.
    pub fn offered(&self) -> f64 {
        if self.span_s > 0.0 { self.counts.begun as f64 / self.span_s } else { 0.0 }
    }
}
