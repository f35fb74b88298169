//! The share of trials that pass as a function of a level, from trials at any levels.

use libm::{exp, log};

use crate::error::{StatsError, check_confidence, check_positive};

/// The probability that a trial passes by chance, however high its level is.
const GUESS: f64 = 0.01;

/// Probabilities that a trial fails by chance, however low its level is. Each has its prior probability.
const LAPSES: [(f64, f64); 3] = [(0.01, 0.5), (0.05, 0.3), (0.15, 0.2)];

/// The prior of the steepness: a log-normal distribution, given by its median and by the factor that is one standard
/// deviation. At the median, 95 % pass at 97.6 % of the level at which half pass. In 95 of 100 curves this ratio is
/// between 89 % and 99.5 %.
const STEEPNESS: (f64, f64) = (120.0, 2.2);

/// Number of grid points of the steepness. The grid extends from 2.5 standard deviations below the median to 2.5 above
/// it.
const SLOPES: usize = 21;
const DEVIATIONS: f64 = 2.5;

/// Number of grid points of the location, in each of the two passes.
const LOCATIONS: usize = 161;

/// How far the grid of locations extends below the lowest level and above the highest, as a logarithm: a factor of two.
const MARGIN: f64 = core::f64::consts::LN_2;

/// The second pass omits locations whose log-likelihood is more than this below the maximum.
const NEGLIGIBLE: f64 = 14.0;

/// A level with its credible interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CredibleLevel {
    /// The lower end.
    pub low: f64,
    /// The median.
    pub value: f64,
    /// The upper end.
    pub high: f64,
}

/// Estimates of a curve that falls from "all pass" to "none passes".
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassCurve {
    /// The level at which half pass.
    pub half: CredibleLevel,
    /// The level at which 95 % pass.
    pub most: CredibleLevel,
}

/// A point of the grid. `weight` is the logarithm of its posterior weight.
struct CurvePoint {
    location: f64,
    slope: f64,
    weight: f64,
}

/// Fits a logistic curve of the logarithm of the level: `P(pass) = g + (1 - g - λ) / (1 + (level / half)^slope)`.
///
/// The posterior distribution of location, slope and `λ` is summed over a grid, without random numbers and without an
/// iteration that could fail to converge. `g` is 1 %; `λ` is 1, 5 or 15 %. Because of `g` and `λ`, a few trials that
/// pass or fail by chance hardly change the interval. The two levels of the result ignore `g` and `λ`. The prior of the
/// location is uniform in the logarithm. The prior of the slope prefers steep curves. If 95 % pass only at levels below
/// 89 % of `half`, the interval is too narrow until there are many trials.
///
/// ```
/// let trials = [(100.0, true), (200.0, true), (400.0, false), (283.0, false), (240.0, true), (260.0, false)];
/// let curve = netrig_stats::fit::pass_curve(&trials, 0.95)?;
/// assert!(curve.half.low > 220.0 && curve.half.high < 290.0);
/// assert!(curve.most.value < curve.half.value);
/// # Ok::<(), netrig_stats::StatsError>(())
/// ```
///
/// # Errors
/// A level that is not positive, no trial that passed or none that failed, or a confidence outside 0 to 1.
pub fn pass_curve(trials: &[(f64, bool)], confidence: f64) -> Result<PassCurve, StatsError> {
    let confidence = check_confidence(confidence)?;
    let mut logs = Vec::with_capacity(trials.len());
    for (level, passed) in trials {
        logs.push((log(check_positive("level", *level)?), *passed));
    }
    let passed = trials.iter().filter(|(_, passed)| *passed).count();
    if passed == 0 || passed == trials.len() {
        return Err(StatsError::NoSpread { what: "the level at which half of the trials pass" });
    }
    let least = logs.iter().map(|(level, _)| *level).fold(f64::INFINITY, f64::min) - MARGIN;
    let most = logs.iter().map(|(level, _)| *level).fold(f64::NEG_INFINITY, f64::max) + MARGIN;
    let first = grid(&logs, least, most);
    let best = likeliest(&first);
    let step = (most - least) / (LOCATIONS - 1) as f64;
    let near = first.iter().filter(|point| point.weight > best - NEGLIGIBLE).map(|point| point.location);
    let (low, high) =
        near.fold((most, least), |(low, high), location| (low.min(location), high.max(location)));
    let second = grid(&logs, low - step, high + step);
    let tail = (1.0 - confidence) / 2.0;
    Ok(PassCurve {
        half: credible(&second, tail, |point| point.location),
        most: credible(&second, tail, |point| point.location - log(19.0) / point.slope),
    })
}

fn likeliest(points: &[CurvePoint]) -> f64 {
    points.iter().map(|point| point.weight).fold(f64::NEG_INFINITY, f64::max)
}

/// The posterior at each point of a grid: locations from `low` to `high`, and all slopes.
fn grid(logs: &[(f64, bool)], low: f64, high: f64) -> Vec<CurvePoint> {
    let (median, factor) = STEEPNESS;
    let mut points = Vec::with_capacity(LOCATIONS * SLOPES);
    for place in 0..LOCATIONS {
        let location = low + (high - low) * place as f64 / (LOCATIONS - 1) as f64;
        for nth in 0..SLOPES {
            let deviation = DEVIATIONS * (2.0 * nth as f64 / (SLOPES - 1) as f64 - 1.0);
            let slope = median * exp(deviation * log(factor));
            let weight = log_likelihood(logs, location, slope) - 0.5 * deviation * deviation;
            points.push(CurvePoint { location, slope, weight });
        }
    }
    points
}

/// The logarithm of the likelihood. It is summed over the possible probabilities of a failure by chance.
fn log_likelihood(logs: &[(f64, bool)], location: f64, slope: f64) -> f64 {
    let mut sums = LAPSES.map(|(_, prior)| log(prior));
    // Each factor is at least 1 %, so the product of 100 factors does not underflow.
    for trials in logs.chunks(100) {
        let mut products = [1.0; LAPSES.len()];
        for (level, passed) in trials {
            let share = 1.0 / (1.0 + exp(slope * (level - location)));
            for (product, (lapse, _)) in products.iter_mut().zip(LAPSES) {
                let pass = GUESS + (1.0 - GUESS - lapse) * share;
                *product *= if *passed { pass } else { 1.0 - pass };
            }
        }
        sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += log(product));
    }
    let most = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + log(sums.iter().map(|one| exp(one - most)).sum())
}

/// Median and interval of a function of the points, as levels.
fn credible(points: &[CurvePoint], tail: f64, of: impl Fn(&CurvePoint) -> f64) -> CredibleLevel {
    let best = likeliest(points);
    let mut all: Vec<_> = points.iter().map(|point| (of(point), exp(point.weight - best))).collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let total: f64 = all.iter().map(|(_, weight)| weight).sum();
    let at = |share: f64| {
        let mut sum = 0.0;
        let found = all.iter().find(|(_, weight)| {
            sum += weight;
            sum >= share * total
        });
        exp(found.or(all.last()).map_or(f64::NAN, |(level, _)| *level))
    };
    CredibleLevel { low: at(tail), value: at(0.5), high: at(1.0 - tail) }
}
