//! One comparison: the size of an effect, its confidence interval, and the test whether the effect lies in the claimed
//! region.

use netrig_stats::compare::{self, Alternative};
use netrig_stats::interval::{EqualValues, EstimationMethod};
use netrig_stats::summary::Summary;
use netrig_stats::{Interval, StatsError, power};

use super::extremes::Extremes;
use super::sample::{Nature, Sample, has_spread, largest};
use crate::{ClaimVerdict, Derivation};

/// The estimated quantity, over the replications that both operands have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contrast<'a> {
    /// The value itself.
    Value(&'a Sample),
    /// The first minus the second.
    Difference(&'a Sample, &'a Sample),
    /// The first divided by the second.
    Ratio(&'a Sample, &'a Sample),
}

/// An estimate with a test against any value.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    /// The estimate with its two-sided interval.
    pub interval: Interval,
    test: EffectTest,
}

/// A p-value, raised above 0, because the value 0 is reserved for deterministic results.
pub(super) fn tested(p: f64) -> f64 {
    p.max(f64::MIN_POSITIVE)
}

/// Whether a test is significant: there is a p-value, and it is at most `level`.
pub(super) fn passes(p: Option<f64>, level: f64) -> bool {
    // The tolerance is for rounding: 1 − 0.95 is not exactly 0.05.
    p.is_some_and(|p| p <= level + 1e-12)
}

#[derive(Clone, Debug)]
enum EffectTest {
    /// Student's t over one number per replication.
    Mean(Vec<f64>),
    /// Student's t over `left − null · right`.
    Ratio(Vec<f64>, Vec<f64>),
    /// Student's t over the contrasts of which the estimate is the extreme.
    Extremes(Extremes),
    /// Deterministic replications that gave the same value: there is nothing to test.
    Certain,
    /// Random replications that gave the same value.
    EqualValues(EqualValues),
}

impl Effect {
    /// Estimates a contrast.
    ///
    /// # Errors
    /// No common replication, or a ratio to a mean of zero.
    pub(crate) fn new(contrast: Contrast<'_>, confidence: f64) -> Result<Self, StatsError> {
        match contrast {
            Contrast::Value(sample) if sample.is_extreme() => {
                Self::extremes(Extremes::new(sample, None, &sample.replications()), confidence)
            }
            Contrast::Value(sample) if sample.derivation() == Derivation::Ratio => {
                let (left, right) = sample.operands(&sample.replications());
                Self::ratio(left, right, sample.nature(), confidence)
            }
            Contrast::Value(sample) => {
                let values = sample.values(&sample.replications());
                let magnitude = largest(&values);
                Self::mean(values, magnitude, sample.nature(), confidence)
            }
            Contrast::Difference(left, right) if left.is_extreme() || right.is_extreme() => {
                Self::extremes(Extremes::new(left, Some(right), &left.shared(right)), confidence)
            }
            Contrast::Difference(left, right) => {
                let shared = left.shared(right);
                let (a, b) = (left.values(&shared), right.values(&shared));
                let magnitude = largest(&a).max(largest(&b));
                let differences = a.iter().zip(&b).map(|(a, b)| a - b).collect();
                Self::mean(differences, magnitude, left.nature().less(right.nature()), confidence)
            }
            Contrast::Ratio(left, right) => {
                let shared = left.shared(right);
                let nature = left.nature().with(right.nature());
                Self::ratio(left.values(&shared), right.values(&shared), nature, confidence)
            }
        }
    }

    /// The effect with one number per replication. `magnitude` is the largest absolute value from which the numbers
    /// were computed.
    fn mean(values: Vec<f64>, magnitude: f64, nature: Nature, confidence: f64) -> Result<Self, StatsError> {
        let interval = netrig_stats::interval::student(&values, confidence)?;
        let summary: Summary = values.iter().copied().collect();
        if interval.n < 2 || has_spread(summary.sd(), magnitude) {
            return Ok(Self { interval, test: EffectTest::Mean(values) });
        }
        if nature.deterministic {
            return Ok(Self { interval: exactly(interval), test: EffectTest::Certain });
        }
        // Takes the first value, because by rounding, the mean may differ from the equal values in its last digit.
        let alike = EqualValues::new(values[0], values.len(), nature.range)?;
        Ok(Self { interval: alike.interval(confidence)?, test: EffectTest::EqualValues(alike) })
    }

