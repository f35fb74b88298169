//! Scheduling priority of threads.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::setpriority_process;
use serde::{Deserialize, Serialize};

use crate::sys;

/// A thread that is busy for a larger share of its time does not become a real-time thread. The kernel throttles
/// real-time threads that use too much time: it stops them for 50 ms in each second (`sched_rt_runtime_us`).
const BUSIEST: f64 = 0.7;

/// Processor time reserved by all real-time threads of this process, thousandths of a processor.
static TAKEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The part of [`TAKEN`] that the current thread has reserved. It is returned when the thread ends.
    static SHARE: RealTimeShare = const { RealTimeShare(Cell::new(0)) };
}

/// A thread's reservation of real-time processor time, thousandths of a processor.
struct RealTimeShare(Cell<u32>);

impl RealTimeShare {
    /// Replaces the thread's reservation. Returns whether the new reservation fits into the limit for all processors.
    /// Without this limit, many threads with small reservations could together use all processor time.
    fn take(&self, busy: f64) -> bool {
        self.give_back();
        let wanted = (busy.max(0.0) * 1000.0).ceil() as u32;
        let processors = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
        let most = (BUSIEST * processors * 1000.0) as u32;
        let fits = |taken: u32| taken.checked_add(wanted).filter(|all| *all <= most);
        let is_taken = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if is_taken {
            self.0.set(wanted);
        }
        is_taken
    }

    fn give_back(&self) {
        TAKEN.fetch_sub(self.0.take(), Ordering::Relaxed);
    }
}

impl Drop for RealTimeShare {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Scheduling priority of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precedence {
    /// The normal priority.
    #[default]
    None,
    /// The highest priority of the normal class (a nice value of -20).
    Nice,
    /// The real-time class, which precedes all normal threads (`SCHED_FIFO`).
    RealTime,
}

impl Precedence {
    /// Gives the calling thread the highest priority that the process may set (CAP_SYS_NICE). `busy` is the share of
    /// time for which the thread will be busy. The thread gets the real-time class only if the real-time threads of the
    /// process together leave enough processor time for other threads.
    pub fn take(busy: f64) -> Self {
        let has_room = busy <= BUSIEST && SHARE.with(|share| share.take(busy));
        if has_room && sys::become_real_time().is_ok() {
            return Self::RealTime;
        }
        SHARE.with(RealTimeShare::give_back);
        // The thread may have been a real-time thread before.
        let is_ordinary = sys::leave_real_time().is_ok();
        if is_ordinary && setpriority_process(None, -20).is_ok() { Self::Nice } else { Self::None }
    }
}

/// Moves the calling thread to the real-time class (`SCHED_FIFO`, as [`Precedence::RealTime`]) and removes the timer
/// slack of its wake-ups. The thread must sleep when it waits for other threads: if it spins, it keeps the processor
/// from them.
///
/// # Errors
/// The error of the kernel: `EPERM` without CAP_SYS_NICE.
pub fn become_real_time() -> io::Result<()> {
    sys::become_real_time()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a thread of its own, so that the priority does not affect other tests.
    fn taken(busy: f64) -> (Precedence, String) {
        let thread = std::thread::spawn(move || {
            // The thread was less busy before.
            Precedence::take(0.0);
            let precedence = Precedence::take(busy);
            (precedence, std::fs::read_to_string("/proc/thread-self/stat").unwrap())
        });
        thread.join().unwrap()
    }

    /// Parses the scheduling policy (field 41) and the nice value (field 19) of a `stat` file (proc(5)). Field 2, the
    /// name, is in brackets and is skipped.
    fn policy_and_nice(stat: &str) -> [i64; 2] {
        let words: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        [41, 19].map(|number| words[number - 3].parse().unwrap())
    }

    /// Many threads that are each busy for a small share of time could together occupy all processors.
    #[test]
    fn all_real_time_threads_together_leave_something_for_others() {
        let take = |busy| SHARE.with(|share| share.take(busy));
        let (begun, done) = (std::sync::Barrier::new(200), std::sync::Barrier::new(200));
        std::thread::scope(|scope| {
            let one = || {
                let took = take(0.5);
                begun.wait();
                let all = TAKEN.load(Ordering::Relaxed);
                done.wait();
                (took, all)
            };
            let threads: Vec<_> = (0..200).map(|_| scope.spawn(one)).collect();
            let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(results.iter().any(|(took, _)| *took) && results.iter().any(|(took, _)| !took));
            assert!(results.iter().all(|(_, all)| *all <= 700 * processors), "{results:?}");
        });
        // Threads that ended have returned their reservations.
        assert!(std::thread::spawn(move || take(0.5)).join().unwrap());
    }

    #[test]
    fn the_kernel_says_the_same() {
        for busy in [0.1, 1.0] {
            let (precedence, stat) = taken(busy);
            let [policy, nice] = policy_and_nice(&stat);
            let expected = match (policy, nice) {
                (1, _) => Precedence::RealTime,
                (0, -20) => Precedence::Nice,
                _ => Precedence::None,
            };
            assert_eq!(precedence, expected, "{stat}");
            assert!(busy < BUSIEST || precedence != Precedence::RealTime);
        }
    }
}
