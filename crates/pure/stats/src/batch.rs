//! Batch means: an interval from one long run with autocorrelated values.

use crate::distribution::Normal;
use crate::error::{StatsError, check_open_unit, check_pairs, check_positive, check_sample};
use crate::interval::{self, EstimationMethod, Interval};
use crate::summary::{mean, mean_and_squares};

/// The smallest number of batches of [`BatchMeans::choose_ratio`]. Schmeiser (1982), *Batch size effects in the
/// analysis of simulation output*, finds 10 to 30 enough for any run length.
pub const FEWEST_BATCHES: usize = 10;

/// The largest number of batches of [`BatchMeans::choose_ratio`].
const MOST_BATCHES: usize = 320;

/// The significance level of von Neumann's test: it rejects one of ten independent series.
const TEST_LEVEL: f64 = 0.1;

/// The means of equally long batches of one run, and whether they look independent.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchMeans {
    /// The batches' means, in order, in the unit of the values.
    pub means: Vec<f64>,
    /// Number of values per batch.
    pub batch_size: usize,
    /// Number of values at the end that did not fill a batch and were discarded.
    pub left_over: usize,
    /// The autocorrelation of neighbouring means, in -1..=1.
    pub lag1: f64,
    /// The one-sided p-value of von Neumann's test against positive correlation. A small value means correlation.
    pub p_value: f64,
}

impl BatchMeans {
    /// Cuts `values` into `batches` batches.
    ///
    /// # Errors
    /// Fewer than three batches, fewer values than batches, or a value that is not finite.
    pub fn new(values: &[f64], batches: usize) -> Result<Self, StatsError> {
        if batches < 3 {
            return Err(StatsError::TooFew { needed: 3, got: batches });
        }
        check_sample(values, batches)?;
        let batch_size = values.len() / batches;
        let used = batch_size * batches;
        let means: Vec<f64> = values[..used].chunks_exact(batch_size).map(mean).collect();
        let (lag1, p_value) = von_neumann(&means);
        Ok(Self { means, batch_size, left_over: values.len() - used, lag1, p_value })
    }

    /// Batches for a ratio of sums, such as a mean over events whose number differs from second to second. The run is
    /// cut into spans of equal length. Each of `parts` is the sum and the weight (the count) of one span. Every part is
    /// in a batch, so batches may differ in length by one part. The mean of the `means` is the ratio of both sums. The
    /// mean of a batch is ratio + (sum - ratio * weight) / mean weight (Cochran, *Sampling Techniques*, 1977, section
    /// 6.3).
    ///
    /// The number of batches is the largest of 320, 160, 80, 40, 20 and 10 whose means pass von Neumann's test at 10 %.
    /// If none passes, there are ten batches and [`independent`](Self::independent) is false: the run is too short.
    /// This search does not detect all correlation: the coverage of a 95 % interval is about 93 %.
    ///
    /// # Errors
    /// Fewer than ten parts, a number that is not finite, or weights whose sum is not above zero.
    pub fn choose_ratio(parts: &[(f64, f64)]) -> Result<Self, StatsError> {
        let [sums, weights]: [Vec<f64>; 2] =
            [parts.iter().map(|part| part.0).collect(), parts.iter().map(|part| part.1).collect()];
        check_pairs(&sums, &weights, FEWEST_BATCHES)?;
        let all = check_positive("the sum of all weights", weights.iter().sum())?;
        let ratio = sums.iter().sum::<f64>() / all;
        let cut = |batches: usize| {
            let batch = |number: usize| number * parts.len() / batches..(number + 1) * parts.len() / batches;
            let pull = |number: usize| {
                let batch = batch(number);
                let [sum, weight] = [&sums, &weights].map(|all| all[batch.clone()].iter().sum::<f64>());
                ratio + (sum - ratio * weight) / (all / batches as f64)
            };
            let means = (0..batches).map(pull).collect::<Vec<_>>();
            Self::new(&means, batches).map(|cut| Self { batch_size: parts.len() / batches, ..cut })
        };
        Self::most(parts.len(), cut)
    }

    /// The batches with the largest number whose means look independent. `cut` makes a given number of batches from
    /// `values` values.
    fn most(values: usize, cut: impl Fn(usize) -> Result<Self, StatsError>) -> Result<Self, StatsError> {
        let mut batches = MOST_BATCHES;
        while batches > FEWEST_BATCHES {
            if batches <= values {
                let cut = cut(batches)?;
                if cut.independent() {
                    return Ok(cut);
                }
            }
            batches /= 2;
        }
        cut(FEWEST_BATCHES)
    }

    /// Whether von Neumann's test finds no positive correlation at 10 %. If false, the interval is too narrow.
    #[must_use]
    pub fn independent(&self) -> bool {
        self.p_value >= TEST_LEVEL
    }

    /// Student's interval of the steady-state mean over the batches. `n` of the interval is the number of batches.
    ///
    /// # Errors
    /// `confidence` not strictly between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Result<Interval, StatsError> {
        check_open_unit("confidence", confidence)?;
        Ok(Interval { method: EstimationMethod::BatchMeans, ..interval::student(&self.means, confidence)? })
    }
}

/// Lag-1 autocorrelation and the p-value of von Neumann's (1941) ratio, which corrects the autocorrelation for the two
/// ends of the series: z = (1 - sum of squared differences / (2 sum of squares)) / sqrt((k - 2) / (k^2 - 1)).
///
/// Source: Alexopoulos and Seila, in Banks (ed.), *Handbook of Simulation* (1998), chapter 7. Equal means count as
/// not correlated.
fn von_neumann(means: &[f64]) -> (f64, f64) {
    let k = means.len() as f64;
    let (mean, squares) = mean_and_squares(means);
    if squares == 0.0 {
        return (0.0, 1.0);
    }
    let products: f64 = means.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let differences: f64 = means.windows(2).map(|w| (w[1] - w[0]) * (w[1] - w[0])).sum();
    let z = (1.0 - differences / (2.0 * squares)) / ((k - 2.0) / (k * k - 1.0)).sqrt();
    (products / squares, Normal.upper(z))
}
