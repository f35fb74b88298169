//! Factors, their levels, and the blocks of `[[points]]` that list combinations.

use std::collections::BTreeMap;

use super::diagnostic::Diagnostic;
use super::document::{Kind, Table, Value};
use super::error::found;
use super::placeholder;
use crate::{Amount, Factor, Level};

/// The most factors of an experiment. Each point stores a level of every factor.
const MAX_FACTORS: usize = 100;

/// The most levels of one factor, which is also the most points of a plan.
const MAX_LEVELS: usize = 1_000_000;

/// The only key of a block of points that is not the name of a factor.
const LABEL: &str = "label";

/// A factor with its levels, each as a [`Level`] and as a value of the file.
#[derive(Clone, Debug)]
pub(crate) struct FactorValues {
    pub(crate) name: String,
    pub(crate) levels: Vec<(Level, Value)>,
}

pub(super) fn factor(factor: &FactorValues) -> Factor {
    Factor {
        name: factor.name.clone(),
        levels: factor.levels.iter().map(|(level, _)| level.clone()).collect(),
    }
}

/// One `[[points]]` block: the levels of the factors that it names. A factor that is not named has all its levels.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The label that is shown with its points.
    pub(crate) label: Option<String>,
    /// The indices of the levels, by the index of the factor.
    pub(crate) levels: BTreeMap<usize, Vec<usize>>,
}

/// The canonical form of a text: a number and its unit with one space between them. The digits do not change.
pub(crate) fn canonical(text: &str) -> String {
    let text = text.trim();
    let quantity = netrig_core::units::split_quantity(text)
        .filter(|(_, unit)| !unit.is_empty() && text.parse::<Amount>().is_ok());
    quantity.map_or_else(|| text.to_owned(), |(number, unit)| format!("{number} {unit}"))
}

impl Level {
    /// The level for a text, a number or a truth value of the file.
    pub(crate) fn of(value: &Value) -> Self {
        match &value.kind {
            Kind::Text(text) => Self::of_text(&canonical(text)),
            _ => Self::new(&placeholder::written(value)),
        }
    }
}

impl FactorValues {
    /// The index of the level that means the same as `level`.
    pub(crate) fn position(&self, level: &Level) -> Option<usize> {
        self.levels.iter().position(|(own, _)| own.means(level))
    }

    fn level_texts(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().map(|(level, _)| level.text())
    }
}

/// The level for a value. The error is the reason why the value cannot be a level.
fn level(value: &Value) -> Result<Level, Box<Diagnostic>> {
    let refuse = |why: &str| Diagnostic::error(value.span.clone(), why);
    Err(Box::new(match &value.kind {
        Kind::Text(text) if text.contains("${") => refuse("a level cannot refer to a factor")
            .note("levels are what `${…}` is replaced by, once; a chain or a circle of factors is refused"),
        Kind::Text(text) if text.trim().is_empty() => refuse("a level cannot be empty"),
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(_) | Kind::Switch(_) => return Ok(Level::of(value)),
        Kind::Array(_) | Kind::Table(_) => refuse(&format!(
            "expected a text, a number, `true` or `false` as a level, found {}",
            found(&value.kind)
        )),
    }))
}

/// Whether a name is valid between `${` and `}` and before the `=` of `--set`.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Reads `[factors]`.
pub(crate) fn factors(section: &Value, problems: &mut Vec<Diagnostic>) -> Vec<FactorValues> {
    let Some(table) = section.table() else {
        problems.push(Diagnostic::error(
            section.span.clone(),
            format!("expected a table of factors, found {}", found(&section.kind)),
        ));
        return Vec::new();
    };
    if table.entries.len() > MAX_FACTORS {
        let message = format!("{} factors; at most {MAX_FACTORS} can be handled", table.entries.len());
        problems.push(Diagnostic::error(section.span.clone(), message));
        return Vec::new();
    }
    table.entries.iter().map(|entry| {
        if !is_name(&entry.key) || entry.key == LABEL {
            problems.push(
                Diagnostic::error(entry.key_span.clone(), format!("`{}` cannot name a factor", entry.key))
                    .expected("a letter, then letters, digits, `_` and `-`; not `label`, which names blocks of points"),
            );
        }
        FactorValues { name: entry.key.clone(), levels: levels(&entry.value, problems) }
    }).collect()
}

