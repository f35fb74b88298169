//! The text of a load for users: its seconds, and its report.

use std::fmt::Write as _;

use netrig_core::number::{counted, micros, percent, plain};
use netrig_core::text::{AlignedTable, words};
use netrig_sip::index::Outcomes;
use netrig_sip_net::load::{DelayRow, LoadReport, SecondRow, TesterReport, ThresholdRow, TimeLimit};
use netrig_sip_net::tap::{KeptMessages, KeptRecords};

/// One line about a second of a load.
pub fn second(second: &SecondRow) -> String {
    let SecondRow { second: number, begun, succeeded, failed, retransmissions, .. } = second;
    let mut text = format!("{:>5} s: {begun} begun, {succeeded} succeeded, {failed} failed", number + 1);
    if second.unlocated > 0 {
        let _ = write!(text, ", {} found no server", second.unlocated);
    }
    if *retransmissions > 0 {
        let _ = write!(text, ", {retransmissions} sent again");
    }
    // The first delay is the main one of the scenario.
    if let Some(delay) = second.delays.first() {
        let _ = write!(text, "; {} {} (p95)", words(&delay.name), micros(delay.p95_us));
    }
    if !second.faults.is_empty() {
        let _ = write!(text, "; INVALID: {}", second.faults.join("; "));
    }
    text
}

