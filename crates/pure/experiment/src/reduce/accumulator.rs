//! Stores the samples of one quantity of one subject, in the smallest form from which the responses can be computed.

use netrig_core::{Instant, Sample, Subject};
use netrig_stats::summary::Summary;

use crate::response::metric::Need;

/// The measuring window: after `start`, up to and including `end`. The time of a sample is the end of its interval, so
/// adjacent windows share no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeasuringWindow {
    pub start: Instant,
    pub end: Instant,
    /// Whether the window starts with the flow or the run. Then it also contains a sample at `start`.
    pub is_whole: bool,
}

impl MeasuringWindow {
    /// Whether a sample at this time belongs to the window.
    pub(super) fn holds(self, at: Instant) -> bool {
        (at > self.start || (self.is_whole && at == self.start)) && at <= self.end
    }
}

/// A mark of a subject or of one of its paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Time of the mark.
    pub at: Instant,
    /// The value of the mark.
    pub value: f64,
    /// The path; 0 for a mark that is not about a path.
    pub path: u8,
}

/// The mean over time of a gauge, and its largest sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaugeAverage {
    /// The mean over the window.
    pub mean: f64,
    /// The largest mean over one sampling interval.
    pub max: f64,
}

/// The stored form of one quantity.
#[derive(Clone, Debug)]
pub(super) enum Accumulator {
    Total { window: MeasuringWindow, sum: f64 },
    Series(Vec<(Instant, f64)>),
    Average { window: MeasuringWindow, gauge: GaugeSum },
    Summary { window: MeasuringWindow, summary: Summary },
    Observations { window: MeasuringWindow, values: Vec<f64> },
    Marks(Vec<Mark>),
}

/// The time-weighted sum of a gauge's samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GaugeSum {
    last: Instant,
    area: f64,
    span: f64,
    max: Option<f64>,
}

impl GaugeSum {
    /// Adds a sample, which is the mean of the gauge since the previous sample. Only the time within the window counts.
    pub(super) fn take(&mut self, window: MeasuringWindow, at: Instant, value: f64) {
        let since = self.last.max(window.start);
        if window.holds(at) {
            let span = at.since(since).as_secs_f64();
            self.area += value * span;
            self.span += span;
            self.max = Some(self.max.map_or(value, |max| max.max(value)));
        }
        self.last = at;
    }

    pub(super) fn average(&self) -> Option<GaugeAverage> {
        let max = self.max?;
        // If the window has no length, the sample itself is the mean.
        Some(GaugeAverage { mean: if self.span > 0.0 { self.area / self.span } else { max }, max })
    }
}

impl Accumulator {
    pub(super) fn for_need(need: Need, window: MeasuringWindow) -> Self {
        match need {
            Need::Total(_) => Self::Total { window, sum: 0.0 },
            Need::Series(_) => Self::Series(Vec::new()),
            Need::Average(_) => Self::Average { window, gauge: GaugeSum::default() },
            Need::Summary(_) => Self::Summary { window, summary: Summary::default() },
            Need::Observations(_) => Self::Observations { window, values: Vec::new() },
            Need::Marks(_) | Need::PathMarks(_) => Self::Marks(Vec::new()),
        }
    }

    /// Memory of the samples that are stored individually, and of the copies that a reduction makes, bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Series(samples) => size_of::<(Instant, f64)>() * samples.capacity(),
            // A quantile sorts a copy.
            Self::Observations { values, .. } => size_of::<f64>() * (values.capacity() + values.len()),
            Self::Marks(marks) => size_of::<Mark>() * marks.capacity(),
            Self::Total { .. } | Self::Average { .. } | Self::Summary { .. } => 0,
        }
    }

    pub(super) fn take(&mut self, subject: Subject, sample: Sample) {
        let (at, value) = (sample.at, sample.value);
        match self {
            Self::Series(samples) => samples.push((at, value)),
            Self::Average { window, gauge } => gauge.take(*window, at, value),
            Self::Marks(marks) => {
                let path = if let Subject::Path(_, path) = subject { path } else { 0 };
                marks.push(Mark { at, value, path });
            }
            Self::Total { window, sum } if window.holds(at) => *sum += value,
            Self::Summary { window, summary } if window.holds(at) => summary.push(value),
            Self::Observations { window, values } if window.holds(at) => values.push(value),
            Self::Total { .. } | Self::Summary { .. } | Self::Observations { .. } => {}
        }
    }
}
