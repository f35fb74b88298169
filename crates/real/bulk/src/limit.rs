//! Signs that an end limited a transfer, or that the path queued its packets.

use crate::EndReport;

/// A thread that runs or waits for a processor for this share of the time is saturated.
const BUSY: f64 = 0.85;

impl EndReport {
    /// Shares of the time in which the threads of this end ran and waited for a processor, 0 to 1.
    pub fn thread_shares(&self) -> [f64; 2] {
        // A thread runs slightly longer than its phase.
        let share = |nanos: u64| (nanos as f64 / self.threads_ns.max(1) as f64).min(1.0);
        [share(self.ran_ns), share(self.waited_ns)]
    }

    /// Whether the threads that carried data ran, or waited for a processor, nearly all the time.
    pub fn is_starved(&self) -> bool {
        self.thread_shares().iter().sum::<f64>() > BUSY
    }
}

/// Delays of the path, s. Both are one-way delays, or both are round-trip times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathDelays {
    /// The delay under load.
    pub loaded_s: f64,
    /// The delay of the idle path.
    pub idle_s: f64,
}

impl PathDelays {
    /// The delays, if both are known.
    pub fn of(loaded_s: Option<f64>, idle_s: Option<f64>) -> Option<Self> {
        Some(Self { loaded_s: loaded_s?, idle_s: idle_s? })
    }

    /// Delay above that of the idle path, s.
    pub fn added_s(self) -> f64 {
        (self.loaded_s - self.idle_s).max(0.0)
    }
}

/// How strong a sign must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitThresholds {
    /// Share of the time above which a window or a buffer that limited the sender was the limit.
    held_back: f64,
    /// Delay above that of the idle path from which packets were queued, s.
    pub queued_s: f64,
    /// The same as a share of the delay of the idle path.
    queued: f64,
    /// Whether the delay must exceed the sum of both, and not only each of them.
    is_sum: bool,
}

impl LimitThresholds {
    /// For a limit that is named as the result of a measurement.
    pub const CONCLUSIVE: Self = Self { held_back: 0.3, queued_s: 1e-3, queued: 0.1, is_sum: false };

    /// For any limit that may have affected a measurement of the path, which is then invalid. While a queue of the path is full, the
    /// buffers of the ends are full too. So a queue must be beyond doubt: longer than what a busy host adds.
    pub const POSSIBLE: Self = Self { held_back: 0.1, queued_s: 1e-3, queued: 0.25, is_sum: true };

    /// Whether a window or a buffer that limited the sender for this share of the time was the limit.
    pub fn is_held_back(self, share: f64) -> bool {
        share > self.held_back
    }

    /// Whether the path queued packets.
    pub fn is_queued(self, delays: PathDelays) -> bool {
        let [fixed, part] = [self.queued_s, self.queued * delays.idle_s];
        delays.added_s() > if self.is_sum { fixed + part } else { fixed.max(part) }
    }
}
