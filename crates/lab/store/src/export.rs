//! All replications of an experiment as one wide table, for CSV and Parquet.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use csv::{Terminator, WriterBuilder};
use netrig_experiment::{Level, LevelUnit, Point};

use crate::column::{Column, ColumnValues};
use crate::parquet_file::ParquetWriter;
use crate::read::Replication;
use crate::{ExperimentId, Store, StoreError};

/// Number of rows that are in memory at the same time.
const BATCH: usize = 20_000;

/// The replications of an experiment, one per row. The columns are: the substrate, each factor, the replication, its
/// seed, whether it is valid, the reason if it is not valid, each response, the build and the identity.
///
/// If all levels of a factor are amounts of one kind, its column has numbers in the unit of the smallest level
/// (`down_for [s]`). Otherwise the column has texts. The table has the rows of all builds and substrates. The name of a
/// column of numbers includes the unit: `throughput [B/s]`. In Parquet the unit is also the metadata `unit` of the
/// column's field.
///
/// The table stores only its columns. Rows are read again when the table is written, so that a store of any size can be
/// exported.
pub struct ReplicationTable<'a> {
    id: ExperimentId,
    experiment: String,
    wanted: Box<dyn Fn(&Replication) -> bool + 'a>,
    columns: Vec<TableColumn>,
    rows: usize,
    points: usize,
    substrates: BTreeSet<String>,
}

/// A column of the table, and where the run has its values.
enum TableColumn {
    Substrate,
    /// The column's name, the factor, and the unit of its levels if all are amounts of one kind.
    Factor(String, String, Option<LevelUnit>),
    Number,
    Seed,
    IsValid,
    Why,
    /// A response and its unit.
    Response(String, String),
    Build,
    Identity,
}

