//! The registry of metrics. Each metric has a name, a unit, a definition, the quantities that it needs, and a reduction
//! to one number per run.
//!
//! A metric reads the samples of one subject from a [`View`]. Each family has a file with a table of its metrics and
//! with tests on samples made by hand.

mod about;
mod carried;
mod counts;
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

pub use about::{About, Need};
pub use counts::Metric;
use counts::{metrics, ratio};

use super::{Statistic, SubjectKind};
use crate::reduce::{MeasuredValue, View};

/// All metrics, family by family.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let families: [&'static [Metric]; 12] = [
        carried::ALL,
        sent::ALL,
        observed::ALL,
        media::ALL,
        &sip::INDICES,
        sip::ALL,
        moments::ALL,
        outage::ALL,
        link::ALL,
        rule::ALL,
        node::ALL,
        run::ALL,
    ];
    families.into_iter().flatten()
}

/// The metric with this name. Names are unique, also between metrics of different kinds of subjects.
pub fn find(name: &str) -> Option<&'static Metric> {
    all().find(|metric| metric.about().name == name)
}

/// The metrics of one kind of subject.
pub fn of_kind(kind: SubjectKind) -> impl Iterator<Item = &'static Metric> {
    all().filter(move |metric| metric.about().is_of(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metrics that change by as much as the lateness of the tester, and metrics that do not.
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
