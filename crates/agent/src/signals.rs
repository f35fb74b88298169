//! What is told to a run while it lasts.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Signals to a run: its threads look at them at least every 50 ms.
#[derive(Debug, Default)]
pub struct RunSignals {
    ends: AtomicBool,
    /// How many flows have been stopped, so that threads see without a lock that nothing is new.
    count: AtomicUsize,
    flows: Mutex<BTreeSet<u32>>,
}

impl RunSignals {
    /// Ends the run before its time.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// The flow begins nothing new any more; its connections are closed when what was given has been sent.
    pub fn stop_flow(&self, flow: u32) {
        let mut flows = self.flows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        flows.insert(flow);
        self.count.store(flows.len(), Ordering::Release);
    }

    /// Forgets what was told to an earlier run.
    pub(crate) fn reset(&self) {
        let mut flows = self.flows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        flows.clear();
        self.count.store(0, Ordering::Release);
        self.ends.store(false, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// The flows that were stopped, if there are more than `known` of them.
    pub(crate) fn stopped_flows(&self, known: &mut usize) -> Option<BTreeSet<u32>> {
        if self.count.load(Ordering::Acquire) == *known {
            return None;
        }
        let flows = self.flows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *known = flows.len();
        Some(flows.clone())
    }
}
