//! The results of `netrig speed` for a line, compared with the line's own counts. The tests need root on Linux;
//! otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;

use netrig_core::protocol::{TCP, UDP};
use netrig_core::{DropReason, Step};
use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::machine::can;
use crate::common::speed_lab::{Line, Seen, SpeedLab, Trace};

/// Maximum number of measurements of a line.
const ATTEMPTS: usize = 4;

/// Length of the IP packet of an echo, bytes: 40 of a preamble, 32 of content, 28 of headers.
const ECHO: u32 = 100;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// The directions: whether it leads to the client, and its name.
const WAYS: [(bool, &str); 2] = [(true, "down"), (false, "up")];

/// The phase of a document with this carrier in this direction.
fn phase<'a>(document: &'a Value, carrier: &str, way: &str) -> &'a Value {
    let phases = document["phases"].as_array().expect("there are phases");
    let found = phases.iter().find(|phase| phase["way"] == way && !phase["carrier"][carrier].is_null());
    found.unwrap_or_else(|| panic!("no {carrier} {way}: {document:#}"))
}

/// A row of the table: the measured value, the true value, and whether the difference is permitted.
struct Row {
    what: String,
    told: f64,
    truth: f64,
    holds: bool,
}

impl Row {
    fn within(what: String, told: f64, truth: f64, share: f64, apart: f64) -> Self {
        let holds = (told - truth).abs() <= (share * truth.abs()).max(apart);
        Self { what, told, truth, holds }
    }
}

/// The rate of payload that the line has delivered in one direction, bit/s. `header` is the length of all headers of a
/// packet, bytes. `from` and `until` are seconds after the first packet. Packets of the control connection, which has
/// the client port `control`, are not counted.
fn delivered(
    trace: &Trace,
    (protocol, header): (u8, u32),
    control: u16,
    down: bool,
    [from, until]: [f64; 2],
) -> f64 {
    let is_data = |seen: &&Seen| {
        let flow = &seen.flow;
        seen.down == down
            && flow.protocol == protocol
            && ![flow.src_port, flow.dst_port].contains(&control)
            && seen.step == Step::Delivered
            && seen.len > 1000
    };
    let mut data =
        trace.0.iter().filter(is_data).map(|seen| (seen.at.as_secs_f64(), f64::from(seen.len - header)));
    let (first, _) = data.next().expect("something was delivered");
    let within = first + from..first + until;
    let bytes: f64 = data.filter(|(at, _)| within.contains(at)).map(|(_, bytes)| bytes).sum();
    bytes * 8.0 / (until - from)
}

/// The time of the last sample before data arrived, s.
fn until_data(phase: &Value) -> f64 {
    let column = |name: &str| phase["series"][name].as_array().expect("a column").iter().map(number);
    column("at_s")
        .zip(column("bytes"))
        .take_while(|(_, bytes)| *bytes == 0.0)
        .last()
        .map_or(0.0, |(at_s, _)| at_s)
}

/// A text with the first and the last time of data of each TCP connection in one direction, s, and its bytes. It helps
/// to investigate a failed comparison.
fn conversations(trace: &Trace, down: bool) -> String {
    let mut found: BTreeMap<_, [f64; 3]> = BTreeMap::new();
    let data = |seen: &&Seen| {
        seen.down == down && seen.flow.protocol == TCP && seen.step == Step::Delivered && seen.len > 1000
    };
    for seen in trace.0.iter().filter(data) {
        let at = seen.at.as_secs_f64();
        let of = found.entry((seen.flow.src_port, seen.flow.dst_port)).or_insert([at, at, 0.0]);
        *of = [of[0], at, of[2] + f64::from(seen.len)];
    }
    let told = |((src, dst), [from, until, bytes]): (&(u16, u16), &[f64; 3])| {
        format!("{src} to {dst}: {bytes} B, {from:.3} to {until:.3} s")
    };
    found.iter().map(told).collect::<Vec<_>>().join("; ")
}

/// The client port of the control connection.
fn control(document: &Value) -> u16 {
    let client: SocketAddr = document["client"].as_str().and_then(|at| at.parse().ok()).expect("an address");
    client.port()
}

/// Sends datagrams at more than the line's rate. Returns the document, and the length of their IP packets, which no
/// other packets have.
fn overload(lab: &SpeedLab, line: Line, down: bool, way: &str) -> (Value, u32) {
    let mbit = line.mbit[usize::from(!down)];
    let size = if mbit < 10.0 { 507 } else { 1407 } + u32::from(down);
    let [rate, size_word, way] =
        [format!("{:.0}kbit/s", mbit * 1150.0), format!("{size}B"), format!("--{way}")];
    (lab.measure(&[], &["--udp", &rate, "--size", &size_word, &way, "--time", "4s"]), size + 28)
}

