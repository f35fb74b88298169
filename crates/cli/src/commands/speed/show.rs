//! A measurement as a table for people.

use std::fmt::Write as _;

use netrig_core::number::{Unit, plain};
use netrig_speed::measure::{LineCapacity, PhaseReport, SpeedReport};
use netrig_speed::meter::{Delays, OneWay, Throughput, TooShort};
use netrig_speed::protocol::{Carrier, DataDirection, DatagramLoad, Datagrams};
use netrig_speed::responsiveness::{ProbeTimes, Responsiveness};

/// The whole report.
pub fn table(report: &SpeedReport) -> String {
    let mut text = String::new();
    let mut line = |words: &str| writeln!(text, "{}", words.trim_end()).unwrap_or_default();
    line(&format!("speed to {}", report.server));
    if report.partial {
        let why = report.broken.as_deref().unwrap_or("interrupted");
        line(&format!("  partial, the measurement ended early: {why}"));
    }
    let quiet =
        [("idle before", &report.idle, &report.idle_ways), ("idle after", &report.after, &report.after_ways)];
    for (when, measured, ways) in quiet {
        if let Some(measured) = measured {
            line(&format!("  {when:<12}{}", delays(measured)));
        }
        one_way(ways.as_ref()).iter().for_each(|words| line(&format!("  {words}")));
    }
    if let Some(why) = report.no_ways {
        line(&format!("  one way     not known: {why}"));
    }
    if let Some(most) = report.held_to {
        line(&format!("  server      allows a session {} of payload each way", rate(most)));
    }
    for phase in &report.phases {
        line("");
        line(&format!("{}, {}", way(phase.way), by(phase)));
        for words in lines(phase) {
            line(&format!("  {words}"));
        }
    }
    for verdict in &report.verdicts {
        line("");
        let mut sentence = verdict.sentence.chars();
        let first = sentence.next().into_iter().flat_map(char::to_uppercase);
        line(&format!("{}: {}.", first.chain(sentence).collect::<String>(), verdict.proof));
        if let Some(advice) = &verdict.advice {
            line(&format!("  To mend it: {advice}."));
        }
    }
    text
}

/// What carried the load of a phase.
fn by(phase: &PhaseReport) -> String {
    let both = if phase.carrier.way() == Some(DataDirection::Both) { " that carry both ways" } else { "" };
    let what = match &phase.carrier {
        Carrier::Idle => "nothing".to_owned(),
        Carrier::Tcp { streams: 1, .. } => "1 connection".to_owned(),
        Carrier::Tcp { streams, .. } => format!("{streams} connections"),
        Carrier::Sctp { streams: 1, .. } => "1 association of SCTP over UDP".to_owned(),
        Carrier::Sctp { streams, .. } => format!("{streams} associations of SCTP over UDP"),
        Carrier::Udp { size, load: DatagramLoad::Told, .. } => {
            return format!("capacity of the line for datagrams of {size} B");
        }
        Carrier::Udp { size, .. } => format!("datagrams of {size} B"),
    };
    format!("{what}{both}")
}

