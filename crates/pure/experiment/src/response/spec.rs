//! A response in the form of an experiment file.

use netrig_core::Duration;
use netrig_stats::quantile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agreement::AgreementSpec;
use super::statistic::{Per, Statistic};
use super::subject::Of;
use super::{amount, metric};
use crate::Factor;
use crate::check::{SpecError, one_of, refuse};

/// A response: a metric of a subject, reduced to one number per run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseSpec {
    /// The subject.
    pub of: Of,
    /// The metric's name: `goodput`, `object_time`, `utilisation`.
    pub metric: String,
    /// The statistic of the observations of a run, for metrics that have observations. If not given, the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistic: Option<Statistic>,
    /// The deadline, for metrics that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Duration>,
    /// How the members of a `count` become one number. If not given, the default of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Per>,
    /// Start of the measuring window, rounded up to whole sampling intervals. If not given, the end of the
    /// warm-up, or the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,
    /// End of the measuring window, rounded up to whole sampling intervals. If not given, the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Duration>,
    /// The unit in tables and figures. If not given, the metric's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The method for the interval over replications.
    #[serde(default, skip_serializing_if = "is_student")]
    pub interval: IntervalMethod,
    /// The required agreement of the means of two substrates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<AgreementSpec>,
}

fn is_student(method: &IntervalMethod) -> bool {
    *method == IntervalMethod::Student
}

/// The method for the interval of a response over replications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalMethod {
    /// Student's t: exact for normal values, and nearly exact for means of runs.
    #[default]
    Student,
    /// Student's t with each end moved outwards if the values are skewed (Willink 2005).
    SkewAdjusted,
    /// Student's t over the logarithms: the geometric mean with its interval. All values must be positive.
    Log,
    /// The bias-corrected and accelerated bootstrap of the mean (Efron 1987), its percentiles expanded for small samples
    /// (Hesterberg 2015).
    Bootstrap,
}

/// The names that responses may refer to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subjects<'a> {
    /// Flows of the file.
    pub flows: &'a [&'a str],
    /// Links of the file.
    pub links: &'a [&'a str],
    /// Nodes of the file.
    pub nodes: &'a [&'a str],
    /// Factors of the file.
    pub factors: &'a [Factor],
}

impl ResponseSpec {
    /// The metric that the field `metric` names; `None` for an unknown name.
    pub fn metric(&self) -> Option<&'static metric::Metric> {
        metric::find(&self.metric)
    }

    /// The statistic; the mean if the file gives none.
    pub fn statistic(&self) -> Statistic {
        self.statistic.unwrap_or_default()
    }

    /// The unit of the values: the unit that the file requests, otherwise that of the metric.
    pub fn unit(&self) -> &str {
        match (&self.unit, self.per) {
            (Some(unit), _) => unit,
            (None, Some(Per::Jain)) => "1",
            (None, _) => self.metric().map_or("1", |metric| metric.about().unit),
        }
    }

    /// The factor that converts the metric's unit to [`ResponseSpec::unit`].
    pub(crate) fn scale(&self) -> f64 {
        let own = self.metric().map_or("1", |metric| metric.about().unit);
        self.unit.as_ref().and_then(|unit| amount::factor(own, unit).ok()).unwrap_or(1.0)
    }

    /// The smallest and the largest possible value of a run. `None` except for shares, because only their limits are
    /// known.
    pub(crate) fn range(&self) -> Option<[f64; 2]> {
        let about = self.metric()?.about();
        let is_share = match self.per.unwrap_or(about.per) {
            Per::Jain => true,
            Per::Sum => false,
            Per::Mean | Per::Max | Per::Min | Per::Pooled => about.share,
        };
        is_share.then(|| [0.0, self.scale()])
    }

    /// Whether the statistic is a quantile of a run's observations.
    pub(crate) fn is_quantile(&self) -> bool {
        matches!(self.statistic, Some(Statistic::Quantile(_)))
    }

    /// The definition for reports: the metric's definition, the statistic and the measuring window.
    pub fn definition(&self) -> String {
        let Some(metric) = self.metric() else { return String::new() };
        let about = metric.about();
        let mut text = about.definition.to_owned();
        if about.observed {
            text = format!("{} of: {}", capital(&self.statistic().to_string()), text);
        }
        if self.is_quantile() {
            text += &format!(" The quantile is {}.", quantile::DEFINITION);
        }
        if let Some(within) = self.within {
            text += &format!(" The deadline is {within}.");
        }
        if let (Some(after), Some(until)) = (self.after, self.until) {
            text += &format!(" Measured from {after} to {until}.");
        } else if let Some(after) = self.after {
            text += &format!(" Measured from {after} on.");
        } else if let Some(until) = self.until {
            text += &format!(" Measured until {until}.");
        }
        text
    }

    /// Checks the response. Returns its faults, each with its field.
    pub fn check(&self, subjects: Subjects<'_>) -> Vec<SpecError> {
        let mut errors = Vec::new();
        let known = match &self.of {
            Of::Run => &[][..],
            Of::Flow(_) => subjects.flows,
            Of::Link(..) | Of::Class(..) | Of::Rule(..) => subjects.links,
            Of::Node(_) | Of::Counter(..) => subjects.nodes,
        };
        if self.of != Of::Run && !known.contains(&self.of.group()) {
            let what = format!(
                "no {} is called `{}`",
                self.of.to_string().split('.').next().unwrap_or(""),
                self.of.group()
            );
            errors.push(SpecError::new("of", one_of(&what, self.of.group(), known)));
        }
        if self.after.zip(self.until).is_some_and(|(after, until)| after >= until) {
            refuse(&mut errors, "until", "the window must end after it starts (`after`)");
        }
        let Some(metric) = self.metric() else {
            let names: Vec<&str> = metric::of_kind(self.of.kind()).map(|m| m.about().name).collect();
            let what = format!("there is no metric `{}` of {}", self.metric, self.of.kind());
            errors.push(SpecError::new("metric", one_of(&what, &self.metric, &names)));
            return errors;
        };
        self.check_against(metric, &mut errors);
        let agreement = self.agreement.as_ref().map(|spec| spec.check(self.unit(), subjects.factors));
        errors.extend(agreement.into_iter().flatten());
        errors
    }

    fn check_against(&self, metric: &metric::Metric, errors: &mut Vec<SpecError>) {
        let about = metric.about();
        if !about.is_of(self.of.kind()) {
            let why = format!("`{}` is measured of {}, not of {}", about.name, about.subject, self.of.kind());
            refuse(errors, "metric", why);
        }
        if self.statistic.is_some() && !about.observed {
            let why = format!("`{}` is one number per run; it has no statistics to choose from", about.name);
            refuse(errors, "statistic", why);
        }
        match (about.deadline, self.within) {
            (true, None) => refuse(errors, "metric", format!("`{}` needs a deadline, `within`", about.name)),
            (false, Some(_)) => refuse(errors, "within", format!("`{}` has no deadline", about.name)),
            _ => {}
        }
        if self.per == Some(Per::Pooled) && !about.pools {
            refuse(
                errors,
                "per",
                format!("`{}` of several cannot be pooled; choose sum, mean, max, min or jain", about.name),
            );
        }
        if let Some(unit) = &self.unit {
            let own = if self.per == Some(Per::Jain) { "1" } else { about.unit };
            if let Err(error) = amount::factor(own, unit) {
                refuse(errors, "unit", error.to_string());
            }
        }
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
