//! `netrig plan`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netrig_core::{Kind, Quantity, Sample, Sink, Subject};
use netrig_experiment::{Plan as Runs, Run, RunError, Substrate};

use crate::arguments::Plan;
use crate::failure::{Failure, print};
use crate::progress::words;
use crate::request::ExperimentRequest;

/// Points of which one run is made to learn what a run costs.
const TRIED: usize = 3;
/// A run in virtual time is given up after so long, and what is left of it is taken to cost as much as what was done.
const TRIAL: Duration = Duration::from_millis(3);

/// Shows points and runs, and what they will cost.
pub fn plan(arguments: &Plan) -> Result<ExitCode, Failure> {
    let request = ExperimentRequest::new(&arguments.which)?;
    let plan = request.experiment.plan();
    let design = &request.experiment.design;
    for factor in &design.factors {
        let levels: Vec<_> = factor.levels.iter().map(|level| level.0.as_str()).collect();
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
    Ok(ExitCode::SUCCESS)
}

/// What the runs will take, from runs of a few points spread over the plan.
fn cost(plan: &Runs, substrate: &dyn Substrate) -> Result<String, Failure> {
    let stride = plan.len().div_ceil(TRIED).max(1);
    let (mut spent, mut tried) = (Duration::ZERO, 0u32);
    for place in (0..plan.len()).step_by(stride) {
        let run = plan.run(place, 1).map_err(Failure::request)?;
        if substrate.check(&run).is_err() {
            continue;
        }
        spent += trial(&run, substrate)?;
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
    let each = format!("{:.0} ms", each.as_secs_f64() * 1e3);
    Ok(format!("{name}: about {each} a run, {} for all with {jobs} at the same time", words(total)))
}

/// What a run takes.
fn trial(run: &Run, substrate: &dyn Substrate) -> Result<Duration, Failure> {
    let cancel = AtomicBool::new(false);
    let start = Instant::now();
    let mut progress = Progress { start, cancel: &cancel, reached: netrig_core::Instant::ZERO };
    match substrate.run(run, &mut progress, &cancel) {
        Ok(_) => Ok(start.elapsed()),
        Err(RunError::Cancelled) => {
            let done = progress.reached.as_nanos() as f64 / run.scenario.duration.as_nanos() as f64;
            Ok(start.elapsed().div_f64(done))
        }
        Err(error) => Err(Failure::failed(error)),
    }
}

/// How far a run has come, told by its samples of intervals. Gives it up after [`TRIAL`].
struct Progress<'a> {
    start: Instant,
    cancel: &'a AtomicBool,
    reached: netrig_core::Instant,
}

impl Sink for Progress<'_> {
    fn sample(&mut self, _: Subject, sample: Sample) {
        if sample.at > self.reached {
            self.reached = sample.at;
            self.cancel.store(self.start.elapsed() > TRIAL, Ordering::Relaxed);
        }
    }

    fn wants(&self, quantity: &'static Quantity) -> bool {
        quantity.kind == Kind::Count
    }
}
