//! The router's thread.

use std::sync::Arc;
use std::thread::JoinHandle;

use netrig_core::Instant;
use netrig_experiment::RunError;
use netrig_host::Clock;

use super::forwarding::{Router, StopSignal};
use super::report::RouterReport;

/// The router on its own thread. The thread ends when this value is dropped.
pub(crate) struct RouterThread {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<Result<RouterReport, RunError>>>,
}

impl RouterThread {
    /// Starts the thread. The epoch of `clock` is the start of the run.
    pub fn start(router: Router, clock: Clock) -> Self {
        let stop = Arc::new(StopSignal::default());
        let heeded = Arc::clone(&stop);
        Self { thread: Some(std::thread::spawn(move || router.run(clock, &heeded))), stop }
    }

    /// Ends the thread. Counts after `end` are not reported.
    ///
    /// # Errors
    /// If the router has failed, or the packet counts do not balance.
    pub fn stop(mut self, end: Instant) -> Result<RouterReport, RunError> {
        self.end(end).unwrap_or_else(|| Err(RunError::Failed("the router's thread panicked".into())))
    }

    fn end(&mut self, end: Instant) -> Option<Result<RouterReport, RunError>> {
        self.stop.set(end);
        self.thread.take()?.join().ok()
    }
}

impl Drop for RouterThread {
    fn drop(&mut self) {
        // The error is ignored, because the owner drops this value only to report another error.
        let _ = self.end(Instant::ZERO);
    }
}
