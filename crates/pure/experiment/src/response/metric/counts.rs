//! The trait of metrics, their table, and the usual ones: a total, a rate, a share, a level, a statistic.

use netrig_core::Quantity;

use super::about::{About, Need};
use crate::reduce::{MeasuredValue, View};
use crate::response::{Per, Statistic};

/// A metric of a flow, a link, a node or the run.
pub trait Metric: Sync {
    /// Its description.
    fn about(&self) -> &About;

    /// The quantities that it needs for this statistic.
    fn needs(&self, statistic: Statistic) -> Vec<Need>;

    /// The count or level in which MSER-5 looks for the end of the warm-up. `None` if a warm-up has no meaning
    /// (totals, moments), or if the observations themselves show it.
    fn signal(&self) -> Option<&'static Quantity> {
        None
    }

    /// The value in one run.
    fn reduce(&self, view: &View<'_>) -> MeasuredValue;

    /// The value of several members together, if it is not the sum of their values.
    fn sum(&self, views: &[View<'_>]) -> Option<MeasuredValue> {
        let _ = views;
        None
    }
}

/// A family of metrics as a table, by the kind of their subject: name, unit, properties, how the metric is measured,
/// and its definition.
macro_rules! metrics {
    ($(
        of $subject:ident;
        $($name:literal [$unit:literal] $(.$method:ident($($argument:expr),* $(,)?))+: $definition:literal;)+
    )+) => {
        pub(super) static ALL: &[&dyn super::Metric] = &[$($(
            &super::About::new($name, $unit, crate::response::SubjectKind::$subject, $definition)
                $(.$method($($argument),*))+,
        )+)+];
    };
}
pub(super) use metrics;

/// How a metric is measured.
impl About {
    /// The sum of a count over the measuring window.
    pub(super) const fn total(self, quantity: &'static Quantity) -> Total {
        Total { about: self, quantity }
    }

    /// A count per second of the measuring window.
    pub(super) const fn rate(self, quantity: &'static Quantity) -> Rate {
        Rate { about: self, quantity, times: 1.0, over: Over::Window }
    }

    /// Bits per second of the measuring window from a count of bytes.
    pub(super) const fn bit_rate(self, quantity: &'static Quantity) -> Rate {
        Rate { times: 8.0, ..self.rate(quantity) }
    }

    /// `times` a count per second of the part of the window before the flow's `stop`. Afterwards the flow only
    /// finishes, so that time must not lower the rate.
    pub(super) const fn active_rate(self, quantity: &'static Quantity, times: f64) -> Rate {
        Rate { times, over: Over::Active, ..self.rate(quantity) }
    }

    /// One count as a share of others; `nothing` is the reason if the whole is zero.
    pub(super) const fn share_of(
        self,
        part: &'static [&'static Quantity],
        whole: &'static [&'static Quantity],
        nothing: &'static str,
    ) -> Share {
        Share { about: self.share().pooled(), part, whole, nothing }
    }

    /// The mean of a level over the measuring window; `nothing` is the reason if there are no samples.
    pub(super) const fn mean_level(self, quantity: &'static Quantity, nothing: &'static str) -> AverageLevel {
        AverageLevel { about: self.per(Per::Mean), quantity, largest: false, nothing }
    }

    /// The largest sample of a level in the measuring window; `nothing` is the reason if there are no samples.
    pub(super) const fn largest_level(
        self,
        quantity: &'static Quantity,
        nothing: &'static str,
    ) -> AverageLevel {
        AverageLevel { about: self.per(Per::Max), quantity, largest: true, nothing }
    }

    /// A statistic of the observations of one quantity.
    pub(super) const fn observations(self, quantity: &'static Quantity) -> Observed {
        Observed { about: self.observed(), quantity }
    }

    /// Any other computation from these quantities.
    pub(super) const fn computed(
        self,
        needs: fn(Statistic) -> Vec<Need>,
        reduce: fn(&View<'_>) -> MeasuredValue,
    ) -> Computed {
        Computed { about: self, needs, signal: None, reduce, sum: None }
    }
}

