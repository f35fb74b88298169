//! The comparison of two runs of `netrig sip conform` as text.

use std::fmt::Write as _;

use crate::conformance::{ConformanceComparison, PurposeVerdict, VerdictChange};
use netrig_core::text::wrapped;

/// A comparison of conformance as text of at most `width` columns, the result first.
pub fn text(comparison: &ConformanceComparison, width: usize) -> String {
    let ConformanceComparison { purposes, unchanged, newly_failed, mended, changed, .. } = comparison;
    let answer = match newly_failed.len() {
        0 => "no rule is newly broken".to_owned(),
        1 => "WORSE: 1 rule is newly broken".to_owned(),
        n => format!("WORSE: {n} rules are newly broken"),
    };
    // Writing to a string does not fail.
    let mut text = format!("{answer}\nbefore: {}\nnow:    {}\n", comparison.before, comparison.now);
    let _ = writeln!(text, "{unchanged} of {purposes} test purposes have the same verdict");
    for (title, changes) in [("FAIL now", newly_failed), ("mended", mended), ("changed", changed)] {
        if !changes.is_empty() {
            let _ = writeln!(text, "\n{title}");
        }
        for change in changes {
            text += &row(change, width);
        }
    }
    if !comparison.of_one_only.is_empty() {
        let ids = comparison.of_one_only.join(", ");
        let _ = writeln!(text, "\nin one of the two only\n{}", wrapped(&format!("  {ids}"), width, 2));
    }
    text
}

fn row(change: &VerdictChange, width: usize) -> String {
    let VerdictChange { id, section, requirement, before, now, seen_before, seen_now } = change;
    let word = |verdict: &Option<PurposeVerdict>| verdict.map_or("not tested", PurposeVerdict::name);
    let mut text = format!("  {id:<15} {} -> {}  {section}\n", word(before), word(now));
    let mut line = |line: &str| {
        let _ = writeln!(text, "{}", wrapped(&format!("    {line}"), width, 4));
    };
    line(requirement);
    for (when, seen) in [("Before", seen_before), ("Now", seen_now)] {
        if !seen.is_empty() {
            line(&format!("{when}: {seen}."));
        }
    }
    text
}
