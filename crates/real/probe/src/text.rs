//! Reports as text.

use std::fmt::Write as _;

use netrig_core::number::{Unit, percent, plain, rate, time};
use netrig_core::text::{AlignedTable, words};
use serde_json::{Value, json};

use crate::far_end::FarEndTally;
use crate::path_mtu::PathMtuReport;
use crate::report::{Measure, ProbeReport, Stamps};
use crate::trace::{HopAddress, TraceHop, TraceReport};
use crate::web::WebReport;

/// First lines of a report: what was probed, and whether the results are valid and complete.
fn heading(what: &str, faults: &[String], interrupted: bool) -> String {
    let verdict = if faults.is_empty() { "" } else { ": INVALID, the tester was the limit" };
    let mut text = format!("{what}{verdict}\n");
    faults.iter().for_each(|fault| text += &format!("  invalid: {fault}\n"));
    if interrupted {
        text += "  interrupted: the results so far\n";
    }
    text
}

/// Last lines of a report: the result in a sentence, and the remarks.
fn conclusion(found: &str, notes: &[String]) -> String {
    std::iter::once(&format!("\n{found}")).chain(notes).map(|line| format!("{line}\n")).collect()
}

impl ProbeReport {
    /// The report as tables.
    pub fn text(&self) -> String {
        let mut text = heading(&format!("{} {}", self.probe, self.target), &self.faults, self.interrupted);
        let mut table = AlignedTable::list("lrlr");
        for section in self.sections.iter().filter(|section| !section.measures.is_empty()) {
            let interval = format!("{} interval", percent(self.confidence));
            table.row([String::new()]);
            table.row([words(&section.name), "value".into(), interval, "n".into()]);
            for measure in &section.measures {
                let (value, interval) = measure.text();
                table.row([words(measure.name), value, interval, measure.n.to_string()]);
                measure.undefined.iter().for_each(|why| table.row([format!("    {why}")]));
            }
        }
        table.write(&mut text);
        let mut line = |words: &str| writeln!(text, "{words}").unwrap_or_default();
        line("");
        self.notes.iter().for_each(|note| line(note));
        line(&self.stamps.text());
        let source = self.source;
        let rate = source.rate.map_or_else(String::new, |rate| format!(" at {} packets/s", plain(rate)));
        line(&format!(
            "sent{rate}, late by {} (p50), {} (p99), {} at most",
            time(source.late_p50),
            time(source.late_p99),
            time(source.late_max)
        ));
        text
    }
}

impl Stamps {
    fn text(&self) -> String {
        format!(
            "stamps of the kernel: {} of {} packets sent, {} of {} received",
            self.sent_by_kernel, self.sent, self.received_by_kernel, self.received
        )
    }
}

impl Measure {
    /// The value and its interval as text, in a unit that suits both.
    fn text(&self) -> (String, String) {
        let ends = [self.low, self.high];
        let unit = match self.unit {
            "1" | "packets" => Unit::fixed("1"),
            unit => Unit::fitting(unit, self.value.into_iter().chain(ends.into_iter().flatten())),
        };
        let number = |value: f64| plain(unit.convert(value));
        let value = self.value.map_or_else(|| "undefined".to_owned(), |value| unit.behind(&number(value)));
        let end = |end: Option<f64>| end.map_or_else(|| "–".to_owned(), number);
        let interval = match ends {
            [None, None] => String::new(),
            [low, high] => format!("[{}, {}]", end(low), end(high)),
        };
        (value, interval)
    }
}

impl PathMtuReport {
    /// The report as tables.
    pub fn text(&self) -> String {
        let mut text = heading(&format!("mtu {}", self.target), &self.faults, self.interrupted);
        let mut sizes = AlignedTable::aligned("lrrr", ["packet", "sent", "answered", "told too long"]);
        for size in &self.sizes {
            let tried =
                [size.tried.sent, size.tried.answered, size.tried.told].map(|count| count.to_string());
            sizes.row([format!("{} B", size.size)].into_iter().chain(tried));
        }
        sizes.write(&mut text);
        if let Some(segments) = &self.segments {
            let mut table = AlignedTable::aligned("lrr", ["TCP segments", "announced", "received there"]);
            let mut row = |end: &str, announced: Option<u32>, received: Option<(u32, bool)>| {
                let announced = announced.map_or_else(|| "?".into(), |bytes| format!("{bytes} B"));
                let received = match received {
                    None => "?".into(),
                    Some((bytes, true)) => format!("{bytes} B"),
                    Some((bytes, false)) => format!("{bytes} B or more"),
                };
                table.row([end.to_owned(), announced, received]);
            };
            let (near, far) = (segments.near, segments.far);
            row("this end", Some(near.announced), far.map(|far| (far.received, far.exactly)));
            row("the far end", far.map(|far| far.announced), Some((near.received, near.exactly)));
            table.write(&mut text);
        }
        text + &conclusion(&self.found, &self.notes)
    }
}

