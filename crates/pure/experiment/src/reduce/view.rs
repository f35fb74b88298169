//! The data of one subject of one run, as a metric sees them.

use std::borrow::Cow;

use netrig_core::quantity::{DATA_PAUSED, DATA_RESUMED};
use netrig_core::{Duration, Instant, Quantity};
use netrig_stats::summary::Summary;
use netrig_traffic::Settings;

use super::accumulator::{Accumulator, GaugeAverage, GaugeSum, Mark, MeasuringWindow};
use super::layout::{FlowPlace, Layout, Outage};
use super::measured::MeasuredValue;
use crate::{RunOutcome, Statistic};

/// The accumulated samples of one quantity.
#[derive(Debug)]
pub(super) struct Held<'a> {
    quantity: &'static Quantity,
    accumulator: Cow<'a, Accumulator>,
}

impl<'a> Held<'a> {
    pub(super) fn borrowed(quantity: &'static Quantity, accumulator: &'a Accumulator) -> Self {
        Self { quantity, accumulator: Cow::Borrowed(accumulator) }
    }
}

/// The data of one subject of one run, for a metric.
#[derive(Debug)]
pub struct View<'a> {
    pub(super) held: Vec<Held<'a>>,
    pub(super) window: MeasuringWindow,
    pub(super) statistic: Statistic,
    /// The deadline of the response, if it has one.
    pub(super) within: Option<Duration>,
    /// Number of observations at the start that are left out.
    pub(super) skip: usize,
    pub(super) run_end: Instant,
    pub(super) outcome: &'a RunOutcome,
    pub(super) layout: &'a Layout,
    pub(super) flow: Option<&'a FlowPlace>,
}

impl<'a> View<'a> {
    /// Joins several members to one: counts are added, and observations are concatenated.
    pub(super) fn pooled(views: &[View<'a>]) -> View<'a> {
        let first = &views[0];
        let join = |held: &Held<'_>| {
            let quantity = held.quantity;
            let accumulator = match &*held.accumulator {
                Accumulator::Summary { window, .. } => {
                    let mut summary = Summary::default();
                    views
                        .iter()
                        .filter_map(|view| view.summary(quantity))
                        .for_each(|other| summary.merge(other));
                    Accumulator::Summary { window: *window, summary }
                }
                Accumulator::Observations { window, .. } => {
                    let values = views.iter().filter_map(View::observations).flatten().copied().collect();
                    Accumulator::Observations { window: *window, values }
                }
                _ => {
                    let sum = views.iter().map(|view| view.total(quantity)).sum();
                    Accumulator::Total { window: first.window, sum }
                }
            };
            Held { quantity, accumulator: Cow::Owned(accumulator) }
        };
        View { held: first.held.iter().map(join).collect(), skip: 0, ..first.alike() }
    }

    fn alike(&self) -> View<'a> {
        let Self { window, statistic, within, skip, run_end, outcome, layout, flow, .. } = *self;
        View { held: Vec::new(), window, statistic, within, skip, run_end, outcome, layout, flow }
    }

    fn accumulator(&self, quantity: &'static Quantity) -> Option<&Accumulator> {
        self.held.iter().find(|held| std::ptr::eq(held.quantity, quantity)).map(|held| &*held.accumulator)
    }

    /// The sum of a count over the measuring window; 0 without samples.
    pub fn total(&self, quantity: &'static Quantity) -> f64 {
        match self.accumulator(quantity) {
            Some(Accumulator::Total { sum, .. }) => *sum,
            Some(Accumulator::Series(samples)) => {
                samples.iter().filter(|(at, _)| self.window.holds(*at)).map(|(_, value)| value).sum()
            }
            _ => 0.0,
        }
    }

    /// `amount` per second of the measuring window.
    pub fn per_second(&self, amount: f64) -> MeasuredValue {
        let span = self.window.end.since(self.window.start).as_secs_f64();
        if span > 0.0 {
            (amount / span).into()
        } else {
            MeasuredValue::not(
                "the measuring window is empty: it ends before the flow starts, or begins after the end of the run",
            )
        }
    }

    /// The sum of a count that is stored as a series, after `from` up to and including `to`.
    pub fn sum_between(&self, quantity: &'static Quantity, from: Instant, to: Instant) -> f64 {
        let Some(Accumulator::Series(samples)) = self.accumulator(quantity) else { return 0.0 };
        let first = samples.partition_point(|(at, _)| *at <= from);
        samples[first..].iter().take_while(|(at, _)| *at <= to).map(|(_, value)| value).sum()
    }

    /// The mean over time of a gauge in the measuring window; `None` without samples.
    pub fn average(&self, quantity: &'static Quantity) -> Option<GaugeAverage> {
        match self.accumulator(quantity)? {
            Accumulator::Average { gauge, .. } => gauge.average(),
            Accumulator::Series(samples) => {
                let mut gauge = GaugeSum::default();
                samples.iter().for_each(|(at, value)| gauge.take(self.window, *at, *value));
                gauge.average()
            }
            _ => None,
        }
    }

