use netrig_stats::compare::{Alternative, knee, paired, paired_ratio, welch};
use netrig_stats::multiple::holm;

use crate::interval::DARWIN;
use crate::{Random, close, near};

const ZERO: [f64; 15] = [0.0; 15];

#[test]
fn paired_t_test_of_darwins_plants() {
    // Fisher (1935), The Design of Experiments, section 17: t = 2.148 with 14 degrees of freedom, p = 4.97 %.
    let test = paired(&DARWIN, &ZERO, 0.0, Alternative::TwoSided, 0.95).unwrap();
    close(test.statistic, 2.147_987_461_331_120_5, 1e-12);
    close(test.p_value.unwrap(), 0.049_702_944_021_800_87, 1e-10);
    let greater = paired(&DARWIN, &ZERO, 0.0, Alternative::Greater, 0.95).unwrap();
    close(greater.p_value.unwrap(), 0.049_702_944_021_800_87 / 2.0, 1e-10);
    let less = paired(&DARWIN, &ZERO, 0.0, Alternative::Less, 0.95).unwrap();
    close(less.p_value.unwrap(), 1.0 - 0.049_702_944_021_800_87 / 2.0, 1e-10);
}

#[test]
fn welch_matches_scipy() {
    let left = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
    let right = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4];
    let test = welch(&left, &right, 0.0, Alternative::TwoSided, 0.95).unwrap();
    close(test.statistic, -2.852_954_870_171_521_5, 1e-12);
    close(test.p_value.unwrap(), 0.008_071_938_172_194_903, 1e-10);
    close(test.interval.low.unwrap(), -4.868_022_741_791_966, 1e-11);
    close(test.interval.high.unwrap(), -0.798_643_924_874_697_9, 1e-10);
}

#[test]
fn ratio_test_is_the_t_test_of_the_weighted_difference() {
    let top = [10.2, 9.8, 11.1, 10.5, 9.9, 10.8];
    let bottom = [5.1, 4.7, 5.6, 5.3, 4.8, 5.5];
    let test = paired_ratio(&top, &bottom, 2.1, Alternative::Less, 0.95).unwrap();
    close(test.statistic, -4.115_511_534_230_679, 1e-10);
    close(test.p_value.unwrap(), 0.004_607_082_020_358_224, 1e-10);
    let negated = bottom.map(|b| -b);
    let mirrored = paired_ratio(&top, &negated, -2.1, Alternative::Greater, 0.95).unwrap();
    close(mirrored.p_value.unwrap(), 0.004_607_082_020_358_224, 1e-10);
}

#[test]
fn identical_runs_differ_by_nothing_and_one_run_says_nothing() {
    let same = paired(&[2.0; 5], &[2.0; 5], 0.0, Alternative::Greater, 0.95).unwrap();
    assert_eq!((same.p_value, same.interval.half_width()), (Some(0.5), Some(0.0)));
    let shifted = paired(&[3.0; 5], &[2.0; 5], 0.0, Alternative::Greater, 0.95).unwrap();
    assert_eq!(shifted.p_value, Some(0.0));
    let one = paired(&[3.0], &[2.0], 0.0, Alternative::Greater, 0.95).unwrap();
    assert_eq!((one.interval.estimate, one.interval.low, one.p_value), (1.0, None, None));
    assert_eq!(welch(&[3.0], &[2.0, 1.0], 0.0, Alternative::Greater, 0.95).unwrap().p_value, None);
}

#[test]
fn the_knee_of_a_bent_line_is_found() {
    let x: Vec<f64> = (0..10).map(f64::from).collect();
    let mut random = Random(11);
    let bent = |x: f64| if x < 6.3 { 2.0 * x } else { 12.6 - 1.0 * (x - 6.3) };
    let levels: Vec<Vec<f64>> =
        x.iter().map(|x| (0..12).map(|_| bent(*x) + 0.2 * random.normal()).collect()).collect();
    let found = knee(&x, &levels, 0.95).unwrap();
    near(found.location.estimate, 6.3, 0.1);
    assert!(found.location.contains(6.3) && found.location.half_width().unwrap() < 0.2);
    near(found.slope_before, 2.0, 0.05);
    near(found.slope_after, -1.0, 0.1);
    assert!(found.p_value.unwrap() < 1e-6);
    let single: Vec<Vec<f64>> = x.iter().map(|x| vec![bent(*x)]).collect();
    let one = knee(&x, &single, 0.95).unwrap();
    near(one.location.estimate, 6.3, 1e-9);
    assert_eq!((one.location.low, one.p_value), (None, None));
    assert!(knee(&x[..4], &levels[..4], 0.95).is_err());
}

#[test]
fn a_straight_line_has_no_knee_in_nineteen_of_twenty_curves() {
    let x: Vec<f64> = (0..8).map(f64::from).collect();
    let mut random = Random(5);
    let false_knees = (0..1000).filter(|_| {
        let shared: Vec<f64> = (0..10).map(|_| random.normal()).collect();
        let levels: Vec<Vec<f64>> =
            x.iter().map(|x| shared.iter().map(|s| 3.0 * x + s + random.normal()).collect()).collect();
        knee(&x, &levels, 0.95).unwrap().p_value.unwrap() < 0.05
    });
    let false_knees = false_knees.count();
    assert!((30..=70).contains(&false_knees), "{false_knees} of 1000");
}

/// The bend is in the middle of a gap or at a level of x, with few replications or with ten. The interval contains it
/// in 95 % of experiments, within the error of 2000 trials (0.05 + 3 √(0.05 · 0.95 / 2000) = 0.065).
#[test]
fn the_interval_of_a_knee_holds_it_however_few_replications_there_are() {
    let x: Vec<f64> = (0..7).map(f64::from).collect();
    for (replications, place) in [(2, 2.5), (2, 3.0), (3, 2.5), (3, 3.0), (10, 2.5), (10, 3.0)] {
        let mut random = Random(replications as u64 * 1000 + place as u64);
        let misses = (0..2000).filter(|_| {
            let shared: Vec<f64> = (0..replications).map(|_| random.normal()).collect();
            let y = |x: f64| (x - place).max(0.0) * 5.0;
            let levels: Vec<Vec<f64>> =
                x.iter().map(|x| shared.iter().map(|s| y(*x) + s + random.normal()).collect()).collect();
            !knee(&x, &levels, 0.95).unwrap().location.contains(place)
        });
        let share = misses.count() as f64 / 2000.0;
        println!("n = {replications}, knee at {place}: {share}");
        assert!(share <= 0.065, "n = {replications}, knee at {place}: {share}");
    }
}

#[test]
fn holm_steps_down() {
    // Holm's procedure by hand: 4 × 0.005, 3 × 0.01, 2 × 0.03, and no value is less than the previous one.
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]).unwrap();
    for (actual, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(*actual, expected, 1e-14);
    }
    assert_eq!(holm(&[0.9, 0.8]), Ok(vec![1.0, 1.0]));
    assert_eq!(holm(&[]), Ok(vec![]));
    assert!(holm(&[1.2]).is_err());
}
