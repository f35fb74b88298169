//! The report that `netrig run` prints at its end.

use netrig_experiment::{Agreement, AgreementVerdict, ClaimVerdict};

use crate::Report;
use crate::agreement::{AgreementNumbers, SubstratePair, accord_sign};
use crate::board::{ClaimExhibit, ClaimLine};
use crate::columns::PointColumns;
use crate::prose;
use crate::text_table::{TextTable, padded, shown};
use crate::warnings::ResultWarning;
use crate::wording::{replications, sign, tally};
use netrig_core::number::percent;
use netrig_core::text::{truncated, wrapped};

/// Largest number of points that are listed. Above it the derived tables are shown instead.
const MOST_POINTS: usize = 40;

/// Width of the verdict at the start of a sentence, and indentation of the lines below it, characters.
const INDENT: usize = 16;

pub(crate) fn text(report: &Report<'_>, width: usize) -> String {
    let width = width.max(40);
    let sheet = PointColumns::new(report);
    let mut out = heading(report, &sheet, width);
    let points = report.results.points.len();
    if points <= MOST_POINTS || report.results.tables.is_empty() {
        let mut table = TextTable::of_points(report, &sheet);
        table.rows.truncate(MOST_POINTS);
        out += &columns(&table, width);
        if points > MOST_POINTS {
            out += &format!("… and {} more points: see the report\n", points - MOST_POINTS);
        }
    } else {
        for (n, table) in report.results.tables.iter().enumerate() {
            let on =
                if sheet.substrates { format!(" on {}", printable(&table.substrate)) } else { String::new() };
            out += &format!(
                "{}{}\n",
                if n > 0 { "\n" } else { "" },
                wrapped(&format!("{}{on}", printable(&table.title)), width, 0)
            );
            out += &columns(&TextTable::of_table(report, table), width);
            let spec = report.experiment.design.table(&table.id);
            if let Some(note) = spec.and_then(|spec| spec.note.as_ref()) {
                out += &(wrapped(&printable(&prose::plain(note)), width, 0) + "\n");
            }
        }
    }
    out += &warnings(report, width);
    out += &agreement(report, &sheet, width);
    let lines = ClaimLine::all(report);
    if !lines.is_empty() {
        out += &format!("\n{}\n", tally(report));
        out.extend(lines.iter().map(|line| claim(line, width)));
    }
    out
}

fn heading(report: &Report<'_>, sheet: &PointColumns<'_>, width: usize) -> String {
    let results = report.results;
    let counts =
        results.points.iter().flat_map(|point| point.responses.values()).map(|r| r.n).filter(|n| *n > 0);
    let mut facts = vec![format!(
        "{} {}",
        results.points.len(),
        if results.points.len() == 1 { "point" } else { "points" }
    )];
    if let (false, Some(first)) = (sheet.substrates, results.points.first()) {
        facts[0] += &format!(" on {}", first.substrate);
    }
    facts.extend(replications(counts));
    facts.push(format!("± is half the {} interval", percent(results.confidence)));
    let quantiles = report.experiment.design.quantiles();
    facts.extend(quantiles.map(|definition| format!("quantiles are {definition}")));
    facts.extend(sheet.constants.iter().map(|(name, level)| printable(&format!("{name} = {level}"))));
    format!("{}\n{}\n\n", printable(&results.experiment), wrapped(&facts.join(", "), width, 0))
}

/// A table of at most `width` characters per line. Columns that do not fit follow in blocks below, with the key columns
/// repeated.
fn columns(table: &TextTable, width: usize) -> String {
    let widths: Vec<usize> = (0..table.headings.len()).map(|n| table.width(n)).collect();
    let keys = widths[..table.keys].iter().map(|w| w + 2).sum::<usize>();
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (n, wide) in widths.iter().enumerate().skip(table.keys) {
        // A column and the next column that belongs to it are kept together if the width allows it.
        let with = if table.beside.contains(&(n + 1)) { 2 + widths[n + 1] } else { 0 };
        match blocks.last_mut().filter(|_| used + 2 + wide + with <= width) {
            Some(block) => {
                block.push(n);
                used += 2 + wide;
            }
            None => {
                blocks.push(vec![n]);
                used = keys + wide;
            }
        }
    }
    let mut out = String::new();
    for (number, block) in blocks.iter().enumerate() {
        let chosen: Vec<usize> = (0..table.keys).chain(block.iter().copied()).collect();
        let line = |cells: &[&str]| {
            let cells = chosen.iter().map(|n| padded(&printable(cells[*n]), widths[*n], *n >= table.keys));
            truncated(cells.collect::<Vec<_>>().join("  ").trim_end(), width) + "\n"
        };
        out += if number > 0 { "\n" } else { "" };
        out += &line(&table.headings.iter().map(String::as_str).collect::<Vec<_>>());
        // In a further block, rows without values are omitted.
        let has_values =
            |row: &&Vec<Option<String>>| blocks.len() == 1 || block.iter().any(|n| row[*n].is_some());
        let row = |row: &Vec<Option<String>>| line(&row.iter().map(shown).collect::<Vec<_>>());
        out.extend(table.rows.iter().filter(has_values).map(row));
    }
    out
}

