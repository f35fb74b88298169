//! `netrig sip serve`, as long as a test needs it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The variable in which a server finds the password `zanzibar`.
pub const PASSWORD_ENV: &str = "NETRIG_TEST_PASSWORD";

/// A server that is ended with the test.
pub struct SipServer {
    child: Child,
    /// Where it listens, as `udp:127.0.0.1:5060`.
    pub points: Vec<String>,
    told: BufReader<std::process::ChildStderr>,
}

impl SipServer {
    /// Starts it, and waits until it listens.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_netrig")), arguments)
    }

    /// The same by a command that starts netrig, as in a network namespace.
    pub fn start_by(mut command: Command, arguments: &[&str]) -> Self {
        command.args(["sip", "serve"]).args(arguments).env(PASSWORD_ENV, "zanzibar");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netrig starts");
        let mut told = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        told.read_line(&mut line).expect("it tells");
        let points = line.strip_prefix("ready: ").and_then(|rest| rest.split(" at ").nth(1));
        let points = points.unwrap_or_else(|| panic!("{line}: {:?}", child.wait()));
        let points = points.trim_end().split(';').next().unwrap_or_default();
        Self { points: points.split(", ").map(str::to_owned).collect(), child, told }
    }

    /// Where it listens over a transport: an address and a port.
    pub fn address(&self, transport: &str) -> &str {
        let found = self.points.iter().find_map(|point| point.strip_prefix(transport)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("{transport} in {:?}", self.points))
    }

    /// The most memory that it has had, bytes.
    pub fn most_memory(&self) -> u64 {
        super::most_memory(&self.child)
    }

    /// Ends it as an operator does; what it prints.
    pub fn end(self) -> String {
        let (out, err, status) = self.stop();
        assert!(status.success() && err.is_empty(), "{status}: {err}");
        out
    }

    /// Ends it; what it printed, what it told, and how it exited.
    fn stop(mut self) -> (String, String, ExitStatus) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process has a number");
        kill_process(pid, Signal::TERM).expect("it runs");
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("it tells");
        self.told.read_to_string(&mut err).expect("it tells");
        let status = self.child.wait().expect("it ends");
        (out, err, status)
    }

    /// The same of one that was started with `--json`.
    pub fn finish(self) -> Value {
        let out = self.end();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// The same of one whose calls failed, which its exit status 1 says.
    pub fn finish_failed(self) -> Value {
        let (out, err, status) = self.stop();
        assert_eq!(status.code(), Some(1), "{err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

impl Drop for SipServer {
    fn drop(&mut self) {
        // After `end` there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
