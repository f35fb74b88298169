//! Scenarios and their loads as text.

use std::fmt::Write as _;

use netrig_core::number::{counted, micros, percent, plain, time};
use netrig_core::text::{AlignedTable, truncated, wrapped};
use netrig_sip_net::load::DelayRow;
use netrig_sip_net::tap::{KeptMessages, KeptRecords};

use super::{CallScript, ScenarioDocument, ScenarioSecond, ScenarioWarning, ScriptFailureRow, StepRow};
use crate::load_text::tester;
use crate::media::{MediaReport, MediaShare};

impl ScenarioSecond {
    /// One line about the second.
    pub fn text(&self) -> String {
        let Self { second: number, begun, succeeded, failed, open, again, faults } = self;
        let mut text = format!(
            "{:>5} s: {begun} begun, {succeeded} succeeded, {failed} failed, {open} open",
            number + 1
        );
        if *again > 0 {
            let _ = write!(text, ", {} repeated", counted(*again, "message", "messages"));
        }
        if !faults.is_empty() {
            let _ = write!(text, "; INVALID: {}", faults.join("; "));
        }
        text
    }
}

impl ScenarioDocument {
    /// The document as tables in lines of at most `width` characters.
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        let verdict = match self {
            Self { valid: false, .. } => "INVALID, the tester was the limit".to_owned(),
            Self { stopped: Some(why), .. } => format!("STOPPED by the scenario: {why}"),
            Self { begun: 0, .. } => "no call".to_owned(),
            Self { failed: 0, succeeded, .. } => {
                format!(
                    "{} succeeded",
                    if *succeeded == 1 { "the call".to_owned() } else { format!("all {succeeded} calls") }
                )
            }
            Self { failed, begun, .. } => format!("{failed} of {begun} calls FAILED"),
        };
        let name =
            if self.name.is_empty() { self.file.clone() } else { format!("{} ({})", self.name, self.file) };
        let place = self
            .target
            .as_ref()
            .map_or_else(|| format!("at {}", self.local), |target| format!("to {target}"));
        line(&mut text, &format!("{name}, {} {place}: {verdict}", self.transport), width, 2);
        for fault in &self.faults {
            line(&mut text, &format!("  invalid: {fault}"), width, 4);
        }
        if self.interrupted {
            text.push_str("  interrupted: the results so far\n");
        }
        if self.open > 0 {
            let open = counted(self.open, "call was", "calls were");
            line(&mut text, &format!("  {open} not over when the load ended, and then ended"), width, 4);
        }
        let _ = writeln!(
            text,
            "{} per second succeeded in {} s",
            plain(self.per_second),
            plain((self.took_s * 10.0).round() / 10.0)
        );
        failures(self, width, &mut text);
        steps(self, width, &mut text);
        delays(self, &mut text);
        rest(self, width, &mut text);
        text
    }
}

fn line(text: &mut String, words: &str, width: usize, indent: usize) {
    let _ = writeln!(text, "{}", wrapped(words, width, indent));
}

fn failures(document: &ScenarioDocument, width: usize, text: &mut String) {
    if document.failures.is_empty() {
        return;
    }
    text.push_str("\nfailed\n");
    for ScriptFailureRow { step, line: of, what, why, count } in &document.failures {
        let place = match (step, of) {
            (Some(step), Some(of)) => format!(" at step {step} (line {of}, {what})"),
            (Some(step), None) => format!(" at step {step} ({what})"),
            _ => String::new(),
        };
        line(text, &format!("{count:>8}{place}: {why}"), width, 10);
    }
    if let Some(first) = document.examples.first() {
        line(text, &format!("  the first of them: Call-ID {}", first.call_id), width, 4);
    }
}

fn steps(document: &ScenarioDocument, width: usize, text: &mut String) {
    /// Width of the numbers of a step, and of the words that describe it.
    const NUMBERS: usize = 48;
    const WORDS: std::ops::RangeInclusive<usize> = 30..=60;
    let room = width.saturating_sub(NUMBERS).clamp(*WORDS.start(), *WORDS.end());
    let headings = ["step", "", "messages", "again", "timed out", "unexpected"];
    let mut table = AlignedTable::aligned("rlrrrr", headings);
    for StepRow { step, what, tally, .. } in &document.steps {
        let counts =
            [tally.done, tally.again, tally.timeouts, tally.unexpected].map(|count| count.to_string());
        table.row([step.to_string(), truncated(what, room)].into_iter().chain(counts));
    }
    table.write(text);
}

fn delays(document: &ScenarioDocument, text: &mut String) {
    let mut table = AlignedTable::new(["time", "n", "mean", "p50", "p95", "p99", "max"]);
    for row in &document.delays {
        let DelayRow { mean_us, p50_us, p95_us, p99_us, max_us, .. } = *row;
        let spans = [mean_us, p50_us, p95_us, p99_us, max_us].map(micros);
        table.row([row.name.to_string(), row.n.to_string()].into_iter().chain(spans));
    }
    table.write(text);
}

