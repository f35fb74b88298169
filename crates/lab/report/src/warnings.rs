//! Warnings that a reader should see before using the results. They are the same in every format of the report.

use std::collections::BTreeMap;

use netrig_experiment::{Level, PointResult, RunValue, Status};
use serde::Serialize;

use crate::Report;
use crate::wording::counted;
use netrig_core::text::words;

/// A reason to doubt results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ResultWarning {
    /// The subject, such as `2 of 3 points failed` or `The file, line 7`.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The affected points. Empty if the warning concerns all points or the file.
    pub places: Vec<String>,
}

/// Largest number of points that are named in a list. Further points are counted.
pub(crate) const NAMED: usize = 6;

impl ResultWarning {
    /// All warnings, the most severe first.
    pub fn all(report: &Report<'_>) -> Vec<Self> {
        let mut all = Vec::new();
        for status in [Status::Failed, Status::Invalid, Status::Unsupported] {
            all.extend(ended(report, status));
        }
        all.extend(discarded(report));
        all.extend(remarked(report));
        all.extend(measured_by_some(report));
        all.extend(doubtful(report));
        all.extend(without_paper(report));
        all.extend(report.experiment.warnings().all().iter().map(|warning| {
            let notes = warning.notes.iter().map(|note| &note.message);
            let more = warning.expected.iter().chain(&warning.help).chain(notes);
            Self {
                what: format!("The file, line {}", warning.line),
                why: more.fold(warning.message.clone(), |text, note| format!("{text}; {note}")),
                places: Vec::new(),
            }
        }));
        all.extend(supported_by_few(report));
        all
    }

    /// The names of the first affected points, and the number of further points in words.
    pub fn named_places(&self) -> impl Iterator<Item = String> {
        let more = self.places.len().checked_sub(NAMED + 1).map(|more| format!("and {} more", more + 1));
        self.places.iter().take(NAMED).cloned().chain(more)
    }
}

/// The largest share of runs in which an outcome may occur that these runs may have missed, without a warning.
const NEGLIGIBLE: f64 = 0.05;

/// The warning that claims are supported by few runs, so that rare outcomes may be absent. It uses the smallest number
/// of runs of a supported claim.
fn supported_by_few(report: &Report<'_>) -> Option<ResultWarning> {
    let (n, unseen) = report.results.most_unseen().filter(|(_, unseen)| *unseen > NEGLIGIBLE)?;
    Some(ResultWarning {
        what: format!("Claims supported by {}", counted(n as usize, "run")),
        why: format!("outcomes that occur in fewer than {:.0} % of runs may be absent", 100.0 * unseen),
        places: Vec::new(),
    })
}

/// The warnings about tables that omit the paper's values, because these depend on levels that were not run.
fn without_paper(report: &Report<'_>) -> impl Iterator<Item = ResultWarning> {
    let design = &report.experiment.design;
    report.results.tables.iter().filter_map(|table| {
        let omitted = design.table(&table.id)?.without_paper(design);
        let factor = |(name, levels): &(&str, Vec<&Level>)| {
            let levels: Vec<&str> = levels.iter().map(|level| level.text()).collect();
            format!("{name} = {}", levels.join(", "))
        };
        let omitted: Vec<String> = omitted.iter().map(factor).collect();
        (!omitted.is_empty()).then(|| ResultWarning {
            what: format!("Table \u{ab}{}\u{bb}", table.title),
            why: format!(
                "the paper's values depend on levels that were not run ({}) and are left out",
                omitted.join("; ")
            ),
            places: Vec::new(),
        })
    })
}

fn place(point: &PointResult) -> String {
    if point.factors.levels().is_empty() {
        return format!("on {}", point.substrate);
    }
    format!("{} on {}", point.factors, point.substrate)
}

const NO_REASON: &str = "no reason is given";

