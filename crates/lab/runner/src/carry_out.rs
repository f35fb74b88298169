//! The loop that gives runs to workers and records their results.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netrig_experiment::{Experiment, IntervalMethod, Plan, PointRuns, Run, StoppingRule, Substrate};
use netrig_store::{
    ExperimentId, Provenance, ProvenanceId, RecordOutcome, RunEnd, RunEntry, Store, StoredRun,
};

use crate::execution::ExecutedRun;
use crate::pending_runs::{EarlierRuns, PendingRun, PendingRuns, PlannedRun, SubstratePlan};
use crate::progress::time_left;
use crate::workers::{WorkerContext, Workers};
use crate::{ProgressListener, RunEvent, RunTally, RunnerError};

/// The plan to execute, and options of the execution.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The experiment, with its levels, replications and seed.
    pub experiment: &'a Experiment,
    /// The substrates, in the order of execution. A substrate in real time must have the machine to itself.
    pub substrates: &'a [&'a dyn Substrate],
    /// The machine and the build. The build is part of the identity of each run.
    pub provenance: &'a Provenance,
    /// The number of concurrent runs. By default the number of processors. The parallelism of the substrate is the
    /// upper limit.
    pub jobs: Option<NonZeroUsize>,
    /// Whether stored runs that failed or are invalid are executed again.
    pub earlier: EarlierRuns,
    /// The runs to execute. `None` for the runs that the stopping rule requires.
    pub chosen: Option<&'a [PlannedRun]>,
    /// Whether to keep the time series and the notes of each run. If the store already has a run without them, the run
    /// is not repeated.
    pub traced: bool,
    /// Another thread sets this flag to stop the execution.
    pub cancel: &'a AtomicBool,
}

/// The results of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanOutcome {
    /// The runs of every point on every substrate: substrate by substrate, in the order of the plan.
    pub points: Vec<PointRuns>,
    /// Whether runs are missing because of cancellation. The completed runs are in the store and in `points`.
    pub interrupted: bool,
    /// Runs that the store already had.
    pub found: u64,
    /// Number of runs that were executed, valid or not.
    pub ran: u64,
}

/// Executes the runs that the store does not have, and returns the results of all points of the experiment.
///
/// This thread records each run as soon as it ends. If `request.cancel` is set, the runs in progress are cancelled, and
/// the runs that have ended are kept.
///
/// # Errors
/// If the store fails, the stopping rule is invalid, or a thread cannot be started. Failed runs, points that a substrate
/// cannot run, and cancellation are not errors: [`PlanOutcome`] reports them.
pub fn carry_out(
    request: &PlanRequest<'_>,
    store: &mut Store,
    progress: &mut dyn ProgressListener,
) -> Result<PlanOutcome, RunnerError> {
    let wanted = PreparedPlan::new(request.experiment)?;
    let place = StoreIds {
        experiment: store.add_experiment(&request.experiment.design.name, request.experiment.text())?,
        provenance: store.add_provenance(request.provenance)?,
    };
    let mut ended = PlanOutcome::default();
    for substrate in request.substrates {
        let scope = wanted.on(*substrate, &request.provenance.build);
        let mut sweep = SubstrateRuns::new(request, &scope, place, store, progress)?;
        sweep.run()?;
        sweep.file()?;
        ended.interrupted |= sweep.cancelled > 0;
        ended.ran += sweep.tally.ran;
        ended.add(sweep.pending_runs);
    }
    Ok(ended)
}

/// The results of the experiment that `store` has from this `build`, in the form in which [`carry_out`] returned them.
/// No run is executed, and nothing is written. If runs are missing, `interrupted` is set.
///
/// # Errors
/// If the store cannot be read, or the stopping rule is invalid.
pub fn found(
    experiment: &Experiment,
    substrates: &[&dyn Substrate],
    build: &str,
    store: &Store,
) -> Result<PlanOutcome, RunnerError> {
    let wanted = PreparedPlan::new(experiment)?;
    let mut ended = PlanOutcome::default();
    for substrate in substrates {
        let scope = wanted.on(*substrate, build);
        ended.add(PendingRuns::new(&scope, EarlierRuns::Stands, filed_in(store, experiment)?, store)?);
    }
    Ok(ended)
}

