//! `netrig sip load --keep`: the kept messages are those on the wire, and dropped messages are counted.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::sip_server::SipServer;
use crate::common::{as_json, text};

fn load(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["sip", "load"]).args(arguments).current_dir(folder).output().unwrap()
}

fn told(folder: &Path, arguments: &[&str]) -> Value {
    let output = load(folder, &[arguments, &["--json"]].concat());
    as_json(&output)
}

fn shown(folder: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    let output =
        command.args(["sip", "show"]).args(arguments).arg("--json").current_dir(folder).output().unwrap();
    as_json(&output)
}

/// The number of SIP messages that tshark finds in a capture; `None` if tshark is not installed.
fn found_by_tshark(capture: &Path) -> Option<usize> {
    let mut command = Command::new("tshark");
    let output = command
        .arg("-r")
        .arg(capture)
        .args(["-Y", "sip", "-T", "fields", "-e", "sip.Method", "-e", "sip.Status-Code"])
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(text(&output.stdout).lines().count())
}

/// Over UDP the number of kept messages is that which the tester counts.
#[test]
fn every_message_is_kept_in_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, target) = SipServer::answering();
    let report = told(folder.path(), &[&target, "--rate", "100/s", "--count", "40", "--keep", "all"]);
    let kept = &report["messages"];
    let passed = report["tester"]["sent"].as_u64().unwrap() + report["tester"]["received"].as_u64().unwrap();
    assert_eq!(kept["messages"].as_u64(), Some(passed), "{kept}");
    assert_eq!((kept["dropped"].as_u64(), kept["without_room"].as_u64()), (Some(0), Some(0)), "{kept}");
    for file in ["sip-messages.log", "sip-messages.pcapng"] {
        let document = shown(folder.path(), &[file]);
        assert_eq!(document["messages"].as_array().unwrap().len() as u64, passed, "{file}");
        assert_eq!(document["calls"].as_array().unwrap().len(), 40, "{file}");
        assert!(document["calls"].as_array().unwrap().iter().all(|call| call["status"] == 200), "{file}");
    }
    match found_by_tshark(&folder.path().join("sip-messages.pcapng")) {
        Some(found) => assert_eq!(found as u64, passed),
        None => eprintln!("skipped in part: needs tshark"),
    }
}

#[test]
fn messages_over_connections_are_kept_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = SipServer::start(&["uas", "--listen", "tcp:127.0.0.1:0"]);
    let target = format!("tcp:{}", server.address("tcp"));
    let report = told(
        folder.path(),
        &[&target, "--rate", "100/s", "--count", "20", "--keep", "all", "--keep-to", "calls"],
    );
    let messages = report["messages"]["messages"].as_u64().unwrap();
    assert!(messages >= 20 * 6, "{}", report["messages"]);
    for file in ["calls.log", "calls.pcapng"] {
        let document = shown(folder.path(), &[file]);
        assert_eq!(document["messages"].as_array().unwrap().len() as u64, messages, "{file}");
    }
    match found_by_tshark(&folder.path().join("calls.pcapng")) {
        Some(found) => assert_eq!(found as u64, messages),
        None => eprintln!("skipped in part: needs tshark"),
    }
}

/// No messages of answered calls are kept, and all messages of calls to a silent socket.
#[test]
fn only_what_failed_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, target) = SipServer::answering();
    let arguments = ["--rate", "100/s", "--count", "20", "--keep", "failed", "--t1", "10ms"];
    let report = told(folder.path(), &[&[&*target], &arguments[..]].concat());
    assert_eq!(
        (report["messages"]["messages"].as_u64(), report["messages"]["attempts"].as_u64()),
        (Some(0), Some(0)),
        "{}",
        report["messages"]
    );
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = format!("udp:{}", silent.local_addr().unwrap());
    let report = told(folder.path(), &[&[&*target, "--keep-to", "failed"], &arguments[..]].concat());
    assert_eq!(report["messages"]["attempts"].as_u64(), Some(20), "{}", report["messages"]);
    let document = shown(folder.path(), &["failed.log"]);
    assert_eq!(document["calls"].as_array().unwrap().len(), 20);
    assert!(document["calls"][0]["retransmissions"].as_u64() > Some(3), "{}", document["calls"][0]);
}

#[test]
fn what_finds_no_room_is_said_and_files_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, target) = SipServer::answering();
    let arguments = [&*target, "--rate", "100/s", "--count", "20", "--keep", "all", "--keep-most", "10 KB"];
    let output = load(folder.path(), &arguments);
    let printed = text(&output.stdout);
    assert!(output.status.success() && printed.contains("had no room"), "{printed}");
    let size = |file: &str| std::fs::metadata(folder.path().join(file)).unwrap().len();
    assert!(size("sip-messages.log") + size("sip-messages.pcapng") <= 10_000);
    let again = load(folder.path(), &arguments);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("sip-messages.log exists"), "{}", text(&again.stderr));
}

