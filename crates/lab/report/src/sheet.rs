//! What every table of points shows: which factors vary, which are constant, and the units of the responses.

use netrig_experiment::{
    Amount, ClaimPoint, ClaimResult, ClaimVerdict, Level, PointResult, Status, TableResult,
};

use crate::Report;
use crate::number::Unit;

/// The columns of a table of points.
pub(crate) struct Sheet<'a> {
    /// Whether points of more than one substrate are in it.
    pub substrates: bool,
    /// Factors whose levels differ from point to point, in the order of the file.
    pub varied: Vec<&'a str>,
    /// Factors that have one level everywhere.
    pub constants: Vec<(&'a str, &'a Level)>,
    /// Responses in the order of the file.
    pub responses: Vec<(&'a str, Unit)>,
}

impl<'a> Sheet<'a> {
    /// The columns for the points of a report.
    pub fn new(report: &'a Report<'_>) -> Self {
        let (design, points) = (&report.experiment.design, &report.results.points);
        let level = |point: &'a PointResult, factor: &str| point.factors.level(factor);
        let (mut varied, mut constants) = (Vec::new(), Vec::new());
        for name in design.factors.iter().map(|factor| factor.name.as_str()) {
            let first = points.first().and_then(|point| level(point, name));
            match first.filter(|first| points.iter().all(|point| level(point, name) == Some(first))) {
                Some(constant) => constants.push((name, constant)),
                None => varied.push(name),
            }
        }
        let substrates = points.iter().any(|point| point.substrate != points[0].substrate);
        let responses = design.responses.iter().map(|(name, _)| (name.as_str(), response_unit(report, name)));
        Self { substrates, varied, constants, responses: responses.collect() }
    }
}

/// The unit of a response in tables: the one that the file asks for, else one that suits all responses that are
/// measured in the same.
pub(crate) fn response_unit(report: &Report<'_>, name: &str) -> Unit {
    let design = &report.experiment.design;
    let unit = design.unit_of(name);
    if is_asked_for(report, name) {
        return Unit::fixed(&unit);
    }
    let sisters = design.responses.iter().map(|(sister, _)| sister.as_str());
    let sisters: Vec<&str> =
        sisters.filter(|s| design.unit_of(s) == unit && !is_asked_for(report, s)).collect();
    let measured =
        report.results.points.iter().flat_map(|point| sisters.iter().filter_map(|s| point.responses.get(*s)));
    Unit::fitting(&unit, measured.filter_map(|response| response.mean))
}

/// Whether the file asks for the unit of a response.
pub(crate) fn is_asked_for(report: &Report<'_>, response: &str) -> bool {
    report.experiment.design.response(response).is_some_and(|spec| spec.unit.is_some())
}

/// The units of a table's columns: one for all columns that are measured in the same, unless the file asks for
/// another.
pub(crate) fn column_units(report: &Report<'_>, table: &TableResult) -> Vec<Unit> {
    let spec = report.experiment.design.table(&table.id);
    let asked = |n: usize| {
        let column =
            spec.and_then(|spec| spec.column(&table.columns[n].name)).and_then(|column| column.derivation());
        column.is_some_and(|(_, response)| is_asked_for(report, response))
    };
    let unit = |n: usize| {
        let unit = &table.columns[n].unit;
        if asked(n) {
            return Unit::fixed(unit);
        }
        let sisters = (0..table.columns.len()).filter(|s| table.columns[*s].unit == *unit && !asked(*s));
        let cells = sisters.flat_map(|s| table.rows.iter().map(move |row| &row.cells[s]));
        Unit::fitting(
            unit,
            cells.flat_map(|cell| [cell.estimate, cell.paper.as_ref().map(|paper| paper.value)]).flatten(),
        )
    };
    (0..table.columns.len()).map(unit).collect()
}

