//! Transfers, calls and video over the loopback interface, and the video of a simulated run.

use std::process::{Command, Output, Stdio};

use netrig_test_support::ExperimentText;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::as_json;
use crate::common::far_end::{FarEnd, interrupt, until_it_worked};
use crate::common::{netrig, run_ids, text};

/// The document of a probe. On a busy machine the tester may have been the limit; the document must then say so.
fn document(output: &Output) -> Value {
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {}", output.status, text(&output.stderr));
    let document = as_json(output);
    let of = if document.is_array() { &document[0] } else { &document };
    assert_eq!(of["valid"], output.status.code() == Some(0), "{document}");
    document
}

#[test]
fn a_transfer_a_call_and_a_video() {
    let folder = tempfile::tempdir().expect("a folder");
    let far_end = FarEnd::start(&[]);
    for target in &far_end.probes {
        let probe = |arguments: &[&str]| {
            netrig(folder.path(), &[&["probe"], arguments, &[target, "--json"]].concat())
        };
        let told =
            document(&probe(&["transfer", "--bytes", "1MB", "--streams", "2", "--bottleneck", "1Gbit/s"]));
        assert_eq!(told["bytes"], 1_000_000);
        // The ideal transfer time of RFC 6349: 1 MB at 1 Gbit/s of packets, of which `share` is payload.
        let number = |name: &str| told[name].as_f64().expect("a number");
        let headers = if target.starts_with('[') { 72.0 } else { 52.0 };
        let share = number("segment_bytes") / (number("segment_bytes") + headers);
        let ratio = told["rfc6349"]["transfer_time_ratio"].as_f64().expect("a ratio");
        let ideal = number("transfer_s") / (1e6 / (1.25e8 * share));
        assert!((ratio / ideal - 1.0).abs() < 1e-9, "{ratio} for {ideal}");
        assert!(number("path_mtu_bytes") > 1500.0 && number("send_buffer_bytes") > 0.0, "{told}");
        assert_eq!(told["interrupted"], false);

        let told = document(&probe(&["voice", "--duration", "500ms", "--codec", "g711"]));
        assert_eq!((&told["packets_sent"], &told["delay_measured_by"]["clock"]), (&25.into(), &"one".into()));
        let rating = told["rating"].as_f64().expect("a rating");
        assert!(rating <= 93.3, "{rating}");
    }
    let target = &far_end.probes[0];
    let told = document(&netrig(
        folder.path(),
        &["probe", "video", target, "--dscp", "ef", "--json", "--playout", "10s"],
    ));
    assert_eq!(
        (&told[0]["dscp"], &told[0]["intact"], &told[0]["missing"]),
        (&"ef".into(), &1.0.into(), &0.0.into())
    );
    let tally = far_end.finish();
    assert_eq!(tally["failures"], serde_json::json!({}));
}

/// If the user interrupts a transfer, the probe reports the received data, and why the result is not the requested one.
#[test]
fn an_interrupted_transfer_tells_what_had_arrived() {
    let far_end = FarEnd::start(&[]);
    for form in [&["--json"][..], &[]] {
        let child = Command::new(env!("CARGO_BIN_EXE_netrig"))
            .args(["probe", "transfer", &far_end.probes[0], "--bytes", "1000000GB", "--streams", "2"])
            .args(form)
            .stdout(Stdio::piped())
            .spawn()
            .expect("netrig starts");
        // Sending data over the loopback interface uses processor time.
        until_it_worked(&child, 30);
        interrupt(&child, Signal::INT);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130));
        let told = text(&output.stdout);
        if form.is_empty() {
            assert!(told.contains("\ninvalid: the transfer was interrupted after "), "{told}");
            continue;
        }
        let told: Value = serde_json::from_str(&told).expect("a document");
        assert_eq!((&told["interrupted"], &told["valid"]), (&true.into(), &false.into()));
        let bytes = told["bytes"].as_u64().expect("bytes");
        assert!(0 < bytes && bytes < 1_000_000_000_000_000, "{bytes}");
        let why = format!("the transfer was interrupted after {bytes} B of 1000000000000000 B");
        let faults = told["faults"].as_array().expect("reasons");
        assert!(faults.contains(&why.into()), "{faults:?}");
    }
}

#[test]
fn requests_that_cannot_be_and_ends_that_are_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("no.h264"), b"nothing").expect("a file");
    for (arguments, code, says) in [
        (
            &["voice", "127.0.0.1", "--playout", "adaptive"][..],
            2,
            "an adaptive buffer changes its wait in the pauses",
        ),
        (&["voice", "127.0.0.1", "--packet", "15ms"], 2, "a multiple of 10 ms"),
        (&["video", "127.0.0.1", "--clip", "no.h264"], 2, "no.h264: it contains no H.264 picture"),
        (&["transfer", "127.0.0.1", "--bytes", "0B"], 2, "'--bytes <SIZE>': it must be above zero"),
        (&["transfer", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1: "),
        (&["transfer", "127.0.0.1:1", "--ftp"], 1, "FTP with 127.0.0.1:1, connect: "),
        (&["transfer", "127.0.0.1", "--ftp", "--streams", "2"], 2, "cannot be used with"),
    ] {
        let output = netrig(folder.path(), &[&["probe"], arguments].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(says), "{arguments:?}: {told}");
        assert!(output.stdout.is_empty());
    }
}

/// The picture of a run that loses every 20th packet.
#[test]
fn a_picture_of_a_simulated_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = ExperimentText::new("seen", "3 s")
        .table("replications", "count = 1")
        .nodes("a b")
        .fifo("line", "a b", ("10 Mbit/s", "5 ms", 100), r#"loss = { kind = "periodic", every = 20 }"#)
        .table("transport.udp", r#"kind = "udp""#)
        .flow("video", "a b", r#"transport = "udp", application = { kind = "video" }"#)
        .response("intact", "flow.video", "video_intact")
        .build();
    std::fs::write(folder.path().join("seen.toml"), file).expect("a file");
    let run = netrig(folder.path(), &["run", "seen.toml", "--json"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let id = &run_ids(folder.path())[0];
    let export = netrig(folder.path(), &["export", "--run", id, "--figure", "video", "--out", "seen.png"]);
    if text(&export.stderr).contains("ffmpeg is needed") {
        eprintln!("skipped: needs ffmpeg");
        return;
    }
    assert!(export.status.success(), "{}", text(&export.stderr));
    let picture = std::fs::read(folder.path().join("seen.png")).expect("it is written");
    // The PNG signature, and in the first chunk the width of two pictures side by side.
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(picture[16..24], [0, 0, 2, 128, 0, 0, 0, 180]);
}
