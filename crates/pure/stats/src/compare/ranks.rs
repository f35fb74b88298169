//! Tests of paired values without a normal distribution: the sign test and Wilcoxon's signed-rank test.

use super::{Alternative, Comparison};
use crate::distribution::{Binomial, Normal};
use crate::error::{StatsError, check_confidence, check_number, check_pairs};
use crate::interval::{EstimationMethod, Interval};
use crate::quantile::{self, median, sorted};

/// Up to this sample size the signed-rank distribution is exact. Above it the normal approximation is precise to 1e-4.
const EXACT_UP_TO: usize = 100;

/// The sign test of the median difference `left - right` against `null` (in the unit of the values), by the exact binomial
/// distribution. Differences equal to `null` are omitted. The interval is that of the median, by order statistics.
///
/// Source: Conover, *Practical Nonparametric Statistics*, 3rd ed., section 3.4.
///
/// # Errors
/// An empty sample, lengths that differ, a value or `null` that is not finite, or `confidence` not strictly
/// between 0 and 1.
pub fn sign_test(
    left: &[f64],
    right: &[f64],
    null: f64,
    alternative: Alternative,
    confidence: f64,
) -> Result<Comparison, StatsError> {
    let differences = differences(left, right, null)?;
    let interval = quantile::interval(&differences, 0.5, confidence)?;
    let positive = differences.iter().filter(|d| **d > null).count();
    let untied = differences.iter().filter(|d| **d != null).count();
    let signs = Binomial::new(untied, 0.5)?;
    let at_most = signs.cdf(positive);
    let at_least = if positive == 0 { 1.0 } else { signs.upper(positive - 1) };
    let p_value = (differences.len() > 1).then(|| by_alternative(at_least, at_most, alternative));
    Ok(Comparison { interval, statistic: positive as f64, p_value })
}

/// Wilcoxon's signed-rank test of a symmetric distribution of `left - right` around `null`. The statistic is
/// the sum of the ranks of positive differences. Differences equal to `null` are omitted; tied magnitudes have their
/// mean rank.
///
/// Up to 100 differences the test is exact, with ties over all signs of the observed ranks. Above, it is normal with
/// continuity and tie correction. The estimate is Hodges and Lehmann's (1963): the median of all Walsh averages
/// (means of two differences), with the interval between two of them. Source: Hollander, Wolfe and Chicken,
/// *Nonparametric Statistical Methods*, 3rd ed., sections 3.1 to 3.3.
///
/// # Errors
/// As [`sign_test`].
pub fn wilcoxon(
    left: &[f64],
    right: &[f64],
    null: f64,
    alternative: Alternative,
    confidence: f64,
) -> Result<Comparison, StatsError> {
    let differences = differences(left, right, null)?;
    let interval = hodges_lehmann(&differences, confidence)?;
    let distances: Vec<f64> = differences.iter().map(|d| d - null).filter(|d| *d != 0.0).collect();
    let ranks = doubled_ranks(&distances);
    let positive = || ranks.iter().zip(&distances).filter(|(_, d)| **d > 0.0);
    let doubled: usize = positive().map(|(rank, _)| rank).sum();
    let (at_least, at_most) =
        if ranks.len() <= EXACT_UP_TO { exact_tails(&ranks, doubled) } else { normal_tails(&ranks, doubled) };
    let p_value = (differences.len() > 1).then(|| by_alternative(at_least, at_most, alternative));
    Ok(Comparison { interval, statistic: 0.5 * doubled as f64, p_value })
}

fn differences(left: &[f64], right: &[f64], null: f64) -> Result<Vec<f64>, StatsError> {
    check_pairs(left, right, 1)?;
    check_number("null value", null)?;
    Ok(left.iter().zip(right).map(|(a, b)| a - b).collect())
}

fn by_alternative(at_least: f64, at_most: f64, alternative: Alternative) -> f64 {
    match alternative {
        Alternative::Greater => at_least,
        Alternative::Less => at_most,
        Alternative::TwoSided => (2.0 * at_least.min(at_most)).min(1.0),
    }
}

/// Twice the mean rank of each magnitude, from 2 for the smallest: whole numbers, also with ties.
fn doubled_ranks(distances: &[f64]) -> Vec<usize> {
    let magnitudes = sorted(&distances.iter().map(|d| d.abs()).collect::<Vec<_>>());
    let rank = |d: &f64| {
        let below = magnitudes.partition_point(|m| *m < d.abs());
        let not_above = magnitudes.partition_point(|m| *m <= d.abs());
        below + not_above + 1
    };
    distances.iter().map(rank).collect()
}

/// The probability of every sum of a random subset of `ranks`.
fn subset_sums(ranks: &[usize]) -> Vec<f64> {
    let mut probability = vec![0.0; ranks.iter().sum::<usize>() + 1];
    probability[0] = 1.0;
    let mut largest = 0;
    for &rank in ranks {
        largest += rank;
        for sum in (0..=largest).rev() {
            let with = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = 0.5 * (probability[sum] + with);
        }
    }
    probability
}

fn exact_tails(ranks: &[usize], observed: usize) -> (f64, f64) {
    let probability = subset_sums(ranks);
    (
        probability[observed..].iter().sum::<f64>().min(1.0),
        probability[..=observed].iter().sum::<f64>().min(1.0),
    )
}

fn normal_tails(ranks: &[usize], observed: usize) -> (f64, f64) {
    let mean = 0.5 * ranks.iter().sum::<usize>() as f64;
    let sd = (0.25 * ranks.iter().map(|r| (r * r) as f64).sum::<f64>()).sqrt();
    // In doubled ranks the sums are two apart, so half a step is one.
    let distance = observed as f64 - mean;
    (Normal.upper((distance - 1.0) / sd), Normal.cdf((distance + 1.0) / sd))
}

fn hodges_lehmann(differences: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    let tail = 0.5 * (1.0 - check_confidence(confidence)?);
    let n = differences.len();
    let pairs = differences.iter().enumerate();
    let walsh: Vec<f64> =
        pairs.flat_map(|(i, a)| differences[i..].iter().map(move |b| 0.5 * a + 0.5 * b)).collect();
    let walsh = sorted(&walsh);
    let outside = ranks_outside(n, tail)?;
    let low = outside.checked_sub(1).map(|_| walsh[outside - 1]);
    let high = outside.checked_sub(1).map(|_| walsh[walsh.len() - outside]);
    Ok(Interval { estimate: median(&walsh)?, low, high, n, confidence, method: EstimationMethod::SignedRank })
}

/// The number of signed-rank sums 0, 1, 2, … with a total probability of at most `tail`. It is the rank (from 1) of the
/// Walsh average that bounds the interval, and 0 if the sum 0 is too likely.
fn ranks_outside(n: usize, tail: f64) -> Result<usize, StatsError> {
    if n > EXACT_UP_TO {
        let (mean, sd) = (0.25 * (n * (n + 1)) as f64, ((n * (n + 1) * (2 * n + 1)) as f64 / 24.0).sqrt());
        return Ok((mean - 0.5 - Normal.quantile(1.0 - tail)? * sd).floor() as usize + 1);
    }
    let ranks: Vec<usize> = (1..=n).collect();
    let mut below = 0.0;
    let within = subset_sums(&ranks).into_iter().take_while(|p| {
        below += p;
        below <= tail
    });
    Ok(within.count())
}