impl WebReport {
    /// The report as a table.
    pub fn text(&self) -> String {
        let end = if self.complete { "" } else { ", not to the end" };
        let rows = [
            ("connection", Some(time(self.connect_s))),
            ("first octet", self.first_byte_s.map(time)),
            ("in all", Some(time(self.total_s))),
            ("octets", Some(format!("{}{end}", self.bytes))),
            ("rate", self.rate.map(rate)),
            ("rate after 1 s", self.rate_after_first_second.map(rate)),
        ];
        let mut text = format!("web {} at {}\n\n", self.url, self.address);
        let mut table = AlignedTable::list("ll");
        for (name, value) in rows {
            table.row([name.to_owned(), value.unwrap_or_else(|| "undefined".into())]);
        }
        table.write(&mut text);
        text + &conclusion(&self.found, &self.notes)
    }
}

impl TraceReport {
    /// The report with one or two lines for each hop.
    pub fn text(&self) -> String {
        let ports = self.ports.map_or_else(String::new, |[from, to]| format!(", port {from} to {to}"));
        let what = format!("trace {} by {}{ports}", self.target, self.method);
        let mut text = heading(&what, &self.faults, self.interrupted);
        let addresses: Vec<String> = self.hops.iter().map(TraceHop::addresses_text).collect();
        let width = addresses.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        self.hops.iter().zip(addresses).for_each(|(hop, addresses)| text += &hop.text(&addresses, width));
        text + &conclusion(&self.found, &self.notes) + &self.stamps.text()
    }
}

impl TraceHop {
    /// The addresses of a hop: `10.0.0.1`, or `10.0.0.1 (2), 10.0.0.5 (1)` with the number of answers. Each has its
    /// MPLS labels.
    fn addresses_text(&self) -> String {
        let several = self.addresses.len() > 1;
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
        if self.addresses.is_empty() {
            "*".into()
        } else {
            self.addresses.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    }

    /// The line of a hop: addresses, round-trip times, why the target is unreachable from there, and the rate of the
    /// link before the hop.
    fn text(&self, addresses: &str, width: usize) -> String {
        let unit = Unit::fitting("s", self.round_trips.iter().copied().flatten());
        let trip = |seconds: &f64| unit.behind(&plain(unit.convert(*seconds)));
        let fill = " ".repeat(width - addresses.chars().count());
        let mut text = format!("{:>3}  {addresses}{fill}", self.ttl);
        for seconds in &self.round_trips {
            text += &format!("  {:>10}", seconds.as_ref().map_or_else(|| "*".to_owned(), trip));
        }
        self.unreachable.iter().for_each(|why| text += &format!("  {why}"));
        text = format!("{}\n", text.trim_end());
        if let Some(speed) = self.measures.iter().find(|measure| measure.name == "speed") {
            let (value, interval) = speed.text();
            let least = speed.low.map_or_else(String::new, |low| format!("{} or more: ", rate(low)));
            let speed = match &speed.undefined {
                None => format!("{value} {interval}"),
                Some(why) => format!("{least}{why}"),
            };
            text += &format!("     link before: {speed}\n");
        }
        text
    }
}

impl FarEndTally {
    /// The counters as a JSON document.
    pub fn document(&self) -> Value {
        json!({
            "answered": self.answered, "unanswered": self.unanswered,
            "streams": self.streams, "failures": self.failures,
        })
    }

    /// The counters in lines.
    pub fn text(&self) -> String {
        let mut text =
            format!("{} STAMP packets answered, {} streams carried out\n", self.answered, self.streams);
        for (why, count) in &self.unanswered.0 {
            text += &format!("{count} STAMP packets not answered: {why}\n");
        }
        for (why, count) in &self.failures.0 {
            text += &format!("{count} probes refused or aborted: {why}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_and_its_interval_share_a_unit() {
        let mut measure = Measure::exact("delay_p50", "s", Some(0.0012), 9);
        (measure.low, measure.high) = (Some(0.0009), None);
        assert_eq!(measure.text(), ("1.2 ms".into(), "[0.9, –]".into()));
        let lost = Measure::undefined("delay_p99", "s", "lost");
        assert_eq!(lost.text(), ("undefined".into(), String::new()));
    }
}
