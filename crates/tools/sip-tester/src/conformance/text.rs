//! The report as text.

use std::fmt::Write as _;

use netrig_core::text::{AlignedTable, wrapped};

use super::report::by_observation;
use super::{
    BackgroundReport, ConformanceDocument, PurposeResult, PurposeRow, PurposeVerdict, RequirementLevel,
    TestPurpose,
};

/// Test purposes as text, with one or more lines for each.
pub fn purposes_text(purposes: &[&TestPurpose]) -> String {
    let mut text = String::new();
    let mut group = "";
    for purpose in purposes {
        if purpose.group != group {
            group = purpose.group;
            let _ = writeln!(text, "{}{group}", if text.is_empty() { "" } else { "\n" });
        }
        let basic = if purpose.is_basic { "  (basic-call)" } else { "" };
        let should = if purpose.level == RequirementLevel::Should { "  (SHOULD)" } else { "" };
        let _ = writeln!(text, "  {:<15} {}{basic}{should}", purpose.id, purpose.section);
        let _ = writeln!(text, "{}", indented(purpose.requirement, 80, 4));
    }
    text
}

impl PurposeResult {
    /// A line about a purpose that did not pass.
    pub fn text(&self, width: usize) -> Option<String> {
        let verdict = self.verdict.filter(|verdict| *verdict != PurposeVerdict::Pass)?;
        let line = format!("{:<7}{:<15} {}", verdict.name(), self.purpose.id, self.observation);
        Some(wrapped(&line, width, 23))
    }
}

impl ConformanceDocument {
    /// The document in lines of at most `width` characters.
    pub fn text(&self, width: usize) -> String {
        let Self { counts, role, .. } = self;
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}: {} as {}", self.answer(), self.subject(), role.name());
        let _ = writeln!(
            text,
            "{} of {} test purposes in {:.0} s: {} PASS, {} FAIL, {} INCONC",
            counts.run, counts.selected, self.took_s, counts.pass, counts.fail, counts.inconc
        );
        if let Some(load) = &self.background {
            text += &beside(load, width);
        }
        let headings = ["group", "selected", "run", "PASS", "FAIL", "INCONC"];
        let mut table = AlignedTable::aligned("lrrrrr", headings);
        for (name, counts) in self.groups() {
            table.row([name.to_string()].into_iter().chain(counts.cells().map(|count| count.to_string())));
        }
        table.write(&mut text);
        let mut failed = self.with_verdict(PurposeVerdict::Fail).peekable();
        if failed.peek().is_some() {
            text.push_str("\nFAIL\n");
        }
        for PurposeRow { id, section, requirement, observation, .. } in failed {
            let _ = writeln!(text, "  {id:<15} {section}");
            let _ = writeln!(text, "{}", indented(requirement, width, 4));
            let _ = writeln!(text, "{}", indented(&format!("Here {observation}."), width, 4));
        }
        let mut claims = self.false_claims().peekable();
        if claims.peek().is_some() {
            text.push_str("\nclaimed, and not shown\n");
        }
        for row in claims {
            let _ = writeln!(text, "{}", indented(&format!("{}: {}", row.name.name(), row.why), width, 2));
        }
        let inconclusive = self.with_verdict(PurposeVerdict::Inconclusive);
        text += &by_reason("INCONC", inconclusive, width);
        let left_out = self.purposes.iter().filter(|row| row.verdict.is_none());
        text += &by_reason("not tested", left_out, width);
        let _ = writeln!(text, "\nseed {}; the same seed makes the same identifiers", self.seed);
        text
    }
}

/// The text about the background load.
fn beside(load: &BackgroundReport, width: usize) -> String {
    let BackgroundReport { rate, what, begun, succeeded, failed, failures, faults } = load;
    let load =
        format!("beside a load of {rate}/s ({what}): {begun} begun, {succeeded} succeeded, {failed} failed");
    let faults = faults.iter().map(|fault| format!("warning: the load was not what was ordered: {fault}"));
    let failures = failures.iter().map(|failure| format!("  {failure}"));
    std::iter::once(load).chain(failures).chain(faults).map(|line| wrapped(&line, width, 2) + "\n").collect()
}

/// Purposes without a verdict, grouped by reason.
fn by_reason<'a>(title: &str, rows: impl Iterator<Item = &'a PurposeRow>, width: usize) -> String {
    let reasons = by_observation(rows);

    let mut text = if reasons.is_empty() { String::new() } else { format!("\n{title}\n") };
    for (reason, ids) in reasons {
        let _ = writeln!(text, "{}", indented(&ids.join(", "), width, 2));
        let _ = writeln!(text, "{}", indented(reason, width, 4));
    }
    text
}

fn indented(text: &str, width: usize, indent: usize) -> String {
    wrapped(&format!("{}{text}", " ".repeat(indent)), width, indent)
}
