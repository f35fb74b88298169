//! What was measured, as a table for people.

use std::fmt::Write as _;

use netrig_report::number::{Unit, plain};
use netrig_speed::measure::{PhaseReport, Report};
use netrig_speed::meter::Delays;
use netrig_speed::protocol::{Carrier, Way};

/// All that a report says.
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |words: &str| writeln!(text, "{}", words.trim_end()).unwrap_or_default();
    line(&format!("speed to {}", report.server));
    if report.partial {
        line("  ended before its time: what had been measured until then");
    }
    if let Some(idle) = &report.idle {
        line("");
        line(&format!("idle: {}", delays(idle)));
    }
    for phase in &report.phases {
        line("");
        let by = match &phase.carrier {
            Carrier::Idle => String::new(),
            Carrier::Tcp { streams: 1, .. } => "1 connection".to_owned(),
            Carrier::Tcp { streams, .. } => format!("{streams} connections"),
            Carrier::Udp { size, .. } => format!("datagrams of {size} B"),
        };
        line(&format!("{}, {by}", way(phase.way)));
        for words in lines(phase) {
            line(&format!("  {words}"));
        }
    }
    text
}

fn lines(phase: &PhaseReport) -> Vec<String> {
    let Some(throughput) = &phase.throughput else { return vec!["nothing arrived".to_owned()] };
    let mut lines = vec![format!(
        "goodput     {}, after {:.1} s of warm-up ({} on the whole)",
        rate(throughput.bits_per_s),
        throughput.warm_up_s,
        rate(throughput.whole_bits_per_s)
    )];
    if let Some(layers) = &phase.layers {
        let [transport, ip, ethernet] = [layers.transport, layers.ip, layers.ethernet].map(rate);
        let name = if matches!(phase.carrier, Carrier::Udp { .. }) { "UDP" } else { "TCP" };
        lines.push(format!("with headers {transport} {name}, {ip} IP, {ethernet} as Ethernet"));
    }
    let steady = if throughput.steady { "" } else { "; not steady: measure for longer" };
    lines.push(format!(
        "instability {:.1} %, longest stall {:.1} s{steady}",
        throughput.instability * 100.0,
        throughput.longest_stall_s
    ));
    if let Some(again) = phase.sent_again {
        lines.push(format!("sent again  {:.3} %", again * 100.0));
    }
    if let (Some(sent), Some(came)) = (phase.sender.datagrams, phase.receiver.datagrams) {
        let share = 100.0 * came.losses.lost as f64 / (sent.sent.max(1)) as f64;
        lines.push(format!(
            "lost        {} of {} ({share:.3} %) in {} periods, {} at most in a row; {} reordered, {} twice",
            came.losses.lost,
            sent.sent,
            came.losses.periods,
            came.losses.longest,
            came.reordered,
            came.duplicated
        ));
    }
    lines.extend(phase.delays.as_ref().map(|told| format!("round trip  {}", delays(told))));
    lines
}

/// Round trips in a line.
fn delays(told: &Delays) -> String {
    let seconds = |value: Option<f64>| match value {
        Some(value) => {
            let unit = Unit::fitting("s", [value]);
            format!("{} {}", plain(unit.convert(value)), unit.name())
        }
        None => "lost".to_owned(),
    };
    format!(
        "{} (p50), {} (p95), {} (p99), {} at least; {} of {} lost",
        seconds(told.p50_s),
        seconds(told.p95_s),
        seconds(told.p99_s),
        seconds(told.least_s),
        told.lost,
        told.sent
    )
}

/// Bits per second in the unit that suits it.
pub fn rate(bits_per_s: f64) -> String {
    let (size, unit) = match bits_per_s {
        rate if rate >= 1e9 => (1e9, "Gbit/s"),
        rate if rate >= 1e6 => (1e6, "Mbit/s"),
        rate if rate >= 1e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    };
    format!("{:.2} {unit}", bits_per_s / size)
}

/// Which way, in a word.
pub const fn way(way: Way) -> &'static str {
    match way {
        Way::Up => "upload",
        Way::Down => "download",
        Way::Both => "both ways",
    }
}
