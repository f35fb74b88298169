//! `netrig probe reflect` for the time of a test.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Guarded;

/// A remote end that ends with the test.
pub struct FarEnd {
    child: Guarded,
    /// The address for STAMP.
    pub stamp: Vec<String>,
    /// The address for probes.
    pub probes: Vec<String>,
    told: BufReader<std::process::ChildStderr>,
}

impl FarEnd {
    /// Starts it with ports that the system chooses, unless the arguments name ports, and waits until it listens.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_netrig")), arguments)
    }

    /// Starts it with a command that ends in the program.
    pub fn start_by(mut command: Command, arguments: &[&str]) -> Self {
        command
            .args(["probe", "reflect", "--json", "--stamp-port", "0", "--control-port", "0"])
            .args(arguments);
        Self::wait_for(command)
    }

    /// Starts exactly this command.
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

    /// Its maximum memory, bytes.
    pub fn most_memory(&self) -> u64 {
        super::most_memory(&self.child)
    }

    /// Ends it with a signal; returns its output.
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

/// Signals a program.
pub fn interrupt(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process has a number");
    kill_process(pid, signal).expect("it runs");
}

/// Waits for an expected event of a program.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a program has slept that often: one that keeps a schedule sleeps before each packet.
pub fn until_it_slept(child: &Child, times: u64) {
    let slept = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse::<u64>().ok())
    };
    until("it sleeps", || slept().is_some_and(|slept| slept >= times));
}

/// Waits until a program has used that much processor time, in hundredths of a second (proc(5): `utime` and `stime`).
pub fn until_it_worked(child: &Child, hundredths: u64) {
    let worked = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        // The name in brackets may contain any character; after it `utime` is the twelfth field.
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
    };
    until("it works", || worked() >= hundredths);
}

/// The printed document of a probe. On a busy machine the tester may be the limit, which the exit code 3 says; the measurement
/// is present all the same.
pub fn document(output: &Output) -> Value {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}: {out}{err}", output.status);
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!(document["valid"], output.status.code() == Some(0));
    document
}

/// A value of a section.
pub fn value(document: &Value, section: &str, measure: &str) -> f64 {
    let found = &document["sections"][section][measure]["value"];
    found.as_f64().unwrap_or_else(|| panic!("{section}/{measure}: {:#}", document["sections"]))
}

/// Whether a note has this text.
pub fn notes(document: &Value) -> String {
    let notes = document["notes"].as_array().expect("there are notes");
    notes.iter().map(|note| note.as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}