/// The runs that `store` lacks, in the order in which [`carry_out`] would execute them: replication by replication. The
/// list does not contain replications that the stopping rule may require later, after the results of these runs.
///
/// # Errors
/// If the store cannot be read, or the stopping rule is invalid.
pub fn missing(
    experiment: &Experiment,
    substrate: &dyn Substrate,
    build: &str,
    earlier: EarlierRuns,
    store: &Store,
) -> Result<Vec<PlannedRun>, RunnerError> {
    let wanted = PreparedPlan::new(experiment)?;
    let scope = wanted.on(substrate, build);
    Ok(PendingRuns::new(&scope, earlier, filed_in(store, experiment)?, store)?.planned())
}

/// The key of this version of the experiment's file in the store. `None` if the store does not have it.
fn filed_in(store: &Store, experiment: &Experiment) -> Result<Option<ExperimentId>, RunnerError> {
    Ok(store.experiment(&experiment.design.name, experiment.text())?)
}

/// The identities of `runs` in the store, in the same order. `None` for a run of a point that cannot be run.
///
/// # Errors
/// If the stopping rule is invalid.
pub fn identities(
    experiment: &Experiment,
    substrate: &dyn Substrate,
    build: &str,
    runs: &[PlannedRun],
) -> Result<Vec<Option<String>>, RunnerError> {
    let wanted = PreparedPlan::new(experiment)?;
    let scope = wanted.on(substrate, build);
    Ok(runs.iter().map(|run| scope.identity(run.point, run.replication).ok()).collect())
}

/// The first valid run of each point of the plan, in the order of the plan. `None` if `store` has none on this
/// substrate from this `build`. On a real-time substrate, figures of single runs show this run for its point. The
/// simulator repeats replication 1 instead.
///
/// # Errors
/// If the store cannot be read, or the stopping rule is invalid.
pub fn first_that_count(
    experiment: &Experiment,
    substrate: &dyn Substrate,
    build: &str,
    store: &Store,
) -> Result<Vec<Option<(Run, StoredRun)>>, RunnerError> {
    let wanted = PreparedPlan::new(experiment)?;
    let scope = wanted.on(substrate, build);
    (0..wanted.plan.len()).map(|place| Ok(scope.first_that_counts(place, store)?)).collect()
}

impl PlanOutcome {
    /// Adds the results on one substrate.
    fn add(&mut self, pending_runs: PendingRuns<'_>) {
        self.interrupted |= pending_runs.waiting() > 0;
        self.found += pending_runs.found;
        self.points.extend(pending_runs.results());
    }
}

/// The plan of an experiment, its stopping rule and the reduction of samples. They are the same for every substrate.
struct PreparedPlan {
    plan: Plan,
    rule: StoppingRule,
    reduction: String,
}

impl PreparedPlan {
    fn new(experiment: &Experiment) -> Result<Self, RunnerError> {
        let design = &experiment.design;
        let rule = StoppingRule::new(&design.replications, design.confidence)?;
        Ok(Self { plan: experiment.plan(), rule, reduction: description(experiment) })
    }

    fn on<'a>(&'a self, substrate: &'a dyn Substrate, build: &'a str) -> SubstratePlan<'a> {
        let Self { plan, rule, reduction } = self;
        SubstratePlan { substrate, plan, rule, reduction, build, last: RefCell::default() }
    }
}

/// The reduction of a run's samples, as text. The text omits the interval method and the margins of agreement, because
/// these do not affect a run.
fn description(experiment: &Experiment) -> String {
    let responses: BTreeMap<&str, _> = experiment
        .design
        .responses
        .iter()
        .map(|(name, spec)| {
            let mut spec = spec.clone();
            spec.interval = IntervalMethod::Student;
            spec.agreement = None;
            (name.as_str(), spec)
        })
        .collect();
    let responses =
        serde_json::to_string(&responses).expect("a response that was read from text can be written as text");
    format!("{:?} {responses}", experiment.warm_up)
}

/// The store's keys for the runs of this call.
#[derive(Clone, Copy)]
struct StoreIds {
    experiment: ExperimentId,
    provenance: ProvenanceId,
}

/// The runs on one substrate.
struct SubstrateRuns<'a> {
    request: &'a PlanRequest<'a>,
    scope: &'a SubstratePlan<'a>,
    place: StoreIds,
    pending_runs: PendingRuns<'a>,
    store: &'a mut Store,
    progress: &'a mut dyn ProgressListener,
    tally: RunTally,
    /// The sum of the durations of all executed runs.
    busy: Duration,
    cancelled: u64,
    jobs: usize,
    start: Instant,
}

