//! Every step of a search, as it is kept and as an interrupted search goes on from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{StepDecision, StepOutcome, StepReason};
use super::observation::{CallCounts, JudgedThreshold, Seen, ServerSeen, StallsSeen, TesterSeen};
use super::settings::{SearchSettings, SearchSettingsError};
use super::step::{Criterion, Drain, LoadStep, Purpose};

/// A search so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchJournal {
    /// What it was told.
    pub settings: SearchSettings,
    /// What was done, in order.
    pub entries: Vec<SearchEntry>,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEntry {
    /// Calls at one rate.
    Step(Box<StepRecord>),
    /// Silence.
    Drain(Drain),
}

/// A step as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// Why this rate.
    pub purpose: Purpose,
    /// Whether it was another attempt, because the one before did not count.
    pub again: bool,
    /// The rate that was asked for, per second.
    pub rate: f64,
    /// The rate at which calls were begun, per second.
    pub offered: f64,
    /// How long, s.
    pub span_s: f64,
    /// What became of them; those that are open here count as failed.
    pub counts: CallCounts,
    /// Why most of those that failed did, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_mostly: Option<String>,
    /// The share that succeeded.
    pub success: f64,
    /// Where the sequential test stood, if there was one.
    pub test: Option<SequentialTestState>,
    /// Each threshold with its value.
    pub thresholds: Vec<JudgedThreshold>,
    /// The tester's record of itself.
    pub tester: TesterSeen,
    /// What this host's kernel counted of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerSeen>,
    /// Stalls of the whole machine.
    pub stalls: StallsSeen,
    /// From the step's beginning until its last call was known or given up, s.
    pub took_s: f64,
    /// How it ended, and why.
    pub decision: StepDecision,
}

/// Where a sequential test stands: the log of the likelihood ratio, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequentialTestState {
    /// The log of how much likelier these failures are of a bad server than of a good one.
    pub log_ratio: f64,
    /// At or below it the step passes.
    pub accept: f64,
    /// At or above it the step fails.
    pub reject: f64,
}

/// Why a search cannot go on from a journal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// Steps of other settings answer another question.
    #[error("the journal was written with other settings")]
    OtherSettings,
    /// The settings make no search.
    #[error(transparent)]
    Settings(#[from] SearchSettingsError),
    /// The search would have done something else.
    #[error("entry {entry} of the journal is not what the search does there")]
    OtherOrder {
        /// Which, from 1.
        entry: usize,
    },
}

impl StepRecord {
    pub(super) fn new(
        settings: &SearchSettings,
        step: &LoadStep,
        seen: &Seen,
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

    /// Whether this is what the step was.
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

    /// How many steps were decided by less evidence than the settings ask for.
    pub fn by_share(&self) -> usize {
        let is_weak =
            |reason: &StepReason| matches!(reason, StepReason::ByShare | StepReason::FailuresByShare);
        self.steps().filter(|record| is_weak(&record.decision.reason)).count()
    }

    /// Calls begun in steps that count.
    pub fn calls(&self) -> u64 {
        let counts = self.steps().filter(|record| record.decision.outcome != StepOutcome::Invalid);
        counts.map(|record| record.counts.begun).sum()
    }
}
