//! The work of the runs of an experiment, estimated from runs that were made.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use netrig_experiment::{Experiment, Plan, Substrate};
use netrig_runner::trial;
use netrig_store::Store;

use crate::SweepError;

/// Points at which a run is tried if the store has none.
const TRIALS: usize = 16;

/// The work of a run at each point, s of one processor.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkEstimate {
    by_point: Vec<f64>,
    /// Whether runs were tried in this process.
    is_tried: bool,
}

impl WorkEstimate {
    /// From the runs of the store, or from trials at points spread over the plan.
    ///
    /// # Errors
    /// If the store cannot be read. A run whose trial fails counts as the mean of the others. If `interrupted` is set, the
    /// trials end early.
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
            // The last factor changes fastest: each trial has another of its levels.
            let tried_at = |group: usize| (group * stride + group % stride).min(plan.len() - 1);
            let tried: Vec<Option<f64>> = (0..plan.len().div_ceil(stride))
                .map(|group| try_at(&plan, tried_at(group), substrate, interrupted))
                .collect();
            let mean = mean(tried.iter().flatten());
            let by_point = (0..plan.len()).map(|point| tried[point / stride].unwrap_or(mean)).collect();
            return Ok(Self { by_point, is_tried: true });
        }
        let mean = mean(known.values());
        let by_point = (0..plan.len()).map(|point| known.get(&plan.point(point)).copied().unwrap_or(mean));
        Ok(Self { by_point: by_point.collect(), is_tried: false })
    }

    /// Tries the run with the most work if none was tried, so that this process has had the memory of a run.
    pub fn try_longest(&self, experiment: &Experiment, substrate: &dyn Substrate, interrupted: &AtomicBool) {
        let longest = (0..self.by_point.len()).max_by(|a, b| self.by_point[*a].total_cmp(&self.by_point[*b]));
        if let Some(point) = longest.filter(|_| !self.is_tried) {
            // Only its memory counts.
            let _ = try_at(&experiment.plan(), point, substrate, interrupted);
        }
    }

    /// The work of a run at a point, s.
    pub fn work_s(&self, point: usize) -> f64 {
        self.by_point.get(point).copied().unwrap_or(0.0)
    }
}

/// The duration of a run at a point, s; `None` if it fails.
fn try_at(plan: &Plan, point: usize, substrate: &dyn Substrate, interrupted: &AtomicBool) -> Option<f64> {
    let run = plan.run(point, 1).ok()?;
    substrate.check(&run).ok()?;
    trial(&run, substrate, interrupted).ok().map(|took| took.as_secs_f64())
}

/// The mean; 0 of no values.
fn mean<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
