//! Agreement of substrates about the responses.

use std::collections::BTreeMap;

use netrig_stats::summary::mean;
use netrig_stats::{Interval, interval};

use super::responses::count;
use super::{Design, PointRuns};
use crate::claim::vary;
use crate::{Agreement, Difference, Point, ResponseSpec, Status};

/// The agreement of each further substrate with the first substrate, at every common point and over all common points.
/// Replications of two substrates share their seeds, so they are paired.
pub(super) fn agreement(design: &Design, points: &[PointRuns], substrates: &[&str]) -> Vec<Agreement> {
    let Some((first, others)) = substrates.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for other in others {
        let both = common(points, first, other);
        for (name, spec) in &design.responses {
            let response = Compared { design, name, spec, of: [first, other] };
            let pairs: Vec<(&Point, Pairs)> =
                both.iter().map(|(a, b)| (&a.point, Pairs::of(a, b, name))).collect();
            // An experiment without factors has only one point, so there is no separate agreement over all points.
            if pairs.iter().any(|(point, _)| !point.levels().is_empty()) {
                found.extend(response.over_all(&Pairs::over_points(pairs.iter().map(|(_, pairs)| pairs))));
            }
            found.extend(pairs.iter().filter_map(|(point, pairs)| response.at(point, pairs)));
        }
    }
    found
}

/// The points that both substrates ran.
fn common<'a>(points: &'a [PointRuns], first: &str, other: &str) -> Vec<(&'a PointRuns, &'a PointRuns)> {
    let ran = |runs: &&PointRuns, substrate: &str| runs.substrate == substrate && runs.status == Status::Ok;
    let theirs: BTreeMap<&Point, &PointRuns> =
        points.iter().filter(|runs| ran(runs, other)).map(|runs| (&runs.point, runs)).collect();
    let ours = points.iter().filter(|runs| ran(runs, first));
    ours.filter_map(|runs| Some((runs, *theirs.get(&runs.point)?))).collect()
}

/// A response on two substrates.
struct Compared<'a> {
    design: &'a Design,
    name: &'a str,
    spec: &'a ResponseSpec,
    of: [&'a str; 2],
}

impl Compared<'_> {
    /// The agreement at a point; `None` if neither substrate measured the response there.
    fn at(&self, point: &Point, pairs: &Pairs) -> Option<Agreement> {
        let mut agreement = self.beside(point.clone(), pairs)?;
        if let Some(required) = self.spec.agreement.as_ref().filter(|required| required.applies_at(point)) {
            agreement.ask(required.within.clone());
        }
        Some(agreement)
    }

    /// The agreement of the means over all points.
    fn over_all(&self, pairs: &Pairs) -> Option<Agreement> {
        let mut agreement = self.beside(Point::default(), pairs)?;
        if let Some(required) = self.spec.agreement.as_ref().filter(|required| required.applies_to_all()) {
            agreement.ask(required.within.clone());
        }
        Some(agreement)
    }

    fn beside(&self, factors: Point, pairs: &Pairs) -> Option<Agreement> {
        if pairs.n == [0, 0] {
            return None;
        }
        let ratio = pairs.ratio(self.design.confidence);
        let difference = pairs.difference(self.design.confidence).map(|interval| Difference {
            estimate: interval.estimate,
            low: interval.low,
            high: interval.high,
        });
        Some(Agreement {
            factors,
            response: self.name.to_owned(),
            unit: self.spec.unit().to_owned(),
            means: pairs.means(),
            ratio: ratio.map(|ratio| ratio.estimate),
            low: ratio.and_then(|ratio| ratio.low),
            high: ratio.and_then(|ratio| ratio.high),
            difference,
            n: pairs.n,
            pairs: count(pairs.values.len()),
            of: self.of.map(str::to_owned),
            asked: None,
        })
    }
}

/// Paired values of both substrates, by replication.
#[derive(Default)]
struct Pairs {
    values: BTreeMap<u32, (f64, f64)>,
    /// Number of values of each substrate, including values without a partner.
    n: [u32; 2],
    /// Whether another seed would give both substrates the same values.
    deterministic: bool,
}

impl Pairs {
    fn of(first: &PointRuns, other: &PointRuns, response: &str) -> Self {
        let (ours, theirs) = (first.values(response), other.values(response));
        let n = [&ours, &theirs].map(|values| count(values.len()));
        let pair =
            |(replication, value): (u32, f64)| Some((replication, (value, *theirs.get(&replication)?)));
        let deterministic = first.is_deterministic() && other.is_deterministic();
        Self { values: ours.into_iter().filter_map(pair).collect(), n, deterministic }
    }

    /// For each replication that all points with pairs share: the means over these points.
    fn over_points<'a>(points: impl Iterator<Item = &'a Self>) -> Self {
        let mut measured = points.filter(|pairs| !pairs.values.is_empty());
        let Some(first) = measured.next() else { return Self::default() };
        let (mut values, mut n, mut points) = (first.values.clone(), first.n, 1.0);
        let mut deterministic = first.deterministic;
        for pairs in measured {
            n = [n[0] + pairs.n[0], n[1] + pairs.n[1]];
            points += 1.0;
            deterministic &= pairs.deterministic;
            values.retain(|replication, sum| {
                let Some((a, b)) = pairs.values.get(replication) else { return false };
                *sum = (sum.0 + a, sum.1 + b);
                true
            });
        }
        values.values_mut().for_each(|sum| *sum = (sum.0 / points, sum.1 / points));
        Self { values, n, deterministic }
    }

    /// The interval, but without ends if all random replications of both substrates have the same value: an event that
    /// did not happen may still be possible.
    fn believed(&self, interval: Interval) -> Interval {
        let (first, other) = self.both();
        if self.deterministic || vary(&first) || vary(&other) {
            return interval;
        }
        Interval { low: None, high: None, ..interval }
    }

    fn both(&self) -> (Vec<f64>, Vec<f64>) {
        self.values.values().copied().unzip()
    }

    fn means(&self) -> Option<[f64; 2]> {
        let (first, other) = self.both();
        (!first.is_empty()).then(|| [mean(&first), mean(&other)])
    }

    fn ratio(&self, confidence: f64) -> Option<Interval> {
        let (first, other) = self.both();
        let ratio = interval::paired_ratio(&other, &first, confidence).ok()?;
        Some(self.believed(ratio)).filter(|ratio| ratio.estimate.is_finite())
    }

    fn difference(&self, confidence: f64) -> Option<Interval> {
        let differences: Vec<f64> = self.values.values().map(|(first, other)| other - first).collect();
        interval::student(&differences, confidence).ok().map(|interval| self.believed(interval))
    }
}