impl<'a> SubstrateRuns<'a> {
    fn new(
        request: &'a PlanRequest<'a>,
        scope: &'a SubstratePlan<'a>,
        place: StoreIds,
        store: &'a mut Store,
        progress: &'a mut dyn ProgressListener,
    ) -> Result<Self, RunnerError> {
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let jobs = request.jobs.unwrap_or_else(processors).min(scope.substrate.parallelism()).get();
        let start = Instant::now();
        let pending_runs = match request.chosen {
            Some(chosen) => PendingRuns::chosen(scope, chosen, store)?,
            None => PendingRuns::new(scope, request.earlier, Some(place.experiment), store)?,
        };
        Ok(Self {
            request,
            scope,
            place,
            pending_runs,
            store,
            progress,
            tally: RunTally::default(),
            busy: Duration::ZERO,
            cancelled: 0,
            jobs,
            start,
        })
    }

    fn run(&mut self) -> Result<(), RunnerError> {
        self.report(&RunEvent::Began { substrate: self.scope.substrate.name() }, 0);
        if self.pending_runs.waiting() == 0 {
            return Ok(());
        }
        let halt = AtomicBool::new(false);
        let context = WorkerContext {
            substrate: self.scope.substrate,
            experiment: self.request.experiment,
            traced: self.request.traced,
            halt: &halt,
        };
        std::thread::scope(|scope| {
            let mut workers = Workers::start(scope, context, self.jobs)?;
            let done = self.drive(&mut workers, &halt);
            // If the store failed, runs may still be in progress. Their results are no longer needed.
            halt.store(true, Ordering::Relaxed);
            done
        })
    }

    fn drive(&mut self, workers: &mut Workers, halt: &AtomicBool) -> Result<(), RunnerError> {
        loop {
            let cancelled = self.request.cancel.load(Ordering::Relaxed);
            if cancelled {
                halt.store(true, Ordering::Relaxed);
            }
            while !cancelled && workers.has_idle() {
                let Some(pending) = self.pending_runs.next(self.store)? else { break };
                let run = pending.run.clone();
                workers.give(pending);
                self.report(
                    &RunEvent::Started { point: &run.point, replication: run.replication },
                    workers.running(),
                );
            }
            if workers.running() == 0 {
                return Ok(());
            }
            match workers.take() {
                Some((pending, Some(executed))) => self.record(pending, executed, workers.running())?,
                Some((_, None)) => self.cancelled += 1,
                None => self.report(&RunEvent::Tick, workers.running()),
            }
        }
    }

    /// Records a run that has ended, and updates the pending runs.
    fn record(
        &mut self,
        pending: PendingRun,
        executed: ExecutedRun,
        running: usize,
    ) -> Result<(), RunnerError> {
        let PendingRun { identity, point: place, run: Run { point, replication, seed, scenario: _ } } =
            pending;
        let filed = Some(PlannedRun { point: place, replication });
        let ExecutedRun { end, responses, series, notes, took } = executed;
        let entry = RunEntry {
            experiment: self.place.experiment,
            point,
            replication,
            identity,
            substrate: self.scope.substrate.name().to_owned(),
            seed,
            end,
            responses,
            took: took.as_secs_f64(),
            provenance: self.place.provenance,
            series,
            notes,
        };
        let recorded = self.store.record(&entry)?;
        let stored = match recorded {
            RecordOutcome::Stored => None,
            // Another process recorded the run first. The valid result is the stored one.
            RecordOutcome::AlreadyThere => {
                self.pending_runs.step_aside();
                self.store.run(&entry.identity)?
            }
        };
        let (end, responses) = match &stored {
            Some(stored) => (&stored.end, &stored.responses),
            None => (&entry.end, &entry.responses),
        };
        self.pending_runs.ended(&entry.identity, end, responses, filed, self.store)?;
        self.tally.ran += 1;
        self.tally.failed += u64::from(matches!(end, RunEnd::Failed(_)));
        self.busy += took;
        let (point, why) = (&entry.point, end.why());
        self.report(&RunEvent::Ended { point, replication, took, why }, running);
        Ok(())
    }

    /// Adds the runs that the store already had to this experiment, as replications. This happens after the new runs
    /// are recorded. If the process is killed before that, the next start finds these runs again.
    fn file(&mut self) -> Result<(), RunnerError> {
        Ok(self.pending_runs.file(self.place.experiment, self.store)?)
    }

    fn report(&mut self, event: &RunEvent<'_>, running: usize) {
        self.tally.found = self.pending_runs.found;
        self.tally.running = running as u64;
        self.tally.waiting = self.pending_runs.waiting();
        self.tally.elapsed = self.start.elapsed();
        self.tally.left = time_left(&self.tally, self.busy, self.jobs);
        self.progress.event(event, &self.tally);
    }
}
