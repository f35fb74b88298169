//! `netrig probe reflect` for a test.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Guarded;

/// A far end that ends with the test.
pub struct FarEnd {
    child: Guarded,
    /// The addresses for STAMP.
    pub stamp: Vec<String>,
    /// The addresses for probes.
    pub probes: Vec<String>,
    told: BufReader<std::process::ChildStderr>,
}

impl FarEnd {
    /// Starts the far end and waits until it listens. The system chooses its ports unless the arguments have ports.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_netrig")), arguments)
    }

    /// As [`Self::start`], with a command that starts netrig, for example in a network namespace.
    pub fn start_by(mut command: Command, arguments: &[&str]) -> Self {
        command
            .args(["probe", "reflect", "--json", "--stamp-port", "0", "--control-port", "0"])
            .args(arguments);
        Self::wait_for(command)
    }

    /// Starts the far end with exactly this command, and waits until it listens.
    pub fn wait_for(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netrig starts");
        let mut told = BufReader::new(child.stderr.take().expect("it is piped"));
        let (mut stamp, mut probes) = (Vec::new(), Vec::new());
        // It prints all STAMP addresses first, and then as many for probes.
        while probes.is_empty() || probes.len() < stamp.len() {
            let mut line = String::new();
            told.read_line(&mut line).expect("it tells");
            assert!(!line.is_empty(), "it ended: {:?}", child.wait());
            let address = line.split(" at ").nth(1).and_then(|rest| rest.split(' ').next());
            let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
            if line.contains("(UDP)") { stamp.push(address) } else { probes.push(address) }
        }
        Self { child: Guarded(child), stamp, probes, told }
    }

    /// The maximum resident memory of the process, bytes.
    pub fn most_memory(&self) -> u64 {
        super::most_memory(&self.child)
    }

    /// Ends the process with SIGTERM. Returns its JSON document.
    pub fn finish(mut self) -> Value {
        interrupt(&self.child, Signal::TERM);
        let mut out = String::new();
        self.child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("it tells");
        let mut err = String::new();
        self.told.read_to_string(&mut err).expect("it tells");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

/// Sends a signal to a process.
pub fn interrupt(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Waits at most a minute until `done` returns true. `what` is for the failure message.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process has slept this number of times. A sender with a schedule sleeps before each packet.
pub fn until_it_slept(child: &Child, times: u64) {
    let slept = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse::<u64>().ok())
    };
    until("it sleeps", || slept().is_some_and(|slept| slept >= times));
}

/// Waits until a process has used this processor time, in hundredths of a second (proc(5): `utime` and `stime`).
pub fn until_it_worked(child: &Child, hundredths: u64) {
    let worked = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        // The name in brackets may contain any character; after it `utime` is the twelfth field.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
    };
    until("it works", || worked() >= hundredths);
}

/// The printed document of a probe. On a busy machine the exit code may be 3, because the tester was the limit. The
/// document is printed in this case too.
pub fn document(output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {out}{err}", output.status);
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!(document["valid"], output.status.code() == Some(0));
    document
}

/// The value of a measure in a section of the document.
pub fn value(document: &Value, section: &str, measure: &str) -> f64 {
    let found = &document["sections"][section][measure]["value"];
    found.as_f64().unwrap_or_else(|| panic!("{section}/{measure}: {:#}", document["sections"]))
}

/// All notes of the document, one per line.
pub fn notes(document: &Value) -> String {
    let notes = document["notes"].as_array().expect("there are notes");
    notes.iter().map(|note| note.as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}