    fn ratio(left: Vec<f64>, right: Vec<f64>, nature: Nature, confidence: f64) -> Result<Self, StatsError> {
        let interval = netrig_stats::interval::paired_ratio(&left, &right, confidence)?;
        let rest: Summary = left.iter().zip(&right).map(|(a, b)| a - interval.estimate * b).collect();
        if interval.n < 2 || has_spread(rest.sd(), largest(&left)) {
            return Ok(Self { interval, test: EffectTest::Ratio(left, right) });
        }
        if nature.deterministic {
            return Ok(Self { interval: exactly(interval), test: EffectTest::Certain });
        }
        let unknown = EqualValues::new(interval.estimate, interval.n, None)?;
        Ok(Self { interval: unknown.interval(confidence)?, test: EffectTest::EqualValues(unknown) })
    }

    fn extremes(extremes: Extremes, confidence: f64) -> Result<Self, StatsError> {
        Ok(Self { interval: extremes.interval(confidence)?, test: EffectTest::Extremes(extremes) })
    }

    /// Number of replications.
    pub(crate) fn n(&self) -> usize {
        self.interval.n
    }

    /// The one-sided p-value of the alternative `side`, against the hypothesis that the true value is `null` or lies on
    /// the other side of it. `None` for one replication, and for equal values of random replications that decide
    /// nothing.
    ///
    /// For deterministic values, the p-value is 0 or 1, or `at_null` if the value is exactly `null`.
    fn p(&self, null: f64, side: Alternative, at_null: f64) -> Option<f64> {
        if self.n() < 2 {
            return None;
        }
        match &self.test {
            EffectTest::Mean(values) => {
                let zeros = vec![0.0; values.len()];
                compare::paired(values, &zeros, null, side, self.interval.confidence)
                    .ok()?
                    .p_value
                    .map(tested)
            }
            EffectTest::Ratio(left, right) => {
                compare::paired_ratio(left, right, null, side, self.interval.confidence)
                    .ok()?
                    .p_value
                    .map(tested)
            }
            EffectTest::Extremes(extremes) if extremes.deterministic() => extremes.p(null, side, at_null),
            EffectTest::Extremes(extremes) => extremes.p(null, side, at_null).map(tested),
            EffectTest::Certain => {
                let beyond =
                    if side == Alternative::Greater { self.distance(null) } else { -self.distance(null) };
                Some(if beyond > 0.0 {
                    0.0
                } else if beyond < 0.0 {
                    1.0
                } else {
                    at_null
                })
            }
            EffectTest::EqualValues(alike) => alike.p_value(null, side).map(tested),
        }
    }

    /// Number of contrasts of which the estimate is the extreme; 1 for a plain estimate.
    fn looked_at(&self) -> usize {
        if let EffectTest::Extremes(extremes) = &self.test { extremes.looked_at() } else { 1 }
    }

    fn distance(&self, null: f64) -> f64 {
        self.interval.estimate - null
    }

    /// The standard deviation of one replication's contribution to the estimate, when tested against `null`. `None` if
    /// it is unknown, as for one replication.
    fn spread(&self, null: f64) -> Option<f64> {
        match &self.test {
            EffectTest::Mean(values) => values.iter().copied().collect::<Summary>().sd(),
            EffectTest::Ratio(left, right) => {
                let rest: Summary = left.iter().zip(right).map(|(a, b)| a - null * b).collect();
                let scale = right.iter().copied().collect::<Summary>().mean()?.abs();
                rest.sd().map(|sd| sd / scale)
            }
            EffectTest::Extremes(extremes) => extremes.sd(),
            EffectTest::Certain => Some(0.0),
            EffectTest::EqualValues(_) => None,
        }
    }
}

impl Sample {
    /// The estimate with its interval. The interval has no ends if all random replications have the same value.
    ///
    /// # Errors
    /// No replication, or a ratio to a mean of zero.
    pub(crate) fn interval(&self, confidence: f64) -> Result<Interval, StatsError> {
        let interval = Effect::new(Contrast::Value(self), confidence)?.interval;
        let ends = interval
            .low
            .zip(interval.high)
            .filter(|_| interval.method != EstimationMethod::EqualValues)
            .unzip();
        Ok(Interval { low: ends.0, high: ends.1, ..interval })
    }
}

/// The interval with a width of zero.
fn exactly(interval: Interval) -> Interval {
    Interval { low: Some(interval.estimate), high: Some(interval.estimate), ..interval }
}

/// The range that a claim states for an effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Region {
    /// Above a value.
    Above(f64),
    /// Below a value.
    Below(f64),
    /// From one value to another, both included.
    Inside(f64, f64),
}

/// The result of testing "the effect lies in the region".
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RegionTest {
    /// p-value of the test that the effect lies in the region; `None` at one replication.
    pub p: Option<f64>,
    /// p-value of the test that the effect lies outside the region.
    pub p_against: Option<f64>,
}

