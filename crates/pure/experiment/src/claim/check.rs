//! Checks of a claim in a file.

use super::selection::{check_level, unknown_factor};
use super::spec::{ClaimSpec, Expect, Target};
use crate::check::{SpecError, one_of, refuse};
use crate::judge::Design;
use crate::{Amount, Derivation, Factor, Level};

impl ClaimSpec {
    /// Checks the claim. Returns its faults, each with its field.
    pub fn check(&self, design: &Design) -> Vec<SpecError> {
        let mut errors = Vec::new();
        let factors = self.check_subject(design, &mut errors);
        errors.extend(self.at.check("where", &factors));
        self.check_comparison(&factors, &mut errors);
        self.check_shape(&mut errors);
        self.check_amounts(design, &mut errors);
        if let Some(figure) = self.figure.as_ref().filter(|name| design.figure(name).is_none()) {
            let known: Vec<&str> = design.figures.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!("there is no figure `{figure}`");
            refuse(&mut errors, "figure", one_of(&what, figure, &known));
        }
        errors
    }

    /// Checks the response. Returns the factors that distinguish its values: for a column of a table, the factors of
    /// the rows; otherwise all factors.
    fn check_subject(&self, design: &Design, errors: &mut Vec<SpecError>) -> Vec<Factor> {
        let Some((table, column)) = self.column() else {
            if design.response(&self.response).is_none() {
                errors.push(SpecError::new("response", design.unknown_response(&self.response)));
            }
            return design.factors.clone();
        };
        let Some(spec) = design.table(table) else {
            let known: Vec<&str> = design.tables.iter().map(|(name, _)| name.as_str()).collect();
            let what = one_of(&format!("there is no table `{table}`"), table, &known);
            errors.push(SpecError::new("response", what));
            return design.factors.clone();
        };
        if spec.column(column).is_none() {
            let known: Vec<&str> = spec.columns.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!("table `{table}` has no column `{column}`");
            errors.push(SpecError::new("response", one_of(&what, column, &known)));
        }
        spec.row_factors(&design.factors)
    }

    fn check_comparison(&self, factors: &[Factor], errors: &mut Vec<SpecError>) {
        if self.compare.as_ref().is_some_and(|compare| compare.len() != 1) {
            refuse(errors, "compare", "exactly one factor is compared");
        }
        if let Some((name, levels)) = self.compared() {
            let field = format!("compare.{name}");
            match factors.iter().find(|factor| factor.name == name) {
                Some(factor) => {
                    errors.extend(levels.iter().filter_map(|level| check_level(&field, level, factor)));
                    if levels[0].means(levels[1]) {
                        refuse(errors, field, "a level is compared with itself");
                    }
                }
                None => refuse(errors, field, unknown_factor(name, factors)),
            }
        }
        if let Some(over) = &self.over {
            match factors.iter().find(|factor| factor.name == *over) {
                Some(factor) => self.check_levels(factor, errors),
                None => refuse(errors, "over", unknown_factor(over, factors)),
            }
        }
    }

    /// Checks that the factor has enough levels for a claim over it.
    fn check_levels(&self, factor: &Factor, errors: &mut Vec<SpecError>) {
        let levels: Vec<&Level> = self.at.levels(factor).collect();
        let least = self.fewest_levels();
        if levels.len() < least {
            let why = format!(
                "`{}` over it needs at least {least} levels and has {}",
                self.expect.name(),
                levels.len()
            );
            refuse(errors, "over", why);
        }
        if self.expect.is_of_a_curve() && levels.iter().any(|level| level.number().is_none()) {
            refuse(errors, "over", format!("a {} needs levels that are numbers", self.expect.name()));
        }
        if self.expect == Expect::Rise
            && let Some(ends) = &self.between
            && let numbers = levels.iter().filter_map(|level| level.amount()).collect::<Vec<_>>()
            && let Some(end) = ends.iter().find(|end| !numbers.iter().any(|level| level.base() == end.base()))
        {
            let why = format!("`{end}` is no level of `{}` that the claim is about", factor.name);
            refuse(errors, "between", why);
        }
    }

