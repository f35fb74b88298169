//! Before whom a thread runs.

use rustix::process::setpriority_process;
use serde::{Deserialize, Serialize};

use std::io;

use crate::sys;

/// A thread that is busy for more than this share of its time is no real-time thread: the kernel keeps some for others
/// (`sched_rt_runtime_us`), and takes it in one piece of 50 ms in each second.
const BUSIEST: f64 = 0.7;

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
    /// time: the real-time class if that leaves enough for others.
    pub fn take(busy: f64) -> Self {
        if busy <= BUSIEST && sys::become_real_time().is_ok() {
            Self::RealTime
        } else if setpriority_process(None, -20).is_ok() {
            Self::Nice
        } else {
            Self::None
        }
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
