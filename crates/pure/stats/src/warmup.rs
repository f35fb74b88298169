//! Warm-up: the start of a run that is discarded, so that the initially empty system does not bias the mean.

use crate::error::{StatsError, check_sample};
use crate::summary::mean;

/// Values per batch in MSER-5.
const BATCH: usize = 5;

/// The smallest number of batches after the truncation point. With fewer batches the statistic may be small by chance.
const KEPT_BATCHES: usize = 5;

/// The truncation point of a run, and whether the run was long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmup {
    /// Number of values to discard at the start.
    pub discard: usize,
    /// Whether the remaining values can be used as the steady state.
    pub verdict: WarmupVerdict,
}

/// Whether a run has reached steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmupVerdict {
    /// The cut is in the first half of the run: use the values after it.
    Steady,
    /// The cut is in the second half of the run: the run is too short to show a steady state. Run longer.
    RunTooShort,
}

impl Warmup {
    /// A cut after a known number of values. The verdict follows the same rule as for MSER-5.
    ///
    /// # Errors
    /// A run that is not longer than the cut.
    pub fn fixed(length: usize, discard: usize) -> Result<Self, StatsError> {
        if length <= discard {
            return Err(StatsError::TooFew { needed: discard + 1, got: length });
        }
        Ok(Self { discard, verdict: verdict(discard, length) })
    }

    /// MSER-5: White (1997), *An effective truncation heuristic for bias reduction in simulation output*,
    /// Simulation 69(6), with the batches of five of Spratt (1998).
    ///
    /// Averages `values` (equally spaced observations of one run, in order) in batches of five. The cut d minimises the
    /// squared standard error of the remaining mean: the sum of squared deviations of the batches after d, divided by
    /// the square of their number. A minimum in the second half means that the run was too short (White, Cobb and
    /// Spratt 2000, *A comparison of five steady-state truncation heuristics*).
    ///
    /// # Errors
    /// Fewer than 50 values (ten batches), or a value that is not finite.
    pub fn mser5(values: &[f64]) -> Result<Self, StatsError> {
        check_sample(values, 2 * KEPT_BATCHES * BATCH)?;
        let batches: Vec<f64> = values.chunks_exact(BATCH).map(mean).collect();
        let cut = smallest_error(&batches);
        Ok(Self { discard: cut * BATCH, verdict: verdict(cut, batches.len()) })
    }

    /// The values after the cut.
    #[must_use]
    pub fn keep<'a, T>(&self, values: &'a [T]) -> &'a [T] {
        values.get(self.discard..).unwrap_or_default()
    }
}

fn verdict(cut: usize, length: usize) -> WarmupVerdict {
    if 2 * cut > length { WarmupVerdict::RunTooShort } else { WarmupVerdict::Steady }
}

/// The first cut with the smallest MSER statistic. Computed in one pass from the end backwards (Welford).
fn smallest_error(batches: &[f64]) -> usize {
    let (mut mean, mut squares) = (0.0, 0.0);
    let (mut best, mut best_cut) = (f64::INFINITY, 0);
    for (kept, (cut, batch)) in (1_usize..).zip(batches.iter().enumerate().rev()) {
        let before = batch - mean;
        mean += before / kept as f64;
        squares += before * (batch - mean);
        let statistic = squares / (kept as f64 * kept as f64);
        if kept >= KEPT_BATCHES && statistic <= best {
            (best, best_cut) = (statistic, cut);
        }
    }
    best_cut
}
