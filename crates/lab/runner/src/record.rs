//! From a stored run to the record that the judge reads.

use std::collections::BTreeMap;

use netrig_experiment::{MeasuredValue, Point, PointRuns, RunRecord, Status};
use netrig_store::{RunEnd, StoredResponse};

/// The record of a run. It is the same for a run that has just ended and for one from the store.
pub(crate) fn record(
    replication: u32,
    seed: u64,
    end: &RunEnd,
    responses: &BTreeMap<String, StoredResponse>,
) -> RunRecord {
    match end {
        RunEnd::Finished(outcome) => {
            let measured: BTreeMap<String, MeasuredValue> =
                responses.iter().map(|(name, response)| (name.clone(), response.measured.clone())).collect();
            RunRecord::new(replication, seed, outcome, &measured)
        }
        RunEnd::Failed(why) => {
            RunRecord { replication, seed, valid: false, why: Some(why.clone()), ..RunRecord::default() }
        }
    }
}

/// A point with its runs, in the order of their replications, and its status. `failures` holds the reason of each
/// replication that failed.
pub(crate) fn point_runs(
    substrate: &str,
    point: Point,
    runs: Vec<RunRecord>,
    failures: &BTreeMap<u32, String>,
) -> PointRuns {
    let failure = runs.iter().find_map(|run| Some((run, failures.get(&run.replication)?)));
    let (status, why) = match (failure, runs.first()) {
        (Some((run, why)), _) => {
            (Status::Failed, Some(format!("replication {} (seed {}): {why}", run.replication, run.seed)))
        }
        (None, None) => (Status::Failed, Some("no run has ended".to_owned())),
        (None, Some(_)) if runs.iter().any(|run| run.valid) => (Status::Ok, None),
        (None, Some(first)) => (Status::Invalid, first.why.clone()),
    };
    PointRuns { substrate: substrate.to_owned(), point, status, why, runs }
}
