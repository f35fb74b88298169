//! Computes means and intervals at each point.

use std::collections::BTreeMap;

use netrig_core::fnv1a;
use netrig_stats::interval::{self, Bootstrap};
use netrig_stats::{Interval, StatsError, summary};

use super::{Design, PointRuns, RunRecord};
use crate::claim::vary;
use crate::{IntervalMethod, PointRemark, PointResult, ResponseResult, RunValue, Status};

impl PointRuns {
    /// The point's responses with their intervals.
    pub(super) fn result(&self, design: &Design) -> PointResult {
        let measured = |(name, spec): &(String, crate::ResponseSpec)| {
            let values: Vec<f64> = self.values(name).into_values().collect();
            // The seed of the bootstrap depends only on the name, so it is the same on every machine.
            let seed = fnv1a(name.bytes());
            let interval = mean(&values, spec.interval, design.confidence, seed).ok();
            let interval = interval.map(|found| self.believed(found, &values));
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
            remarks: self.remarks(),
            responses,
        }
    }

    /// The remarks on the valid runs of the point, each with its number of runs.
    fn remarks(&self) -> Vec<PointRemark> {
        let mut runs: BTreeMap<&str, u32> = BTreeMap::new();
        for remark in self.runs.iter().filter(|run| run.is_valid()).flat_map(|run| &run.remarks) {
            *runs.entry(remark).or_default() += 1;
        }
        runs.into_iter().map(|(text, runs)| PointRemark { text: text.to_owned(), runs }).collect()
    }
}

impl PointRuns {
    /// The interval, but without ends if all random values are equal: equal values do not show how far other values may
    /// be from them.
    fn believed(&self, interval: Interval, values: &[f64]) -> Interval {
        if self.is_deterministic() || vary(values) {
            return interval;
        }
        Interval { low: None, high: None, ..interval }
    }
}

fn run_value(run: &RunRecord, response: &str) -> RunValue {
    RunValue {
        seed: run.seed,
        value: run.measured(response),
        valid: run.is_valid(),
        why: run.remark(response),
    }
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
        IntervalMethod::Bootstrap => Bootstrap::new(seed).bca(values, confidence, summary::mean),
    }
}

pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
