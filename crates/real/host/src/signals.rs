//! What is told to a run while it lasts.

use std::sync::atomic::{AtomicBool, Ordering};

/// Signals to a run: its threads look at them at least every 50 ms.
#[derive(Debug, Default)]
pub struct RunSignals {
    ends: AtomicBool,
}

impl RunSignals {
    /// Ends the run before its time.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Forgets what was told to an earlier run.
    pub fn reset(&self) {
        self.ends.store(false, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}
