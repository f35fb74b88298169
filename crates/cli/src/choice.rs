//! Arguments with a few words as values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A word, its help, and the value that it stands for.
pub type Choice<T> = (&'static str, &'static str, T);

/// Reads one of these words.
pub fn choice<T: Clone + Send + Sync>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let words = choices.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(words).try_map(|typed| {
        let chosen = choices.iter().find(|(word, ..)| *word == typed);
        chosen.map(|(.., value)| value.clone()).ok_or("unknown")
    })
}
