//! The registry of metrics: each with its name, unit, definition, the quantities it needs and how it reduces
//! them to one number per run.
//!
//! A metric sees one subject through a [`View`]. Families share a file; each metric is one `static` with its
//! words beside its arithmetic, and a test on hand-made samples.

mod carried;
mod link;
mod media;
mod moments;
mod node;
mod observed;
mod outage;
mod rule;
mod run;
mod sent;
mod sip;

use netrig_core::Quantity;

use super::{Per, Statistic, SubjectKind};
use crate::reduce::{Measured, View};

/// What a reader needs to know of a metric.
#[derive(Debug)]
pub struct About {
    /// Its name in files: `snake_case`.
    pub name: &'static str,
    /// Its unit; `1` for a pure number.
    pub unit: &'static str,
    /// One sentence that defines it.
    pub definition: &'static str,
    /// What it is measured of.
    pub subject: SubjectKind,
    /// How several members become one number unless the file says otherwise.
    pub per: Per,
    /// Whether several members can be taken together as if they were one.
    pub pools: bool,
    /// Whether it has many observations per run, of which the file chooses a statistic.
    pub observed: bool,
    /// Whether it is a share of something: never below 0 nor above 1.
    pub share: bool,
    /// Whether the file gives it a deadline, `within`.
    pub deadline: bool,
    /// Of a metric of links, whether it is measured of their classes, too.
    pub classes: bool,
    /// Of a metric of links, whether it is measured of their rules, too.
    pub rules: bool,
}

impl About {
    const fn new(
        name: &'static str,
        unit: &'static str,
        subject: SubjectKind,
        definition: &'static str,
    ) -> Self {
        Self {
            name,
            unit,
            definition,
            subject,
            per: Per::Sum,
            pools: false,
            observed: false,
            share: false,
            deadline: false,
            classes: false,
            rules: false,
        }
    }

    const fn per(self, per: Per) -> Self {
        Self { per, ..self }
    }

    const fn pooled(self) -> Self {
        Self { per: Per::Pooled, pools: true, ..self }
    }

    const fn observed(self) -> Self {
        Self { observed: true, ..self.pooled() }
    }

    const fn share(self) -> Self {
        Self { share: true, ..self }
    }

    const fn with_deadline(self) -> Self {
        Self { deadline: true, ..self }
    }

    const fn of_classes(self) -> Self {
        Self { classes: true, ..self }
    }

    const fn of_rules(self) -> Self {
        Self { rules: true, ..self }
    }

    /// Whether it hangs on the times that packets take on their way: times do, what waits in queues, and what is late for a
    /// deadline or an ear. Rates and counts hang on them where they wait for answers, by as much as all of a packet's passage.
    pub fn hangs_on_times(&self) -> bool {
        self.unit == "s"
            || self.deadline
            || ["queue_length", "late_or_lost", "voice_rating", "voice_opinion", "video_intact"]
                .contains(&self.name)
    }

    /// Whether it is measured of this kind of subject.
    pub fn is_of(&self, kind: SubjectKind) -> bool {
        self.subject == kind
            || kind == SubjectKind::Class && self.classes
            || kind == SubjectKind::Rule && self.rules
    }
}

/// A quantity that a metric needs, and how much of it.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The sum of a count over the measuring window.
    Total(&'static Quantity),
    /// Every sample of a count, whatever the window.
    Series(&'static Quantity),
    /// The mean over time of a level, and its largest sample.
    Average(&'static Quantity),
    /// Mean, deviation and extremes of the observations in the window.
    Summary(&'static Quantity),
    /// Every observation in the window.
    Observations(&'static Quantity),
    /// Every mark of the subject, whatever the window.
    Marks(&'static Quantity),
    /// Every mark of a flow's paths, whatever the window.
    PathMarks(&'static Quantity),
}

impl Need {
    /// The quantity.
    pub fn quantity(self) -> &'static Quantity {
        match self {
            Self::Total(q)
            | Self::Series(q)
            | Self::Average(q)
            | Self::Summary(q)
            | Self::Observations(q)
            | Self::Marks(q)
            | Self::PathMarks(q) => q,
        }
    }
}

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

/// All metrics, family by family.
pub fn all() -> impl Iterator<Item = &'static dyn Metric> {
    let families = [
        carried::ALL,
        sent::ALL,
        observed::ALL,
        media::ALL,
        sip::ALL,
        moments::ALL,
        outage::ALL,
        link::ALL,
        rule::ALL,
        node::ALL,
        run::ALL,
    ];
    families.into_iter().flatten().copied()
}

/// The metric of that name and any subject; names that two kinds of subjects share do not exist.
pub fn find(name: &str) -> Option<&'static dyn Metric> {
    all().find(|metric| metric.about().name == name)
}

/// The metrics of one kind of subject.
pub fn of_kind(kind: SubjectKind) -> impl Iterator<Item = &'static dyn Metric> {
    all().filter(move |metric| metric.about().is_of(kind))
}

/// The sum of a count over the measuring window.
struct Total {
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

    fn reduce(&self, view: &View<'_>) -> Measured {
        view.total(self.quantity).into()
    }
}

/// A count per second.
struct Rate {
    about: About,
    quantity: &'static Quantity,
    /// By what the quantity's unit is multiplied: 8 for bits from bytes.
    times: f64,
    over: Over,
}

/// Over which time a count is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
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
struct Share {
    about: About,
    part: &'static [&'static Quantity],
    whole: &'static [&'static Quantity],
    /// Said where the whole is nothing.
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

    fn reduce(&self, view: &View<'_>) -> Measured {
        let sum = |quantities: &[&'static Quantity]| quantities.iter().map(|q| view.total(q)).sum::<f64>();
        let whole = sum(self.whole);
        if whole > 0.0 { (sum(self.part) / whole).into() } else { Measured::not(self.nothing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run is asked for that a late tester moves by as much as it is late.
    #[test]
    fn times_and_what_waits_hang_on_the_way() {
        let hangs = |name: &str| find(name).unwrap().about().hangs_on_times();
        for name in ["round_trip_time", "waiting_time", "object_time", "queue_length", "late_or_lost"] {
            assert!(hangs(name), "{name}");
        }
        for name in ["goodput", "datagram_loss", "file_rate", "wire_throughput", "cpu_wait", "utilisation"] {
            assert!(!hangs(name), "{name}");
        }
    }

    #[test]
    fn names_are_unique_and_definitions_are_sentences() {
        let mut names: Vec<&str> = all().map(|metric| metric.about().name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in all() {
            let about = metric.about();
            assert!(about.definition.ends_with('.'), "{}", about.name);
            assert!(about.definition.starts_with(|c: char| c.is_uppercase()), "{}", about.name);
            assert!(
                about.unit.parse::<f64>() == Ok(1.0)
                    || crate::response::amount::factor(about.unit, about.unit).is_ok()
            );
        }
    }

    #[test]
    fn every_unit_is_known_to_amounts() {
        for metric in all() {
            let unit = metric.about().unit;
            assert!(crate::Amount::new(1.0, unit).is_ok(), "{unit}");
        }
    }
}
