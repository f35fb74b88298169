//! Decides whether an end limited a transfer, and whether the path queued packets.

mod factor;
mod words;

use crate::EndReport;
pub use factor::{LimitingFactor, MeasuredHost};

/// A thread that runs or waits for a processor for more than this share of the time is saturated.
const BUSY: f64 = 0.85;

impl EndReport {
    /// Shares of time (0 to 1) for which the threads of this end ran, and for which they waited for a processor.
    pub fn thread_shares(&self) -> [f64; 2] {
        // A thread may run slightly longer than its measured lifetime.
        let share = |nanos: u64| (nanos as f64 / self.threads_ns.max(1) as f64).min(1.0);
        [share(self.ran_ns), share(self.waited_ns)]
    }

    /// Whether the threads that carried data ran or waited for a processor nearly all the time.
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

    /// Difference between the delay under load and the delay of the idle path, s.
    pub fn added_s(self) -> f64 {
        (self.loaded_s - self.idle_s).max(0.0)
    }
}

/// Thresholds above which a measured value counts as a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitThresholds {
    /// A window or a buffer was the limit if it stopped the sender for more than this share of the time.
    held_back: f64,
    /// Packets were queued if the delay exceeds the delay of the idle path by more than this, s.
    pub queued_s: f64,
    /// Packets were queued if the delay exceeds the delay of the idle path by more than this share of the idle delay.
    queued: f64,
    /// Whether the increase of the delay must exceed the sum of both thresholds. If not, it must exceed the larger one.
    is_sum: bool,
}

impl LimitThresholds {
    /// Thresholds for a limit that is reported as the result of a measurement.
    pub const CONCLUSIVE: Self = Self { held_back: 0.3, queued_s: 1e-3, queued: 0.1, is_sum: false };

    /// Thresholds for a limit that may have affected a measurement of the path, which makes the measurement invalid.
    /// While a queue of the path is full, buffers of the ends are full too. The queueing delay must therefore clearly
    /// exceed the delay that a busy host adds.
    pub const POSSIBLE: Self = Self { held_back: 0.1, queued_s: 1e-3, queued: 0.25, is_sum: true };

    /// Whether a window or a buffer was the limit if it stopped the sender for this share of the time.
    pub fn is_held_back(self, share: f64) -> bool {
        share > self.held_back
    }

    /// Whether the path queued packets.
    pub fn is_queued(self, delays: PathDelays) -> bool {
        let [fixed, part] = [self.queued_s, self.queued * delays.idle_s];
        delays.added_s() > if self.is_sum { fixed + part } else { fixed.max(part) }
    }
}
