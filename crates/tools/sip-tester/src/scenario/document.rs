//! The document of a scenario load.

use netrig_sip_net::load::{DelayRow, TesterReport};
use netrig_sip_net::tap::{KeptMessages, KeptRecords};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::media::ScriptMediaCounts;
use super::run::StepTally;
use crate::media::MediaReport;

/// The version of [`ScenarioDocument`].
pub const SCENARIO_FORMAT: u32 = 1;

/// The document of a scenario load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScenarioDocument {
    /// Version of the document.
    pub format: u32,
    /// Version and commit of netrig.
    pub tester: String,
    /// The scenario file.
    pub file: String,
    /// Name of the scenario.
    pub name: String,
    /// Target of the calls; absent if the other side started them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Address of the tester.
    pub local: String,
    /// `udp`, `tcp` or `tls`.
    pub transport: String,
    /// Start times of calls, in words; absent if the other side started them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
    /// Seed of start times, pauses and other draws.
    pub seed: u64,
    /// Start time, ns since 1970.
    pub began_ns: u64,
    /// Duration, s.
    pub took_s: f64,
    /// Whether the results are valid: the tester was never the limit.
    pub valid: bool,
    /// Why it is not valid, in sentences.
    pub faults: Vec<String>,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// Why the scenario ended the run, if it did so with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Started calls.
    pub begun: u64,
    /// Calls that completed their last step.
    pub succeeded: u64,
    /// Failed calls.
    pub failed: u64,
    /// Calls that were open at the end of the run; they were ended, and count as failed.
    pub open: u64,
    /// Successful calls per second, over the time from the first to the last start.
    pub per_second: f64,
    /// The failures by reason.
    pub failures: Vec<ScriptFailureRow>,
    /// Examples of failed calls, to find them among kept messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FailedCallRow>,
    /// The results of each step.
    pub steps: Vec<StepRow>,
    /// Response times of the scenario, and `call`: the durations of successful calls.
    pub delays: Vec<DelayRow>,
    /// Counters of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterRow>,
    /// Messages that belong to no call.
    pub strays: u64,
    /// Messages that would have started a call beyond the limit.
    pub without_room: u64,
    /// Messages that were not sent because their addresses were unproven and had received three times the bytes that they sent.
    #[serde(default)]
    pub withheld: u64,
    /// Media datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<ScriptMediaCounts>,
    /// Voice of sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<MediaReport>,
    /// The results per second.
    pub seconds: Vec<ScenarioSecond>,
    /// Lines that the scenario wrote to the log, and its warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Number of log lines beyond the limit.
    #[serde(default)]
    pub more_lines: u64,
    /// The tester's record of itself.
    pub tester_record: TesterReport,
    /// Messages that were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<KeptMessages>,
    /// Calls that were written as records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<KeptRecords>,
}

/// Calls that failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptFailureRow {
    /// Their current step, from 1; absent for failures that are not counted separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Its line in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What the step does, in words.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The number of calls.
    pub count: u64,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedCallRow {
    /// Its Call-ID.
    pub call_id: String,
    /// Its current step, from 1.
    pub step: usize,
    /// The reason.
    pub why: String,
}

/// A step, and its results over all calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepRow {
    /// Its number, from 1.
    pub step: usize,
    /// Its line in the file.
    pub line: usize,
    /// What it does, in words.
    pub what: String,
    /// Its counts.
    #[serde(flatten)]
    pub tally: StepTally,
}

/// A counter of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterRow {
    /// Its name.
    pub name: String,
    /// Its value.
    pub count: u64,
}

/// A second of a load of scenarios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioSecond {
    /// Number of the second, from the start.
    pub second: u64,
    /// Calls that started in it.
    pub begun: u64,
    /// Calls that ended successfully in it.
    pub succeeded: u64,
    /// Calls that failed in it.
    pub failed: u64,
    /// Calls that are open at its end.
    pub open: u64,
    /// Number of retransmissions sent or received.
    pub again: u64,
    /// Why the results of this second must not be attributed to the other side.
    pub faults: Vec<String>,
}
