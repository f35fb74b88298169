//! The report on a conformance run: as data, as text, and for build servers (JUnit).

use std::fmt::Write as _;

use netrig_core::xml::escaped;
use netrig_sip_net::dns::RecordedQuestion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::background::BackgroundReport;
use super::capability::CapabilityRow;
use super::messages::EvidenceMessage;
use super::plan::ConformancePlan;
use super::purpose::{RequirementLevel, TestedRole};
use super::run::{ConformanceResult, PurposeResult, PurposeVerdict};
use crate::trace::{LOG_HEADING, LogDirection, TracedMessage, write_entry};

/// The document of `netrig sip conform --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConformanceDocument {
    /// Version of the document.
    pub format: u32,
    /// Version and commit of netrig.
    pub tester: String,
    /// The machine that netrig ran on: system, kernel, processors.
    #[serde(default)]
    pub machine: String,
    /// The server, as typed.
    pub target: String,
    /// Product name in the Server header field, if the server sends one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Its role.
    pub role: TestedRole,
    /// Domain of the users.
    pub domain: String,
    /// Seed of all identifiers; the same seed gives the same ones.
    pub seed: u64,
    /// Start time, ns since 1970.
    pub began_ns: u64,
    /// Duration, s.
    pub took_s: f64,
    /// Longest wait for a response, s.
    pub patience_s: f64,
    /// Number of cases at the same time.
    pub jobs: usize,
    /// Whether it was stopped early.
    #[serde(default)]
    pub interrupted: bool,
    /// The load during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundReport>,
    /// The static review: claimed and observed capabilities.
    pub capabilities: Vec<CapabilityRow>,
    /// Numbers of purposes by verdict.
    pub counts: VerdictCounts,
    /// All selected purposes.
    pub purposes: Vec<PurposeRow>,
}

/// Numbers of purposes by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictCounts {
    /// Selected purposes.
    pub selected: usize,
    /// Purposes that were run.
    pub run: usize,
    /// PASS.
    pub pass: usize,
    /// FAIL.
    pub fail: usize,
    /// INCONC.
    pub inconc: usize,
}

impl VerdictCounts {
    fn add(&mut self, verdict: Option<PurposeVerdict>) {
        self.selected += 1;
        self.run += usize::from(verdict.is_some());
        match verdict {
            Some(PurposeVerdict::Pass) => self.pass += 1,
            Some(PurposeVerdict::Fail) => self.fail += 1,
            Some(PurposeVerdict::Inconclusive) => self.inconc += 1,
            None => {}
        }
    }

    /// As cells of a table, in the order of the fields.
    pub(super) const fn cells(self) -> [usize; 5] {
        [self.selected, self.run, self.pass, self.fail, self.inconc]
    }
}

/// A purpose and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PurposeRow {
    /// The id, such as `REG-BIND-03`.
    pub id: String,
    /// The part of the role to which the purpose belongs.
    pub group: String,
    /// RFC and section.
    pub section: String,
    /// The strength of the requirement.
    pub level: RequirementLevel,
    /// The requirement.
    pub requirement: String,
    /// `PASS`, `FAIL` or `INCONC`; absent if it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<PurposeVerdict>,
    /// What the server did, or why there is no verdict.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observation: String,
    /// Duration, s.
    pub took_s: f64,
    /// Its messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<EvidenceRow>,
    /// The DNS questions that the tester received for names of the purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRow>,
}

/// A DNS question that the tester received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRow {
    /// Time, ns since 1970.
    pub at_ns: u64,
    /// Address of the sender.
    pub from: String,
    /// `UDP` or `TCP`.
    pub transport: String,
    /// The type of the records: `NAPTR`, `SRV`, `A` or `AAAA`.
    pub record_type: String,
    /// The name.
    pub name: String,
    /// Number of records in the answer; absent if the name does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<usize>,
}

