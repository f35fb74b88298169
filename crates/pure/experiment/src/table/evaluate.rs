//! Computes the cells of a table.

use super::result::{PaperCell, TableCell, TableColumn, TableResult, TableRow};
use super::spec::{ColumnSpec, Derivation, TableSpec};
use crate::claim::sample::{Cell, MissingSample, Sample};
use crate::judge::{Design, Measurements};
use crate::{Factor, Level, Point, Status};

impl TableSpec {
    /// Computes the table for one substrate.
    pub(crate) fn evaluate(&self, id: &str, design: &Design, measured: &Measurements<'_>) -> TableResult {
        let column = |(name, column): &(String, ColumnSpec)| TableColumn {
            name: name.clone(),
            unit: column.unit(design).to_owned(),
            definition: column.definition(),
        };
        let keys = self.keys(design, measured);
        let row = |key: &Point| TableRow {
            key: self.rows.0.iter().filter_map(|factor| key.level(factor).cloned()).collect(),
            cells: self
                .columns
                .iter()
                .map(|(name, column)| self.show(name, column, key, design, measured))
                .collect(),
        };
        TableResult {
            id: id.to_owned(),
            title: self.title.clone().unwrap_or_else(|| id.to_owned()),
            substrate: measured.substrate.to_owned(),
            factors: self.rows.0.clone(),
            columns: self.columns.iter().map(column).collect(),
            rows: keys.iter().map(row).collect(),
        }
    }

    /// By factor, the levels of the file that a column includes but that were not run.
    fn omitted<'a>(
        &'a self,
        column: &'a ColumnSpec,
        design: &'a Design,
    ) -> impl Iterator<Item = (&'a str, Vec<&'a Level>)> {
        let is_over = |factor: &&Factor| !self.rows.0.contains(&factor.name);
        design.omitted.iter().filter(is_over).filter_map(|factor| {
            let levels = self.at.levels(factor).filter(|level| column.at.levels(factor).any(|l| l == *level));
            let levels: Vec<&Level> = levels.collect();
            (!levels.is_empty()).then_some((factor.name.as_str(), levels))
        })
    }

    /// By factor, the levels of the file that some column includes but that were not run. Cells of such a column have
    /// no value of the paper.
    pub fn without_paper<'a>(&'a self, design: &'a Design) -> Vec<(&'a str, Vec<&'a Level>)> {
        let mut all: Vec<(&str, Vec<&Level>)> = Vec::new();
        let has_paper = self.paper.is_some() && design.paper.is_some();
        for (_, column) in self.columns.iter().filter(|_| has_paper) {
            for omitted in self.omitted(column, design) {
                if !all.contains(&omitted) {
                    all.push(omitted);
                }
            }
        }
        all
    }

    /// One cell per row of a column, for claims.
    pub(crate) fn cells(&self, column: &str, design: &Design, measured: &Measurements<'_>) -> Vec<Cell> {
        let Some(spec) = self.column(column) else { return Vec::new() };
        let cell = |key: Point| Cell { sample: self.sample(spec, &key, design, measured), factors: key };
        self.keys(design, measured).into_iter().map(cell).collect()
    }

    /// The rows that have a point in some column, in the order of the factors' levels.
    fn keys(&self, design: &Design, measured: &Measurements<'_>) -> Vec<Point> {
        let mut keys = vec![Point::default()];
        for factor in self.row_factors(&design.factors) {
            let with = |key: &Point, level: &Level| {
                let mut key = key.clone();
                key.set(factor.name.clone(), level.clone());
                key
            };
            keys =
                keys.iter().flat_map(|key| factor.levels.iter().map(move |level| with(key, level))).collect();
        }
        let is_shown = |point: &Point| {
            self.at.matches(point) && self.columns.iter().any(|(_, column)| column.at.matches(point))
        };
        keys.retain(|key| measured.points().any(|point| is_shown(point) && belongs(point, key)));
        keys
    }

    /// The values from which a cell is computed.
    fn sample(
        &self,
        column: &ColumnSpec,
        key: &Point,
        design: &Design,
        measured: &Measurements<'_>,
    ) -> Result<Sample, MissingSample> {
        let missing = |why: String| MissingSample { status: Status::Unsupported, why };
        let (derivation, response) =
            column.derivation().ok_or_else(|| missing("the column does not say what it shows".into()))?;
        let chosen =
            |point: &&Point| self.at.matches(point) && column.at.matches(point) && belongs(point, key);
        let points: Vec<&Point> = measured.points().filter(chosen).collect();
        if points.is_empty() {
            return Err(missing("no point belongs to this cell".into()));
        }
        let values = |point: &Point| measured.values(point, response, design);
        let own = points.iter().map(|point| values(point)).collect::<Result<Vec<_>, _>>()?;
        let compares = matches!(derivation, Derivation::Difference | Derivation::Ratio);
        let reference = if compares {
            let by = column.by.as_deref().unwrap_or(response);
            let other = |point: &&Point| measured.values(&with_levels(point, column, design), by, design);
            points.iter().map(other).collect::<Result<Vec<_>, _>>()?
        } else {
            Vec::new()
        };
        let sample = Sample::derived(derivation, &own, &reference);
        if sample.n() == 0 {
            return Err(missing("no replication measured all of its points".into()));
        }
        Ok(sample)
    }

    fn show(
        &self,
        name: &str,
        column: &ColumnSpec,
        key: &Point,
        design: &Design,
        measured: &Measurements<'_>,
    ) -> TableCell {
        let interval = self.sample(column, key, design, measured).and_then(|sample| {
            let impossible = |error: netrig_stats::StatsError| MissingSample {
                status: Status::Failed,
                why: error.to_string(),
            };
            sample.interval(design.confidence).map_err(impossible)
        });
        let is_whole = |column: &ColumnSpec| self.omitted(column, design).next().is_none();
        let column_spec = self.column(name).filter(|column| is_whole(column));
        let paper = self.paper.as_ref().zip(design.paper.as_ref()).and_then(|(group, paper)| {
            column_spec?;
            let value = paper.find(group, name, key)?;
            let number = value.value.in_unit(column.unit(design)).ok()?;
            let difference = interval.as_ref().ok().map(|ours| ours.estimate - number);
            Some(PaperCell {
                value: number,
                approximate: value.approximate,
                difference,
                place: value.place.clone(),
            })
        });
        match interval {
            Ok(interval) => TableCell {
                estimate: Some(interval.estimate).filter(|value| value.is_finite()),
                low: interval.low,
                high: interval.high,
                n: u32::try_from(interval.n).unwrap_or(u32::MAX),
                why: None,
                paper,
            },
            Err(missing) => {
                TableCell { estimate: None, low: None, high: None, n: 0, why: Some(missing.why), paper }
            }
        }
    }
}

/// Whether the point has the levels `key` of a row.
fn belongs(point: &Point, key: &Point) -> bool {
    key.levels().iter().all(|(factor, level)| point.level(factor) == Some(level))
}

/// The point with the levels of the column's `to`. They take the form that they have in the list of factors.
fn with_levels(point: &Point, column: &ColumnSpec, design: &Design) -> Point {
    let mut point = point.clone();
    for (name, wanted) in &column.to {
        let known =
            design.factor(name).and_then(|factor| factor.levels.iter().find(|level| level.means(&wanted.0)));
        point.set(name.clone(), known.unwrap_or(&wanted.0).clone());
    }
    point
}
