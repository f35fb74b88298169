//! Coverage of intervals over 10,000 trials at fixed seeds, for samples of a fixed size and for a stopping rule.

use netrig_stats::interval::{Bootstrap, Interval, paired_ratio, skew_adjusted, student, wilson};
use netrig_stats::stopping::{Precision, StoppingDecision, StoppingRule};

use crate::Random;

const TRIALS: u64 = 10_000;

/// The share of trials whose interval contains `mean`, and the mean number of replications.
fn coverage(mean: f64, rule: &StoppingRule, seed: u64, draw: impl Fn(&mut Random) -> f64) -> (f64, f64) {
    let (mut covered, mut replications) = (0, 0);
    for trial in 0..TRIALS {
        let mut random = Random((seed << 32) + trial * 7919);
        let mut values: Vec<f64> = Vec::new();
        let (n, interval) = loop {
            let wanted = match rule.judge(&values).expect("finite values") {
                StoppingDecision::Continue { needed } => needed.unwrap_or(10).max(10),
                StoppingDecision::Enough { n, interval } | StoppingDecision::GaveUp { n, interval, .. } => {
                    break (n, interval);
                }
            };
            // Values are added four at a time, as by four workers: the rule must ignore values after its decision.
            let wanted = wanted.max(values.len() + 4);
            while values.len() < wanted {
                values.push(draw(&mut random));
            }
        };
        covered += u32::from(interval.contains(mean));
        replications += n;
    }
    (f64::from(covered) / TRIALS as f64, replications as f64 / TRIALS as f64)
}

#[track_caller]
fn assert_coverage((covered, replications): (f64, f64)) {
    println!("coverage {covered:.4} at {replications:.1} replications");
    assert!((0.93..=0.97).contains(&covered), "coverage {covered} at {replications} replications");
}

#[test]
fn normal_values_are_covered_at_every_stopping_length() {
    for (seed, half_width) in [(1, 0.06), (2, 0.045), (3, 0.035)] {
        let rule = StoppingRule::new(Precision::Relative(half_width), 0.95, 10, 200).unwrap();
        assert_coverage(coverage(10.0, &rule, seed, |r| 10.0 + r.normal()));
    }
}

#[test]
fn normal_values_are_covered_under_an_absolute_width() {
    let rule = StoppingRule::new(Precision::Absolute(0.4), 0.95, 10, 100).unwrap();
    assert_coverage(coverage(0.0, &rule, 4, Random::normal));
}

#[test]
fn exponential_values_are_covered() {
    for (seed, half_width) in [(5, 0.45), (6, 0.35)] {
        let rule = StoppingRule::new(Precision::Relative(half_width), 0.95, 10, 200).unwrap();
        assert_coverage(coverage(1.0, &rule, seed, Random::exponential));
    }
}

#[test]
fn sums_of_four_exponentials_are_covered_also_when_the_budget_ends_first() {
    let draw = |r: &mut Random| (0..4).map(|_| r.exponential()).sum();
    let rule = StoppingRule::new(Precision::Relative(0.2), 0.95, 10, 40).unwrap();
    assert_coverage(coverage(4.0, &rule, 7, draw));
}

/// The share of trials whose interval over `n` draws contains `truth`.
fn share_covered(
    truth: f64,
    n: usize,
    seed: u64,
    draw: impl Fn(&mut Random) -> f64,
    interval: impl Fn(&[f64], u64) -> Interval,
) -> f64 {
    let covered = (0..TRIALS).filter(|trial| {
        let mut random = Random((seed << 32) + trial * 7919);
        let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
        interval(&values, *trial).contains(truth)
    });
    covered.count() as f64 / TRIALS as f64
}

/// Prints the coverage and checks that it is 93 to 97 %.
#[track_caller]
fn assert_share(what: &str, share: f64) {
    println!("{what}: {:.2} % of {TRIALS} trials", 100.0 * share);
    assert!((0.93..=0.97).contains(&share), "{what}: {share}");
}

#[test]
fn students_interval_covers_normal_values() {
    for n in [2, 5, 10, 30] {
        let draw = |r: &mut Random| 10.0 + r.normal();
        let share = share_covered(10.0, n, 11, draw, |values, _| student(values, 0.95).unwrap());
        assert_share(&format!("Student, {n} normal values"), share);
    }
}

/// Student's interval without adjustment covers only 90 % for ten exponential values.
#[test]
fn the_skew_adjusted_interval_covers_skewed_values_too() {
    let interval = |values: &[f64], _| skew_adjusted(values, 0.95).unwrap();
    for n in [10, 30] {
        let share = share_covered(0.0, n, 12, Random::normal, interval);
        assert_share(&format!("skew-adjusted, {n} normal values"), share);
        let share = share_covered(1.0, n, 13, Random::exponential, interval);
        assert_share(&format!("skew-adjusted, {n} exponential values"), share);
    }
}

#[test]
fn the_bootstrap_covers() {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let bootstrap = |seed| Bootstrap { seed, resamples: 500 };
    let percentile = |values: &[f64], trial| bootstrap(trial).percentile(values, 0.95, mean).unwrap();
    let bca = |values: &[f64], trial| bootstrap(trial).bca(values, 0.95, mean).unwrap();
    for n in [10, 30] {
        assert_share(
            &format!("bootstrap, percentile, {n} normal values"),
            share_covered(0.0, n, 14, Random::normal, percentile),
        );
        assert_share(
            &format!("bootstrap, BCa, {n} normal values"),
            share_covered(0.0, n, 14, Random::normal, bca),
        );
    }
    assert_share(
        "bootstrap, BCa, 30 exponential values",
        share_covered(1.0, 30, 15, Random::exponential, bca),
    );
}

/// Ratios of means by Fieller's theorem. The denominator is 10 standard deviations from zero.
#[test]
fn fiellers_interval_covers() {
    let pair = |r: &mut Random| 10.0 + r.normal();
    let halves = |values: &[f64]| (values[..10].to_vec(), values[10..].to_vec());
    let share = share_covered(1.0, 20, 16, pair, |values, _| {
        let (top, bottom) = halves(values);
        paired_ratio(&top, &bottom, 0.95).unwrap()
    });
    assert_share("Fieller, ten pairs", share);
}

/// The coverage of a proportion's interval oscillates with the proportion. The mean of the coverage is the nominal
/// coverage (Brown, Cai and DasGupta 2001). So each trial draws a proportion.
#[test]
fn wilsons_interval_covers_on_average() {
    let covered = (0..TRIALS).filter(|trial| {
        let mut random = Random((18 << 32) + trial * 7919);
        let share = random.uniform();
        let successes = (0..50).filter(|_| random.uniform() < share).count();
        wilson(successes, 50, 0.95).unwrap().contains(share)
    });
    assert_share("Wilson, 50 trials", covered.count() as f64 / TRIALS as f64);
}
