use netrig_stats::batch::BatchMeans;
use netrig_stats::fairness::jain;
use netrig_stats::interval::EstimationMethod;
use netrig_stats::stopping::{Precision, StoppingDecision, StoppingRule};
use netrig_stats::summary::Summary;
use netrig_stats::warmup::{Warmup, WarmupVerdict};

use crate::{Random, close, near};

#[test]
fn welford_keeps_the_digits_that_the_sum_of_squares_loses() {
    let summary = Summary::of(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]).unwrap();
    assert_eq!((summary.mean(), summary.variance()), (Some(1e9 + 10.0), Some(30.0)));
    assert_eq!((summary.min(), summary.max(), summary.n()), (Some(1e9 + 4.0), Some(1e9 + 16.0), 4));
    let empty = Summary::default();
    assert_eq!((empty.mean(), empty.variance(), empty.min()), (None, None, None));
}

#[test]
fn mser5_cuts_a_known_transient() {
    // An exponential approach to 10 with time constant 20 and noise of 1. After 100 values the distance from 10 is
    // 0.07.
    let mut random = Random(17);
    let values: Vec<f64> =
        (0..2000).map(|i| 10.0 - 10.0 * libm::exp(-f64::from(i) / 20.0) + random.normal()).collect();
    let warmup = Warmup::mser5(&values).unwrap();
    assert_eq!(warmup.verdict, WarmupVerdict::Steady);
    assert!((40..=150).contains(&warmup.discard), "cut {}", warmup.discard);
    let kept: Summary = warmup.keep(&values).iter().copied().collect();
    near(kept.mean().unwrap(), 10.0, 0.1);
}

#[test]
fn mser5_cuts_a_step_exactly_and_nothing_from_a_constant() {
    let step: Vec<f64> = (0..500).map(|i| if i < 60 { 5.0 } else { 1.0 + f64::from(i % 2) * 0.01 }).collect();
    assert_eq!(Warmup::mser5(&step), Ok(Warmup { discard: 60, verdict: WarmupVerdict::Steady }));
    assert_eq!(Warmup::mser5(&[3.0; 100]), Ok(Warmup { discard: 0, verdict: WarmupVerdict::Steady }));
}

#[test]
fn a_run_that_still_rises_is_too_short() {
    let rising: Vec<f64> = (0..200).map(f64::from).collect();
    assert_eq!(Warmup::mser5(&rising).unwrap().verdict, WarmupVerdict::RunTooShort);
    assert_eq!(Warmup::fixed(100, 51).unwrap().verdict, WarmupVerdict::RunTooShort);
    assert_eq!(Warmup::fixed(100, 50).unwrap(), Warmup { discard: 50, verdict: WarmupVerdict::Steady });
    assert!(Warmup::fixed(10, 10).is_err() && Warmup::mser5(&rising[..49]).is_err());
}

/// A first-order autoregression with mean 5 and correlation `phi` between consecutive values.
fn autoregression(phi: f64, n: usize, seed: u64) -> Vec<f64> {
    let mut random = Random(seed);
    let mut deviation = 0.0;
    let mut next = || {
        deviation = phi * deviation + random.normal();
        5.0 + deviation
    };
    (0..n).map(|_| next()).collect()
}

/// Batches of values that all have weight 1.
fn choose(values: &[f64]) -> BatchMeans {
    BatchMeans::choose_ratio(&values.iter().map(|value| (*value, 1.0)).collect::<Vec<_>>())
        .expect("enough values")
}

#[test]
fn batch_means_see_correlation_and_grow_until_it_is_gone() {
    let values = autoregression(0.9, 20_000, 23);
    let fine = BatchMeans::new(&values, 5000).unwrap();
    assert!(!fine.independent() && fine.lag1 > 0.5, "lag 1: {}", fine.lag1);
    let chosen = choose(&values);
    assert!(chosen.independent() && chosen.means.len() >= 10);
    let interval = chosen.interval(0.95).unwrap();
    assert!(interval.contains(5.0));
    assert_eq!((interval.n, interval.method), (chosen.means.len(), EstimationMethod::BatchMeans));
    let rising: Vec<f64> = (0..300).map(f64::from).collect();
    let short = choose(&rising);
    assert_eq!((short.means.len(), short.independent()), (10, false));
}