    /// The statistic that the response chooses, over the observations in the measuring window.
    pub fn statistic(&self, quantity: &'static Quantity) -> MeasuredValue {
        let found = match self.accumulator(quantity) {
            Some(Accumulator::Summary { summary, .. }) if summary.n() == 0 => None,
            Some(Accumulator::Summary { summary, .. }) => Some(Ok(self.statistic.of_summary(summary))),
            Some(Accumulator::Observations { values, .. }) if values.len() <= self.skip => None,
            Some(Accumulator::Observations { values, .. }) => Some(self.statistic.of(&values[self.skip..])),
            _ => None,
        };
        match found {
            None => MeasuredValue::not("there were no observations"),
            Some(Ok(Some(value))) => value.into(),
            Some(Ok(None)) => MeasuredValue::not("there were too few observations"),
            Some(Err(error)) => MeasuredValue::not(error.to_string()),
        }
    }

    /// The statistic that the response chooses.
    pub fn chosen(&self) -> Statistic {
        self.statistic
    }

    fn summary(&self, quantity: &'static Quantity) -> Option<&Summary> {
        match self.accumulator(quantity)? {
            Accumulator::Summary { summary, .. } => Some(summary),
            _ => None,
        }
    }

    /// Number of stored observations in the measuring window that are at most the response's deadline.
    pub fn in_time(&self) -> Option<usize> {
        let within = self.within?.as_secs_f64();
        Some(self.observations().map_or(0, |values| values.iter().filter(|value| **value <= within).count()))
    }

    /// The stored observations after the skipped ones.
    pub(super) fn observations(&self) -> Option<&[f64]> {
        self.held.iter().find_map(|held| match &*held.accumulator {
            Accumulator::Observations { values, .. } => Some(values.get(self.skip..).unwrap_or_default()),
            _ => None,
        })
    }

    /// A count or gauge that is stored as a series, for each sampling interval of the measuring window. An
    /// interval without a sample has the value 0.
    pub(super) fn intervals(&self, quantity: &'static Quantity) -> Vec<f64> {
        let every = self.sample_every().as_nanos().max(1);
        let length = self.window.end.since(self.window.start).as_nanos().div_ceil(every);
        let mut sums = vec![0.0; usize::try_from(length).unwrap_or(0)];
        if let Some(Accumulator::Series(samples)) = self.accumulator(quantity) {
            for (at, value) in samples.iter().filter(|(at, _)| self.window.holds(*at)) {
                let index = at.since(self.window.start).as_nanos().saturating_sub(1) / every;
                if let Some(sum) = usize::try_from(index).ok().and_then(|index| sums.get_mut(index)) {
                    *sum += value;
                }
            }
        }
        sums
    }

    /// All marks of the subject or its paths, in the order of time.
    pub fn marks(&self, quantity: &'static Quantity) -> &[Mark] {
        match self.accumulator(quantity) {
            Some(Accumulator::Marks(marks)) => marks,
            _ => &[],
        }
    }

    /// Pauses in the arrival of data. Each has the time of the last data before the pause and of the first data after
    /// it; `None` if no data follow.
    pub fn pauses(&self) -> Vec<(Instant, Option<Instant>)> {
        let resumed = self.marks(&DATA_RESUMED);
        let end =
            |from: Instant| resumed.get(resumed.partition_point(|mark| mark.at <= from)).map(|mark| mark.at);
        self.marks(&DATA_PAUSED).iter().map(|mark| (mark.at, end(mark.at))).collect()
    }

    /// Start of the measuring window.
    pub fn window_start(&self) -> Instant {
        self.window.start
    }

    /// End of the measuring window.
    pub fn window_end(&self) -> Instant {
        self.window.end
    }

    /// End of the run.
    pub fn run_end(&self) -> Instant {
        self.run_end
    }

    /// Start of the flow; for any other subject, the start of the run.
    pub fn flow_start(&self) -> Instant {
        self.flow.map_or(Instant::ZERO, |flow| flow.start)
    }

    /// The part of the measuring window before the flow's `stop`, in which it may start new activity.
    pub fn until_stop(&self) -> Duration {
        let stop = self.flow.map_or(Instant::NEVER, |flow| flow.stop);
        self.window.end.min(stop).since(self.window.start)
    }

    /// The settings of the flow's application; `None` for any other subject.
    pub fn application(&self) -> Option<&Settings> {
        self.flow.map(|flow| &flow.application)
    }

    /// Whether the measuring window begins with the flow, or earlier.
    pub fn begins_with_flow(&self) -> bool {
        self.window.start <= self.flow_start()
    }

    /// Marks of the subject in the measuring window, in the order of time.
    pub fn marks_in_window(&self, quantity: &'static Quantity) -> impl Iterator<Item = &Mark> {
        self.marks(quantity).iter().filter(|mark| self.window.holds(mark.at))
    }

    /// The sampling interval.
    pub fn sample_every(&self) -> Duration {
        self.layout.sample_every
    }

    /// The first outage of the scenario.
    pub fn outage(&self) -> Option<Outage> {
        self.layout.outage
    }

    /// The outcome of the run.
    pub fn outcome(&self) -> &RunOutcome {
        self.outcome
    }

    /// The name of the member, for messages.
    pub(super) fn member(&self) -> &str {
        self.flow.map_or("a member", |flow| &flow.place.name)
    }
}
