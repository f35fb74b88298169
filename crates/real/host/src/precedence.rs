//! Before whom a thread runs.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::setpriority_process;
use serde::{Deserialize, Serialize};

use crate::sys;

/// A thread that is busy for more than this share of its time is no real-time thread: the kernel keeps some for others
/// (`sched_rt_runtime_us`), and takes it in one piece of 50 ms in each second.
const BUSIEST: f64 = 0.7;

/// What the real-time threads of this process are busy for, all together, thousandths of a processor.
static TAKEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// What of that is the thread's own, until it ends.
    static SHARE: RealTimeShare = const { RealTimeShare(Cell::new(0)) };
}

/// A thread's share of what real-time threads may take.
struct RealTimeShare(Cell<u32>);

impl RealTimeShare {
    /// Takes so much of a processor, in the place of what it had; whether that leaves enough of all of them for others: many
    /// threads that are busy for a little each would take everything together.
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

/// Before whom a thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precedence {
    /// As anybody's.
    #[default]
    None,
    /// Before others of the usual class (a nice value of -20).
    Nice,
    /// Before all of the usual class (`SCHED_FIFO`).
    RealTime,
}

impl Precedence {
    /// Takes what the process may have (CAP_SYS_NICE) for the calling thread, which will be busy for such a share of its
    /// time: the real-time class if that leaves enough for others, beside all of this process that have it.
    pub fn take(busy: f64) -> Self {
        let has_room = busy <= BUSIEST && SHARE.with(|share| share.take(busy));
        if has_room && sys::become_real_time().is_ok() {
            return Self::RealTime;
        }
        SHARE.with(RealTimeShare::give_back);
        // It may have been less busy before.
        let is_ordinary = sys::leave_real_time().is_ok();
        if is_ordinary && setpriority_process(None, -20).is_ok() { Self::Nice } else { Self::None }
    }
}

/// Lets the calling thread run before all that have no real-time class (`SCHED_FIFO`, as [`Precedence::RealTime`]), and wake
/// at its time. It must sleep whenever it waits for others: who spins in this class takes the processor from those that it
/// waits for.
///
/// # Errors
/// What the kernel answers: `EPERM` without CAP_SYS_NICE.
pub fn become_real_time() -> io::Result<()> {
    sys::become_real_time()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, so that no other test runs before others.
    fn taken(busy: f64) -> (Precedence, String) {
        let thread = std::thread::spawn(move || {
            // It had little to do before.
            Precedence::take(0.0);
            let precedence = Precedence::take(busy);
            (precedence, std::fs::read_to_string("/proc/thread-self/stat").unwrap())
        });
        thread.join().unwrap()
    }

    /// proc(5): the policy is number 41, the nice value number 19; the second, the name, is in brackets.
    fn policy_and_nice(stat: &str) -> [i64; 2] {
        let words: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        [41, 19].map(|number| words[number - 3].parse().unwrap())
    }

    /// A thread of each of many clients, busy for a little each, would keep all others from their processors.
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
            let told: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(told.iter().any(|(took, _)| *took) && told.iter().any(|(took, _)| !took));
            assert!(told.iter().all(|(_, all)| *all <= 700 * processors), "{told:?}");
        });
        // What those had that have ended is free again.
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
