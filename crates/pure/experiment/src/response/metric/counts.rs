//! The trait of metrics, and the metrics of counts: a total, a rate, a share.

use netrig_core::Quantity;

use super::about::{About, Need};
use crate::reduce::{Measured, View};
use crate::response::Statistic;

/// Something that can be measured of a flow, a link, a node or the run.
pub trait Metric: Sync {
    /// Its words.
    fn about(&self) -> &About;

    /// What it needs for this statistic.
    fn needs(&self, statistic: Statistic) -> Vec<Need>;

    /// The count or level in which MSER-5 looks for the end of the warm-up; `None` where a warm-up means
    /// nothing (totals, moments) or where the observations themselves show it.
    fn signal(&self) -> Option<&'static Quantity> {
        None
    }

    /// The number of one run.
    fn reduce(&self, view: &View<'_>) -> Measured;

    /// The number of several members together, where it is not the sum of their numbers.
    fn sum(&self, views: &[View<'_>]) -> Option<Measured> {
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

    fn reduce(&self, view: &View<'_>) -> Measured {
        view.total(self.quantity).into()
    }
}

/// A count per second.
pub(super) struct Rate {
    pub(super) about: About,
    pub(super) quantity: &'static Quantity,
    /// By what the quantity's unit is multiplied: 8 for bits from bytes.
    pub(super) times: f64,
    pub(super) over: Over,
}

/// Over which time a count is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// All of the measuring window.
    Window,
    /// That part of it in which the flow begins something: what it ends with is no time in which less was carried.
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

    fn reduce(&self, view: &View<'_>) -> Measured {
        let total = self.times * view.total(self.quantity);
        if self.over == Over::Window {
            return view.per_second(total);
        }
        let span = view.until_stop().as_secs_f64();
        if span > 0.0 {
            return (total / span).into();
        }
        Measured::not("the measuring window begins when the flow begins nothing any more")
    }
}

/// One count as a share of others.
pub(super) struct Share {
    pub(super) about: About,
    pub(super) part: &'static [&'static Quantity],
    pub(super) whole: &'static [&'static Quantity],
    /// Said where the whole is nothing.
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

    fn reduce(&self, view: &View<'_>) -> Measured {
        let sum = |quantities: &[&'static Quantity]| quantities.iter().map(|q| view.total(q)).sum::<f64>();
        let whole = sum(self.whole);
        if whole > 0.0 { (sum(self.part) / whole).into() } else { Measured::not(self.nothing) }
    }
}
