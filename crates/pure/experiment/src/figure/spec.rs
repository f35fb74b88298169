//! A figure in the form of an experiment file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::expression::Expression;
use crate::Of;
use crate::claim::selection::{Names, OneOrMany, Selection};

/// The name for the time of a run on the x axis.
pub const TIME: &str = "time";

/// The name for the pictures of a video on the x axis.
pub const PICTURE: &str = "picture";

/// Similarity measures of a picture to the sent one, each with its unit.
pub(super) const LIKENESS: [(&str, &str); 2] = [("ssim", "1"), ("psnr", "dB")];

/// A figure: a response over the levels of a factor, a traced quantity over the time of a run, or the quality
/// of a video after its transmission in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// The caption. If not given, the figure's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The factor on the x axis, or `time`, or `picture`.
    pub x: String,
    /// The response on the y axis, or several. Over `time`, the traced quantity, such as `cwnd`. Over
    /// `picture`, `ssim` or `psnr` of each shown picture against the sent one.
    pub y: Names,
    /// Over `time`, the traced subject. Over `picture`, the flow of video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Of>,
    /// The factors whose combinations of levels are the lines of a panel.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub series: Names,
    /// The factors whose combinations of levels are the panels.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub panels: Names,
    /// The factors whose combinations of levels are the rows of a grid; `panels` are then its columns. Without
    /// rows, panels follow in the order of their levels, as many side by side as fit.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub rows: Names,
    /// The points of the figure.
    #[serde(default, rename = "where", skip_serializing_if = "Selection::is_empty")]
    pub at: Selection,
    /// The group of the paper's values that are drawn beside the measured ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// The theory, or theories, whose curves are drawn in the figure.
    #[serde(default, skip_serializing_if = "Theories::is_empty")]
    pub theory: Theories,
    /// The logarithmic axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<Axis>,
    /// Text below the figure, in Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One of a figure's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// The horizontal axis.
    X,
    /// The vertical axis.
    Y,
}

/// The curve of a theory with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TheorySpec {
    /// The curve's name: `mm1`.
    pub curve: String,
    /// Parameters: numbers, amounts, factors, or expressions of them. A parameter that is not named has its
    /// default. The curve's own x is the factor on the x axis.
    #[serde(rename = "with", skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Expression>,
    /// A term that is added to the curve for effects outside the formula, such as the propagation delay beside
    /// a time in a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plus: Option<Expression>,
    /// The legend, instead of the curve's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The lines that it belongs to. If not given, all.
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
        OneOrMany::deserialize(deserializer).map(|theories| Self(theories.0))
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
        struct TheoryTable {
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
        struct TheoryVisitor;
        impl<'de> de::Visitor<'de> for TheoryVisitor {
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
                let full = TheoryTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let TheoryTable { curve, with: parameters, plus, label, at } = full;
                Ok(TheorySpec { curve, parameters, plus, label, at })
            }
        }
        deserializer.deserialize_any(TheoryVisitor)
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
    /// Whether it shows single runs over time.
    pub fn is_trace(&self) -> bool {
        self.x == TIME
    }

    /// Whether it shows the pictures of a video in single runs.
    pub fn is_watched(&self) -> bool {
        self.x == PICTURE
    }

    /// Whether it shows single runs instead of responses.
    pub fn is_of_runs(&self) -> bool {
        self.is_trace() || self.is_watched()
    }

    /// The unit of its picture measure.
    pub(super) fn unit_of_pictures(&self) -> &'static str {
        let wanted = |(name, _): &&(&str, &str)| self.y.contains(name);
        LIKENESS.iter().find(wanted).map_or("1", |(_, unit)| unit)
    }

    /// Whether it shows the levels of a factor separately.
    pub(crate) fn distinguishes(&self, factor: &str) -> bool {
        let named = [&self.series, &self.panels, &self.rows];
        self.x == factor || named.iter().any(|names| names.contains(factor))
    }
}
