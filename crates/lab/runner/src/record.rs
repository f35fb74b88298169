//! From what the store holds of a run to what the judge reads.

use std::collections::BTreeMap;

use netrig_experiment::{MeasuredValue, Point, PointRuns, RunRecord, Status};
use netrig_store::{End, Response};

/// The record of a run. The same for one that just ended and one that was found.
pub(crate) fn record(
    replication: u32,
    seed: u64,
    end: &End,
    responses: &BTreeMap<String, Response>,
) -> RunRecord {
    match end {
        End::Finished(outcome) => {
            let measured: BTreeMap<String, MeasuredValue> =
                responses.iter().map(|(name, response)| (name.clone(), response.measured.clone())).collect();
            RunRecord::new(replication, seed, outcome, &measured)
        }
        End::Failed(why) => {
            RunRecord { replication, seed, valid: false, why: Some(why.clone()), ..RunRecord::default() }
        }
    }
}

/// A point with its runs in the order of their replications, and how it ended. `failures` says which
/// replications failed, and why.
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
        (None, None) => (Status::Failed, Some("none of its runs has ended".to_owned())),
        (None, Some(_)) if runs.iter().any(|run| run.valid) => (Status::Ok, None),
        (None, Some(first)) => (Status::Invalid, first.why.clone()),
    };
    PointRuns { substrate: substrate.to_owned(), point, status, why, runs }
}
