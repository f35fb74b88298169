//! A load on a host's processors: a program that computes, and asks for a share of each of them.
//!
//! It runs as anybody's program does. What it asks for it gets as long as others leave it; where all together want more than
//! there is, the kernel shares out, and of two that want all each has half. What it was kept from it makes up for one period,
//! no more: it asks for a share of the time, not for an amount of work.

use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;

use netrig_core::Duration;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

use crate::monotonic_nanos;

/// Within such a time it has its share, as far as it can have it: short against what a transport waits for, of which the
/// shortest is a delayed acknowledgement of 40 ms (TCP_DELACK_MIN of Linux's `tcp.h`).
pub const LOAD_PERIOD: Duration = Duration::from_millis(10);

/// Computations between two looks at the clocks: some microseconds.
const STEPS: u32 = 4096;

/// What a load owes on one processor: its share of each period that has begun, less what it has done.
#[derive(Clone, Debug)]
struct LoadDemand {
    /// Of a period, ns.
    share: u64,
    done: u64,
    /// What it was kept from, and does not make up for.
    given_up: u64,
}

impl LoadDemand {
    fn new(share: f64) -> Self {
        let share = (share.clamp(0.0, 1.0) * LOAD_PERIOD.as_nanos() as f64) as u64;
        Self { share, done: 0, given_up: 0 }
    }

    /// What is owed in the period of this number, from 0: its share, and of what came before one period's at most, ns.
    fn owed(&mut self, period: u64) -> u64 {
        let due = self.share.saturating_mul(period + 1);
        let owed = due.saturating_sub(self.done + self.given_up);
        let most = 2 * self.share;
        self.given_up += owed.saturating_sub(most);
        owed.min(most)
    }
}

/// Puts a load of `share` (0 to 1) on each of `processors`, in a thread of its own each, until `until` returns.
///
/// # Errors
/// If a thread cannot be started, or bound to its processor.
pub fn load_processors(share: f64, processors: &[u32], until: impl FnOnce()) -> io::Result<()> {
    let (told, errors) = std::sync::mpsc::channel();
    for processor in processors.iter().copied() {
        let told = told.clone();
        std::thread::Builder::new().name(format!("load {processor}")).spawn(move || {
            // Nobody listens any more once all are bound.
            let bound = bind(processor);
            let fails = bound.is_err();
            let _ = told.send(bound);
            if !fails {
                go_on(share);
            }
        })?;
    }
    drop(told);
    errors.iter().take(processors.len()).collect::<io::Result<()>>()?;
    until();
    Ok(())
}

/// Binds the calling thread to a processor, and lets it wake in time.
fn bind(processor: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor as usize);
    sched_setaffinity(None, &set)?;
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Computes for its share of the time, as long as the process lives.
fn go_on(share: f64) {
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

/// Computes for so long on the processor, or until the moment `end`; for how long.
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

/// For how long this thread has run, ns.
fn ran() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // A thread's time is not below zero.
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

    /// What it did too much in one period it does less in the next: looking at the clock late adds nothing up.
    #[test]
    fn what_was_too_much_is_less_in_the_next() {
        let mut demand = LoadDemand::new(0.5);
        let done = demand.owed(0) + 7_000;
        demand.done += done;
        assert_eq!(demand.owed(1), PERIOD / 2 - 7_000);
    }

    /// A second in which others had the processor is not made up for but for one period.
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

    /// What the kernel counts of its threads is what was asked for, but for a period at each end, and what it waited for
    /// because others ran.
    #[test]
    fn the_kernel_counts_the_share_that_was_asked_for() {
        let share = 0.3;
        let own = rustix::thread::sched_getaffinity(None).unwrap();
        let processor = (0..CpuSet::MAX_CPU).find(|cpu| own.is_set(*cpu)).unwrap();
        let (told, thread) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            bind(processor as u32).unwrap();
            told.send(rustix::thread::gettid()).unwrap();
            go_on(share);
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