/// Compares the number of lost datagrams with that of packets dropped on the line, and the added delay of echoes with
/// their waiting times in the queue while it was full.
fn overloaded(document: &Value, trace: &Trace, down: bool, way: &str, len: u32) -> [Row; 2] {
    let udp = phase(document, "udp", way);
    let own = || {
        trace.0.iter().filter(move |seen| seen.down == down && seen.flow.protocol == UDP && seen.len == len)
    };
    let dropped = own().filter(|seen| matches!(seen.step, Step::Dropped(_))).count();
    // Drops at the client's own socket are reported separately from losses on the path.
    let came = &udp["receiver"]["datagrams"];
    let lost = number(&came["lost"]) - number(&came["dropped"]);
    let mut full = own().filter(|seen| seen.step == Step::Dropped(DropReason::QueueFull)).map(|seen| seen.at);
    let first = full.next().expect("the queue was full");
    let last = full.next_back().unwrap_or(first);
    let mut waits: Vec<_> = (trace.0.iter())
        .filter(|seen| seen.down == down && seen.len == ECHO && (first..=last).contains(&seen.at))
        .filter_map(|seen| match seen.step {
            Step::Sent { waited } => Some(waited.as_secs_f64()),
            _ => None,
        })
        .collect();
    waits.sort_by(f64::total_cmp);
    let added = number(&udp["delays"]["p50_s"]) - number(&document["idle"]["p50_s"]);
    [
        Row::within(format!("datagrams lost {way}"), lost, dropped as f64, 0.0, 0.0),
        Row::within(format!("delay added {way}, s"), added, waits[waits.len() / 2], 0.1, 1e-4),
    ]
}

/// Measures a line, and compares the results with the line's counts. If frames were lost outside the line, its counts
/// are not the truth, and the measurement is repeated.
fn cell(line: Line) -> Vec<Row> {
    let mut lost = Vec::new();
    for _ in 0..ATTEMPTS {
        let (rows, faults) = attempt(line);
        // Late frames do not falsify the comparison, because the trace has their actual times.
        let (late, others): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault| fault.contains(" late; "));
        if !late.is_empty() {
            let _ = writeln!(std::io::stderr(), "# {line:?}: {}", late.join("; "));
        }
        if others.is_empty() {
            return rows;
        }
        let _ = writeln!(std::io::stderr(), "# {line:?} is measured again: {}", others.join("; "));
        lost = others;
    }
    panic!("this machine cannot be {line:?}: {}", lost.join("; "));
}

fn attempt(line: Line) -> (Vec<Row>, Vec<String>) {
    let mut lab = SpeedLab::build(line);
    lab.serve(&[]);
    // On a slow line the measurement is longer; otherwise the data that are out of order after a single loss would
    // exceed 2 %.
    let lasts = match line.mbit[1] {
        ..0.5 => "40s",
        0.5..2.0 => "20s",
        _ => "6s",
    };
    let document = lab.measure(&[], &["--time", lasts, "--congestion", "cubic"]);
    let overloads = WAYS.map(|(down, way)| overload(&lab, line, down, way));
    let (trace, faults) = lab.close();
    let name = format!(
        "{}/{} Mbit/s, {} ms, {} % lost",
        line.mbit[0],
        line.mbit[1],
        line.delay_ms,
        line.loss * 100.0
    );
    let mut rows = Vec::new();
    for ((down, way), (document, len)) in WAYS.into_iter().zip(&overloads) {
        let [lost, added] = overloaded(document, &trace, down, way, *len);
        rows.extend([lost, added].map(|row| Row { what: format!("{name}: {}", row.what), ..row }));
    }
    for (down, way) in WAYS {
        // In both directions, packets are lost after the queue.
        let capacity = line.mbit[usize::from(!down)] * (1.0 - line.loss);
        let found = &phase(&document, "udp", way)["capacity"];
        let told = number(&found["layers"]["ip"]) / 1e6;
        let by = if found["by_hosts"] == true { " (by a host)" } else { "" };
        rows.push(Row::within(format!("{name}: capacity {way}, Mbit/s{by}"), told, capacity, 0.01, 0.0));
        let tcp = phase(&document, "tcp", way);
        let throughput = &tcp["throughput"];
        let told = number(&throughput["bits_per_s"]);
        // The client's times start when it requests data. The data arrive a round-trip time later, or after a
        // retransmission of the request. The times of the server start when data arrive.
        let later = if down { number(&document["idle"]["p50_s"]).max(until_data(tcp)) } else { 0.0 };
        // Data that are out of order in the receiver at the time of a reading are counted in the next reading.
        let window = ["warm_up_s", "lasted_s"].map(|key| number(&throughput[key]) - later);
        let truth = delivered(&trace, (TCP, 52), control(&document), down, window);
        let again = 100.0 * number(&tcp["connections"]["sent_again"]);
        let what = format!("{name}: goodput {way}, bit/s ({again:.1} % again)");
        let row = Row::within(what, told, truth, 0.02, 0.0);
        if !row.holds {
            let _ = writeln!(std::io::stderr(), "# {window:?} of: {}", conversations(&trace, down));
        }
        rows.push(row);
    }
    (rows, faults)
}

/// Prints rows as a table directly to stderr. Returns the number of rows whose difference is not permitted.
fn told(rows: &[Row]) -> usize {
    let mut err = std::io::stderr();
    for row in rows {
        let sign = if row.holds { " " } else { "!" };
        let apart = 100.0 * (row.told / row.truth - 1.0);
        let _ =
            writeln!(err, "{sign} {:<64} {:>14.4} {:>14.4} {apart:>+8.2} %", row.what, row.told, row.truth);
    }
    rows.iter().filter(|row| !row.holds).count()
}

