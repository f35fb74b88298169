//! Threads that execute runs. They do not use the store: one thread records all results.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use netrig_experiment::{Experiment, Substrate};

use crate::RunnerError;
use crate::execution::{ExecutedRun, execute};
use crate::pending_runs::PendingRun;

/// How long [`Workers::take`] waits for a result.
const TICK: Duration = Duration::from_millis(100);

/// A pool of worker threads, each of which executes at most one run at a time.
pub(crate) struct Workers {
    pending: Sender<PendingRun>,
    results: Receiver<WorkerResult>,
    running: usize,
    jobs: usize,
}

/// A run and its result. The result is `None` if the run was cancelled.
pub(crate) type WorkerResult = (PendingRun, Option<ExecutedRun>);

/// The state that the workers of a pool share.
#[derive(Clone, Copy)]
pub(crate) struct WorkerContext<'a> {
    pub(crate) substrate: &'a dyn Substrate,
    pub(crate) experiment: &'a Experiment,
    pub(crate) traced: bool,
    /// Another thread sets this flag to stop the runs in progress.
    pub(crate) halt: &'a AtomicBool,
}

impl Workers {
    /// Starts `jobs` workers. They end when the pool is dropped.
    pub(crate) fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        context: WorkerContext<'scope>,
        jobs: usize,
    ) -> Result<Self, RunnerError> {
        let (pending, queue) = channel();
        let (sender, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for worker in 1..=jobs {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            Builder::new()
                .name(format!("run-{worker}"))
                .spawn_scoped(scope, move || work(context, &queue, &sender))
                .map_err(RunnerError::Worker)?;
        }
        Ok(Self { pending, results, running: 0, jobs })
    }

    /// The number of runs in progress.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Whether a worker is idle.
    pub(crate) fn has_idle(&self) -> bool {
        self.running < self.jobs
    }

    /// Gives a run to an idle worker.
    pub(crate) fn give(&mut self, run: PendingRun) {
        // The channel stays open, because a panic of a run is caught and does not end its worker.
        if self.pending.send(run).is_ok() {
            self.running += 1;
        }
    }

    /// The next result. `None` if no run ends within [`TICK`].
    pub(crate) fn take(&mut self) -> Option<WorkerResult> {
        let result = self.results.recv_timeout(TICK).ok()?;
        self.running -= 1;
        Some(result)
    }
}

fn work(context: WorkerContext<'_>, queue: &Mutex<Receiver<PendingRun>>, sender: &Sender<WorkerResult>) {
    loop {
        // One worker has the lock and waits for the next run. The other workers wait for the lock.
        let pending = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(pending) = pending else { return };
        let executed =
            execute(context.substrate, context.experiment, &pending.run, context.traced, context.halt);
        if sender.send((pending, executed)).is_err() {
            return;
        }
    }
}
