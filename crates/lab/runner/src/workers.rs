//! Threads that carry runs out. They never see the store: what they bring back, one thread writes.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use netrig_experiment::{Experiment, Substrate};

use crate::RunnerError;
use crate::agenda::PendingRun;
use crate::execution::{ExecutedRun, execute};

/// How long [`Workers::take`] waits.
const TICK: Duration = Duration::from_millis(100);

/// A pool of workers, each with at most one run.
pub(crate) struct Workers {
    errands: Sender<PendingRun>,
    results: Receiver<WorkerResult>,
    running: usize,
    jobs: usize,
}

/// What a worker brings back: the errand, and what came of it unless it was cancelled.
pub(crate) type WorkerResult = (PendingRun, Option<ExecutedRun>);

/// What the workers of a pool share.
#[derive(Clone, Copy)]
pub(crate) struct WorkerContext<'a> {
    pub(crate) substrate: &'a dyn Substrate,
    pub(crate) experiment: &'a Experiment,
    pub(crate) traced: bool,
    /// Set when running runs are to stop.
    pub(crate) halt: &'a AtomicBool,
}

impl Workers {
    /// `jobs` workers. They end when the pool is dropped.
    pub(crate) fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        bench: WorkerContext<'scope>,
        jobs: usize,
    ) -> Result<Self, RunnerError> {
        let (errands, queue) = channel();
        let (bring, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for worker in 1..=jobs {
            let (queue, bring) = (Arc::clone(&queue), bring.clone());
            Builder::new()
                .name(format!("run-{worker}"))
                .spawn_scoped(scope, move || work(bench, &queue, &bring))
                .map_err(RunnerError::Worker)?;
        }
        Ok(Self { errands, results, running: 0, jobs })
    }

    /// How many runs go on.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Whether a worker has nothing to do.
    pub(crate) fn idle(&self) -> bool {
        self.running < self.jobs
    }

    /// Gives a worker something to do.
    pub(crate) fn give(&mut self, errand: PendingRun) {
        // Workers never hang up before we do: a run that panics is caught.
        if self.errands.send(errand).is_ok() {
            self.running += 1;
        }
    }

    /// What the next worker brings, or nothing if none does for a tenth of a second.
    pub(crate) fn take(&mut self) -> Option<WorkerResult> {
        let brought = self.results.recv_timeout(TICK).ok()?;
        self.running -= 1;
        Some(brought)
    }
}

fn work(bench: WorkerContext<'_>, queue: &Mutex<Receiver<PendingRun>>, bring: &Sender<WorkerResult>) {
    loop {
        // Whoever holds the lock waits for the next errand; the others wait for the lock.
        let errand = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(errand) = errand else { return };
        let executed = execute(bench.substrate, bench.experiment, &errand.run, bench.traced, bench.halt);
        if bring.send((errand, executed)).is_err() {
            return;
        }
    }
}
