//! Tables as rows of text, for Markdown and the terminal.

use netrig_experiment::{Status, TableCell, TableResult, TableRow};

use crate::Report;
use crate::columns::{PointColumns, column_units};
use crate::estimate;
use netrig_core::number::{Estimate, Unit, as_given, relative};

/// Headings and rows of text. The first `keys` columns identify a row, the others are numbers.
pub(crate) struct TextTable {
    pub keys: usize,
    /// Indices of columns that belong to the column before them.
    pub beside: Vec<usize>,
    pub headings: Vec<String>,
    /// The cells of each row. `None` is a missing value.
    pub rows: Vec<Vec<Option<String>>>,
}

/// The text of a cell. A dash for a missing value.
pub(crate) fn shown(cell: &Option<String>) -> &str {
    cell.as_deref().unwrap_or("–")
}

impl TextTable {
    /// Every response at every point. Constant factors are omitted.
    pub fn of_points(report: &Report<'_>, sheet: &PointColumns<'_>) -> Self {
        let substrate = sheet.substrates.then(|| "substrate".to_owned());
        let keys = substrate.into_iter().chain(sheet.varied.iter().map(|name| (*name).to_owned()));
        let keys: Vec<String> = keys.collect();
        let responses = sheet.responses.iter().map(|(name, unit)| unit.heading(name));
        let rows = report.results.points.iter().map(|point| {
            let substrate = sheet.substrates.then(|| point.substrate.clone());
            let level = |name: &&str| point.factors.level(name).map_or(String::new(), ToString::to_string);
            let keys = substrate.into_iter().chain(sheet.varied.iter().map(level)).map(Some);
            let most = point.responses.values().map(|response| response.n).max().unwrap_or(0);
            let value = |(name, unit): &(&str, Unit)| {
                let unmeasured = (point.status != Status::Ok).then(|| point.status.name().to_owned());
                let response = point.responses.get(*name);
                let estimate = response.and_then(|r| Some((estimate::of_response(r)?, r.n)));
                let written =
                    |(estimate, n): (Estimate, u32)| estimate.written(unit).to_string() + &of_fewer(n, most);
                estimate.map(written).or(unmeasured)
            };
            keys.chain(sheet.responses.iter().map(value)).collect()
        });
        Self {
            keys: keys.len(),
            rows: rows.collect(),
            beside: Vec::new(),
            headings: keys.iter().cloned().chain(responses).collect(),
        }
    }

    /// A derived table. If the paper has values for a column, the next column has these values and the relative
    /// difference of the measured values from them.
    pub fn of_table(report: &Report<'_>, table: &TableResult) -> Self {
        let units = column_units(report, table);
        let has_paper = |n: usize| table.rows.iter().any(|row| row.cells[n].paper.is_some());
        let heading = |n: usize| {
            let theirs = has_paper(n).then(|| "paper (diff.)".to_owned());
            [units[n].heading(&table.columns[n].name)].into_iter().chain(theirs)
        };
        let row = |row: &TableRow| {
            let most = row.cells.iter().map(|cell| cell.n).max().unwrap_or(0);
            let cell = |n: usize| {
                let theirs = has_paper(n).then(|| Some(theirs(&row.cells[n], &units[n])));
                [ours(&row.cells[n], &units[n], most)].into_iter().chain(theirs)
            };
            let keys = row.key.iter().map(|level| Some(level.to_string()));
            keys.chain((0..units.len()).flat_map(cell)).collect()
        };
        let headings = table.factors.iter().cloned().chain((0..units.len()).flat_map(heading));
        let before = |n: usize| table.factors.len() + n + (0..n).filter(|m| has_paper(*m)).count();
        let beside = (0..units.len()).filter(|n| has_paper(*n)).map(|n| before(n) + 1);
        Self {
            beside: beside.collect(),
            keys: table.factors.len(),
            headings: headings.collect(),
            rows: table.rows.iter().map(row).collect(),
        }
    }

    /// The width of column `n` in characters.
    pub fn width(&self, n: usize) -> usize {
        let cells = self.rows.iter().map(|row| shown(&row[n])).chain([self.headings[n].as_str()]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

fn ours(cell: &TableCell, unit: &Unit, most: u32) -> Option<String> {
    let estimate = estimate::of_cell(cell)?;
    Some(estimate.written(unit).to_string() + &of_fewer(cell.n, most))
}

/// The suffix of a mean over fewer runs than another mean of the same row. In the other runs the response had no value.
fn of_fewer(n: u32, most: u32) -> String {
    if n < most { format!(" (n = {n})") } else { String::new() }
}

/// The paper's value and the relative difference, such as `≈ 54 (+5.1 %)`. Empty if the paper has no value.
fn theirs(cell: &TableCell, unit: &Unit) -> String {
    let Some(paper) = &cell.paper else { return String::new() };
    let about = if paper.approximate { "≈ " } else { "" };
    let difference = cell.estimate.and_then(|ours| relative(ours, paper.value));
    let difference = difference.map_or(String::new(), |difference| format!(" ({difference})"));
    format!("{about}{}{difference}", as_given(unit.convert(paper.value)))
}

/// `text`, padded with spaces to `width` characters. Aligned to the right if `right`.
pub(crate) fn padded(text: &str, width: usize, right: bool) -> String {
    let fill = " ".repeat(width.saturating_sub(text.chars().count()));
    if right { fill + text } else { text.to_owned() + &fill }
}
