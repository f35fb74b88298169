//! Delays and arrivals that `netrig sip load` reports, compared with a capture. If capturing is not possible, or the
//! load is invalid, a test prints that it was skipped.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netrig_core::capture::read;
use rustix::process::Signal;
use serde_json::Value;

use crate::common;
use crate::common::as_json;
use crate::common::capture::Capture;
use crate::common::far_end::interrupt;
use crate::common::sip_server::SipServer;

/// Length of a UDP header, bytes.
const UDP_HEADER: usize = 8;

/// The times of the messages of a call on the wire, ns.
#[derive(Clone, Copy, Default)]
struct Seen {
    invite: Option<u64>,
    answer: Option<u64>,
    bye: Option<u64>,
    end: Option<u64>,
}

/// All calls of a capture.
fn calls(file: &Path) -> Vec<Seen> {
    let (bytes, mut calls) = (std::fs::read(file).unwrap(), HashMap::<String, Seen>::new());
    read(&bytes, |packet| {
        let ip = &packet.bytes[14..];
        let text = String::from_utf8_lossy(&ip[usize::from(ip[0] & 15) * 4 + UDP_HEADER..]).into_owned();
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        let (Some(call), Some(cseq)) = (field("Call-ID:"), field("CSeq:")) else { return };
        let call = calls.entry(call).or_default();
        let place = match text.split(' ').next().unwrap() {
            "INVITE" => &mut call.invite,
            "BYE" => &mut call.bye,
            "SIP/2.0" if text.starts_with("SIP/2.0 100") => return,
            "SIP/2.0" if cseq.ends_with("INVITE") => &mut call.answer,
            "SIP/2.0" => &mut call.end,
            _ => return,
        };
        place.get_or_insert(packet.at_ns);
    })
    .unwrap();
    calls.into_values().collect()
}

/// The percentile of `spans` by the nearest rank, in µs. `spans` are in ns.
fn percentile(spans: &mut [u64], share: f64) -> f64 {
    spans.sort_unstable();
    spans[((spans.len() as f64 * share).ceil() as usize).clamp(1, spans.len()) - 1] as f64 / 1e3
}

fn between(calls: &[Seen], from: fn(&Seen) -> Option<u64>, to: fn(&Seen) -> Option<u64>) -> Vec<u64> {
    calls.iter().filter_map(|call| to(call)?.checked_sub(from(call)?)).collect()
}

/// Runs a load of calls on a server that delays its responses. Returns the document and the captured calls; `None` if
/// the load is invalid or cannot be captured.
fn captured(delay: &str, rate: u32, seconds: u32) -> Option<(Value, Vec<Seen>)> {
    let server = SipServer::start(&["uas", "--delay", delay, "--listen", "udp:127.0.0.1:0"]);
    let (address, folder) = (server.address("udp"), tempfile::tempdir().unwrap());
    let port = address.rsplit(':').next().unwrap().to_owned();
    let capture = Capture::start(folder.path(), &[&port])?;
    let (target, rate, seconds) = (format!("udp:{address}"), format!("{rate}/s"), format!("{seconds}s"));
    let load =
        ["sip", "load", &target, "--rate", &rate, "--for", &seconds, "--cpus", "1", "--punctual", "--json"];
    let output = common::netrig(folder.path(), &load);
    // Wait until the last packets are in the file.
    std::thread::sleep(Duration::from_secs(1));
    let calls = calls(&capture.end());
    let told = as_json(&output);
    if told["valid"] != true {
        eprintln!("skipped: {}", told["faults"][0]);
        return None;
    }
    assert_eq!(
        told["outcomes"][0]["begun"].as_u64(),
        Some(calls.len() as u64),
        "nothing escaped the capture"
    );
    Some((told, calls))
}

/// Compares the median, the 95th and the 99th percentile of a delay with the capture. They must agree within 5 % or 20
/// µs. If the starts were later than that, the tester may also have been delayed between the time stamp and the wire;
/// then only the median is compared.
fn assert_agree(told: &Value, name: &str, spans: &mut [u64]) {
    let row = told["delays"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row["n"].as_u64(), Some(spans.len() as u64), "{name}");
    for (place, share) in [("p50_us", 0.5), ("p95_us", 0.95), ("p99_us", 0.99)] {
        let (delay, seen) = (row[place].as_f64().unwrap(), percentile(spans, share));
        let (bound, late) =
            (f64::max(0.05 * seen, 20.0), told["tester"]["lateness"][place].as_f64().unwrap());
        if late > bound && share > 0.5 {
            eprintln!("skipped: {name}, {place}: the tester was {late} µs late");
            continue;
        }
        assert!(
            (delay - seen).abs() <= bound,
            "{name}, {place}: {delay}, on the wire {seen}; {late} µs late"
        );
    }
}

#[test]
fn delays_are_those_on_the_wire() {
    for delay in ["100 us", "5 ms", "50 ms", "exponential:5 ms"] {
        let Some((told, calls)) = captured(delay, 500, 3) else { continue };
        assert_agree(&told, "session_request", &mut between(&calls, |call| call.invite, |call| call.answer));
        assert_agree(&told, "disconnect", &mut between(&calls, |call| call.bye, |call| call.end));
    }
}

#[test]
fn arrivals_are_those_that_were_asked_for() {
    const RATE: u32 = 1000;
    let Some((told, calls)) = captured("1 ms", RATE, 12) else { return };
    let late = told["tester"]["lateness"]["p95_us"].as_f64().unwrap();
    let mut moments: Vec<u64> = calls.iter().filter_map(|call| call.invite).collect();
    moments.sort_unstable();
    let mut gaps: Vec<f64> = moments.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e9).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    // The Kolmogorov-Smirnov distance to the exponential distribution.
    let distance = gaps.iter().enumerate().fold(0.0, |most: f64, (at, gap)| {
        let wanted = 1.0 - (-gap * f64::from(RATE)).exp();
        most.max((wanted - at as f64 / n).abs()).max(((at + 1) as f64 / n - wanted).abs())
    });
    // If the tester is late by some hundredths of the mean interval, the distance is larger. The load then reports the
    // lateness.
    if late > 20.0 {
        return eprintln!("skipped: 5 % began {late} µs late on a busy machine; distance {distance}");
    }
    assert!(distance <= 0.02, "{distance}");
}

#[test]
fn a_tester_that_is_starved_says_so() {
    let (_server, target) = SipServer::answering();
    let load = ["sip", "load", &target, "--rate", "1000/s", "--for", "2s", "--cpus", "1", "--json"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    let mut tester =
        command.args(load).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("netrig starts");
    // The tester runs during a tenth of the time.
    while tester.try_wait().unwrap().is_none() {
        for (signal, span) in [(Signal::STOP, 90), (Signal::CONT, 10)] {
            interrupt(&tester, signal);
            std::thread::sleep(Duration::from_millis(span));
        }
    }
    let output = tester.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let told = as_json(&output);
    assert_eq!(told["valid"], false);
    assert!(told["faults"][0].as_str().unwrap().contains("the tester was the limit"), "{}", told["faults"]);
}