/// The sum of a count over the measuring window.
pub(super) struct Total {
    about: About,
    quantity: &'static Quantity,
}

impl Metric for Total {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Total(self.quantity)]
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        view.total(self.quantity).into()
    }
}

/// A count per second.
pub(super) struct Rate {
    about: About,
    quantity: &'static Quantity,
    /// Factor on the quantity's unit: 8 for bits from bytes.
    times: f64,
    over: Over,
}

/// The time by which a count is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// The whole measuring window.
    Window,
    /// The part of the window before the flow's `stop`.
    Active,
}

impl Metric for Rate {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Total(self.quantity)]
    }

    fn signal(&self) -> Option<&'static Quantity> {
        Some(self.quantity)
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        let total = self.times * view.total(self.quantity);
        if self.over == Over::Window {
            return view.per_second(total);
        }
        let span = view.until_stop().as_secs_f64();
        if span > 0.0 {
            return (total / span).into();
        }
        MeasuredValue::not("the measuring window begins when the flow begins nothing any more")
    }
}

/// One count as a share of others.
pub(super) struct Share {
    about: About,
    part: &'static [&'static Quantity],
    whole: &'static [&'static Quantity],
    /// The reason if the whole is zero.
    nothing: &'static str,
}

impl Metric for Share {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        let mut needs: Vec<Need> = self.part.iter().copied().map(Need::Total).collect();
        let others = self.whole.iter().filter(|q| !self.part.iter().any(|p| std::ptr::eq(*p, **q)));
        needs.extend(others.copied().map(Need::Total));
        needs
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        let sum = |quantities: &[&'static Quantity]| quantities.iter().map(|q| view.total(q)).sum::<f64>();
        let whole = sum(self.whole);
        if whole > 0.0 { (sum(self.part) / whole).into() } else { MeasuredValue::not(self.nothing) }
    }
}

/// A level: its mean over the measuring window, or its largest sample.
pub(super) struct AverageLevel {
    about: About,
    quantity: &'static Quantity,
    largest: bool,
    /// The reason if there are no samples.
    nothing: &'static str,
}

impl Metric for AverageLevel {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Average(self.quantity)]
    }

    fn signal(&self) -> Option<&'static Quantity> {
        (!self.largest).then_some(self.quantity)
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        match view.average(self.quantity) {
            Some(level) if self.largest => level.max.into(),
            Some(level) => level.mean.into(),
            None => MeasuredValue::not(self.nothing),
        }
    }
}

/// A statistic of the observations of one quantity.
pub(super) struct Observed {
    about: About,
    quantity: &'static Quantity,
}

impl Metric for Observed {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, statistic: Statistic) -> Vec<Need> {
        let need = if statistic.streams() { Need::Summary } else { Need::Observations };
        vec![need(self.quantity)]
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        view.statistic(self.quantity)
    }
}

/// A metric with an arithmetic of its own.
pub(super) struct Computed {
    about: About,
    needs: fn(Statistic) -> Vec<Need>,
    signal: Option<&'static Quantity>,
    reduce: fn(&View<'_>) -> MeasuredValue,
    sum: Option<fn(&[View<'_>]) -> MeasuredValue>,
}

impl Computed {
    pub(super) const fn with_signal(self, signal: &'static Quantity) -> Self {
        Self { signal: Some(signal), ..self }
    }

    pub(super) const fn with_sum(self, sum: fn(&[View<'_>]) -> MeasuredValue) -> Self {
        Self { sum: Some(sum), ..self }
    }
}

impl Metric for Computed {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, statistic: Statistic) -> Vec<Need> {
        (self.needs)(statistic)
    }

    fn signal(&self) -> Option<&'static Quantity> {
        self.signal
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        (self.reduce)(view)
    }

    fn sum(&self, views: &[View<'_>]) -> Option<MeasuredValue> {
        Some(self.sum?(views))
    }
}
