//! Levels from the command line: `--set down_for=5s,10s,transport=tcp`.

use super::diagnostic::{Diagnostics, closest, list};
use super::document::{self, Kind, Value};
use super::factors::{Block, FactorValues, canonical};
use super::placeholder;
use crate::{Level, LevelValue};

/// Other levels for one factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The factor's name.
    pub factor: String,
    /// Its levels as given.
    pub levels: Vec<String>,
}

/// The reason why levels cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The text is not `factor=level,level,factor=level`.
    #[error("`{text}` is not of the form factor=level,level,factor=level: {why}")]
    Form {
        /// The text.
        text: String,
        /// The fault.
        why: String,
    },
    /// There is no factor with this name.
    #[error("unknown factor `{factor}`{hint}")]
    UnknownFactor {
        /// The name.
        factor: String,
        /// A suggestion, or the known factors.
        hint: String,
    },
    /// No `[[points]]` block lists this level.
    #[error("no [[points]] block of the file has {factor} = {level}")]
    NoPoints {
        /// The factor.
        factor: String,
        /// Its level.
        level: String,
    },
    /// The type of the level differs from the types of all levels of the factor in the file.
    #[error("`{level}` is {given}, but `{factor}` is {wanted}")]
    OtherType {
        /// The factor.
        factor: String,
        /// The given level.
        level: String,
        /// The type of the given level in words.
        given: String,
        /// The type of the factor's first level in words, and its levels in the file.
        wanted: String,
    },
    /// The file has faults with these levels.
    #[error("{0}")]
    Refused(#[from] Diagnostics),
}

impl Assignment {
    /// Parses the argument of `--set`. Commas separate the levels. A part with `=` starts the next factor. In double
    /// quotes, commas and equals signs belong to the level.
    ///
    /// # Errors
    ///
    /// [`SetError::Form`].
    pub fn parse(text: &str) -> Result<Vec<Self>, SetError> {
        let error = |why: &str| SetError::Form { text: text.to_owned(), why: why.to_owned() };
        let mut assignments: Vec<Self> = Vec::new();
        for piece in split_unquoted(text, ',') {
            let level = match split_unquoted(piece, '=').next() {
                Some(factor) if factor.len() < piece.len() => {
                    let level = &piece[factor.len() + 1..];
                    let factor = factor.trim();
                    if factor.is_empty() {
                        return Err(error("there is no factor before the `=`"));
                    }
                    if assignments.iter().any(|assignment| assignment.factor == factor) {
                        return Err(error(&format!("`{factor}` is set twice")));
                    }
                    assignments.push(Self { factor: factor.to_owned(), levels: Vec::new() });
                    level
                }
                _ => piece,
            };
            let Some(assignment) = assignments.last_mut() else {
                return Err(error("it does not start with factor="));
            };
            let level = unquoted(level.trim()).ok_or_else(|| error("a double quote is not closed"))?;
            if level.trim().is_empty() {
                return Err(error(&format!("a level of `{}` is empty", assignment.factor)));
            }
            assignment.levels.push(level.to_owned());
        }
        Ok(assignments)
    }

    /// Replaces the levels of the factor. `is_read` is the result of [`is_read`]: whether a key reads these levels.
    pub(crate) fn apply(
        &self,
        factors: &mut [FactorValues],
        blocks: &mut Vec<Block>,
        is_read: bool,
    ) -> Result<(), SetError> {
        let Some(place) = factors.iter().position(|factor| factor.name == self.factor) else {
            let known: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
            let hint = match (closest(&self.factor, &known), list(&known)) {
                (Some(meant), _) => format!("; did you mean `{meant}`?"),
                (None, Some(known)) => format!("; the experiment has {known}"),
                (None, None) => "; the experiment has none".to_owned(),
            };
            return Err(SetError::UnknownFactor { factor: self.factor.clone(), hint });
        };
        let factor = &mut factors[place];
        let mut levels: Vec<(Level, Value)> = Vec::new();
        // For each new level, its index in the file, which the blocks use.
        let mut origins = Vec::new();
        for text in &self.levels {
            let (level, value) = value(text, factor);
            if levels.iter().any(|(own, _)| own.means(&level)) {
                continue;
            }
            let origin = factor.position(&level);
            levels.push(match origin {
                Some(origin) => factor.levels[origin].clone(),
                None => {
                    check_type(&level, factor, is_read)?;
                    (level, value)
                }
            });
            origins.push(origin);
        }
        factor.levels = levels;
        self.keep(place, &origins, factors, blocks)
    }

