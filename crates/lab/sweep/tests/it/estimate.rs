//! The work of runs is estimated from trials at points that differ in all factors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use netrig_core::Sink;
use netrig_experiment::{Experiment, Run, RunError, RunOutcome, Substrate, Unsupported};
use netrig_store::Store;
use netrig_sweep::WorkEstimate;

use crate::it::common::{BUILD, Quick, text};

/// Keeps the points of its runs. Runs at 1 Mbit/s fail.
#[derive(Default)]
struct Recording {
    quick: Quick,
    points: Mutex<Vec<[String; 2]>>,
}

impl Substrate for Recording {
    fn name(&self) -> &'static str {
        self.quick.name()
    }

    fn check(&self, run: &Run) -> Result<(), Unsupported> {
        self.quick.check(run)
    }

    fn identity(&self, run: &Run) -> Result<String, RunError> {
        self.quick.identity(run)
    }

    fn parallelism(&self) -> NonZeroUsize {
        self.quick.parallelism()
    }

    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError> {
        let levels = ["rate", "delay"].map(|factor| run.point.level(factor).unwrap().to_string());
        let fails = levels[0] == "1 Mbit/s";
        self.points.lock().unwrap().push(levels);
        if fails { Err(RunError::Failed("no memory".to_owned())) } else { self.quick.run(run, sink, cancel) }
    }
}

#[test]
fn trials_differ_in_all_factors_and_a_failed_one_has_the_mean_of_the_others() {
    // 160 points, of which every tenth begins a group. 4 and 40 have common divisors with 10.
    let delays: Vec<String> = (1..=40).map(|delay| format!("\"{delay} ms\"")).collect();
    let text = text("min = 1\nmax = 1")
        .replace("[replications]", &format!("delay = [{}]\n[replications]", delays.join(", ")))
        .replace("delay = \"10 ms\"", "delay = \"${delay}\"");
    let experiment = Experiment::parse("two-hosts.toml", text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("netrig.db")).unwrap();
    let substrate = Recording::default();
    let never = AtomicBool::new(false);
    let work = WorkEstimate::of(&experiment, &substrate, BUILD, &store, &never).unwrap();
    let tried = std::mem::take(&mut *substrate.points.lock().unwrap());
    assert_eq!(tried.len(), 16);
    for (factor, fewest) in [(0, 4), (1, 10)] {
        let levels: std::collections::BTreeSet<&String> =
            tried.iter().map(|levels| &levels[factor]).collect();
        assert!(levels.len() >= fewest, "{levels:?}");
    }
    assert!(tried.iter().any(|levels| levels[0] == "1 Mbit/s"), "none has failed");
    assert!((0..160).all(|point| work.work_s(point) > 0.0));
    // Runs were tried already.
    work.try_longest(&experiment, &substrate, &never);
    assert!(substrate.points.lock().unwrap().is_empty());
}