#[test]
fn a_line_is_told_as_it_is() {
    skip_unless!(can(&["ip"]));
    let line = Line { mbit: [10.0, 10.0], delay_ms: 1.0, queue_ms: 50.0, loss: 0.0 };
    assert_eq!(told(&cell(line)), 0);
}

mod validate {
    use super::*;

    #[test]
    #[ignore = "40 s: make validate runs it"]
    fn a_long_lossy_and_asymmetric_line_is_told_as_it_is() {
        skip_unless!(can(&["ip"]));
        let line = Line { mbit: [100.0, 12.5], delay_ms: 40.0, queue_ms: 50.0, loss: 0.01 };
        assert_eq!(told(&cell(line)), 0);
    }
}

/// All rates, delays, losses and ratios for which the documentation states an accuracy. The test takes half an hour and
/// needs an idle machine.
#[test]
#[ignore = "half an hour: bench/speed-truth runs it"]
fn every_line_is_told_as_it_is() {
    skip_unless!(can(&["ip"]));
    let rates = std::env::var("SPEED_TRUTH_MBIT").unwrap_or_else(|_| "1 10 100 900".to_owned());
    let mut rows = Vec::new();
    for mbit in rates.split_whitespace().map(|rate| rate.parse().expect("a rate, Mbit/s")) {
        for delay_ms in [1.0, 40.0] {
            for loss in [0.0, 0.01] {
                for up in [mbit, mbit / 8.0] {
                    let line = Line { mbit: [mbit, up], delay_ms, queue_ms: 50.0, loss };
                    let told = cell(line);
                    self::told(&told);
                    rows.extend(told);
                }
            }
        }
    }
    assert_eq!(rows.iter().filter(|row| !row.holds).count(), 0);
}

/// netrig's SCTP over UDP: the headers of IP, UDP, SCTP and the DATA chunk have 56 bytes. A packet that also has a SACK
/// has more.
#[test]
fn associations_get_what_the_line_has_delivered() {
    skip_unless!(can(&["ip"]));
    let mut lab = SpeedLab::build(Line { mbit: [10.0, 10.0], delay_ms: 5.0, queue_ms: 50.0, loss: 0.0 });
    lab.serve(&[]);
    let document = lab.measure(&[], &["--sctp", "-P2", "--time", "5s", "--no-rpm"]);
    let (trace, _) = lab.close();
    let mut rows = Vec::new();
    for (down, way) in WAYS {
        let throughput = &phase(&document, "sctp", way)["throughput"];
        let told = number(&throughput["bits_per_s"]);
        let window = ["warm_up_s", "lasted_s"].map(|key| number(&throughput[key]));
        let truth = delivered(&trace, (UDP, 56), control(&document), down, window);
        rows.push(Row::within(format!("goodput of associations {way}, bit/s"), told, truth, 0.02, 0.0));
    }
    for verdict in document["verdicts"].as_array().expect("verdicts") {
        assert_eq!(verdict["limit"]["kind"], "line", "{verdict}");
    }
    assert_eq!(told(&rows), 0);
}

/// The client's interface goes down while data arrive, and stays down. The results until then are printed as partial,
/// with the reason.
#[test]
fn a_line_that_goes_away_leaves_what_was_measured() {
    skip_unless!(can(&["ip"]));
    let mut lab = SpeedLab::build(Line { mbit: [10.0, 10.0], delay_ms: 5.0, queue_ms: 50.0, loss: 0.0 });
    lab.serve(&[]);
    // Data are sent for 3 s in each direction. The interface goes down after 5 s.
    lab.set(
        "client",
        "(sleep 5; for link in /sys/class/net/*; do ip link set ${link##*/} down; done) >&- 2>&- &",
    );
    let begun = std::time::Instant::now();
    let document = lab.measure(&[], &["--time", "3s", "--only", "connections", "--no-rpm"]);
    assert_eq!(document["partial"], true, "{document:#}");
    let why = document["broken"].as_str().expect("it says why");
    assert!(why.contains("the control connection") || why.contains("no longer answers"), "{why}");
    let down = number(&phase(&document, "tcp", "down")["throughput"]["bits_per_s"]);
    assert!((8e6..10e6).contains(&down), "{document:#}");
    // The client does not wait forever for an unreachable server.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    lab.close();
}

/// With datagrams at more than the line's rate, the number of lost datagrams is that of packets dropped on the line,
/// and the delays of echoes are those of the line.
#[test]
fn losses_and_delays_are_the_lines_own() {
    skip_unless!(can(&["ip"]));
    let line = Line { mbit: [10.0, 10.0], delay_ms: 5.0, queue_ms: 40.0, loss: 0.0 };
    let mut lab = SpeedLab::build(line);
    lab.serve(&[]);
    let (document, len) = overload(&lab, line, true, "down");
    let (trace, _) = lab.close();
    assert_eq!(told(&overloaded(&document, &trace, true, "down", len)), 0);
}