/// A message of a purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceRow {
    /// Time, ns since 1970.
    pub at_ns: u64,
    /// Address and port of the sender.
    pub from: String,
    /// Address and port of the receiver.
    pub to: String,
    /// `UDP`, `TCP` or `TLS`.
    pub transport: String,
    /// The whole message. Invalid UTF-8 is replaced.
    pub text: String,
}

impl ConformanceDocument {
    /// Claimed capabilities that the server does not show: in the static review, the server does not conform to its
    /// claims.
    pub fn false_claims(&self) -> impl Iterator<Item = &CapabilityRow> {
        self.capabilities.iter().filter(|row| row.claimed == Some(true) && row.shown == Some(false))
    }

    /// The version of the document that this version of netrig writes.
    pub const FORMAT: u32 = 1;

    /// The document of a run. `target` is the server as typed, `tester` the version of netrig, and `machine` its host.
    pub fn new(
        plan: &ConformancePlan,
        result: &ConformanceResult,
        target: &str,
        tester: &str,
        machine: &str,
    ) -> Self {
        let mut counts = VerdictCounts::default();
        result.purposes.iter().for_each(|purpose| counts.add(purpose.verdict));

        Self {
            format: Self::FORMAT,
            tester: tester.to_owned(),
            machine: machine.to_owned(),
            target: target.to_owned(),
            product: product(result),
            role: plan.role,
            domain: plan.target.domain.to_string(),
            seed: plan.seed,
            began_ns: result.began_ns,
            took_s: result.took.as_secs_f64(),
            patience_s: plan.target.patience.as_secs_f64(),
            jobs: plan.jobs,
            interrupted: result.is_interrupted,
            background: result.background.clone(),
            capabilities: result.capabilities.clone(),
            counts,
            purposes: result.purposes.iter().map(PurposeRow::of).collect(),
        }
    }

    /// The result of the run in words.
    pub fn answer(&self) -> &'static str {
        let counts = self.counts;
        match (self.interrupted, counts.fail, counts.inconc, counts.run) {
            (true, ..) => "interrupted",
            (_, 1.., ..) => "breaks rules",
            _ if self.false_claims().next().is_some() => "does not show its claimed capabilities",
            (_, _, _, 0) => "not tested",
            (_, _, inconc, run) if inconc == run => "no verdict",
            (_, _, 0, _) => "follows all tested rules",
            _ => "breaks none of the tried rules",
        }
    }

    /// The server, and its product name.
    pub fn subject(&self) -> String {
        let product = self.product.as_ref().map_or_else(String::new, |product| format!(" ({product})"));
        format!("{}{product}", self.target)
    }

    /// Purposes with this verdict.
    pub fn with_verdict(&self, verdict: PurposeVerdict) -> impl Iterator<Item = &PurposeRow> {
        self.purposes.iter().filter(move |purpose| purpose.verdict == Some(verdict))
    }

    /// The groups in order, with their counts of verdicts.
    pub fn groups(&self) -> Vec<(&str, VerdictCounts)> {
        let mut groups: Vec<(&str, VerdictCounts)> = Vec::new();
        for purpose in &self.purposes {
            let place = groups.iter().position(|(name, _)| *name == purpose.group).unwrap_or_else(|| {
                groups.push((&purpose.group, VerdictCounts::default()));
                groups.len() - 1
            });
            groups[place].1.add(purpose.verdict);
        }
        groups
    }

    /// The report for build servers: a test case per purpose.
    pub fn to_junit(&self) -> String {
        let counts = self.counts;
        let skipped = counts.selected - counts.run + counts.inconc;
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<testsuite name=\"netrig sip conform --role {} {}\" tests=\"{}\" failures=\"{}\" skipped=\"{skipped}\" time=\"{:.3}\">",
            self.role.name(),
            escaped(&self.target),
            counts.selected,
            counts.fail,
            self.took_s
        );
        for purpose in &self.purposes {
            let PurposeRow { id, group, section, requirement, observation, took_s, .. } = purpose;
            let [section, requirement, observation] =
                [section, requirement, observation].map(|text| escaped(text));
            let _ = write!(
                text,
                "  <testcase classname=\"{}.{group}\" name=\"{id} {requirement} ({section})\" time=\"{took_s:.3}\">",
                self.role.name()
            );
            match purpose.verdict {
                Some(PurposeVerdict::Pass) => {}
                Some(PurposeVerdict::Fail) => {
                    let _ = write!(text, "<failure message=\"{observation}\"/>");
                }
                Some(PurposeVerdict::Inconclusive) | None => {
                    let _ = write!(text, "<skipped message=\"{observation}\"/>");
                }
            }
            text.push_str("</testcase>\n");
        }
        text.push_str("</testsuite>\n");
        text
    }
}

