//! What ought to be looked at before the results are trusted.

use std::collections::BTreeMap;

use netrig_experiment::{PointResult, Status};

use crate::Report;
use crate::markup::Markup;
use crate::sheet::word;

/// Points that are named for one reason; the others are counted.
const NAMED: usize = 6;

pub(super) fn are_there(report: &Report<'_>) -> bool {
    let troubled = report.results.points.iter().any(|point| point.status != Status::Ok);
    troubled || !report.experiment.warnings().is_empty() || !discarded(report).is_empty()
}

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    m.inside("ul", &[("class", "warnings")], |m| {
        for status in [Status::Failed, Status::Invalid, Status::Unsupported] {
            points(m, report, status);
        }
        for (why, count) in discarded(report) {
            m.inside("li", &[], |m| {
                m.element(
                    "strong",
                    &[],
                    format!("{count} {} not counted: ", if count == 1 { "run" } else { "runs" }),
                );
                m.text(why);
            });
        }
        for warning in report.experiment.warnings().all() {
            m.inside("li", &[], |m| {
                m.element("strong", &[], format!("The file, line {}: ", warning.line));
                m.text(&warning.message);
                let notes = warning.notes.iter().map(|note| &note.message);
                for note in warning.expected.iter().chain(&warning.help).chain(notes) {
                    m.text(format!("; {note}"));
                }
            });
        }
    });
}

/// The points that ended so, by their reasons.
fn points(m: &mut Markup, report: &Report<'_>, status: Status) {
    let mut reasons: BTreeMap<&str, Vec<&PointResult>> = BTreeMap::new();
    let all = &report.results.points;
    for point in all.iter().filter(|point| point.status == status) {
        reasons.entry(point.why.as_deref().unwrap_or("no reason is given")).or_default().push(point);
    }
    for (why, points) in reasons {
        m.inside("li", &[], |m| {
            m.element("strong", &[], format!("{} of {} points {}: ", points.len(), all.len(), word(status)));
            m.text(why);
            m.inside("ul", &[], |m| {
                for point in points.iter().take(NAMED) {
                    m.element("li", &[], format!("{} on {}", point.factors, point.substrate));
                }
                if points.len() > NAMED {
                    m.element("li", &[], format!("and {} more", points.len() - NAMED));
                }
            });
        });
    }
}

/// Runs that do not count, by their reasons. Every response of a point lists the same runs, so one is enough.
fn discarded<'a>(report: &'a Report<'_>) -> BTreeMap<&'a str, usize> {
    let runs = report.results.points.iter().filter_map(|point| point.responses.values().next());
    let mut reasons = BTreeMap::new();
    for run in runs.flat_map(|response| &response.runs).filter(|run| !run.valid) {
        *reasons.entry(run.why.as_deref().unwrap_or("no reason is given")).or_default() += 1;
    }
    reasons
}
