//! Selects points by the levels of their factors: `where = { down_for = ["10 s", "20 s"], transport = "tcp" }`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

use netrig_core::read_from_scalar;
use netrig_core::written::{self, Scalar};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::check::{SpecError, one_of};
use crate::{Factor, Level, LevelValue, Point};

/// For each named factor, the selected levels. A factor that is not named may have any level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Selection(pub BTreeMap<String, Vec<Level>>);

/// One level as the file writes it: a text, a number or a truth value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written(pub Level);

impl Selection {
    /// Whether the selection contains every point.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `point` has one of the selected levels for every named factor.
    pub fn matches(&self, point: &Point) -> bool {
        self.0.iter().all(|(factor, wanted)| {
            point.level(factor).is_some_and(|level| wanted.iter().any(|w| w.means(level)))
        })
    }

    /// The selected levels of `factor`, in the order of the file.
    pub(crate) fn levels<'a>(&'a self, factor: &'a Factor) -> impl Iterator<Item = &'a Level> {
        let wanted = self.0.get(&factor.name);
        factor.levels.iter().filter(move |level| wanted.is_none_or(|w| w.iter().any(|w| w.means(level))))
    }

    /// The faults of the selection: factors and levels that the experiment does not have.
    pub fn check(&self, field: &str, factors: &[Factor]) -> Vec<SpecError> {
        let mut errors = Vec::new();
        for (name, wanted) in &self.0 {
            let field = format!("{field}.{name}");
            match factors.iter().find(|factor| factor.name == *name) {
                Some(factor) => {
                    errors.extend(wanted.iter().filter_map(|level| check_level(&field, level, factor)))
                }
                None => errors.push(SpecError::new(field, unknown_factor(name, factors))),
            }
        }
        errors
    }
}

/// The error if the factor does not have this level.
pub(crate) fn check_level(field: &str, level: &Level, factor: &Factor) -> Option<SpecError> {
    if factor.levels.iter().any(|l| l.means(level)) {
        return None;
    }
    let known: Vec<&str> = factor.levels.iter().map(Level::text).collect();
    let what = format!("`{}` has no level `{level}`", factor.name);
    // A different number is not a misspelling, so no similar number is suggested.
    let meant = if level.looks_like() == LevelValue::Text { level.text() } else { "" };
    Some(SpecError::new(field, one_of(&what, meant, &known)))
}

/// The message for an unknown factor.
pub(crate) fn unknown_factor(name: &str, factors: &[Factor]) -> String {
    let known: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
    one_of(&format!("there is no factor `{name}`"), name, &known)
}

read_from_scalar!(Written, level, "a level: a text, a number, true or false", "Level", {
    "type": ["string", "number", "boolean"], "description": "A level of a factor."
});

fn level<'de, D: Deserializer<'de>>(deserializer: D, expected: &'static str) -> Result<Written, D::Error> {
    written::scalar(deserializer, expected, |scalar| {
        Some(Ok::<_, Infallible>(Written(match scalar {
            Scalar::Text(text) => Level::of_text(text),
            Scalar::Whole(number) => Level::new(&number.to_string()),
            Scalar::Number(number) => Level::new(&number.to_string()),
            Scalar::Truth(truth) => Level::new(&truth.to_string()),
        })))
    })
}

/// One item or a list of them.
pub(crate) struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeveralVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for SeveralVisitor<T> {
            type Value = OneOrMany<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value or a list of values")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(OneOrMany(all))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                one(de::value::MapAccessDeserializer::new(map))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Self::Value, E> {
                one(de::value::StrDeserializer::new(v))
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Self::Value, E> {
                one(de::value::I64Deserializer::new(v))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Self::Value, E> {
                one(de::value::U64Deserializer::new(v))
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Self::Value, E> {
                one(de::value::F64Deserializer::new(v))
            }
            fn visit_bool<E: de::Error>(self, v: bool) -> Result<Self::Value, E> {
                one(de::value::BoolDeserializer::new(v))
            }
        }
        fn one<'de, T: Deserialize<'de>, D: Deserializer<'de>>(item: D) -> Result<OneOrMany<T>, D::Error> {
            T::deserialize(item).map(|item| OneOrMany(vec![item]))
        }
        deserializer.deserialize_any(SeveralVisitor(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Selection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let chosen = BTreeMap::<String, OneOrMany<Written>>::deserialize(deserializer)?;
        let levels = |levels: OneOrMany<Written>| levels.0.into_iter().map(|level| level.0).collect();
        Ok(Self(chosen.into_iter().map(|(factor, chosen)| (factor, levels(chosen))).collect()))
    }
}

impl JsonSchema for Selection {
    fn schema_name() -> Cow<'static, str> {
        "Selection".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let level = generator.subschema_for::<Written>();
        json_schema!({
            "type": "object",
            "description": "Points by the levels of their factors.",
            "additionalProperties": { "anyOf": [level, { "type": "array", "items": level }] }
        })
    }
}

/// Names written alone or as a list: `"transport"` or `["transport", "down_for"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Names {
    /// Whether the list has no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list contains `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|n| n == name)
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        OneOrMany::deserialize(deserializer).map(|names| Self(names.0))
    }
}

impl JsonSchema for Names {
    fn schema_name() -> Cow<'static, str> {
        "Names".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            "description": "A name or a list of names."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(levels: &[(&str, &str)]) -> Point {
        levels.iter().map(|(f, l)| ((*f).to_owned(), Level::new(l))).collect()
    }

    fn selection(text: &str) -> Selection {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn one_level_or_several_of_any_kind() {
        let chosen = selection("down_for = ['10 s', '20 s']\nshape = 1.5\ntries = 3\nsack = true");
        assert!(chosen.matches(&point(&[
            ("down_for", "20 s"),
            ("shape", "1.5"),
            ("tries", "3"),
            ("sack", "true")
        ])));
        assert!(!chosen.matches(&point(&[
            ("down_for", "5 s"),
            ("shape", "1.5"),
            ("tries", "3"),
            ("sack", "true")
        ])));
    }

    #[test]
    fn levels_are_compared_as_amounts() {
        assert!(selection("down_for = '500 ms'").matches(&point(&[("down_for", "0.5 s")])));
        assert!(!selection("down_for = '500 ms'").matches(&point(&[("down_for", "500 s")])));
        assert!(selection("tries = '3'").matches(&point(&[("tries", "3")])));
    }

    #[test]
    fn a_point_without_the_factor_does_not_match() {
        assert!(!selection("shape = 1.5").matches(&point(&[])));
        assert!(Selection::default().matches(&point(&[])));
    }

    #[test]
    fn names_what_does_not_exist() {
        let factors =
            [Factor { name: "down_for".into(), levels: vec![Level::new("5 s"), Level::new("10 s")] }];
        let errors = selection("down_for = '7 s'\ndown_fro = '5 s'").check("where", &factors);
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(text[0], "`where.down_for`: `down_for` has no level `7 s` (there are: 5 s, 10 s)");
        assert_eq!(text[1], "`where.down_fro`: there is no factor `down_fro`; did you mean `down_for`?");
    }
}
