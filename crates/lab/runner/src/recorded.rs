//! The results of an experiment in a store, from any build.

use std::collections::BTreeMap;

use netrig_experiment::{Design, Factor, Point, PointRuns, RunRecord, StoppingRule};
use netrig_store::{ExperimentId, Replication, Store};

use crate::RunnerError;
use crate::pending_runs::record;

/// The results of one version of an experiment's file in a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredResults {
    /// All points that have runs, substrate by substrate, in the order of the levels in the design.
    pub points: Vec<PointRuns>,
    /// The runs of these points.
    pub runs: Vec<Replication>,
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
    let mut replications = store.replications(version)?;
    match build {
        Some(build) => replications.retain(|replication| replication.build == build),
        None => retain_latest_build(&mut replications),
    }
    replications.retain(wanted);
    let rule = StoppingRule::new(&design.replications, design.confidence)?;
    Ok(StoredResults { points: point_by_point(&replications, design, &rule), runs: replications })
}

/// Retains, for each substrate, the runs of the build that made the latest run.
fn retain_latest_build(replications: &mut Vec<Replication>) {
    let mut builds = BTreeMap::new();
    for Replication { run, build, .. } in replications.iter() {
        // Times are whole seconds; within one second the latest provenance decides.
        let made = (run.finished.clone(), run.provenance, build.clone());
        let latest = builds.entry(run.substrate.clone()).or_insert_with(|| made.clone());
        if *latest < made {
            *latest = made;
        }
    }
    replications.retain(|replication| builds[&replication.run.substrate].2 == replication.build);
}

fn point_by_point(replications: &[Replication], design: &Design, rule: &StoppingRule) -> Vec<PointRuns> {
    let mut points: BTreeMap<(&str, Vec<usize>, &Point), Vec<RunRecord>> = BTreeMap::new();
    for Replication { point, number, run, .. } in replications {
        let key = (run.substrate.as_str(), place(point, design), point);
        points.entry(key).or_default().push(record(*number, run.seed, &run.end, &run.responses));
    }
    let of_point = |((substrate, _, point), runs): ((&str, _, &Point), Vec<RunRecord>)| {
        let last = rule.decide(&runs).last();
        PointRuns::new(substrate, point.clone(), runs, last)
    };
    points.into_iter().map(of_point).collect()
}

/// The positions of the point's levels in the design, for sorting. A missing level sorts last.
fn place(point: &Point, design: &Design) -> Vec<usize> {
    let place = |factor: &Factor| {
        let level = point.level(&factor.name)?;
        factor.levels.iter().position(|known| known == level)
    };
    design.factors.iter().map(|factor| place(factor).unwrap_or(usize::MAX)).collect()
}
