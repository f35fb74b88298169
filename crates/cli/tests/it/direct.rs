//! Links that are only cables, in the simulator and between namespaces. The tests need root on Linux; otherwise each
//! test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use netrig_core::{Sample, Sink, Subject};
use netrig_test_support::{ExperimentText, skip_unless};
use serde_json::Value;

use crate::common::carried_out;
use crate::common::machine::{can, folder};
use crate::common::{netrig, run_ids, text};

/// A node with a cable to a forwarding node, which has a line to a third node.
fn mixed() -> String {
    ExperimentText::new("mixed", "1 s")
        .with("IP")
        .table("replications", "count = 1")
        .nodes("a m b")
        .link("lan", "a m", r#"kind = "direct""#)
        .fifo("line", "m b", ("20 Mbit/s", "5 ms", 100), "")
        .table("transport.tcp", r#"kind = "tcp", profile = "linux", congestion = "reno""#)
        .flow(
            "near",
            "a m",
            r#"stop = "900 ms", application = { kind = "cbr", interval = "1 ms", size = "200 B" }"#,
        )
        .flow(
            "far",
            "b a",
            r#"stop = "900 ms", application = { kind = "cbr", interval = "1 ms", size = "200 B" }"#,
        )
        .flow(
            "echo",
            "a m",
            r#"stop = "800 ms",
            application = { kind = "ping", interval = { constant = "10 ms" }, size = "100 B",
            wait = "100 ms" }"#,
        )
        .flow("file", "a m", r#"transport = "tcp", application = { kind = "bulk", bytes = "1 MB" }"#)
        .flow("long", "a b", r#"transport = "tcp", application = { kind = "bulk", bytes = "100 KB" }"#)
        .response("near", "flow.near", "datagram_loss")
        .response("far", "flow.far", "datagram_loss")
        .response("lost", "flow.echo", "round_trip_loss")
        .table("response.trip", r#"of = "flow.echo", metric = "round_trip_time", statistic = "max""#)
        .response("file", "flow.file", "received")
        .response("long", "flow.long", "received")
        .response("line", "link.line", "drops")
        .build()
}

fn run(folder: &Path, file: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let ended = netrig(folder, &[&["run", file, "--json"], more].concat());
    let document = serde_json::from_str(&text(&ended.stdout)).unwrap_or(Value::Null);
    (ended.status.code(), document, text(&ended.stderr))
}

fn value(document: &Value, substrate: &str, response: &str) -> Option<f64> {
    let points = document["points"].as_array().expect("there are points");
    let point = points.iter().find(|point| point["substrate"] == substrate).expect("it has the point");
    point["responses"][response]["runs"][0]["value"].as_f64()
}

#[test]
fn all_that_is_sent_on_a_cable_arrives_beside_lines_and_through_nodes() {
    skip_unless!(can(&[]));
    for version in ["", "ip = 6"] {
        let folder = folder("mixed", &mixed().replace("IP", version));
        let (code, document, told) = run(folder.path(), "mixed.toml", &["--on", "sim,netns"]);
        assert_eq!(code, Some(0), "{told}");
        for on in ["sim", "netns"] {
            let of = |response| value(&document, on, response).unwrap_or(f64::NAN);
            let losses = ["near", "far", "lost", "line"].map(of);
            assert_eq!(losses, [0.0; 4], "{on} {version}: {document:#}");
            assert_eq!([of("file"), of("long")], [1e6, 1e5], "{on} {version}: {document:#}");
        }
        // In the simulator, a cable has no delay. The delay of the kernel is not checked.
        assert_eq!(value(&document, "sim", "trip"), Some(0.0), "{document:#}");
        let left = netrig(folder.path(), &["doctor"]);
        assert!(!text(&left.stdout).contains("left behind"), "{}", text(&left.stdout));
    }
}

/// Echoes pass the cable, and the cable and the line after it, over both IP versions.
#[test]
fn a_lab_has_cables_too() {
    skip_unless!(can(&["ping"]));
    let folder = folder("mixed", &mixed().replace("IP", ""));
    for address in ["10.0.0.2", "fd00::2", "10.0.0.6", "fd00:0:0:1::2"] {
        let ping =
            ["lab", "mixed.toml", "--node", "a", "--", "ping", "-c", "2", "-i", "0.2", "-W", "20", address];
        let ended = netrig(folder.path(), &ping);
        let told = text(&ended.stderr) + &text(&ended.stdout);
        assert!(ended.status.success() && told.contains(" 0% packet loss"), "{address}: {told}");
    }
    let left = netrig(folder.path(), &["doctor"]);
    assert!(!text(&left.stdout).contains("left behind"), "{}", text(&left.stdout));
}

/// Rejected settings, and their messages.
#[test]
fn of_a_cable_nothing_is_counted_changed_or_captured() {
    let check = |text_of_file: &str| {
        let folder = folder("mixed", text_of_file);
        text(&netrig(folder.path(), &["check", "mixed.toml"]).stderr)
    };
    let plain = mixed().replace("IP", "");
    let counted = check(&plain.replace("of = \"link.line\"", "of = \"link.lan\""));
    assert!(counted.contains("link `lan` is a cable") && counted.contains("has no counters"), "{counted}");
    let event = check(
        &(plain.clone() + "[[event]]\nat = \"100 ms\"\nlink = \"lan\"\ndo = { down_for = \"1 ms\" }\n"),
    );
    assert!(event.contains("link `lan` is a cable") && event.contains("nothing happens"), "{event}");
    let rate = check(&plain.replace("kind = \"direct\"", "kind = \"direct\"\nrate = \"1 Gbit/s\""));
    assert!(rate.contains("unknown key `rate`"), "{rate}");
    let other = check(&plain.replace("kind = \"direct\"", "kind = \"wire\""));
    assert!(other.contains("`wire`") && other.contains("direct"), "{other}");

    // In virtual time, nothing limits a sender whose path has only cables, so such a run is refused.
    let folder = folder("mixed", &plain.replace("bytes = \"1 MB\"", "seconds = \"1 s\""));
    let (code, document, told) = run(folder.path(), "mixed.toml", &["--on", "sim"]);
    assert_eq!(code, Some(0), "{told}");
    let why = document["points"][0]["why"].as_str().unwrap_or_default();
    assert!(why.contains("flow `file`") && why.contains("only cables"), "{document:#}");
}

/// A sink that wants the frames of the first node.
struct Capture;

impl Sink for Capture {
    fn sample(&mut self, _: Subject, _: Sample) {}

    fn wants_frames(&self, node: u32) -> bool {
        node == 0
    }
}

#[test]
fn what_passes_a_cable_between_kernels_cannot_be_captured() {
    skip_unless!(can(&[]));
    let run = carried_out::run(&mixed().replace("IP", ""), 0);
    let refused =
        carried_out::carry_out(&run, &mut Capture, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(refused.contains("node `a` cannot be captured: link `lan` is a cable"), "{refused}");
}

#[test]
fn a_modelled_cable_has_frames_and_no_events() {
    let folder = folder("mixed", &mixed().replace("IP", ""));
    let (code, _, told) = run(folder.path(), "mixed.toml", &["--on", "sim"]);
    assert_eq!(code, Some(0), "{told}");
    let id = &run_ids(folder.path())[0];
    let export = |more: &[&str]| {
        let ended = netrig(folder.path(), &[&["export", "--run", id], more].concat());
        (ended.status.code(), text(&ended.stderr))
    };
    let (code, told) = export(&["--format", "events", "--link", "lan", "--out", "lan.csv"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("link `lan` is a cable"), "{told}");
    let (code, told) = export(&["--pcapng", "--node", "a", "--out", "a.pcapng"]);
    assert_eq!(code, Some(0), "{told}");
    let captured = std::fs::metadata(folder.path().join("a.pcapng")).expect("it was written").len();
    // The file of one megabyte, and headers.
    assert!(captured > 1_000_000, "{captured}");
}
