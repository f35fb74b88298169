//! Metrics, the macro for their tables, and the formulas that compute them.

use netrig_core::{CountRatio, Quantity};

use super::about::{About, Need};
use crate::reduce::{MeasuredValue, View};
use crate::response::{Per, Statistic};

/// A metric of a flow, a link, a node or the run.
pub struct Metric {
    about: About,
    formula: Formula,
    signal: Option<&'static Quantity>,
    sum: Option<fn(&[View<'_>]) -> MeasuredValue>,
}

/// How a metric is measured.
enum Formula {
    /// The sum of a count over the measuring window.
    Total(&'static Quantity),
    /// A count per second.
    Rate {
        quantity: &'static Quantity,
        /// Factor by which the count is multiplied: 8 to convert bytes to bits.
        times: f64,
        over: Over,
    },
    /// The sum of some counts, divided by the sum of others.
    Ratio(CountRatio),
    /// A gauge: its mean over the measuring window, or its largest sample.
    Level {
        quantity: &'static Quantity,
        largest: bool,
        /// The reason for a missing value if there are no samples.
        nothing: &'static str,
    },
    /// A statistic of the observations of one quantity.
    Observed(&'static Quantity),
    /// Any other computation.
    Computed { needs: fn(Statistic) -> Vec<Need>, reduce: fn(&View<'_>) -> MeasuredValue },
}

/// The time by which a count is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The whole measuring window.
    Window,
    /// The part of the window before the flow's `stop`.
    Active,
}

impl Metric {
    /// The description of the metric.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The quantities that the metric needs for this statistic.
    pub fn needs(&self, statistic: Statistic) -> Vec<Need> {
        match self.formula {
            Formula::Total(quantity) | Formula::Rate { quantity, .. } => vec![Need::Total(quantity)],
            Formula::Ratio(ratio) => ratio.counts().into_iter().map(Need::Total).collect(),
            Formula::Level { quantity, .. } => vec![Need::Average(quantity)],
            Formula::Observed(quantity) if statistic.streams() => vec![Need::Summary(quantity)],
            Formula::Observed(quantity) => vec![Need::Observations(quantity)],
            Formula::Computed { needs, .. } => needs(statistic),
        }
    }

    /// The count or gauge in which MSER-5 finds the end of the warm-up. `None` for metrics without a warm-up (totals
    /// and times of events), and for metrics in whose observations MSER-5 finds it.
    pub fn signal(&self) -> Option<&'static Quantity> {
        match self.formula {
            Formula::Rate { quantity, .. } | Formula::Level { quantity, largest: false, .. } => {
                Some(quantity)
            }
            _ => self.signal,
        }
    }

    /// The value of the metric in one run.
    pub fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        match self.formula {
            Formula::Total(quantity) => view.total(quantity).into(),
            Formula::Rate { quantity, times, over: Over::Window } => {
                view.per_second(times * view.total(quantity))
            }
            Formula::Rate { quantity, times, over: Over::Active } => {
                let nothing = "the measuring window begins when the flow begins nothing any more";
                ratio(times * view.total(quantity), view.until_stop().as_secs_f64(), nothing)
            }
            Formula::Ratio(ratio) => match ratio.of(|quantity| view.total(quantity)) {
                Some(value) => value.into(),
                None => MeasuredValue::not(ratio.nothing),
            },
            Formula::Level { quantity, largest, nothing } => match view.average(quantity) {
                Some(level) => if largest { level.max } else { level.mean }.into(),
                None => MeasuredValue::not(nothing),
            },
            Formula::Observed(quantity) => view.statistic(quantity),
            Formula::Computed { reduce, .. } => reduce(view),
        }
    }

    /// The value of several members together, if it is not the sum of their values. `None` if it is.
    pub fn sum(&self, views: &[View<'_>]) -> Option<MeasuredValue> {
        Some(self.sum?(views))
    }

    pub(super) const fn with_signal(self, signal: &'static Quantity) -> Self {
        Self { signal: Some(signal), ..self }
    }

    pub(super) const fn with_sum(self, sum: fn(&[View<'_>]) -> MeasuredValue) -> Self {
        Self { sum: Some(sum), ..self }
    }
}

/// `part / whole`. `nothing` is the reason for a missing value if the whole is not above zero.
pub(super) fn ratio(part: f64, whole: f64, nothing: &'static str) -> MeasuredValue {
    if whole > 0.0 { (part / whole).into() } else { MeasuredValue::not(nothing) }
}

/// Declares a table of metrics, grouped by the kind of their subject. A row has the name, the unit, the properties and
/// the formula of a metric, and its definition.
macro_rules! metrics {
    ($(
        of $subject:ident;
        $($name:literal [$unit:literal] $(.$method:ident($($argument:expr),* $(,)?))+: $definition:literal;)+
    )+) => {
        pub(super) static ALL: &[super::Metric] = &[$($(
            super::About::new($name, $unit, crate::response::SubjectKind::$subject, $definition)
                $(.$method($($argument),*))+,
        )+)+];
    };
}
pub(super) use metrics;

/// Constructors of metrics, one for each formula.
impl About {
    const fn by(self, formula: Formula) -> Metric {
        Metric { about: self, formula, signal: None, sum: None }
    }

    /// The sum of a count over the measuring window.
    pub(super) const fn total(self, quantity: &'static Quantity) -> Metric {
        self.by(Formula::Total(quantity))
    }

    /// A count per second of the measuring window.
    pub(super) const fn rate(self, quantity: &'static Quantity) -> Metric {
        self.by(Formula::Rate { quantity, times: 1.0, over: Over::Window })
    }

    /// Bits per second of the measuring window from a count of bytes.
    pub(super) const fn bit_rate(self, quantity: &'static Quantity) -> Metric {
        self.by(Formula::Rate { quantity, times: 8.0, over: Over::Window })
    }

    /// A count, multiplied by `times`, per second of the part of the window before the flow's `stop`. After `stop` the
    /// flow only finishes, so this time must not reduce the rate.
    pub(super) const fn active_rate(self, quantity: &'static Quantity, times: f64) -> Metric {
        self.by(Formula::Rate { quantity, times, over: Over::Active })
    }

    /// Counts as a share of others. `nothing` is the reason for a missing value if the whole is zero.
    pub(super) const fn share_of(
        self,
        part: &'static [&'static Quantity],
        whole: &'static [&'static Quantity],
        nothing: &'static str,
    ) -> Metric {
        self.share().pooled().quotient(part, whole, nothing)
    }

    /// Counts divided by others. `nothing` is the reason for a missing value if the denominator is zero.
    pub(super) const fn quotient(
        self,
        part: &'static [&'static Quantity],
        whole: &'static [&'static Quantity],
        nothing: &'static str,
    ) -> Metric {
        self.counted(CountRatio { part, whole, without: &[], nothing })
    }

    /// A ratio of counts.
    pub(super) const fn counted(self, ratio: CountRatio) -> Metric {
        self.by(Formula::Ratio(ratio))
    }

    /// The mean of a gauge over the measuring window. `nothing` is the reason for a missing value if there are no
    /// samples.
    pub(super) const fn mean_level(self, quantity: &'static Quantity, nothing: &'static str) -> Metric {
        self.per(Per::Mean).by(Formula::Level { quantity, largest: false, nothing })
    }

    /// The largest sample of a gauge in the measuring window. `nothing` is the reason for a missing value if there are
    /// no samples.
    pub(super) const fn largest_level(self, quantity: &'static Quantity, nothing: &'static str) -> Metric {
        self.per(Per::Max).by(Formula::Level { quantity, largest: true, nothing })
    }

    /// A statistic of the observations of one quantity.
    pub(super) const fn observations(self, quantity: &'static Quantity) -> Metric {
        self.observed().by(Formula::Observed(quantity))
    }

    /// Any other computation from these quantities.
    pub(super) const fn computed(
        self,
        needs: fn(Statistic) -> Vec<Need>,
        reduce: fn(&View<'_>) -> MeasuredValue,
    ) -> Metric {
        self.by(Formula::Computed { needs, reduce })
    }
}
