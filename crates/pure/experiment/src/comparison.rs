//! Two sets of runs of one experiment beside each other: whether they agree, and where they are not alike.

use std::collections::BTreeSet;

use crate::{Accord, Agreement, Amount, Asked, Level, Margins, PointRuns};

impl Agreement {
    /// Asks whether the two means agree within one of `within`, and keeps the answer.
    pub fn ask(&mut self, within: Margins) {
        let verdict = self.accord(&within);
        self.asked = Some(Asked { within, verdict });
    }

    /// Whether the two means are the same within one of the margins: they are if the whole interval of what a margin is
    /// about (their ratio for a share, else their difference) lies inside it, they are not if of every margin it lies
    /// outside (equivalence by inclusion of the interval: D. J. Schuirmann, "A comparison of the two one-sided tests
    /// procedure and the power approach for assessing the equivalence of average bioavailability", 1987).
    ///
    /// That one of several suffices needs no correction for their number: around one mean they lie within each other,
    /// so that at the border of the widest no other can be met by luck alone. That all are violated needs none either
    /// (intersection and union).
    fn accord(&self, within: &Margins) -> Accord {
        let mut told = within.iter().map(|margin| self.accord_within(margin));
        let first = told.next().unwrap_or(Accord::Inconclusive);
        told.fold(first, |before, next| match (before, next) {
            (Accord::Agrees, _) | (_, Accord::Agrees) => Accord::Agrees,
            (Accord::Differs, Accord::Differs) => Accord::Differs,
            _ => Accord::Inconclusive,
        })
    }

    fn accord_within(&self, margin: &Amount) -> Accord {
        match margin.of(&self.unit) {
            Ok(None) => self.accord_within_share(margin.base()),
            Ok(Some(margin)) => self.lies(-margin, margin),
            // A checked file has no other units.
            Err(_) => Accord::Inconclusive,
        }
    }

    /// Whether the second mean is within 1 ± `share` of the first.
    fn accord_within_share(&self, share: f64) -> Accord {
        match (self.ratio, self.low, self.high) {
            // Any share of nothing is nothing.
            (None, ..) => self.lies(0.0, 0.0),
            (Some(_), Some(low), Some(high)) => match inclusion(low, high, 1.0 - share, 1.0 + share) {
                // The ratio of two quantities above zero cannot be below it: with so few runs the interval says
                // nothing.
                Accord::Differs if low < 0.0 && 0.0 <= high => Accord::Inconclusive,
                told => told,
            },
            // One pair, or a first mean that cannot be told from 0.
            _ => Accord::Inconclusive,
        }
    }

    /// Whether the difference lies from `lowest` to `highest`.
    fn lies(&self, lowest: f64, highest: f64) -> Accord {
        let interval = self.difference.and_then(|difference| difference.low.zip(difference.high));
        interval.map_or(Accord::Inconclusive, |(low, high)| inclusion(low, high, lowest, highest))
    }
}

fn inclusion(low: f64, high: f64, lowest: f64, highest: f64) -> Accord {
    if lowest <= low && high <= highest {
        Accord::Agrees
    } else if high < lowest || highest < low {
        Accord::Differs
    } else {
        Accord::Inconclusive
    }
}

/// Factors that have one level at all points of the first runs and one at all points of the second, but not the same
/// one. A factor that a point does not have counts as one level of its own.
pub fn differing_constants(first: &[PointRuns], second: &[PointRuns]) -> BTreeSet<String> {
    let names: BTreeSet<&String> = first.iter().chain(second).flat_map(|runs| runs.point.0.keys()).collect();
    let differs = |name: &&String| match (constant_level(first, name), constant_level(second, name)) {
        (Some(first), Some(second)) => first != second,
        _ => false,
    };
    names.into_iter().filter(differs).cloned().collect()
}

