//! Stalls of the whole machine, detected by the late wake-ups of a thread that only sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use netrig_core::{Duration, counts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interruptions::InterruptionCounts;
use crate::usage::ProcessorGroups;
use crate::{Precedence, StoppableThread, monotonic_nanos};

/// How long the thread sleeps each time.
const SLEEP: Duration = Duration::from_millis(5);

/// Even a busy machine wakes a sleeping thread within milliseconds. If the wake-up is later than this, the whole
/// machine was stalled.
const STALL: Duration = Duration::from_millis(50);

/// Number of sleeps after which the thread reads again how long its own control group has been throttled.
const SLEEPS: u32 = 20;

counts! {
    /// Stalls of the whole machine, detected by the late wake-ups of a thread that only sleeps.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename = "StallsSeen")]
    pub struct MachineStalls {
        /// The number of stalls.
        pub count: u64,
        /// The longest, s.
        pub longest_s: f64 as max,
        /// The sum of all, s.
        pub total_s: f64,
        /// The share of all processors' time that the hypervisor gave to other guests, 0 to 1.
        pub steal: f64 as max,
    }
}

/// A thread that sleeps in short steps and records how late it wakes up. It ends when this value is dropped.
#[derive(Debug)]
pub struct StallWatch {
    seen: Arc<Mutex<MachineStalls>>,
    _thread: StoppableThread<()>,
    counts: InterruptionCounts,
}

impl StallWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let seen = Arc::new(Mutex::new(MachineStalls::default()));
        let own = Arc::clone(&seen);
        let thread = StoppableThread::start("stalls", move |stop| watch(&own, stop))?;
        Ok(Self { seen, _thread: thread, counts: InterruptionCounts::read() })
    }

    /// The stalls since the last call.
    pub fn take(&mut self) -> MachineStalls {
        let now = InterruptionCounts::read();
        let steal = now.since(&self.counts, Precedence::None, false).steal;
        self.counts = now;
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        MachineStalls { steal, ..std::mem::take(&mut *seen) }
    }
}

fn watch(seen: &Mutex<MachineStalls>, is_over: &AtomicBool) {
    let groups = ProcessorGroups::of(std::process::id().cast_signed());
    let (mut throttled, mut sleeps) = (groups.throttled(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let before = monotonic_nanos();
        std::thread::sleep(SLEEP.into());
        let late = Duration::from_nanos(monotonic_nanos() - before).saturating_sub(SLEEP);
        sleeps += 1;
        if late < STALL && sleeps < SLEEPS {
            continue;
        }
        let now = groups.throttled();
        let own = Duration::from_nanos(now.saturating_sub(throttled));
        (throttled, sleeps) = (now, 0);
        // If the thread was late because its own control group was throttled, other threads of this machine may have
        // run.
        if late >= STALL && own * 2 < late {
            seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).record(late);
        }
    }
}

impl MachineStalls {
    fn record(&mut self, late: Duration) {
        self.count += 1;
        self.longest_s = self.longest_s.max(late.as_secs_f64());
        self.total_s += late.as_secs_f64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_counted_and_summed() {
        let mut stalls = MachineStalls::default();
        [60, 300].into_iter().for_each(|ms| stalls.record(Duration::from_millis(ms)));
        assert_eq!((stalls.count, stalls.longest_s, stalls.total_s), (2, 0.3, 0.36));
    }

    #[test]
    fn stalls_are_taken_once() {
        let mut watch = StallWatch::start().unwrap();
        watch.take();
        watch.seen.lock().unwrap().record(Duration::from_millis(70));
        let seen = watch.take();
        assert!(seen.count >= 1 && seen.longest_s >= 0.07, "{seen:?}");
        assert!((0.0..=1.0).contains(&seen.steal), "{seen:?}");
        assert!(watch.take().longest_s != 0.07);
    }
}
