//! Reports as tables for people.

use std::fmt::Write as _;

use crate::far_end::FarEndTally;
use crate::path_mtu::PathMtuReport;
use crate::report::{Measure, ProbeReport, Stamps};
use crate::trace::{HopAddress, TraceHop, TraceReport};
use crate::web::WebReport;
use netrig_core::number::{Unit, plain};
use serde_json::{Value, json};

impl ProbeReport {
    /// The report as a table.
    pub fn text(&self) -> String {
        table(self)
    }
}

fn table(report: &ProbeReport) -> String {
    let mut text = String::new();
    let mut line = |words: &str| writeln!(text, "{words}").unwrap_or_default();
    let verdict = if report.valid { "" } else { ": INVALID, the tester was the limit" };
    line(&format!("{} {}{verdict}", report.probe, report.target));
    for fault in &report.faults {
        line(&format!("  invalid: {fault}"));
    }
    if report.interrupted {
        line("  interrupted: what had been measured until then");
    }
    for section in report.sections.iter().filter(|section| !section.measures.is_empty()) {
        line("");
        let percent = format!("{:.0} %", report.confidence * 100.0);
        line(&row(&section.name.replace('_', " "), "value", &format!("{percent} interval"), "n"));
        for measure in &section.measures {
            let (value, interval) = written(measure);
            line(&row(&measure.name.replace('_', " "), &value, &interval, &measure.n.to_string()));
            if let Some(why) = &measure.undefined {
                line(&format!("    {why}"));
            }
        }
    }
    line("");
    report.notes.iter().for_each(|note| line(note));
    line(&stamps(report.stamps));
    let source = report.source;
    let seconds = |value: f64| quantity(value, &Unit::fitting("s", [value]));
    let rate = source.rate.map_or_else(String::new, |rate| format!(" at {} packets/s", plain(rate)));
    line(&format!(
        "sent{rate}, late by {} (p50), {} (p99), {} at most",
        seconds(source.late_p50),
        seconds(source.late_p99),
        seconds(source.late_max)
    ));
    text
}

/// Who stamped the packets.
fn stamps(stamps: Stamps) -> String {
    format!(
        "stamps of the kernel: {} of {} packets sent, {} of {} received",
        stamps.sent_by_kernel, stamps.sent, stamps.received_by_kernel, stamps.received
    )
}

fn row(name: &str, value: &str, interval: &str, n: &str) -> String {
    // Widths in characters: units and thousands have some of several bytes.
    let pad = |text: &str, width: usize| " ".repeat(width.saturating_sub(text.chars().count()));
    let row = format!(
        "{name}{}{}{value}  {interval}{}{n}",
        pad(name, 26),
        pad(value, 12),
        pad(interval, (28 - n.len().min(8)).max(1) + 1),
    );
    row.trim_end().to_owned()
}

/// A measure's value and its interval, in a unit that suits the value.
fn written(measure: &Measure) -> (String, String) {
    let ends = [measure.low, measure.high];
    let unit = match measure.unit {
        "1" | "packets" => Unit::fixed("1"),
        unit => Unit::fitting(unit, measure.value.into_iter().chain(ends.into_iter().flatten())),
    };
    let value = measure.value.map_or_else(|| "undefined".to_owned(), |value| quantity(value, &unit));
    let end = |end: Option<f64>| end.map_or_else(|| "–".to_owned(), |end| plain(unit.convert(end)));
    let interval = match ends {
        [None, None] => String::new(),
        [low, high] => format!("[{}, {}]", end(low), end(high)),
    };
    (value, interval)
}

/// A value in a unit.
fn quantity(value: f64, unit: &Unit) -> String {
    unit.behind(&plain(unit.convert(value)))
}

impl PathMtuReport {
    /// The report as a table.
    pub fn text(&self) -> String {
        mtu_table(self)
    }
}

