//! Probes over loopback, as their users start them.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of a program starts it and speaks to it over sockets"
)]

#[path = "common/far_end.rs"]
mod far_end;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use far_end::{FarEnd, document, interrupt, notes, value};
use rustix::process::Signal;

/// Few packets, close together.
const QUICK: [&str; 5] = ["--count", "40", "--interval", "3ms", "--json"];

fn probe(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netrig")).arg("probe").args(arguments).output().expect("netrig starts")
}

fn quick(arguments: &[&str]) -> Output {
    probe(&[arguments, &QUICK].concat())
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The document of a probe that got no answer; of a busy machine the tester may have been the limit besides.
fn unanswered(output: &Output) -> serde_json::Value {
    assert!(matches!(output.status.code(), Some(1 | 3)), "{}: {}", output.status, err(output));
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[test]
fn stamp_measures_both_ways_over_both_versions_of_ip() {
    let far_end = FarEnd::start(&[]);
    assert_eq!(far_end.stamp.len(), 2, "127.0.0.1 and ::1");
    for target in &far_end.stamp {
        let told =
            document(&quick(&["stamp", target, "--dscp", "ef", "--answer-dscp", "af11", "--size", "200B"]));
        assert_eq!(value(&told, "round_trip", "packets"), 40.0);
        assert_eq!(value(&told, "round_trip", "lost"), 0.0);
        // What a packet takes there and back is what it takes there and what it takes back, the time at the reflector aside;
        // so are the sums.
        let mean = |section| value(&told, section, "delay_mean_of_arrived");
        let (round, there, back) = (mean("round_trip"), mean("there"), mean("back"));
        assert!((round - there - back).abs() < 1e-9, "{round} {there} {back}");
        assert!(there > 0.0 && back > 0.0, "one clock: no packet arrives before it was sent");
        let notes = notes(&told);
        for said in [
            "DSCP with which packets arrived there (sent with 46): 46",
            "DSCP with which answers arrived here (asked for 10): 10",
            "TTL with which packets arrived there: 64",
            "both ends read one clock",
        ] {
            assert!(notes.contains(said), "{said}: {notes}");
        }
    }
    assert_eq!(far_end.finish()["answered"], 80);
}

#[test]
fn one_way_probes_measure_either_direction() {
    let far_end = FarEnd::start(&[]);
    for target in &far_end.probes {
        for (reverse, section) in [(&[][..], "there"), (&["--reverse"], "back")] {
            let told = document(&quick(&[&["owd", target, "--dscp", "af41"], reverse].concat()));
            assert_eq!((value(&told, section, "packets"), value(&told, section, "lost")), (40.0, 0.0));
            assert!(value(&told, section, "delay_min") > 0.0);
            assert!(notes(&told).contains("(sent with 34): 34"), "{}", notes(&told));
            let told = document(&quick(&[&["loss", target, "--gaps", "periodic"], reverse].concat()));
            assert_eq!(value(&told, section, "loss_ratio"), 0.0);
            assert_eq!(value(&told, "pattern", "reordered_ratio"), 0.0);
            assert!(
                told["sections"][section]["delay_min"].is_null(),
                "loss needs no clock, and tells of none"
            );
        }
    }
    assert_eq!(far_end.finish()["streams"], 8);
}

#[test]
fn a_stateful_reflector_tells_loss_there_from_loss_back() {
    let far_end = FarEnd::start(&["--stateful"]);
    let told = document(&quick(&["stamp", &far_end.stamp[0], "--stateful", "--timestamps", "ptp"]));
    assert_eq!(value(&told, "by_direction", "loss_there"), 0.0);
    assert_eq!(value(&told, "by_direction", "loss_back"), 0.0);
}

#[test]
fn authenticated_stamp_needs_the_key() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let key = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the folder can be written");
        path.to_str().expect("a plain path").to_owned()
    };
    let (right, wrong) = (key("right", "0123456789abcdef\n"), key("wrong", "0123456789abcdeF"));
    let far_end = FarEnd::start(&["--key", &right, "--authenticated"]);
    let target = &far_end.stamp[0];
    let told =
        document(&quick(&["stamp", target, "--key", &right, "--answer-dscp", "cs1", "--size", "300B"]));
    assert_eq!(value(&told, "round_trip", "lost"), 0.0);
    assert!(notes(&told).contains("(asked for 8): 8"), "{}", notes(&told));
    for other in [&["--key", &wrong][..], &[]] {
        let told = unanswered(&quick(&[&["stamp", target, "--wait", "200ms"], other].concat()));
        assert!(notes(&told).contains("no answer at all"), "{}", notes(&told));
    }
    // Probes of netrig's own have to prove that they have it too, and so has the far end.
    let target = &far_end.probes[0];
    assert_eq!(value(&document(&quick(&["owd", target, "--key", &right])), "there", "lost"), 0.0);
    let output = quick(&["owd", target, "--key", &wrong]);
    assert!(
        output.status.code() == Some(1) && err(&output).contains("its key is another one"),
        "{}",
        err(&output)
    );
    let output = quick(&["owd", target]);
    assert!(
        output.status.code() == Some(1) && err(&output).contains("give the same --key"),
        "{}",
        err(&output)
    );
    let tally = far_end.finish();
    assert_eq!(tally["unanswered"]["the packet's HMAC is wrong: it was changed, or the keys differ"], 40);
    let open = FarEnd::start(&[]);
    let output = quick(&["owd", &open.probes[0], "--key", &right]);
    assert!(
        output.status.code() == Some(1) && err(&output).contains("cannot prove who it is"),
        "{}",
        err(&output)
    );
}

