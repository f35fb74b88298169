//! SCTP in real time: netrig's own endpoint in namespaces, compared with the simulator, with closed forms and with
//! Wireshark. The tests need root on Linux; otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::Command;

use netrig_core::{Instant, Sample, Subject};
use netrig_test_support::{ExperimentText, Tape, skip_unless};
use serde_json::Value;

use crate::common::carried_out::recorded;
use crate::common::machine::{can, folder};
use crate::common::spoilt;
use crate::common::text;

/// Bulk data over one line of 2 Mbit/s with a delay of 20 ms in each direction; each packet has a message of 1400 B.
/// The window is larger than the 10 KB that the line needs and smaller than the queue, so that no packet is lost.
fn one_path() -> String {
    ExperimentText::new("one-path", "12 s")
        .with(r#"sample_every = "100 ms", warm_up = "2 s""#)
        .table("factors", r#"encapsulation = ["ip", "udp"]"#)
        .table("replications", "count = 1")
        .nodes("a b")
        .fifo("line", "a b", ("2 Mbit/s", "20 ms", 100), "")
        .table(
            "transport.sctp",
            r#"kind = "sctp", profile = "rfc", encapsulation = "${encapsulation}",
            receive_buffer = "65536 B""#,
        )
        .flow("bulk", "a b", r#"transport = "sctp", application = { kind = "bulk", message = "1400 B" }"#)
        .response("goodput", "flow.bulk", "goodput")
        .response("wire", "flow.bulk", "wire_throughput")
        .build()
}

/// Two hosts with two lines, and web traffic over SCTP.
fn two_lines(name: &str, duration: &str) -> ExperimentText {
    ExperimentText::new(name, duration)
        .with(r#"sample_every = "100 ms""#)
        .table("replications", "count = 1")
        .nodes("a b")
        .fifo("primary", "a b", ("1 Mbit/s", "20 ms", 20), "")
        .fifo("alternate", "a b", ("1 Mbit/s", "20 ms", 20), "")
        .flow(
            "bulk",
            "a b",
            r#"transport = "sctp",
            application = { kind = "web", interarrival = { constant = "20 ms" },
            size = { constant = "1000 B" } }"#,
        )
        .response("goodput", "flow.bulk", "goodput")
}

/// Two paths. The first is down for 6 s from 5 s on. The time-out is 0.5 s and doubles. After three consecutive
/// time-outs the path is marked as failed.
fn two_paths() -> String {
    two_lines("two-paths", "12 s")
        .table(
            "transport.sctp",
            r#"kind = "sctp", profile = "rfc", paths = ["primary", "alternate"],
            rto_initial = "500 ms", rto_min = "500 ms", path_max_retrans = 2,
            potentially_failed = false, retransmit_to = "same-path""#,
        )
        .table("[event]", r#"at = "5 s", link = "primary", do = { down_for = "6 s" }"#)
        .build()
}

/// The same two paths. The user makes the second one the primary path at 1.5 s.
fn switched() -> String {
    two_lines("switched", "3 s")
        .table("transport.sctp", r#"kind = "sctp", profile = "rfc", paths = ["primary", "alternate"]"#)
        .table("[event]", r#"at = "1.5 s", node = "a", do = { primary = "alternate" }"#)
        .build()
}

/// The times of these events on a path.
fn moments(tape: &Tape, quantity: &str, path: u8) -> Vec<Instant> {
    let of = |(subject, sample): &&(Subject, Sample)| {
        *subject == Subject::Path(0, path) && sample.quantity.name == quantity
    };
    tape.samples().iter().filter(of).map(|(_, sample)| sample.at).collect()
}

/// The value of a response on a substrate at the point with this level.
fn measured(document: &Value, substrate: &str, level: &str, response: &str) -> f64 {
    let points = document["points"].as_array().expect("there are points");
    let of = |point: &&Value| point["substrate"] == substrate && point["factors"]["encapsulation"] == level;
    let point = points.iter().find(of).expect("the substrate ran");
    point["responses"][response]["runs"][0]["value"].as_f64().unwrap_or_else(|| panic!("{point}"))
}

/// A saturated line carries its rate in real and in virtual time: 2 Mbit/s of IP packets. Each has 1400 B of user data
/// and the headers of IP (20 B), of UDP if it is used (8 B), of the SCTP packet (12 B) and of its chunk (16 B).
#[test]
fn a_busy_line_carries_as_much_in_real_time_as_in_the_simulator() {
    skip_unless!(can(&[]));
    let folder = folder("one-path", &one_path());
    let arguments = ["run", "one-path.toml", "--on", "sim,netns", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    for (encapsulation, packet) in [("ip", 1448.0), ("udp", 1456.0)] {
        let of = |response: &str| {
            let [sim, netns] =
                ["sim", "netns"].map(|name| measured(&document, name, encapsulation, response));
            assert!((netns / sim - 1.0).abs() < 0.03, "{encapsulation}: {response} {sim} and {netns}");
            netns
        };
        let (wire, goodput) = (of("wire"), of("goodput"));
        assert!((wire / 250_000.0 - 1.0).abs() < 0.03, "{encapsulation}: {wire} B/s");
        let share = goodput / wire;
        assert!((share / (1400.0 / packet) - 1.0).abs() < 0.002, "{encapsulation}: {share}");
    }
}

/// The time-outs are 0.5, 1 and 2 s. At the third the primary path fails, and new data are sent over the alternate path
/// from then on.
#[test]
fn a_path_is_given_up_after_the_time_outs_that_the_constants_say() {
    skip_unless!(can(&[]));
    let (tape, outcome) = recorded(&two_paths(), Tape::at(vec![0]));
    let expiries: Vec<f64> =
        moments(&tape, "path_timeout", 0).iter().map(|at| at.since(Instant::ZERO).as_secs_f64()).collect();
    let [first, second, third] = expiries[..] else { panic!("{expiries:?}: {outcome:?}") };
    assert!(first > 5.4, "0.5 s after the last packet that was sent before 5 s at the earliest: {first}");
    for (span, wanted) in [(second - first, 1.0), (third - second, 2.0)] {
        // A timer never expires early. Its lateness depends on the machine.
        assert!((wanted..wanted * 1.1).contains(&span), "{expiries:?}");
    }
    let failed = moments(&tape, "path_failed", 0);
    let switched = moments(&tape, "data_path", 1);
    assert_eq!(failed.iter().map(|at| at.since(Instant::ZERO).as_secs_f64()).collect::<Vec<_>>(), [third]);
    assert_eq!(switched, failed);
    let words: Vec<_> = tape.notes().iter().map(|note| note.text.as_str()).collect();
    assert!(words.iter().any(|words| words.starts_with("T3-rtx on primary, RTO 1.000 s")), "{words:?}");
    assert!(words.contains(&"new data goes over alternate"), "{words:?}");
    tshark_understands(&tape, outcome.balance.offered);
}

#[test]
fn a_switch_of_the_primary_path_happens_at_its_time() {
    skip_unless!(can(&[]));
    let (tape, _) = recorded(&switched(), Tape::at(vec![0]));
    let [switched] = moments(&tape, "data_path", 1)[..] else { panic!("{:?}", tape.notes()) };
    assert!((1.5..1.6).contains(&switched.since(Instant::ZERO).as_secs_f64()), "{switched}");
    let words: Vec<_> = tape.notes().iter().map(|note| note.text.as_str()).collect();
    assert_eq!(words.first(), Some(&"carried by netrig's own SCTP, over IP"));
    assert!(words.contains(&"the primary path is alternate"), "{words:?}");
}

/// Wireshark reports no fault in any packet. All packets are SCTP, so no host has answered one with ICMP.
fn tshark_understands(tape: &Tape, offered: u64) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("test.pcapng");
    std::fs::write(&file, tape.capture(0)).expect("the folder can be written");
    let count = |filter: &str| {
        let mut tshark = Command::new("tshark");
        tshark.args([
            "-n",
            "-o",
            "sctp.checksum:CRC 32c",
            "-o",
            "ip.check_checksum:TRUE",
            "-Y",
            filter,
            "-r",
        ]);
        let out = tshark.arg(&file).env("HOME", folder.path()).output().ok()?;
        assert!(out.status.success(), "{}", text(&out.stderr));
        Some(text(&out.stdout).lines().count())
    };
    let Some(sctp) = count("sctp") else {
        let _ = writeln!(std::io::stderr(), "skipped in part: needs tshark");
        return;
    };
    assert_eq!(sctp, tape.all_frames().len());
    assert!(sctp > 400 && sctp as u64 <= offered, "{sctp} of {offered}");
    assert_eq!(count("sctp.chunk_type == 0 && ip.addr == 10.0.0.5").map(|data| data > 50), Some(true));
    for wrong in [
        "_ws.malformed",
        "sctp.checksum.status != 1",
        "ip.checksum.status != 1",
        "icmp",
        "_ws.expert.severity >= error",
    ] {
        assert_eq!(count(wrong), Some(0), "{wrong}");
    }
}