#[test]
fn batch_means_cover_the_mean_of_a_correlated_run() {
    let covered = (0..1000).filter(|seed| {
        let batches = choose(&autoregression(0.7, 4000, 1000 + seed * 31));
        batches.interval(0.95).unwrap().contains(5.0)
    });
    let covered = covered.count();
    assert!((915..=970).contains(&covered), "{covered} of 1000");
}

/// A ratio over all spans. Spans are weighted, all spans are used, and the coverage is that of a mean.
#[test]
fn batches_of_a_ratio_have_all_parts_by_their_weight() {
    let parts: Vec<_> = (0..23).map(|part| (f64::from(part * part), f64::from(part % 5))).collect();
    let [sum, weight] = [parts.iter().map(|part| part.0).sum::<f64>(), parts.iter().map(|part| part.1).sum()];
    let batches = BatchMeans::choose_ratio(&parts).unwrap();
    let mean = batches.means.iter().sum::<f64>() / batches.means.len() as f64;
    assert!((mean - sum / weight).abs() < 1e-9 && batches.left_over == 0, "{batches:?}");
    assert!(
        BatchMeans::choose_ratio(&parts[..9]).is_err()
            && BatchMeans::choose_ratio(&[(1.0, 0.0); 10]).is_err()
    );

    let covered = (0..1000).filter(|seed| {
        let values = autoregression(0.5, 1003, 1000 + seed * 31);
        let weighed = |(place, value): (usize, &f64)| {
            let weight = [1.0, 7.0, 3.0][place % 3];
            (value * weight, weight)
        };
        let parts: Vec<_> = values.iter().enumerate().map(weighed).collect();
        BatchMeans::choose_ratio(&parts).unwrap().interval(0.95).unwrap().contains(5.0)
    });
    let covered = covered.count();
    assert!((915..=970).contains(&covered), "{covered} of 1000");
}

#[test]
fn left_over_values_are_counted() {
    let batches = BatchMeans::new(&[1.0, 3.0, 2.0, 4.0, 6.0, 8.0, 9.0], 3).unwrap();
    assert_eq!((batches.means, batches.batch_size, batches.left_over), (vec![2.0, 3.0, 7.0], 2, 1));
}

#[test]
fn the_stopping_rule_stops_goes_on_and_gives_up() {
    let rule = StoppingRule::new(Precision::Relative(0.01), 0.95, 10, 20).unwrap();
    let wide: Vec<f64> = (0..30).map(|i| 10.0 + f64::from(i % 3)).collect();
    assert_eq!(rule.judge(&[]), Ok(StoppingDecision::Continue { needed: None }));
    let near: Vec<f64> = (0..10).map(|i| 10.0 + 0.01 * f64::from(i % 2)).collect();
    assert_eq!(rule.judge(&near[..9]), Ok(StoppingDecision::Continue { needed: Some(10) }));
    assert!(matches!(rule.judge(&near), Ok(StoppingDecision::Enough { n: 10, .. })));
    // Equal values do not show how far away other values may be.
    assert_eq!(rule.judge(&[10.0; 9]), Ok(StoppingDecision::Continue { needed: Some(10) }));
    assert_eq!(rule.judge(&[10.0; 10]), Ok(StoppingDecision::Continue { needed: None }));
    assert!(matches!(rule.judge(&[10.0; 20]), Ok(StoppingDecision::GaveUp { n: 20, needed: None, .. })));
    // With sd 0.84 and half width 0.11, t^2 (0.84 / 0.11)^2 is about 225.
    let Ok(StoppingDecision::GaveUp { n: 20, needed: Some(needed), .. }) = rule.judge(&wide) else {
        panic!("{:?}", rule.judge(&wide))
    };
    assert!((200..=250).contains(&needed), "needed {needed}");
    assert!(StoppingRule::new(Precision::Relative(0.01), 0.95, 9, 20).is_err());
    assert!(StoppingRule::new(Precision::Relative(0.01), 0.95, 10, 9).is_err());
    assert!(StoppingRule::new(Precision::Absolute(0.0), 0.95, 10, 20).is_err());
}

#[test]
fn jain_of_the_paper() {
    // Jain, Chiu and Hawe: if k of n users share equally and the others get nothing, the index is k / n.
    close(jain(&[5.0, 5.0, 0.0, 0.0, 0.0]).unwrap(), 0.4, 1e-15);
    close(jain(&[50.0, 30.0, 50.0]).unwrap(), 16_900.0 / 17_700.0, 1e-14);
    assert!(jain(&[0.0, 0.0]).is_err() && jain(&[1.0, -1.0]).is_err() && jain(&[]).is_err());
}
