//! A table in the form of an experiment file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::ordered::Ordered;
use crate::Factor;
use crate::claim::selection::{Names, Selection, Written};

/// Derived responses: a row for each combination of some factors' levels, a column for each derivation.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// The heading. If not given, the table's name.
    #[serde(default)]
    pub title: Option<String>,
    /// The factors whose combinations of levels are the rows.
    pub rows: Names,
    /// The derivations, by the names of their columns.
    pub columns: Ordered<ColumnSpec>,
    /// The points of the table.
    #[serde(default, rename = "where")]
    pub at: Selection,
    /// The group of the paper's values that are shown beside the cells.
    #[serde(default)]
    pub paper: Option<String>,
    /// Text below the table, in Markdown.
    #[serde(default)]
    pub note: Option<String>,
}

/// The derivation of a column's cells from a response: exactly one of `value`, `mean`, `spread`, `min`, `max`,
/// `difference` and `ratio`, which names the response.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnSpec {
    /// The mean at the single point of the row.
    #[serde(default)]
    pub value: Option<String>,
    /// The mean over the points of the row.
    #[serde(default)]
    pub mean: Option<String>,
    /// The largest mean minus the smallest over the points of the row.
    #[serde(default)]
    pub spread: Option<String>,
    /// The smallest mean over the points of the row.
    #[serde(default)]
    pub min: Option<String>,
    /// The largest mean over the points of the row.
    #[serde(default)]
    pub max: Option<String>,
    /// The mean over the points of the row minus the mean over the same points with the levels of `to`.
    #[serde(default)]
    pub difference: Option<String>,
    /// The mean over the points of the row divided by the mean over the same points with the levels of `to`.
    #[serde(default)]
    pub ratio: Option<String>,
    /// The factors that vary within a row.
    #[serde(default)]
    pub over: Names,
    /// The points of the column, among those of the table.
    #[serde(default, rename = "where")]
    pub at: Selection,
    /// The levels of the points that `difference` and `ratio` compare with. Other factors keep their levels.
    #[serde(default)]
    pub to: BTreeMap<String, Written>,
    /// The response to compare with, if it differs. It must have the same unit.
    #[serde(default)]
    pub by: Option<String>,
}

/// The derivation of a cell from the means of its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// The mean over the points, or at the single point.
    Mean,
    /// The largest mean minus the smallest.
    Spread,
    /// The smallest mean.
    Min,
    /// The largest mean.
    Max,
    /// The mean minus the reference.
    Difference,
    /// The mean divided by the reference.
    Ratio,
}

impl ColumnSpec {
    /// The derivation of the column, and the response. `None` unless the column has exactly one derivation.
    pub fn derivation(&self) -> Option<(Derivation, &str)> {
        let mut named = self.named();
        let first = named.next()?;
        if named.next().is_some() { None } else { Some((first.1, first.2)) }
    }

    pub(super) fn named(&self) -> impl Iterator<Item = (&'static str, Derivation, &str)> {
        [
            ("value", Derivation::Mean, &self.value),
            ("mean", Derivation::Mean, &self.mean),
            ("spread", Derivation::Spread, &self.spread),
            ("min", Derivation::Min, &self.min),
            ("max", Derivation::Max, &self.max),
            ("difference", Derivation::Difference, &self.difference),
            ("ratio", Derivation::Ratio, &self.ratio),
        ]
        .into_iter()
        .filter_map(|(field, derivation, response)| Some((field, derivation, response.as_deref()?)))
    }

    /// The derivation in words, for the heading or foot of a table.
    pub fn definition(&self) -> String {
        let Some((field, derivation, response)) = self.named().next() else { return String::new() };
        let over =
            if self.over.is_empty() { String::new() } else { format!(" over {}", self.over.0.join(" and ")) };
        let to: Vec<String> =
            self.to.iter().map(|(factor, level)| format!("{factor} = {}", level.0)).collect();
        let with = if to.is_empty() { String::new() } else { format!(" with {}", to.join(", ")) };
        let to =
            self.by.as_ref().map_or_else(|| format!("that{with}"), |other| format!("that of {other}{with}"));
        match derivation {
            Derivation::Mean if field == "value" => format!("mean of {response}"),
            Derivation::Mean => format!("mean of {response}{over}"),
            Derivation::Spread => format!("largest less smallest mean of {response}{over}"),
            Derivation::Min => format!("smallest mean of {response}{over}"),
            Derivation::Max => format!("largest mean of {response}{over}"),
            Derivation::Difference => format!("mean of {response}{over} less {to}"),
            Derivation::Ratio => format!("mean of {response}{over} divided by {to}"),
        }
    }
}

impl TableSpec {
    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&ColumnSpec> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, column)| column)
    }

    /// The factors of the rows, with the levels that the table shows.
    pub fn row_factors(&self, factors: &[Factor]) -> Vec<Factor> {
        let shown = |factor: &Factor| self.at.levels(factor).cloned().collect();
        let known = self.rows.0.iter().filter_map(|row| factors.iter().find(|factor| factor.name == *row));
        known.map(|factor| Factor { name: factor.name.clone(), levels: shown(factor) }).collect()
    }
}
