//! The records of runs in a store, and the view of them for judging.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Design;
use crate::claim::sample::{Cell, MissingSample, Nature, PointValues, Sample};
use crate::{Cut, MeasuredValue, Point, ResponseSpec, RunOutcome, Status};

/// One finished run, reduced to its responses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Number of the replication, from 1. The n-th replications of all points share their seed.
    pub replication: u32,
    /// The seed of its random streams.
    pub seed: u64,
    /// Whether the run is valid.
    pub valid: bool,
    /// Whether another seed would have given the same values ([`RunOutcome::deterministic`]).
    #[serde(default)]
    pub deterministic: bool,
    /// Why the run is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The responses' values by name; `None` if the run could not measure one.
    pub responses: BTreeMap<String, Option<f64>>,
    /// Why responses have no value, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmeasured: BTreeMap<String, String>,
    /// The cut of MSER-5 at the start of the run, by response.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub warm_up: BTreeMap<String, Cut>,
    /// Remarks on its values, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl RunRecord {
    /// The record of a run from its measured values and its outcome.
    pub fn new(
        replication: u32,
        seed: u64,
        outcome: &RunOutcome,
        measured: &BTreeMap<String, MeasuredValue>,
    ) -> Self {
        let unmeasured = measured.iter().filter_map(|(name, measured)| match measured {
            MeasuredValue::Value { .. } => None,
            MeasuredValue::NotMeasured(why) => Some((name.clone(), why.clone())),
        });
        let warm_up = measured.iter().filter_map(|(name, measured)| match measured {
            MeasuredValue::Value { warm_up, .. } => Some((name.clone(), (*warm_up)?)),
            MeasuredValue::NotMeasured(_) => None,
        });
        let why = match &outcome.invalid {
            Some(why) => Some(why.clone()),
            None if !outcome.balance.holds() => Some("packets were lost without a reason".to_owned()),
            None => None,
        };
        Self {
            replication,
            seed,
            valid: why.is_none(),
            deterministic: outcome.deterministic,
            why,
            responses: measured.iter().map(|(name, measured)| (name.clone(), measured.value())).collect(),
            unmeasured: unmeasured.collect(),
            warm_up: warm_up.collect(),
            remarks: outcome.remarks.iter().map(|remark| remark.text.clone()).collect(),
        }
    }

    /// A remark on a value: why it is missing, why it does not count, or why it is doubtful.
    pub(super) fn remark(&self, response: &str) -> Option<String> {
        let doubt = || {
            let cut = self.warm_up.get(response).filter(|cut| cut.too_short)?;
            Some(format!(
                "too short to show a steady state: MSER-5 leaves out {} of its values",
                cut.discarded
            ))
        };
        self.why.clone().or_else(|| self.unmeasured.get(response).cloned()).or_else(doubt)
    }

    /// The value of a response if the run is valid and measured it.
    pub fn value(&self, response: &str) -> Option<f64> {
        let value = self.responses.get(response).copied().flatten();
        value.filter(|value| self.valid && value.is_finite())
    }
}

/// The runs of one point on one substrate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointRuns {
    /// The substrate.
    pub substrate: String,
    /// Every factor with its level at the point.
    pub point: Point,
    /// State of the point.
    pub status: Status,
    /// Why the state is not `Ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its runs.
    pub runs: Vec<RunRecord>,
}

impl PointRuns {
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

    /// A response as places with values, for claims: a place is a point.
    pub(crate) fn cells(&self, response: &str, design: &Design) -> Vec<Cell> {
        let sample =
            |point: &Point| self.values(point, response, design).map(|values| Sample::plain(&values));
        self.points().map(|point| Cell { factors: point.clone(), sample: sample(point) }).collect()
    }
}