/// The n of all `counts`: `n = 5`, `n = 3 to 10`; nothing for none.
pub(crate) fn replications(counts: impl IntoIterator<Item = u32>) -> Option<String> {
    let extremes = counts.into_iter().fold(None, |seen: Option<(u32, u32)>, n| match seen {
        Some((low, high)) => Some((low.min(n), high.max(n))),
        None => Some((n, n)),
    });
    extremes
        .map(|(low, high)| if low == high { format!("n = {low}") } else { format!("n = {low} to {high}") })
}

/// A name of a file as words: `down_for` is "down for".
pub(crate) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// A level with as much of its factor as one needs to understand it: `tcp`, but `down for 5 s`, `shape 1.5` and
/// `sack: true`.
pub(crate) fn level_in_words(factor: &str, level: &Level) -> String {
    match level.text() {
        "true" | "false" => format!("{}: {level}", words(factor)),
        text if text.parse::<Amount>().is_ok() => format!("{} {text}", words(factor)),
        word => word.to_owned(),
    }
}

/// `text` with a capital at its start and a full stop at its end; nothing stays nothing.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

/// Whether a claim compares two means by their ratio: its margin is a share of one of them.
pub(crate) fn is_ratio(report: &Report<'_>, claim: &ClaimResult) -> bool {
    let claims = &report.experiment.design.claims;
    let spec = claims.iter().find(|(id, _)| *id == claim.id).map(|(_, spec)| spec);
    let margin = spec.and_then(|spec| spec.margin.as_ref());
    let share = margin.is_some_and(|margin| margin.is_share() && margin.value() != 0.0);
    share && claim.points.iter().any(|point| point.compared.is_some())
}

/// The comparisons of a claim in the order of the factors' levels.
pub(crate) fn in_order<'a>(report: &Report<'_>, claim: &'a ClaimResult) -> Vec<&'a ClaimPoint> {
    let place = |point: &ClaimPoint| -> Vec<Option<usize>> {
        let factors = report.experiment.design.factors.iter();
        let known = factors.filter_map(|factor| Some((factor, point.factors.get(&factor.name)?)));
        known.map(|(factor, level)| factor.levels.iter().position(|l| l == level)).collect()
    };
    let mut points: Vec<&ClaimPoint> = claim.points.iter().collect();
    points.sort_by_cached_key(|point| place(point));
    points
}

/// The word for how a point ended.
pub(crate) const fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Invalid => "invalid",
        Status::Unsupported => "unsupported",
    }
}

/// A sign for a verdict, so that nobody needs colour to tell them apart.
pub(crate) const fn sign(verdict: ClaimVerdict) -> &'static str {
    match verdict {
        ClaimVerdict::Supported => "✓",
        ClaimVerdict::Refuted => "✗",
        ClaimVerdict::Inconclusive => "?",
        ClaimVerdict::NotTested => "–",
    }
}

/// How many claims have which verdict; verdicts that no claim has are left out.
pub(crate) fn counts(report: &Report<'_>) -> impl Iterator<Item = (usize, ClaimVerdict)> {
    let all =
        [ClaimVerdict::Supported, ClaimVerdict::Refuted, ClaimVerdict::Inconclusive, ClaimVerdict::NotTested];
    let count = |verdict| report.results.claims.iter().filter(|claim| claim.verdict == verdict).count();
    all.into_iter().map(move |verdict| (count(verdict), verdict)).filter(|(count, _)| *count > 0)
}

/// The same in words: `8 claims: 7 supported, 1 refuted`; empty without claims.
pub(crate) fn tally(report: &Report<'_>) -> String {
    let named: Vec<String> =
        counts(report).map(|(count, verdict)| format!("{count} {}", verdict.name())).collect();
    if named.is_empty() {
        return String::new();
    }
    format!("{}: {}", counted(report.results.claims.len(), "claim"), named.join(", "))
}

/// `1 claim`, `3 claims`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A unit within a sentence.
pub(crate) fn unit_words(unit: &str) -> String {
    if unit == "1" { "a pure number".to_owned() } else { format!("in {unit}") }
}
