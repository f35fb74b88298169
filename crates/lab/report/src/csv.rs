//! Tidy CSV (RFC 4180): one row for each response at each point.

use std::collections::BTreeMap;

use csv::{Terminator, WriterBuilder};
use netrig_experiment::{LevelUnit, ResponseResult};

use crate::Report;

/// Columns besides the factors: before them and after them.
const BEFORE: [&str; 1] = ["substrate"];
const AFTER: [&str; 7] = ["status", "response", "unit", "mean", "low", "high", "n"];

/// A heading and all rows. A factor whose levels are amounts of one kind is a column of numbers, such as
/// `down_for [s]`. Values are in the unit of their row, with all digits. A value that was not measured is empty. A
/// point without responses still has its rows.
pub(crate) fn rows(report: &Report<'_>) -> String {
    let design = &report.experiment.design;
    let factors: Vec<_> =
        design.factors.iter().map(|f| (&f.name, LevelUnit::common(f.levels.iter()))).collect();
    let heading = |(name, unit): &(&String, Option<LevelUnit>)| {
        let is_ours = BEFORE.iter().chain(&AFTER).any(|column| column == name);
        let name = if is_ours { format!("factor.{name}") } else { (*name).clone() };
        unit.and_then(LevelUnit::name).map_or_else(|| name.clone(), |unit| format!("{name} [{unit}]"))
    };
    let mut lines = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    let headings = factors.iter().map(heading);
    let mut line = |cells: Vec<String>| {
        // Writing fails only if the output fails, which is memory, or if lines differ in length. Each line has the
        // cells of the factors, one cell before them and seven after them.
        lines.write_record(cells).expect("a line of the table");
    };
    line(BEFORE.map(str::to_owned).into_iter().chain(headings).chain(AFTER.map(str::to_owned)).collect());
    for point in &report.results.points {
        let levels = factors.iter().map(|(name, unit)| {
            let Some(level) = point.factors.level(name) else { return String::new() };
            unit.map_or_else(|| level.text().to_owned(), |unit| number(unit.number(level)))
        });
        let place: Vec<String> = [point.substrate.clone()]
            .into_iter()
            .chain(levels)
            .chain([point.status.name().to_owned()])
            .collect();
        for (name, measured) in responses(report, &point.responses) {
            let numbers =
                [measured.and_then(|r| r.mean), measured.and_then(|r| r.low), measured.and_then(|r| r.high)];
            let unit = measured.map_or_else(|| design.unit_of(name), |r| &r.unit).to_owned();
            let n = measured.map_or(0, |r| r.n).to_string();
            let cells = place.iter().cloned().chain([name.to_owned(), unit]);
            line(cells.chain(numbers.map(number)).chain([n]).collect());
        }
    }
    let bytes = lines.into_inner().expect("memory takes what is flushed to it");
    String::from_utf8(bytes).expect("each cell is a text")
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
