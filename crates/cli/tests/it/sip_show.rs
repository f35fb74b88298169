//! `netrig sip show`: a message log, at the width of a terminal, and invalid files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{as_json, netrig, text, words};

/// A request or response of a call between two users. `start` is the start line.
fn message(start: &str, cseq: &str, call_id: &str) -> String {
    format!(
        "{start}\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{call_id}{}\r\nFrom: <sip:alice@atlanta.example>;tag=1\r\n\
         To: <sip:bob@biloxi.example>\r\nCall-ID: {call_id}\r\nCSeq: {cseq}\r\nContent-Length: 0\r\n\r\n",
        cseq.replace(' ', "")
    )
}

/// A message log with a call that is rejected, and a call that is answered after a retransmission.
fn log() -> String {
    let (alice, bob) = ("192.0.2.1:5060", "192.0.2.2:5070");
    let mut log = "# netrig SIP message log, version 1\n".to_owned();
    let mut entry = |at_ms: u64, is_sent: bool, text: &str| {
        let (direction, from, to) = if is_sent { ("sent", alice, bob) } else { ("received", bob, alice) };
        let (s, ns) = (1_700_000_000 + at_ms / 1000, at_ms % 1000 * 1_000_000);
        log += &format!("{s}.{ns:09} {direction} UDP {from} -> {to} {} B\n{text}\n\n", text.len());
    };
    let invite = |call: &str| message("INVITE sip:bob@biloxi.example SIP/2.0", "1 INVITE", call);
    entry(0, true, &invite("refused"));
    entry(20, false, &message("SIP/2.0 486 Busy Here", "1 INVITE", "refused"));
    entry(21, true, &message("ACK sip:bob@biloxi.example SIP/2.0", "1 ACK", "refused"));
    entry(1000, true, &invite("answered"));
    entry(1500, true, &invite("answered"));
    entry(1510, false, &message("SIP/2.0 200 OK", "1 INVITE", "answered"));
    entry(1511, true, &message("ACK sip:bob@192.0.2.2:5070 SIP/2.0", "1 ACK", "answered"));
    log
}

struct LogFolder {
    folder: tempfile::TempDir,
}

impl LogFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("calls.log"), log()).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        command.args(["sip", "show"]).args(arguments).current_dir(self.folder.path()).env("COLUMNS", "80");
        command.output().unwrap()
    }

    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.output(&[&["calls.log"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let printed = text(&output.stdout);
        assert!(printed.lines().all(|line| line.chars().count() <= 80), "{arguments:?}:\n{printed}");
        printed
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

#[test]
fn calls_are_listed_with_the_answer_first() {
    let shown = LogFolder::new();
    let list = shown.printed(&[]);
    let answer = "2 calls in calls.log: 1 failed, 0 without a final response\n7 messages, 1 retransmission\n";
    assert!(list.starts_with(answer), "{list}");
    assert!(list.contains("INVITE") && list.contains("alice") && list.contains("486"), "{list}");
    let failed = shown.printed(&["--status", "486"]);
    assert!(
        failed.contains("486 Busy Here") && !failed.contains("200 OK"),
        "one call is drawn at once:\n{failed}"
    );
}

#[test]
fn a_ladder_says_what_repeats_and_how_long_it_took() {
    let shown = LogFolder::new();
    let ladder = shown.printed(&["--call", "2"]);
    assert!(ladder.contains("INVITE #1 again") && ladder.contains("0.500000 s"), "{ladder}");
    let previous = shown.printed(&["answered", "--times", "since-previous"]);
    assert!(previous.contains("0.010000 s"), "{previous}");
    let absolute = shown.printed(&["answered", "--times", "absolute"]);
    assert!(absolute.contains("22:13:21"), "{absolute}");
    let both = shown.printed(&["--together", "--hide", "ACK"]);
    assert!(both.contains("486 Busy Here") && both.contains("200 OK"), "{both}");
    let message = shown.printed(&["refused", "--message", "2"]);
    assert!(
        message.starts_with("SIP/2.0 486 Busy Here\r\n") || message.starts_with("SIP/2.0 486 Busy Here\n"),
        "{message}"
    );
    let compared = shown.printed(&["answered", "--compare", "1", "3"]);
    assert!(compared.contains("- INVITE sip:bob") && compared.contains("+ SIP/2.0 200 OK"), "{compared}");
}

#[test]
fn a_picture_and_a_document_have_the_same_messages() {
    let shown = LogFolder::new();
    shown.printed(&["--together", "--out", "calls.svg"]);
    let svg = std::fs::read_to_string(shown.path("calls.svg")).unwrap();
    assert_eq!(svg.matches("class=\"words").count(), 7, "{svg}");
    let printed = shown.output(&["calls.log", "--json"]);
    let document = as_json(&printed);
    assert_eq!(
        (document["calls"].as_array().unwrap().len(), document["messages"].as_array().unwrap().len()),
        (2, 7)
    );
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/sip-show.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap().validate(&document).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_is_masked_names_nobody() {
    let shown = LogFolder::new();
    let printed = shown.output(&["calls.log", "--mask", "--json"]);
    let printed = text(&printed.stdout);
    for word in ["alice", "bob", "atlanta", "biloxi", "192.0.2."] {
        assert!(!printed.contains(word), "{word}: {printed}");
    }
}

#[test]
fn what_is_no_trace_is_said() {
    let shown = LogFolder::new();
    std::fs::write(shown.path("other"), "hello").unwrap();
    std::fs::write(shown.path("empty.log"), "# netrig SIP message log, version 1\n").unwrap();
    for (arguments, why) in [
        (&["missing"][..], "cannot read missing"),
        (&["other"], "neither a capture"),
        (&["empty.log"], "has no SIP message"),
        (&["calls.log", "unknown"], "none of the 2 calls"),
        (&["calls.log", "--call", "3"], "the file has calls 1 to 2"),
        (&["calls.log", "--call", "1", "--message", "9"], "which has 1 to 3"),
    ] {
        let said = shown.refused(arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

/// If a log is truncated, as by a full disk, the complete messages are shown.
#[test]
fn a_log_that_is_cut_is_shown_to_its_last_message() {
    let shown = LogFolder::new();
    let log = log();
    std::fs::write(shown.path("cut.log"), &log[..log.len() - 40]).unwrap();
    let output = shown.output(&["cut.log"]);
    let (told, warned) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{warned}");
    assert!(told.contains("alice") && warned.contains("of its"), "{told}{warned}");
}

/// The SIP messages of a simulated run can be exported and shown, with losses and retransmissions.
#[test]
fn calls_of_a_simulated_run_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = netrig(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let levels = "role=uas,loss=5 %,t1=500 ms,delay=1 ms";
    let load = words("run sip-server/loss --replications 1 --store r.db --out r.html --set");
    run(&[&load[..], &[levels]].concat());
    let listed = run(&["list", "--store", "r.db"]);
    let id =
        listed.lines().find(|line| line.contains("loss = 5 %")).unwrap().split_whitespace().next().unwrap();
    run(&["export", "--run", id, "--store", "r.db", "--pcapng", "--to", "5s", "--out", "run.pcapng"]);
    let shown: Value = serde_json::from_str(&run(&["sip", "show", "run.pcapng", "--json"])).unwrap();
    let calls = shown["calls"].as_array().unwrap();
    let again: u64 = calls.iter().map(|call| call["retransmissions"].as_u64().unwrap()).sum();
    assert!(calls.len() > 50 && again > 0, "{} calls, {again} retransmissions", calls.len());
}
