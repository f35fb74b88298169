//! Compares two sets of runs of one experiment: whether their means agree, and which constants differ.

use std::collections::BTreeSet;

use crate::{Agreement, AgreementAnswer, AgreementVerdict, Amount, Level, Margins, PointRuns};

impl Agreement {
    /// Decides whether the two means agree within one of the margins `within`, and stores the verdict.
    pub fn ask(&mut self, within: Margins) {
        let verdict = self.accord(&within);
        self.asked = Some(AgreementAnswer { within, verdict });
    }

    /// Whether the two means are equal within one of the margins. A share is a margin for their ratio, any other amount
    /// a margin for their difference. The means agree if the whole interval of the ratio or difference lies inside one
    /// margin. They differ if it lies outside every margin (equivalence by inclusion of the interval: D. J. Schuirmann,
    /// "A comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of
    /// average bioavailability", 1987).
    ///
    /// It suffices if the means agree within one margin. This needs no correction for the number of margins. The
    /// margins around one mean are nested, so the narrower margins add no chance of a false agreement at the border of
    /// the widest. The verdict that the means differ needs no correction either, because it requires all margins to be
    /// exceeded (intersection–union).
    fn accord(&self, within: &Margins) -> AgreementVerdict {
        let mut verdicts = within.iter().map(|margin| self.accord_within(margin));
        let first = verdicts.next().unwrap_or(AgreementVerdict::Inconclusive);
        verdicts.fold(first, |before, next| match (before, next) {
            (AgreementVerdict::Agrees, _) | (_, AgreementVerdict::Agrees) => AgreementVerdict::Agrees,
            (AgreementVerdict::Differs, AgreementVerdict::Differs) => AgreementVerdict::Differs,
            _ => AgreementVerdict::Inconclusive,
        })
    }

    fn accord_within(&self, margin: &Amount) -> AgreementVerdict {
        match margin.of(&self.unit) {
            Ok(None) => self.accord_within_share(margin.base()),
            Ok(Some(margin)) => self.lies(-margin, margin),
            // A checked file has only units that convert.
            Err(_) => AgreementVerdict::Inconclusive,
        }
    }

    /// Whether the second mean is within 1 ± `share` of the first.
    fn accord_within_share(&self, share: f64) -> AgreementVerdict {
        match (self.ratio, self.low, self.high) {
            // The first mean is zero, and any share of zero is zero.
            (None, ..) => self.lies(0.0, 0.0),
            (Some(_), Some(low), Some(high)) => match inclusion(low, high, 1.0 - share, 1.0 + share) {
                // The ratio of two positive quantities cannot be negative. An interval that includes 0 comes from too
                // few runs and decides nothing.
                AgreementVerdict::Differs if low < 0.0 && 0.0 <= high => AgreementVerdict::Inconclusive,
                verdict => verdict,
            },
            // There is only one pair of runs, or the first mean does not differ significantly from 0.
            _ => AgreementVerdict::Inconclusive,
        }
    }

    /// Whether the difference lies between `lowest` and `highest`.
    fn lies(&self, lowest: f64, highest: f64) -> AgreementVerdict {
        let interval = self.difference.and_then(|difference| difference.low.zip(difference.high));
        interval.map_or(AgreementVerdict::Inconclusive, |(low, high)| inclusion(low, high, lowest, highest))
    }
}

fn inclusion(low: f64, high: f64, lowest: f64, highest: f64) -> AgreementVerdict {
    if lowest <= low && high <= highest {
        AgreementVerdict::Agrees
    } else if high < lowest || highest < low {
        AgreementVerdict::Differs
    } else {
        AgreementVerdict::Inconclusive
    }
}

/// The factors that have one level at all points of the first runs and another level at all points of the second runs.
/// For this, a missing factor counts as a level.
pub fn differing_constants(first: &[PointRuns], second: &[PointRuns]) -> BTreeSet<String> {
    let levels = first.iter().chain(second).flat_map(|runs| runs.point.levels());
    let names: BTreeSet<&String> = levels.map(|(factor, _)| factor).collect();
    let differs = |name: &&String| match (constant_level(first, name), constant_level(second, name)) {
        (Some(first), Some(second)) => first != second,
        _ => false,
    };
    names.into_iter().filter(differs).cloned().collect()
}

