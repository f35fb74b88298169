use netrig_stats::distribution::{Normal, StudentT};
use netrig_stats::fairness::jain;
use netrig_stats::interval::{skew_adjusted, student};
use netrig_stats::multiple::holm;
use netrig_stats::stopping::{Precision, StoppingDecision, StoppingRule};
use netrig_stats::summary::Summary;
use netrig_stats::theory::periodic_loss::PeriodicLoss;
use netrig_stats::warmup::Warmup;
use proptest::collection::vec;
use proptest::prelude::*;

/// Simulates periodic loss round by round. Returns the mean number of deliveries per round over `rounds` rounds.
fn played(loss_every: u64, b: u64, limit: u64, rounds: u64) -> f64 {
    let (mut window, mut clean, mut sent, mut lost) = (1, 0, 0, 0);
    for _ in 0..rounds {
        let hits = (sent + window) / loss_every - sent / loss_every;
        sent += window;
        lost += hits;
        if hits > 0 {
            (window, clean) = ((window / 2).max(1), 0);
        } else {
            clean += 1;
            if clean == b {
                (window, clean) = ((window + 1).min(limit), 0);
            }
        }
    }
    (sent - lost) as f64 / rounds as f64
}

proptest! {
    #[test]
    fn quantiles_invert_distribution_functions(p in 0.0001..0.9999_f64, df in 0.3..500.0_f64) {
        prop_assert!((Normal.cdf(Normal.quantile(p).unwrap()) - p).abs() < 1e-12);
        let t = StudentT::new(df).unwrap();
        prop_assert!((t.cdf(t.quantile(p).unwrap()) - p).abs() < 1e-11);
    }

    #[test]
    fn merging_summaries_equals_summing_all(a in vec(-1e3..1e3_f64, 0..50), b in vec(-1e3..1e3_f64, 1..50)) {
        let mut merged: Summary = a.iter().copied().collect();
        merged.merge(&b.iter().copied().collect());
        let whole: Summary = a.iter().chain(&b).copied().collect();
        prop_assert_eq!(merged.n(), whole.n());
        prop_assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
        prop_assert!((merged.mean().unwrap() - whole.mean().unwrap()).abs() < 1e-9);
        if whole.n() > 1 {
            prop_assert!((merged.variance().unwrap() - whole.variance().unwrap()).abs() < 1e-6);
        }
    }

    #[test]
    fn skew_adjusted_holds_the_student_interval(values in vec(-1e3..1e3_f64, 2..30)) {
        let (plain, adjusted) = (student(&values, 0.95).unwrap(), skew_adjusted(&values, 0.95).unwrap());
        prop_assert!(adjusted.low <= plain.low && adjusted.high >= plain.high);
    }

    #[test]
    fn the_stopping_rule_ignores_what_comes_after_its_answer(values in vec(5.0..15.0_f64, 10..80), width in 0.05..0.5_f64) {
        let rule = StoppingRule::new(Precision::Relative(width), 0.95, 10, 60).unwrap();
        let decision = rule.judge(&values).unwrap();
        if let StoppingDecision::Enough { n, interval } = decision {
            prop_assert!(n >= 10 && interval.relative_half_width().unwrap() <= width);
            prop_assert_eq!(rule.judge(&values[..n]).unwrap(), decision);
            prop_assert!(matches!(rule.judge(&values[..n - 1]).unwrap(), StoppingDecision::Continue { .. }), "stopped earlier");
        }
    }

    #[test]
    fn jain_lies_between_one_share_and_equal_shares(shares in vec(0.0..1e6_f64, 1..40)) {
        prop_assume!(shares.iter().any(|s| *s > 0.0));
        let index = jain(&shares).unwrap();
        prop_assert!(index >= 1.0 / shares.len() as f64 - 1e-12 && index <= 1.0 + 1e-12);
    }

    #[test]
    fn holm_keeps_the_order_and_never_lowers(p in vec(0.0..1.0_f64, 1..30)) {
        let adjusted = holm(&p).unwrap();
        for i in 0..p.len() {
            prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
            for j in 0..p.len() {
                prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
            }
        }
    }

    #[test]
    fn mser_cuts_at_whole_batches_inside_the_run(values in vec(-1e3..1e3_f64, 50..300)) {
        let warmup = Warmup::mser5(&values).unwrap();
        prop_assert!(warmup.discard.is_multiple_of(5) && warmup.keep(&values).len() >= 25);
    }

    #[test]
    fn the_cycle_of_periodic_loss_is_what_playing_it_out_gives(n in 2..400_u32, b in 1..4_u32, limit in 1..40_u32) {
        let exact = PeriodicLoss::new(n, b, limit).unwrap().cycle().delivered_per_round();
        let rounds = 40_000;
        let played = played(n.into(), b.into(), limit.into(), rounds);
        // The simulation starts from one segment and ends inside a cycle: the error is at most a few windows.
        prop_assert!((exact - played).abs() < 0.02 * exact, "{exact} but played {played}");
    }
}
