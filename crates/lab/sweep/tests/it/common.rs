//! An experiment, a substrate that measures at once, and an engine whose faults a test chooses.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration as Span;

use netrig_core::quantity::RECEIVED_BYTES;
use netrig_core::{Duration, Sample, Seeds, Sink, Subject};
use netrig_experiment::{Balance, Experiment, Run, RunError, RunOutcome, Substrate, Unsupported};
use netrig_runner::{EarlierRuns, PlanOutcome, PlanRequest, carry_out};
use netrig_store::{Provenance, Store};
use netrig_sweep::engine::{Engine, EngineError, EngineTasks, ProgramError, TaskNeeds};
use netrig_sweep::{
    ChunkRequest, ChunkSize, DriveEvent, DriveListener, DriveOutcome, DriveRequest, SweepClock, SweepError,
    SweepFolder, SweepManifest, SweepProgress, drive, make_chunk,
};
use netrig_test_support::ExperimentText;

pub const BUILD: &str = "0.1.0+abc1234";

/// Four points. `replications` is the body of that table.
pub fn text(replications: &str) -> String {
    ExperimentText::two_hosts(r#"["1 Mbit/s", "2 Mbit/s", "3 Mbit/s", "4 Mbit/s"]"#, replications).build()
}

/// A substrate whose goodput follows from the seed and the point, plus `moved`.
pub struct Quick {
    pub moved: f64,
    /// Seeds of runs that fail.
    pub fails: fn(u64) -> bool,
}

impl Default for Quick {
    fn default() -> Self {
        Self { moved: 0.0, fails: |_| false }
    }
}

impl Substrate for Quick {
    fn name(&self) -> &'static str {
        "quick"
    }

    fn check(&self, _: &Run) -> Result<(), Unsupported> {
        Ok(())
    }

    fn identity(&self, _: &Run) -> Result<String, RunError> {
        Ok(String::new())
    }

    fn parallelism(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }

    fn run(&self, run: &Run, sink: &mut dyn Sink, _: &AtomicBool) -> Result<RunOutcome, RunError> {
        if (self.fails)(run.seed) {
            return Err(RunError::Failed("no memory".to_owned()));
        }
        let rate = run.point.level("rate").unwrap().to_string();
        let mut stream = Seeds::new(run.seed).stream(&rate);
        let value = (1000.0 + 100.0 * stream.normal(0.0, 1.0)).round() + self.moved;
        let at = netrig_core::Instant::ZERO + run.scenario.duration;
        let value = value * run.scenario.duration.as_secs_f64();
        sink.sample(Subject::Flow(0), Sample { at, quantity: &RECEIVED_BYTES, value });
        Ok(RunOutcome {
            balance: Balance { offered: 1, delivered: 1, ..Balance::default() },
            events: 1,
            lasted: None,
            lateness: Duration::ZERO,
            invalid: None,
            moved: None,
            remarks: Vec::new(),
            deterministic: false,
        })
    }
}

/// What becomes of an attempt at a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFate {
    /// Its shard is published.
    Done,
    /// It runs twice, and publishes two shards.
    Twice,
    /// Its node dies: nothing comes, and the engine forgets it.
    Lost,
    /// The engine says for ever that it runs.
    Held,
    /// It waits at the engine until the engine has not answered for a while, and is made then.
    Waits,
    /// It waits at the engine for two hours, and is made then.
    Queued,
    /// It waits at the engine, which does not list it, and is made after a quarter of a minute.
    Unlisted,
    /// It fails, and leaves a log.
    Fails,
    /// Half of the shard is there.
    Cut,
    /// Another build made the shard.
    OtherBuild,
    /// The shard is listed late.
    Late,
}

/// An engine in virtual time that makes chunks at once.
pub struct Scripted<'a> {
    pub substrate: &'a Quick,
    pub experiment: &'a Experiment,
    pub scratch: &'a Path,
    /// The fate of the attempts at a chunk, in their order; `Done` behind the last.
    pub fates: BTreeMap<u32, Vec<AttemptFate>>,
    /// How often the engine does not answer first.
    pub away: u32,
    /// The number of answers after which the engine is away for ever.
    pub answers: u32,
    /// The number of submissions that are taken first, and whose program does not end.
    pub hangs: u32,
    pub attempts: BTreeMap<u32, usize>,
    pub held: Vec<u32>,
    pub needs: Vec<TaskNeeds>,
    /// Memory of its machines, bytes: it refuses tasks that need more.
    pub memory: u64,
    pub waiting: Vec<u32>,
    /// The chunks that are not listed, each with the time at which it is made.
    pub unlisted: Vec<(Span, u32)>,
    /// The chunks that wait until a time.
    pub queued: Vec<(Span, u32)>,
    /// The most doublings of a task that its machines have room for: others are taken, and never start.
    pub most_doublings: u32,
    pub too_large: Vec<u32>,
    pub clock: Virtual,
    pub late: Vec<(PathBuf, PathBuf)>,
    pub calls: u32,
}

