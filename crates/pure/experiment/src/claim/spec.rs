//! A claim as an experiment file writes it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::selection::{Selection, Written, check_level, unknown_factor};
use crate::check::{SpecError, one_of, refuse};
use crate::judge::Design;
use crate::{Amount, Derivation, Factor, Level};

/// A statement about a response that the data support, refute or leave open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// The statement in words.
    pub says: String,
    /// What it is about: a response, or a column of a table as `table.<table>.<column>`.
    pub response: String,
    /// The factor and its two levels that are compared: the first is claimed to be greater, less or
    /// equivalent. Paired over replications, which share their random numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<BTreeMap<String, [Written; 2]>>,
    /// The factor over whose levels the response rises, falls, bends or stays the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// The points that it is about; it must hold at each of them.
    #[serde(default, rename = "where", skip_serializing_if = "Selection::is_empty")]
    pub at: Selection,
    /// What is claimed.
    pub expect: Expect,
    /// How much greater or less it must be (then 0 without it), or how far from the target it may be. A
    /// share such as `2 %` is relative to what it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<Amount>,
    /// The number that it is compared with: an amount, or a value of the paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The range in which it (the knee, or more than half of the rise) must lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<[Amount; 2]>,
    /// The figure in which a reader sees it; without one it is looked for ([`Design::exhibit`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
}

/// What a claim says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// The first level's mean is greater than the second's (or than the target) by more than the margin.
    Greater,
    /// It is less by more than the margin.
    Less,
    /// The means differ by less than the margin (two one-sided tests); over a factor: each pair of levels.
    Equivalent,
    /// Each level of the factor has a greater mean than the one before, by more than the margin.
    Increasing,
    /// Each level has a smaller mean than the one before.
    Decreasing,
    /// The mean is within the margin around the target (two one-sided tests).
    Within,
    /// The mean lies in the range `between`.
    Between,
    /// The curve over the factor bends, at a place in the range `between`.
    Knee,
    /// More than half of the rise (or fall) from the factor's first level to its last takes place in the range `between`,
    /// the ends of which are levels: what a knee is to a curve without end, this is to one that has another level.
    Rise,
}

impl Expect {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Greater => "greater",
            Self::Less => "less",
            Self::Equivalent => "equivalent",
            Self::Increasing => "increasing",
            Self::Decreasing => "decreasing",
            Self::Within => "within",
            Self::Between => "between",
            Self::Knee => "knee",
            Self::Rise => "rise",
        }
    }

    /// Whether it is about the form of a curve over levels that are numbers.
    pub(super) const fn is_of_a_curve(self) -> bool {
        matches!(self, Self::Knee | Self::Rise)
    }
}

/// What a response is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Target {
    /// A number.
    Amount(Amount),
    /// A value of the paper, by its id, or by its group and the levels of the point.
    Paper {
        /// The id or the group.
        paper: String,
    },
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Reference {
            paper: String,
        }
        struct Either;
        impl<'de> de::Visitor<'de> for Either {
            type Value = Target;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount such as `54 KB/s`, or `{ paper = \"table3.tcp\" }`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Target, E> {
                text.parse().map(Target::Amount).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Target, E> {
                Ok(Target::Amount(Amount::bare(value)))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Target, E> {
                Ok(Target::Amount(Amount::bare(value as f64)))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Target, E> {
                Ok(Target::Amount(Amount::bare(value as f64)))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Target, A::Error> {
                let reference = Reference::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Target::Paper { paper: reference.paper })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Target {
    fn schema_name() -> Cow<'static, str> {
        "Target".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let amount = generator.subschema_for::<Amount>();
        json_schema!({
            "description": "A number with its unit, or a value of the paper.",
            "anyOf": [amount, {
                "type": "object",
                "properties": { "paper": { "type": "string" } },
                "required": ["paper"],
                "additionalProperties": false
            }]
        })
    }
}

impl ClaimSpec {
    /// The factor that is compared, and its two levels.
    pub fn compared(&self) -> Option<(&str, [&Level; 2])> {
        let (factor, [first, second]) = self.compare.as_ref()?.iter().next()?;
        Some((factor, [&first.0, &second.0]))
    }

    /// The table and column, if it is about one.
    pub fn column(&self) -> Option<(&str, &str)> {
        self.response.strip_prefix("table.")?.split_once('.')
    }

    /// How many levels a factor needs for what is claimed over it: a line with a bend has four numbers, and a part of a
    /// rise is less than all of it.
    pub(super) const fn fewest_levels(&self) -> usize {
        match self.expect {
            Expect::Knee => 5,
            Expect::Rise => 3,
            _ => 2,
        }
    }

    /// What is wrong with it, by field.
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

    /// Checks the response, and says which factors its values have: all, or the rows of the table.
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

    /// Whether the factor has enough levels for what is claimed over it.
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

    /// Whether what is claimed has what it needs, and nothing that means nothing to it.
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
            refuse(errors, "margin", format!("`{word}` needs to know how far is still the same"));
        }
        if self.expect == Between && self.between.is_none() {
            refuse(errors, "between", "a range such as [\"50 KB/s\", \"60 KB/s\"] is missing");
        }
    }

    fn check_amounts(&self, design: &Design, errors: &mut Vec<SpecError>) {
        let unit = design.unit_of(&self.response);
        let mut judge = |field: &str, amount: &Amount, unit: &str| {
            if let Err(error) = amount.in_unit(unit) {
                refuse(errors, field, error.to_string());
            }
        };
        if let Some(margin) = &self.margin
            && !margin.is_share()
        {
            judge("margin", margin, &unit);
        }
        if let Some(Target::Amount(amount)) = &self.target {
            judge("target", amount, &unit);
        }
        if self.expect == Expect::Between {
            self.between.iter().flatten().for_each(|end| judge("between", end, &unit));
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
