//! The loop that hands runs out, and records what comes back.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netrig_experiment::{Experiment, IntervalMethod, Plan, PointRuns, Run, StoppingRule, Substrate};
use netrig_store::{
    ExperimentId, Provenance, ProvenanceId, RecordOutcome, RunEnd, RunEntry, Store, StoredRun,
};

use crate::agenda::{Agenda, Errand, Past, Scope};
use crate::execution::Executed;
use crate::progress::time_left;
use crate::workers::{Bench, Workers};
use crate::{Event, Progress, RunnerError, Tally};

/// What is to be carried out, and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The experiment, with the levels, the replications and the seed that are wanted.
    pub experiment: &'a Experiment,
    /// The text of its file, for the store.
    pub file: &'a str,
    /// Where to run it. One after the other: a substrate in real time shares the machine with nobody.
    pub substrates: &'a [&'a dyn Substrate],
    /// Where and with what; its build is a part of each run's identity.
    pub provenance: &'a Provenance,
    /// How many runs go on at the same time; as many as there are processors without it. Never more than
    /// the substrate says.
    pub jobs: Option<NonZeroUsize>,
    /// Whether to keep the time series and the time line of each run. A run that the store has without
    /// them is not made again.
    pub traced: bool,
    /// Set from outside, when it is time to stop.
    pub cancel: &'a AtomicBool,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Every point on every substrate: substrate by substrate, in the order of the plan.
    pub points: Vec<PointRuns>,
    /// Whether it was cancelled before everything was done. What was done is in the store and in `points`.
    pub interrupted: bool,
    /// Runs that the store had already.
    pub found: u64,
    /// Runs that were made, whatever came of them.
    pub ran: u64,
}

/// Runs what the store does not have yet, and returns all that the experiment asks for.
///
/// Each run is recorded by this thread as soon as it ends. If `request.cancel` is set, running runs are told to stop,
/// and those that ended are kept.
///
/// # Errors
/// If the store fails, the rule to stop by makes no sense, or there are no threads. Runs that fail, points
/// that a substrate cannot run, and being cancelled are no errors: [`Ended`] has them.
pub fn carry_out(
    request: &Request<'_>,
    store: &mut Store,
    progress: &mut dyn Progress,
) -> Result<Ended, RunnerError> {
    let wanted = Wanted::new(request.experiment)?;
    let place = Place {
        experiment: store.add_experiment(&request.experiment.design.name, request.file)?,
        provenance: store.add_provenance(request.provenance)?,
    };
    let mut ended = Ended::default();
    for substrate in request.substrates {
        let scope = wanted.on(*substrate, &request.provenance.build);
        let mut sweep = Sweep::new(request, &scope, place, store, progress)?;
        sweep.run()?;
        sweep.file()?;
        ended.interrupted |= sweep.lost > 0;
        ended.ran += sweep.tally.ran;
        ended.add(sweep.agenda);
    }
    Ok(ended)
}

/// What `store` has of all that the experiment asks for, made by this `build`: what [`carry_out`] said when it was made. Nothing is
/// run and nothing is written: `interrupted` says that some of it is not there.
///
/// # Errors
/// If the store cannot be read, or the rule to stop by makes no sense.
pub fn found(
    experiment: &Experiment,
    substrates: &[&dyn Substrate],
    build: &str,
    store: &Store,
) -> Result<Ended, RunnerError> {
    let wanted = Wanted::new(experiment)?;
    let mut ended = Ended::default();
    for substrate in substrates {
        let scope = wanted.on(*substrate, build);
        ended.add(Agenda::new(&scope, Past::Stands, store)?);
    }
    Ok(ended)
}

/// Of each point of the plan, in its order, the first run that counts, if `store` has it on this substrate and from this
/// `build`: it stands for the point where single runs are shown.
///
/// # Errors
/// If the store cannot be read, or the rule to stop by makes no sense.
pub fn first_that_count(
    experiment: &Experiment,
    substrate: &dyn Substrate,
    build: &str,
    store: &Store,
) -> Result<Vec<Option<(Run, StoredRun)>>, RunnerError> {
    let wanted = Wanted::new(experiment)?;
    let scope = wanted.on(substrate, build);
    (0..wanted.plan.len()).map(|place| Ok(scope.first_that_counts(place, store)?)).collect()
}

impl Ended {
    /// Adds what came out on one substrate.
    fn add(&mut self, agenda: Agenda<'_>) {
        self.interrupted |= agenda.waiting() > 0;
        self.found += agenda.found;
        self.points.extend(agenda.results());
    }
}

/// What an experiment asks for, whatever it runs on.
struct Wanted {
    plan: Plan,
    rule: StoppingRule,
    reduction: String,
}

