//! Streaming summaries: mean, variance, extremes, and the time average of a piecewise constant value.

use crate::error::{StatsError, check_sample};

/// Count, mean, variance and extremes of a stream of values, in constant memory.
///
/// Welford (1962), *Note on a method for calculating corrected sums of squares and products*; merging after
/// Chan, Golub and LeVeque (1979). Both avoid the cancellation of the textbook's sum of squares. The unit of every
/// result is the unit of the values (squared for the variance).
///
/// ```
/// use netrig_stats::summary::Summary;
/// let delays: Summary = [2.0, 4.0, 9.0].into_iter().collect();
/// assert_eq!((delays.n(), delays.mean(), delays.variance()), (3, Some(5.0), Some(13.0)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    n: usize,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Summary {
    fn default() -> Self {
        Self { n: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Summary {
    /// The summary of a sample.
    ///
    /// # Errors
    /// An empty sample, or a value that is not finite.
    pub fn of(values: &[f64]) -> Result<Self, StatsError> {
        check_sample(values, 1)?;
        Ok(values.iter().copied().collect())
    }

    /// Adds one value. A value that is not finite makes mean and variance NaN.
    pub fn push(&mut self, value: f64) {
        self.n += 1;
        let before = value - self.mean;
        self.mean += before / self.n as f64;
        self.squares += before * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of another summary.
    pub fn merge(&mut self, other: &Self) {
        if other.n == 0 {
            return;
        }
        if self.n == 0 {
            *self = *other;
            return;
        }
        let (here, there) = (self.n as f64, other.n as f64);
        let apart = other.mean - self.mean;
        self.n += other.n;
        self.mean += apart * there / (here + there);
        self.squares += other.squares + apart * apart * here * there / (here + there);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// The arithmetic mean; `None` before the first value.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then_some(self.mean)
    }

    /// The unbiased sample variance (divisor n - 1); `None` below two values.
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        (self.n > 1).then(|| self.squares / (self.n as f64 - 1.0))
    }

    /// The sample standard deviation; `None` below two values.
    #[must_use]
    pub fn sd(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The standard error of the mean of independent values; `None` below two values.
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        self.variance().map(|v| (v / self.n as f64).sqrt())
    }

    /// The smallest value; `None` before the first.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        (self.n > 0).then_some(self.min)
    }

    /// The largest value; `None` before the first.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        (self.n > 0).then_some(self.max)
    }
}

impl FromIterator<f64> for Summary {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut summary = Self::default();
        summary.extend(values);
        summary
    }
}

impl Extend<f64> for Summary {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        for value in values {
            self.push(value);
        }
    }
}

/// The arithmetic mean of values; not a number without values.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean of values, and the sum of their squared deviations from it.
#[must_use]
pub fn mean_and_squares(values: &[f64]) -> (f64, f64) {
    let mean = mean(values);
    (mean, values.iter().map(|value| (value - mean) * (value - mean)).sum())
}
