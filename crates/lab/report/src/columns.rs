//! Columns of the tables of points (varied and constant factors, responses and their units), and the order of a claim's comparisons.

use netrig_experiment::{ClaimPoint, ClaimResult, Level, PointResult, TableResult};

use crate::Report;
use netrig_core::number::Unit;

/// The columns of a table of points.
pub(crate) struct PointColumns<'a> {
    /// Whether the points are on more than one substrate.
    pub substrates: bool,
    /// Factors whose levels differ from point to point, in the order of the file.
    pub varied: Vec<&'a str>,
    /// Factors that have one level everywhere.
    pub constants: Vec<(&'a str, &'a Level)>,
    /// Responses in the order of the file.
    pub responses: Vec<(&'a str, Unit)>,
}

impl<'a> PointColumns<'a> {
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
        let responses = design.responses.iter().map(|(name, _)| (name.as_str(), response_unit(report, name)));
        Self {
            substrates: report.has_several_substrates(),
            varied,
            constants,
            responses: responses.collect(),
        }
    }
}

/// The unit of a response in tables: the unit that the file sets, or a unit that suits all responses of the same kind.
pub(crate) fn response_unit(report: &Report<'_>, name: &str) -> Unit {
    let design = &report.experiment.design;
    let unit = design.unit_of(name);
    if is_asked_for(report, name) {
        return Unit::fixed(unit);
    }
    let sisters = design.responses.iter().map(|(sister, _)| sister.as_str());
    let sisters: Vec<&str> =
        sisters.filter(|s| design.unit_of(s) == unit && !is_asked_for(report, s)).collect();
    let measured =
        report.results.points.iter().flat_map(|point| sisters.iter().filter_map(|s| point.responses.get(*s)));
    Unit::fitting(unit, measured.filter_map(|response| response.mean))
}

/// Whether the file sets the unit of a response.
pub(crate) fn is_asked_for(report: &Report<'_>, response: &str) -> bool {
    report.experiment.design.response(response).is_some_and(|spec| spec.unit.is_some())
}

/// The units of a table's columns. Columns with the same unit share one display unit, unless the file sets the unit.
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

/// The comparisons of a claim, sorted by the order of the levels in the file.
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
