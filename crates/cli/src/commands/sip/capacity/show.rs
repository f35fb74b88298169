//! A search as people and programs read it.

use std::fmt::Write as _;

use netrig_agent::sip::load::Offered;
use netrig_runner::capacity::{Baseline, Journal, Record, Rfc7502Form, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::{Capacity, ModeName};
use super::settings::unit;
use crate::commands::sip::subject::work;
use crate::failure::Failure;

/// The version of the document: another when something in it is left out, or means something else.
pub const FORMAT: u32 = 1;

/// A step, in a line.
pub fn step(record: &Record) -> String {
    let Record { purpose, rate, counts, span_s, decision, repeat, .. } = record;
    let again = if record.again { ", again" } else { "" };
    let mostly = record.failed_mostly.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!(
        "{repeat}. {rate:>9.1}/s for {span_s:>5.1} s ({purpose}{again}): {} of {} succeeded, {} failed{mostly}; {decision}",
        counts.succeeded, counts.begun, counts.failed
    )
}

/// All that was found.
pub fn table(
    typed: &Capacity,
    journal: &Journal,
    baseline: Option<&Baseline>,
    verdict: Option<&Verdict>,
) -> String {
    let unit = unit(work(&typed.subject));
    let mut text = String::new();
    let sentence = verdict.map_or_else(|| "interrupted".to_owned(), |verdict| verdict.sentence(unit));
    let _ = writeln!(text, "{}: {sentence}", typed.subject.target);
    let statistic = typed.subject.judge.statistic.words();
    let success = typed.subject.judge.success;
    if typed.search.mode == ModeName::Sequential {
        let _ = writeln!(
            text,
            "  a rate passes if {success} succeed, and {statistic} of every delay is within its threshold"
        );
    }
    if let Some(baseline) = baseline {
        let _ = writeln!(text, "  {}", baseline.sentence(unit));
    }
    let weak = journal.by_share();
    if weak > 0 {
        let _ = writeln!(text, "  {weak} steps were decided by less evidence than was asked for");
    }
    let _ = writeln!(text, "  {} steps, {} {unit}", journal.steps().count(), journal.calls());
    for record in journal.steps() {
        let _ = writeln!(text, "  {}", step(record));
    }
    if typed.search.mode == ModeName::Rfc7502 {
        let _ = write!(text, "\n{}", form(typed, journal, baseline, verdict));
    }
    text
}

/// The report that RFC 7502 asks for.
fn form(
    typed: &Capacity,
    journal: &Journal,
    baseline: Option<&Baseline>,
    verdict: Option<&Verdict>,
) -> Rfc7502Form {
    let subject = &typed.subject;
    let measured = verdict.map(Rfc7502Form::measured);
    let is_registration = !matches!(work(subject), netrig_sip::load::Work::Call(_));
    let transport = subject.target.split(':').next().unwrap_or_default().to_uppercase();
    Rfc7502Form {
        transport: Some(transport),
        session_duration_s: (!is_registration).then(|| subject.call.hold.mean().as_secs_f64()),
        media_streams: Some(0),
        baseline_rate: baseline.and_then(|baseline| baseline.carried),
        session_establishment_rate: measured.clone().filter(|_| !is_registration),
        registration_rate: measured.filter(|_| is_registration),
        is_media_relay: Some(false),
        ..Rfc7502Form::of(journal)
    }
}

/// What a search for a capacity has found.
#[derive(Serialize, JsonSchema)]
pub struct Document<'a> {
    /// The version of the document.
    format: u32,
    /// What was tested, as it was typed.
    target: &'a str,
    /// What is counted: `calls`, `registrations`, `redirects`, `requests`, `subscriptions`.
    unit: &'static str,
    /// What was offered, but for the rate.
    offered: Offered,
    /// Per second, if it is a number.
    capacity: Option<f64>,
    /// What was found, in a sentence.
    sentence: String,
    /// The same for programs; nothing if it was interrupted.
    verdict: Option<&'a Verdict>,
    /// What the tester carries against itself.
    baseline: Option<&'a Baseline>,
    /// The report of RFC 7502, if its algorithm was asked for.
    rfc7502: Option<Rfc7502Form>,
    /// All steps.
    journal: &'a Journal,
}

/// One JSON document.
pub fn document(
    typed: &Capacity,
    offered: Offered,
    journal: &Journal,
    baseline: Option<&Baseline>,
    verdict: Option<&Verdict>,
) -> Result<String, Failure> {
    let unit = unit(work(&typed.subject));
    let document = Document {
        format: FORMAT,
        target: &typed.subject.target,
        unit,
        offered,
        capacity: verdict.and_then(Verdict::rate),
        sentence: verdict.map_or_else(|| "interrupted".to_owned(), |verdict| verdict.sentence(unit)),
        verdict,
        baseline,
        rfc7502: (typed.search.mode == ModeName::Rfc7502).then(|| form(typed, journal, baseline, verdict)),
        journal,
    };
    serde_json::to_string_pretty(&document).map_err(Failure::failed)
}