/// The warnings.
fn warnings(report: &Report<'_>, width: usize) -> String {
    let line = |warning: &ResultWarning| {
        let places: Vec<String> = warning.named_places().collect();
        let at = if places.is_empty() { String::new() } else { format!(" ({})", places.join("; ")) };
        let text = format!("warning: {}: {}{at}", warning.what, warning.why);
        format!("\n{}\n", wrapped(&printable(&text), width, 2))
    };
    ResultWarning::all(report).iter().map(line).collect()
}

/// The number of points that agree, and the points that differ or are inconclusive. Empty if the file sets no margins.
fn agreement(report: &Report<'_>, sheet: &PointColumns<'_>, width: usize) -> String {
    let mut out = String::new();
    for pair in SubstratePair::all(report) {
        let Some(tally) = pair.tally(report) else { continue };
        out += &format!("\n{}\n", wrapped(&printable(&tally), width, 2));
        let mut open = pair.open();
        let shown = open.by_ref().take(MOST_POINTS);
        out.extend(
            shown.map(|entry| disagreement(report, entry, &pair.place(entry, sheet), pair.of, width) + "\n"),
        );
        match open.count() {
            0 => {}
            more => out += &format!("… and {more} more: see the report\n"),
        }
    }
    out
}

/// `✗ differs       loss (%) at probe = udp: 12.3 on sim, 18.2 on netns, difference 5.9 ± 0.5 pp, ratio 1.48 ± 0.05, n = 5`.
fn disagreement(
    report: &Report<'_>,
    entry: &Agreement,
    place: &str,
    [first, second]: &[String; 2],
    width: usize,
) -> String {
    let AgreementNumbers { response, means, ratio, difference, .. } = AgreementNumbers::of(report, entry);
    let accord = entry.asked.as_ref().map_or(AgreementVerdict::Inconclusive, |asked| asked.verdict);
    let verdict = padded(&format!("{} {}", accord_sign(accord), accord.name()), INDENT, false);
    let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
    let numbers = format!(
        "{} on {first}, {} on {second}, difference {difference}, ratio {ratio}, n = {}",
        means[0], means[1], entry.pairs
    );
    wrapped(&printable(&format!("{verdict}{response}{at}: {numbers}")), width, INDENT)
}

/// `✓ supported sentence (p < 0.001)`. The lines below it show the deciding numbers, the points at which the claim
/// fails, and the figure or table that shows it. If the claim is not supported, the reason contains the numbers.
fn claim(line: &ClaimLine<'_>, width: usize) -> String {
    let claim = line.claim;
    let p = line.p().map_or(String::new(), |p| format!(" ({p})"));
    let on = line.substrate.map_or(String::new(), |substrate| format!("[{}] ", printable(substrate)));
    let verdict = padded(&format!("{} {}", sign(claim.verdict), claim.verdict.name()), INDENT, false);
    let mut out = wrapped(&format!("{verdict}{on}{}{p}", printable(&claim.says)), width, INDENT) + "\n";
    let supported = claim.verdict == ClaimVerdict::Supported;
    let mut said: Vec<String> = Vec::new();
    if !supported && !claim.why.is_empty() {
        said.push(claim.why.clone());
    }
    if let Some(decided) = &line.decided {
        if supported {
            let what = if decided.what.is_empty() { String::new() } else { format!("{} = ", decided.what) };
            said.push(format!("{what}{}, n = {}", decided.estimate, decided.point.n));
        }
        if !decided.claimed.is_empty() {
            said.push(format!("claimed: {}", decided.claimed));
        }
    }
    said.extend((!line.places.is_empty()).then(|| line.places.clone()));
    if line.exhibit != ClaimExhibit::Responses {
        said.push(format!("see {}", line.exhibit.name()));
    }
    let said = format!("{}{}", " ".repeat(INDENT), printable(&said.join("; ")));
    out += &(wrapped(&said, width, INDENT) + "\n");
    out
}

/// `text` without control characters, so that a name cannot move the cursor.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
