//! Bounds for delays and for the share of failures.

use netrig_core::{Duration, Histogram, choices};

use super::{Delay, Tally};
use crate::record::What;

choices! {
    /// The statistic of a delay that is compared with its bound.
    #[derive(Default)]
    pub enum DelayStatistic {
        /// The mean.
        [default]
        Mean = "mean",
        /// The 95th percentile: ITU-T E.721 sets limits for 95 % of the users.
        P95 = "p95",
        /// The maximum: each delay is within the limit.
        Max = "max" | "each",
    }
}

impl DelayStatistic {
    /// The statistic in a sentence: "the mean", "each".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Mean => "the mean",
            Self::P95 => "the 95th percentile",
            Self::Max => "each",
        }
    }

    /// The statistic of these spans. `None` without spans.
    pub fn of(self, spans: &Histogram) -> Option<Duration> {
        match self {
            Self::Mean => spans.mean(),
            Self::P95 => spans.quantile(0.95),
            Self::Max => spans.max(),
        }
    }
}

/// Upper bound of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The delay.
    pub delay: Delay,
    /// The bound.
    pub most: Duration,
}

/// The thresholds that a server must keep.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// Bounds of delays.
    pub bounds: Vec<Bound>,
    /// The statistic that is compared with each bound.
    pub statistic: DelayStatistic,
    /// The least share of successes, 0 to 1.
    pub success: f64,
}

impl Default for Thresholds {
    /// For a server of local calls: means of at most 1.5 s for connection, 1 s for registration, and 500 ms (T1, so
    /// that nothing is retransmitted) for answer signal, disconnect and redirect; 99.9 % successes.
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

/// The result for one threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThresholdVerdict {
    /// A delay and its bound.
    Delay {
        /// The delay.
        delay: Delay,
        /// The measured statistic.
        was: Duration,
        /// The bound.
        most: Duration,
    },
    /// A share of successes and its bound.
    Success {
        /// The kind of attempt.
        what: What,
        /// The measured share, 0 to 1.
        was: f64,
        /// The least share, 0 to 1.
        least: f64,
    },
}

impl ThresholdVerdict {
    /// Whether the threshold was kept.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Delay { was, most, .. } => was <= most,
            Self::Success { was, least, .. } => was >= least,
        }
    }
}

impl Thresholds {
    /// The results of a tally for all thresholds. A threshold has no result if its kind of attempt or its delay did not
    /// occur.
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
