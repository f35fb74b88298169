//! Texts for names, levels, counts and verdicts. They are the same in every format of the report.

use netrig_core::number;
use netrig_core::text::words;
use netrig_experiment::{ClaimVerdict, Legend, Level, LevelValue, Point};

use crate::{Picture, Report};

/// The numbers of replications in `counts`, such as `n = 5` or `n = 3 to 10`. `None` if `counts` is empty.
pub(crate) fn replications(counts: impl IntoIterator<Item = u32>) -> Option<String> {
    let extremes = counts.into_iter().fold(None, |seen: Option<(u32, u32)>, n| match seen {
        Some((low, high)) => Some((low.min(n), high.max(n))),
        None => Some((n, n)),
    });
    extremes
        .map(|(low, high)| if low == high { format!("n = {low}") } else { format!("n = {low} to {high}") })
}

/// A level. The factor's name is added if the level alone is not clear: `tcp`, but `down for 5 s`, `shape 1.5` and
/// `sack: true`.
pub(crate) fn level_in_words(factor: &str, level: &Level) -> String {
    match level.looks_like() {
        LevelValue::Switch(_) => format!("{}: {level}", words(factor)),
        LevelValue::Integer(_) | LevelValue::Amount(_) => format!("{} {level}", words(factor)),
        LevelValue::Text => level.to_string(),
    }
}

/// Levels with their factors: `tcp, down for 5 s`.
pub(crate) fn levels_in_words(point: &Point) -> String {
    let levels = point.levels().iter().map(|(factor, level)| level_in_words(factor, level));
    levels.collect::<Vec<_>>().join(", ")
}

/// The name of a line in a figure, such as `goodput, tcp, down for 5 s (sim), web over primary`.
pub(crate) fn legend_in_words(legend: &Legend) -> String {
    let Legend { response, levels, substrate, member, path } = legend;
    // A factor of the point may already name the response.
    let is_stated = |name: &&String| levels.first().is_some_and(|(_, level)| level.text() == name.as_str());
    let response = response.as_ref().filter(|name| !is_stated(name)).map(|name| words(name));
    let levels = levels.iter().map(|(factor, level)| level_in_words(factor, level));
    let line = response.into_iter().chain(levels).collect::<Vec<_>>().join(", ");
    let substrate = substrate.as_ref().map_or_else(String::new, |substrate| format!(" ({substrate})"));
    let part: Vec<&str> = member.iter().chain(path).map(String::as_str).collect();
    let part = if part.is_empty() { String::new() } else { format!(", {}", part.join(" over ")) };
    line + &substrate + &part
}

impl Picture {
    /// The title of the picture.
    pub fn title(&self) -> String {
        self.legend.as_ref().map_or_else(|| "as it was sent".to_owned(), legend_in_words)
    }
}

/// `text` with a capital letter at its start and a full stop at its end. An empty text stays empty.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

/// The symbol of a verdict, so that the verdict is clear without colour.
pub(crate) const fn sign(verdict: ClaimVerdict) -> &'static str {
    match verdict {
        ClaimVerdict::Supported => "✓",
        ClaimVerdict::Refuted => "✗",
        ClaimVerdict::Inconclusive => "?",
        ClaimVerdict::NotTested => "–",
    }
}

/// The number of claims for each verdict. Verdicts without claims are omitted.
pub(crate) fn counts(report: &Report<'_>) -> impl Iterator<Item = (usize, ClaimVerdict)> {
    let all =
        [ClaimVerdict::Supported, ClaimVerdict::Refuted, ClaimVerdict::Inconclusive, ClaimVerdict::NotTested];
    let count = |verdict| report.results.claims.iter().filter(|claim| claim.verdict == verdict).count();
    all.into_iter().map(move |verdict| (count(verdict), verdict)).filter(|(count, _)| *count > 0)
}

/// The verdicts in words, such as `8 claims: 7 supported, 1 refuted`. Empty without claims.
pub(crate) fn tally(report: &Report<'_>) -> String {
    let named: Vec<String> =
        counts(report).map(|(count, verdict)| format!("{count} {}", verdict.name())).collect();
    if named.is_empty() {
        return String::new();
    }
    format!("{}: {}", counted(report.results.claims.len(), "claim"), named.join(", "))
}

/// `1 claim`, `3 claims`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    number::counted(count as u64, what, &format!("{what}s"))
}

/// A unit for use within a sentence.
pub(crate) fn unit_words(unit: &str) -> String {
    if unit == "1" { "a pure number".to_owned() } else { format!("in {unit}") }
}
