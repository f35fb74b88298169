//! Every response at every point.

use netrig_experiment::{PointResult, Status};

use super::elements::{aside, details, headings, rows, table};
use super::tables;
use crate::Report;
use crate::columns::PointColumns;
use crate::estimate;
use crate::wording::{counted, replications};
use netrig_core::text::words;
use netrig_core::xml::Markup;

/// Largest number of rows for which a table is shown expanded.
pub(super) const OPEN: usize = 24;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    let sheet = PointColumns::new(report);
    let points = &report.results.points;
    if !sheet.constants.is_empty() {
        let constants: Vec<String> =
            sheet.constants.iter().map(|(name, level)| format!("{} {level}", words(name))).collect();
        m.element("p", &[], format!("At all points: {}.", constants.join(", ")));
    }
    let counts = || points.iter().flat_map(|point| point.responses.values()).map(|r| r.n).filter(|n| *n > 0);
    let same = counts().all(|n| Some(n) == counts().next());
    let said = replications(counts()).unwrap_or_else(|| "nothing measured".into());
    let caption = format!("Means with their intervals, {said}");
    m.inside("div", &[("class", "beside")], |m| {
        details(m, &counted(points.len(), "point"), points.len() <= OPEN, |m| {
            table(m, "numbers sortable", &caption, |m| filled(m, points, &sheet, same));
        });
        aside(m, report, sheet.responses.iter().map(|(name, _)| *name), &[]);
    });
}

fn filled(m: &mut Markup, points: &[PointResult], sheet: &PointColumns<'_>, same: bool) {
    let substrate = sheet.substrates.then(|| "substrate".to_owned());
    let factors = sheet.varied.iter().map(|name| words(name));
    let responses = sheet.responses.iter().map(|(name, unit)| unit.heading(&words(name)));
    headings(m, substrate.into_iter().chain(factors).chain(responses));
    rows(m, points, |m, point| row(m, point, sheet, same));
}

fn row(m: &mut Markup, point: &PointResult, sheet: &PointColumns<'_>, same: bool) {
    if sheet.substrates {
        m.element("th", &[("scope", "row")], &point.substrate);
    }
    for factor in &sheet.varied {
        let level = point.factors.level(factor);
        let order = level.and_then(|level| level.number()).map(|number| number.to_string());
        let text = level.map_or("", |level| level.text());
        match order {
            Some(order) => m.element("th", &[("scope", "row"), ("data-v", &order)], text),
            None => m.element("th", &[("scope", "row")], text),
        }
    }
    if point.status != Status::Ok && point.responses.is_empty() {
        let why = point.why.as_deref().map_or(String::new(), |why| format!(": {why}"));
        let span = sheet.responses.len().max(1).to_string();
        m.element("td", &[("colspan", &span), ("class", "muted")], format!("{}{why}", point.status.name()));
        return;
    }
    for (name, unit) in &sheet.responses {
        let measured = point.responses.get(*name);
        let Some(estimate) = measured.and_then(estimate::of_response) else {
            m.element(
                "td",
                &[("class", "n muted")],
                if point.status == Status::Ok { "–" } else { point.status.name() },
            );
            continue;
        };
        m.inside("td", &[("class", "n"), ("data-v", &estimate.value.to_string())], |m| {
            tables::value(m, &estimate, unit, !same);
        });
    }
}
