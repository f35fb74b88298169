//! What limited a transfer: the possible limits, the words about them, and the judgement of what the kernels of both
//! ends have counted.

mod ends;
mod factor;
mod words;

pub use ends::TransferEnds;
pub use factor::{LimitingFactor, MeasuredHost};

/// Delays of the path, s. Both are one-way delays, or both are round-trip times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathDelays {
    /// The delay under load.
    pub loaded_s: f64,
    /// The delay of the idle path.
    pub idle_s: f64,
}

impl PathDelays {
    /// Packets were queued if the delay exceeds the delay of the idle path by more than this, s, and by more than the
    /// share `QUEUED` of it.
    pub const QUEUED_S: f64 = 1e-3;
    const QUEUED: f64 = 0.1;

    /// The delays, if both are known.
    pub fn of(loaded_s: Option<f64>, idle_s: Option<f64>) -> Option<Self> {
        Some(Self { loaded_s: loaded_s?, idle_s: idle_s? })
    }

    /// Difference between the delay under load and the delay of the idle path, s.
    pub fn added_s(self) -> f64 {
        (self.loaded_s - self.idle_s).max(0.0)
    }

    /// Whether the path queued packets.
    pub fn is_queued(self) -> bool {
        self.added_s() > Self::QUEUED_S.max(Self::QUEUED * self.idle_s)
    }
}
