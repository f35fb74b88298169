//! The router's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use netrig_agent::Clock;
use netrig_experiment::RunError;

use super::{Report, Router};

/// The router at work on a thread of its own, which ends with this value.
pub(crate) struct Routing {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Report, RunError>>>,
}

impl Routing {
    /// Starts it; the epoch of `clock` is the start of the run.
    pub fn start(router: Router, clock: Clock) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let heeded = Arc::clone(&stop);
        Self { thread: Some(std::thread::spawn(move || router.run(clock, &heeded))), stop }
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it failed before, or packets do not balance.
    pub fn stop(mut self) -> Result<Report, RunError> {
        self.end().unwrap_or_else(|| Err(RunError::Failed("the router gave up".into())))
    }

    fn end(&mut self) -> Option<Result<Report, RunError>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        // Who drops it has another error to tell.
        let _ = self.end();
    }
}