/// One warning for each reason, with the number of affected points or runs and the points. `what` formats the number.
fn by_reason<'a>(
    found: impl Iterator<Item = (&'a str, usize, &'a PointResult)>,
    what: impl Fn(usize) -> String,
) -> Vec<ResultWarning> {
    let mut reasons: BTreeMap<&str, (usize, Vec<String>)> = BTreeMap::new();
    for (why, count, point) in found {
        let (total, places) = reasons.entry(why).or_default();
        *total += count;
        let place = place(point);
        if places.last() != Some(&place) {
            places.push(place);
        }
    }
    let warning = |(why, (count, places)): (&str, (usize, Vec<String>))| ResultWarning {
        what: what(count),
        why: why.to_owned(),
        places,
    };
    reasons.into_iter().map(warning).collect()
}

/// The warnings about points with this status.
fn ended(report: &Report<'_>, status: Status) -> Vec<ResultWarning> {
    let all = &report.results.points;
    let ended = all.iter().filter(|point| point.status == status);
    let ended = ended.map(|point| (point.why.as_deref().unwrap_or(NO_REASON), 1, point));
    by_reason(ended, |count| format!("{count} of {} {}", counted(all.len(), "point"), status.name()))
}

/// The warnings about invalid runs. Every response of a point lists the same runs, so one response is enough.
fn discarded(report: &Report<'_>) -> Vec<ResultWarning> {
    let runs = report.results.points.iter().flat_map(|point| {
        let runs = point.responses.values().next().map_or(&[][..], |response| &response.runs);
        runs.iter().map(move |run| (run, point))
    });
    let invalid = runs.filter(|(run, _)| !run.valid);
    let invalid = invalid.map(|(run, point)| (run.why.as_deref().unwrap_or(NO_REASON), 1, point));
    by_reason(invalid, |count| format!("{} not counted", counted(count, "run")))
}

/// The warnings about points with valid results that have a remark.
fn remarked(report: &Report<'_>) -> Vec<ResultWarning> {
    let points = report.results.points.iter();
    let remarks = points.flat_map(|point| point.remarks.iter().map(move |remark| (remark, point)));
    let remarks = remarks.map(|(remark, point)| (remark.text.as_str(), remark.runs as usize, point));
    by_reason(remarks, |count| format!("{} marked", counted(count, "run")))
}

/// The warnings about responses that only some valid runs of a point measured. The mean uses only these runs.
fn measured_by_some(report: &Report<'_>) -> Vec<ResultWarning> {
    of_runs(
        report,
        |run, n| n > 0 && run.value.is_none() && run.why.is_some(),
        |runs, name| {
            format!(
                "{} of valid runs without {}, which its mean leaves out",
                counted(runs, "run"),
                words(name)
            )
        },
    )
}

/// The warnings about responses with values that are doubtful according to a test of the run.
fn doubtful(report: &Report<'_>) -> Vec<ResultWarning> {
    of_runs(
        report,
        |run, _| run.value.is_some() && run.why.is_some(),
        |runs, name| format!("{} of {} doubtful", counted(runs, "value"), words(name)),
    )
}

/// Warnings about the valid runs of each response for which `meant` returns true. The second argument of `meant` is the
/// number of runs that measured the response at the point. The reason is the reason of the first such run.
fn of_runs(
    report: &Report<'_>,
    meant: impl Fn(&RunValue, u32) -> bool,
    what: impl Fn(usize, &str) -> String,
) -> Vec<ResultWarning> {
    let mut warnings = Vec::new();
    for (name, _) in &report.experiment.design.responses {
        let (mut count, mut why, mut places) = (0, None, Vec::new());
        for point in &report.results.points {
            let Some(response) = point.responses.get(name) else { continue };
            let runs: Vec<&RunValue> =
                response.runs.iter().filter(|run| run.valid && meant(run, response.n)).collect();
            let Some(first) = runs.first() else { continue };
            why.get_or_insert(first.why.as_deref().unwrap_or(NO_REASON));
            count += runs.len();
            places.push(format!(
                "{}: {} of {}",
                place(point),
                runs.len(),
                counted(response.runs.len(), "run")
            ));
        }
        warnings.extend(why.map(|why| ResultWarning {
            what: what(count, name),
            why: why.to_owned(),
            places,
        }));
    }
    warnings
}
