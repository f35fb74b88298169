//! A comparison as text.

use std::fmt::Write as _;

use netrig_core::number::{percent, plain};

use super::{ComparedIndex, IndexVerdict, ResultComparison};
use netrig_core::number::micros;
use netrig_core::text::AlignedTable;

/// A comparison of loads or searches as text, the result first.
pub fn table(comparison: &ResultComparison) -> String {
    let mut text = String::new();
    let verdict = match (comparison.worse, &*comparison.open) {
        (true, _) => "WORSE".to_owned(),
        (false, []) => "nothing is worse".to_owned(),
        (false, open) => {
            format!("no verdict: more than twice as bad, and cannot be tested: {}", open.join("; "))
        }
    };
    let _ = writeln!(text, "{} and {}: {verdict}", comparison.before, comparison.now);
    let interval = format!("{} interval", percent(comparison.confidence));
    let mut table =
        AlignedTable::new(["index", "before", "now", "difference", &interval, "p", "p (Holm)", "", "by"]);
    for index in &comparison.indices {
        table.row(row(index));
    }
    table.write(&mut text);
    for note in &comparison.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn row(index: &ComparedIndex) -> [String; 9] {
    let value =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| with_unit(value, index.unit));
    let ends = match (index.low, index.high) {
        (Some(low), Some(high)) => {
            format!("{} to {}", with_unit(low, index.unit), with_unit(high, index.unit))
        }
        _ => "–".to_owned(),
    };
    let p = |p: Option<f64>| {
        p.map_or_else(|| "–".to_owned(), |p| if p < 1e-4 { "<0.0001".to_owned() } else { format!("{p:.4}") })
    };
    let verdict = match index.verdict {
        IndexVerdict::Worse => "WORSE",
        IndexVerdict::Better => "better",
        IndexVerdict::NoDifference => "no difference shown",
        IndexVerdict::NotTested => "not tested",
    };
    [
        index.name.clone(),
        value(index.before),
        value(index.now),
        value(index.difference),
        ends,
        p(index.p),
        p(index.p_holm),
        verdict.to_owned(),
        index.how.clone(),
    ]
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "us" => micros(value),
        "1" => percent(value),
        unit => format!("{} {unit}", plain(value)),
    }
}
