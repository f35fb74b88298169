//! Figures over the time of single runs.

use std::sync::atomic::AtomicBool;

use netrig_core::{Duration, Sample, Sink};
use netrig_experiment::{
    FigureData, FigureSpec, PointResult, Results, Run, RunError, Status, Substrate, Trace, TracedRun,
};
use netrig_store::{Store, TimeSeries};

use super::kept::Kept;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// A figure over the time of single runs, one run of each point that the figure shows.
///
/// Simulated runs are repeated, because a repetition gives the same trace, and a store with all traces would be a
/// hundred times as large. On other substrates the figure shows the first valid run of each point, whose time series
/// are in the store.
///
/// If `cancel` is set before all runs have been repeated, the figure shows only those that were.
pub fn traced(
    (request, results, store): (&ExperimentRequest, &Results, &Store),
    (id, spec): (&str, &FigureSpec),
    cancel: &AtomicBool,
) -> Result<FigureData, Failure> {
    let design = &request.experiment.design;
    let plan = request.experiment.plan();
    let kept = Kept::of(request, store)?;
    let mut runs: Vec<(&str, Run, (Trace, Duration))> = Vec::new();
    let mut missing = 0;
    let shown = |point: &&PointResult| point.status == Status::Ok && spec.at.matches(&point.factors);
    for point in results.points.iter().filter(shown) {
        let Some(substrate) = request.substrates.iter().find(|s| s.name() == point.substrate) else {
            continue;
        };
        if substrate.repeats() {
            let Some(place) = (0..plan.len()).find(|place| plan.point(*place) == point.factors) else {
                continue;
            };
            let run = plan.run(place, 1).map_err(Failure::failed)?;
            match again(*substrate, &run, cancel)? {
                Some(traced) => runs.push((substrate.name(), run, traced)),
                None => break,
            }
        } else if let Some((run, stored)) = kept.run(point) {
            let series = store.series(&stored.identity).map_err(Failure::failed)?;
            missing += usize::from(series.is_empty());
            let lasted = stored.end.lasted().unwrap_or(run.scenario.duration);
            let traced = (recorded(&series, spec, run), lasted);
            runs.push((substrate.name(), run.clone(), traced));
        }
    }
    if missing > 0 {
        eprintln!(
            "figure `{id}`: the store has no time series of {missing} of its runs, which were measured before the file had this \
             figure; with a new store they are measured again"
        );
    }
    let traced: Vec<_> = runs
        .iter()
        .map(|(substrate, run, (trace, lasted))| TracedRun {
            substrate,
            point: &run.point,
            scenario: &run.scenario,
            trace,
            lasted: *lasted,
        })
        .collect();
    Ok(spec.trace(id, design, &traced))
}

/// Repeats a run. Returns its trace and its duration; `None` if cancelled.
fn again(
    substrate: &dyn Substrate,
    run: &Run,
    cancel: &AtomicBool,
) -> Result<Option<(Trace, Duration)>, Failure> {
    let mut trace = Trace::new();
    match substrate.run(run, &mut trace, cancel) {
        Ok(outcome) => Ok(Some((trace, outcome.lasted.unwrap_or(run.scenario.duration)))),
        Err(RunError::Cancelled) => Ok(None),
        Err(error) => Err(Failure::failed(error)),
    }
}

/// The part of a stored run's series that a figure draws.
fn recorded(series: &[TimeSeries], spec: &FigureSpec, run: &Run) -> Trace {
    let mut trace = Trace::new();
    for (subject, quantity) in spec.draws(run) {
        let name = run.scenario.name_of(subject);
        let kept = series.iter().filter(|kept| kept.subject == name && kept.quantity == quantity.name);
        for (at, value) in kept.flat_map(|kept| &kept.samples) {
            trace.sample(subject, Sample { at: *at, quantity, value: *value });
        }
    }
    trace
}
