//! What `netrig speed` says of a line beside what the line itself has counted, and what it says limited it beside what was
//! planted. As root on Linux; elsewhere each test says that it was skipped.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of a program starts it and reads what it writes"
)]

#[path = "common/machine.rs"]
mod machine;
#[path = "common/speed_lab.rs"]
mod speed_lab;

use std::io::Write as _;

use machine::alone;
use netrig_core::Step;
use serde_json::Value;
use speed_lab::{Line, Seen, SpeedLab, Trace};

/// Length of an echo's IP packet, bytes: a preamble of 40, 32 of its own, headers.
const ECHO: u32 = 100;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// A phase of the document by its carrier and way.
fn phase<'a>(document: &'a Value, carrier: &str, way: &str) -> &'a Value {
    let phases = document["phases"].as_array().expect("there are phases");
    let found = phases.iter().find(|phase| phase["way"] == way && !phase["carrier"][carrier].is_null());
    found.unwrap_or_else(|| panic!("no {carrier} {way}: {document:#}"))
}

/// A row of the table: what was measured, what is true, and whether it lies within what is allowed.
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

/// Payload of TCP, or of what goes over UDP, behind headers of so many bytes that the line has delivered one way from so many seconds after the first of it on, until so many, bit/s.
fn delivered(trace: &Trace, (tcp, header): (bool, u32), down: bool, [from, until]: [f64; 2]) -> f64 {
    let is_data = |seen: &&Seen| {
        seen.down == down && seen.tcp == tcp && seen.step == Step::Delivered && seen.len > 1000
    };
    let mut data =
        trace.0.iter().filter(is_data).map(|seen| (seen.at.as_secs_f64(), f64::from(seen.len - header)));
    let (first, _) = data.next().expect("something was delivered");
    let bytes: f64 =
        data.filter(|(at, _)| (first + from..first + until).contains(at)).map(|(_, bytes)| bytes).sum();
    bytes * 8.0 / (until - from)
}

/// Measures a line, and holds what is told against what the line did.
fn cell(line: Line) -> Vec<Row> {
    let mut lab = SpeedLab::build(line);
    lab.serve(&[]);
    let document = lab.measure(&[], &["--time", "6s", "--congestion", "cubic"]);
    let trace = lab.close();
    let name = format!(
        "{}/{} Mbit/s, {} ms, {} % lost",
        line.mbit[0],
        line.mbit[1],
        line.delay_ms,
        line.loss * 100.0
    );
    let mut rows = Vec::new();
    for (down, way) in [(true, "down"), (false, "up")] {
        // What is lost behind the queue is lost on the line towards the client and on its way back.
        let capacity = line.mbit[usize::from(!down)] * (1.0 - line.loss);
        let told = number(&phase(&document, "udp", way)["capacity"]["layers"]["ip"]) / 1e6;
        rows.push(Row::within(format!("{name}: capacity {way}, Mbit/s"), told, capacity, 0.01, 0.0));
        let tcp = phase(&document, "tcp", way);
        let throughput = &tcp["throughput"];
        let told = number(&throughput["bits_per_s"]);
        // A client's clock begins when it asks for data, which comes a round trip later; a server's when data comes.
        let later = if down { number(&document["idle"]["p50_s"]) } else { 0.0 };
        // What lies out of order in the receiver when it is read is with the next reading.
        let window = ["warm_up_s", "lasted_s"].map(|key| number(&throughput[key]) - later);
        let truth = delivered(&trace, (true, 52), down, window);
        let again = 100.0 * number(&tcp["connections"]["sent_again"]);
        rows.push(Row::within(
            format!("{name}: goodput {way}, bit/s ({again:.1} % again)"),
            told,
            truth,
            0.02,
            0.0,
        ));
    }
    rows
}

/// Rows as a table, past the harness; how many do not hold.
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
    let Some(_alone) = alone(&["ip"]) else { return };
    let lines = [
        Line { mbit: [10.0, 10.0], delay_ms: 1.0, queue_ms: 50.0, loss: 0.0 },
        Line { mbit: [100.0, 12.5], delay_ms: 40.0, queue_ms: 50.0, loss: 0.01 },
    ];
    let rows: Vec<_> = lines.into_iter().flat_map(cell).collect();
    assert_eq!(told(&rows), 0);
}

