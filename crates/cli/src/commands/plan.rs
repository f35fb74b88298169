//! `netrig plan`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use netrig_experiment::{Plan as Runs, Run, RunError, Substrate};
use netrig_runner::{found, trial};
use netrig_store::Store;

use crate::arguments::Plan;
use crate::build::BUILD;
use crate::failure::{Failure, print};
use crate::progress::words;
use crate::request::ExperimentRequest;

/// Number of points at which one run is made to estimate the duration of a run.
const TRIED: usize = 3;

/// Shows points and runs, and the time that the runs will take.
pub fn plan(arguments: &Plan) -> Result<ExitCode, Failure> {
    let request = ExperimentRequest::new(&arguments.which)?;
    let plan = request.experiment.plan();
    let design = &request.experiment.design;
    for factor in &design.factors {
        let levels: Vec<_> = factor.levels.iter().map(|level| level.text()).collect();
        print(format!("{:>20}  {}", factor.name, levels.join(", ")))?;
    }
    let replications = plan.replications();
    let each = match (replications.min, replications.max) {
        (min, max) if min == max => format!("{min}"),
        (min, max) => format!("{min} to {max}"),
    };
    print(format!("{} points, {each} replications of each: at most {} runs", plan.len(), plan.most_runs()))?;
    for substrate in &request.substrates {
        print(cost(&plan, *substrate)?)?;
    }
    if let Some(found) = already_made(&request, &arguments.place.store)? {
        print(found)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A text with the number of runs that the store already has; `None` if there is no store.
fn already_made(request: &ExperimentRequest, path: &Path) -> Result<Option<String>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let store = Store::open_read_only(path).map_err(Failure::request)?;
    let ended = found(&request.experiment, &request.substrates, &BUILD, &store).map_err(Failure::failed)?;
    let path = path.display();
    Ok(Some(match (ended.found, ended.interrupted) {
        (0, _) => format!("the store {path} has none of these runs"),
        (found, true) => format!("the store {path} has {found} of these runs; the others would be made"),
        (_, false) => format!("the store {path} has all runs that are needed"),
    }))
}

/// A text with the time that the runs will take. It is estimated from one run at each of a few points spread over the
/// plan.
fn cost(plan: &Runs, substrate: &dyn Substrate) -> Result<String, Failure> {
    let stride = plan.len().div_ceil(TRIED).max(1);
    let (mut spent, mut tried) = (Duration::ZERO, 0u32);
    for place in (0..plan.len()).step_by(stride) {
        let run = plan.run(place, 1).map_err(Failure::request)?;
        if substrate.check(&run).is_err() {
            continue;
        }
        // The duration of a real-time run is known, so no run is made.
        spent += if substrate.repeats() {
            trial(&run, substrate, &AtomicBool::new(false)).map_err(|error| trial_failure(&run, error))?
        } else {
            run.scenario.duration.into()
        };
        tried += 1;
    }
    let name = substrate.name();
    if tried == 0 {
        return Ok(format!("{name}: cannot run any of the points tried; `netrig check` says why"));
    }
    let jobs = std::thread::available_parallelism()
        .unwrap_or(std::num::NonZeroUsize::MIN)
        .min(substrate.parallelism());
    let each = spent / tried;
    let total = each.mul_f64(plan.most_runs() as f64 / jobs.get() as f64);
    let (about, each) = if substrate.repeats() {
        ("about", format!("{:.0} ms", each.as_secs_f64() * 1e3))
    } else {
        ("in real time, without what it takes to build each testbed: at most", words(each))
    };
    Ok(format!("{name}: {about} {each} a run, {} for all with {jobs} at the same time", words(total)))
}

/// Why the trial of a run failed.
fn trial_failure(run: &Run, error: RunError) -> Failure {
    let point = run.point.to_string();
    let of = if point.is_empty() { String::new() } else { format!(" of the point {point}") };
    Failure::failed(format!("the first run{of} was tried: {error}"))
}