/// The only level that a factor has at these points. `Some(None)` if no point has the factor. `None` if the factor has
/// several levels, or if there are no points.
pub fn constant_level<'a>(points: &'a [PointRuns], factor: &str) -> Option<Option<&'a Level>> {
    let first = points.first().map(|runs| runs.point.level(factor))?;
    points.iter().all(|runs| runs.point.level(factor) == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgreementSpec, Difference, Point, Status};

    type IntervalEnds = Option<(f64, f64)>;

    fn agreement(
        unit: &str,
        ratio: Option<f64>,
        of_ratio: IntervalEnds,
        of_difference: IntervalEnds,
    ) -> Agreement {
        let (low, high) = of_difference.unzip();
        Agreement {
            factors: Point::default(),
            response: "r".into(),
            unit: unit.into(),
            means: None,
            ratio,
            low: of_ratio.map(|(low, _)| low),
            high: of_ratio.map(|(_, high)| high),
            difference: Some(Difference { estimate: 0.0, low, high }),
            n: [3, 3],
            pairs: 3,
            of: ["first".into(), "second".into()],
            asked: None,
        }
    }

    /// The verdict on an agreement; `within` has the margins in the form of a file.
    fn verdict(mut agreement: Agreement, within: &str) -> &'static str {
        let spec: AgreementSpec = toml::from_str(&format!("within = {within}")).unwrap();
        agreement.ask(spec.within);
        agreement.asked.unwrap().verdict.name()
    }

    #[test]
    fn of_a_ratio_the_whole_interval_decides() {
        let verdict_of = |low: f64, high: f64, margin: &str| {
            verdict(agreement("B/s", Some(f64::midpoint(low, high)), Some((low, high)), None), margin)
        };
        assert_eq!(verdict_of(0.96, 1.04, "'5 %'"), "agrees");
        assert_eq!(verdict_of(1.01, 1.04, "'5 %'"), "agrees");
        assert_eq!(verdict_of(0.96, 1.04, "'2 %'"), "inconclusive");
        assert_eq!(verdict_of(0.90, 0.96, "'5 %'"), "inconclusive");
        assert_eq!(verdict_of(-0.5, 2.35, "'5 %'"), "inconclusive");
        assert_eq!(verdict_of(-0.5, 0.5, "'5 %'"), "inconclusive");
        assert_eq!(verdict_of(0.5, 0.94, "'5 %'"), "differs");
        assert_eq!(verdict_of(1.06, 1.5, "'5 %'"), "differs");
        assert_eq!(verdict_of(1.0, 1.0, "'0 %'"), "agrees");
    }

    #[test]
    fn of_a_difference_in_whatever_unit_too() {
        let verdict_of = |ends: IntervalEnds, unit: &str, margin: &str| {
            verdict(agreement(unit, Some(2.0), None, ends), margin)
        };
        assert_eq!(verdict_of(Some((-0.01, 0.03)), "1", "0.03"), "agrees");
        assert_eq!(verdict_of(Some((-0.01, 0.031)), "1", "'3 pp'"), "inconclusive");
        assert_eq!(verdict_of(Some((1.0, 2.9)), "%", "'3 pp'"), "agrees");
        assert_eq!(verdict_of(Some((3.1, 4.0)), "%", "'3 pp'"), "differs");
        assert_eq!(verdict_of(Some((3.1, 4.0)), "%", "3"), "differs");
        assert_eq!(verdict_of(Some((-0.019, 0.019)), "ms", "'20 us'"), "agrees");
        assert_eq!(verdict_of(Some((-0.03, -0.021)), "ms", "'20 us'"), "differs");
        // One pair of runs gives no interval.
        assert_eq!(verdict_of(None, "ms", "'20 us'"), "inconclusive");
    }

    #[test]
    fn one_of_several_margins_suffices_and_all_must_be_violated() {
        let verdict_of = |ratio: (f64, f64), difference: (f64, f64)| {
            verdict(agreement("s", Some(1.5), Some(ratio), Some(difference)), "['10 %', '20 us']")
        };
        let (us, ms) = (1e-6, 1e-3);
        assert_eq!(verdict_of((0.95, 1.05), (-ms, ms)), "agrees");
        assert_eq!(verdict_of((1.4, 1.6), (us, 2.0 * us)), "agrees");
        assert_eq!(verdict_of((1.4, 1.6), (ms, 2.0 * ms)), "differs");
        assert_eq!(verdict_of((1.05, 1.6), (ms, 2.0 * ms)), "inconclusive");
        assert_eq!(verdict_of((1.4, 1.6), (us, 2.0 * ms)), "inconclusive");
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        let verdict_of = |ends: IntervalEnds| verdict(agreement("1", None, None, ends), "'5 %'");
        assert_eq!(verdict_of(Some((0.0, 0.0))), "agrees");
        assert_eq!(verdict_of(Some((0.01, 0.02))), "differs");
        assert_eq!(verdict_of(Some((-0.01, 0.02))), "inconclusive");
        assert_eq!(verdict_of(None), "inconclusive");
        // If the first mean does not differ significantly from zero, the ratio has no interval.
        let unbounded = agreement("1", Some(7.0), None, Some((0.01, 0.02)));
        assert_eq!(verdict(unbounded, "'5 %'"), "inconclusive");
    }

    fn points(levels: &[&[(&str, &str)]]) -> Vec<PointRuns> {
        let point = |levels: &&[(&str, &str)]| PointRuns {
            substrate: "sim".into(),
            point: levels.iter().map(|(f, l)| ((*f).to_owned(), Level::new(l))).collect(),
            status: Status::Ok,
            why: None,
            runs: Vec::new(),
        };
        levels.iter().map(point).collect()
    }

    #[test]
    fn constants_that_are_not_the_same_are_found() {
        let first = points(&[&[("mss", "1460"), ("loss", "1 %")], &[("mss", "1460"), ("loss", "2 %")]]);
        let second = points(&[&[("mss", "500"), ("loss", "3 %")]]);
        // `loss` is not a constant of the first runs.
        assert_eq!(differing_constants(&first, &second), BTreeSet::from(["mss".to_owned()]));
        assert_eq!(differing_constants(&first, &first), BTreeSet::new());
        let without = points(&[&[("loss", "3 %")]]);
        assert_eq!(differing_constants(&second, &without), BTreeSet::from(["mss".to_owned()]));
        assert_eq!(differing_constants(&second, &[]), BTreeSet::new());
        assert_eq!(constant_level(&first, "mss"), Some(Some(&Level::new("1460"))));
        assert_eq!((constant_level(&first, "loss"), constant_level(&first, "rtt")), (None, Some(None)));
    }
}
