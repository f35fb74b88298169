//! All replications of an experiment as one wide table, for CSV and Parquet.

use std::collections::BTreeSet;
use std::io::{self, Write};

use csv::{Terminator, WriterBuilder};
use netrig_experiment::LevelUnit;

use crate::column::{Column, ColumnValues};
use crate::read::Replication;
use crate::{ExperimentId, Store, StoreError, parquet_file};

/// The replications of an experiment, one per row. Columns: the substrate, each factor, the replication, its seed, whether
/// it is valid, the reason if not, each response, the build and the identity.
///
/// If all levels of a factor are amounts of one kind, its column has numbers in the unit of the smallest (`down_for [s]`);
/// else it has texts. The table has the rows of all builds and substrates. The name of a column of numbers includes the
/// unit: `throughput [B/s]`. In Parquet the unit is also the metadata `unit` of the column's field.
pub struct ReplicationTable {
    experiment: String,
    columns: Vec<Column>,
    rows: usize,
    points: usize,
    substrates: BTreeSet<String>,
}

impl ReplicationTable {
    /// The table of the replications of `experiment` for which `wanted` is true.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn of(
        store: &Store,
        experiment: ExperimentId,
        wanted: impl Fn(&Replication) -> bool,
    ) -> Result<Self, StoreError> {
        let name = store
            .experiments()?
            .into_iter()
            .find(|entry| entry.id == experiment)
            .map(|entry| entry.name)
            .ok_or_else(|| store.damaged(format!("it has no experiment {}", experiment.0)))?;
        let mut replications = store.replications(experiment)?;
        replications.retain(wanted);
        let points: BTreeSet<_> = replications.iter().map(|r| (&r.run.substrate, &r.point)).collect();
        Ok(Self {
            experiment: name,
            columns: columns(&replications),
            rows: replications.len(),
            points: points.len(),
            substrates: replications.iter().map(|r| r.run.substrate.clone()).collect(),
        })
    }

    /// Number of rows, without the header.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of points. The same point on two substrates counts twice.
    pub fn points(&self) -> usize {
        self.points
    }

    /// The substrates of the rows.
    pub fn substrates(&self) -> BTreeSet<String> {
        self.substrates.clone()
    }

    /// Writes the table as CSV (RFC 4180) with a header line (section 2.3). An absent value is an empty field.
    ///
    /// # Errors
    /// If `output` cannot be written.
    pub fn write_csv(&self, output: impl Write) -> Result<(), StoreError> {
        // RFC 4180 section 2.1: each record is on a line of its own, delimited by CRLF.
        let mut lines = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(output);
        lines.write_record(self.columns.iter().map(|column| &column.name)).map_err(io::Error::from)?;
        for row in 0..self.rows {
            let cells = self.columns.iter().map(|column| cell(&column.values, row));
            lines.write_record(cells).map_err(io::Error::from)?;
        }
        Ok(lines.flush()?)
    }

    /// Writes the table as a Parquet file. An absent value is null. `about` are additional pairs of the file's metadata.
    ///
    /// # Errors
    /// If `output` cannot be written.
    pub fn write_parquet(&self, output: impl Write + Send, about: &[(&str, &str)]) -> Result<(), StoreError> {
        let about = [&[("experiment", self.experiment.as_str())], about].concat();
        Ok(parquet_file::write(output, &self.columns, &about)?)
    }
}

/// Names of fixed columns. A factor with such a name gets a prefix: `factor.seed`.
const FIXED_COLUMNS: [&str; 7] = ["substrate", "replication", "seed", "valid", "why", "build", "identity"];

fn columns(replications: &[Replication]) -> Vec<Column> {
    let text = |of: &dyn Fn(&Replication) -> Option<String>| {
        ColumnValues::Text(replications.iter().map(of).collect())
    };
    let mut columns = vec![Column::new("substrate", text(&|r| Some(r.run.substrate.clone())))];
    let factors: BTreeSet<&String> = replications.iter().flat_map(|r| r.point.levels().keys()).collect();
    for factor in factors {
        let name = if FIXED_COLUMNS.contains(&factor.as_str()) {
            format!("factor.{factor}")
        } else {
            factor.clone()
        };
        let texts = || text(&|r| r.point.level(factor).map(ToString::to_string));
        columns.push(
            numeric(&name, factor, replications).unwrap_or_else(|| Column::new(name.as_str(), texts())),
        );
    }
    let numbers = replications.iter().map(|r| i64::from(r.number)).collect();
    columns.push(Column::new("replication", ColumnValues::Signed(numbers)));
    let seeds = replications.iter().map(|r| r.run.seed).collect();
    columns.push(Column::new("seed", ColumnValues::Unsigned(seeds)));
    let valid = replications.iter().map(|r| r.run.end.is_valid()).collect();
    columns.push(Column::new("valid", ColumnValues::Bool(valid)));
    columns.push(Column::new("why", text(&|r| r.run.end.why().map(str::to_owned))));
    columns.extend(responses(replications));
    columns.push(Column::new("build", text(&|r| Some(r.build.clone()))));
    columns.push(Column::new("identity", text(&|r| Some(r.run.identity.clone()))));
    columns
}

/// The column of a factor whose levels are all amounts of one kind; `None` if they are not. A run without the factor has no
/// number.
fn numeric(name: &str, factor: &str, replications: &[Replication]) -> Option<Column> {
    let unit = LevelUnit::common(replications.iter().filter_map(|r| r.point.level(factor)))?;
    let value = |r: &Replication| r.point.level(factor).and_then(|level| unit.number(level));
    let values = ColumnValues::Real(replications.iter().map(value).collect());
    Some(match unit.name() {
        Some(unit) => Column::in_unit(name, unit, values),
        None => Column::new(name, values),
    })
}

/// A column for each response, or one per unit if the unit differs between builds.
fn responses(replications: &[Replication]) -> Vec<Column> {
    let measured = replications.iter().flat_map(|r| &r.run.responses);
    let names: BTreeSet<(&str, &str)> = measured.map(|(name, r)| (name.as_str(), r.unit.as_str())).collect();
    let column = |(name, unit): (&str, &str)| {
        let value = |r: &Replication| r.run.responses.get(name).filter(|r| r.unit == unit)?.measured.value();
        Column::in_unit(name, unit, ColumnValues::Real(replications.iter().map(value).collect()))
    };
    names.into_iter().map(column).collect()
}

fn cell(values: &ColumnValues, row: usize) -> String {
    match values {
        ColumnValues::Text(values) => values[row].clone().unwrap_or_default(),
        ColumnValues::Signed(values) => values[row].to_string(),
        ColumnValues::Unsigned(values) => values[row].to_string(),
        ColumnValues::Bool(values) => values[row].to_string(),
        ColumnValues::Real(values) => values[row].map(|v| v.to_string()).unwrap_or_default(),
    }
}
