//! Signals to a run.

use std::sync::atomic::{AtomicBool, Ordering};

/// Signals to a run. Its threads check them at least every 50 ms.
#[derive(Debug, Default)]
pub struct RunSignals {
    ends: AtomicBool,
}

impl RunSignals {
    /// Ends the run early.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Clears the signals of an earlier run.
    pub fn reset(&self) {
        self.ends.store(false, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}
