//! The stopping rule: whether a point has enough replications.

use netrig_stats::StatsError;
use netrig_stats::stopping::{self, Precision};

use super::{RunRecord, Validity};
use crate::Replications;

/// The decision on the next replications of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Replications 1 to n are needed, and some of them are still missing.
    More(u32),
    /// Replications 1 to n decide; later ones are ignored.
    Enough(u32),
    /// The maximum of n replications was run, and the interval is still too wide.
    Exhausted(u32),
}

impl Decision {
    /// The last replication that counts; `None` if more are needed.
    pub const fn last(self) -> Option<u32> {
        match self {
            Self::More(_) => None,
            Self::Enough(n) | Self::Exhausted(n) => Some(n),
        }
    }
}

/// Decides the number of replications of a point: a fixed number, or the smallest number with which the interval of a
/// response is narrow enough.
///
/// Replications are judged in the order 1 to n, not in the order in which they finish. So the number of workers does
/// not change which replications count.
#[derive(Clone, Debug, PartialEq)]
pub struct StoppingRule {
    min: u32,
    max: u32,
    until: Option<(String, stopping::StoppingRule)>,
}

impl StoppingRule {
    /// The rule that `[replications]` in a file describes.
    ///
    /// # Errors
    ///
    /// With `until`: a minimum below ten (an interval may be narrow by chance), a maximum below the minimum, or a half
    /// width of zero.
    pub fn new(replications: &Replications, confidence: f64) -> Result<Self, StatsError> {
        let until = match &replications.until {
            None => None,
            Some(precision) => {
                let wanted = Precision::Relative(precision.half_width.get());
                let (min, max) = (replications.min as usize, replications.max as usize);
                let rule = stopping::StoppingRule::new(wanted, confidence, min, max)?;
                Some((precision.response.clone(), rule))
            }
        };
        Ok(Self { min: replications.min, max: replications.max, until })
    }

    /// Whether the last of `runs` can change the decision about a point with `asked` requested replications. With a
    /// fixed number of replications, only two runs can change it: replication 1, because it may fail, and the last one.
    pub fn may_decide(&self, runs: &[RunRecord], asked: u32) -> bool {
        let is_first = runs.last().is_none_or(|run| run.replication == 1);
        self.until.is_some() || is_first || runs.len() >= asked as usize
    }

