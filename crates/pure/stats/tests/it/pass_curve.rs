//! Pass curves: calibration with curves drawn from their own prior, known curves, and trials that pass or fail by
//! chance.

use netrig_stats::StatsError;
use netrig_stats::fit::{CredibleLevel, pass_curve};

use crate::{Random, close};

/// Draws a trial at `level`. The curve is given by the level at which half pass, its steepness and its share of
/// failures by chance.
fn passes(random: &mut Random, level: f64, (half, slope, lapse): (f64, f64, f64)) -> bool {
    let pass = 0.01 + (0.99 - lapse) / (1.0 + libm::exp(slope * libm::log(level / half)));
    random.uniform() < pass
}

fn holds(interval: CredibleLevel, level: f64) -> bool {
    interval.low <= level && level <= interval.high
}

/// A 95 % interval contains the true level in 95 % of the curves drawn from the prior, whatever the levels of the
/// trials. This is 570 of 600 curves, and three standard deviations are 16.
#[test]
fn the_intervals_of_a_pass_curve_hold_as_often_as_they_say() {
    let mut random = Random(5);
    let (mut draws, mut half, mut most) = (0, 0, 0);
    while draws < 600 {
        let middle = 1000.0 * libm::exp(0.6 * random.uniform() - 0.3);
        let slope = 120.0 * libm::exp(libm::log(2.2) * random.normal().clamp(-2.5, 2.5));
        let lapse = match random.uniform() {
            ..0.5 => 0.01,
            0.5..0.8 => 0.05,
            _ => 0.15,
        };
        let trials: Vec<_> = (0..14)
            .map(|nth| 1000.0 * libm::exp(0.1 * (f64::from(nth) - 6.5)))
            .map(|level| (level, passes(&mut random, level, (middle, slope, lapse))))
            .collect();
        let curve = pass_curve(&trials, 0.95).unwrap();
        draws += 1;
        half += u32::from(holds(curve.half, middle));
        most += u32::from(holds(curve.most, middle * libm::exp(-libm::log(19.0) / slope)));
    }
    assert!(half >= 554, "half: {half} of {draws}");
    assert!(most >= 554, "95 %: {most} of {draws}");
}

#[test]
fn many_trials_find_a_known_curve() {
    let mut random = Random(11);
    let known = (500.0, 60.0, 0.01);
    let trials: Vec<_> = (0..3000)
        .map(|_| {
            let level = 500.0 * libm::exp(0.4 * random.uniform() - 0.2);
            (level, passes(&mut random, level, known))
        })
        .collect();
    let curve = pass_curve(&trials, 0.95).unwrap();
    close(curve.half.value, 500.0, 0.005);
    close(curve.most.value, 500.0 * libm::exp(-libm::log(19.0) / 60.0), 0.01);
}

#[test]
fn one_trial_by_chance_moves_neither_level_by_much() {
    let clean = [
        (100.0, true),
        (200.0, true),
        (400.0, false),
        (290.0, false),
        (240.0, true),
        (265.0, false),
        (250.0, true),
    ];
    let before = pass_curve(&clean, 0.95).unwrap();
    for (level, passed) in [(100.0, false), (200.0, false), (400.0, true)] {
        let after = pass_curve(&[&clean[..], &[(level, passed)]].concat(), 0.95).unwrap();
        close(after.half.value, before.half.value, 0.04);
        close(after.most.value, before.most.value, 0.04);
    }
}

#[test]
fn a_pass_curve_scales_with_its_levels() {
    let trials = [(1.0, true), (2.0, false), (1.4, true), (1.7, false)];
    let of = |factor: f64| pass_curve(&trials.map(|(level, passed)| (level * factor, passed)), 0.9).unwrap();
    close(of(3000.0).half.high, 3000.0 * of(1.0).half.high, 1e-9);
    close(of(3000.0).most.low, 3000.0 * of(1.0).most.low, 1e-9);
}

#[test]
fn trials_that_make_no_pass_curve_are_refused() {
    for trials in [&[][..], &[(1.0, true), (2.0, true)], &[(1.0, false)]] {
        assert!(matches!(pass_curve(trials, 0.95), Err(StatsError::NoSpread { .. })));
    }
    assert!(matches!(pass_curve(&[(0.0, true), (1.0, false)], 0.95), Err(StatsError::OutOfRange { .. })));
    assert!(pass_curve(&[(1.0, true), (2.0, false)], 1.0).is_err());
}
