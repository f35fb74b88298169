//! Means with intervals at each point, and how far substrates agree about them.

use std::collections::BTreeMap;

use netrig_stats::interval::{self, Bootstrap};
use netrig_stats::{Interval, StatsError};

use super::{Design, PointRuns, RunRecord, seed_of};
use crate::{Agreement, IntervalMethod, Point, PointResult, ResponseResult, RunValue, Status};

impl PointRuns {
    /// The point's responses with their intervals.
    pub(super) fn result(&self, design: &Design) -> PointResult {
        let measured = |(name, spec): &(String, crate::ResponseSpec)| {
            let values: Vec<f64> = self.values(name).into_values().collect();
            let interval = mean(&values, spec.interval, design.confidence, seed_of(name)).ok();
            let runs = self.runs.iter().map(|run| run_value(run, name));
            let response = ResponseResult {
                unit: spec.unit().to_owned(),
                mean: interval.map(|interval| interval.estimate),
                low: interval.and_then(|interval| interval.low),
                high: interval.and_then(|interval| interval.high),
                n: count(values.len()),
                runs: runs.collect(),
            };
            (name.clone(), response)
        };
        let responses = match self.status {
            Status::Unsupported => BTreeMap::new(),
            _ => design.responses.iter().map(measured).collect(),
        };
        PointResult {
            substrate: self.substrate.clone(),
            factors: self.point.clone(),
            status: self.status,
            why: self.why.clone(),
            responses,
        }
    }
}

fn run_value(run: &RunRecord, response: &str) -> RunValue {
    let value = run.responses.get(response).copied().flatten().filter(|value| value.is_finite());
    RunValue { seed: run.seed, value, valid: run.valid, why: run.remark(response) }
}

/// The mean over runs with its interval.
fn mean(values: &[f64], method: IntervalMethod, confidence: f64, seed: u64) -> Result<Interval, StatsError> {
    match method {
        IntervalMethod::Student => interval::student(values, confidence),
        IntervalMethod::SkewAdjusted => interval::skew_adjusted(values, confidence),
        IntervalMethod::Log => {
            let logarithms: Vec<f64> = values.iter().map(|value| libm::log(*value)).collect();
            let of_logarithms = interval::student(&logarithms, confidence)?;
            Ok(Interval {
                estimate: libm::exp(of_logarithms.estimate),
                low: of_logarithms.low.map(libm::exp),
                high: of_logarithms.high.map(libm::exp),
                ..of_logarithms
            })
        }
        IntervalMethod::Bootstrap => {
            let mean = |sample: &[f64]| sample.iter().sum::<f64>() / sample.len() as f64;
            Bootstrap::new(seed).bca(values, confidence, mean)
        }
    }
}

/// The ratio of means of each further substrate to the first, at every point and over all points that both
/// ran. Replications of two substrates share their seeds, so they are paired.
pub(super) fn agreement(design: &Design, points: &[PointRuns], substrates: &[&str]) -> Vec<Agreement> {
    let Some((first, others)) = substrates.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for other in others {
        let both = common(points, first, other);
        for (response, _) in &design.responses {
            let pairs: Vec<(&Point, Pairs)> =
                both.iter().map(|(a, b)| (&a.point, Pairs::of(a, b, response))).collect();
            let all = Pairs::over_points(pairs.iter().map(|(_, pairs)| pairs));
            let entry = |factors: Point, pairs: &Pairs| {
                let ratio = pairs.ratio(design.confidence)?;
                Some(Agreement {
                    factors,
                    response: response.clone(),
                    ratio: ratio.estimate,
                    low: ratio.low,
                    high: ratio.high,
                    n: pairs.n,
                    pairs: count(pairs.values.len()),
                    of: [(*first).to_owned(), (*other).to_owned()],
                })
            };
            found.extend(entry(Point::default(), &all));
            found.extend(pairs.iter().filter_map(|(point, pairs)| entry((*point).clone(), pairs)));
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

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Values of both substrates by replication.
#[derive(Default)]
struct Pairs {
    values: BTreeMap<u32, (f64, f64)>,
    /// How many values each has, also where the other has none.
    n: [u32; 2],
}

impl Pairs {
    fn of(first: &PointRuns, other: &PointRuns, response: &str) -> Self {
        let (ours, theirs) = (first.values(response), other.values(response));
        let n = [&ours, &theirs].map(|values| count(values.len()));
        let pair =
            |(replication, value): (u32, f64)| Some((replication, (value, *theirs.get(&replication)?)));
        Self { values: ours.into_iter().filter_map(pair).collect(), n }
    }

    /// The sums over the points, of the replications that all points have.
    fn over_points<'a>(points: impl Iterator<Item = &'a Self>) -> Self {
        let mut measured = points.filter(|pairs| !pairs.values.is_empty());
        let Some(first) = measured.next() else { return Self::default() };
        let (mut sums, mut n) = (first.values.clone(), first.n);
        for pairs in measured {
            n = [n[0] + pairs.n[0], n[1] + pairs.n[1]];
            sums.retain(|replication, sum| {
                let Some((a, b)) = pairs.values.get(replication) else { return false };
                *sum = (sum.0 + a, sum.1 + b);
                true
            });
        }
        Self { values: sums, n }
    }

    fn ratio(&self, confidence: f64) -> Option<Interval> {
        let (first, other): (Vec<f64>, Vec<f64>) = self.values.values().copied().unzip();
        interval::paired_ratio(&other, &first, confidence).ok().filter(|ratio| ratio.estimate.is_finite())
    }
}
