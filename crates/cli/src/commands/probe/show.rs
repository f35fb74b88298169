//! A report as a table for people.

use std::fmt::Write as _;

use netrig_core::number::{Unit, percent, plain, time};
use netrig_core::text::AlignedTable;
use netrig_probe::{Measure, ProbeReport, Stamps};

/// All that a report says.
pub fn table(report: &ProbeReport) -> String {
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
    let mut table = AlignedTable::list("lrlr");
    for section in report.sections.iter().filter(|section| !section.measures.is_empty()) {
        table.row([String::new()]);
        let interval = format!("{} interval", percent(report.confidence));
        table.row([section.name.replace('_', " "), "value".into(), interval, "n".into()]);
        for measure in &section.measures {
            let (value, interval) = written(measure);
            table.row([measure.name.replace('_', " "), value, interval, measure.n.to_string()]);
            if let Some(why) = &measure.undefined {
                table.row([format!("    {why}")]);
            }
        }
    }
    table.write(&mut text);
    let mut line = |words: &str| writeln!(text, "{words}").unwrap_or_default();
    line("");
    report.notes.iter().for_each(|note| line(note));
    line(&stamps(report.stamps));
    let source = report.source;
    let rate = source.rate.map_or_else(String::new, |rate| format!(" at {} packets/s", plain(rate)));
    line(&format!(
        "sent{rate}, late by {} (p50), {} (p99), {} at most",
        time(source.late_p50),
        time(source.late_p99),
        time(source.late_max)
    ));
    text
}

/// Who stamped the packets.
pub fn stamps(stamps: Stamps) -> String {
    format!(
        "stamps of the kernel: {} of {} packets sent, {} of {} received",
        stamps.sent_by_kernel, stamps.sent, stamps.received_by_kernel, stamps.received
    )
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
