//! Metrics, their tables, and how they are measured.

use netrig_core::Quantity;

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
        /// Factor on the quantity's unit: 8 for bits from bytes.
        times: f64,
        over: Over,
    },
    /// Counts as a share of others.
    Share {
        part: &'static [&'static Quantity],
        whole: &'static [&'static Quantity],
        /// The reason if the whole is zero.
        nothing: &'static str,
    },
    /// A level: its mean over the measuring window, or its largest sample.
    Level {
        quantity: &'static Quantity,
        largest: bool,
        /// The reason if there are no samples.
        nothing: &'static str,
    },
    /// A statistic of the observations of one quantity.
    Observed(&'static Quantity),
    /// An arithmetic of its own.
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
    /// Its description.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The quantities that it needs for this statistic.
    pub fn needs(&self, statistic: Statistic) -> Vec<Need> {
        match self.formula {
            Formula::Total(quantity) | Formula::Rate { quantity, .. } => vec![Need::Total(quantity)],
            Formula::Share { part, whole, .. } => {
                let others = whole.iter().filter(|q| !part.iter().any(|p| std::ptr::eq(*p, **q)));
                part.iter().chain(others).copied().map(Need::Total).collect()
            }
            Formula::Level { quantity, .. } => vec![Need::Average(quantity)],
            Formula::Observed(quantity) if statistic.streams() => vec![Need::Summary(quantity)],
            Formula::Observed(quantity) => vec![Need::Observations(quantity)],
            Formula::Computed { needs, .. } => needs(statistic),
        }
    }

    /// The count or level in which MSER-5 looks for the end of the warm-up. `None` if a warm-up has no meaning
    /// (totals, moments), or if the observations themselves show it.
    pub fn signal(&self) -> Option<&'static Quantity> {
        match self.formula {
            Formula::Rate { quantity, .. } | Formula::Level { quantity, largest: false, .. } => {
                Some(quantity)
            }
            _ => self.signal,
        }
    }

    /// The value in one run.
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
            Formula::Share { part, whole, nothing } => {
                let sum = |of: &[&'static Quantity]| of.iter().map(|quantity| view.total(quantity)).sum();
                ratio(sum(part), sum(whole), nothing)
            }
            Formula::Level { quantity, largest, nothing } => match view.average(quantity) {
                Some(level) => if largest { level.max } else { level.mean }.into(),
                None => MeasuredValue::not(nothing),
            },
            Formula::Observed(quantity) => view.statistic(quantity),
            Formula::Computed { reduce, .. } => reduce(view),
        }
    }

    /// The value of several members together, if it is not the sum of their values.
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

/// A part of a whole; `nothing` is the reason if the whole is not above zero.
pub(super) fn ratio(part: f64, whole: f64, nothing: &'static str) -> MeasuredValue {
    if whole > 0.0 { (part / whole).into() } else { MeasuredValue::not(nothing) }
}

/// A family of metrics as a table, by the kind of their subject: name, unit, properties, how the metric is measured,
/// and its definition.
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

/// How a metric is measured.
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

    /// `times` a count per second of the part of the window before the flow's `stop`. Afterwards the flow only
    /// finishes, so that time must not lower the rate.
    pub(super) const fn active_rate(self, quantity: &'static Quantity, times: f64) -> Metric {
        self.by(Formula::Rate { quantity, times, over: Over::Active })
    }

    /// One count as a share of others; `nothing` is the reason if the whole is zero.
    pub(super) const fn share_of(
        self,
        part: &'static [&'static Quantity],
        whole: &'static [&'static Quantity],
        nothing: &'static str,
    ) -> Metric {
        self.share().pooled().by(Formula::Share { part, whole, nothing })
    }

    /// The mean of a level over the measuring window; `nothing` is the reason if there are no samples.
    pub(super) const fn mean_level(self, quantity: &'static Quantity, nothing: &'static str) -> Metric {
        self.per(Per::Mean).by(Formula::Level { quantity, largest: false, nothing })
    }

    /// The largest sample of a level in the measuring window; `nothing` is the reason if there are no samples.
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
