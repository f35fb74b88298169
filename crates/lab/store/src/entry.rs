//! A run in the form in which it is recorded, and in the form in which it is read.

use std::collections::BTreeMap;

use netrig_core::{Duration, Instant};
use netrig_experiment::{MeasuredValue, Point, RunOutcome, RunRemark};

use crate::ProvenanceId;

/// The key of an experiment file in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExperimentId(pub(crate) i64);

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// The run ended normally. [`RunOutcome::invalid`] is `None` if it is valid.
    Finished(RunOutcome),
    /// The run failed, or its result is inconsistent. The text is the reason.
    Failed(String),
}

impl RunEnd {
    /// Whether the run's values are valid.
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Finished(outcome) if outcome.invalid.is_none())
    }

    /// The reason if the run failed or is invalid.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Finished(outcome) => outcome.invalid.as_deref(),
            Self::Failed(why) => Some(why),
        }
    }

    /// Remarks that reports must show with the run's values.
    pub fn remarks(&self) -> &[RunRemark] {
        match self {
            Self::Finished(outcome) => &outcome.remarks,
            Self::Failed(_) => &[],
        }
    }

    /// Duration of the run if its flows ended early. `None` if the run lasted for the scenario's duration.
    pub fn lasted(&self) -> Option<Duration> {
        match self {
            Self::Finished(outcome) => outcome.lasted,
            Self::Failed(_) => None,
        }
    }
}

/// One response of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredResponse {
    /// The unit, as it is written in tables.
    pub unit: String,
    /// The value in that unit, or the reason why there is no value.
    pub measured: MeasuredValue,
}

/// A run to record.
#[derive(Clone, Debug)]
pub struct RunEntry {
    /// The experiment to which the replication belongs.
    pub experiment: ExperimentId,
    /// The level of every factor.
    pub point: Point,
    /// The number of the replication, from 1.
    pub replication: u32,
    /// The hash of all inputs that determine the result.
    pub identity: String,
    /// The substrate's name.
    pub substrate: String,
    /// The seed of the run's random streams.
    pub seed: u64,
    /// How the run ended.
    pub end: RunEnd,
    /// The responses by name.
    pub responses: BTreeMap<String, StoredResponse>,
    /// Wall-clock duration, s.
    pub took: f64,
    /// The machine and the build that produced the run.
    pub provenance: ProvenanceId,
    /// The time series; empty if none were requested.
    pub series: Vec<TimeSeries>,
    /// The time line; empty if it was not requested.
    pub notes: Vec<NoteLine>,
}

/// A run that is in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// The hash of all inputs that determine the result.
    pub identity: String,
    /// The substrate's name.
    pub substrate: String,
    /// The seed of the run's random streams.
    pub seed: u64,
    /// How the run ended.
    pub end: RunEnd,
    /// The responses by name.
    pub responses: BTreeMap<String, StoredResponse>,
    /// Wall-clock duration, s.
    pub took: f64,
    /// Time of recording: UTC, `2026-11-21T08:00:00Z`.
    pub finished: String,
    /// The machine and the build that produced the run.
    pub provenance: ProvenanceId,
}

/// A time series of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSeries {
    /// The subject: `flow/web`, `link/primary/forward`.
    pub subject: String,
    /// The quantity's name: `queue_length`.
    pub quantity: String,
    /// The unit of the values.
    pub unit: String,
    /// Times and values, in the order of time.
    pub samples: Vec<(Instant, f64)>,
}

/// One line of a run's time line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteLine {
    /// Time of the event.
    pub at: Instant,
    /// The subject of the event.
    pub subject: String,
    /// The text of the line.
    pub text: String,
}