fn mtu_table(report: &PathMtuReport) -> String {
    let verdict = if report.valid { "" } else { ": INVALID, the tester was the limit" };
    let mut text = format!("mtu {}{verdict}\n", report.target);
    report.faults.iter().for_each(|fault| text += &format!("  invalid: {fault}\n"));
    if report.interrupted {
        text += "  interrupted: what was known until then\n";
    }
    text += "\npacket           sent  answered  told too long\n";
    for size in &report.sizes {
        let (packet, tried) = (format!("{} B", size.size), size.tried);
        text += &format!("{packet:<12}  {:>7}  {:>8}  {:>13}\n", tried.sent, tried.answered, tried.told);
    }
    if let Some(segments) = &report.segments {
        text += "\nTCP segments     announced  received there\n";
        let row = |who: &str, announced: Option<u32>, received: Option<(u32, bool)>| {
            let announced = announced.map_or_else(|| "?".into(), |bytes| format!("{bytes} B"));
            let received = match received {
                None => "?".into(),
                Some((bytes, true)) => format!("{bytes} B"),
                Some((bytes, false)) => format!("{bytes} B or more"),
            };
            format!("{who:<15}  {announced:>9}  {received:>14}\n")
        };
        let (near, far) = (segments.near, segments.far);
        text += &row("this end", Some(near.announced), far.map(|far| (far.received, far.exactly)));
        text += &row("the far end", far.map(|far| far.announced), Some((near.received, near.exactly)));
    }
    text += &format!("\n{}\n", report.found);
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

impl WebReport {
    /// The report as a table.
    pub fn text(&self) -> String {
        web_table(self)
    }
}

fn web_table(report: &WebReport) -> String {
    let mut text = format!("web {} at {}\n\n", report.url, report.address);
    let seconds = |seconds: f64| quantity(seconds, &Unit::fitting("s", [seconds]));
    let mut line = |name: &str, value: Option<String>| {
        text += &format!("{name:<26}{}\n", value.unwrap_or_else(|| "undefined".into()));
    };
    line("connection", Some(seconds(report.connect_s)));
    line("first octet", report.first_byte_s.map(seconds));
    line("in all", Some(seconds(report.total_s)));
    line(
        "octets",
        Some(format!("{}{}", report.bytes, if report.complete { "" } else { ", not to the end" })),
    );
    let rate = |rate: Option<f64>| rate.map(|rate| quantity(rate, &Unit::fitting("bit/s", [rate])));
    line("rate", rate(report.rate));
    line("rate after 1 s", rate(report.rate_after_first_second));
    text += &format!("\n{}\n", report.found);
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

impl TraceReport {
    /// The report as a table.
    pub fn text(&self) -> String {
        trace_table(self)
    }
}

fn trace_table(report: &TraceReport) -> String {
    let ports = report.ports.map_or_else(String::new, |[from, to]| format!(", port {from} to {to}"));
    let verdict = if report.valid { "" } else { ": INVALID, the tester was the limit" };
    let mut text = format!("trace {} by {}{ports}{verdict}\n", report.target, report.method);
    report.faults.iter().for_each(|fault| text += &format!("  invalid: {fault}\n"));
    if report.interrupted {
        text += "  interrupted: what had been heard until then\n";
    }
    let width = report.hops.iter().map(|hop| who(hop).chars().count()).max().unwrap_or(0);
    report.hops.iter().for_each(|hop| text += &line(hop, width));
    text += &format!("\n{}\n", report.found);
    report.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text + &stamps(report.stamps)
}

/// `10.0.0.1`, or `10.0.0.1 (2), 10.0.0.5 (1)`, with labels of MPLS behind.
fn who(hop: &TraceHop) -> String {
    let several = hop.addresses.len() > 1;
    let name = |address: &HopAddress| {
        let mut text = address.address.to_string();
        if several {
            text += &format!(" ({})", address.answers);
        }
        if !address.labels.is_empty() {
            let labels: Vec<_> = address.labels.iter().map(|label| label.label.to_string()).collect();
            text += &format!(" MPLS {}", labels.join("/"));
        }
        text
    };
    if hop.addresses.is_empty() {
        "*".into()
    } else {
        hop.addresses.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// A hop: who, round trips, why it is the end, and the speed of the link before it.
fn line(hop: &TraceHop, width: usize) -> String {
    let unit = Unit::fitting("s", hop.round_trips.iter().copied().flatten());
    let trip = |trip: &Option<f64>| trip.map_or_else(|| "*".to_owned(), |seconds| quantity(seconds, &unit));
    let who = who(hop);
    let mut text = format!("{:>3}  {who}{}", hop.ttl, " ".repeat(width - who.chars().count()));
    hop.round_trips.iter().for_each(|seconds| text += &format!("  {:>10}", trip(seconds)));
    hop.unreachable.iter().for_each(|why| text += &format!("  {why}"));
    text = format!("{}\n", text.trim_end());
    if let Some(speed) = hop.measures.iter().find(|measure| measure.name == "speed") {
        text += &format!("     {}\n", speed_of(speed));
    }
    text
}

fn speed_of(measure: &Measure) -> String {
    let (value, interval) = written(measure);
    match &measure.undefined {
        None => format!("link before: {value} {interval}"),
        Some(why) => {
            let least = measure.low.map_or_else(String::new, |low| {
                let unit = Unit::fitting("bit/s", [low]);
                format!("{} or more: ", quantity(low, &unit))
            });
            format!("link before: {least}{why}")
        }
    }
}

impl FarEndTally {
    /// The counters as a JSON document.
    pub fn document(&self) -> Value {
        tally_json(self)
    }

    /// The counters in lines.
    pub fn text(&self) -> String {
        tally_text(self)
    }
}

fn tally_json(tally: &FarEndTally) -> Value {
    json!({
        "answered": tally.answered, "unanswered": tally.unanswered,
        "streams": tally.streams, "failures": tally.failures,
    })
}

fn tally_text(tally: &FarEndTally) -> String {
    let mut text =
        format!("{} STAMP packets answered, {} streams carried out\n", tally.answered, tally.streams);
    for (why, count) in &tally.unanswered {
        text += &format!("{count} STAMP packets not answered: {why}\n");
    }
    for (why, count) in &tally.failures {
        text += &format!("{count} probes turned away or broken off: {why}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_and_its_interval_share_a_unit() {
        let mut measure = Measure::exact("delay_p50", "s", Some(0.0012), 9);
        (measure.low, measure.high) = (Some(0.0009), None);
        assert_eq!(written(&measure), ("1.2 ms".into(), "[0.9, –]".into()));
        let lost = Measure::undefined("delay_p99", "s", "lost");
        assert_eq!(written(&lost), ("undefined".into(), String::new()));
    }
}