fn refusal(said: &str) -> EngineError {
    EngineError::Program(ProgramError::Failed { program: "submit".to_owned(), said: said.to_owned() })
}

impl Engine for Scripted<'_> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn program(&self) -> Option<&str> {
        None
    }

    fn is_local(&self) -> bool {
        false
    }

    fn submit(&mut self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Result<(), EngineError> {
        self.needs.push(*needs);
        if needs.memory() > self.memory {
            return Err(refusal("no machine has this memory"));
        }
        for chunk in chunks {
            let attempt = self.attempts.entry(*chunk).or_default();
            let fate = self
                .fates
                .get(chunk)
                .and_then(|fates| fates.get(*attempt))
                .copied()
                .unwrap_or(AttemptFate::Done);
            *attempt += 1;
            if needs.doublings > self.most_doublings {
                self.too_large.push(*chunk);
                continue;
            }
            let name = format!("host-{attempt}");
            self.make(sweep, *chunk, &name, fate);
        }
        if let Some(left) = self.hangs.checked_sub(1) {
            self.hangs = left;
            let (program, patience) = ("submit".to_owned(), Span::from_mins(1));
            return Err(EngineError::Program(ProgramError::Silent { program, patience }));
        }
        Ok(())
    }

    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
        self.calls += 1;
        let is_silent = !self.waiting.is_empty() && (3..20).contains(&self.calls);
        if self.calls <= self.away || self.calls > self.answers || is_silent {
            return Err(refusal("the controller is away"));
        }
        for (from, to) in self.late.drain(..) {
            std::fs::rename(from, to).unwrap();
        }
        let now = self.clock.now();
        for (_, chunk) in self.unlisted.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.make(sweep, chunk, &format!("host-unlisted-{}", now.as_millis()), AttemptFate::Done);
        }
        if self.calls >= 20 {
            for chunk in std::mem::take(&mut self.waiting) {
                self.make(sweep, chunk, "host-waited", AttemptFate::Done);
            }
        }
        for (_, chunk) in self.queued.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.make(sweep, chunk, "host-queued", AttemptFate::Done);
        }
        let queued: Vec<u32> = self.queued.iter().map(|(_, chunk)| *chunk).collect();
        let waiting = [&self.waiting[..], &queued].concat();
        let [running, waiting, too_large] =
            [&self.held, &waiting, &self.too_large].map(|list| list.iter().copied().collect());
        Ok(EngineTasks { running, waiting, too_large, ..EngineTasks::default() })
    }

    fn cancel(&mut self, _: &SweepFolder) -> Result<(), EngineError> {
        Ok(())
    }

    fn commands(&self, _: &SweepFolder, chunks: &[u32], _: &TaskNeeds) -> Vec<String> {
        vec![format!("{chunks:?}")]
    }
}

impl Scripted<'_> {
    fn make(&mut self, sweep: &SweepFolder, chunk: u32, attempt: &str, fate: AttemptFate) {
        let build = if fate == AttemptFate::OtherBuild { "0.1.0+other" } else { BUILD };
        match fate {
            AttemptFate::Lost => return,
            AttemptFate::Held => {
                self.held.push(chunk);
                return;
            }
            AttemptFate::Waits => {
                self.waiting.push(chunk);
                return;
            }
            AttemptFate::Queued => {
                self.queued.push((self.clock.now() + Span::from_hours(2), chunk));
                return;
            }
            AttemptFate::Unlisted => {
                self.unlisted.push((self.clock.now() + Span::from_secs(15), chunk));
                return;
            }
            AttemptFate::Fails => {
                sweep.add_failure(chunk, attempt, "node7: no space is left").unwrap();
                return;
            }
            _ => {}
        }
        let shard = self.publish(sweep, chunk, attempt, build);
        match fate {
            AttemptFate::Twice => drop(self.publish(sweep, chunk, &format!("{attempt}-again"), build)),
            AttemptFate::Cut => {
                let length = std::fs::metadata(&shard).unwrap().len();
                std::fs::File::options().write(true).open(&shard).unwrap().set_len(length / 2).unwrap();
            }
            AttemptFate::Late => {
                let hidden = self.scratch.join(format!("{chunk}.late"));
                std::fs::rename(&shard, &hidden).unwrap();
                self.late.push((hidden, shard));
            }
            _ => {}
        }
    }

    pub fn publish(&self, sweep: &SweepFolder, chunk: u32, attempt: &str, build: &str) -> PathBuf {
        let request = ChunkRequest {
            folder: sweep,
            chunk,
            attempt,
            experiment: self.experiment,
            substrate: self.substrate,
            provenance: &Provenance { build: build.to_owned(), ..Provenance::default() },
            jobs: NonZeroUsize::MIN,
            scratch: self.scratch,
            memory: || 40 << 20,
            cancel: &AtomicBool::new(false),
        };
        make_chunk(&request, &mut ()).unwrap().shard.unwrap()
    }
}