fn lines(phase: &PhaseReport) -> Vec<String> {
    let mut lines = match (&phase.capacity, &phase.throughput) {
        (Some(capacity), _) => capacity_lines(capacity),
        (None, Some(throughput)) => throughput_lines(phase, throughput),
        (None, None) => vec!["almost nothing arrived".to_owned()],
    };
    if let Some(told) = &phase.connections {
        lines.extend(told.sent_again.map(|share| format!("sent again  {:.3} %", share * 100.0)));
        lines.extend(told.window_limited.zip(told.buffer_limited).map(|(window, buffer)| {
            format!(
                "held back   by the receive window {:.0} %, by the send buffer {:.0} % of the time",
                window * 100.0,
                buffer * 100.0
            )
        }));
    }
    if let Some(told) = &phase.transfer {
        let ratio = told.transfer_time_ratio.map(|ratio| format!("transfer time ratio {ratio:.2}, "));
        let delay = told.buffer_delay.map(|delay| format!(", buffer delay {:.0} %", delay * 100.0));
        let efficiency = format!("efficiency {:.2} %", told.efficiency * 100.0);
        let words = [ratio.unwrap_or_default(), efficiency, delay.unwrap_or_default()].concat();
        lines.push(format!("RFC 6349    {words}"));
        lines.extend(told.fault().map(|fault| format!("            {fault}")));
    }
    if let (Some(sent), Some(came), None) =
        (phase.sender.datagrams, phase.receiver.datagrams, &phase.capacity)
    {
        lines.push(lost(&sent, &came));
    }
    let set = phase.receiver.datagrams.and_then(|came| came.clock_set_s);
    lines.extend(set.map(|set| {
        format!("clock       the receiver's clock was set, by up to {set:.3} s: delays of that moment are left out")
    }));
    lines.extend(phase.added_delay.map(|told| {
        let [least, mean, most] = [told.least_s, told.mean_s, told.most_s].map(|value| seconds(Some(value)));
        format!("added delay {mean} (mean), {least} at least, {most} at most, above the shortest datagram's")
    }));
    lines.extend(phase.loaded.map(|told| {
        let [p50, p95, p99] = [told.p50_s, told.p95_s, told.p99_s].map(|value| seconds(Some(value)));
        format!("loaded      {p50} (p50), {p95} (p95), {p99} (p99): smoothed round trips of the loaded connections")
    }));
    lines.extend(phase.delays.as_ref().map(|told| format!("round trip  {}", delays(told))));
    lines.extend(one_way(phase.ways.as_ref()));
    lines.extend(phase.responsiveness.as_ref().map(responsiveness).into_iter().flatten());
    lines.extend(phase.no_responsiveness.map(|why| format!("responsive  not known: {why}")));
    lines.extend(phase.too_short.as_ref().map(too_short));
    for (end, report) in [("sender", &phase.sender), ("receiver", &phase.receiver)] {
        lines.extend(report.faults.iter().map(|fault| format!("{end:<12}{fault}")));
    }
    lines
}

fn throughput_lines(phase: &PhaseReport, throughput: &Throughput) -> Vec<String> {
    let mut lines = vec![format!(
        "goodput     {}, after {:.1} s of warm-up ({} on the whole)",
        rate(throughput.bits_per_s),
        throughput.warm_up_s,
        rate(throughput.whole_bits_per_s)
    )];
    if let Some(layers) = &phase.layers {
        let [transport, ip, ethernet] = [layers.transport, layers.ip, layers.ethernet].map(rate);
        let name = match phase.carrier {
            Carrier::Udp { .. } => "UDP",
            Carrier::Sctp { .. } => "SCTP over UDP",
            _ => "TCP",
        };
        lines.push(format!("layers      {transport} {name}, {ip} IP, {ethernet} as Ethernet"));
    }
    let steady = if throughput.steady { "" } else { "; not steady: measure for longer" };
    lines.push(format!(
        "instability {:.1} %, longest stall {:.1} s{steady}",
        throughput.instability * 100.0,
        throughput.longest_stall_s
    ));
    lines
}

fn capacity_lines(capacity: &LineCapacity) -> Vec<String> {
    let (found, layers) = (&capacity.found, &capacity.layers);
    let [payload, ethernet] = [layers.payload, layers.ethernet].map(rate);
    let least = if capacity.is_exact() { "" } else { "at least " };
    let mut lines = vec![if layers.payload > 0.0 {
        format!("capacity    {least}{} IP ({payload} of payload, {ethernet} as Ethernet)", rate(layers.ip))
    } else {
        "capacity    not known: too little arrived".to_owned()
    }];
    if capacity.by_hosts {
        lines.push("hosts       one of them was the limit, not the line".to_owned());
    }
    if !capacity.complete {
        lines.push("partial     the search did not finish".to_owned());
    }
    if let (true, Some(beneath)) = (found.saturated, found.loss_beneath) {
        lines.push(format!(
            "lost        {:.3} % a little above it, {:.3} % of {} a little below",
            found.loss_above * 100.0,
            beneath * 100.0,
            found.sent_beneath
        ));
    }
    lines
}

fn lost(sent: &Datagrams, came: &Datagrams) -> String {
    let share = 100.0 * came.lost as f64 / (sent.sent.max(1)) as f64;
    // iperf3's servers report the number of lost datagrams, but not their positions.
    let periods = came
        .loss_periods
        .map(|told| format!(" in {} periods, {} at most in a row", told.periods, told.longest));
    // For datagrams that they receive they report neither reordering nor duplicates.
    let order = came.reordered.zip(came.duplicated);
    let order = order.map(|(reordered, twice)| format!("; {reordered} reordered, {twice} twice"));
    let jitter = came.jitter_s.map(|jitter| format!("; jitter {}", seconds(Some(jitter))));
    let more = [periods, order, jitter].map(Option::unwrap_or_default).concat();
    format!("lost        {} of {} ({share:.3} %){more}", came.lost, sent.sent)
}

