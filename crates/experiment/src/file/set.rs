//! Levels given on the command line: `--set down_for=5s,10s,transport=tcp`.

use super::diagnostic::{Diagnostics, closest, list};
use super::document::{Kind, Value};
use super::factors::{Block, FactorValues};
use crate::Level;

/// Other levels for one factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The factor's name.
    pub factor: String,
    /// Its levels as they were written.
    pub levels: Vec<String>,
}

/// Why levels cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The text is not `factor=level,level,factor=level`.
    #[error("`{text}` is not of the form factor=level,level,factor=level: {why}")]
    Form {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// No factor is called so.
    #[error("unknown factor `{factor}`{hint}")]
    UnknownFactor {
        /// The name.
        factor: String,
        /// Which it may have been, or which there are.
        hint: String,
    },
    /// A level that no `[[points]]` block lists.
    #[error("no [[points]] block of the file has {factor} = {level}")]
    NoPoints {
        /// The factor.
        factor: String,
        /// Its level.
        level: String,
    },
    /// With these levels something is wrong with the file.
    #[error("{0}")]
    Refused(#[from] Diagnostics),
}

impl Assignment {
    /// Reads the argument of `--set`: pieces between commas, of which one with `=` starts the next factor.
    ///
    /// # Errors
    /// [`SetError::Form`].
    pub fn parse(text: &str) -> Result<Vec<Self>, SetError> {
        let error = |why: &str| SetError::Form { text: text.to_owned(), why: why.to_owned() };
        let mut assignments: Vec<Self> = Vec::new();
        for piece in text.split(',') {
            let level = match piece.split_once('=') {
                Some((factor, level)) => {
                    let factor = factor.trim();
                    if factor.is_empty() {
                        return Err(error("no factor stands before the `=`"));
                    }
                    if assignments.iter().any(|assignment| assignment.factor == factor) {
                        return Err(error(&format!("`{factor}` is set twice")));
                    }
                    assignments.push(Self { factor: factor.to_owned(), levels: Vec::new() });
                    level
                }
                None => piece,
            };
            let Some(assignment) = assignments.last_mut() else {
                return Err(error("it does not start with factor="));
            };
            if level.trim().is_empty() {
                return Err(error(&format!("a level of `{}` is empty", assignment.factor)));
            }
            assignment.levels.push(level.trim().to_owned());
        }
        Ok(assignments)
    }

    /// Puts the levels in the place of those that the factor has.
    pub(crate) fn apply(
        &self,
        factors: &mut [FactorValues],
        blocks: &mut Vec<Block>,
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
        // Where the new levels were among the old ones, for the blocks that name those.
        let mut origins = Vec::new();
        for text in &self.levels {
            let level = Level::canonical(text);
            if levels.iter().any(|(own, _)| own.means(&level)) {
                continue;
            }
            let origin = factor.position(&level);
            levels.push(match origin {
                Some(origin) => factor.levels[origin].clone(),
                None => {
                    let value = value(&level, factor);
                    (level, value)
                }
            });
            origins.push(origin);
        }
        factor.levels = levels;
        self.keep(place, &origins, factors, blocks)
    }

    /// Keeps in each block the levels that were set; a block that loses all of them is gone.
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
                let level = factors[place].levels[n].0.0.clone();
                Err(SetError::NoPoints { factor: self.factor.clone(), level })
            }
        }
    }
}

/// The value of a level that the file does not have: of the type of the factor's own, or what it reads as.
fn value(level: &Level, factor: &FactorValues) -> Value {
    let text = level.0.as_str();
    let texts_only = factor.levels.iter().all(|(_, own)| matches!(own.kind, Kind::Text(_)));
    let kind = match (text.parse::<bool>(), text.parse::<i64>(), text.parse::<f64>()) {
        _ if texts_only => Kind::Text(text.to_owned()),
        (Ok(on), ..) => Kind::Switch(on),
        (_, Ok(number), _) => Kind::Integer(number),
        (.., Ok(number)) if number.is_finite() => Kind::Float(number),
        _ => Kind::Text(text.to_owned()),
    };
    // An empty span says that it stands nowhere in the file.
    Value { span: 0..0, kind }
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
    fn what_is_no_assignment_is_refused() {
        for text in ["", "tcp", "=5", "a=", "a=1,,2", "a=1,a=2", ",a=1"] {
            assert!(matches!(Assignment::parse(text), Err(SetError::Form { .. })), "{text:?}");
        }
    }
}
