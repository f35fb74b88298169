//! What a store has of an experiment, whoever made it.

use std::collections::BTreeMap;

use netrig_experiment::{Design, Factor, Point, PointRuns};
use netrig_store::{ExperimentId, Replication, RunEnd, Store, StoreError};

use crate::record::{point_runs, record};

/// What a store has of one version of an experiment's file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// All points that it has runs of, in the order of the levels in the design, substrate by substrate.
    pub points: Vec<PointRuns>,
    /// The runs behind them.
    pub runs: Vec<Replication>,
}

/// What `store` has of a version of an experiment's file.
///
/// Unlike [`carry_out`](crate::carry_out) this does not ask which netrig made the runs: it is for comparing
/// what two of them found. Numbers of two builds are still not mixed: only runs of `build` are looked at; if none is
/// named, of each substrate only those of the latest. Of these the ones that are `wanted`.
///
/// # Errors
/// If the store cannot be read.
pub fn recorded(
    store: &Store,
    design: &Design,
    version: ExperimentId,
    build: Option<&str>,
    wanted: impl Fn(&Replication) -> bool,
) -> Result<Kept, StoreError> {
    let mut replications = store.replications(version)?;
    match build {
        Some(build) => replications.retain(|replication| replication.build == build),
        None => retain_latest_build(&mut replications),
    }
    replications.retain(wanted);
    Ok(Kept { points: point_by_point(&replications, design), runs: replications })
}

/// Leaves of each substrate the runs of the build that made the last one.
fn retain_latest_build(replications: &mut Vec<Replication>) {
    let mut builds = BTreeMap::new();
    for Replication { run, build, .. } in replications.iter() {
        // Moments are whole seconds; among those of one second the provenance that came last decides.
        let made = (run.finished.clone(), run.provenance, build.clone());
        let latest = builds.entry(run.substrate.clone()).or_insert_with(|| made.clone());
        if *latest < made {
            *latest = made;
        }
    }
    replications.retain(|replication| builds[&replication.run.substrate].2 == replication.build);
}

fn point_by_point(replications: &[Replication], design: &Design) -> Vec<PointRuns> {
    let mut points: BTreeMap<(String, Vec<usize>, Point), Vec<&Replication>> = BTreeMap::new();
    for replication in replications {
        let place = place(&replication.point, design);
        let key = (replication.run.substrate.clone(), place, replication.point.clone());
        points.entry(key).or_default().push(replication);
    }
    let runs = points.into_iter().map(|((substrate, _, point), runs)| of_point(&substrate, point, &runs));
    runs.collect()
}

/// The places of the point's levels among those of the design, for sorting; levels that it does not have
/// come last.
fn place(point: &Point, design: &Design) -> Vec<usize> {
    let place = |factor: &Factor| {
        let level = point.level(&factor.name)?;
        factor.levels.iter().position(|known| known == level)
    };
    design.factors.iter().map(|factor| place(factor).unwrap_or(usize::MAX)).collect()
}

fn of_point(substrate: &str, point: Point, replications: &[&Replication]) -> PointRuns {
    let mut failures = BTreeMap::new();
    let mut runs = Vec::new();
    for Replication { number, run, .. } in replications {
        runs.push(record(*number, run.seed, &run.end, &run.responses));
        if let RunEnd::Failed(why) = &run.end {
            failures.insert(*number, why.clone());
        }
    }
    point_runs(substrate, point, runs, &failures)
}
