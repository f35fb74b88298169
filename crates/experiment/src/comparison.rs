//! Two sets of runs of one experiment beside each other: whether they agree, and where they are not alike.

use std::collections::BTreeSet;

use netrig_core::Fraction;
use serde::Serialize;

use crate::{Agreement, Level, PointRuns};

/// What the interval of a ratio says about two means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accord {
    /// They are the same within the margin.
    Agrees,
    /// They are further apart than the margin.
    Differs,
    /// The interval is too wide to tell.
    Inconclusive,
}

impl Accord {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl Agreement {
    /// Whether the two means agree within 1 ± `margin`: if the whole interval of their ratio lies inside they do, if it
    /// lies outside they do not (equivalence by inclusion of the interval: D. J. Schuirmann, "A comparison of the two
    /// one-sided tests procedure and the power approach for assessing the equivalence of average bioavailability", 1987).
    pub fn accord(&self, margin: Fraction) -> Accord {
        let (lowest, highest) = (1.0 - margin.get(), 1.0 + margin.get());
        match (self.low, self.high) {
            (Some(low), Some(high)) if lowest <= low && high <= highest => Accord::Agrees,
            // The ratio of two quantities above zero cannot be below it: with so few runs the interval says nothing.
            (Some(low), Some(high)) if low < 0.0 && 0.0 <= high => Accord::Inconclusive,
            (Some(low), Some(high)) if high < lowest || highest < low => Accord::Differs,
            _ => Accord::Inconclusive,
        }
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
    use crate::{Point, Status};

    #[test]
    fn the_whole_interval_decides() {
        let told = |low: f64, high: f64, margin: &str| {
            let agreement = Agreement {
                factors: Point::default(),
                response: "goodput".into(),
                ratio: f64::midpoint(low, high),
                low: Some(low),
                high: Some(high),
                n: [3, 3],
                pairs: 3,
                of: ["first".into(), "second".into()],
            };
            agreement.accord(margin.parse().unwrap()).name()
        };
        assert_eq!(told(0.96, 1.04, "5 %"), "agrees");
        assert_eq!(told(1.01, 1.04, "5 %"), "agrees");
        assert_eq!(told(0.96, 1.04, "2 %"), "inconclusive");
        assert_eq!(told(0.90, 0.96, "5 %"), "inconclusive");
        assert_eq!(told(-0.5, 2.35, "5 %"), "inconclusive");
        assert_eq!(told(-0.5, 0.5, "5 %"), "inconclusive");
        assert_eq!(told(0.5, 0.94, "5 %"), "differs");
        assert_eq!(told(1.06, 1.5, "5 %"), "differs");
        assert_eq!(told(1.0, 1.0, "0 %"), "agrees");
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