impl Region {
    /// The ends of the region; `None` for an open end.
    pub(crate) const fn ends(self) -> [Option<f64>; 2] {
        match self {
            Self::Above(low) => [Some(low), None],
            Self::Below(high) => [None, Some(high)],
            Self::Inside(low, high) => [Some(low), Some(high)],
        }
    }

    /// Tests an effect.
    ///
    /// A test of `Above` or `Below` may support or refute, so it is two-sided: supported means that the whole
    /// interval lies in the region. `Inside` uses Schuirmann's (1987) two one-sided tests.
    pub(crate) fn test(self, effect: &Effect) -> RegionTest {
        use Alternative::{Greater, Less};
        let both_ways = |p: Option<f64>| p.map(|p| (2.0 * p).min(1.0));
        match self {
            Self::Above(null) => RegionTest {
                p: both_ways(effect.p(null, Greater, 1.0)),
                p_against: both_ways(effect.p(null, Less, 0.0)),
            },
            Self::Below(null) => RegionTest {
                p: both_ways(effect.p(null, Less, 1.0)),
                p_against: both_ways(effect.p(null, Greater, 0.0)),
            },
            Self::Inside(low, high) => {
                let above = effect.p(low, Greater, 0.0).zip(effect.p(high, Less, 0.0)).map(|(a, b)| a.max(b));
                let outside =
                    effect.p(low, Less, 1.0).zip(effect.p(high, Greater, 1.0)).map(|(a, b)| a.min(b));
                RegionTest { p: above, p_against: both_ways(outside) }
            }
        }
    }

    /// The number of replications with which a test at `level` would decide with a probability of 80 %, if the estimate
    /// were the true value. `None` if the estimate lies exactly on the border.
    pub(crate) fn needs(self, effect: &Effect, level: f64) -> Option<usize> {
        const POWER: f64 = 0.8;
        let estimate = effect.interval.estimate;
        let level = level / effect.looked_at() as f64;
        let one_border = |null: f64| {
            if let EffectTest::EqualValues(alike) = &effect.test {
                return alike.needed(null, 0.5 * level);
            }
            let distance = (estimate - null).abs();
            let sd = effect.spread(null)?;
            power::for_difference(sd, distance, 0.5 * level, POWER).ok()
        };
        let needed = match self {
            Self::Above(null) | Self::Below(null) => one_border(null),
            Self::Inside(low, _) if estimate <= low => one_border(low),
            Self::Inside(_, high) if estimate >= high => one_border(high),
            Self::Inside(low, high) => {
                let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
                if let EffectTest::EqualValues(alike) = &effect.test {
                    let both = alike.needed(low, level)?.max(alike.needed(high, level)?);
                    return Some(both.max(effect.n() + 1));
                }
                let sd = effect.spread(middle)?;
                power::for_equivalence(sd, estimate - middle, half, level, POWER).ok()
            }
        };
        needed.map(|n| n.max(effect.n() + 1))
    }
}

impl RegionTest {
    /// This result under the condition that the test `other` has a significant result in either direction. If several
    /// tests must all reject, the largest p-value counts (Berger 1982).
    pub(crate) fn and_surely(self, other: Self) -> Self {
        let decided = other.p.zip(other.p_against).map(|(p, against)| p.min(against));
        let both = |p: Option<f64>| p.zip(decided).map(|(p, decided)| p.max(decided));
        Self { p: both(self.p), p_against: both(self.p_against) }
    }

