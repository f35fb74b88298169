//! The content of a table in a report.

use serde::Serialize;

use crate::Level;

/// A table with its values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableResult {
    /// Its key in the file.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// The substrate that measured it.
    pub substrate: String,
    /// The factors of the rows.
    pub factors: Vec<String>,
    /// The columns.
    pub columns: Vec<TableColumn>,
    /// The rows, in the order of the factors' levels.
    pub rows: Vec<TableRow>,
}

/// Heading of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableColumn {
    /// Its key in the file.
    pub name: String,
    /// The unit of its cells.
    pub unit: String,
    /// The derivation of the cells, in words.
    pub definition: String,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableRow {
    /// The levels, in the order of the factors.
    #[serde(serialize_with = "crate::level::typed_list")]
    pub key: Vec<Level>,
    /// One cell for each column.
    pub cells: Vec<TableCell>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableCell {
    /// The estimate; absent if there is no value.
    pub estimate: Option<f64>,
    /// Lower end of its interval; absent for less than two replications.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Number of replications in the estimate.
    pub n: u32,
    /// The reason why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The value of the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<PaperCell>,
}

/// The paper's value for a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperCell {
    /// The value, in the unit of the column.
    pub value: f64,
    /// Whether the text says "about".
    pub approximate: bool,
    /// Our estimate minus the paper's value.
    pub difference: Option<f64>,
    /// Page or section of the paper.
    pub place: String,
}
