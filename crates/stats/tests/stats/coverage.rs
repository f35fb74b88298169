//! What the stopping rule promises, over 10,000 trials at fixed seeds.

use netrig_stats::stopping::{Decision, Precision, StoppingRule};

use crate::Random;

const TRIALS: u64 = 10_000;

/// The share of trials whose interval holds `mean`, and the mean number of replications.
fn coverage(mean: f64, rule: &StoppingRule, seed: u64, draw: impl Fn(&mut Random) -> f64) -> (f64, f64) {
    let (mut covered, mut replications) = (0, 0);
    for trial in 0..TRIALS {
        let mut random = Random((seed << 32) + trial * 7919);
        let mut values: Vec<f64> = Vec::new();
        let (n, interval) = loop {
            let wanted = match rule.judge(&values).expect("finite values") {
                Decision::Continue { needed } => needed.unwrap_or(10).max(10),
                Decision::Enough { n, interval } | Decision::GaveUp { n, interval, .. } => {
                    break (n, interval);
                }
            };
            // In steps of four, as four workers would: the rule must not mind values beyond its answer.
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