/// The whole report.
pub fn table(report: &LoadReport) -> String {
    let mut text = String::new();
    let verdict = match (report.valid, report.kept) {
        (false, _) => "INVALID, the tester was the limit",
        (true, true) => "all thresholds kept",
        (true, false) => "thresholds NOT kept",
    };
    let _ = writeln!(text, "{}: {verdict}", report.target);
    for fault in &report.faults {
        let _ = writeln!(text, "  invalid: {fault}");
    }
    if report.interrupted {
        text.push_str("  interrupted: the results so far\n");
    }
    location(report, &mut text);
    outcomes(report, &mut text);
    delays(report, &mut text);
    thresholds(report, &mut text);
    ratios(report, &mut text);
    failures(report, &mut text);
    tester(&report.tester, &mut text);
    for line in report
        .messages
        .iter()
        .flat_map(KeptMessages::lines)
        .chain(report.records.iter().flat_map(KeptRecords::lines))
    {
        let _ = writeln!(text, "{line}");
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Writes the servers to which the name resolved before the load, and the number of DNS questions during the load.
fn location(report: &LoadReport, text: &mut String) {
    let Some(location) = &report.location else { return };
    let took = location.took_us.map(|took| format!(" in {}", micros(took))).unwrap_or_default();
    let _ = writeln!(
        text,
        "  {} is {} (looked for {}{took})",
        location.uri,
        location.hops.join(", then "),
        location.lookup
    );
    let dns = report.tester.dns;
    if dns.asked + dns.kept > 0 {
        let _ = writeln!(
            text,
            "  DNS: {}, {} sent again, {} over TCP, {} answered by what was kept; {} of others ignored",
            counted(dns.asked, "question", "questions"),
            dns.again,
            dns.over_tcp,
            dns.kept,
            counted(dns.foreign, "answer", "answers")
        );
    }
}

fn outcomes(report: &LoadReport, text: &mut String) {
    let mut table = AlignedTable::new(["", "begun", "succeeded", "failed", "no server", "open"]);
    for row in &report.outcomes {
        let Outcomes { begun, succeeded, failed, unlocated } = row.counts;
        let counts = [begun, succeeded, failed, unlocated, row.open].map(|count| count.to_string());
        table.row(std::iter::once(row.what.to_owned()).chain(counts));
    }
    table.write(text);
    let _ = writeln!(
        text,
        "{} per second succeeded in {} s: {} BHCA (in an hour), {} for each user",
        plain(report.per_second),
        plain(report.measured),
        plain(report.per_hour.round()),
        plain(report.per_user_and_hour)
    );
}

fn delays(report: &LoadReport, text: &mut String) {
    let mut table =
        AlignedTable::new(["delay", "RFC 6076", "n", "mean", "p50", "p95", "p99", "p99.9", "max"]);
    for row in &report.delays {
        let DelayRow { mean_us, p50_us, p95_us, p99_us, p999_us, max_us, .. } = *row;
        let spans = [mean_us, p50_us, p95_us, p99_us, p999_us, max_us].map(micros);
        let head = [words(&row.name), row.rfc6076.as_deref().unwrap_or("–").to_owned(), row.n.to_string()];
        table.row(head.into_iter().chain(spans));
    }
    table.write(text);
}

fn thresholds(report: &LoadReport, text: &mut String) {
    let mut table = AlignedTable::new(["threshold", "of", "was", "bound", ""]);
    for row in &report.thresholds {
        let ThresholdRow { name, statistic, unit, was, bound, kept } = row;
        let [was, bound] =
            [*was, *bound].map(|value| if *unit == "us" { micros(value) } else { percent(value) });
        let verdict = if *kept { "kept" } else { "NOT kept" };
        table.row([words(name), (*statistic).to_owned(), was, bound, verdict.to_owned()]);
    }
    table.write(text);
}

fn ratios(report: &LoadReport, text: &mut String) {
    let known: Vec<_> =
        report.ratios.known().map(|(name, ratio)| format!("{name} {}", percent(ratio))).collect();
    if !known.is_empty() {
        let _ = writeln!(text, "\nRFC 6076: {}", known.join(", "));
    }
}

fn failures(report: &LoadReport, text: &mut String) {
    if !report.failures.is_empty() {
        let mut table = AlignedTable::new(["failed", "kind", "count", "why"]);
        for row in &report.failures {
            table.row([
                row.what.to_owned(),
                row.kind.name().to_owned(),
                row.count.to_string(),
                with_flag(&row.why, row.limit),
            ]);
        }
        table.write(text);
    }
    if !report.unrequested.is_empty() {
        let each = report
            .unrequested
            .iter()
            .map(|row| format!("{} {} (answered with {})", row.count, row.method, row.status));
        let _ =
            writeln!(text, "\nthe other side asked within calls: {}", each.collect::<Vec<_>>().join(", "));
    }
    let events = report.repetitions.events().into_iter().chain(report.tolerated.events());
    let some = events.filter(|(.., count)| *count > 0);
    let some: Vec<_> = some.map(|(one, many, count)| counted(count, one, many)).collect();
    if !some.is_empty() {
        let _ = writeln!(text, "\n{}", some.join(", "));
    }
}

/// Writes the tester's measurements of itself.
pub fn tester(tester: &TesterReport, text: &mut String) {
    let _ = write!(
        text,
        "\ntester: {}, {} s on cores; {} sent, {} received ({} foreign, {} stray), {} dropped",
        counted(tester.threads.into(), "thread", "threads"),
        plain(tester.cpu),
        counted(tester.sent, "datagram", "datagrams"),
        tester.received,
        tester.foreign,
        tester.strays,
        tester.dropped
    );
    if let Some(late) = &tester.lateness {
        let _ = write!(text, "; late by {} (p50), {} (p99)", micros(late.p50_us), micros(late.p99_us));
    }
    if let Some(own) = &tester.own_time {
        let _ = write!(text, "; own time {} (p50), {} (p99)", micros(own.p50_us), micros(own.p99_us));
    }
    text.push('\n');
}

/// The reason of a failure, with the flag that sets the time limit if the failure is a time-out.
pub fn with_flag(why: &str, limit: Option<TimeLimit>) -> String {
    match limit {
        None => why.to_owned(),
        Some(TimeLimit::T1) => format!("{why}; --t1 sets the time, which is 64 times T1"),
        Some(TimeLimit::LongestRinging) => format!("{why}; --longest-ringing sets the time"),
        Some(TimeLimit::Patience) => format!("{why}; --patience sets the time until the call is given up"),
    }
}