    /// The verdict on this comparison alone.
    pub(crate) fn verdict(self, level: f64) -> ClaimVerdict {
        if passes(self.p, level) {
            ClaimVerdict::Supported
        } else if passes(self.p_against, level) {
            ClaimVerdict::Refuted
        } else {
            ClaimVerdict::Inconclusive
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::sample::PointValues;

    fn values(values: &[f64], nature: Nature) -> PointValues {
        PointValues { by_replication: (1..).zip(values.iter().copied()).collect(), nature }
    }

    /// A sample of random values.
    fn sample(of: &[f64]) -> Sample {
        Sample::plain(&values(of, Nature::default()))
    }

    fn value(values: &[f64]) -> Effect {
        Effect::new(Contrast::Value(&sample(values)), 0.95).unwrap()
    }

    /// Differences 1, 2, 3: mean 2, sd 1, error 1/√3, t = 2√3 = 3.4641 with 2 degrees of freedom. For 2
    /// degrees of freedom P(T > t) = 1/2 − t / (2 √(2 + t²)), so the two-sided p-value is 1 − t/√(2 + t²) =
    /// 0.0742.
    #[test]
    fn a_difference_is_a_paired_t_test() {
        let (a, b) = (sample(&[11.0, 22.0, 33.0]), sample(&[10.0, 20.0, 30.0]));
        let effect = Effect::new(Contrast::Difference(&a, &b), 0.95).unwrap();
        assert_eq!(effect.interval.estimate, 2.0);
        let t: f64 = 12.0f64.sqrt();
        let p = Region::Above(0.0).test(&effect).p.unwrap();
        assert!((p - (1.0 - t / (2.0 + t * t).sqrt())).abs() < 1e-12, "{p}");
    }

    #[test]
    fn the_interval_decides_above_and_below() {
        let effect = value(&[1.0, 1.2, 0.9, 1.1, 1.0, 0.8]);
        let (low, high) = (effect.interval.low.unwrap(), effect.interval.high.unwrap());
        let verdict = |region: Region| region.test(&effect).verdict(0.05);
        for hair in [1e-9, 0.01] {
            assert_eq!(verdict(Region::Above(low - hair)), ClaimVerdict::Supported);
            assert_eq!(verdict(Region::Above(low + hair)), ClaimVerdict::Inconclusive);
            assert_eq!(verdict(Region::Above(high - hair)), ClaimVerdict::Inconclusive);
            assert_eq!(verdict(Region::Above(high + hair)), ClaimVerdict::Refuted);
            assert_eq!(verdict(Region::Below(high + hair)), ClaimVerdict::Supported);
            assert_eq!(verdict(Region::Below(low - hair)), ClaimVerdict::Refuted);
            assert_eq!(verdict(Region::Inside(high + hair, 9.0)), ClaimVerdict::Refuted);
        }
        // Two one-sided tests at 5 % are equivalent to the 90 % interval.
        let narrow = netrig_stats::interval::student(&[1.0, 1.2, 0.9, 1.1, 1.0, 0.8], 0.9).unwrap();
        let (low, high) = (narrow.low.unwrap(), narrow.high.unwrap());
        assert_eq!(verdict(Region::Inside(low - 1e-9, high + 1e-9)), ClaimVerdict::Supported);
        assert_eq!(verdict(Region::Inside(low + 1e-9, high + 1e-9)), ClaimVerdict::Inconclusive);
    }

    #[test]
    fn one_replication_decides_no_effect() {
        let effect = value(&[5.0]);
        for region in [Region::Above(0.0), Region::Below(0.0), Region::Inside(-9.0, 9.0)] {
            assert_eq!(region.test(&effect).verdict(0.05), ClaimVerdict::Inconclusive);
            assert_eq!(region.test(&effect).p, None);
        }
    }

    #[test]
    fn what_chance_had_no_part_in_leaves_no_doubt() {
        let exact = Nature { deterministic: true, range: None };
        let verdict = |of: &[f64], region: Region| {
            let sample = Sample::plain(&values(of, exact));
            region.test(&Effect::new(Contrast::Value(&sample), 0.95).unwrap()).verdict(0.05)
        };
        assert_eq!(verdict(&[0.0, 0.0], Region::Above(0.0)), ClaimVerdict::Refuted);
        assert_eq!(verdict(&[0.1, 0.1], Region::Above(0.0)), ClaimVerdict::Supported);
        assert_eq!(verdict(&[0.1, 0.1], Region::Below(0.0)), ClaimVerdict::Refuted);
        assert_eq!(verdict(&[0.0, 0.0], Region::Inside(-1.0, 1.0)), ClaimVerdict::Supported);
        assert_eq!(verdict(&[1.0, 1.0], Region::Inside(-1.0, 1.0)), ClaimVerdict::Supported);
        assert_eq!(verdict(&[1.1, 1.1], Region::Inside(-1.0, 1.0)), ClaimVerdict::Refuted);
    }

    /// Equal random values decide nothing, whatever their number. For a share, the known range from 0 to 1 allows a
    /// decision.
    #[test]
    fn values_that_are_alike_by_chance_are_no_proof() {
        let regions = [Region::Above(0.0), Region::Below(0.2), Region::Inside(-1.0, 1.0)];
        for (n, region) in [2, 10].into_iter().flat_map(|n| regions.map(|region| (n, region))) {
            let effect = value(&vec![0.1; n]);
            assert_eq!((region.test(&effect).p, effect.interval.low), (None, None), "{region:?}");
            assert_eq!(region.needs(&effect, 0.05), None);
        }
        let share = |n: usize, region: Region| {
            let sample = Sample::plain(&values(
                &vec![0.0; n],
                Nature { range: Some([0.0, 1.0]), ..Nature::default() },
            ));
            let effect = Effect::new(Contrast::Value(&sample), 0.95).unwrap();
            (region.test(&effect).verdict(0.05), region.needs(&effect, 0.05))
        };
        // Two runs without a loss, tested at a level of 5 %: 0.96^n must be 0.025.
        assert_eq!(share(2, Region::Below(0.04)), (ClaimVerdict::Inconclusive, Some(91)));
        assert_eq!(share(91, Region::Below(0.04)).0, ClaimVerdict::Supported);
        assert_eq!(share(10, Region::Below(0.4)).0, ClaimVerdict::Supported);
        assert_eq!(share(10, Region::Above(0.4)).0, ClaimVerdict::Refuted);
        assert_eq!(share(10, Region::Inside(0.0, 0.2)).0, ClaimVerdict::Inconclusive);
    }

    /// 0.3 − 0.1 and 0.2 differ only by rounding.
    #[test]
    fn what_rounding_leaves_is_no_spread() {
        let (a, b) = (sample(&[0.3, 1.2, 10.2]), sample(&[0.1, 1.0, 10.0]));
        let effect = Effect::new(Contrast::Difference(&a, &b), 0.95).unwrap();
        assert_eq!(Region::Above(0.0).test(&effect).p, None);
    }

    #[test]
    fn a_ratio_to_nothing_is_an_error() {
        let (a, b) = (sample(&[1.0, 2.0]), sample(&[0.0, 0.0]));
        assert!(Effect::new(Contrast::Ratio(&a, &b), 0.95).is_err());
        let nothing = Effect::new(Contrast::Difference(&a, &Sample::plain(&PointValues::default())), 0.95);
        assert!(nothing.is_err());
    }

    /// 110/100, 121/110: the ratio is 1.1 in each replication. If the values are deterministic, the result is certain.
    #[test]
    fn a_ratio_that_is_always_the_same() {
        let verdicts = |deterministic| {
            let known = |of: &[f64]| Sample::plain(&values(of, Nature { deterministic, range: None }));
            let (a, b) = (known(&[110.0, 121.0, 99.0]), known(&[100.0, 110.0, 90.0]));
            let effect = Effect::new(Contrast::Ratio(&a, &b), 0.95).unwrap();
            assert!((effect.interval.estimate - 1.1).abs() < 1e-12);
            [Region::Above(1.05), Region::Inside(0.95, 1.05)].map(|region| region.test(&effect).verdict(0.05))
        };
        assert_eq!(verdicts(true), [ClaimVerdict::Supported, ClaimVerdict::Refuted]);
        assert_eq!(verdicts(false), [ClaimVerdict::Inconclusive; 2]);
    }

    #[test]
    fn a_spread_against_a_spread() {
        let points = |of: [&[f64]; 2]| {
            let points = of.map(|of| values(of, Nature::default()));
            Sample::derived(Derivation::Spread, &points, &[])
        };
        let wide = points([&[0.0, 0.1, 0.2, 0.1, 0.0], &[10.0, 10.2, 10.1, 9.9, 10.0]]);
        let narrow = points([&[0.0, 0.1, 0.2, 0.1, 0.0], &[1.0, 1.1, 1.2, 0.9, 1.0]]);
        let effect = Effect::new(Contrast::Difference(&wide, &narrow), 0.95).unwrap();
        assert!((effect.interval.estimate - 9.0).abs() < 1e-9);
        assert_eq!(Region::Above(0.0).test(&effect).verdict(0.05), ClaimVerdict::Supported);
        assert_eq!(Region::Above(20.0).test(&effect).verdict(0.05), ClaimVerdict::Refuted);
        assert_eq!(Region::Inside(5.0, 15.0).test(&effect).verdict(0.05), ClaimVerdict::Supported);
    }

    /// `needs` returns the number of replications with which 80 % of experiments decide. The tabulated n for d = 0.5 sd
    /// at 2.5 % one-sided is 34.
    #[test]
    fn needs_are_those_of_the_tables() {
        // Mean 0.5, sd 1 (sum of squares 4.5 + 4.5 = 9, by 9): five values of 0.5 + √0.9, five of 0.5 − √0.9.
        let d = 0.9f64.sqrt();
        let values: Vec<f64> = (0..10).map(|i| if i % 2 == 0 { 0.5 + d } else { 0.5 - d }).collect();
        let effect = value(&values);
        let needs = Region::Above(0.0).needs(&effect, 0.05).unwrap();
        assert!((33..=35).contains(&needs), "{needs}");
        assert_eq!(Region::Above(0.5).needs(&value(&[0.5, 0.5]), 0.05), None);
    }
}
