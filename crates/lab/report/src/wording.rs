//! Words for names, levels, numbers of things and verdicts: the same in every form of the report.

use netrig_experiment::{Amount, Level, Status, Verdict};

use crate::Report;

/// The n of all `counts`: `n = 5`, `n = 3 to 10`; nothing for none.
pub(crate) fn replications(counts: impl IntoIterator<Item = u32>) -> Option<String> {
    let extremes = counts.into_iter().fold(None, |seen: Option<(u32, u32)>, n| match seen {
        Some((low, high)) => Some((low.min(n), high.max(n))),
        None => Some((n, n)),
    });
    extremes
        .map(|(low, high)| if low == high { format!("n = {low}") } else { format!("n = {low} to {high}") })
}

/// A name of a file as words: `down_for` is "down for".
pub(crate) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// A level with as much of its factor as one needs to understand it: `tcp`, but `down for 5 s`, `shape 1.5` and
/// `sack: true`.
pub(crate) fn level_in_words(factor: &str, level: &Level) -> String {
    match level.text() {
        "true" | "false" => format!("{}: {level}", words(factor)),
        text if text.parse::<Amount>().is_ok() => format!("{} {text}", words(factor)),
        word => word.to_owned(),
    }
}

/// `text` with a capital at its start and a full stop at its end; nothing stays nothing.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

/// The word for how a point ended.
pub(crate) const fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Invalid => "invalid",
        Status::Unsupported => "unsupported",
    }
}

/// A sign for a verdict, so that nobody needs colour to tell them apart.
pub(crate) const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Supported => "✓",
        Verdict::Refuted => "✗",
        Verdict::Inconclusive => "?",
        Verdict::NotTested => "–",
    }
}

/// How many claims have which verdict; verdicts that no claim has are left out.
pub(crate) fn counts(report: &Report<'_>) -> impl Iterator<Item = (usize, Verdict)> {
    let all = [Verdict::Supported, Verdict::Refuted, Verdict::Inconclusive, Verdict::NotTested];
    let count = |verdict| report.results.claims.iter().filter(|claim| claim.verdict == verdict).count();
    all.into_iter().map(move |verdict| (count(verdict), verdict)).filter(|(count, _)| *count > 0)
}

/// The same in words: `8 claims: 7 supported, 1 refuted`; empty without claims.
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
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A unit within a sentence.
pub(crate) fn unit_words(unit: &str) -> String {
    if unit == "1" { "a pure number".to_owned() } else { format!("in {unit}") }
}