/// The ids of purposes by observation, in order.
pub(super) fn by_observation<'a>(rows: impl Iterator<Item = &'a PurposeRow>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        match reasons.iter_mut().find(|(reason, _)| *reason == row.observation) {
            Some((_, ids)) => ids.push(&row.id),
            None => reasons.push((&row.observation, vec![&row.id])),
        }
    }
    reasons
}

impl PurposeRow {
    fn of(result: &PurposeResult) -> Self {
        let PurposeResult { purpose, verdict, observation, evidence, questions, took } = result;
        Self {
            id: purpose.id.to_owned(),
            group: purpose.group.to_owned(),
            section: purpose.section.to_owned(),
            level: purpose.level,
            requirement: purpose.requirement.to_owned(),
            verdict: *verdict,
            observation: observation.clone(),
            took_s: took.as_secs_f64(),
            messages: evidence.iter().map(EvidenceRow::of).collect(),
            questions: questions.iter().map(QuestionRow::of).collect(),
        }
    }
}

impl QuestionRow {
    fn of(recorded: &RecordedQuestion) -> Self {
        Self {
            at_ns: recorded.at_ns,
            from: recorded.from.to_string(),
            transport: recorded.transport.name().to_owned(),
            record_type: recorded.question.kind.name().to_owned(),
            name: recorded.question.name.clone(),
            records: recorded.records,
        }
    }
}

impl EvidenceRow {
    fn of(message: &EvidenceMessage) -> Self {
        let (from, to) =
            if message.is_sent { (message.local, message.peer) } else { (message.peer, message.local) };
        Self {
            at_ns: message.at_ns,
            from: from.to_string(),
            to: to.to_string(),
            transport: message.transport.name().to_owned(),
            text: String::from_utf8_lossy(&message.bytes).into_owned(),
        }
    }
}

/// The first received Server header field.
fn product(result: &ConformanceResult) -> Option<String> {
    let received =
        result.purposes.iter().flat_map(|purpose| &purpose.evidence).filter(|message| !message.is_sent);
    received.take(1000).find_map(|message| {
        let text = String::from_utf8_lossy(&message.bytes);
        let line = text
            .lines()
            .find(|line| line.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("server:")))?;
        Some(line[7..].trim().to_owned())
    })
}

/// Writes all messages of a run as a message log, ordered by time.
///
/// # Errors
/// The errors of `out`.
pub fn write_evidence(out: &mut impl std::io::Write, result: &ConformanceResult) -> std::io::Result<()> {
    let mut messages: Vec<&EvidenceMessage> =
        result.purposes.iter().flat_map(|purpose| &purpose.evidence).collect();
    messages.sort_by_key(|message| message.at_ns);
    out.write_all(LOG_HEADING.as_bytes())?;
    for message in messages {
        let EvidenceMessage { at_ns, is_sent, local, peer, transport, bytes } = message.clone();
        let (direction, from, to) =
            if is_sent { (LogDirection::Sent, local, peer) } else { (LogDirection::Received, peer, local) };
        write_entry(out, direction, &TracedMessage { at_ns, from, to, transport, bytes })?;
    }
    Ok(())
}
