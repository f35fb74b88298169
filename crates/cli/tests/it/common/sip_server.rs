//! `netrig sip serve` for a test.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::Guarded;
use super::far_end::interrupt;

/// The environment variable with the server's password `zanzibar`.
pub const PASSWORD_ENV: &str = "NETRIG_TEST_PASSWORD";

/// A server that ends with the test.
pub struct SipServer {
    child: Guarded,
    /// Its listening points, such as `udp:127.0.0.1:5060`.
    pub points: Vec<String>,
    told: BufReader<std::process::ChildStderr>,
}

impl SipServer {
    /// Starts the server, and waits until it listens.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_netrig")), arguments)
    }

    /// Starts a user agent that answers calls over UDP. Returns the target argument for it too.
    pub fn answering() -> (Self, String) {
        let server = Self::start(&["uas", "--listen", "udp:127.0.0.1:0"]);
        let target = format!("udp:{}", server.address("udp"));
        (server, target)
    }

    /// As [`Self::start`], with a command that starts netrig, for example in a network namespace.
    pub fn start_by(mut command: Command, arguments: &[&str]) -> Self {
        command.args(["sip", "serve"]).args(arguments).env(PASSWORD_ENV, "zanzibar");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netrig starts");
        let mut told = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        told.read_line(&mut line).expect("it tells");
        let points = line.strip_prefix("ready: ").and_then(|rest| rest.split(" at ").nth(1));
        let points = points.unwrap_or_else(|| panic!("{line}: {:?}", child.wait()));
        let points = points.trim_end().split(';').next().unwrap_or_default();
        Self { points: points.split(", ").map(str::to_owned).collect(), child: Guarded(child), told }
    }

    /// Its address and port for a transport.
    pub fn address(&self, transport: &str) -> &str {
        let found = self.points.iter().find_map(|point| point.strip_prefix(transport)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("{transport} in {:?}", self.points))
    }

    /// The maximum resident memory of the process, bytes.
    pub fn most_memory(&self) -> u64 {
        super::most_memory(&self.child)
    }

    /// Ends the server with SIGTERM, which must succeed without messages. Returns its output.
    pub fn end(self) -> String {
        let (out, err, status) = self.stop();
        assert!(status.success() && err.is_empty(), "{status}: {err}");
        out
    }

    /// Ends the server with SIGTERM. Returns its stdout, its stderr and its exit status.
    fn stop(mut self) -> (String, String, ExitStatus) {
        interrupt(&self.child, Signal::TERM);
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().expect("it is piped").read_to_string(&mut out).expect("it tells");
        self.told.read_to_string(&mut err).expect("it tells");
        let status = self.child.wait().expect("it ends");
        (out, err, status)
    }

    /// As [`Self::end`], for a server with `--json`. Returns the document.
    pub fn finish(self) -> Value {
        let out = self.end();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// As [`Self::finish`], for a server with failed calls, which exits with 1.
    pub fn finish_failed(self) -> Value {
        let (out, err, status) = self.stop();
        assert_eq!(status.code(), Some(1), "{err}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}
