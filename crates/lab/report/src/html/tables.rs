//! The derived tables, with the paper's values beside the measured values.

use netrig_experiment::{PaperCell, TableCell, TableResult};

use super::elements::{aside, rows, table};
use crate::Report;
use crate::columns::column_units;
use crate::estimate;
use crate::wording::replications;
use netrig_core::number::{Estimate, Unit, as_given, relative};
use netrig_core::text::words;
use netrig_core::xml::Markup;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    let several = report.has_several_substrates();
    for (n, table) in report.results.tables.iter().enumerate() {
        m.inside("div", &[("class", "beside"), ("id", &format!("table-{}", n + 1))], |m| {
            m.inside("div", &[("class", "block")], |m| {
                let on = if several { format!(" on {}", table.substrate) } else { String::new() };
                m.element("h3", &[], format!("{}{on}", table.title));
                one(m, report, table);
            });
            definitions(m, report, table);
        });
    }
}

/// The definitions of the columns and of their responses.
fn definitions(m: &mut Markup, report: &Report<'_>, result: &TableResult) {
    let columns = result.columns.iter().map(|column| (words(&column.name), column.definition.clone()));
    let spec = report.experiment.design.table(&result.id);
    let specs = spec.iter().flat_map(|spec| spec.columns.iter());
    let responses = specs.filter_map(|(_, column)| column.derivation().map(|(_, response)| response));
    aside(m, report, responses, &columns.collect::<Vec<_>>());
}

fn one(m: &mut Markup, report: &Report<'_>, result: &TableResult) {
    let units = column_units(report, result);
    let has_paper: Vec<bool> = (0..result.columns.len())
        .map(|n| result.rows.iter().any(|row| row.cells[n].paper.is_some()))
        .collect();
    let counts = || {
        result
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|cell| cell.estimate.is_some())
            .map(|cell| cell.n)
    };
    let said = replications(counts()).unwrap_or_else(|| "nothing measured".into());
    let same = counts().all(|n| Some(n) == counts().next());
    table(m, "numbers", &format!("{}: {said}", result.title), |m| {
        head(m, result, &units, &has_paper);
        rows(m, &result.rows, |m, row| {
            for level in &row.key {
                m.element("th", &[("scope", "row")], level);
            }
            for (n, cell) in row.cells.iter().enumerate() {
                ours(m, cell, &units[n], same);
                if has_paper[n] {
                    theirs(m, cell, cell.paper.as_ref(), &units[n]);
                }
            }
        });
    });
    let spec = report.experiment.design.table(&result.id);
    super::elements::note(m, spec.and_then(|spec| spec.note.as_deref()));
}

fn head(m: &mut Markup, result: &TableResult, units: &[Unit], has_paper: &[bool]) {
    let two_rows = has_paper.contains(&true);
    let rows = if two_rows { "2" } else { "1" };
    m.inside("thead", &[], |m| {
        m.inside("tr", &[], |m| {
            for factor in &result.factors {
                m.element("th", &[("scope", "col"), ("rowspan", rows)], words(factor));
            }
            for (n, column) in result.columns.iter().enumerate() {
                let name = units[n].heading(&words(&column.name));
                match (two_rows, has_paper[n]) {
                    (_, true) => m.element("th", &[("scope", "colgroup"), ("colspan", "3")], name),
                    (true, false) => m.element("th", &[("scope", "col"), ("rowspan", "2")], name),
                    (false, false) => m.element("th", &[("scope", "col")], name),
                }
            }
        });
        if two_rows {
            m.inside("tr", &[], |m| {
                for _ in has_paper.iter().filter(|has| **has) {
                    for part in ["measured", "paper", "difference"] {
                        m.element("th", &[("scope", "col")], part);
                    }
                }
            });
        }
    });
}

/// The measured value with its interval. n is added if it differs between cells.
pub(super) fn ours(m: &mut Markup, cell: &TableCell, unit: &Unit, same: bool) {
    m.inside("td", &[("class", "n")], |m| match estimate::of_cell(cell) {
        Some(estimate) => value(m, &estimate, unit, !same),
        None => match &cell.why {
            Some(why) => m.element("span", &[("class", "muted"), ("title", why)], format!("– ({why})")),
            None => m.element("span", &[("class", "muted")], "–"),
        },
    });
}

/// A value with its interval, and with n if `with_n`.
pub(super) fn value(m: &mut Markup, estimate: &Estimate, unit: &Unit, with_n: bool) {
    let written = estimate.written(unit);
    m.text(&written.value);
    if let Some(interval) = &written.interval {
        m.text(" ");
        m.element("span", &[("class", "interval")], interval);
    }
    if with_n {
        m.text(" ");
        m.element("small", &[("class", "muted")], format!("n = {}", estimate.n));
    }
}

fn theirs(m: &mut Markup, cell: &TableCell, paper: Option<&PaperCell>, unit: &Unit) {
    let Some(paper) = paper else {
        m.element("td", &[], "");
        m.element("td", &[], "");
        return;
    };
    let about = if paper.approximate { "≈ " } else { "" };
    m.element(
        "td",
        &[("class", "n paper"), ("title", &paper.place)],
        format!("{about}{}", as_given(unit.convert(paper.value))),
    );
    let difference = cell.estimate.and_then(|ours| relative(ours, paper.value));
    m.element("td", &[("class", "n muted")], difference.unwrap_or_default());
}
