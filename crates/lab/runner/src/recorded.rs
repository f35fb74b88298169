//! The results of an experiment in a store, from any build.

use std::collections::BTreeMap;

use netrig_experiment::{Design, Factor, Point, PointRuns, RunRecord, StoppingRule};
use netrig_store::{ExperimentId, Replication, RunSources, Store};

use crate::RunnerError;
use crate::pending_runs::ResponseNames;

/// The results of one version of an experiment's file in a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredResults {
    /// All points that have runs, substrate by substrate, in the order of the levels in the design.
    pub points: Vec<PointRuns>,
    /// Where the runs of each point come from, over all substrates.
    pub sources: BTreeMap<Point, RunSources>,
}

/// Reads the results of a version of an experiment's file from `store`.
///
/// Unlike [`carry_out`](crate::carry_out), this accepts runs of other builds of netrig, so that two builds can be
/// compared. Runs of different builds are not mixed: only runs of `build` are used. Without `build`, each substrate
/// contributes the runs of its latest build. Runs that are not `wanted` are left out.
///
/// # Errors
/// If the store cannot be read, or the stopping rule is invalid.
pub fn recorded(
    store: &Store,
    design: &Design,
    version: ExperimentId,
    build: Option<&str>,
    wanted: impl Fn(&Replication) -> bool,
) -> Result<StoredResults, RunnerError> {
    let rule = StoppingRule::new(&design.replications, design.confidence)?;
    let latest = store.latest_builds(version)?;
    let mut points: BTreeMap<PointKey, Vec<RunRecord>> = BTreeMap::new();
    let mut sources: BTreeMap<Point, RunSources> = BTreeMap::new();
    let mut names = ResponseNames::default();
    let mut last: Option<(PointKey, Vec<RunRecord>)> = None;
    // One after the other: there may be a million.
    store.each_replication(version, |replication| {
        let of_build = build.or_else(|| latest.get(&replication.run.substrate).map(String::as_str));
        if of_build != Some(&replication.build) || !wanted(&replication) {
            return;
        }
        let Replication { point, number, run, .. } = replication;
        sources.entry(point.clone()).or_default().add(&run);
        let record = names.record(number, run.seed, &run.end, &run.responses);
        match &mut last {
            Some((key, records)) if key.substrate == run.substrate && key.point == point => {
                records.push(record)
            }
            _ => {
                let key = PointKey { place: place(&point, design), substrate: run.substrate, point };
                if let Some((key, records)) = last.replace((key, vec![record])) {
                    points.entry(key).or_default().extend(records);
                }
            }
        }
    })?;
    if let Some((key, records)) = last {
        points.entry(key).or_default().extend(records);
    }
    let of_point = |(key, runs): (PointKey, Vec<RunRecord>)| {
        let last = rule.decide(&runs).last();
        PointRuns::new(&key.substrate, key.point, runs, last)
    };
    Ok(StoredResults { points: points.into_iter().map(of_point).collect(), sources })
}

/// What sorts points: their levels in the order of the design come before their texts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PointKey {
    substrate: String,
    place: Vec<usize>,
    point: Point,
}

/// The positions of the point's levels in the design, for sorting. A missing level sorts last.
fn place(point: &Point, design: &Design) -> Vec<usize> {
    let place = |factor: &Factor| {
        let level = point.level(&factor.name)?;
        factor.levels.iter().position(|known| known == level)
    };
    design.factors.iter().map(|factor| place(factor).unwrap_or(usize::MAX)).collect()
}
