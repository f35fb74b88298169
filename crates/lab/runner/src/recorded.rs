//! The results of an experiment in a store, from any build of netrig.

use std::collections::BTreeMap;

use netrig_experiment::{Design, Factor, Point, PointRuns, RunRecord, StoppingRule};
use netrig_store::{ExperimentId, ProvenanceId, Replication, RunSources, Store};

use crate::RunnerError;
use crate::pending_runs::ResponseNames;

/// The results of one version of an experiment's file in a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredResults {
    /// All points that have runs, substrate by substrate, in the order of the levels in the design.
    pub points: Vec<PointRuns>,
    /// The sources of the runs of each point, over all substrates.
    pub sources: BTreeMap<Point, RunSources>,
}

/// Reads the results of a version of an experiment's file from `store`.
///
/// Unlike [`carry_out`](crate::carry_out), this accepts runs of other builds of netrig, so that two builds can be
/// compared. Runs of different builds are not mixed: only runs of `build` are used. Without `build`, the runs of the
/// latest build are used on each substrate. Runs for which `wanted` is false are omitted.
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
    // By point, in the order of their first runs, and then by substrate and build.
    let mut groups: Vec<Vec<RunGroup>> = Vec::new();
    let mut latest: BTreeMap<String, (String, ProvenanceId, String)> = BTreeMap::new();
    let mut names = ResponseNames::default();
    // Reads one replication after the other, because there may be a million.
    store.each_recorded(version, |index, replication| {
        if build.is_some_and(|build| build != replication.build) {
            return;
        }
        let is_wanted = wanted(&replication);
        let Replication { point, number, build, run } = replication;
        // Times are in whole seconds. Within the same second the latest provenance decides.
        let is_later = latest
            .get(&run.substrate)
            .is_none_or(|known| (&known.0, known.1, &known.2) < (&run.finished, run.provenance, &build));
        if is_later {
            latest.insert(run.substrate.clone(), (run.finished.clone(), run.provenance, build.clone()));
        }
        if !is_wanted {
            return;
        }
        if groups.len() <= index {
            groups.resize_with(index + 1, Vec::new);
        }
        let known = groups[index].iter().position(|of| of.substrate == run.substrate && of.build == build);
        let known = known.unwrap_or_else(|| {
            // Without room for all of them, a million records would take a fifth more memory while they grow.
            let records = Vec::with_capacity(design.replications.min as usize);
            let sources = RunSources::default();
            let substrate = run.substrate.clone();
            groups[index].push(RunGroup { substrate, build, point, records, sources });
            groups[index].len() - 1
        });
        let group = &mut groups[index][known];
        group.sources.add(&run);
        group.records.push(names.record(number, run.seed, &run.end, &run.responses));
    })?;
    let is_latest =
        |group: &RunGroup| latest.get(&group.substrate).is_some_and(|latest| latest.2 == group.build);
    let mut groups: Vec<RunGroup> = groups.into_iter().flatten().filter(is_latest).collect();
    groups.sort_by_cached_key(|group| {
        (group.substrate.clone(), group.build.clone(), place(&group.point, design), group.point.clone())
    });
    let mut results = StoredResults::default();
    for RunGroup { substrate, point, mut records, sources, .. } in groups {
        // A replication that was recorded several times stays in the order of recording.
        records.sort_by_key(|record| record.replication);
        let decided = rule.decide(&records).last();
        results.sources.entry(point.clone()).or_default().extend(sources);
        results.points.push(PointRuns::new(&substrate, point, records, decided));
    }
    Ok(results)
}

/// The runs of one build at a point on a substrate.
struct RunGroup {
    substrate: String,
    build: String,
    point: Point,
    records: Vec<RunRecord>,
    sources: RunSources,
}

/// The index of each level of the point in the design, for sorting. A missing level sorts last.
fn place(point: &Point, design: &Design) -> Vec<usize> {
    let place = |factor: &Factor| {
        let level = point.level(&factor.name)?;
        factor.levels.iter().position(|known| known == level)
    };
    design.factors.iter().map(|factor| place(factor).unwrap_or(usize::MAX)).collect()
}
