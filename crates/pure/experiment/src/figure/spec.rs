//! A figure as an experiment file writes it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use netrig_core::quantity;
use netrig_stats::theory;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::expression::Expression;
use crate::Of;
use crate::check::{SpecError, one_of, refuse};
use crate::claim::selection::{Names, Selection, unknown_factor};
use crate::judge::Design;
use crate::response::amount;

/// What stands for the time of a run on the x axis.
pub const TIME: &str = "time";

/// What stands for the pictures of a video on the x axis.
pub const PICTURE: &str = "picture";

/// What can be told of each picture of a video, with its unit: how like it is to the one that was sent.
const LIKENESS: [(&str, &str); 2] = [("ssim", "1"), ("psnr", "dB")];

/// The most levels of a factor of panels: more pictures nobody compares.
const MOST_PANELS: usize = 12;

/// The most columns of a grid: with more its panels are narrower than their labels.
const MOST_COLUMNS: usize = 6;

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

impl TheorySpec {
    /// Whether it takes what was measured, and so has a value only where something was.
    pub(super) fn names_a_response(&self, design: &Design) -> bool {
        let mut names = self.parameters.values().chain(&self.plus).flat_map(Expression::names);
        names.any(|name| design.factor(name).is_none() && design.response(name).is_some())
    }
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

    /// What is wrong with it, by field.
    pub fn check(&self, design: &Design) -> Vec<SpecError> {
        let mut errors = Vec::new();
        if self.y.is_empty() {
            refuse(&mut errors, "y", "a figure shows at least one response");
        }
        if self.is_trace() {
            self.check_trace(&mut errors)
        } else if self.is_watched() {
            self.check_watched(&mut errors)
        } else {
            self.check_responses(design, &mut errors)
        }
        self.check_shown(design, &mut errors);
        errors.extend(self.at.check("where", &design.factors));
        self.check_loose_factors(design, &mut errors);
        errors.extend(self.paper.as_ref().and_then(|group| design.check_paper("paper", group)));
        self.theory.0.iter().for_each(|spec| self.check_theory(spec, design, &mut errors));
        errors
    }

    /// Whether each factor has one place in the figure, and panels and rows are few enough to be compared.
    fn check_shown(&self, design: &Design, errors: &mut Vec<SpecError>) {
        let mut shown = vec![self.x.as_str()];
        for (field, names) in [("series", &self.series), ("panels", &self.panels), ("rows", &self.rows)] {
            for name in &names.0 {
                let Some(factor) = design.factor(name) else {
                    refuse(errors, field, unknown_factor(name, &design.factors));
                    continue;
                };
                if shown.contains(&name.as_str()) {
                    refuse(errors, field, format!("`{name}` is shown in another way already"));
                }
                shown.push(name);
                let levels = self.at.levels(factor).count();
                if field != "series" && levels > MOST_PANELS {
                    let why = format!(
                        "`{name}` has {levels} levels: more than {MOST_PANELS} panels cannot be compared; choose some \
                         with `where`"
                    );
                    refuse(errors, field, why);
                }
            }
        }
        let columns = self.keys(&self.panels.0, design).len();
        if !self.rows.is_empty() && (MOST_COLUMNS + 1..=MOST_PANELS).contains(&columns) {
            let why = format!(
                "{columns} columns: a grid has room for {MOST_COLUMNS}; what has more levels can be its `rows`"
            );
            refuse(errors, "panels", why);
        }
    }

    fn check_trace(&self, errors: &mut Vec<SpecError>) {
        let known: Vec<&str> = quantity::ALL.iter().map(|quantity| quantity.name).collect();
        for name in &self.y.0 {
            if !known.contains(&name.as_str()) {
                let what = format!("there is no quantity `{name}`");
                refuse(errors, "y", one_of(&what, name, &known));
            }
        }
        if self.of.is_none() {
            refuse(
                errors,
                "of",
                "a figure over `time` needs to know whose trace it shows: `flow.<name>` or `link.<name>`",
            );
        }
        if !self.theory.is_empty() {
            refuse(errors, "theory", "there are no curves over `time`");
        }
    }

