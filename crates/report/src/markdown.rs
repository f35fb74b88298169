//! The report as Markdown.

use netrig_experiment::ClaimResult;

use crate::Report;
use crate::grid::{Grid, padded};
use crate::number::{Estimate, Unit, p_value, percent};
use crate::sheet::{Sheet, replications, sign, tally, words};

pub(crate) fn text(report: &Report<'_>) -> String {
    let results = report.results;
    let mut out = format!("# {}\n\n", escaped(&results.experiment));
    if !report.experiment.question.is_empty() {
        out += &format!("{}\n\n", escaped(&report.experiment.question));
    }
    if !results.claims.is_empty() {
        out += &format!("## Verdicts\n\n{}.\n\n", tally(report));
        out += &aligned(&claims(&results.claims));
    }
    for result in &results.tables {
        out += &format!("\n## {} ({})\n\n", escaped(&result.title), result.substrate);
        out += &aligned(&Grid::of_table(report, result));
    }
    let sheet = Sheet::new(report);
    out += "\n## Responses\n\n";
    if !sheet.constants.is_empty() {
        let constants: Vec<String> =
            sheet.constants.iter().map(|(name, level)| format!("{name} = {level}")).collect();
        out += &format!("At all points: {}.\n\n", escaped(&constants.join(", ")));
    }
    out += &aligned(&Grid::of_points(report, &sheet));
    out += "\n## What was measured\n\n";
    for (name, spec) in &report.experiment.design.responses {
        let definition =
            format!("{} of {}, {}. {}", spec.metric, spec.of, unit_words(spec.unit()), spec.definition());
        out += &format!("* **{}**: {}\n", escaped(&words(name)), escaped(&definition));
    }
    let counts =
        results.points.iter().flat_map(|point| point.responses.values()).map(|r| r.n).filter(|n| *n > 0);
    let n = replications(counts).unwrap_or_else(|| "nothing measured".into());
    out + &format!("\n{} intervals, {n}; netrig {}.\n", percent(results.confidence), escaped(&results.build))
}

fn unit_words(unit: &str) -> String {
    if unit == "1" { "a pure number".to_owned() } else { format!("in {unit}") }
}

fn claims(claims: &[ClaimResult]) -> Grid {
    let several = claims.iter().any(|claim| claim.substrate != claims[0].substrate);
    let on = several.then(|| "substrate".to_owned());
    let headings = ["verdict", "claim"].map(str::to_owned).into_iter().chain(on);
    let rows = claims.iter().map(|claim| {
        let verdict = format!("{} {}", sign(claim.verdict), claim.verdict.name());
        let on = several.then(|| claim.substrate.clone());
        let p = claim.p_holm.map_or(String::new(), p_value);
        [verdict, claim.says.clone()].into_iter().chain(on).chain([p, estimates(claim)]).collect()
    });
    let keys = if several { 3 } else { 2 };
    Grid {
        keys,
        beside: Vec::new(),
        headings: headings.chain(["adjusted p", "estimates"].map(str::to_owned)).collect(),
        rows: rows.collect(),
    }
}

/// The estimates that decided a claim: the one, or how far they range.
fn estimates(claim: &ClaimResult) -> String {
    let unit = Unit::fitting(&claim.unit, claim.points.iter().map(|point| point.estimate));
    let mut estimates: Vec<Estimate> = claim.points.iter().filter_map(Estimate::of_claim).collect();
    estimates.sort_by(|a, b| a.value.total_cmp(&b.value));
    let written = |estimate: &Estimate| estimate.written(&unit);
    match &estimates[..] {
        [] => String::new(),
        [only] => unit.behind(&written(only).to_string()),
        [first, .., last] => unit.behind(&format!("{} to {}", written(first).value, written(last).value)),
    }
}

/// A table whose columns are aligned in the text too.
fn aligned(grid: &Grid) -> String {
    let rows: Vec<Vec<String>> =
        grid.rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let headings = grid.headings.iter().map(|heading| escaped(heading)).collect();
    let grid = Grid { keys: grid.keys, beside: Vec::new(), headings, rows };
    let columns = 0..grid.headings.len();
    let widths: Vec<usize> = columns.map(|n| grid.width(n).max(3)).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().enumerate().map(|(n, cell)| padded(cell, widths[n], n >= grid.keys));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(n, width)| match n >= grid.keys {
        true => "-".repeat(width + 1) + ":",
        false => ":".to_owned() + &"-".repeat(width + 1),
    });
    let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    line(&grid.headings) + &rule + &grid.rows.iter().map(|row| line(row)).collect::<String>()
}

/// `text` without anything that Markdown or HTML would take for markup, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => out.extend(['\\', c]),
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
