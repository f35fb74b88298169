//! The journal of a search: the stored steps, from which an interrupted search resumes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{StepDecision, StepOutcome, StepReason};
use super::observation::{
    CallCounts, JudgedThreshold, MachineStalls, ServerReading, StepObservation, TesterSeen,
};
use super::settings::{SearchSettings, SearchSettingsError};
use super::step::{Criterion, LoadStep, StepPause, StepPurpose};

/// The record of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchJournal {
    /// The settings of the search.
    pub settings: SearchSettings,
    /// Steps and pauses, in order.
    pub entries: Vec<SearchEntry>,
}

/// A step or a pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEntry {
    /// Calls at one rate.
    Step(Box<StepRecord>),
    /// A pause without load.
    Drain(StepPause),
}

/// The record of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// The purpose of this rate.
    pub purpose: StepPurpose,
    /// Whether this was another attempt after an invalid one.
    pub again: bool,
    /// The intended rate, per second.
    pub rate: f64,
    /// The rate at which calls were started, per second.
    pub offered: f64,
    /// How long calls were started, s.
    pub span_s: f64,
    /// The calls by their results. Open calls count as failed.
    pub counts: CallCounts,
    /// The most frequent reason of failures, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_mostly: Option<String>,
    /// The share of calls that succeeded, 0 to 1.
    pub success: f64,
    /// The state of the sequential test, if the step has one.
    pub test: Option<SequentialTestState>,
    /// Each threshold with the measured value.
    pub thresholds: Vec<JudgedThreshold>,
    /// The tester's own measurements.
    pub tester: TesterSeen,
    /// The counters of this host's kernel for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerReading>,
    /// Stalls of the whole machine.
    pub stalls: MachineStalls,
    /// Time from the start of the step until the results of all calls were known or the wait for them ended, s.
    pub took_s: f64,
    /// The decision, with its reason.
    pub decision: StepDecision,
}

/// The state of a sequential test: the log of the likelihood ratio, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequentialTestState {
    /// The natural log of the likelihood of these failures for a bad server, divided by that for a good one.
    pub log_ratio: f64,
    /// The step passes if `log_ratio` is at or below this.
    pub accept: f64,
    /// The step fails if `log_ratio` is at or above this.
    pub reject: f64,
}

/// Why a search cannot resume from a journal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The journal belongs to a search with other settings.
    #[error("the journal was written with other settings")]
    OtherSettings,
    /// A setting is outside its range.
    #[error(transparent)]
    Settings(#[from] SearchSettingsError),
    /// An entry differs from the step or pause that the search orders at this point.
    #[error("entry {entry} of the journal differs from the search's order")]
    OtherOrder {
        /// The number of the entry, from 1.
        entry: usize,
    },
}

impl StepRecord {
    pub(super) fn new(
        settings: &SearchSettings,
        step: &LoadStep,
        seen: &StepObservation,
        decision: StepDecision,
    ) -> Self {
        let counts = seen.counts;
        let test = match &step.criterion {
            Criterion::Sequential(sequential) => sequential.test.test().map(|test| {
                let (accept, reject) = test.bounds();
                let failures = counts.failed + counts.open();
                SequentialTestState { log_ratio: test.log_ratio(failures, counts.begun), accept, reject }
            }),
            _ => None,
        };
        Self {
            purpose: step.purpose,
            again: step.again,
            rate: step.rate,
            offered: seen.offered(),
            span_s: seen.span_s,
            counts,
            failed_mostly: seen.failed_mostly.clone(),
            success: counts.success(),
            test,
            thresholds: seen.judged(&settings.thresholds),
            tester: seen.tester.clone(),
            server: seen.server.clone(),
            stalls: seen.stalls,
            took_s: seen.took_s.max(seen.span_s),
            decision,
        }
    }

    /// Whether this is the record of `step`.
    pub(super) fn is_of(&self, step: &LoadStep) -> bool {
        (self.rate, self.purpose, self.again) == (step.rate, step.purpose, step.again)
    }
}

impl SearchJournal {
    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.entries.iter().filter_map(|entry| match entry {
            SearchEntry::Step(record) => Some(record.as_ref()),
            SearchEntry::Drain(_) => None,
        })
    }

    /// The number of steps that were decided with less evidence than the settings require.
    pub fn by_share(&self) -> usize {
        let is_weak =
            |reason: &StepReason| matches!(reason, StepReason::ByShare | StepReason::FailuresByShare);
        self.steps().filter(|record| is_weak(&record.decision.reason)).count()
    }

    /// Calls started in valid steps.
    pub fn calls(&self) -> u64 {
        let counts = self.steps().filter(|record| record.decision.outcome != StepOutcome::Invalid);
        counts.map(|record| record.counts.begun).sum()
    }
}
