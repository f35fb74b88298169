//! What goes into the store for one run, and what comes out.

use std::collections::BTreeMap;

use netrig_core::{Duration, Instant};
use netrig_experiment::{MeasuredValue, Point, RunOutcome, RunRemark};

use crate::ProvenanceId;
use crate::write::ExperimentId;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It ran to its end; whether it counts, [`RunOutcome::invalid`] says.
    Finished(RunOutcome),
    /// It did not, or what it says of itself cannot be: why.
    Failed(String),
}

impl End {
    /// Whether the run's values count.
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Finished(outcome) if outcome.invalid.is_none())
    }

    /// Why they do not.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Finished(outcome) => outcome.invalid.as_deref(),
            Self::Failed(why) => Some(why),
        }
    }

    /// What must stand beside the run's figures.
    pub fn remarks(&self) -> &[RunRemark] {
        match self {
            Self::Finished(outcome) => &outcome.remarks,
            Self::Failed(_) => &[],
        }
    }

    /// How long the run lasted, if its flows were done before the scenario's duration.
    pub fn lasted(&self) -> Option<Duration> {
        match self {
            Self::Finished(outcome) => outcome.lasted,
            Self::Failed(_) => None,
        }
    }
}

/// One response of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Its unit as written in tables.
    pub unit: String,
    /// Its value in that unit, or why the run could not measure it.
    pub measured: MeasuredValue,
}

/// A run to be recorded.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The experiment that it is a replication of.
    pub experiment: ExperimentId,
    /// Every factor with its level.
    pub point: Point,
    /// From 1.
    pub replication: u32,
    /// The hash of all that decides its result.
    pub identity: String,
    /// The substrate's name.
    pub substrate: String,
    /// The seed of its random streams.
    pub seed: u64,
    /// How it ended.
    pub end: End,
    /// What was measured, by name.
    pub responses: BTreeMap<String, Response>,
    /// How long it took on the wall clock, in seconds.
    pub took: f64,
    /// Where and with what it was made.
    pub provenance: ProvenanceId,
    /// Its time series, if they were asked for.
    pub series: Vec<Series>,
    /// Its time line, if it was asked for.
    pub notes: Vec<NoteLine>,
}

/// A run that is in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// The hash of all that decides its result.
    pub identity: String,
    /// The substrate's name.
    pub substrate: String,
    /// The seed of its random streams.
    pub seed: u64,
    /// How it ended.
    pub end: End,
    /// What was measured, by name.
    pub responses: BTreeMap<String, Response>,
    /// How long it took on the wall clock, in seconds.
    pub took: f64,
    /// When it was recorded: UTC, `2026-11-21T08:00:00Z`.
    pub finished: String,
    /// Where and with what it was made.
    pub provenance: ProvenanceId,
}

/// A time series of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is about: `flow/web`, `link/primary/forward`.
    pub subject: String,
    /// What was measured: `queue_length`.
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// When and how much, in the order of time.
    pub samples: Vec<(Instant, f64)>,
}

/// One line of a run's time line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteLine {
    /// When.
    pub at: Instant,
    /// About what.
    pub subject: String,
    /// The words.
    pub text: String,
}
