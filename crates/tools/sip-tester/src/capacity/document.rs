//! The result of a search as text and as JSON.

use std::fmt::Write as _;

use super::{
    Baseline, CAPACITY_FORMAT, CapacityCause, CapacityVerdict, CauseFound, Mode, Rfc7502Form, SearchJournal,
    StepRecord, causes,
};
use crate::conformance::GateReport;
use netrig_core::number::counted;
use netrig_sip::load::Work;
use netrig_sip_net::load::Offered;
use netrig_sip_net::tap::KeptMessages;
use schemars::JsonSchema;
use serde::Serialize;

use super::order::CapacityOrder;

/// One line about a step.
pub fn step_text(record: &StepRecord) -> String {
    let StepRecord { purpose, rate, counts, span_s, decision, .. } = record;
    let again = if record.again { ", again" } else { "" };
    let mostly = record.failed_mostly.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!(
        "{rate:>9.1}/s for {span_s:>5.1} s ({purpose}{again}): {} of {} succeeded, {} failed{mostly}; {decision}",
        counts.succeeded, counts.begun, counts.failed
    )
}

/// The result of a search.
#[derive(Clone, Copy)]
pub struct SearchEnd<'a> {
    /// The conformance of the server before the search, if it was tested.
    pub gate: Option<&'a GateReport>,
    /// All steps.
    pub journal: &'a SearchJournal,
    /// Tester limit, if it was measured.
    pub baseline: Option<&'a Baseline>,
    /// `None` if the search was interrupted.
    pub verdict: Option<&'a CapacityVerdict>,
    /// Warnings about settings of the tester's host that may have impaired the search.
    pub notes: &'a [String],
    /// Messages that were kept.
    pub messages: Option<&'a KeptMessages>,
}

/// The whole result as text.
pub fn table(order: &CapacityOrder<'_>, end: SearchEnd<'_>, is_verbose: bool) -> String {
    let SearchEnd { gate, journal, baseline, verdict, notes, messages } = end;
    let unit = order.unit();
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}", order.target, sentence(journal, verdict, unit));
    for line in gate.into_iter().flat_map(GateReport::lines) {
        let _ = writeln!(text, "  {line}");
    }
    if let Some(details) = verdict.and_then(CapacityVerdict::details) {
        let _ = writeln!(text, "  {details}");
    }
    let CapacityOrder { statistic, success, .. } = order;
    let is_answered = !matches!(verdict, Some(CapacityVerdict::Unanswered { .. }));
    if matches!(order.settings.mode, Mode::Sequential(_)) && is_answered {
        let _ = writeln!(
            text,
            "  a rate passes if {success} succeed, and {statistic} of every delay is within its threshold"
        );
    }
    if let Some(baseline) = baseline {
        let _ = writeln!(text, "  {}", baseline.sentence(unit));
    }
    let steps = counted(journal.steps().count() as u64, "step", "steps");
    let _ = writeln!(text, "  {steps}, {} {unit}", journal.calls());
    for line in messages.into_iter().flat_map(|kept| kept.lines()) {
        let _ = writeln!(text, "  {line}");
    }
    if is_verbose {
        let weak = journal.by_share();
        if weak > 0 {
            let _ = writeln!(text, "  steps decided by less evidence than required: {weak}");
        }
        for record in journal.steps() {
            let _ = writeln!(text, "  {}", step_text(record));
        }
    }
    if matches!(order.settings.mode, Mode::Rfc7502(_)) {
        let _ = write!(text, "\n{}", form(order, end));
    }
    for note in notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// One line with the result and its cause.
fn sentence(journal: &SearchJournal, verdict: Option<&CapacityVerdict>, unit: &str) -> String {
    let Some(verdict) = verdict else { return "interrupted".to_owned() };
    let mut text = verdict.sentence(unit);
    if matches!(verdict, CapacityVerdict::Unanswered { .. }) {
        return text;
    }
    for found in causes(journal) {
        let what = match found.cause {
            CapacityCause::Stalls { .. } => "Disturbed by",
            _ => "Limited by",
        };
        let _ = write!(text, ". {what}: {found}");
    }
    text
}

/// The report of RFC 7502, section 5.
fn form(
    order: &CapacityOrder<'_>,
    SearchEnd { journal, baseline, verdict, .. }: SearchEnd<'_>,
) -> Rfc7502Form {
    let measured = verdict.map(Rfc7502Form::measured);
    let is_registration = !matches!(order.work, Work::Call(_));
    Rfc7502Form {
        transport: Some(order.transport.name().to_owned()),
        session_duration_s: (!is_registration).then(|| order.hold.as_secs_f64()),
        media_streams: Some(0),
        baseline_rate: baseline.and_then(|baseline| baseline.carried),
        session_establishment_rate: measured.clone().filter(|_| !is_registration),
        registration_rate: measured.filter(|_| is_registration),
        is_media_relay: Some(false),
        ..Rfc7502Form::of(journal)
    }
}

/// The result of a search for a capacity.
#[derive(Serialize, JsonSchema)]
pub struct CapacityDocument<'a> {
    /// The version of the document.
    format: u32,
    /// The target, as typed.
    target: &'a str,
    /// What is counted: `calls`, `registrations`, `redirects`, `requests`, `subscriptions`.
    unit: &'static str,
    /// What was offered, except for the rate.
    offered: Offered,
    /// The conformance to the rules of basic calls and registrations before the search, if it was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    conformance: Option<&'a GateReport>,
    /// The capacity per second, if it is a number.
    capacity: Option<f64>,
    /// The result, in a sentence.
    sentence: String,
    /// The result for programs; absent if the search was interrupted.
    verdict: Option<&'a CapacityVerdict>,
    /// The causes that limited the server in the failed steps, from the kernel's counters on this host. Stalls of the
    /// machine follow.
    causes: Vec<CauseFound>,
    /// Settings of the tester's host that may have impaired the search, with the command that changes them.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    /// The tester's limit.
    baseline: Option<&'a Baseline>,
    /// The report of RFC 7502, if its algorithm was used.
    rfc7502: Option<Rfc7502Form>,
    /// Messages that were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a KeptMessages>,
    /// All steps.
    journal: &'a SearchJournal,
}

impl<'a> CapacityDocument<'a> {
    /// The document of a search; `offered` is what its steps offer, except for the rate.
    pub fn new(order: &'a CapacityOrder<'_>, offered: Offered, end: SearchEnd<'a>) -> Self {
        let SearchEnd { gate, journal, baseline, verdict, notes, messages } = end;
        let unit = order.unit();
        Self {
            format: CAPACITY_FORMAT,
            target: &order.target,
            unit,
            offered,
            conformance: gate,
            capacity: verdict.and_then(CapacityVerdict::rate),
            sentence: sentence(journal, verdict, unit),
            causes: causes(journal),
            verdict,
            notes,
            baseline,
            rfc7502: matches!(order.settings.mode, Mode::Rfc7502(_)).then(|| form(order, end)),
            messages,
            journal,
        }
    }
}
