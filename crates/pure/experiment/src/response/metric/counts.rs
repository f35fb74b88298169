//! The trait of metrics, and the metrics of counts: a total, a rate, a share.

use netrig_core::Quantity;

use super::about::{About, Need};
use crate::reduce::{MeasuredValue, View};
use crate::response::Statistic;

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

/// The sum of a count over the measuring window.
pub(super) struct Total {
    pub(super) about: About,
    pub(super) quantity: &'static Quantity,
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
    pub(super) about: About,
    pub(super) quantity: &'static Quantity,
    /// Factor on the quantity's unit: 8 for bits from bytes.
    pub(super) times: f64,
    pub(super) over: Over,
}

/// The time by which a count is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// The whole measuring window.
    Window,
    /// The part of the window before the flow's `stop`. Afterwards the flow only finishes, so that time must
    /// not lower the rate.
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
    pub(super) about: About,
    pub(super) part: &'static [&'static Quantity],
    pub(super) whole: &'static [&'static Quantity],
    /// The reason if the whole is zero.
    pub(super) nothing: &'static str,
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
