//! The report as a table.

use std::fmt::Write as _;

use netrig_core::number::{counted, measured_share, rate, time};

use super::{LineCapacity, PhaseReport, SpeedReport};
use crate::meter::{Delays, OneWay, Throughput, TooShort};
use crate::protocol::{Carrier, DataDirection, DatagramLoad, Datagrams};
use crate::responsiveness::{ProbeTimes, Responsiveness};

impl SpeedReport {
    /// The report as a table.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |words: &str| writeln!(text, "{}", words.trim_end()).unwrap_or_default();
        line(&format!("speed to {}", self.server));
        if self.partial {
            let why = self.broken.as_deref().unwrap_or("interrupted");
            line(&format!("  partial, the measurement ended early: {why}"));
        }
        let quiet =
            [("idle before", &self.idle, &self.idle_ways), ("idle after", &self.after, &self.after_ways)];
        for (when, measured, ways) in quiet {
            if let Some(measured) = measured {
                line(&format!("  {when:<12}{}", delays(measured)));
            }
            one_way(ways.as_ref()).iter().for_each(|words| line(&format!("  {words}")));
        }
        if let Some(why) = self.no_ways {
            line(&format!("  one way     unknown: {why}"));
        }
        if let Some(most) = self.held_to {
            line(&format!("  server      allows a session {} of payload each way", rate(most)));
        }
        for phase in &self.phases {
            line("");
            line(&format!("{}, {}", phase.way.name(), by(phase)));
            for words in lines(phase) {
                line(&format!("  {words}"));
            }
        }
        for verdict in &self.verdicts {
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
}

/// A phrase that states what carried the load of a phase.
fn by(phase: &PhaseReport) -> String {
    let both = if phase.carrier.way() == Some(DataDirection::Both) { " that carry both ways" } else { "" };
    let what = match &phase.carrier {
        Carrier::Idle => "nothing".to_owned(),
        Carrier::Tcp { streams, .. } => counted((*streams).into(), "connection", "connections"),
        Carrier::Sctp { streams, .. } => {
            format!("{} of SCTP over UDP", counted((*streams).into(), "association", "associations"))
        }
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
    if let Some(measured) = &phase.connections {
        lines.extend(measured.sent_again.map(|share| format!("sent again  {}", measured_share(share))));
        lines.extend(measured.window_limited.zip(measured.buffer_limited).map(|(window, buffer)| {
            format!(
                "held back   by the receive window {}, by the send buffer {} of the time",
                measured_share(window),
                measured_share(buffer)
            )
        }));
    }
    if let Some(measured) = &phase.transfer {
        let ratio = measured.transfer_time_ratio.map(|ratio| format!("transfer time ratio {ratio:.2}, "));
        let delay = measured.buffer_delay.map(|delay| format!(", buffer delay {}", measured_share(delay)));
        let efficiency = format!("efficiency {}", measured_share(measured.efficiency));
        let words = [ratio.unwrap_or_default(), efficiency, delay.unwrap_or_default()].concat();
        lines.push(format!("RFC 6349    {words}"));
        lines.extend(measured.fault().map(|fault| format!("            {fault}")));
    }
    if let (Some(sent), Some(received), None) =
        (phase.sender.datagrams, phase.receiver.datagrams, &phase.capacity)
    {
        lines.push(lost(&sent, &received));
    }
    let set = phase.receiver.datagrams.and_then(|received| received.clock_set_s);
    lines.extend(set.map(|set| {
        format!(
            "clock       the receiver's clock was set, by up to {set:.3} s: the delays of that moment are left out"
        )
    }));
    lines.extend(phase.added_delay.map(|measured| {
        let [least, mean, most] = [measured.least_s, measured.mean_s, measured.most_s].map(time);
        format!("added delay {mean} (mean), {least} at least, {most} at most, above the shortest datagram's")
    }));
    lines.extend(phase.loaded.map(|measured| {
        let [p50, p95, p99] = [measured.p50_s, measured.p95_s, measured.p99_s].map(time);
        format!("loaded      {p50} (p50), {p95} (p95), {p99} (p99): smoothed round trips of the loaded connections")
    }));
    lines.extend(phase.delays.as_ref().map(|measured| format!("round trip  {}", delays(measured))));
    lines.extend(one_way(phase.ways.as_ref()));
    lines.extend(phase.responsiveness.as_ref().map(responsiveness).into_iter().flatten());
    lines.extend(phase.no_responsiveness.map(|why| format!("responsive  unknown: {why}")));
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
        "instability {}, longest stall {}{steady}",
        measured_share(throughput.instability),
        time(throughput.longest_stall_s)
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
        "capacity    unknown: too little arrived".to_owned()
    }];
    if capacity.by_hosts {
        lines.push("hosts       one of them was the limit, not the line".to_owned());
    }
    if !capacity.complete {
        lines.push("partial     the search did not finish".to_owned());
    }
    if let (true, Some(beneath)) = (found.saturated, found.loss_beneath) {
        lines.push(format!(
            "lost        {} a little above it, {} of {} a little below",
            measured_share(found.loss_above),
            measured_share(beneath),
            found.sent_beneath
        ));
    }
    lines
}