/// Writes the results of the voice of sessions.
fn voice_of(voice: &MediaReport, width: usize, text: &mut String) {
    let written = |mean: &MediaShare, write: &dyn Fn(f64) -> String| match (mean.low, mean.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", write(mean.value), write(low), write(high)),
        _ => write(mean.value),
    };
    let share = |mean: &MediaShare| written(mean, &percent);
    let span = |mean: &MediaShare| written(mean, &|span| time(span.max(0.0)));
    let score = |mean: &MediaShare| written(mean, &|score| format!("{score:.2}"));
    let _ = writeln!(text, "\nvoice, {} in {}", voice.codec, counted(voice.calls, "call", "calls"));
    let rows = [
        ("lost on the way here", voice.loss.as_ref().map(share)),
        ("lost on the way there", voice.loss_there.as_ref().map(share)),
        ("missing when to be played", voice.missing.as_ref().map(share)),
        ("jitter (RFC 3550)", voice.jitter_s.as_ref().map(span)),
        ("round trip (RTCP)", voice.round_trip_s.as_ref().map(span)),
        ("MOS (ITU-T G.107)", voice.mos.as_ref().map(score)),
    ];
    let mut table = AlignedTable::list("ll");
    for (name, value) in rows {
        table.row([format!("  {name}"), value.unwrap_or_else(|| "–".to_owned())]);
    }
    table.write(text);
    if voice.mos.is_some() && voice.round_trip_s.is_none() {
        let note = "  no RTCP report gave the round trip: the score is without the network's delay";
        line(text, note, width, 4);
    }
    let packets = format!(
        "  packets: {} sent, {} of {} received; {} duplicated, {} out of order",
        voice.sent, voice.received, voice.expected, voice.copies, voice.reordered
    );
    line(text, &packets, width, 4);
    let counts = [
        (voice.silent_calls, "that received nothing"),
        (
            voice.unknown_calls,
            "of them that are in no figure: the other side did not say how many packets it sent",
        ),
        (voice.poor_calls, "with a score below 3.6, at which many users are dissatisfied"),
        (voice.unsupported_calls, "whose other side wants other media, such as SRTP, or another codec"),
        (voice.without_port, "for which the tester had no free ports"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        line(text, &format!("  {} {what}", counted(count, "call", "calls")), width, 4);
    }
}

fn rest(document: &ScenarioDocument, width: usize, text: &mut String) {
    if !document.counters.is_empty() {
        let counters: Vec<_> =
            document.counters.iter().map(|row| format!("{} {}", row.name, row.count)).collect();
        line(text, &format!("\ncounters: {}", counters.join(", ")), width, 2);
    }
    if document.strays > 0 {
        let strays = counted(document.strays, "message belonged", "messages belonged");
        line(text, &format!("\n{strays} to no call"), width, 2);
    }
    if document.without_room > 0 {
        let calls = counted(document.without_room, "call", "calls");
        line(
            text,
            &format!("\n{calls} could not begin: the limit of concurrent calls was reached"),
            width,
            2,
        );
    }
    if document.withheld > 0 {
        let messages = counted(document.withheld, "message", "messages");
        line(
            text,
            &format!(
                "\n{messages} withheld: an address that has proved nothing gets three times its bytes at most"
            ),
            width,
            2,
        );
    }
    if let Some(media) = &document.media {
        let words = format!(
            "\nmedia: {} sent ({} of them sent back, {} more than 10 ms late), {} received, {} not taken by the kernel",
            counted(media.sent, "datagram", "datagrams"),
            media.echoed,
            media.late,
            media.received,
            media.unsent
        );
        line(text, &words, width, 2);
    }
    document.voice.iter().for_each(|voice| voice_of(voice, width, text));
    if !document.log.is_empty() {
        text.push_str("\nlog of the scenario\n");
        for entry in document.log.iter().flat_map(|entry| entry.lines()) {
            let _ = writeln!(text, "  {entry}");
        }
        if document.more_lines > 0 {
            let _ = writeln!(text, "  and {} more", document.more_lines);
        }
    }
    let mut record = String::new();
    tester(&document.tester_record, &mut record);
    line(text, &format!("\n{}", record.trim()), width, 2);
    for words in document
        .messages
        .iter()
        .flat_map(KeptMessages::lines)
        .chain(document.records.iter().flat_map(KeptRecords::lines))
    {
        line(text, &words, width, 2);
    }
}

impl CallScript {
    /// The steps of the scenario, and the warnings, as text.
    pub fn text(&self, warnings: &[ScenarioWarning], width: usize) -> String {
        let steps = counted(self.steps.len() as u64, "step", "steps");
        let mut text = format!("{:?}: {steps}\n", self.name);
        for (step, number) in self.steps.iter().zip(1..) {
            let line = format!("{number:>4}  line {:<5} {}", step.line, step.words());
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", wrapped(&line, width, 18));
        }
        for ScenarioWarning { line, what } in warnings {
            let _ = writeln!(text, "{}", wrapped(&format!("warning: line {line}: {what}"), width, 4));
        }
        text
    }
}
