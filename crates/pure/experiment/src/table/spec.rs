//! A table as an experiment file writes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ordered::Ordered;
use crate::check::{SpecError, refuse};
use crate::claim::selection::{Names, Selection, Written, check_level, unknown_factor};
use crate::judge::Design;
use crate::{Factor, Level};

/// Derived responses: a row for each combination of some factors' levels, a column for each derivation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Its heading; its name without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The factors whose combinations of levels are the rows.
    pub rows: Names,
    /// The derivations by the names of their columns.
    pub columns: Ordered<ColumnSpec>,
    /// The points that it is about.
    #[serde(default, rename = "where", skip_serializing_if = "Selection::is_empty")]
    pub at: Selection,
    /// The group of the paper's values that are shown beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// Words under it, in Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How the cells of a column come from a response: exactly one of `value`, `mean`, `spread`, `min`, `max`,
/// `difference` and `ratio`, which names the response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnSpec {
    /// The mean at the row's one point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The mean over the points of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<String>,
    /// The largest mean less the smallest over the points of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// The smallest mean over the points of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The largest mean over the points of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// The mean over the points of the row less that over the same points with the levels of `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// The mean over the points of the row divided by that over the same points with the levels of `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<String>,
    /// The factors over whose levels the points of a row range.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub over: Names,
    /// The points that the column is about, within those of the table.
    #[serde(default, rename = "where", skip_serializing_if = "Selection::is_empty")]
    pub at: Selection,
    /// What `difference` and `ratio` compare with: the same point, but with these levels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub to: BTreeMap<String, Written>,
    /// Which response they compare with, if it is another one, of the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// How a cell comes from the means of its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// The mean over the points (or of the one point).
    Mean,
    /// Largest less smallest.
    Spread,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Less the reference.
    Difference,
    /// Divided by the reference.
    Ratio,
}

impl ColumnSpec {
    /// The derivation and the response that it is of, if there is exactly one.
    pub fn derivation(&self) -> Option<(Derivation, &str)> {
        let mut named = self.named();
        let first = named.next()?;
        if named.next().is_some() { None } else { Some((first.1, first.2)) }
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, Derivation, &str)> {
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

    /// The unit of its cells.
    pub fn unit(&self, design: &Design) -> String {
        match self.derivation() {
            Some((Derivation::Ratio, _)) | None => "1".to_owned(),
            Some((_, response)) => design.unit_of(response),
        }
    }

    /// What it says, for a table's heading or foot.
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

    fn check(&self, name: &str, table: &TableSpec, design: &Design) -> Vec<SpecError> {
        let mut errors = Vec::new();
        let field = |key: &str| format!("columns.{name}.{key}");
        let named: Vec<_> = self.named().collect();
        match named[..] {
            [(key, derivation, response)] => {
                if design.response(response).is_none() {
                    refuse(&mut errors, field(key), design.unknown_response(response));
                }
                let compares = matches!(derivation, Derivation::Difference | Derivation::Ratio);
                if compares && self.to.is_empty() && self.by.is_none() {
                    refuse(
                        &mut errors,
                        field(key),
                        format!("`{key}` needs `to`: the levels of what it compares with"),
                    );
                }
                if !compares && !self.to.is_empty() {
                    refuse(&mut errors, field("to"), format!("means nothing to `{key}`"));
                }
                match self.by.as_deref() {
                    Some(_) if !compares => {
                        refuse(&mut errors, field("by"), format!("means nothing to `{key}`"));
                    }
                    Some(other) if design.response(other).is_none() => {
                        refuse(&mut errors, field("by"), design.unknown_response(other));
                    }
                    Some(other) if design.unit_of(other) != design.unit_of(response) => {
                        let [of, other] = [response, other].map(|name| design.unit_of(name));
                        refuse(&mut errors, field("by"), format!("is in {other}, and `{response}` in {of}"));
                    }
                    _ => {}
                }
                if key == "value" && !self.over.is_empty() {
                    refuse(
                        &mut errors,
                        field("over"),
                        "`value` is of one point; `mean` takes several together",
                    );
                }
                if matches!(derivation, Derivation::Spread | Derivation::Min | Derivation::Max)
                    && self.over.is_empty()
                {
                    refuse(
                        &mut errors,
                        field(key),
                        format!("`{key}` needs `over`: the factors that vary within a row"),
                    );
                }
            }
            _ => {
                let why = "exactly one of value, mean, spread, min, max, difference and ratio";
                refuse(&mut errors, format!("columns.{name}"), why);
            }
        }
        for factor in &self.over.0 {
            if design.factor(factor).is_none() {
                refuse(&mut errors, field("over"), unknown_factor(factor, &design.factors));
            } else if table.rows.contains(factor) {
                refuse(&mut errors, field("over"), format!("`{factor}` is already a factor of the rows"));
            }
        }
        for (factor, level) in &self.to {
            match design.factor(factor) {
                Some(known) => errors.extend(check_level(&field("to"), &level.0, known)),
                None => refuse(&mut errors, field("to"), unknown_factor(factor, &design.factors)),
            }
        }
        errors.extend(self.at.check(&field("where"), &design.factors));
        errors.extend(self.loose_factors(table, design).map(|(factor, levels)| {
            let why =
                format!("factor `{factor}` has {levels} levels: name it in `rows`, in `over` or in `where`");
            SpecError::new(format!("columns.{name}"), why)
        }));
        errors
    }

    /// Factors that would vary within a cell although nobody said so.
    fn loose_factors<'a>(
        &'a self,
        table: &'a TableSpec,
        design: &'a Design,
    ) -> impl Iterator<Item = (&'a str, usize)> {
        let bound =
            |factor: &&Factor| !table.rows.contains(&factor.name) && !self.over.contains(&factor.name);
        design.factors.iter().filter(bound).filter_map(|factor| {
            let chosen = |level: &&Level| self.at.levels(factor).any(|l| l == *level);
            let levels = table.at.levels(factor).filter(chosen).count();
            (levels > 1).then_some((factor.name.as_str(), levels))
        })
    }
}

impl TableSpec {
    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&ColumnSpec> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, column)| column)
    }

    /// The factors of its rows with the levels that it shows.
    pub fn row_factors(&self, factors: &[Factor]) -> Vec<Factor> {
        let shown = |factor: &Factor| self.at.levels(factor).cloned().collect();
        let known = self.rows.0.iter().filter_map(|row| factors.iter().find(|factor| factor.name == *row));
        known.map(|factor| Factor { name: factor.name.clone(), levels: shown(factor) }).collect()
    }

    /// What is wrong with it, by field.
    pub fn check(&self, design: &Design) -> Vec<SpecError> {
        let mut errors = Vec::new();
        if self.rows.is_empty() {
            refuse(&mut errors, "rows", "at least one factor makes the rows");
        }
        for (index, row) in self.rows.0.iter().enumerate() {
            if design.factor(row).is_none() {
                refuse(&mut errors, "rows", unknown_factor(row, &design.factors));
            } else if self.rows.0[..index].contains(row) {
                refuse(&mut errors, "rows", format!("`{row}` is named twice"));
            }
        }
        if self.columns.is_empty() {
            refuse(&mut errors, "columns", "a table without columns shows nothing");
        }
        errors.extend(self.at.check("where", &design.factors));
        for (name, column) in self.columns.iter() {
            errors.extend(column.check(name, self, design));
        }
        errors.extend(self.paper.as_ref().and_then(|group| design.check_paper("paper", group)));
        errors
    }
}