    /// The decision for the point with these runs. Runs may be in any order. If some are missing, only the replications
    /// before the first gap are judged. Invalid runs and runs without a value of the response are skipped, but count
    /// towards the maximum. If the first replication fails, no more are run, because they would most likely fail too.
    pub fn decide(&self, runs: &[RunRecord]) -> Decision {
        let mut ordered: Vec<&RunRecord> = runs.iter().collect();
        ordered.sort_by_key(|run| run.replication);
        ordered.dedup_by_key(|run| run.replication);
        let in_a_row = (1..).zip(&ordered).take_while(|(wanted, run)| run.replication == *wanted).count();
        let ended = u32::try_from(in_a_row).unwrap_or(u32::MAX).min(self.max);
        if ended > 0 && matches!(ordered[0].validity, Validity::Failed(_)) {
            return Decision::Enough(1);
        }
        if ended < self.min {
            return Decision::More(self.min);
        }
        let Some((response, rule)) = &self.until else { return Decision::Enough(self.min) };
        let measured: Vec<(u32, f64)> = ordered[..ended as usize]
            .iter()
            .filter_map(|run| Some((run.replication, run.value(response)?)))
            .collect();
        let values: Vec<f64> = measured.iter().map(|(_, value)| *value).collect();
        // If all runs are deterministic, they have the same value.
        if values.len() >= self.min as usize && ordered[..ended as usize].iter().all(|run| run.deterministic)
        {
            return Decision::Enough(measured[self.min as usize - 1].0);
        }
        let needed = match rule.judge(&values) {
            Ok(stopping::StoppingDecision::Enough { n, .. }) => {
                return Decision::Enough(measured[n - 1].0);
            }
            Ok(
                stopping::StoppingDecision::Continue { needed }
                | stopping::StoppingDecision::GaveUp { needed, .. },
            ) => needed,
            // `judge` refuses only values that are not finite.
            Err(_) => None,
        };
        if ended >= self.max {
            return Decision::Exhausted(self.max);
        }
        // The number grows by at most one half, because the estimate of the needed number is uncertain.
        let most = ended + ended.div_ceil(2);
        let needed = needed.and_then(|n| u32::try_from(n).ok()).unwrap_or(most);
        Decision::More(needed.clamp(ended + 1, most).min(self.max))
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn run(replication: u32, value: f64) -> RunRecord {
        let responses = [("r", value.into())].into_iter().collect();
        RunRecord { replication, seed: u64::from(replication), responses, ..RunRecord::default() }
    }

    fn rule(min: u32, max: u32, half_width: &str) -> StoppingRule {
        let until = Some(crate::Precision { response: "r".into(), half_width: half_width.parse().unwrap() });
        StoppingRule::new(&Replications { min, max, until }, 0.95).unwrap()
    }

    /// Values that alternate between 100 + `swing` and 100 − `swing`.
    fn swinging(n: u32, swing: f64) -> Vec<RunRecord> {
        (1..=n).map(|i| run(i, if i % 2 == 0 { 100.0 + swing } else { 100.0 - swing })).collect()
    }

    #[test]
    fn a_fixed_number_is_a_fixed_number() {
        let fixed = StoppingRule::new(&Replications { min: 5, max: 5, until: None }, 0.95).unwrap();
        assert_eq!(fixed.decide(&swinging(4, 1.0)), Decision::More(5));
        assert_eq!(fixed.decide(&swinging(5, 1.0)), Decision::Enough(5));
        assert_eq!(fixed.decide(&swinging(7, 1.0)), Decision::Enough(5));
    }

    #[test]
    fn a_rule_needs_ten() {
        let until = Some(crate::Precision { response: "r".into(), half_width: "2 %".parse().unwrap() });
        assert!(StoppingRule::new(&Replications { min: 5, max: 40, until }, 0.95).is_err());
    }

    /// With ±1 around 100 the half width at n = 10 is 2.262 · 1.054 / √10 = 0.75: below 2 %, far above 0.1 %.
    #[test]
    fn stops_when_it_is_narrow_enough() {
        assert_eq!(rule(10, 40, "2 %").decide(&swinging(10, 1.0)), Decision::Enough(10));
        assert_eq!(rule(10, 40, "2 %").decide(&swinging(30, 1.0)), Decision::Enough(10));
        assert_eq!(rule(10, 40, "0.1 %").decide(&swinging(10, 1.0)), Decision::More(15));
        assert_eq!(rule(10, 40, "0.1 %").decide(&swinging(40, 1.0)), Decision::Exhausted(40));
        assert_eq!(rule(10, 40, "0.1 %").decide(&swinging(55, 1.0)), Decision::Exhausted(40));
    }

    #[test]
    fn the_order_in_which_runs_finish_plays_no_part() {
        let mut runs = swinging(14, 1.0);
        runs.reverse();
        assert_eq!(rule(10, 40, "2 %").decide(&runs), Decision::Enough(10));
        // Replication 3 has not finished: only 1 and 2 can be judged.
        runs.retain(|run| run.replication != 3);
        assert_eq!(rule(10, 40, "2 %").decide(&runs), Decision::More(10));
    }

    #[test]
    fn runs_that_do_not_count_use_the_budget_up() {
        let mut runs = swinging(12, 1.0);
        let invalid = || Validity::Invalid("the CPU was busy".into());
        runs[0].validity = invalid();
        runs[4].responses = [("r", crate::MeasuredValue::not("no data arrived"))].into_iter().collect();
        assert_eq!(rule(10, 40, "2 %").decide(&runs), Decision::Enough(12));
        assert_eq!(rule(10, 40, "2 %").decide(&runs[..11]), Decision::More(12));
        let none: Vec<RunRecord> =
            (1..=40).map(|i| RunRecord { validity: invalid(), ..run(i, 1.0) }).collect();
        assert_eq!(rule(10, 40, "2 %").decide(&none), Decision::Exhausted(40));
    }

    /// Ten equal values of random runs give no interval. Ten deterministic runs are enough.
    #[test]
    fn runs_that_could_not_differ_are_enough() {
        for value in [0.0, 100.0] {
            let alike: Vec<RunRecord> = (1..=40).map(|i| run(i, value)).collect();
            assert_eq!(rule(10, 40, "2 %").decide(&alike[..10]), Decision::More(15));
            assert_eq!(rule(10, 40, "2 %").decide(&alike), Decision::Exhausted(40));
            let certain: Vec<RunRecord> =
                alike.into_iter().map(|run| RunRecord { deterministic: true, ..run }).collect();
            assert_eq!(rule(10, 40, "2 %").decide(&certain[..10]), Decision::Enough(10));
        }
    }
}
