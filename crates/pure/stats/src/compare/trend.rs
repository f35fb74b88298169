//! Trends of a response over the ordered levels of a factor.

use super::{Alternative, Comparison, paired};
use crate::distribution::Normal;
use crate::error::{StatsError, check_levels, check_positive};

/// Up to this number of levels the permutations of one block are enumerated (6! = 720).
const EXACT_LEVELS: usize = 6;

/// Up to this number of replications the distribution of their sum is exact.
const EXACT_REPLICATIONS: usize = 100;

/// The direction of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrendDirection {
    /// Each level has a greater mean than the previous level.
    Increasing,
    /// Each level has a smaller mean than the previous level.
    Decreasing,
}

/// The outcome of a test for a monotone trend.
#[derive(Debug, Clone, PartialEq)]
pub struct Trend {
    /// For each pair of neighbouring levels: the later minus the earlier.
    pub steps: Vec<Comparison>,
    /// The index in `steps` of the step with the largest p-value.
    pub weakest: usize,
    /// The p-value of that step; `None` at one replication.
    pub p_value: Option<f64>,
}

/// A strictly monotone trend over levels: every step between neighbours must be shown.
///
/// `levels[i][r]` is the value of level i in replication r, levels in rising order. Each step is a one-sided
/// paired t-test that the change exceeds `margin >= 0` (in the unit of the values). By the intersection-union
/// principle (Berger 1982, *Multiparameter hypothesis testing and acceptance sampling*) the trend's p-value
/// is the largest of the steps' p-values, without correction.
///
/// # Errors
/// Fewer than two levels, no replication, lengths that differ, a value or margin that is not finite, or
/// `confidence` not strictly between 0 and 1.
pub fn monotone(
    levels: &[Vec<f64>],
    direction: TrendDirection,
    margin: f64,
    confidence: f64,
) -> Result<Trend, StatsError> {
    check_levels(levels, 2, 1)?;
    if margin != 0.0 {
        check_positive("margin", margin)?;
    }
    let (null, side) = match direction {
        TrendDirection::Increasing => (margin, Alternative::Greater),
        TrendDirection::Decreasing => (-margin, Alternative::Less),
    };
    let step = |pair: &[Vec<f64>]| paired(&pair[1], &pair[0], null, side, confidence);
    let steps: Vec<Comparison> = levels.windows(2).map(step).collect::<Result<_, _>>()?;
    let doubt = |index: &usize| steps[*index].p_value.unwrap_or(1.0);
    let weakest = (0..steps.len()).max_by(|a, b| doubt(a).total_cmp(&doubt(b))).unwrap_or(0);
    let p_value = steps[weakest].p_value;
    Ok(Trend { steps, weakest, p_value })
}

/// The outcome of Page's test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageTest {
    /// Page's L: the sum over levels of level number times rank sum.
    pub statistic: f64,
    /// Spearman's rank correlation between level and response, averaged over replications, in -1..=1.
    pub correlation: f64,
    /// The p-value of the one-sided test in the given direction.
    pub p_value: f64,
    /// Whether the distribution is exact. If not, `p_value` is the normal approximation.
    pub exact: bool,
}

/// Page's (1963) test for a trend, *Ordered hypotheses for multiple treatments*. It asks for less than [`monotone`] (a
/// tendency, not every step) and needs no normal distribution. It uses ranks within each replication, so common
/// random numbers make it more powerful.
///
/// It is exact up to 6 levels and 100 replications without ties, else normal with the variance of the observed ranks.
///
/// # Errors
/// Fewer than three levels, no replication, lengths that differ, a value that is not finite, or values that
/// are all tied.
pub fn page(levels: &[Vec<f64>], direction: TrendDirection) -> Result<PageTest, StatsError> {
    let replications = check_levels(levels, 3, 1)?;
    let sign = if direction == TrendDirection::Increasing { 1.0 } else { -1.0 };
    let k = levels.len() as f64;
    let centre = 0.5 * (k + 1.0);
    let level_squares = k * (k * k - 1.0) / 12.0;
    let (mut statistic, mut variance, mut tied) = (0.0, 0.0, false);
    for r in 0..replications {
        let block: Vec<f64> = levels.iter().map(|level| sign * level[r]).collect();
        let ranks = mean_ranks(&block);
        let squares: f64 = ranks.iter().map(|rank| (rank - centre) * (rank - centre)).sum();
        statistic += (1_u32..).zip(&ranks).map(|(level, rank)| f64::from(level) * rank).sum::<f64>();
        variance += level_squares * squares / (k - 1.0);
        tied |= squares < level_squares;
    }
    if variance == 0.0 {
        return Err(StatsError::NoSpread { what: "Page's test" });
    }
    let excess = statistic - replications as f64 * k * centre * centre;
    let correlation = sign * excess / (replications as f64 * level_squares);
    let exact = !tied && levels.len() <= EXACT_LEVELS && replications <= EXACT_REPLICATIONS;
    let p_value = if exact {
        exact_upper(levels.len(), replications, statistic as usize)
    } else {
        Normal.upper(excess / variance.sqrt())
    };
    Ok(PageTest { statistic, correlation, p_value, exact })
}

/// Ranks from 1. Tied values have their mean rank.
fn mean_ranks(values: &[f64]) -> Vec<f64> {
    let rank = |v: &f64| {
        let below = values.iter().filter(|o| *o < v).count();
        let equal = values.iter().filter(|o| *o == v).count();
        below as f64 + 0.5 * (equal as f64 + 1.0)
    };
    values.iter().map(rank).collect()
}

/// The probability that L is at least `observed` if all orders are equally likely.
fn exact_upper(levels: usize, replications: usize, observed: usize) -> f64 {
    let one = block_distribution(levels);
    let mut sum = vec![1.0];
    for _ in 0..replications {
        let mut next = vec![0.0; sum.len() + one.len() - 1];
        for (i, a) in sum.iter().enumerate().filter(|(_, a)| **a > 0.0) {
            for (j, b) in one.iter().enumerate() {
                next[i + j] += a * b;
            }
        }
        sum = next;
    }
    sum[observed.min(sum.len())..].iter().sum()
}

/// The distribution of one block's L: the sum over levels of level number times rank, over all permutations.
fn block_distribution(levels: usize) -> Vec<f64> {
    fn place(level: usize, sum: usize, free: &mut Vec<usize>, counts: &mut [f64]) {
        if free.is_empty() {
            counts[sum] += 1.0;
        }
        for index in 0..free.len() {
            let rank = free.remove(index);
            place(level + 1, sum + level * rank, free, counts);
            free.insert(index, rank);
        }
    }
    let largest: usize = (1..=levels).map(|l| l * l).sum();
    let mut counts = vec![0.0; largest + 1];
    place(1, 0, &mut (1..=levels).collect(), &mut counts);
    let permutations: f64 = counts.iter().sum();
    counts.iter().map(|c| c / permutations).collect()
}