    /// Keeps only the new levels in each block. Removes a block without remaining levels.
    fn keep(
        &self,
        place: usize,
        origins: &[Option<usize>],
        factors: &[FactorValues],
        blocks: &mut Vec<Block>,
    ) -> Result<(), SetError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let mut used = vec![false; origins.len()];
        blocks.retain_mut(|block| {
            let Some(named) = block.levels.get_mut(&place) else {
                used.fill(true);
                return true;
            };
            let kept =
                (0..origins.len()).filter(|n| origins[*n].is_some_and(|origin| named.contains(&origin)));
            *named = kept.collect();
            named.iter().for_each(|n| used[*n] = true);
            !named.is_empty()
        });
        match used.iter().position(|used| !used) {
            None => Ok(()),
            Some(n) => {
                let level = factors[place].levels[n].0.stored().into_owned();
                Err(SetError::NoPoints { factor: self.factor.clone(), level })
            }
        }
    }
}

/// Splits a text at separators outside double quotes.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c: char| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}

/// A level without surrounding double quotes. `None` if a quote is not closed.
fn unquoted(level: &str) -> Option<&str> {
    match level.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').filter(|inner| !inner.contains('"')),
        None => Some(level).filter(|level| level.matches('"').count() % 2 == 0),
    }
}

/// A level and its value. The value is a text if all levels of the factor in the file are texts. Otherwise it is the
/// value that this text would have in a file.
fn value(text: &str, factor: &FactorValues) -> (Level, Value) {
    let texts_only = factor.levels.iter().all(|(_, own)| matches!(own.kind, Kind::Text(_)));
    let scalar = document::parse_value(text)
        .filter(|kind| matches!(kind, Kind::Switch(_) | Kind::Integer(_) | Kind::Float(_)))
        .filter(|_| !texts_only);
    let kind = scalar.unwrap_or_else(|| Kind::Text(canonical(text)));
    // The span is empty because the value has no position in the file.
    let value = Value { span: 0..0, kind };
    (Level::of(&value), value)
}

/// Refuses a level if no level of the file has its type. On a command line, quotes do not mark a text. If a key reads
/// the levels, the key itself checks a word instead of a number (some keys accept words such as `unbounded`) and a
/// number with an unknown unit. If no key reads the levels, such a level is refused here. No key accepts a word instead
/// of a truth value, or a number that is not finite.
fn check_type(level: &Level, factor: &FactorValues, is_read: bool) -> Result<(), SetError> {
    let given = level.looks_like();
    let mut own = factor.levels.iter().map(|(own, _)| own.looks_like());
    let Some(first) = own.next() else { return Ok(()) };
    let is_number = matches!(first, LevelValue::Integer(_) | LevelValue::Amount(_));
    let is_left_to_key = given == LevelValue::Text && level.text().parse::<f64>().is_err();
    if is_left_to_key && is_read && is_number
        || first.has_type_of(given)
        || own.any(|own| own.has_type_of(given))
    {
        return Ok(());
    }
    let known: Vec<&str> = factor.levels.iter().map(|(own, _)| own.text()).collect();
    let wanted = format!("{}; the file has {}", first.type_in_words(), list(&known).unwrap_or_default());
    let (factor, level) = (factor.name.clone(), level.to_string());
    Err(SetError::OtherType { given: given.type_in_words(), factor, level, wanted })
}

/// Whether a key in `value` reads the levels of a factor. A table `where` does not count, because it only compares
/// levels.
pub(crate) fn is_read(value: &Value, factor: &str) -> bool {
    match &value.kind {
        Kind::Text(text) => placeholder::factors(text).any(|own| own == factor),
        Kind::Array(values) => values.iter().any(|value| is_read(value, factor)),
        Kind::Table(table) => table.entries.iter().any(|entry| {
            let compares = entry.key == "where" && entry.value.table().is_some();
            !compares && is_read(&entry.value, factor)
        }),
        Kind::Integer(_) | Kind::Float(_) | Kind::Switch(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<(String, Vec<String>)> {
        Assignment::parse(text).unwrap().into_iter().map(|a| (a.factor, a.levels)).collect()
    }

    fn of(factor: &str, levels: &[&str]) -> (String, Vec<String>) {
        (factor.to_owned(), levels.iter().map(|level| (*level).to_owned()).collect())
    }

    #[test]
    fn a_piece_with_an_equals_sign_starts_the_next_factor() {
        assert_eq!(parse("a=1"), [of("a", &["1"])]);
        assert_eq!(
            parse("down_for=5s,10 s,transport=tcp , shape=1.5"),
            [of("down_for", &["5s", "10 s"]), of("transport", &["tcp"]), of("shape", &["1.5"])]
        );
    }

    #[test]
    fn what_stands_in_quotes_belongs_to_a_level() {
        assert_eq!(parse("a=\"x, y=1\",z,b=\"1\""), [of("a", &["x, y=1", "z"]), of("b", &["1"])]);
    }

    #[test]
    fn what_is_no_assignment_is_refused() {
        for text in ["", "tcp", "=5", "a=", "a=1,,2", "a=1,a=2", ",a=1", "a=\"1", "a=\"1\"2\"", "a=\"\""] {
            assert!(matches!(Assignment::parse(text), Err(SetError::Form { .. })), "{text:?}");
        }
    }
}
