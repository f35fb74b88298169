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
    let mut groups: BTreeMap<GroupKey, RunGroup> = BTreeMap::new();
    let mut latest: BTreeMap<String, (String, ProvenanceId, String)> = BTreeMap::new();
    let mut names = ResponseNames::default();
    let mut last: Option<(GroupKey, RunGroup)> = None;
    // Reads one replication after the other, because there may be a million.
    store.each_replication(version, |replication| {
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
        let is_same =
            |key: &GroupKey| key.substrate == run.substrate && key.build == build && key.point == point;
        if !last.as_ref().is_some_and(|(key, _)| is_same(key)) {
            let place = place(&point, design);
            let key = GroupKey { substrate: run.substrate.clone(), build, place, point };
            if let Some((key, group)) = last.replace((key, RunGroup::default())) {
                groups.entry(key).or_default().extend(group);
            }
        }
        if let Some((_, group)) = &mut last {
            group.sources.add(&run);
            group.records.push(names.record(number, run.seed, &run.end, &run.responses));
        }
    })?;
    if let Some((key, group)) = last {
        groups.entry(key).or_default().extend(group);
    }
    groups.retain(|key, _| latest.get(&key.substrate).is_some_and(|latest| latest.2 == key.build));
    let mut results = StoredResults::default();
    for (key, RunGroup { records, sources }) in groups {
        let decided = rule.decide(&records).last();
        results.sources.entry(key.point.clone()).or_default().extend(sources);
        results.points.push(PointRuns::new(&key.substrate, key.point, records, decided));
    }
    Ok(results)
}

/// The runs of one build at a point on a substrate.
#[derive(Default)]
struct RunGroup {
    records: Vec<RunRecord>,
    sources: RunSources,
}

impl RunGroup {
    fn extend(&mut self, other: Self) {
        self.records.extend(other.records);
        self.sources.extend(other.sources);
    }
}

/// A key that sorts points: by the order of their levels in the design, then by the text of the levels.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    substrate: String,
    build: String,
    place: Vec<usize>,
    point: Point,
}

/// The index of each level of the point in the design, for sorting. A missing level sorts last.
fn place(point: &Point, design: &Design) -> Vec<usize> {
    let place = |factor: &Factor| {
        let level = point.level(&factor.name)?;
        factor.levels.iter().position(|known| known == level)
    };
    design.factors.iter().map(|factor| place(factor).unwrap_or(usize::MAX)).collect()
}