fn lost(sent: &Datagrams, received: &Datagrams) -> String {
    let share = measured_share(received.lost as f64 / (sent.sent.max(1)) as f64);
    // iperf3 servers report the number of lost datagrams but not the pattern of losses.
    let periods = received.loss_periods.map(|measured| {
        let periods = counted(measured.periods, "period", "periods");
        format!(" in {periods}, {} at most in a row", measured.longest)
    });
    // iperf3 servers do not report reordered and duplicated datagrams either.
    let order = received.reordered.zip(received.duplicated);
    let order = order.map(|(reordered, twice)| format!("; {reordered} reordered, {twice} twice"));
    let jitter = received.jitter_s.map(|jitter| format!("; jitter {}", time(jitter)));
    let more = [periods, order, jitter].map(Option::unwrap_or_default).concat();
    format!("lost        {} of {} ({share}){more}", received.lost, sent.sent)
}

/// One-way delays of both directions in a line.
fn one_way(measured: Option<&OneWay>) -> Option<String> {
    let measured = measured?;
    let bound = if measured.bound_s > 0.0 {
        format!("; each may be wrong by {}", time(measured.bound_s))
    } else {
        String::new()
    };
    let way = |of: &Delays| [of.p50_s, of.p95_s, of.p99_s].map(seconds).join(", ");
    let (up, down) = (way(&measured.up), way(&measured.down));
    Some(format!("one way     up {up}; down {down} (p50, p95, p99){bound}"))
}

/// Round trips per minute, and the medians from which they are computed.
fn responsiveness(measured: &Responsiveness) -> Vec<String> {
    let rpm = |value: Option<f64>| value.map_or_else(|| "undefined".to_owned(), |rpm| format!("{rpm:.0}"));
    let median = |trips: &ProbeTimes| seconds(trips.delays.p50_s);
    let all = measured.connect.delays;
    let mut lines = vec![format!(
        "responsive  {} RPM ({} on new connections, {} on loaded ones); {} of medians, {} of p95",
        rpm(measured.rpm.both),
        rpm(measured.rpm.foreign),
        rpm(measured.rpm.loaded),
        rpm(measured.rpm_p50.both),
        rpm(measured.rpm_p95.both)
    )];
    let loaded = measured.loaded.as_ref().map_or_else(|| "undefined".to_owned(), median);
    lines.push(format!(
        "            medians: TCP {}, TLS {}, answer {}; loaded {loaded}; {} of {} probes lost",
        median(&measured.connect),
        median(&measured.secure),
        median(&measured.answer),
        all.lost,
        all.sent
    ));
    lines
}

/// A sentence on why a phase was too short for its line.
fn too_short(measured: &TooShort) -> String {
    let why = match (measured.unacknowledged, measured.round_trip_s) {
        (0, Some(round_trip_s)) => {
            format!("a round trip under load took up to {}", time(round_trip_s))
        }
        (some, _) => format!("no data was acknowledged on {some} of {} connections", measured.connections),
    };
    format!(
        "too short   in {} {why}: the result shows how connections begin, and not how they behave under load; take --time {}s",
        time(measured.lasted_s),
        measured.enough_s
    )
}

/// A time in a suitable unit, or `lost` for a lost packet.
fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| "lost".to_owned(), time)
}

/// Round trips in a line.
fn delays(measured: &Delays) -> String {
    format!(
        "{} (p50), {} (p95), {} (p99), {} at least; {} of {} lost",
        seconds(measured.p50_s),
        seconds(measured.p95_s),
        seconds(measured.p99_s),
        seconds(measured.least_s),
        measured.lost,
        measured.sent
    )
}

#[cfg(test)]
mod tests {
    use netrig_bulk::LossPeriods;

    use super::*;

    #[test]
    fn of_datagrams_no_more_is_said_than_was_counted() {
        let sent = Datagrams { sent: 200, ..Datagrams::default() };
        let there = Datagrams { received: 199, lost: 1, jitter_s: Some(0.000_25), ..Datagrams::default() };
        assert_eq!(lost(&sent, &there), "lost        1 of 200 (0.5 %); jitter 250 µs");
        let loss_periods = Some(LossPeriods { lost: 1, periods: 1, longest: 1, noticeable: 0 });
        let order = (Some(2), Some(0));
        let here =
            Datagrams { loss_periods, reordered: order.0, duplicated: order.1, jitter_s: None, ..there };
        assert_eq!(
            lost(&sent, &here),
            "lost        1 of 200 (0.5 %) in 1 period, 1 at most in a row; 2 reordered, 0 twice"
        );
    }
}