/// Virtual time.
#[derive(Clone, Default)]
pub struct Virtual(Rc<Cell<Span>>);

impl SweepClock for Virtual {
    fn now(&self) -> Span {
        self.0.get()
    }

    fn pause(&mut self, time: Span) {
        self.0.set(self.0.get() + time);
        assert!(self.0.get() < Span::from_hours(24), "the sweep does not end");
    }
}

/// Keeps events.
#[derive(Default)]
pub struct Events {
    pub all: Vec<DriveEvent>,
    pub last: SweepProgress,
}

impl DriveListener for Events {
    fn event(&mut self, event: &DriveEvent, progress: &SweepProgress) {
        self.last = *progress;
        if *event != DriveEvent::Tick {
            self.all.push(event.clone());
        }
    }
}

/// A sweep in a folder of its own.
pub struct SweepLab {
    pub place: tempfile::TempDir,
    pub experiment: Experiment,
    pub folder: SweepFolder,
    pub store: Store,
    pub clock: Virtual,
    pub attempts: u32,
}

impl SweepLab {
    pub fn new(replications: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let experiment = Experiment::parse("two-hosts.toml", text(replications)).unwrap();
        let folder = folder(&place.path().join("sweep"), &experiment);
        let store = Store::open(&place.path().join("netrig.db")).unwrap();
        Self { place, experiment, folder, store, clock: Virtual::default(), attempts: 3 }
    }

    pub fn engine<'a>(&'a self, substrate: &'a Quick, fates: &[(u32, &[AttemptFate])]) -> Scripted<'a> {
        Scripted {
            substrate,
            experiment: &self.experiment,
            scratch: self.place.path(),
            fates: fates.iter().map(|(chunk, fates)| (*chunk, fates.to_vec())).collect(),
            away: 0,
            answers: u32::MAX,
            hangs: 0,
            attempts: BTreeMap::new(),
            held: Vec::new(),
            needs: Vec::new(),
            memory: u64::MAX,
            waiting: Vec::new(),
            unlisted: Vec::new(),
            queued: Vec::new(),
            most_doublings: u32::MAX,
            too_large: Vec::new(),
            clock: self.clock.clone(),
            late: Vec::new(),
            calls: 0,
        }
    }

    /// Drives the sweep with chunks of two runs.
    pub fn drive(&self, engine: &mut Scripted<'_>, store: &mut Store, events: &mut Events) -> DriveOutcome {
        self.try_drive(engine, store, events).unwrap()
    }

    pub fn try_drive(
        &self,
        engine: &mut Scripted<'_>,
        store: &mut Store,
        events: &mut Events,
    ) -> Result<DriveOutcome, SweepError> {
        let request = DriveRequest {
            folder: &self.folder,
            experiment: &self.experiment,
            substrate: engine.substrate,
            work_s: &|_| 1.0,
            size: ChunkSize { work_s: Some(2.0), slots: None },
            memory: 1 << 20,
            attempts: self.attempts,
            cancel: &AtomicBool::new(false),
        };
        drive(&request, engine, store, &mut self.clock.clone(), events)
    }

    /// The experiment in one process, in another store.
    pub fn alone(&self, substrate: &Quick) -> PlanOutcome {
        let mut store = Store::open(&self.place.path().join("alone.db")).unwrap();
        carry(&self.experiment, substrate, &mut store)
    }

    /// What the sweep's store has. Nothing is run.
    pub fn outcome(&self, substrate: &Quick) -> PlanOutcome {
        let mut store = Store::open(self.store.path()).unwrap();
        let outcome = carry(&self.experiment, substrate, &mut store);
        assert_eq!(outcome.ran, 0, "the store lacks runs");
        outcome
    }
}

fn carry(experiment: &Experiment, substrate: &Quick, store: &mut Store) -> PlanOutcome {
    let request = PlanRequest {
        experiment,
        substrates: &[substrate],
        provenance: &Provenance { build: BUILD.to_owned(), ..Provenance::default() },
        jobs: NonZeroUsize::new(2),
        earlier: EarlierRuns::Stands,
        chosen: None,
        traced: false,
        cancel: &AtomicBool::new(false),
    };
    carry_out(&request, store, &mut ()).unwrap()
}

pub fn manifest(experiment: &Experiment) -> SweepManifest {
    SweepManifest {
        form: 0,
        sweep: String::new(),
        experiment: experiment.design.name.clone(),
        build: BUILD.to_owned(),
        substrate: "quick".to_owned(),
        set: Vec::new(),
        replications: None,
        seed: None,
        memory: 1 << 30,
        traced: false,
    }
}

pub fn folder(path: &Path, experiment: &Experiment) -> SweepFolder {
    let executable = |place: &Path| std::fs::write(place, "netrig");
    SweepFolder::create(path, manifest(experiment), experiment.text(), executable).unwrap()
}
