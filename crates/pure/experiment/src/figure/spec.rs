//! A figure in the form of an experiment file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::expression::Expression;
use crate::Of;
use crate::claim::selection::{Names, OneOrMany, Selection};

/// The name for the time of a run on the x axis.
pub const TIME: &str = "time";

/// The name for the pictures of a video on the x axis.
pub const PICTURE: &str = "picture";

/// Measures of the similarity between a shown picture and the sent one, each with its unit.
pub(super) const LIKENESS: [(&str, &str); 2] = [("ssim", "1"), ("psnr", "dB")];

/// A figure: a response over the levels of a factor, a traced quantity over the time of a run, or the quality
/// of a video after its transmission in a run.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// The caption. If not given, the figure's name.
    #[serde(default)]
    pub title: Option<String>,
    /// The factor on the x axis, or `time`, or `picture`.
    pub x: String,
    /// The response on the y axis, or several. Over `time`, the traced quantity, such as `cwnd`. Over
    /// `picture`, `ssim` or `psnr` of each shown picture against the sent one.
    pub y: Names,
    /// Over `time`, the traced subject. Over `picture`, the flow of video.
    #[serde(default)]
    pub of: Option<Of>,
    /// The factors whose combinations of levels are the lines of a panel.
    #[serde(default)]
    pub series: Names,
    /// The factors whose combinations of levels are the panels.
    #[serde(default)]
    pub panels: Names,
    /// The factors whose combinations of levels are the rows of a grid; `panels` are then its columns. Without
    /// rows, panels follow in the order of their levels, as many side by side as fit.
    #[serde(default)]
    pub rows: Names,
    /// The points of the figure.
    #[serde(default, rename = "where")]
    pub at: Selection,
    /// The group of the paper's values that are drawn beside the measured ones.
    #[serde(default)]
    pub paper: Option<String>,
    /// The theory, or theories, whose curves are drawn in the figure.
    #[serde(default)]
    pub theory: Theories,
    /// The logarithmic axes.
    #[serde(default)]
    pub log: Vec<Axis>,
    /// Text below the figure, in Markdown.
    #[serde(default)]
    pub note: Option<String>,
}

/// One of a figure's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// The horizontal axis.
    X,
    /// The vertical axis.
    Y,
}

/// The curve of a theory with its parameters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct TheorySpec {
    /// The curve's name: `mm1`.
    pub curve: String,
    /// Parameters: numbers, amounts, factors, or expressions of them. A parameter that is not named has its
    /// default. The curve's own x is the factor on the x axis.
    #[serde(default, rename = "with")]
    pub parameters: BTreeMap<String, Expression>,
    /// A term added for effects outside the formula, such as the propagation delay in addition to the queueing time.
    #[serde(default)]
    pub plus: Option<Expression>,
    /// The legend, instead of the curve's own.
    #[serde(default)]
    pub label: Option<String>,
    /// The lines to which the theory applies. If not given, all lines.
    #[serde(default, rename = "where")]
    pub at: Selection,
}

/// The theories of a figure: one, or a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Theories(pub Vec<TheorySpec>);

impl Theories {
    /// Whether the figure has no theory.
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
        struct TheoryVisitor;
        impl<'de> de::Visitor<'de> for TheoryVisitor {
            type Value = TheorySpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a curve's name such as `mm1`, or `{ curve = \"mm1\", with = { … } }`")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<TheorySpec, E> {
                Ok(TheorySpec { curve: name.to_owned(), ..TheorySpec::default() })
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TheorySpec, A::Error> {
                TheorySpec::deserialize(de::value::MapAccessDeserializer::new(map))
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
    /// Whether the figure shows single runs over time.
    pub fn is_trace(&self) -> bool {
        self.x == TIME
    }

    /// Whether the figure shows the pictures of a video in single runs.
    pub fn is_watched(&self) -> bool {
        self.x == PICTURE
    }

    /// Whether the figure shows single runs instead of responses.
    pub fn is_of_runs(&self) -> bool {
        self.is_trace() || self.is_watched()
    }

    /// The unit of the figure's measure of picture quality.
    pub(super) fn unit_of_pictures(&self) -> &'static str {
        let wanted = |(name, _): &&(&str, &str)| self.y.contains(name);
        LIKENESS.iter().find(wanted).map_or("1", |(_, unit)| unit)
    }

    /// Whether the figure shows the levels of a factor separately.
    pub(crate) fn distinguishes(&self, factor: &str) -> bool {
        let named = [&self.series, &self.panels, &self.rows];
        self.x == factor || named.iter().any(|names| names.contains(factor))
    }
}