    /// Checks that the claim has every key that its kind requires, and no key that its kind ignores.
    fn check_shape(&self, errors: &mut Vec<SpecError>) {
        use Expect::*;
        let word = self.expect.name();
        let (compare, over) = (self.compare.is_some(), self.over.is_some());
        let against = match self.expect {
            Greater | Less => compare || self.target.is_some(),
            Equivalent => compare || over,
            Increasing | Decreasing | Knee => over,
            Rise => over && self.between.is_some(),
            Within => self.target.is_some(),
            Between => true,
        };
        if !against {
            let needs = match self.expect {
                Greater | Less => "`compare` (a factor's two levels) or `target` (a number)",
                Equivalent => "`compare` (a factor's two levels) or `over` (a factor)",
                Within => "`target` (a number or a value of the paper)",
                Rise => "`over` (a factor) and `between` (two of its levels)",
                _ => "`over` (a factor)",
            };
            refuse(errors, "expect", format!("`{word}` needs {needs}"));
        }
        let pointless = [
            ("compare", compare, matches!(self.expect, Greater | Less | Equivalent)),
            ("over", over, matches!(self.expect, Equivalent | Increasing | Decreasing | Knee | Rise)),
            ("target", self.target.is_some(), matches!(self.expect, Greater | Less | Within)),
            ("between", self.between.is_some(), matches!(self.expect, Between | Knee | Rise)),
            ("margin", self.margin.is_some(), !matches!(self.expect, Between | Knee | Rise)),
        ];
        for (field, given, sensible) in pointless {
            if given && !sensible {
                refuse(errors, field, format!("means nothing to `{word}`"));
            }
        }
        if compare && over {
            refuse(errors, "over", "either `compare` or `over`");
        }
        if compare && self.target.is_some() {
            refuse(errors, "target", "either `compare` or `target`");
        }
        if matches!(self.expect, Equivalent | Within) && self.margin.is_none() {
            refuse(
                errors,
                "margin",
                format!("`{word}` needs a margin: the largest difference that still counts as equal"),
            );
        }
        if self.expect == Between && self.between.is_none() {
            refuse(errors, "between", "a range such as [\"50 KB/s\", \"60 KB/s\"] is missing");
        }
    }

    fn check_amounts(&self, design: &Design, errors: &mut Vec<SpecError>) {
        let unit = self.unit(design);
        let mut judge = |field: &str, amount: &Amount, unit: &str| {
            if let Err(error) = amount.in_unit(unit) {
                refuse(errors, field, error.to_string());
            }
        };
        if let Some(margin) = &self.margin
            && !margin.is_share()
        {
            judge("margin", margin, unit);
        }
        if let Some(Target::Amount(amount)) = &self.target {
            judge("target", amount, unit);
        }
        if self.expect == Expect::Between {
            self.between.iter().flatten().for_each(|end| judge("between", end, unit));
        }
        let extreme = self
            .column()
            .and_then(|(table, column)| design.table(table)?.column(column))
            .is_some_and(|column| {
                matches!(
                    column.derivation(),
                    Some((Derivation::Spread | Derivation::Min | Derivation::Max, _))
                )
            });
        let share = self.margin.as_ref().is_some_and(|margin| margin.is_share() && margin.value() != 0.0);
        if extreme && share && self.target.is_none() {
            let why =
                format!("of a spread, smallest or largest the margin is an amount in {unit}, not a share");
            refuse(errors, "margin", why);
        }
        let zero_is_enough = !matches!(self.expect, Expect::Equivalent | Expect::Within);
        if let Some(margin) = &self.margin
            && (margin.value() < 0.0 || margin.value() == 0.0 && !zero_is_enough)
        {
            refuse(
                errors,
                "margin",
                if zero_is_enough { "must not be negative" } else { "must be above zero" },
            );
        }
        if self.between.as_ref().is_some_and(|[low, high]| low.base() >= high.base()) {
            refuse(errors, "between", "the first end must lie below the second");
        }
        if let Some(Target::Paper { paper }) = &self.target {
            errors.extend(design.check_paper("target.paper", paper));
        }
    }
}
