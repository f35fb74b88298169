//! The sequential test of a proportion compared with Wald's theory: worked values and simulation.

use netrig_stats::StatsError;
use netrig_stats::sequential::{Judgement, ProportionTest};

use crate::{Random, close, near};

/// Runs the test `runs` times on trials that fail with probability `share`. Returns the share of accepted runs and the
/// mean number of trials.
fn simulate(test: &ProportionTest, share: f64, runs: u64, seed: u64) -> (f64, f64) {
    let mut random = Random(seed);
    let (mut accepted, mut all) = (0, 0);
    for _ in 0..runs {
        let (mut failures, mut trials) = (0, 0);
        let judgement = loop {
            trials += 1;
            failures += u64::from(random.uniform() < share);
            match test.judge(failures, trials) {
                Judgement::Continue => {}
                judgement => break judgement,
            }
        };
        accepted += u64::from(judgement == Judgement::Accept);
        all += trials;
    }
    (accepted as f64 / runs as f64, all as f64 / runs as f64)
}

#[test]
fn the_bounds_are_those_of_wald_and_lines_in_the_plane_of_failures_and_trials() {
    let test = ProportionTest::new(0.1, 0.3, 0.02, 0.03).unwrap();
    let (accept, reject) = test.bounds();
    near(accept, -3.486_355, 1e-6); // ln(0.03 / 0.98)
    near(reject, 3.881_564, 1e-6); // ln(0.97 / 0.02)
    // ln 3 for a failure, and ln(7/9) for a success.
    near(test.log_ratio(4, 10), 4.0 * 1.098_612_289 - 6.0 * 0.251_314_428, 1e-8);
    assert_eq!(test.fewest_clean(), 14);
    assert_eq!([test.judge(0, 13), test.judge(0, 14)], [Judgement::Continue, Judgement::Accept]);
    assert_eq!([test.judge(3, 3), test.judge(4, 4)], [Judgement::Continue, Judgement::Reject]);
}

#[test]
fn the_operating_characteristic_goes_through_the_two_shares() {
    let test = ProportionTest::new(0.0001, 0.001, 0.01, 0.05).unwrap();
    near(test.acceptance(0.0001).unwrap(), 0.99, 1e-9);
    near(test.acceptance(0.001).unwrap(), 0.05, 1e-9);
    assert_eq!([test.acceptance(0.0).unwrap(), test.acceptance(1.0).unwrap()], [1.0, 0.0]);
    let shares = [0.0001, 0.0002, 0.0003, 0.0004, 0.0006, 0.001, 0.002, 0.01];
    let accepted: Vec<_> = shares.iter().map(|share| test.acceptance(*share).unwrap()).collect();
    assert!(accepted.is_sorted_by(|a, b| a > b), "{accepted:?}");
    // At the share at which the log ratio has no drift, the probability is reject / (reject - accept).
    let still = {
        let (up, down) = (libm::log(10.0), libm::log1p(-0.001) - libm::log1p(-0.0001));
        -down / (up - down)
    };
    near(test.acceptance(still).unwrap(), 4.553_877 / (4.553_877 + 2.985_682), 1e-5);
    // The functions are smooth through this point.
    let beside = test.expected_trials(still * 1.0001).unwrap();
    close(test.expected_trials(still).unwrap(), beside, 1e-2);
    close(test.expected_trials(0.0).unwrap(), test.fewest_clean() as f64, 1e-3);
}

#[test]
fn errors_stay_within_walds_bounds_and_trials_near_the_expected() {
    let (alpha, beta, runs) = (0.05, 0.1, 20_000);
    let test = ProportionTest::new(0.02, 0.06, alpha, beta).unwrap();
    // Three standard errors of a simulated share.
    let slack = |p: f64| 3.0 * (p * (1.0 - p) / runs as f64).sqrt();
    let (good, trials_of_good) = simulate(&test, 0.02, runs, 1);
    assert!(1.0 - good <= alpha / (1.0 - beta) + slack(alpha), "rejects {} of the good", 1.0 - good);
    let (bad, trials_of_bad) = simulate(&test, 0.06, runs, 2);
    assert!(bad <= beta / (1.0 - alpha) + slack(beta), "accepts {bad} of the bad");
    assert!(1.0 - good + bad <= alpha + beta + slack(alpha) + slack(beta));
    // Wald's identity: the mean log ratio at the end is the drift times the mean number of trials. The log ratio ends
    // on a bound, or beyond it by less than one step. The simulation has a tolerance of 2 %.
    let ((accept, reject), up, down) = (test.bounds(), test.log_ratio(1, 1), test.log_ratio(0, 1));
    for (share, accepted, trials) in [(0.02, good, trials_of_good), (0.06, bad, trials_of_bad)] {
        let drift = share * up + (1.0 - share) * down;
        let ends = |accept: f64, reject: f64| (accepted * accept + (1.0 - accepted) * reject) / drift;
        let (one, other) = (ends(accept + down, reject), ends(accept, reject + up));
        let (least, most) = (0.98 * one.min(other), 1.02 * one.max(other));
        assert!(least <= trials && trials <= most, "{trials}, not {least} to {most}");
    }
    // The good share is accepted in many small steps, so Wald's approximation is close.
    close(trials_of_good, test.expected_trials(0.02).unwrap(), 0.1);
}

#[test]
fn the_test_of_99_9_per_cent_keeps_its_errors_and_needs_about_as_many_calls_as_theory_says() {
    let (alpha, beta, runs) = (0.01, 0.05, 2_000);
    let test = ProportionTest::new(0.0001, 0.001, alpha, beta).unwrap();
    let slack = |p: f64| 3.0 * (p * (1.0 - p) / runs as f64).sqrt();
    let (accepted, trials) = simulate(&test, 0.0001, runs, 3);
    assert!(1.0 - accepted <= alpha / (1.0 - beta) + slack(alpha), "rejects {} of the good", 1.0 - accepted);
    let expected = test.expected_trials(0.0001).unwrap();
    assert!((trials / expected - 1.0).abs() < 0.1, "{trials} for {expected}");
    let (accepted, _) = simulate(&test, 0.001, runs, 4);
    assert!(accepted <= beta / (1.0 - alpha) + slack(beta), "accepts {accepted} of the bad");
    // Between the good and the bad share, compared with the operating characteristic.
    let (accepted, _) = simulate(&test, 0.0004, runs, 5);
    near(accepted, test.acceptance(0.0004).unwrap(), 0.08);
}

#[test]
fn what_makes_no_test_is_refused() {
    let refused = |good, bad, alpha, beta| {
        assert!(matches!(ProportionTest::new(good, bad, alpha, beta), Err(StatsError::OutOfRange { .. })));
    };
    refused(0.0, 0.1, 0.05, 0.05);
    refused(0.1, 0.1, 0.05, 0.05);
    refused(0.2, 0.1, 0.05, 0.05);
    refused(0.1, 1.0, 0.05, 0.05);
    refused(0.1, 0.2, 0.5, 0.5);
    refused(0.1, 0.2, f64::NAN, 0.5);
    let test = ProportionTest::new(0.1, 0.2, 0.05, 0.05).unwrap();
    assert!(test.acceptance(1.5).is_err() && test.expected_trials(f64::NAN).is_err());
}
