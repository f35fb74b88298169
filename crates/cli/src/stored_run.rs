//! Runs of a store: they are found by their identity and can be repeated.

use netrig_experiment::{Assignment, Experiment, Plan, Run};
use netrig_store::{ExperimentId, Replication, Store, StoreError};

use crate::build::BUILD;
use crate::failure::Failure;
use crate::request::substrate;

/// The run whose identity begins with `id`, and an experiment to which it belongs.
pub fn find(store: &Store, id: &str) -> Result<(ExperimentId, Replication), Failure> {
    store.replication(id).map_err(|error| match error {
        StoreError::NoSuchRun(_) | StoreError::SeveralRuns(_) => Failure::request(error),
        _ => Failure::failed(error),
    })
}

/// A stored replication as a run that can be repeated. Prints a warning if another build made the stored run.
pub fn again(store: &Store, experiment: ExperimentId, replication: &Replication) -> Result<Run, Failure> {
    let on = &replication.run.substrate;
    if !substrate(on)?.repeats() {
        return Err(Failure::request(format!(
            "a run on {on} happened in real time and cannot be repeated. Next time, `run --traces` keeps \
             its time line; on sim the same point can be repeated"
        )));
    }
    if replication.build != *BUILD {
        let (other, this) = (&replication.build, &*BUILD);
        eprintln!("warning: the run was made by netrig {other}, and is repeated by this one, {this}");
    }
    described(store, experiment, replication)
}

/// The run of a stored replication.
pub fn described(store: &Store, experiment: ExperimentId, replication: &Replication) -> Result<Run, Failure> {
    let text = store.experiment_file(experiment).map_err(Failure::failed)?;
    let experiment = Experiment::parse_runs("the stored file", &text).map_err(Failure::failed)?;
    let assignments: Vec<Assignment> = replication
        .point
        .levels()
        .iter()
        .map(|(factor, level)| Assignment { factor: factor.clone(), levels: vec![level.to_string()] })
        .collect();
    let experiment = experiment.set(&assignments).map_err(Failure::failed)?;
    let plan: Plan = experiment.plan();
    let mut run = plan.run(0, replication.number).map_err(Failure::failed)?;
    run.seed = replication.run.seed;
    Ok(run)
}
