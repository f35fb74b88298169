//! Confidence intervals: of a mean, of a proportion, of a ratio, and of any statistic by the bootstrap.

mod bootstrap;
mod equal_values;
mod mean;
mod proportion;
mod ratio;

pub use bootstrap::Bootstrap;
pub use equal_values::EqualValues;
pub(crate) use mean::critical_t;
pub use mean::{skew_adjusted, student, student_of};
pub use proportion::{most_unseen, wilson};
pub use ratio::paired_ratio;

/// The method of an interval, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EstimationMethod {
    /// Student's t for the mean of independent, nearly normal values.
    Student,
    /// Student's t, each side widened for the sample's skewness (Willink 2005).
    SkewAdjusted,
    /// Student's t for the difference of two means with unequal variances (Welch 1947).
    Welch,
    /// Student's t over the means of batches of one long run.
    BatchMeans,
    /// Student's t for a coefficient of a least-squares line.
    Regression,
    /// The slopes between two ranks of Kendall's distribution (Sen 1968).
    MedianSlope,
    /// Fieller's (1954) theorem for a ratio of means.
    Fieller,
    /// Wilson's (1927) score interval for a proportion.
    Wilson,
    /// Newcombe's (1998) interval for the difference of two proportions, from Wilson's intervals.
    Newcombe,
    /// Two order statistics, chosen by the binomial distribution.
    OrderStatistics,
    /// The means that a sample of equal values allows within the range of the response ([`EqualValues`]).
    EqualValues,
    /// Percentiles of the bootstrap distribution (Efron 1979).
    BootstrapPercentile,
    /// Bias-corrected and accelerated bootstrap (Efron 1987).
    BootstrapBca,
}

impl EstimationMethod {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Student => "Student t",
            Self::SkewAdjusted => "Student t, skewness-adjusted",
            Self::Welch => "Welch t",
            Self::BatchMeans => "batch means",
            Self::Regression => "least squares",
            Self::MedianSlope => "Theil-Sen",
            Self::Fieller => "Fieller",
            Self::Wilson => "Wilson score",
            Self::Newcombe => "Newcombe hybrid score",
            Self::OrderStatistics => "order statistics",
            Self::EqualValues => "equal values",
            Self::BootstrapPercentile => "bootstrap, percentile",
            Self::BootstrapBca => "bootstrap, BCa",
        }
    }
}

impl std::fmt::Display for EstimationMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An estimate with an interval that contains the true value at the stated confidence.
///
/// `estimate`, `low` and `high` have the unit of the sample's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The point estimate.
    pub estimate: f64,
    /// The lower end; `None` if the sample cannot bound that side (always at n = 1).
    pub low: Option<f64>,
    /// The upper end; `None` if the sample cannot bound that side (always at n = 1).
    pub high: Option<f64>,
    /// Number of independent values (replications, pairs, batches, trials).
    pub n: usize,
    /// The two-sided confidence, such as 0.95.
    pub confidence: f64,
    /// How the interval was computed.
    pub method: EstimationMethod,
}

impl Interval {
    /// An interval with `half_width` on both sides. Without a half width both ends are `None`.
    pub(crate) fn symmetric(
        estimate: f64,
        half_width: Option<f64>,
        n: usize,
        confidence: f64,
        method: EstimationMethod,
    ) -> Self {
        let low = half_width.map(|h| estimate - h);
        let high = half_width.map(|h| estimate + h);
        Self { estimate, low, high, n, confidence, method }
    }

    /// The distance from the estimate to the farther end; `None` if an end is missing.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        Some((self.estimate - self.low?).max(self.high? - self.estimate))
    }

    /// The half width divided by the magnitude of the estimate. `None` if an end is missing or the estimate is 0.
    #[must_use]
    pub fn relative_half_width(&self) -> Option<f64> {
        let half_width = self.half_width()?;
        (self.estimate != 0.0).then(|| half_width / self.estimate.abs())
    }

    /// Whether the interval contains `value`. A missing end excludes no value on its side.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low.is_none_or(|low| low <= value) && self.high.is_none_or(|high| value <= high)
    }

    /// Whether the whole interval is inside `low..=high`. False if an end is missing.
    #[must_use]
    pub fn lies_within(&self, low: f64, high: f64) -> bool {
        self.low.is_some_and(|l| low <= l) && self.high.is_some_and(|h| h <= high)
    }
}
