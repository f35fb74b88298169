//! Checks of a table in a file.

use super::spec::{ColumnSpec, Derivation, TableSpec};
use crate::check::{SpecError, refuse};
use crate::claim::selection::{check_level, unknown_factor};
use crate::judge::Design;
use crate::{Factor, Level};

impl TableSpec {
    /// Checks the table. Returns its faults, each with its field.
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

impl ColumnSpec {
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

    /// Factors with several levels that the table does not mention, so that they would vary within a cell; each with
    /// its number of levels.
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
