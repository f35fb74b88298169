use netrig_stats::StatsError;
use netrig_stats::distribution::StudentT;
use netrig_stats::interval::{Bootstrap, EstimationMethod, paired_ratio, skew_adjusted, student, wilson};
use netrig_stats::power;
use netrig_stats::quantile::{self, median, quantile};

use crate::{close, near};

/// Darwin's (1876) differences in height of 15 pairs of cross- and self-fertilised plants, in eighths of an
/// inch.
pub const DARWIN: [f64; 15] =
    [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn student_interval_of_darwins_plants() {
    let interval = student(&DARWIN, 0.95).unwrap();
    close(interval.estimate, 314.0 / 15.0, 1e-14);
    close(interval.low.unwrap(), 0.031_193_318_392_979_563, 1e-10);
    close(interval.high.unwrap(), 41.835_473_348_273_69, 1e-12);
    assert_eq!((interval.n, interval.method), (15, EstimationMethod::Student));
}

#[test]
fn one_value_has_no_ends() {
    for interval in [student(&[3.0], 0.95), skew_adjusted(&[3.0], 0.95), paired_ratio(&[3.0], &[1.0], 0.95)] {
        let interval = interval.unwrap();
        assert_eq!((interval.estimate, interval.low, interval.high), (3.0, None, None));
        assert!(interval.contains(1e9) && !interval.lies_within(0.0, 10.0));
    }
}

#[test]
fn wrong_samples_are_refused() {
    assert_eq!(student(&[], 0.95), Err(StatsError::TooFew { needed: 1, got: 0 }));
    assert_eq!(student(&[1.0, f64::NAN], 0.95), Err(StatsError::NotFinite { index: 1 }));
    assert!(matches!(student(&[1.0, 2.0], 1.0), Err(StatsError::OutOfRange { what: "confidence", .. })));
    let lengths = StatsError::LengthsDiffer { left: 2, right: 1 };
    assert_eq!(paired_ratio(&[1.0, 2.0], &[1.0], 0.95), Err(lengths));
}

#[test]
fn skew_adjustment_only_widens_and_leans_to_the_long_tail() {
    let waiting = [0.2, 0.3, 0.5, 0.6, 0.8, 1.1, 1.5, 2.2, 3.9, 7.5];
    let (plain, adjusted) = (student(&waiting, 0.95).unwrap(), skew_adjusted(&waiting, 0.95).unwrap());
    assert_eq!(adjusted.low, plain.low);
    assert!(adjusted.high > plain.high);
    let symmetric = [1.0, 2.0, 3.0, 4.0, 5.0];
    close(
        skew_adjusted(&symmetric, 0.95).unwrap().high.unwrap(),
        student(&symmetric, 0.95).unwrap().high.unwrap(),
        1e-12,
    );
}

#[test]
fn wilson_matches_scipy() {
    let interval = wilson(8, 10, 0.95).unwrap();
    close(interval.low.unwrap(), 0.490_162_471_536_641_8, 1e-12);
    close(interval.high.unwrap(), 0.943_317_848_545_624_8, 1e-12);
    let none = wilson(0, 20, 0.95).unwrap();
    assert_eq!(none.low, Some(0.0));
    close(none.high.unwrap(), 0.161_125_158_052_819_35, 1e-12);
    assert!(wilson(0, 0, 0.95).is_err() && wilson(3, 2, 0.95).is_err());
}

#[test]
fn fieller_matches_a_root_search_over_t_tests() {
    let top = [10.2, 9.8, 11.1, 10.5, 9.9, 10.8];
    let bottom = [5.1, 4.7, 5.6, 5.3, 4.8, 5.5];
    let ratio = paired_ratio(&top, &bottom, 0.95).unwrap();
    close(ratio.estimate, 2.009_677_419_354_838_3, 1e-12);
    close(ratio.low.unwrap(), 1.962_934_967_539_802_5, 1e-10);
    close(ratio.high.unwrap(), 2.063_497_793_398_176, 1e-10);
}

#[test]
fn a_denominator_around_zero_leaves_the_ratio_open() {
    let ratio = paired_ratio(&[1.0, 2.0, 3.0], &[-1.0, 2.0, 0.5], 0.95).unwrap();
    assert_eq!((ratio.low, ratio.high), (None, None));
    assert!(paired_ratio(&[1.0, 2.0], &[-1.0, 1.0], 0.95).is_err());
}

#[test]
fn bootstrap_matches_scipy_with_200_000_resamples() {
    // SciPy uses plain percentiles, this crate uses expanded ones. They are compared at confidences that give equal
    // percentiles.
    let plain = |n: f64, z: f64| {
        let t = z * ((n - 1.0) / n).sqrt();
        1.0 - 2.0 * StudentT::new(n - 1.0).unwrap().upper(t)
    };
    // SciPy: percentile 1.40 to 38.13, BCa -1.67 to 36.27. An end is a mean of 15
    // whole numbers, so it is a multiple of 1/15.
    let bootstrap = Bootstrap { seed: 1, resamples: 200_000 };
    let confidence = plain(15.0, 1.959_963_984_540_054);
    let percentile = bootstrap.percentile(&DARWIN, confidence, mean).unwrap();
    near(percentile.low.unwrap(), 1.40, 0.3);
    near(percentile.high.unwrap(), 38.13, 0.3);
    let bca = bootstrap.bca(&DARWIN, confidence, mean).unwrap();
    near(bca.low.unwrap(), -1.67, 0.3);
    near(bca.high.unwrap(), 36.27, 0.3);
    let skewed = [0.2, 0.3, 0.5, 0.6, 0.8, 1.1, 1.5, 2.2, 3.9, 7.5];
    let bca = bootstrap.bca(&skewed, plain(10.0, 1.644_853_626_951_472_2), mean).unwrap();
    near(bca.low.unwrap(), 1.02, 0.03);
    near(bca.high.unwrap(), 3.54, 0.08);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let draw = |seed| Bootstrap::new(seed).bca(&DARWIN, 0.95, mean).unwrap();
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn quantiles_are_type_seven() {
    // R: quantile(c(1, 2, 4, 8, 16), c(0.1, 0.25, 0.5, 0.9), type = 7)
    let values = [16.0, 1.0, 8.0, 2.0, 4.0];
    for (p, expected) in [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.5, 4.0), (0.9, 12.8), (1.0, 16.0)] {
        close(quantile(&values, p).unwrap(), expected, 1e-14);
    }
    assert_eq!(median(&[1.0, 2.0]), Ok(1.5));
    assert!(quantile(&values, 1.1).is_err());
}

#[test]
fn order_statistics_bound_the_median() {
    // Conover's table: n = 20, 95 %: the 6th and the 15th value.
    let values: Vec<f64> = (1..=20).map(f64::from).collect();
    let interval = quantile::interval(&values, 0.5, 0.95).unwrap();
    assert_eq!((interval.estimate, interval.low, interval.high), (10.5, Some(6.0), Some(15.0)));
    // For five values both tails together have 2 (1/2)^5 = 6 %, so no 95 % interval exists. For six values it is 3 %.
    let five = quantile::interval(&values[..5], 0.5, 0.95).unwrap();
    assert_eq!((five.low, five.high), (None, None));
    let six = quantile::interval(&values[..6], 0.5, 0.95).unwrap();
    assert_eq!((six.low, six.high), (Some(1.0), Some(6.0)));
    // 1 - 0.99^368 = 0.9752: 368 is the first n at which the largest value bounds the 99th percentile with 97.5 %.
    let many: Vec<f64> = (1..=368).map(f64::from).collect();
    assert_eq!(quantile::interval(&many, 0.99, 0.95).unwrap().high, Some(368.0));
    assert_eq!(quantile::interval(&many[..367], 0.99, 0.95).unwrap().high, None);
}

#[test]
fn sample_sizes_of_the_textbooks() {
    // G*Power: paired t, d = 0.5, two-sided 5 %, power 80 %: 34 pairs; one-sided: 27.
    assert_eq!(power::for_difference(1.0, 0.5, 0.025, 0.8), Ok(34));
    assert_eq!(power::for_difference(1.0, 0.5, 0.05, 0.8), Ok(27));
    // t(0.975, 17) / sqrt(18) = 0.4973 and t(0.975, 16) / sqrt(17) = 0.5142.
    assert_eq!(power::for_half_width(1.0, 0.5, 0.95), Ok(18));
    assert_eq!(power::for_half_width(0.0, 0.5, 0.95), Ok(2));
    // With normal quantiles (1.645 + 1.282)^2 / 0.25 = 34.3. Student's quantiles increase the result by one or two.
    let equivalence = power::for_equivalence(1.0, 0.0, 0.5, 0.05, 0.8).unwrap();
    assert!((35..=37).contains(&equivalence), "{equivalence}");
    assert!(power::for_equivalence(1.0, 0.5, 0.5, 0.05, 0.8).is_err());
    assert_eq!(power::for_half_width(1e9, 1e-9, 0.95), Ok(power::MOST));
}
