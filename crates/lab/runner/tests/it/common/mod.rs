//! A test experiment, and a substrate whose behaviour the test defines.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration as Span;

use netrig_core::quantity::RECEIVED_BYTES;
use netrig_core::{Duration, Instant, Note, Sample, Seeds, Sink, Subject};
use netrig_experiment::{Balance, Experiment, Run, RunError, RunOutcome, Substrate, Unsupported};
use netrig_runner::{EarlierRuns, PlanOutcome, PlanRequest, ProgressListener, RunnerError, carry_out};
use netrig_store::{Provenance, Replication, Store};
use netrig_test_support::ExperimentText;

/// The text of an experiment with three points. `replications` is the body of the table of the same name.
pub fn file(replications: &str) -> String {
    ExperimentText::two_hosts(r#"["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"]"#, replications).build()
}

pub fn experiment(text: &str) -> Experiment {
    Experiment::parse("two-hosts.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The behaviour of a run.
pub enum Act {
    /// The run measures this goodput, B/s.
    Measure(f64),
    /// The run is invalid because the tester was the limit.
    Invalid,
    /// The run returns an error.
    Fail,
    /// The run panics.
    Panic,
    /// The balance of the run lacks seven packets.
    Leak,
    /// The run continues until it is cancelled.
    Hang,
}

pub type Behaviour = Box<dyn Fn(&Run) -> Act + Send + Sync>;

/// A substrate with a defined behaviour that records which runs it started.
pub struct Fake {
    pub act: Behaviour,
    pub name: &'static str,
    pub parallelism: usize,
    /// The wall-clock duration of a run.
    pub takes: fn(&Run) -> Span,
    /// The level of `rate` that the substrate refuses.
    pub refuses: &'static str,
    /// Whether repeated runs are the same.
    pub repeats: bool,
    /// Rate and replication of each run, in the order of start.
    pub began: Mutex<Vec<(String, u32)>>,
    pub now: AtomicUsize,
    pub most_at_once: AtomicUsize,
}

impl Fake {
    pub fn new(act: impl Fn(&Run) -> Act + Send + Sync + 'static) -> Self {
        Self {
            act: Box::new(act),
            name: "fake",
            parallelism: 64,
            takes: |_| Span::ZERO,
            refuses: "",
            repeats: true,
            began: Mutex::new(Vec::new()),
            now: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        }
    }

    /// Goodput around 1000 B/s. It depends on the run's random stream and on the rate of the point.
    pub fn measuring() -> Self {
        Self::new(|run| Act::Measure(value(run)))
    }

    pub fn began(&self) -> Vec<(String, u32)> {
        self.began.lock().unwrap().clone()
    }
}

pub fn rate(run: &Run) -> String {
    run.point.level("rate").unwrap().to_string()
}

pub fn value(run: &Run) -> f64 {
    let mut stream = Seeds::new(run.seed).stream(&format!("fake/{}", rate(run)));
    // Integers, so that the conversion to bytes and seconds causes no rounding.
    (1000.0 + 100.0 * stream.normal(0.0, 1.0)).round()
}

/// Later replications are shorter, so that runs end in an order that differs from the order of start.
pub fn later_is_sooner(run: &Run) -> Span {
    Span::from_millis(u64::from(20_u32.saturating_sub(run.replication)) % 7)
}

impl Substrate for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self, run: &Run) -> Result<(), Unsupported> {
        if rate(run) == self.refuses { Err(Unsupported("it is too fast".to_owned())) } else { Ok(()) }
    }

    fn identity(&self, _: &Run) -> Result<String, RunError> {
        Ok("kernel 1".to_owned())
    }

    fn repeats(&self) -> bool {
        self.repeats
    }

    fn parallelism(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.parallelism).unwrap()
    }

    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
        self.began.lock().unwrap().push((rate(run), run.replication));
        let at_once = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        std::thread::sleep((self.takes)(run));
        self.now.fetch_sub(1, Ordering::SeqCst);
        let mut balance = Balance { offered: 100, delivered: 90, dropped: 10, ..Balance::default() };
        let mut invalid = None;
        match (self.act)(run) {
            Act::Measure(goodput) => {
                let value = goodput * run.scenario.duration.as_secs_f64();
                let at = Instant::ZERO + run.scenario.duration;
                sink.sample(Subject::Flow(0), Sample { at, quantity: &RECEIVED_BYTES, value });
                if sink.wants_notes() {
                    sink.note(Note { at, subject: Subject::Flow(0), text: "done".to_owned() });
                }
            }
            Act::Invalid => invalid = Some("the sender was late".to_owned()),
            Act::Fail => return Err(RunError::Failed("the guest did not answer".to_owned())),
            Act::Panic => panic!("index out of bounds"),
            Act::Leak => balance.delivered -= 7,
            Act::Hang => {
                while !cancel.load(Ordering::Relaxed) {
                    std::thread::sleep(Span::from_millis(1));
                }
                return Err(RunError::Cancelled);
            }
        }
        Ok(RunOutcome {
            balance,
            events: 1,
            lasted: None,
            lateness: Duration::ZERO,
            invalid,
            moved: None,
            remarks: Vec::new(),
            deterministic: false,
        })
    }
}

/// A folder with a store, and the options of its runs.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub cancel: AtomicBool,
    pub provenance: Provenance,
    pub jobs: usize,
    pub traced: bool,
}

impl Lab {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            cancel: AtomicBool::new(false),
            provenance: Provenance { build: "0.1.0+abc1234".to_owned(), ..Provenance::default() },
            jobs: 2,
            traced: false,
        }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("netrig.db")
    }

    pub fn store(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    pub fn run(&self, text: &str, substrate: &Fake) -> PlanOutcome {
        self.try_run(text, &[substrate], &mut ()).unwrap()
    }

    pub fn try_run(
        &self,
        text: &str,
        substrates: &[&dyn Substrate],
        progress: &mut dyn ProgressListener,
    ) -> Result<PlanOutcome, RunnerError> {
        let request = PlanRequest {
            experiment: &experiment(text),
            substrates,
            provenance: &self.provenance,
            jobs: NonZeroUsize::new(self.jobs),
            earlier: EarlierRuns::TriedAgain,
            chosen: None,
            traced: self.traced,
            cancel: &self.cancel,
        };
        carry_out(&request, &mut self.store(), progress)
    }
}

/// All replications of all experiments in the store.
pub fn stored(path: &Path) -> Vec<Replication> {
    let store = Store::open_read_only(path).unwrap();
    let experiments = store.experiments().unwrap();
    experiments.iter().flat_map(|e| store.replications(e.id).unwrap()).collect()
}
