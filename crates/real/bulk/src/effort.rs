//! Processor time of the thread that carries a transfer.

use std::time::Duration as StdDuration;

use netrig_core::Duration;
use netrig_host::proc::ThreadTimes;
use rustix::time::{ClockId, clock_gettime};

/// How long a thread ran, and how long it was runnable without a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Time on a processor, including the kernel's work for the thread.
    pub ran: Duration,
    /// Time for which the thread was runnable without a processor (`run_delay`, Documentation/scheduler/sched-stats);
    /// zero if the kernel does not report it.
    pub waited: Duration,
}

impl Effort {
    /// The times of the calling thread since its start.
    pub fn of_this_thread() -> Self {
        let ran = clock_gettime(ClockId::ThreadCPUTime);
        let ran =
            StdDuration::try_from(ran).map_or(0, |ran| u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX));
        Self {
            ran: Duration::from_nanos(ran),
            waited: Duration::from_nanos(ThreadTimes::of_this_thread().waited),
        }
    }

    /// The difference to an `earlier` reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self { ran: self.ran - earlier.ran, waited: self.waited - earlier.waited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reckons_has_run() {
        let before = Effort::of_this_thread();
        let mut now = before;
        while now.since(&before).ran < Duration::from_millis(5) {
            now = Effort::of_this_thread();
        }
        assert!(now.waited >= before.waited);
    }
}
