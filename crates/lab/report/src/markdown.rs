//! The report as Markdown.

use netrig_experiment::Agreement;

use crate::Report;
use crate::agreement::{AgreementNumbers, SubstratePair, accord_sign};
use crate::board::ClaimLine;
use crate::columns::PointColumns;
use crate::prose;
use crate::text_table::{TextTable, padded, shown};
use crate::warnings::ResultWarning;
use crate::wording::{replications, sign, tally, unit_words};
use netrig_core::number::percent;
use netrig_core::text::words;

pub(crate) fn text(report: &Report<'_>) -> String {
    let results = report.results;
    let mut out = format!("# {}\n\n", escaped(&results.experiment));
    if !report.experiment.question.is_empty() {
        out += &format!("{}\n\n", escaped(&report.experiment.question));
    }
    if !results.claims.is_empty() {
        out += &format!("## Verdicts\n\n{}.\n\n", tally(report));
        out += &aligned(&claims(report));
    }
    let warnings = ResultWarning::all(report);
    if !warnings.is_empty() {
        out += "\n## Warnings\n\n";
    }
    for warning in &warnings {
        out += &format!("* **{}**: {}\n", escaped(&warning.what), escaped(&warning.why));
        out.extend(warning.named_places().map(|place| format!("  * {}\n", escaped(&place))));
    }
    for result in &results.tables {
        out += &format!("\n## {} ({})\n\n", escaped(&result.title), result.substrate);
        out += &aligned(&TextTable::of_table(report, result));
        let spec = report.experiment.design.table(&result.id);
        if let Some(note) = spec.and_then(|spec| spec.note.as_ref()) {
            out += &format!("\n{}\n", escaped(&prose::plain(note)));
        }
    }
    let sheet = PointColumns::new(report);
    let pairs = SubstratePair::all(report);
    if !pairs.is_empty() {
        out += "\n## Agreement of substrates\n";
    }
    for pair in &pairs {
        out += &format!("\n{}.\n\n", escaped(&pair.tally(report).unwrap_or_else(|| pair.name())));
        out += &aligned(&agreement(report, pair, &sheet));
    }
    out += "\n## Responses\n\n";
    if !sheet.constants.is_empty() {
        let constants: Vec<String> =
            sheet.constants.iter().map(|(name, level)| format!("{name} = {level}")).collect();
        out += &format!("At all points: {}.\n\n", escaped(&constants.join(", ")));
    }
    out += &aligned(&TextTable::of_points(report, &sheet));
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

/// Every comparison of two substrates.
fn agreement(report: &Report<'_>, pair: &SubstratePair<'_>, sheet: &PointColumns<'_>) -> TextTable {
    let [first, second] = pair.of;
    let derived = [format!("{second} / {first}"), format!("{second} − {first}")];
    let headings = ["verdict", "response", "at", first, second].map(str::to_owned).into_iter();
    let row = |entry: &&Agreement| {
        let AgreementNumbers { response, means, ratio, difference, within } =
            AgreementNumbers::of(report, entry);
        let verdict = entry.asked.as_ref().map(|asked| asked.verdict);
        let verdict = verdict.map(|verdict| format!("{} {}", accord_sign(verdict), verdict.name()));
        let keys = [verdict.unwrap_or_default(), response, pair.place(entry, sheet)];
        keys.into_iter().chain(means).chain([ratio, difference, within]).map(Some).collect()
    };
    TextTable {
        keys: 3,
        beside: Vec::new(),
        headings: headings.chain(derived).chain(["within".to_owned()]).collect(),
        rows: pair.entries.iter().map(row).collect(),
    }
}

/// The overview of claims.
fn claims(report: &Report<'_>) -> TextTable {
    let lines = ClaimLine::all(report);
    let several = lines.iter().any(|line| line.substrate.is_some());
    let on = several.then(|| "substrate".to_owned());
    let rest = ["estimate", "claimed", "n", "adjusted p", "see"].map(str::to_owned);
    let headings = ["verdict", "claim"].map(str::to_owned).into_iter().chain(on).chain(rest);
    let row = |line: &ClaimLine<'_>| {
        let verdict = format!("{} {}", sign(line.claim.verdict), line.claim.verdict.name());
        let places = if line.places.is_empty() { String::new() } else { format!(" ({})", line.places) };
        let on = line.substrate.map(str::to_owned);
        let numbers = match &line.decided {
            Some(decided) => {
                let what =
                    if decided.what.is_empty() { String::new() } else { format!("{} = ", decided.what) };
                [what + &decided.estimate, decided.claimed.clone(), decided.point.n.to_string()]
            }
            None => [line.claim.why.clone(), String::new(), String::new()],
        };
        let p = line.p().unwrap_or_default();
        let keys = [verdict, line.claim.says.clone() + &places].into_iter().chain(on);
        keys.chain(numbers).chain([p, line.exhibit.name().to_owned()]).map(Some).collect()
    };
    TextTable {
        keys: if several { 3 } else { 2 },
        beside: Vec::new(),
        headings: headings.collect(),
        rows: lines.iter().map(row).collect(),
    }
}

/// A Markdown table whose columns are aligned in the source, too.
fn aligned(table: &TextTable) -> String {
    let cell = |cell: &Option<String>| Some(escaped(shown(cell)));
    let rows = table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let headings = table.headings.iter().map(|heading| escaped(heading)).collect();
    let table = TextTable { keys: table.keys, beside: Vec::new(), headings, rows };
    let columns = 0..table.headings.len();
    let widths: Vec<usize> = columns.map(|n| table.width(n).max(3)).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.enumerate().map(|(n, cell)| padded(cell, widths[n], n >= table.keys));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(n, width)| match n >= table.keys {
        true => "-".repeat(width + 1) + ":",
        false => ":".to_owned() + &"-".repeat(width + 1),
    });
    let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    let rows: String = table.rows.iter().map(|row| line(&mut row.iter().map(shown))).collect();
    line(&mut table.headings.iter().map(String::as_str)) + &rule + &rows
}

/// `text` on one line, with Markdown and HTML markup escaped.
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
