//! One run of a store: found by its identity, and made again.

use netrig_experiment::{Assignment, Experiment, Plan, Run};
use netrig_store::{Replication, Store};

use crate::failure::Failure;

/// The run whose identity begins with `id`, and the text of its experiment.
pub fn find(store: &Store, id: &str) -> Result<(String, Replication), Failure> {
    let mut found = None;
    for entry in store.experiments().map_err(Failure::failed)? {
        for replication in store.replications(entry.id).map_err(Failure::failed)? {
            if !replication.run.identity.starts_with(id) {
                continue;
            }
            match &found {
                Some((_, other)) if *other != replication.run.identity => {
                    return Err(Failure::request(format!(
                        "several runs begin with `{id}`; give more of the identity"
                    )));
                }
                _ => found = Some(((entry.id, replication.clone()), replication.run.identity.clone())),
            }
        }
    }
    let Some(((experiment, replication), _)) = found else {
        return Err(Failure::request(format!(
            "the store has no run `{id}`; `netrig list` prints what it has"
        )));
    };
    Ok((store.experiment_file(experiment).map_err(Failure::failed)?, replication))
}

/// The stored replication as a run that can be made again.
pub fn again(text: &str, replication: &Replication) -> Result<Run, Failure> {
    let experiment = Experiment::parse_runs("the stored file", text).map_err(Failure::failed)?;
    let assignments: Vec<Assignment> = replication
        .point
        .0
        .iter()
        .map(|(factor, level)| Assignment { factor: factor.clone(), levels: vec![level.0.clone()] })
        .collect();
    let experiment = experiment.set(&assignments).map_err(Failure::failed)?;
    let plan: Plan = experiment.plan();
    let mut run = plan.run(0, replication.number).map_err(Failure::failed)?;
    run.seed = replication.run.seed;
    Ok(run)
}
