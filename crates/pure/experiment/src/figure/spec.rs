//! A figure as an experiment file writes it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::expression::Expression;
use crate::Of;
use crate::claim::selection::{Names, Selection};

/// What stands for the time of a run on the x axis.
pub const TIME: &str = "time";

/// What stands for the pictures of a video on the x axis.
pub const PICTURE: &str = "picture";

/// What can be told of each picture of a video, with its unit: how like it is to the one that was sent.
pub(super) const LIKENESS: [(&str, &str); 2] = [("ssim", "1"), ("psnr", "dB")];

/// A figure: a response over the levels of a factor, a traced quantity over the time of a run, or what a video looked like
/// that came through a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Its caption; its name without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The factor on the x axis; or `time`, or `picture`.
    pub x: String,
    /// The response on the y axis, or several; over `time` the traced quantity, such as `cwnd`; over `picture` `ssim` or
    /// `psnr`, of each picture that was shown to the one that was sent.
    pub y: Names,
    /// Over `time`: whose trace. Over `picture`: the flow of video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Of>,
    /// The factors whose combinations of levels are the lines of a panel.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub series: Names,
    /// The factors whose combinations of levels are the panels.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub panels: Names,
    /// The factors whose combinations of levels are the rows of a grid, of which `panels` are the columns; without
    /// them panels stand in the order of their levels, as many side by side as there is room for.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub rows: Names,
    /// The points that it shows.
    #[serde(default, rename = "where", skip_serializing_if = "Selection::is_empty")]
    pub at: Selection,
    /// The group of the paper's values that are drawn beside ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// The curve of a theory that is drawn under it, or several.
    #[serde(default, skip_serializing_if = "Theories::is_empty")]
    pub theory: Theories,
    /// The axes that are logarithmic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<Axis>,
    /// Words under it, in Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One of a figure's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// The horizontal one.
    X,
    /// The vertical one.
    Y,
}

/// A curve of a theory with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TheorySpec {
    /// The curve's name: `mm1`.
    pub curve: String,
    /// Parameters: numbers, amounts, factors, or products and quotients of them. What is not named takes
    /// its default; the curve's own x takes the factor on the x axis.
    #[serde(rename = "with", skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Expression>,
    /// What is added to the curve, of what the formula leaves out: the propagation delay beside a time in a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plus: Option<Expression>,
    /// Its legend, in the place of the curve's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The lines under which it is drawn; all, if it names no factor.
    #[serde(rename = "where", skip_serializing_if = "Selection::is_empty")]
    pub at: Selection,
}

/// The theories of a figure: one, or a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Theories(pub Vec<TheorySpec>);

impl Theories {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Theories {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> de::Visitor<'de> for OneOrSeveral {
            type Value = Theories;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a curve's name such as `mm1`, `{ curve = \"mm1\", with = { … } }`, or a list of these",
                )
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Theories, E> {
                TheorySpec::deserialize(de::value::StrDeserializer::new(name)).map(|one| Theories(vec![one]))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Theories, A::Error> {
                let one = TheorySpec::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Theories(vec![one]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut several: A) -> Result<Theories, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = several.next_element()? {
                    all.push(one);
                }
                Ok(Theories(all))
            }
        }
        deserializer.deserialize_any(OneOrSeveral)
    }
}

impl JsonSchema for Theories {
    fn schema_name() -> Cow<'static, str> {
        "Theories".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<TheorySpec>();
        json_schema!({
            "description": "A curve of a theory, or a list of them.",
            "anyOf": [one, { "type": "array", "items": one }]
        })
    }
}

impl<'de> Deserialize<'de> for TheorySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            curve: String,
            #[serde(default)]
            with: BTreeMap<String, Expression>,
            #[serde(default)]
            plus: Option<Expression>,
            #[serde(default)]
            label: Option<String>,
            #[serde(default, rename = "where")]
            at: Selection,
        }
        struct Either;
        impl<'de> de::Visitor<'de> for Either {
            type Value = TheorySpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a curve's name such as `mm1`, or `{ curve = \"mm1\", with = { … } }`")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<TheorySpec, E> {
                Ok(TheorySpec {
                    curve: name.to_owned(),
                    parameters: BTreeMap::new(),
                    plus: None,
                    label: None,
                    at: Selection::default(),
                })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TheorySpec, A::Error> {
                let full = Full::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let Full { curve, with: parameters, plus, label, at } = full;
                Ok(TheorySpec { curve, parameters, plus, label, at })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for TheorySpec {
    fn schema_name() -> Cow<'static, str> {
        "Theory".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parameter = generator.subschema_for::<Expression>();
        let selection = generator.subschema_for::<Selection>();
        json_schema!({
            "description": "A curve of a theory: its name, or its name and parameters.",
            "anyOf": [{ "type": "string" }, {
                "type": "object",
                "properties": {
                    "curve": { "type": "string" },
                    "with": { "type": "object", "additionalProperties": parameter },
                    "plus": parameter,
                    "label": { "type": "string" },
                    "where": selection
                },
                "required": ["curve"],
                "additionalProperties": false
            }]
        })
    }
}

impl FigureSpec {
    /// Whether it shows the course of single runs.
    pub fn is_trace(&self) -> bool {
        self.x == TIME
    }

    /// Whether it shows the pictures of a video, of single runs.
    pub fn is_watched(&self) -> bool {
        self.x == PICTURE
    }

    /// Whether it shows single runs, and not what responses are on the whole.
    pub fn is_of_runs(&self) -> bool {
        self.is_trace() || self.is_watched()
    }

    /// The unit of what it tells of each picture.
    pub(super) fn unit_of_pictures(&self) -> &'static str {
        let wanted = |(name, _): &&(&str, &str)| self.y.contains(name);
        LIKENESS.iter().find(wanted).map_or("1", |(_, unit)| unit)
    }

    /// Whether it tells the levels of a factor apart.
    pub(crate) fn tells(&self, factor: &str) -> bool {
        let named = [&self.series, &self.panels, &self.rows];
        self.x == factor || named.iter().any(|names| names.contains(factor))
    }
}
