//! `netrig sip load` against Kamailio, a server that nobody here wrote. Where it is not installed the test says that it was
//! skipped.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of a program starts it beside a server, and what cannot go on has failed"
)]

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than it takes to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A variable of the environment of the tester.
const PASSWORD: &str = "NETRIG_TEST_PASSWORD";

/// A registrar that is ended with the test.
struct Kamailio {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Kamailio {
    /// `None` where there is none. It waits until it answers.
    fn start(defines: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kamailio/registrar.cfg");
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("kamailio");
        command.args(["-f", config, "-DD", "-E", "-m", "64", "-M", "8", "-A", &format!("PORT={port}")]);
        command.arg("-Y").arg(folder.path()).arg("-w").arg(folder.path());
        defines.iter().for_each(|define| {
            command.args(["-A", define]);
        });
        let Ok(child) = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn() else {
            eprintln!("skipped: needs kamailio");
            return None;
        };
        let mut server = Self { child, port, folder };
        let until = Instant::now() + PATIENCE;
        while server.asked("OPTIONS").is_none() {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "{ended:?}: {}", server.said());
        }
        Some(server)
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What it answers to a request of nobody's, if it does soon.
    fn asked(&self, method: &str) -> Option<String> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let request = format!(
            "{method} sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {};rport;branch=z9hG4bK{method}\r\nMax-Forwards: 70\r\n\
             From: <sip:a@example.com>;tag=1\r\nTo: <sip:a@example.com>\r\nCall-ID: {method}\r\nCSeq: 1 {method}\r\n\
             Contact: <sip:a@192.0.2.1>\r\nContent-Length: 0\r\n\r\n",
            socket.local_addr().unwrap()
        );
        let mut buffer = [0; 65_535];
        socket.send_to(request.as_bytes(), ("127.0.0.1", self.port)).unwrap();
        let len = socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
    }

    /// Forty users, who register with this password.
    fn load(&self, password: &str) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        command.args(["sip", "load", &format!("udp:127.0.0.1:{}", self.port), "--scenario", "register"]);
        command.args(["--users", "40", "--count", "40", "--rate", "200/s", "--cpus", "1", "--json"]);
        command.args(["--domain", "example.com", "--password-env", PASSWORD]).env(PASSWORD, password);
        let output = command.output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // Its children end with it, if it is told as an operator tells it.
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.child.wait();
    }
}

/// The same digests by two that have not seen each other's code (RFC 7616, RFC 8760).
#[test]
fn kamailio_takes_registrations_by_either_algorithm() {
    for (algorithm, defines) in [("MD5", &[][..]), ("SHA-256", &["WITH_SHA256"])] {
        let Some(server) = Kamailio::start(defines) else { return };
        let challenge = server.asked("REGISTER").unwrap();
        assert!(challenge.starts_with("SIP/2.0 401"), "{challenge}");
        assert_eq!(challenge.contains("algorithm=SHA-256"), algorithm == "SHA-256", "{challenge}");
        let told = server.load("zanzibar");
        let row = &told["outcomes"][0];
        assert_eq!(row["what"], "register", "{told:#}");
        assert_eq!([&row["begun"], &row["succeeded"]], [40, 40], "{algorithm}: {told:#}");
        assert_eq!(told["challenges"], 40);
        let told = server.load("tanzania");
        assert_eq!(
            [&told["failures"][0]["kind"], &told["failures"][0]["count"]],
            [&Value::from("authentication"), &Value::from(40)]
        );
    }
}
