//! Signals that end a run.

use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends a run early. The threads of the run check it at least every 50 ms.
#[derive(Debug, Default)]
pub struct RunSignals {
    ends: AtomicBool,
}

impl RunSignals {
    /// Ends the run early.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Clears the flag of an earlier run.
    pub fn reset(&self) {
        self.ends.store(false, Ordering::Relaxed);
    }

    /// Whether the run must end.
    pub fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}