/// Both directions in a line.
fn one_way(told: Option<&OneWay>) -> Option<String> {
    let told = told?;
    let bound = if told.bound_s > 0.0 {
        format!("; each may be wrong by {}", seconds(Some(told.bound_s)))
    } else {
        String::new()
    };
    let way = |of: &Delays| [of.p50_s, of.p95_s, of.p99_s].map(seconds).join(", ");
    let (up, down) = (way(&told.up), way(&told.down));
    Some(format!("one way     up {up}; down {down} (p50, p95, p99){bound}"))
}

/// Round trips per minute: the draft's number, and its parts.
fn responsiveness(told: &Responsiveness) -> Vec<String> {
    let rpm = |value: Option<f64>| value.map_or_else(|| "undefined".to_owned(), |rpm| format!("{rpm:.0}"));
    let median = |trips: &ProbeTimes| seconds(trips.delays.p50_s);
    let all = told.connect.delays;
    let mut lines = vec![format!(
        "responsive  {} RPM ({} on new connections, {} on loaded ones); {} of medians, {} of p95",
        rpm(told.rpm.both),
        rpm(told.rpm.foreign),
        rpm(told.rpm.loaded),
        rpm(told.rpm_p50.both),
        rpm(told.rpm_p95.both)
    )];
    let loaded = told.loaded.as_ref().map_or_else(|| "undefined".to_owned(), median);
    lines.push(format!(
        "            medians: TCP {}, TLS {}, answer {}; loaded {loaded}; {} of {} probes lost",
        median(&told.connect),
        median(&told.secure),
        median(&told.answer),
        all.lost,
        all.sent
    ));
    lines
}

/// Why a phase was too short for its line.
fn too_short(told: &TooShort) -> String {
    let why = match (told.unacknowledged, told.round_trip_s) {
        (0, Some(round_trip_s)) => {
            format!("a round trip under load took up to {}", seconds(Some(round_trip_s)))
        }
        (some, _) => format!("no data was acknowledged on {some} of {} connections", told.connections),
    };
    format!(
        "too short   in {} {why}: this shows how connections begin, not how they perform under load; use --time {}s",
        seconds(Some(told.lasted_s)),
        told.enough_s
    )
}

/// A time in a suitable unit; `None` is the time of a lost packet.
fn seconds(value: Option<f64>) -> String {
    match value {
        Some(value) => {
            let unit = Unit::fitting("s", [value]);
            format!("{} {}", plain(unit.convert(value)), unit.name())
        }
        None => "lost".to_owned(),
    }
}

/// Round trips in a line.
fn delays(told: &Delays) -> String {
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

/// Bits per second in a suitable unit.
pub fn rate(bits_per_s: f64) -> String {
    let (size, unit) = match bits_per_s {
        rate if rate >= 1e9 => (1e9, "Gbit/s"),
        rate if rate >= 1e6 => (1e6, "Mbit/s"),
        rate if rate >= 1e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    };
    format!("{:.2} {unit}", bits_per_s / size)
}

/// The direction in words.
pub const fn way(way: DataDirection) -> &'static str {
    match way {
        DataDirection::Up => "upload",
        DataDirection::Down => "download",
        DataDirection::Both => "both ways",
    }
}

#[cfg(test)]
mod tests {
    use netrig_bulk::LossPeriods;

    use super::*;

    #[test]
    fn of_datagrams_no_more_is_said_than_was_counted() {
        let sent = Datagrams { sent: 200, ..Datagrams::default() };
        let there = Datagrams { received: 199, lost: 1, jitter_s: Some(0.000_25), ..Datagrams::default() };
        assert_eq!(lost(&sent, &there), "lost        1 of 200 (0.500 %); jitter 250 µs");
        let loss_periods = Some(LossPeriods { lost: 1, periods: 1, longest: 1, noticeable: 0 });
        let order = (Some(2), Some(0));
        let here =
            Datagrams { loss_periods, reordered: order.0, duplicated: order.1, jitter_s: None, ..there };
        assert_eq!(
            lost(&sent, &here),
            "lost        1 of 200 (0.500 %) in 1 periods, 1 at most in a row; 2 reordered, 0 twice"
        );
    }
}