impl Wanted {
    fn new(experiment: &Experiment) -> Result<Self, RunnerError> {
        let design = &experiment.design;
        let rule = StoppingRule::new(&design.replications, design.confidence)?;
        Ok(Self { plan: experiment.plan(), rule, reduction: description(experiment) })
    }

    fn on<'a>(&'a self, substrate: &'a dyn Substrate, build: &'a str) -> Scope<'a> {
        let Self { plan, rule, reduction } = self;
        Scope { substrate, plan, rule, reduction, build }
    }
}

/// What is made of a run's samples, as text. How intervals over runs are made, and how near substrates must be, plays no
/// part in a run.
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

/// Where the runs belong in the store.
#[derive(Clone, Copy)]
struct Place {
    experiment: ExperimentId,
    provenance: ProvenanceId,
}

/// The runs on one substrate.
struct Sweep<'a> {
    request: &'a Request<'a>,
    scope: &'a Scope<'a>,
    place: Place,
    agenda: Agenda<'a>,
    store: &'a mut Store,
    progress: &'a mut dyn Progress,
    tally: Tally,
    /// What all runs took together.
    busy: Duration,
    /// Runs that were cancelled.
    lost: u64,
    jobs: usize,
    start: Instant,
}

impl<'a> Sweep<'a> {
    fn new(
        request: &'a Request<'a>,
        scope: &'a Scope<'a>,
        place: Place,
        store: &'a mut Store,
        progress: &'a mut dyn Progress,
    ) -> Result<Self, RunnerError> {
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let jobs = request.jobs.unwrap_or_else(processors).min(scope.substrate.parallelism()).get();
        let start = Instant::now();
        let agenda = Agenda::new(scope, Past::TriedAgain, store)?;
        Ok(Self {
            request,
            scope,
            place,
            agenda,
            store,
            progress,
            tally: Tally::default(),
            busy: Duration::ZERO,
            lost: 0,
            jobs,
            start,
        })
    }

    fn run(&mut self) -> Result<(), RunnerError> {
        self.tell(&Event::Began { substrate: self.scope.substrate.name() }, 0);
        if self.agenda.waiting() == 0 {
            return Ok(());
        }
        let halt = AtomicBool::new(false);
        let bench = Bench {
            substrate: self.scope.substrate,
            experiment: self.request.experiment,
            traced: self.request.traced,
            halt: &halt,
        };
        std::thread::scope(|scope| {
            let mut workers = Workers::start(scope, bench, self.jobs)?;
            let done = self.drive(&mut workers, &halt);
            // If the store failed, runs may still go on, and nobody will take what they bring.
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
            while !cancelled && workers.idle() {
                let Some(errand) = self.agenda.next(self.store)? else { break };
                let run = errand.run.clone();
                workers.give(errand);
                self.tell(
                    &Event::Started { point: &run.point, replication: run.replication },
                    workers.running(),
                );
            }
            if workers.running() == 0 {
                return Ok(());
            }
            match workers.take() {
                Some((errand, Some(executed))) => self.record(errand, executed, workers.running())?,
                Some((_, None)) => self.lost += 1,
                None => self.tell(&Event::Tick, workers.running()),
            }
        }
    }

    /// Records a run that ended, and lets the agenda draw its conclusions.
    fn record(&mut self, errand: Errand, executed: Executed, running: usize) -> Result<(), RunnerError> {
        let Errand { identity, run: Run { point, replication, seed, scenario: _ } } = errand;
        let Executed { end, responses, series, notes, took } = executed;
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
            // Another process was faster. What the store has is what everybody sees.
            RecordOutcome::AlreadyThere => {
                self.agenda.step_aside();
                self.store.run(&entry.identity)?
            }
        };
        let (end, responses) = match &stored {
            Some(stored) => (&stored.end, &stored.responses),
            None => (&entry.end, &entry.responses),
        };
        self.agenda.ended(&entry.identity, end, responses, self.store)?;
        self.tally.ran += 1;
        self.tally.failed += u64::from(matches!(end, RunEnd::Failed(_)));
        self.busy += took;
        let (point, why) = (&entry.point, end.why());
        self.tell(&Event::Ended { point, replication, took, why }, running);
        Ok(())
    }

    /// Files runs that the store had under this experiment. Not before the runs are made: if we are killed
    /// in between, the next start finds them again.
    fn file(&mut self) -> Result<(), RunnerError> {
        Ok(self.agenda.file(self.place.experiment, self.store)?)
    }

    fn tell(&mut self, event: &Event<'_>, running: usize) {
        self.tally.found = self.agenda.found;
        self.tally.running = running as u64;
        self.tally.waiting = self.agenda.waiting();
        self.tally.elapsed = self.start.elapsed();
        self.tally.left = time_left(&self.tally, self.busy, self.jobs);
        self.progress.event(event, &self.tally);
    }
}