impl<'a> ReplicationTable<'a> {
    /// The table of the replications of `experiment` for which `wanted` is true.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn of(
        store: &Store,
        experiment: ExperimentId,
        wanted: impl Fn(&Replication) -> bool + 'a,
    ) -> Result<Self, StoreError> {
        let name = store
            .experiments()?
            .into_iter()
            .find(|entry| entry.id == experiment)
            .map(|entry| entry.name)
            .ok_or_else(|| store.damaged(format!("it has no experiment {}", experiment.0)))?;
        let mut rows = 0;
        let mut points: BTreeMap<String, BTreeSet<Point>> = BTreeMap::new();
        let mut responses: BTreeSet<(String, String)> = BTreeSet::new();
        store.each_replication(experiment, |replication| {
            if !wanted(&replication) {
                return;
            }
            rows += 1;
            let Replication { point, run, .. } = replication;
            match points.get_mut(&run.substrate) {
                Some(known) if known.contains(&point) => {}
                Some(known) => drop(known.insert(point)),
                None => drop(points.insert(run.substrate, BTreeSet::from([point]))),
            }
            for (name, response) in run.responses {
                responses.insert((name, response.unit));
            }
        })?;
        Ok(Self {
            id: experiment,
            experiment: name,
            wanted: Box::new(wanted),
            columns: columns(points.values().flatten(), responses),
            rows,
            points: points.values().map(BTreeSet::len).sum(),
            substrates: points.into_keys().collect(),
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

    /// The substrates on which the rows were run.
    pub fn substrates(&self) -> BTreeSet<String> {
        self.substrates.clone()
    }

    /// Writes the table as CSV (RFC 4180) with a header line (section 2.3). An absent value is an empty field. `store`
    /// must be the store from which the table was made.
    ///
    /// # Errors
    /// If `output` cannot be written, or the store cannot be read.
    pub fn write_csv(&self, store: &Store, output: impl Write) -> Result<(), StoreError> {
        // RFC 4180 section 2.1: each record is on a line of its own, delimited by CRLF.
        let mut lines = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(output);
        let header = self.values(&[]);
        lines.write_record(header.iter().map(|column| &column.name)).map_err(io::Error::from)?;
        self.each_batch(store, |batch| {
            let columns = self.values(batch);
            for row in 0..batch.len() {
                let cells = columns.iter().map(|column| cell(&column.values, row));
                lines.write_record(cells).map_err(io::Error::from)?;
            }
            Ok(())
        })?;
        Ok(lines.flush()?)
    }

    /// Writes the table as a Parquet file. An absent value is null. `about` has additional key-value pairs for the
    /// file's metadata. `store` must be the store from which the table was made.
    ///
    /// # Errors
    /// If `output` cannot be written, or the store cannot be read.
    pub fn write_parquet(
        &self,
        store: &Store,
        output: impl Write + Send,
        about: &[(&str, &str)],
    ) -> Result<(), StoreError> {
        let about = [&[("experiment", self.experiment.as_str())], about].concat();
        let mut file = ParquetWriter::new(output, &self.values(&[]), &about)?;
        self.each_batch(store, |batch| Ok(file.write(&self.values(batch))?))?;
        Ok(file.close()?)
    }

    /// Calls `take` with batches of the rows, in the order of the rows.
    fn each_batch(
        &self,
        store: &Store,
        mut take: impl FnMut(&[Replication]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for substrate in &self.substrates {
            let mut batch = Vec::new();
            let mut taken = Ok(());
            store.each_replication(self.id, |replication| {
                if taken.is_err() || replication.run.substrate != *substrate || !(self.wanted)(&replication) {
                    return;
                }
                batch.push(replication);
                if batch.len() == BATCH {
                    taken = take(&batch);
                    batch.clear();
                }
            })?;
            taken?;
            if !batch.is_empty() {
                take(&batch)?;
            }
        }
        Ok(())
    }

    /// The columns of the table with the values of these rows.
    fn values(&self, rows: &[Replication]) -> Vec<Column> {
        self.columns.iter().map(|column| column.of(rows)).collect()
    }
}

/// Names of the fixed columns. A factor with such a name gets a prefix: `factor.seed`.
const FIXED_COLUMNS: [&str; 7] = ["substrate", "replication", "seed", "valid", "why", "build", "identity"];

/// The columns for these points and for these responses with their units: a response has one column per unit if its
/// unit differs between builds.
fn columns<'p>(
    points: impl Iterator<Item = &'p Point>,
    responses: BTreeSet<(String, String)>,
) -> Vec<TableColumn> {
    let mut levels: BTreeMap<&String, BTreeSet<&Level>> = BTreeMap::new();
    for (factor, level) in points.flat_map(Point::levels) {
        levels.entry(factor).or_default().insert(level);
    }
    let factors = levels.into_iter().map(|(factor, levels)| {
        let is_fixed = FIXED_COLUMNS.contains(&factor.as_str());
        let name = if is_fixed { format!("factor.{factor}") } else { factor.clone() };
        TableColumn::Factor(name, factor.clone(), LevelUnit::common(levels.iter().copied()))
    });
    let mut columns = vec![TableColumn::Substrate];
    columns.extend(factors);
    columns.extend([TableColumn::Number, TableColumn::Seed, TableColumn::IsValid, TableColumn::Why]);
    columns.extend(responses.into_iter().map(|(name, unit)| TableColumn::Response(name, unit)));
    columns.extend([TableColumn::Build, TableColumn::Identity]);
    columns
}

impl TableColumn {
    /// The column with the values of these rows.
    fn of(&self, rows: &[Replication]) -> Column {
        let text = |name: &str, of: &dyn Fn(&Replication) -> Option<String>| {
            Column::new(name, ColumnValues::Text(rows.iter().map(of).collect()))
        };
        let real =
            |of: &dyn Fn(&Replication) -> Option<f64>| ColumnValues::Real(rows.iter().map(of).collect());
        match self {
            Self::Substrate => text("substrate", &|r| Some(r.run.substrate.clone())),
            Self::Factor(name, factor, None) => {
                text(name, &|r| r.point.level(factor).map(ToString::to_string))
            }
            // A run without this factor has no number.
            Self::Factor(name, factor, Some(unit)) => {
                let values = real(&|r| r.point.level(factor).and_then(|level| unit.number(level)));
                match unit.name() {
                    Some(unit) => Column::in_unit(name, unit, values),
                    None => Column::new(name, values),
                }
            }
            Self::Number => {
                let numbers = rows.iter().map(|r| i64::from(r.number)).collect();
                Column::new("replication", ColumnValues::Signed(numbers))
            }
            Self::Seed => {
                Column::new("seed", ColumnValues::Unsigned(rows.iter().map(|r| r.run.seed).collect()))
            }
            Self::IsValid => {
                let valid = rows.iter().map(|r| r.run.end.is_valid()).collect();
                Column::new("valid", ColumnValues::Bool(valid))
            }
            Self::Why => text("why", &|r| r.run.end.why().map(str::to_owned)),
            Self::Response(name, unit) => {
                let value =
                    |r: &Replication| r.run.responses.get(name).filter(|r| r.unit == *unit)?.measured.value();
                Column::in_unit(name, unit, real(&value))
            }
            Self::Build => text("build", &|r| Some(r.build.clone())),
            Self::Identity => text("identity", &|r| Some(r.run.identity.clone())),
        }
    }
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
