//! A report as a table for people.

use std::fmt::Write as _;

use netrig_core::number::{Unit, plain};
use netrig_probe::{Measure, ProbeReport, Stamps};

/// The whole report.
pub fn table(report: &ProbeReport) -> String {
    let mut text = String::new();
    let mut line = |words: &str| writeln!(text, "{words}").unwrap_or_default();
    let verdict = if report.valid { "" } else { ": INVALID, the tester was the limit" };
    line(&format!("{} {}{verdict}", report.probe, report.target));
    for fault in &report.faults {
        line(&format!("  invalid: {fault}"));
    }
    if report.interrupted {
        line("  interrupted: the results so far");
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

/// How many packets the kernel stamped.
pub fn stamps(stamps: Stamps) -> String {
    format!(
        "stamps of the kernel: {} of {} packets sent, {} of {} received",
        stamps.sent_by_kernel, stamps.sent, stamps.received_by_kernel, stamps.received
    )
}

fn row(name: &str, value: &str, interval: &str, n: &str) -> String {
    // Widths in characters: some units and digit separators have several bytes.
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
pub fn written(measure: &Measure) -> (String, String) {
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
pub fn quantity(value: f64, unit: &Unit) -> String {
    unit.behind(&plain(unit.convert(value)))
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
