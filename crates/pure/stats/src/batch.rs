//! Batch means: an interval from one long run, whose neighbouring values depend on each other.

use crate::distribution::Normal;
use crate::error::{StatsError, check_open_unit, check_pairs, check_positive, check_sample};
use crate::interval::{self, EstimationMethod, Interval};

/// The fewest batches that [`BatchMeans::choose`] goes down to; Schmeiser (1982), *Batch size effects in the
/// analysis of simulation output*, finds 10 to 30 enough for any run length.
pub const FEWEST_BATCHES: usize = 10;

/// The most batches that [`BatchMeans::choose`] tries.
const MOST_BATCHES: usize = 320;

/// The level of von Neumann's test: a correlation that shows in one of ten independent series is still let
/// pass.
const TEST_LEVEL: f64 = 0.1;

/// The means of equally long batches of one run, and whether they look independent.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchMeans {
    /// The batches' means, in order, in the unit of the values.
    pub means: Vec<f64>,
    /// How many values went into each.
    pub batch_size: usize,
    /// How many values at the end did not fill a batch and were left out.
    pub left_over: usize,
    /// The autocorrelation of neighbouring means, in -1..=1.
    pub lag1: f64,
    /// The one-sided p-value of von Neumann's test against positive correlation: small means correlated.
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
        let mean = |batch: &[f64]| batch.iter().sum::<f64>() / batch_size as f64;
        let means: Vec<f64> = values[..used].chunks_exact(batch_size).map(mean).collect();
        let (lag1, p_value) = von_neumann(&means);
        Ok(Self { means, batch_size, left_over: values.len() - used, lag1, p_value })
    }

    /// The most batches (320, 160, 80, 40, 20, 10) whose means pass von Neumann's test at 10 %. If not even
    /// ten do, the ten are returned and [`independent`](Self::independent) says no: the run is too short.
    ///
    /// Looking for the most batches that pass lets some correlation through: a 95 % interval holds about 93 %.
    ///
    /// # Errors
    /// Fewer than ten values, or a value that is not finite.
    pub fn choose(values: &[f64]) -> Result<Self, StatsError> {
        check_sample(values, FEWEST_BATCHES)?;
        Self::most(values.len(), |batches| Self::new(values, batches))
    }

    /// The same of a ratio, as a mean of what is counted in seconds with more of it and with less: each of `parts` is what was
    /// summed up in an equally long span of the run, and of how many. All parts are in a batch, none is left over; batches
    /// differ by one part in length where it must be. The mean of the `means` is the ratio of both sums; each stands as far
    /// from it as its batch pulls it, (sum - ratio * weight) / mean weight (Cochran, *Sampling Techniques*, 1977, section 6.3).
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

    /// The most batches of so many values that look independent.
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

    /// Whether von Neumann's test finds no positive correlation at 10 %. If it does, the interval is too
    /// narrow.
    #[must_use]
    pub fn independent(&self) -> bool {
        self.p_value >= TEST_LEVEL
    }

    /// Student's interval of the steady-state mean over the batches; `n` is their number.
    ///
    /// # Errors
    /// `confidence` not strictly between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Result<Interval, StatsError> {
        check_open_unit("confidence", confidence)?;
        Ok(Interval { method: EstimationMethod::BatchMeans, ..interval::student(&self.means, confidence)? })
    }
}

/// Lag-1 autocorrelation and the p-value of von Neumann's (1941) ratio, which corrects it for the two ends:
/// z = (1 - sum of squared differences / (2 sum of squares)) / sqrt((k - 2) / (k^2 - 1)).
///
/// Source: Alexopoulos and Seila, in Banks (ed.), *Handbook of Simulation* (1998), chapter 7. Equal means are
/// not correlated.
fn von_neumann(means: &[f64]) -> (f64, f64) {
    let k = means.len() as f64;
    let mean = means.iter().sum::<f64>() / k;
    let squares: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    if squares == 0.0 {
        return (0.0, 1.0);
    }
    let products: f64 = means.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let differences: f64 = means.windows(2).map(|w| (w[1] - w[0]) * (w[1] - w[0])).sum();
    let z = (1.0 - differences / (2.0 * squares)) / ((k - 2.0) / (k * k - 1.0)).sqrt();
    (products / squares, Normal.upper(z))
}