/// The level that a factor has at all points, or that there is no such factor; `None` if it has several levels, or there
/// are no points.
pub fn constant_level<'a>(points: &'a [PointRuns], factor: &str) -> Option<Option<&'a Level>> {
    let first = points.first().map(|runs| runs.point.level(factor))?;
    points.iter().all(|runs| runs.point.level(factor) == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgreementSpec, Difference, Point, Status};

    type Ends = Option<(f64, f64)>;

    fn agreement(unit: &str, ratio: Option<f64>, of_ratio: Ends, of_difference: Ends) -> Agreement {
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

    /// What is said of an agreement if this, as a file writes it, is asked.
    fn verdict(mut agreement: Agreement, within: &str) -> &'static str {
        let spec: AgreementSpec = toml::from_str(&format!("within = {within}")).unwrap();
        agreement.ask(spec.within);
        agreement.asked.unwrap().verdict.name()
    }

    #[test]
    fn of_a_ratio_the_whole_interval_decides() {
        let told = |low: f64, high: f64, margin: &str| {
            verdict(agreement("B/s", Some(f64::midpoint(low, high)), Some((low, high)), None), margin)
        };
        assert_eq!(told(0.96, 1.04, "'5 %'"), "agrees");
        assert_eq!(told(1.01, 1.04, "'5 %'"), "agrees");
        assert_eq!(told(0.96, 1.04, "'2 %'"), "inconclusive");
        assert_eq!(told(0.90, 0.96, "'5 %'"), "inconclusive");
        assert_eq!(told(-0.5, 2.35, "'5 %'"), "inconclusive");
        assert_eq!(told(-0.5, 0.5, "'5 %'"), "inconclusive");
        assert_eq!(told(0.5, 0.94, "'5 %'"), "differs");
        assert_eq!(told(1.06, 1.5, "'5 %'"), "differs");
        assert_eq!(told(1.0, 1.0, "'0 %'"), "agrees");
    }

    #[test]
    fn of_a_difference_in_whatever_unit_too() {
        let told =
            |ends: Ends, unit: &str, margin: &str| verdict(agreement(unit, Some(2.0), None, ends), margin);
        assert_eq!(told(Some((-0.01, 0.03)), "1", "0.03"), "agrees");
        assert_eq!(told(Some((-0.01, 0.031)), "1", "'3 pp'"), "inconclusive");
        assert_eq!(told(Some((1.0, 2.9)), "%", "'3 pp'"), "agrees");
        assert_eq!(told(Some((3.1, 4.0)), "%", "'3 pp'"), "differs");
        assert_eq!(told(Some((3.1, 4.0)), "%", "3"), "differs");
        assert_eq!(told(Some((-0.019, 0.019)), "ms", "'20 us'"), "agrees");
        assert_eq!(told(Some((-0.03, -0.021)), "ms", "'20 us'"), "differs");
        // One pair has no interval.
        assert_eq!(told(None, "ms", "'20 us'"), "inconclusive");
    }

    #[test]
    fn one_of_several_margins_suffices_and_all_must_be_violated() {
        let told = |ratio: (f64, f64), difference: (f64, f64)| {
            verdict(agreement("s", Some(1.5), Some(ratio), Some(difference)), "['10 %', '20 us']")
        };
        let (us, ms) = (1e-6, 1e-3);
        assert_eq!(told((0.95, 1.05), (-ms, ms)), "agrees");
        assert_eq!(told((1.4, 1.6), (us, 2.0 * us)), "agrees");
        assert_eq!(told((1.4, 1.6), (ms, 2.0 * ms)), "differs");
        assert_eq!(told((1.05, 1.6), (ms, 2.0 * ms)), "inconclusive");
        assert_eq!(told((1.4, 1.6), (us, 2.0 * ms)), "inconclusive");
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        let told = |ends: Ends| verdict(agreement("1", None, None, ends), "'5 %'");
        assert_eq!(told(Some((0.0, 0.0))), "agrees");
        assert_eq!(told(Some((0.01, 0.02))), "differs");
        assert_eq!(told(Some((-0.01, 0.02))), "inconclusive");
        assert_eq!(told(None), "inconclusive");
        // A first mean that cannot be told from nothing has a ratio without an interval.
        let unbounded = agreement("1", Some(7.0), None, Some((0.01, 0.02)));
        assert_eq!(verdict(unbounded, "'5 %'"), "inconclusive");
    }

    fn points(levels: &[&[(&str, &str)]]) -> Vec<PointRuns> {
        let point = |levels: &&[(&str, &str)]| PointRuns {
            substrate: "sim".into(),
            point: Point(levels.iter().map(|(f, l)| ((*f).to_owned(), Level((*l).to_owned()))).collect()),
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
        // `loss` is no constant of the first.
        assert_eq!(differing_constants(&first, &second), BTreeSet::from(["mss".to_owned()]));
        assert_eq!(differing_constants(&first, &first), BTreeSet::new());
        let without = points(&[&[("loss", "3 %")]]);
        assert_eq!(differing_constants(&second, &without), BTreeSet::from(["mss".to_owned()]));
        assert_eq!(differing_constants(&second, &[]), BTreeSet::new());
        assert_eq!(constant_level(&first, "mss"), Some(Some(&Level("1460".into()))));
        assert_eq!((constant_level(&first, "loss"), constant_level(&first, "rtt")), (None, Some(None)));
    }
}
