//! The records of runs, and their values grouped for judging.

use std::collections::BTreeMap;

use super::Design;
use crate::claim::sample::{Cell, MissingSample, Nature, PointValues, Sample};
use crate::{MeasuredValue, MeasuredValues, Point, ResponseSpec, RunOutcome, Status};

/// One run, reduced to its responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecord {
    /// Number of the replication, from 1. The n-th replications of all points have the same seed.
    pub replication: u32,
    /// The seed of the run's random streams.
    pub seed: u64,
    /// Whether its values count.
    pub validity: Validity,
    /// Whether another seed would have given the same values ([`RunOutcome::deterministic`]).
    pub deterministic: bool,
    /// The measured values.
    pub responses: MeasuredValues,
    /// Remarks on its values, as sentences.
    pub remarks: Box<[String]>,
}

/// Whether the values of a run count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// The values count.
    #[default]
    Valid,
    /// The values do not count, for this reason.
    Invalid(String),
    /// The run failed, for this reason, and has no values.
    Failed(String),
}

impl RunRecord {
    /// The record of a run from its measured values and its outcome.
    pub fn new(replication: u32, seed: u64, outcome: &RunOutcome, responses: MeasuredValues) -> Self {
        let validity = match &outcome.invalid {
            Some(why) => Validity::Invalid(why.clone()),
            None if !outcome.balance.holds() => Validity::Invalid(
                "the packet balance does not hold: some packets are unaccounted for".to_owned(),
            ),
            None => Validity::Valid,
        };
        let remarks = outcome.remarks.iter().map(|remark| remark.text.clone()).collect();
        Self { replication, seed, validity, deterministic: outcome.deterministic, responses, remarks }
    }

    /// Whether its values count.
    pub fn is_valid(&self) -> bool {
        self.validity == Validity::Valid
    }

    /// A remark on a value: why it is missing, why it does not count, or why it is doubtful.
    pub(super) fn remark(&self, response: &str) -> Option<String> {
        if let Validity::Invalid(why) | Validity::Failed(why) = &self.validity {
            return Some(why.clone());
        }
        match self.responses.get(response)? {
            MeasuredValue::NotMeasured(why) => Some(why.to_string()),
            MeasuredValue::Value { warm_up: Some(cut), .. } if cut.too_short => Some(format!(
                "too short to show a steady state: MSER-5 leaves out {} of its values",
                cut.discarded
            )),
            MeasuredValue::Value { .. } => None,
        }
    }

    /// The value of a response, if the run measured it.
    pub(super) fn measured(&self, response: &str) -> Option<f64> {
        self.responses.get(response)?.value()
    }

    /// The value of a response, if the run is valid and measured it.
    pub fn value(&self, response: &str) -> Option<f64> {
        self.measured(response).filter(|_| self.is_valid())
    }
}

/// The runs of one point on one substrate.
#[derive(Clone, Debug, PartialEq)]
pub struct PointRuns {
    /// The substrate.
    pub substrate: String,
    /// Every factor with its level at the point.
    pub point: Point,
    /// State of the point.
    pub status: Status,
    /// Why the state is not `Ok`.
    pub why: Option<String>,
    /// The runs up to the last replication that the stopping rule counts, in the order of their replications.
    pub runs: Vec<RunRecord>,
}

impl PointRuns {
    /// The point with its runs, which may be in any order. Runs after replication `last` are left out. `None` means
    /// that the stopping rule has not decided: all runs count.
    pub fn new(substrate: &str, point: Point, mut runs: Vec<RunRecord>, last: Option<u32>) -> Self {
        runs.sort_by_key(|run| run.replication);
        runs.retain(|run| last.is_none_or(|last| run.replication <= last));
        runs.shrink_to_fit();
        let failure = runs.iter().find_map(|run| match &run.validity {
            Validity::Failed(why) => Some((run, why)),
            Validity::Valid | Validity::Invalid(_) => None,
        });
        let (status, why) = match (failure, runs.first()) {
            (Some((run, why)), _) => {
                (Status::Failed, Some(format!("replication {} (seed {}): {why}", run.replication, run.seed)))
            }
            (None, None) => (Status::Failed, Some("no run has ended".to_owned())),
            (None, Some(_)) if runs.iter().any(RunRecord::is_valid) => (Status::Ok, None),
            (None, Some(first)) => match &first.validity {
                Validity::Invalid(why) | Validity::Failed(why) => (Status::Invalid, Some(why.clone())),
                Validity::Valid => (Status::Invalid, None),
            },
        };
        Self { substrate: substrate.to_owned(), point, status, why, runs }
    }

    /// The values of a response in the valid runs, by replication.
    pub(crate) fn values(&self, response: &str) -> BTreeMap<u32, f64> {
        self.runs.iter().filter_map(|run| Some((run.replication, run.value(response)?))).collect()
    }

    /// Whether all its runs are deterministic.
    pub(super) fn is_deterministic(&self) -> bool {
        self.runs.iter().all(|run| run.deterministic)
    }
}

/// The measured values of one substrate, point by point.
pub(crate) struct Measurements<'a> {
    pub substrate: &'a str,
    points: Vec<&'a PointRuns>,
    by_levels: BTreeMap<&'a Point, &'a PointRuns>,
}

impl<'a> Measurements<'a> {
    pub(crate) fn of(substrate: &'a str, all: &'a [PointRuns]) -> Self {
        let points: Vec<&PointRuns> = all.iter().filter(|runs| runs.substrate == substrate).collect();
        let by_levels = points.iter().map(|runs| (&runs.point, *runs)).collect();
        Self { substrate, points, by_levels }
    }

    /// The points in the order of the plan.
    pub(crate) fn points(&self) -> impl Iterator<Item = &'a Point> + '_ {
        self.points.iter().map(|runs| &runs.point)
    }

    /// The values of a response at a point.
    ///
    /// # Errors
    /// If the experiment does not have the point, or the state of the point is not `Ok`.
    pub(crate) fn values(
        &self,
        point: &Point,
        response: &str,
        design: &Design,
    ) -> Result<PointValues, MissingSample> {
        let missing = |status, why: &str| MissingSample { status, why: why.to_owned() };
        let Some(runs) = self.by_levels.get(point) else {
            return Err(missing(Status::Unsupported, "the experiment does not have the point"));
        };
        match runs.status {
            Status::Ok => Ok(PointValues {
                by_replication: runs.values(response),
                nature: Nature {
                    deterministic: runs.is_deterministic(),
                    range: design.response(response).and_then(ResponseSpec::range),
                },
            }),
            status => Err(missing(status, runs.why.as_deref().unwrap_or("the point was not measured"))),
        }
    }

    /// One cell per point, for claims: the levels of the point and the sample of the response.
    pub(crate) fn cells(&self, response: &str, design: &Design) -> Vec<Cell> {
        let sample =
            |point: &Point| self.values(point, response, design).map(|values| Sample::plain(&values));
        self.points().map(|point| Cell { factors: point.clone(), sample: sample(point) }).collect()
    }
}
