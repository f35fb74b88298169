//! The work of the runs of an experiment, estimated from runs that were made.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use netrig_experiment::{Experiment, RunError, Substrate};
use netrig_runner::trial;
use netrig_store::Store;

use crate::SweepError;

/// Points at which a run is tried if the store has none.
const TRIALS: usize = 16;

/// The work of a run at each point, s of one processor.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkEstimate {
    by_point: Vec<f64>,
}

impl WorkEstimate {
    /// From the runs of the store, or from trials at points spread over the plan.
    ///
    /// # Errors
    /// If the store cannot be read. A run whose trial fails counts as one that takes no time. If `interrupted` is set, the trials end
    /// early.
    pub fn of(
        experiment: &Experiment,
        substrate: &dyn Substrate,
        build: &str,
        store: &Store,
        interrupted: &AtomicBool,
    ) -> Result<Self, SweepError> {
        let plan = experiment.plan();
        let known = match store.experiment(&experiment.design.name, experiment.text())? {
            Some(id) => store.mean_durations(id, substrate.name(), build)?,
            None => BTreeMap::new(),
        };
        if known.is_empty() {
            let stride = plan.len().div_ceil(TRIALS).max(1);
            let at = |place| -> Result<Duration, RunError> {
                let run = plan.run(place, 1).map_err(|error| RunError::Failed(error.to_string()))?;
                substrate.check(&run).map_err(|why| RunError::Failed(why.to_string()))?;
                trial(&run, substrate, interrupted)
            };
            let tried: Vec<f64> = (0..plan.len())
                .step_by(stride)
                .map(|place| at(place).unwrap_or_default().as_secs_f64())
                .collect();
            return Ok(Self { by_point: (0..plan.len()).map(|place| tried[place / stride]).collect() });
        }
        let mean = known.values().sum::<f64>() / known.len() as f64;
        let by_point = (0..plan.len()).map(|place| known.get(&plan.point(place)).copied().unwrap_or(mean));
        Ok(Self { by_point: by_point.collect() })
    }

    /// The work of a run at a point, s.
    pub fn work_s(&self, point: usize) -> f64 {
        self.by_point.get(point).copied().unwrap_or(0.0)
    }
}
