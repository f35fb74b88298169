//! Properties of a metric: its name, unit and definition, its subject, and the quantities that it needs.

use netrig_core::Quantity;

use crate::response::{Per, SubjectKind};

/// The description of a metric.
#[derive(Debug)]
pub struct About {
    /// The name of the metric in files: `snake_case`.
    pub name: &'static str,
    /// The unit; `1` for a pure number.
    pub unit: &'static str,
    /// The definition, in one sentence.
    pub definition: &'static str,
    /// The kind of subject to which the metric applies.
    pub subject: SubjectKind,
    /// How several members become one number if the file does not choose.
    pub per: Per,
    /// Whether several members can be joined as if they were one.
    pub pools: bool,
    /// Whether the metric has many observations per run, of which the file chooses a statistic.
    pub observed: bool,
    /// Whether the value is a share, from 0 to 1.
    pub share: bool,
    /// Whether the metric needs a deadline, `within`, from the file.
    pub deadline: bool,
    /// Whether the metric, if it is one of links, also applies to classes of links.
    pub classes: bool,
    /// Whether the metric, if it is one of links, also applies to rules of links.
    pub rules: bool,
}

impl About {
    pub(super) const fn new(
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

    pub(super) const fn per(self, per: Per) -> Self {
        Self { per, ..self }
    }

    pub(super) const fn pooled(self) -> Self {
        Self { per: Per::Pooled, pools: true, ..self }
    }

    pub(super) const fn observed(self) -> Self {
        Self { observed: true, ..self.pooled() }
    }

    pub(super) const fn share(self) -> Self {
        Self { share: true, ..self }
    }

    pub(super) const fn with_deadline(self) -> Self {
        Self { deadline: true, ..self }
    }

    pub(super) const fn of_classes(self) -> Self {
        Self { classes: true, ..self }
    }

    pub(super) const fn of_rules(self) -> Self {
        Self { rules: true, ..self }
    }

    /// Whether the metric depends directly on the times of packets in the network: times, queue lengths, and metrics
    /// that count late packets. Rates and counts of request-response traffic also depend on these times, but only by
    /// the delay of one packet.
    pub fn hangs_on_times(&self) -> bool {
        self.unit == "s"
            || self.deadline
            || ["queue_length", "late_or_lost", "voice_rating", "voice_opinion", "video_intact"]
                .contains(&self.name)
    }

    /// Whether the metric applies to this kind of subject.
    pub fn is_of(&self, kind: SubjectKind) -> bool {
        self.subject == kind
            || kind == SubjectKind::Class && self.classes
            || kind == SubjectKind::Rule && self.rules
    }
}

/// A quantity that a metric needs, and the form in which its samples are kept.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The sum of a count over the measuring window.
    Total(&'static Quantity),
    /// Every sample of a count, inside and outside the window.
    Series(&'static Quantity),
    /// The mean over time of a gauge, and its largest sample.
    Average(&'static Quantity),
    /// Mean, standard deviation and extremes of the observations in the window.
    Summary(&'static Quantity),
    /// Every observation in the window.
    Observations(&'static Quantity),
    /// Every mark of the subject, inside and outside the window.
    Marks(&'static Quantity),
    /// Every mark of a flow's paths, inside and outside the window.
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
