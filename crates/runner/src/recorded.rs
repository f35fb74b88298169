//! What a store has of an experiment, whoever made it.

use std::collections::BTreeMap;

use netrig_experiment::{Design, Factor, Point, PointRuns};
use netrig_store::{End, Replication, Store, StoreError};

use crate::record::{point_runs, record};

/// All points that `store` has runs of, in the order of the levels in `design`, substrate by substrate.
///
/// Unlike [`carry_out`](crate::carry_out) this does not ask which netrig made the runs: it is for comparing
/// what two of them found. Numbers of different identities are still not mixed: only the latest version of
/// the file that has runs is looked at, and of each substrate only the latest build.
///
/// # Errors
/// If the store cannot be read.
pub fn recorded(store: &Store, design: &Design) -> Result<Vec<PointRuns>, StoreError> {
    let versions = store.experiments()?;
    let latest = versions.iter().rev().find(|version| version.name == design.name && version.runs > 0);
    let Some(version) = latest else { return Ok(Vec::new()) };
    let mut replications = store.replications(version.id)?;
    let mut builds = BTreeMap::new();
    for Replication { run, build, .. } in &replications {
        // Moments are whole seconds; among those of one second the provenance that came last decides.
        let made = (run.finished.clone(), run.provenance, build.clone());
        let latest = builds.entry(run.substrate.clone()).or_insert_with(|| made.clone());
        if *latest < made {
            *latest = made;
        }
    }
    replications.retain(|replication| builds[&replication.run.substrate].2 == replication.build);
    let mut points: BTreeMap<(String, Vec<usize>, Point), Vec<Replication>> = BTreeMap::new();
    for replication in replications {
        let place = place(&replication.point, design);
        let key = (replication.run.substrate.clone(), place, replication.point.clone());
        points.entry(key).or_default().push(replication);
    }
    let runs = points.into_iter().map(|((substrate, _, point), runs)| of_point(&substrate, point, &runs));
    Ok(runs.collect())
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

fn of_point(substrate: &str, point: Point, replications: &[Replication]) -> PointRuns {
    let mut failures = BTreeMap::new();
    let mut runs = Vec::new();
    for Replication { number, run, .. } in replications {
        runs.push(record(*number, run.seed, &run.end, &run.responses));
        if let End::Failed(why) = &run.end {
            failures.insert(*number, why.clone());
        }
    }
    point_runs(substrate, point, runs, &failures)
}
