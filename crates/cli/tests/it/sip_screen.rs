//! The live screen of `netrig sip load` and `netrig sip capacity`, on a terminal made by script(1).

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::sip_server::SipServer;
use crate::common::terminal::Terminal;

/// The control sequences by which a terminal leaves its alternate screen and shows its cursor.
const RESTORED: [&str; 2] = ["\x1b[?1049l", "\x1b[?25h"];

fn netrig() -> &'static str {
    env!("CARGO_BIN_EXE_netrig")
}

/// Checks that the terminal is restored after the screen of a load, and that the shell continues.
fn assert_restored(shown: &str) {
    for sign in RESTORED {
        assert!(shown.contains(sign), "{sign:?}: {shown:?}");
    }
    for mode in ["isig icanon", " echo echoe "] {
        assert!(shown.contains(mode), "{mode}: {shown:?}");
    }
}

#[test]
fn keys_change_a_load_and_end_it_and_the_report_says_so() {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let load = format!(
        "{} sip load {target} --rate 100/s --arrivals constant --for 1h --cpus 1 --json > load.json",
        netrig()
    );
    let mut terminal = Terminal::run(folder.path(), &format!("{load}; echo code=$?; stty -a"));
    terminal.wait_for("running");
    terminal.wait_for("connection");
    terminal.press("+");
    terminal.wait_for("1.10");
    terminal.press(" ");
    terminal.wait_for("PAUSED");
    // No call starts during this time.
    std::thread::sleep(Duration::from_millis(2500));
    terminal.press("p");
    terminal.wait_for("running");
    std::thread::sleep(Duration::from_millis(1500));
    terminal.press("q");
    assert_restored(&terminal.end());

    let told: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("load.json")).unwrap()).unwrap();
    let interventions = told["interventions"].as_array().unwrap();
    let whats: Vec<_> =
        interventions.iter().map(|one| (one["what"].as_str().unwrap(), &one["factor"])).collect();
    let [one, faster, none] = [1.1, 1.1, 0.0].map(Value::from);
    assert_eq!(whats, [("rate", &one), ("pause", &none), ("rate", &faster), ("end", &faster)]);
    assert_eq!(told["interrupted"], false);
    let calls = &told["outcomes"][0];
    assert_eq!(calls["begun"], calls["succeeded"], "what is open is waited for: {calls}");
    let seconds = told["seconds"].as_array().unwrap();
    assert!(seconds.iter().any(|second| second["begun"] == 0 && second["intended"] == 0.0), "a pause");
    assert!(seconds.iter().any(|second| second["intended"] == 100.0), "as planned");
    let late = told["tester"]["lateness"]["max_us"].as_f64().unwrap();
    assert!(late < 2e6, "nothing of a pause is late: {late} µs");
    assert!(told["notes"].to_string().contains("not the load that was planned"), "{}", told["notes"]);
}

/// Sends SIGTERM to a load as soon as its screen shows a word. Returns the output after it.
fn told_to_end_when_it_says(word: &str) -> String {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let load = format!("exec {} sip load {target} --rate 50/s --for 1h", netrig());
    let commands = format!("sh -c 'echo pid=$$.; {load}'; echo code=$?; stty -a");
    let mut terminal = Terminal::run(folder.path(), &commands);
    terminal.wait_for("pid=");
    let pid = terminal.wait_for(".").parse().unwrap();
    terminal.wait_for(word);
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    terminal.end()
}

/// The signal also works before the first second, when there are no results.
#[test]
fn a_signal_ends_it_and_the_terminal_is_restored() {
    for word in ["starting", "running"] {
        let shown = told_to_end_when_it_says(word);
        assert_restored(&shown);
        assert!(shown.contains("code=130") && shown.contains("interrupted"), "{word}: {shown:?}");
    }
}

#[test]
fn a_search_is_shown_and_ended_by_a_key() {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let search = format!("{} sip capacity {target} --start 20/s --cpus 1", netrig());
    let mut terminal = Terminal::run(folder.path(), &format!("{search}; echo code=$?; stty -a"));
    terminal.wait_for("steps,");
    terminal.press("q");
    let shown = terminal.end();
    assert_restored(&shown);
    assert!(shown.contains("code=130"), "{shown:?}");
}

/// With `--no-screen` the output has lines, even on a terminal.
#[test]
fn lines_are_to_be_had_on_a_terminal_too() {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let load = format!("{} sip load {target} --rate 50/s --for 1s --no-screen", netrig());
    let shown = Terminal::run(folder.path(), &load).end();
    assert!(shown.contains("1 s: ") && !shown.contains(RESTORED[0]), "{shown:?}");
}
