//! How long each delay may be, and how many may fail.

use netrig_core::Duration;

use super::{Delay, Histogram, Tally};
use crate::record::What;

/// What of a delay is held against its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DelayStatistic {
    /// The mean.
    #[default]
    Mean,
    /// The 95th percentile: ITU-T E.721 binds 95 % of the users.
    P95,
    /// The longest: each delay.
    Each,
}

impl DelayStatistic {
    /// As it stands in a table: `mean`, `p95`, `max`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P95 => "p95",
            Self::Each => "max",
        }
    }

    /// Of these spans; `None` of none.
    pub fn of(self, spans: &Histogram) -> Option<Duration> {
        match self {
            Self::Mean => spans.mean(),
            Self::P95 => spans.quantile(0.95),
            Self::Each => spans.max(),
        }
    }
}

/// The most that a delay may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Which.
    pub delay: Delay,
    /// At most so long.
    pub most: Duration,
}

/// What a server has to keep to.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// The delays that are bound.
    pub bounds: Vec<Bound>,
    /// What of each.
    pub statistic: DelayStatistic,
    /// The least share that must succeed, 0 to 1.
    pub success: f64,
}

impl Default for Thresholds {
    /// Of a server for local calls: connection 1.5 s, registration 1 s, answer signal, disconnect and redirect 500 ms, so
    /// that nothing has to be sent again (T1); in the mean, and 99.9 % of all.
    fn default() -> Self {
        let bound = |delay, ms| Bound { delay, most: Duration::from_millis(ms) };
        Self {
            bounds: vec![
                bound(Delay::Registration, 1000),
                bound(Delay::Connection, 1500),
                bound(Delay::AnswerSignal, 500),
                bound(Delay::Disconnect, 500),
                bound(Delay::Redirect, 500),
            ],
            statistic: DelayStatistic::Mean,
            success: 0.999,
        }
    }
}

/// Whether a threshold was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThresholdVerdict {
    /// Of a delay: what it was, and the most that it may be.
    Delay {
        /// Which.
        delay: Delay,
        /// As the statistic says.
        was: Duration,
        /// At most so long.
        most: Duration,
    },
    /// Of the share that succeeded: what it was, and the least that it must be.
    Success {
        /// Of what.
        what: What,
        /// 0 to 1.
        was: f64,
        /// At least so much.
        least: f64,
    },
}

impl ThresholdVerdict {
    /// Whether it was kept.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Delay { was, most, .. } => was <= most,
            Self::Success { was, least, .. } => was >= least,
        }
    }
}

impl Thresholds {
    /// What a tally says to each threshold; of what has not happened nothing is said.
    pub fn judge(&self, tally: &Tally) -> Vec<ThresholdVerdict> {
        let delays = self.bounds.iter().filter_map(|Bound { delay, most }| {
            let was = self.statistic.of(tally.delay(*delay))?;
            Some(ThresholdVerdict::Delay { delay: *delay, was, most: *most })
        });
        let successes = What::ALL.iter().filter_map(|what| {
            let was = tally.outcomes(*what).success()?;
            Some(ThresholdVerdict::Success { what: *what, was, least: self.success })
        });
        successes.chain(delays).collect()
    }
}
