//! Tidy CSV: one row for each response at each point.

use std::collections::BTreeMap;

use netrig_experiment::ResponseResult;

use crate::Report;
use crate::sheet::word;

/// Columns that are not factors.
const BEFORE: [&str; 1] = ["substrate"];
const AFTER: [&str; 7] = ["status", "response", "unit", "mean", "low", "high", "n"];

/// All rows below a heading. Numbers are in the unit beside them, with all their digits; what was not measured is
/// empty, and a point without a response still has its rows, so that nothing is missing unnoticed.
pub(crate) fn rows(report: &Report<'_>) -> String {
    let design = &report.experiment.design;
    let factor = |name: &str| {
        if BEFORE.iter().chain(&AFTER).any(|c| *c == name) {
            format!("factor.{name}")
        } else {
            name.to_owned()
        }
    };
    let factors: Vec<String> = design.factors.iter().map(|f| factor(&f.name)).collect();
    let heading = BEFORE.map(str::to_owned).into_iter().chain(factors).chain(AFTER.map(str::to_owned));
    let mut out = line(heading);
    for point in &report.results.points {
        let levels =
            design.factors.iter().map(|f| point.factors.level(&f.name).map_or("", |level| level.text()));
        let place: Vec<&str> =
            [point.substrate.as_str()].into_iter().chain(levels).chain([word(point.status)]).collect();
        for (name, measured) in responses(report, &point.responses) {
            let numbers =
                [measured.and_then(|r| r.mean), measured.and_then(|r| r.low), measured.and_then(|r| r.high)];
            let unit = measured.map_or_else(|| design.unit_of(name), |r| r.unit.clone());
            let n = measured.map_or(0, |r| r.n).to_string();
            let cells = place.iter().map(|cell| (*cell).to_owned()).chain([name.to_owned(), unit]);
            out += &line(cells.chain(numbers.map(number)).chain([n]));
        }
    }
    out
}

/// The declared responses in the order of the file.
fn responses<'a>(
    report: &'a Report<'_>,
    measured: &'a BTreeMap<String, ResponseResult>,
) -> impl Iterator<Item = (&'a str, Option<&'a ResponseResult>)> {
    report.experiment.design.responses.iter().map(|(name, _)| (name.as_str(), measured.get(name)))
}

fn number(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or(String::new(), |v| v.to_string())
}

/// RFC 4180, 2.5–2.7: a field with a comma, a quote or a line break is quoted, and a quote in it doubled.
fn line(cells: impl Iterator<Item = String>) -> String {
    let field = |cell: String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    };
    cells.map(field).collect::<Vec<_>>().join(",") + "\r\n"
}