    fn check_watched(&self, errors: &mut Vec<SpecError>) {
        let known = LIKENESS.map(|(name, _)| name);
        for name in self.y.0.iter().filter(|name| !known.contains(&name.as_str())) {
            refuse(errors, "y", one_of(&format!("a picture has no `{name}`"), name, &known));
        }
        if self.y.0.len() > 1 {
            refuse(errors, "y", "one axis cannot show both `ssim` and `psnr`");
        }
        if !matches!(self.of, Some(Of::Flow(_))) {
            refuse(errors, "of", "a figure over `picture` needs to know which video it shows: `flow.<name>`");
        }
        if !self.theory.is_empty() {
            refuse(errors, "theory", "there are no curves over `picture`");
        }
    }

    fn check_responses(&self, design: &Design, errors: &mut Vec<SpecError>) {
        match design.factor(&self.x) {
            Some(_) => {}
            None => refuse(errors, "x", unknown_factor(&self.x, &design.factors)),
        }
        for name in &self.y.0 {
            if design.response(name).is_none() {
                refuse(errors, "y", design.unknown_response(name));
            }
        }
        let units: Vec<String> = self.y.0.iter().map(|name| design.unit_of(name)).collect();
        if let Some(other) = units.iter().find(|unit| amount::factor(unit, &units[0]).is_err()) {
            refuse(errors, "y", format!("one axis cannot show both {} and {other}", units[0]));
        }
        if self.of.is_some() {
            refuse(errors, "of", "only a figure over `time` or `picture` is of a subject");
        }
    }

    /// Factors that would vary within one place of the figure although nobody said so.
    fn check_loose_factors(&self, design: &Design, errors: &mut Vec<SpecError>) {
        for factor in design.factors.iter().filter(|factor| !self.tells(&factor.name)) {
            let levels = self.at.levels(factor).count();
            if levels > 1 {
                let why = format!(
                    "factor `{}` has {levels} levels: name it in `series`, in `panels` or in `where`",
                    factor.name
                );
                refuse(errors, "x", why);
            }
        }
    }

    fn check_theory(&self, spec: &TheorySpec, design: &Design, errors: &mut Vec<SpecError>) {
        errors.extend(spec.at.check("theory.where", &design.factors));
        let Some(curve) = theory::curve(&spec.curve) else {
            let known: Vec<&str> = theory::curves().map(|curve| curve.name).collect();
            let what = format!("there is no curve `{}`", spec.curve);
            refuse(errors, "theory.curve", one_of(&what, &spec.curve, &known));
            return;
        };
        let known: Vec<&str> = curve.parameters.iter().map(|parameter| parameter.name).collect();
        for (name, expression) in &spec.parameters {
            let field = format!("theory.with.{name}");
            if !known.contains(&name.as_str()) {
                let what = format!("`{}` has no parameter `{name}`", curve.name);
                refuse(errors, field.clone(), one_of(&what, name, &known));
            }
            check_names(expression, &field, design, errors);
        }
        if let Some(plus) = &spec.plus {
            check_names(plus, "theory.plus", design, errors);
        }
        let own_x = curve.x().name;
        for parameter in curve.parameters.iter().filter(|p| p.default.is_none() && p.name != own_x) {
            if !spec.parameters.contains_key(parameter.name) {
                let why = format!(
                    "`{}` needs `{}`: {} ({})",
                    curve.name, parameter.name, parameter.doc, parameter.unit
                );
                refuse(errors, "theory.with", why);
            }
        }
        if let Some(unit) = self.y.0.first().map(|name| design.unit_of(name))
            && amount::factor(curve.unit, &unit).is_err()
        {
            refuse(errors, "theory", format!("`{}` is in {}, the y axis in {unit}", curve.name, curve.unit));
        }
    }
}

/// Whether what an expression names is a factor or a response.
fn check_names(expression: &Expression, field: &str, design: &Design, errors: &mut Vec<SpecError>) {
    for name in expression.names() {
        if design.factor(name).is_none() && design.response(name).is_none() {
            refuse(errors, field, unknown_factor(name, &design.factors));
        }
    }
}