fn levels(value: &Value, problems: &mut Vec<Diagnostic>) -> Vec<(Level, Value)> {
    let elements = value.elements();
    if elements.is_empty() || elements.len() > MAX_LEVELS {
        let message = match elements.len() {
            0 => "a factor needs at least one level".to_owned(),
            n => format!("{n} levels; at most {MAX_LEVELS} can be handled"),
        };
        problems.push(Diagnostic::error(value.span.clone(), message));
        return Vec::new();
    }
    let mut levels: Vec<(Level, Value)> = Vec::with_capacity(elements.len());
    let mut seen: BTreeMap<LevelKey, Vec<usize>> = BTreeMap::new();
    for element in elements {
        match level(element) {
            Err(problem) => problems.push(*problem),
            Ok(level) => {
                let alike = seen.entry(LevelKey::of(&level)).or_default();
                match alike.iter().find(|place| levels[**place].0.means(&level)) {
                    Some(first) => problems.push(
                        Diagnostic::error(
                            element.span.clone(),
                            format!("the level `{level}` is listed twice"),
                        )
                        .note_at(levels[*first].1.span.clone(), "first here"),
                    ),
                    None => {
                        alike.push(levels.len());
                        levels.push((level, element.clone()));
                    }
                }
            }
        }
    }
    levels
}

/// A key that equivalent levels share, such as nearly equal amounts, and texts that look like these amounts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum LevelKey {
    Amount(String, Option<&'static str>),
    Text(String),
}

impl LevelKey {
    fn of(level: &Level) -> Self {
        let Some(amount) = level.looks_like().amount() else { return Self::Text(level.to_string()) };
        // All units of a kind are converted to one, so that 500 ms and 0.5 s have the same key.
        let base = ["s", "bit", "bit/s", "1", "1/s"];
        let kind = amount.unit().and_then(|_| base.into_iter().find(|unit| amount.in_unit(unit).is_ok()));
        Self::Amount(format!("{:.12e}", amount.base()), kind)
    }
}

/// Reads the `[[points]]` blocks.
pub(crate) fn blocks(
    section: &Value,
    factors: &[FactorValues],
    problems: &mut Vec<Diagnostic>,
) -> Vec<Block> {
    section
        .elements()
        .iter()
        .filter_map(|block| match block.table() {
            Some(table) => Some(self::block(table, factors, problems)),
            None => {
                let message = format!("expected a block `[[points]]`, found {}", found(&block.kind));
                problems.push(Diagnostic::error(block.span.clone(), message));
                None
            }
        })
        .collect()
}

fn block(table: &Table, factors: &[FactorValues], problems: &mut Vec<Diagnostic>) -> Block {
    let mut block = Block { label: None, levels: BTreeMap::new() };
    for entry in &table.entries {
        if entry.key == LABEL {
            match entry.value.text() {
                Some(text) => block.label = Some(text.to_owned()),
                None => problems.push(Diagnostic::error(
                    entry.value.span.clone(),
                    format!("expected a text in quotes, found {}", found(&entry.value.kind)),
                )),
            }
            continue;
        }
        let Some(place) = factors.iter().position(|factor| factor.name == entry.key) else {
            let known = factors.iter().map(|factor| factor.name.as_str());
            problems.push(
                Diagnostic::error(entry.key_span.clone(), format!("unknown factor `{}`", entry.key))
                    .among(&entry.key, known),
            );
            continue;
        };
        let factor = &factors[place];
        let mut places = Vec::new();
        for element in entry.value.elements() {
            match level(element) {
                Err(problem) => problems.push(*problem),
                Ok(level) => match factor.position(&level) {
                    Some(place) if !places.contains(&place) => places.push(place),
                    Some(_) => {}
                    None => problems.push(
                        Diagnostic::error(
                            element.span.clone(),
                            format!("`{}` has no level `{level}` in [factors]", entry.key),
                        )
                        .among(level.text(), factor.level_texts()),
                    ),
                },
            }
        }
        if places.is_empty() && entry.value.elements().is_empty() {
            problems.push(Diagnostic::error(entry.value.span.clone(), "at least one level is needed"));
        }
        block.levels.insert(place, places);
    }
    block
}
