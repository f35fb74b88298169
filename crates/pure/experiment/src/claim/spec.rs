//! A claim in the form of an experiment file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use netrig_core::named;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::selection::{Selection, Written};
use crate::{Amount, Level};

/// A statement about a response. The data support it, refute it or leave it open.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimSpec {
    /// The statement in words.
    pub says: String,
    /// The subject: a response, or a column of a table as `table.<table>.<column>`.
    pub response: String,
    /// The factor and its two compared levels: the first is claimed to be greater, less or equivalent.
    /// Replications are paired, because they share their random numbers.
    #[serde(default)]
    pub compare: Option<BTreeMap<String, [Written; 2]>>,
    /// The factor over whose levels the response rises, falls, bends or stays the same.
    #[serde(default)]
    pub over: Option<String>,
    /// The points at which the claim must hold.
    #[serde(default, rename = "where")]
    pub at: Selection,
    /// What is claimed.
    pub expect: Expect,
    /// The difference that must be exceeded (0 if not given), or the largest distance from the target. A share such as
    /// `2 %` is relative to the value of the comparison.
    #[serde(default)]
    pub margin: Option<Amount>,
    /// The number that the response is compared with: an amount, or a value of the paper.
    #[serde(default)]
    pub target: Option<Target>,
    /// The range in which the mean, the knee, or more than half of the rise must lie.
    #[serde(default)]
    pub between: Option<[Amount; 2]>,
    /// The figure that shows it. If not given, netrig chooses one.
    #[serde(default)]
    pub figure: Option<String>,
}

named! {
    /// The kind of a claim.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Expect {
        /// The first level's mean is greater than the second's (or than the target) by more than the margin.
        Greater = "greater",
        /// The first level's mean is less by more than the margin.
        Less = "less",
        /// The means differ by less than the margin (two one-sided tests); over a factor: each pair of levels.
        Equivalent = "equivalent",
        /// Each level of the factor has a greater mean than the one before, by more than the margin.
        Increasing = "increasing",
        /// Each level has a smaller mean than the one before.
        Decreasing = "decreasing",
        /// The mean is within the margin around the target (two one-sided tests).
        Within = "within",
        /// The mean lies in the range `between`.
        Between = "between",
        /// The curve over the factor bends at a value in the range `between`.
        Knee = "knee",
        /// More than half of the rise (or fall) from the factor's first level to its last takes place in the range
        /// `between`, whose ends are levels. It corresponds to a knee for a curve that levels off again.
        Rise = "rise",
    }
}

impl Expect {
    /// Whether the claim is about the shape of a curve, whose levels must be numbers.
    pub(super) const fn is_of_a_curve(self) -> bool {
        matches!(self, Self::Knee | Self::Rise)
    }
}

/// The value that a response is compared with.
#[derive(Clone, Debug, PartialEq)]
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
        struct TargetVisitor;
        impl<'de> de::Visitor<'de> for TargetVisitor {
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
        deserializer.deserialize_any(TargetVisitor)
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
    /// The compared factor and its two levels.
    pub fn compared(&self) -> Option<(&str, [&Level; 2])> {
        let (factor, [first, second]) = self.compare.as_ref()?.iter().next()?;
        Some((factor, [&first.0, &second.0]))
    }

    /// The table and column that the claim is about; `None` if it is about a response.
    pub fn column(&self) -> Option<(&str, &str)> {
        self.response.strip_prefix("table.")?.split_once('.')
    }

    /// The least number of levels for a claim over a factor. A knee needs five, because its curve has four parameters.
    /// A rise needs three, because a part of the rise must be less than the whole.
    pub(super) const fn fewest_levels(&self) -> usize {
        match self.expect {
            Expect::Knee => 5,
            Expect::Rise => 3,
            _ => 2,
        }
    }
}