#[test]
fn what_cannot_be_is_said_in_a_sentence_with_code_2() {
    for (arguments, said) in [
        (&["stamp", "127.0.0.1", "--count", "0"][..], "0 packets: expected 1 to 1000000"),
        (&["stamp", "127.0.0.1", "--interval", "0s"], "expected more than nothing"),
        (&["stamp", "127.0.0.1", "--wait", "2h"], "at most 1 h"),
        (&["stamp", "127.0.0.1", "--size", "45B"], "44 B, or 48 B to 65507 B with padding"),
        (&["stamp", "127.0.0.1", "--dscp", "64"], "DiffServ code point"),
        (&["stamp", "127.0.0.1:99999"], "no target"),
        (&["ping", "127.0.0.1", "--size", "4B"], "expected 12 B"),
        (&["owd", "127.0.0.1", "--size", "4B"], "expected 24 B"),
        (&["owd", "127.0.0.1", "--key", "/nonexistent"], "cannot read the key"),
        (&["owd", "127.0.0.1", "--key-env", "NETRIG_NO_SUCH_KEY"], "no variable NETRIG_NO_SUCH_KEY"),
        (&["reflect", "--listen", "0.0.0.0"], "give a key"),
        (&["reflect", "--authenticated"], "needs a key"),
        (&["reflect", "--listen", "192.0.2.77", "--key-env", "PATH"], "no such address"),
        (&["reflect", "--allow", "10.0.0.0/33"], "no address prefix"),
    ] {
        let output = probe(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn who_is_not_there_is_told_apart_from_who_does_not_answer() {
    // A port that nobody has: it was given to this socket, which is closed again.
    let nobody = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let told = unanswered(&quick(&["stamp", &nobody.to_string(), "--wait", "100ms"]));
    assert!(notes(&told).contains("refused"), "{}", notes(&told));
    assert_eq!(value(&told, "round_trip", "loss_ratio"), 1.0);
    assert!(told["sections"]["there"]["delay_p50"]["undefined"].is_string());
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = silent.local_addr().expect("it is bound").to_string();
    let told = unanswered(&quick(&["stamp", &target, "--wait", "100ms"]));
    assert!(notes(&told).contains("no answer at all"), "{}", notes(&told));
    let output = quick(&["owd", &nobody.to_string()]);
    assert!(output.status.code() == Some(1) && err(&output).contains("probe reflect"), "{}", err(&output));
}

#[test]
fn an_interruption_tells_what_had_been_measured() {
    let far_end = FarEnd::start(&[]);
    for (section, arguments) in [
        ("round_trip", ["stamp", &far_end.stamp[0], "--json"].to_vec()),
        ("there", ["loss", &far_end.probes[0], "--json"].to_vec()),
        ("back", ["loss", &far_end.probes[0], "--json", "--reverse"].to_vec()),
    ] {
        let child = Command::new(env!("CARGO_BIN_EXE_netrig"))
            .arg("probe")
            .args(&arguments)
            .args(["--count", "100000", "--interval", "2ms"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("netrig starts");
        std::thread::sleep(Duration::from_millis(1500));
        interrupt(&child, Signal::INT);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{arguments:?}");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(told["interrupted"], true);
        let packets = value(&told, section, "packets");
        assert!((1.0..100_000.0).contains(&packets), "{packets}");
        // What was on its way when it ended is not lost.
        assert_eq!(value(&told, section, "lost"), 0.0);
    }
}

/// A sender's packet of 44 octets.
fn packet(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; 44];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    // A moment of 2026 in seconds since 1900.
    bytes[4..8].copy_from_slice(&3_998_988_800_u32.to_be_bytes());
    bytes[13] = 1;
    bytes
}

#[test]
fn hostile_packets_get_no_more_than_they_bring_and_reflections_nothing() {
    let far_end = FarEnd::start(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(&far_end.stamp[0]).expect("it is there");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let mut answer = vec![0; 70_000];
    // Cut ones get nothing, of whatever length; then a good one shows that it still answers.
    for len in 0..41 {
        socket.send(&packet(1)[..len]).expect("it is sent");
    }
    let mut long = packet(2);
    long.resize(60_000, 0xFF);
    for sent in [&packet(3)[..41], &packet(4), &long] {
        socket.send(sent).expect("it is sent");
        let len = socket.recv(&mut answer).expect("an answer");
        assert_eq!(len, sent.len());
        assert_eq!(answer[24..28], sent[..4], "the sender's number, copied");
    }
    // Its own answer, from another port, as if it came from another reflector.
    socket.send(&packet(5)).expect("it is sent");
    let len = socket.recv(&mut answer).expect("an answer");
    socket.send(&answer[..len]).expect("it is sent");
    socket.send(&packet(6)).expect("it is sent");
    let len = socket.recv(&mut answer).expect("an answer");
    assert_eq!(
        (len, &answer[..4]),
        (44, &6_u32.to_be_bytes()[..]),
        "the reflection was not answered, the next packet was"
    );
    let tally = far_end.finish();
    assert_eq!(tally["answered"], 5);
    assert_eq!(tally["unanswered"]["it is a reflection"], 1);
    assert_eq!(tally["unanswered"]["it has fewer than 41 octets"], 41);
}

#[test]
fn hostile_words_over_tcp_end_their_connection_and_nothing_else() {
    let far_end = FarEnd::start(&[]);
    let target = &far_end.probes[0];
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 64], &[0, 0, 0, 2, b'{', b'}'], &[]] {
        let mut stream = TcpStream::connect(target).expect("it is there");
        stream.write_all(words).expect("it listens");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut rest = Vec::new();
        // It may reset the connection, having more to read than it wants.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 1000, "a greeting at most");
    }
    assert_eq!(value(&document(&quick(&["owd", target])), "there", "lost"), 0.0);
    // A stream back that is faster than it grants.
    let output =
        probe(&["loss", target, "--reverse", "--size", "60KB", "--interval", "100us", "--count", "10"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("--max-rate"), "{}", err(&output));
}

#[test]
fn a_document_has_what_its_readers_expect() {
    let far_end = FarEnd::start(&[]);
    let told = document(&quick(&["stamp", &far_end.stamp[0]]));
    let keys: Vec<_> = told.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = vec![
        "probe",
        "target",
        "confidence",
        "valid",
        "faults",
        "interrupted",
        "sections",
        "notes",
        "source",
        "stamps",
    ];
    expected.sort_unstable();
    let mut sorted = keys;
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    let p50 = &told["sections"]["round_trip"]["delay_p50"];
    assert_eq!((&p50["unit"], &p50["n"]), (&"s".into(), &40.into()));
    let number = |end: &str| p50[end].as_f64().unwrap_or_else(|| panic!("{p50}"));
    assert!(number("low") <= number("value") && number("value") <= number("high"));
}

#[test]
fn ping_measures_or_says_what_it_lacks() {
    for target in ["127.0.0.1", "::1"] {
        let output = quick(&["ping", target, "--dscp", "cs2"]);
        if output.status.code() == Some(2) {
            assert!(err(&output).contains("ping_group_range"), "{}", err(&output));
            continue;
        }
        let told = document(&output);
        assert_eq!((value(&told, "round_trip", "packets"), value(&told, "round_trip", "lost")), (40.0, 0.0));
        assert!(value(&told, "round_trip", "delay_min") > 0.0);
    }
}
