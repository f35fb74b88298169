//! A load on a host's processors: threads that compute for a share of the time of each processor.
//!
//! The load has normal priority. If all programs together need more time than a processor has, the kernel divides the
//! time: of two programs that always compute, each gets half. The load stands for a share of time, not for an amount of
//! work, so after a delay it catches up on at most one period.

use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;

use netrig_core::Duration;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use crate::monotonic_nanos;

/// Period in which the load uses its share once. It is short compared with the timers of transport protocols, of which
/// the shortest is the delayed acknowledgement of 40 ms (TCP_DELACK_MIN of Linux's `tcp.h`).
pub const LOAD_PERIOD: Duration = Duration::from_millis(10);

/// Number of computations between two readings of the clocks. They take some microseconds.
const STEPS: u32 = 4096;

/// Outstanding load of one processor: the sum of the shares of all started periods minus the time already computed.
#[derive(Clone, Debug)]
struct LoadDemand {
    /// Time to compute in each period, ns.
    share: u64,
    done: u64,
    /// Missed time that will not be caught up on, ns.
    given_up: u64,
}

impl LoadDemand {
    fn new(share: f64) -> Self {
        let share = (share.clamp(0.0, 1.0) * LOAD_PERIOD.as_nanos() as f64) as u64;
        Self { share, done: 0, given_up: 0 }
    }

    /// Time to compute in the period with this number (from 0), ns: its own share, and at most one share missed in
    /// earlier periods.
    fn owed(&mut self, period: u64) -> u64 {
        let due = self.share.saturating_mul(period + 1);
        let owed = due.saturating_sub(self.done + self.given_up);
        let most = 2 * self.share;
        self.given_up += owed.saturating_sub(most);
        owed.min(most)
    }
}

/// Puts a load of `share` (0 to 1) on each of `processors` and calls `until`. Each processor has its own thread, which
/// continues until the process ends.
///
/// # Errors
/// If a thread cannot be started, or bound to its processor.
pub fn load_processors(share: f64, processors: &[u32], until: impl FnOnce()) -> io::Result<()> {
    let (results, errors) = std::sync::mpsc::channel();
    for processor in processors.iter().copied() {
        let results = results.clone();
        std::thread::Builder::new().name(format!("load {processor}")).spawn(move || {
            // The receiver is gone once all threads are bound.
            let bound = bind(processor);
            let fails = bound.is_err();
            let _ = results.send(bound);
            if !fails {
                compute_share(share);
            }
        })?;
    }
    drop(results);
    errors.iter().take(processors.len()).collect::<io::Result<()>>()?;
    until();
    Ok(())
}

/// Binds the calling thread to a processor and sets its timer slack to 1 ns.
fn bind(processor: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor as usize);
    sched_setaffinity(None, &set)?;
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Computes for `share` of the time until the process ends.
fn compute_share(share: f64) {
    let (mut demand, origin, period) = (LoadDemand::new(share), monotonic_nanos(), LOAD_PERIOD.as_nanos());
    loop {
        let passed = monotonic_nanos().saturating_sub(origin);
        let (number, end) = (passed / period, (passed / period + 1) * period);
        match demand.owed(number) {
            0 => std::thread::sleep(std::time::Duration::from_nanos(end - passed)),
            owed => demand.done += compute(owed, origin + end),
        }
    }
}

/// Computes until the thread has run for `span` ns or `end` is reached, ns. Returns the time that it ran, ns.
fn compute(span: u64, end: u64) -> u64 {
    let begun = ran();
    let mut value = begun;
    loop {
        for _ in 0..STEPS {
            value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
        }
        let done = ran() - begun;
        if done >= span || monotonic_nanos() >= end {
            return done;
        }
    }
}

/// Processor time of this thread, ns.
fn ran() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The processor time of a thread is never negative.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = LOAD_PERIOD.as_nanos();

    #[test]
    fn it_owes_its_share_of_each_period_once() {
        let mut demand = LoadDemand::new(0.3);
        let share = PERIOD * 3 / 10;
        for period in 0..100 {
            assert_eq!(demand.owed(period), share);
            demand.done += share;
            assert_eq!(demand.owed(period), 0, "it has done it");
        }
    }

    /// Excess time in one period is subtracted in the next, so late readings of the clock do not add up.
    #[test]
    fn what_was_too_much_is_less_in_the_next() {
        let mut demand = LoadDemand::new(0.5);
        let done = demand.owed(0) + 7_000;
        demand.done += done;
        assert_eq!(demand.owed(1), PERIOD / 2 - 7_000);
    }

    /// After one second without the processor, the load catches up on only one period.
    #[test]
    fn what_it_was_kept_from_is_made_up_for_one_period() {
        let mut demand = LoadDemand::new(0.4);
        assert_eq!(demand.owed(100), PERIOD * 8 / 10);
        demand.done += PERIOD * 8 / 10;
        assert_eq!(demand.owed(100), 0);
        assert_eq!(demand.owed(101), PERIOD * 4 / 10);
    }

    #[test]
    fn one_that_wants_all_never_has_enough() {
        let mut demand = LoadDemand::new(1.0);
        for period in 0..10 {
            assert!(demand.owed(period) > 0);
            demand.done += PERIOD - 1;
        }
        assert_eq!(LoadDemand::new(0.0).owed(5), 0);
    }

    /// The thread's processor time, as counted by the kernel, is the requested share. The tolerance is one period at
    /// each end and the time for which the thread waited for the processor.
    #[test]
    fn the_kernel_counts_the_share_that_was_asked_for() {
        let share = 0.3;
        let own = rustix::thread::sched_getaffinity(None).unwrap();
        let processor = (0..CpuSet::MAX_CPU).find(|cpu| own.is_set(*cpu)).unwrap();
        let (results, thread) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            bind(processor as u32).unwrap();
            results.send(rustix::thread::gettid()).unwrap();
            compute_share(share);
        });
        let thread = thread.recv().unwrap();
        let counted = || {
            let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
            let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().unwrap());
            (numbers.next().unwrap(), numbers.next().unwrap(), monotonic_nanos())
        };
        let before = counted();
        std::thread::sleep(std::time::Duration::from_secs(1));
        let after = counted();
        let [ran, waited, passed] =
            [after.0 - before.0, after.1 - before.1, after.2 - before.2].map(|ns| ns as f64);
        let (asked, band) = (share * passed, 2.0 * share * PERIOD as f64 + 1e6);
        assert!(ran <= asked + band, "{ran} of {asked}");
        assert!(ran >= asked - band - waited, "{ran} of {asked}, {waited} waited");
    }
}