/// All rates, delays, losses and ratios for which the meter's page says how near it is: half an hour, with nothing else to do.
#[test]
#[ignore = "half an hour: bench/speed-truth runs it"]
fn every_line_is_told_as_it_is() {
    let Some(_alone) = alone(&["ip"]) else { return };
    let mut rows = Vec::new();
    for mbit in [1.0, 10.0, 100.0, 900.0] {
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

/// netrig's SCTP over UDP: 72 bytes of a packet are headers of IP, UDP and SCTP, of one with a SACK beside its data more.
#[test]
fn associations_get_what_the_line_has_delivered() {
    let Some(_alone) = alone(&["ip"]) else { return };
    let mut lab = SpeedLab::build(Line { mbit: [10.0, 10.0], delay_ms: 5.0, queue_ms: 50.0, loss: 0.0 });
    lab.serve(&[]);
    let document = lab.measure(&[], &["--sctp", "-P2", "--time", "5s", "--no-rpm"]);
    let trace = lab.close();
    let mut rows = Vec::new();
    for (down, way) in [(true, "down"), (false, "up")] {
        let throughput = &phase(&document, "sctp", way)["throughput"];
        let told = number(&throughput["bits_per_s"]);
        let window = ["warm_up_s", "lasted_s"].map(|key| number(&throughput[key]));
        let truth = delivered(&trace, (false, 56), down, window);
        rows.push(Row::within(format!("goodput of associations {way}, bit/s"), told, truth, 0.02, 0.0));
    }
    for verdict in document["verdicts"].as_array().expect("verdicts") {
        assert_eq!(verdict["limit"]["kind"], "line", "{verdict}");
    }
    assert_eq!(told(&rows), 0);
}

/// The client's interface goes down while data comes, and stays down: what was measured is told, as partial and why.
#[test]
fn a_line_that_goes_away_leaves_what_was_measured() {
    let Some(_alone) = alone(&["ip"]) else { return };
    let mut lab = SpeedLab::build(Line { mbit: [10.0, 10.0], delay_ms: 5.0, queue_ms: 50.0, loss: 0.0 });
    lab.serve(&[]);
    // Data comes and goes for 3 s each way; it is in the second that the interface goes.
    lab.set(
        "client",
        "(sleep 5; for link in /sys/class/net/*; do ip link set ${link##*/} down; done) >&- 2>&- &",
    );
    let begun = std::time::Instant::now();
    let document = lab.measure(&[], &["--time", "3s", "--only", "connections", "--no-rpm"]);
    assert_eq!(document["partial"], true, "{document:#}");
    let why = document["broken"].as_str().expect("it says why");
    assert!(why.contains("the control connection") || why.contains("has stopped answering"), "{why}");
    let down = number(&phase(&document, "tcp", "down")["throughput"]["bits_per_s"]);
    assert!((8e6..10e6).contains(&down), "{document:#}");
    // It does not wait for ever for a server that it cannot reach.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    lab.close();
}

/// Datagrams at a rate above the line's: as many are lost as the line has dropped, and those that watch the path wait as long as
/// the line has let them.
#[test]
fn losses_and_delays_are_the_lines_own() {
    let Some(_alone) = alone(&["ip"]) else { return };
    let line = Line { mbit: [10.0, 10.0], delay_ms: 5.0, queue_ms: 40.0, loss: 0.0 };
    let mut lab = SpeedLab::build(line);
    lab.serve(&[]);
    let document = lab.measure(&[], &["--udp", "12Mbit/s", "--size", "1200B", "--down", "--time", "3s"]);
    let trace = lab.close();
    let udp = phase(&document, "udp", "down");
    let dropped = |seen: &&Seen| seen.down && seen.len == 1228 && matches!(seen.step, Step::Dropped(_));
    let dropped = trace.0.iter().filter(dropped).count();
    let lost = number(&udp["receiver"]["datagrams"]["losses"]["lost"]);
    let mut rows = vec![Row::within("datagrams lost".to_owned(), lost, dropped as f64, 0.0, 0.0)];
    // Echoes on their way down, of the time in which the queue was full.
    let waits =
        trace.0.iter().filter(|seen| seen.down && seen.len == ECHO).filter_map(|seen| match seen.step {
            Step::Sent { waited } if waited.as_secs_f64() > 0.02 => Some(waited.as_secs_f64()),
            _ => None,
        });
    let mut waits: Vec<_> = waits.collect();
    waits.sort_by(f64::total_cmp);
    let added = number(&udp["delays"]["p50_s"]) - number(&document["idle"]["p50_s"]);
    rows.push(Row::within("delay added, s".to_owned(), added, waits[waits.len() / 2], 0.1, 1e-4));
    assert_eq!(told(&rows), 0);
}
