//! What a load of scenarios says.

use netrig_sip_net::load::{DelayRow, TesterReport};
use netrig_sip_net::tap::{KeptMessages, KeptRecords};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::media::ScriptMediaCounts;
use crate::media::MediaReport;

/// The version of [`ScenarioDocument`].
pub const SCENARIO_FORMAT: u32 = 1;

/// The document of a load of scenarios.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScenarioDocument {
    /// Version of this form.
    pub format: u32,
    /// Version and commit of netrig.
    pub tester: String,
    /// The file of the scenario.
    pub file: String,
    /// The name that the scenario has.
    pub name: String,
    /// Where calls went; absent if the other side began them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Where the tester was reached.
    pub local: String,
    /// `udp`, `tcp` or `tls`.
    pub transport: String,
    /// When calls began, in words; absent if the other side began them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
    /// Seed of the moments, of pauses and of other draws.
    pub seed: u64,
    /// When it began, ns since 1970.
    pub began_ns: u64,
    /// How long it took, s.
    pub took_s: f64,
    /// Whether the tester itself was never the limit.
    pub valid: bool,
    /// Why not, in sentences.
    pub faults: Vec<String>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// Why the scenario ended the run, if it did with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Calls that began.
    pub begun: u64,
    /// Calls that went through their last step.
    pub succeeded: u64,
    /// Calls that did not.
    pub failed: u64,
    /// Calls that had not come to an end when the run was over; they were ended, and are among the failed ones.
    pub open: u64,
    /// The same per second of the time from the first to the last beginning, of calls that succeeded.
    pub per_second: f64,
    /// Why calls failed.
    pub failures: Vec<ScriptFailureRow>,
    /// A few calls that failed, to be looked for among kept messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<FailedCallRow>,
    /// What became of each step.
    pub steps: Vec<StepRow>,
    /// Response times that the scenario measures, and `call`: how long calls took that succeeded.
    pub delays: Vec<DelayRow>,
    /// Counters of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterRow>,
    /// Messages that belonged to no call.
    pub strays: u64,
    /// Messages that would have begun a call, and there were as many as may be.
    pub without_room: u64,
    /// Messages that were not sent: their addresses have proved nothing, and had three times the bytes that they sent.
    #[serde(default)]
    pub withheld: u64,
    /// Datagrams with media.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<ScriptMediaCounts>,
    /// Voice of sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<MediaReport>,
    /// Seconds.
    pub seconds: Vec<ScenarioSecond>,
    /// Lines that the scenario wrote into the log, and its warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Lines of the log that are not here.
    #[serde(default)]
    pub more_lines: u64,
    /// The tester's record of itself.
    pub tester_record: TesterReport,
    /// Messages that were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<KeptMessages>,
    /// Calls that were written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<KeptRecords>,
}

/// Calls that failed in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptFailureRow {
    /// The step that they were at, from 1; absent of what is not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// Its line in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What the step does, in words.
    pub what: String,
    /// Why.
    pub why: String,
    /// How many.
    pub count: u64,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedCallRow {
    /// Its Call-ID.
    pub call_id: String,
    /// The step that it was at, from 1.
    pub step: usize,
    /// Why it failed.
    pub why: String,
}

/// A step, and what became of it in all calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepRow {
    /// Its number, from 1.
    pub step: usize,
    /// Its line in the file.
    pub line: usize,
    /// What it does, in words.
    pub what: String,
    /// Messages of it, or how often it was carried out.
    pub done: u64,
    /// Messages that were sent again, or came again.
    pub again: u64,
    /// How often its time was over.
    pub timeouts: u64,
    /// How often a message came while a call was at it that the scenario does not have there.
    pub unexpected: u64,
}

/// A counter of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterRow {
    /// Its name.
    pub name: String,
    /// How often it was raised.
    pub count: u64,
}

/// A second of a load of scenarios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioSecond {
    /// Counted from the beginning.
    pub second: u64,
    /// Calls that began in it.
    pub begun: u64,
    /// Calls that ended well in it.
    pub succeeded: u64,
    /// Calls that failed in it.
    pub failed: u64,
    /// Calls that are open at its end.
    pub open: u64,
    /// Messages that were sent again, or came again.
    pub again: u64,
    /// Why it must not be put down to the other side.
    pub faults: Vec<String>,
}