/// The server keeps the same messages as the caller, with opposite directions.
#[test]
fn a_server_keeps_what_it_receives_and_sends() {
    let folder = tempfile::tempdir().unwrap();
    let served = folder.path().join("served");
    for transport in ["udp", "tcp"] {
        let listen = format!("{transport}:127.0.0.1:0");
        let to = format!("{}-{transport}", served.display());
        let server =
            SipServer::start(&["uas", "--listen", &listen, "--keep", "all", "--keep-to", &to, "--json"]);
        let target = format!("{transport}:{}", server.address(transport));
        let own = format!("own-{transport}");
        let load = [&target, "--rate", "100/s", "--count", "20", "--keep", "all", "--keep-to", &own];
        let report = told(folder.path(), &load);
        let document = server.finish();
        assert_eq!(document["messages"]["messages"], report["messages"]["messages"], "{document}");
        let [there, here] = [format!("served-{transport}.log"), format!("{own}.pcapng")].map(|file| {
            let document = shown(folder.path(), &[&file]);
            let mut texts: Vec<String> = document["messages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|message| message["text"].to_string())
                .collect();
            texts.sort();
            texts
        });
        assert_eq!(there, here, "{transport}");
    }
    let refused = Command::new(env!("CARGO_BIN_EXE_netrig"))
        .args(["sip", "serve", "uas", "--listen", "udp:127.0.0.1:0", "--keep", "failed", "--for", "1s"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(text(&refused.stderr).contains("a server does not judge attempts"), "{}", text(&refused.stderr));
    assert_eq!(refused.status.code(), Some(2));
}

/// A search keeps the messages of failed calls in all its steps.
#[test]
fn a_search_keeps_messages_of_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let server = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0", "--refuse", "486"]);
    let target = format!("udp:{}", server.address("udp"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args([
        "sip", "capacity", &target, "--start", "20/s", "--lowest", "10/s", "--keep", "failed", "--json",
    ]);
    let output = command.current_dir(folder.path()).output().unwrap();
    let document = as_json(&output);
    assert!(document["messages"]["attempts"].as_u64().unwrap() > 0, "{}", document["messages"]);
    let kept = shown(folder.path(), &["sip-messages.log"]);
    assert!(kept["calls"].as_array().unwrap().iter().all(|call| call["status"] == 486));
}

/// All messages of failed calls of a scenario are kept, and can be exported for Wireshark.
#[test]
fn failed_calls_of_a_scenario_are_found_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let server = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0", "--refuse", "503"]);
    let target = format!("udp:{}", server.address("udp"));
    let load = [&target, "--media", "pcmu", "--count", "3", "--rate", "50/s", "--keep", "failed"];
    let report = told(folder.path(), &load);
    assert_eq!((&report["failed"], &report["messages"]["attempts"]), (&3.into(), &3.into()), "{report}");
    let calls = shown(folder.path(), &["sip-messages.log", "--call", "2", "--out", "call.pcapng"]);
    assert_eq!(calls["calls"].as_array().unwrap().len(), 1);
    let messages = calls["messages"].as_array().unwrap().len();
    // The last message is the ACK that the tester has to send.
    let labels: Vec<&str> = calls["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["INVITE", "180 Ringing", "503 Service Unavailable", "ACK"]);
    let exported = shown(folder.path(), &["call.pcapng"]);
    assert_eq!(exported["messages"].as_array().unwrap().len(), messages);
    match found_by_tshark(&folder.path().join("call.pcapng")) {
        Some(found) => assert_eq!(found, messages),
        None => eprintln!("skipped in part: needs tshark"),
    }
}

/// The record has a line for each attempt. The kept messages of the attempt are found by its Call-ID.
#[test]
fn each_attempt_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, target) = SipServer::answering();
    let arguments =
        [&target, "--rate", "100/s", "--count", "30", "--records", "calls.jsonl", "--keep", "all"];
    let report = told(folder.path(), &arguments);
    assert_eq!(report["records"]["records"], 30, "{}", report["records"]);
    let lines = std::fs::read_to_string(folder.path().join("calls.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 30);
    let calls = shown(folder.path(), &["sip-messages.log"]);
    for line in &lines {
        assert_eq!((&line["what"], &line["status"]), (&"call".into(), &200.into()), "{line}");
        let delay = line["delays_us"]["connection"].as_f64().unwrap();
        assert!(delay > 0.0 && line["begins_s"].as_f64().is_some(), "{line}");
        let call = line["call"].as_str().unwrap();
        let mut rows = calls["calls"].as_array().unwrap().iter();
        assert!(rows.any(|row| row["call_id"].as_str().unwrap().starts_with(call)), "{line}");
    }
    let again = load(folder.path(), &[&target, "--count", "1", "--records", "calls.jsonl"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("calls.jsonl exists"), "{}", text(&again.stderr));
}
