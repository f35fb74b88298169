//! `netrig sip load` against Kamailio, a third-party server: registrar, proxy and redirect server, over UDP, TCP and
//! TLS. If it is not installed, each test prints that it was skipped.

use std::process::Command;
use std::time::Duration;

use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::capture::{Capture, found, found_calls};
use crate::common::kamailio::Kamailio;
use crate::common::machine::has;

/// The environment variable with the password.
const PASSWORD: &str = "NETRIG_TEST_PASSWORD";

/// Number of calls or registrations of each load. Both programs sustain its rate even on a busy machine.
const COUNT: &str = "200";

/// The transports, and the flags for the sharing of connections.
const CARRIERS: [(&str, &[&str]); 7] = [
    ("udp", &[]),
    ("tcp", &["--connections", "one"]),
    ("tcp", &["--connections", "per-user"]),
    ("tcp", &["--connections", "per-attempt"]),
    ("tls", &["--connections", "one"]),
    ("tls", &["--connections", "per-user"]),
    ("tls", &["--connections", "per-attempt"]),
];

impl Kamailio {
    /// Runs a load with these arguments and this password of the users. Returns its document.
    fn load(&self, transport: &str, password: &str, arguments: &[&str]) -> Value {
        let port = if transport == "tls" { self.tls_port } else { self.port };
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        command.args(["sip", "load", &format!("{transport}:127.0.0.1:{port}")]);
        command.args(["--users", COUNT, "--count", COUNT, "--rate", "200/s", "--cpus", "1", "--json"]);
        command.args(["--domain", "example.com", "--password-env", PASSWORD]).env(PASSWORD, password);
        let output = command.args(arguments).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {}\n{}", String::from_utf8_lossy(&output.stderr), self.said())
        })
    }

    /// Runs a load over each transport. All attempts must succeed.
    fn carries(&self, what: &str, password: &str, arguments: &[&str]) {
        for (transport, connections) in CARRIERS {
            let told = self.load(transport, password, &[arguments, connections].concat());
            let rows = told["outcomes"].as_array().unwrap();
            let row = rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{told:#}"));
            let count: u64 = COUNT.parse().unwrap();
            assert_eq!(
                [&row["begun"], &row["succeeded"]],
                [count, count],
                "{transport} {connections:?}: {told:#}: {}",
                self.said()
            );
        }
    }
}

/// Two independent implementations compute the same digests (RFC 7616, RFC 8760).
#[test]
fn kamailio_takes_registrations_by_either_algorithm() {
    for (algorithm, defines) in [("MD5", &["REGISTRAR"][..]), ("SHA-256", &["REGISTRAR", "WITH_SHA256"])] {
        let Some(server) = Kamailio::start(defines) else { return };
        let challenge = server.asked("REGISTER").unwrap();
        assert!(challenge.starts_with("SIP/2.0 401"), "{challenge}");
        assert_eq!(challenge.contains("algorithm=SHA-256"), algorithm == "SHA-256", "{challenge}");
        let told = server.load("udp", "zanzibar", &["--scenario", "register"]);
        let row = &told["outcomes"][0];
        assert_eq!(row["what"], "register", "{told:#}");
        assert_eq!([&row["begun"], &row["succeeded"]], [200, 200], "{algorithm}: {told:#}");
        assert_eq!(told["challenges"], 200);
        let told = server.load("udp", "tanzania", &["--scenario", "register"]);
        assert_eq!(
            [&told["failures"][0]["kind"], &told["failures"][0]["count"]],
            [&Value::from("authentication"), &Value::from(200)]
        );
    }
}

#[test]
fn kamailio_registers_over_everything_that_it_speaks() {
    let Some(server) = Kamailio::start(&["REGISTRAR"]) else { return };
    for scenario in ["register", "re-register"] {
        server.carries("register", "zanzibar", &["--scenario", scenario]);
    }
    server.carries("unregister", "zanzibar", &["--scenario", "unregister"]);
}

/// netrig is the caller and the callee of each call, and all messages pass Kamailio.
#[test]
fn calls_through_kamailio_succeed_over_everything_that_it_speaks() {
    let Some(server) = Kamailio::start(&["PROXY"]) else { return };
    let own = ["--callee", "own", "--ring", "20ms"];
    server.carries("call", "", &[&own[..], &["--hold", "50ms"]].concat());
    for scenario in ["cancel", "busy", "no-answer", "message"] {
        server.carries(scenario, "", &[&own[..], &["--scenario", scenario]].concat());
    }
    for scenario in ["early-media", "delayed-offer", "re-invite", "prack", "subscribe"] {
        server.carries(scenario, "", &[&own[..], &["--scenario", scenario, "--hold", "60ms"]].concat());
    }
}

/// Kamailio forks a call to all contacts of a callee, forwards each 2xx, and cancels branches without an answer. It
/// runs with one process: with several, one process may forward a 2xx while another still handles the 180 of a branch,
/// which is then not cancelled.
#[test]
fn calls_that_kamailio_forks_keep_one_dialog() {
    let Some(server) = Kamailio::start(&["PROXY", "ONE_PROCESS"]) else { return };
    let own = ["--callee", "own", "--contacts", "3", "--hold", "50ms"];
    for (scenario, surplus) in [("fork", 200), ("call", 0)] {
        let told = server.load("udp", "", &[&own[..], &["--scenario", scenario]].concat());
        let row = |what: &str| {
            told["outcomes"]
                .as_array()
                .unwrap()
                .iter()
                .find(|row| row["what"] == what)
                .cloned()
                .unwrap_or_default()
        };
        assert_eq!(row(scenario)["succeeded"], 200, "{told:#}");
        assert_eq!(
            (&row("answer")["succeeded"], &told["surplus"]),
            (&Value::from(600), &Value::from(surplus)),
            "{told:#}"
        );
    }
}

/// Kamailio accepts no session interval below 120 s. It rejects the first INVITE with 422. The caller repeats the
/// request with the value of `Min-SE`, and the callee accepts this interval (RFC 4028 sections 7.3 and 9).
#[test]
fn a_session_interval_that_kamailio_refuses_is_asked_for_again() {
    let Some(server) = Kamailio::start(&["PROXY", "SESSIONS=120"]) else { return };
    let own = ["--callee", "own", "--hold", "50ms"];
    for (interval, tries) in [("90s", 2), ("120s", 1)] {
        let Some(capture) = Capture::start(server.folder.path(), &[&server.port.to_string()]) else {
            return;
        };
        let told = server.load("udp", "", &[&own[..], &["--session-expires", interval]].concat());
        std::thread::sleep(Duration::from_millis(500));
        let file = capture.end();
        let row = told["outcomes"].as_array().unwrap().iter().find(|row| row["what"] == "call").unwrap();
        assert_eq!([&row["begun"], &row["succeeded"]], [200, 200], "{told:#}: {}", server.said());
        let port = server.port.to_string();
        let refused = found_calls(&file, &port, "sip.Status-Code == 422 && sip.Min-SE == \"120\"");
        assert_eq!(refused, 200 * (tries - 1), "{interval}");
        let granted = "sip.Status-Code == 200 && sip.Session-Expires == \"120;refresher=uac\" && sip.Require == \"timer\"";
        assert_eq!(found_calls(&file, &port, granted), 200, "{interval}");
    }
}

mod validate {
    use super::*;

    /// Kamailio ends a dialog that is not refreshed within 90 s. Dialogs of callers that refresh them last longer.
    #[test]
    #[ignore = "it takes two and a half minutes"]
    fn calls_that_are_refreshed_outlive_kamailios_session_timer() {
        let Some(server) = Kamailio::start(&["PROXY", "SESSIONS=90"]) else { return };
        let own = ["--callee", "own", "--hold", "140s"];
        let told = server.load("udp", "", &[&own[..], &["--session-expires", "90s"]].concat());
        let row = told["outcomes"].as_array().unwrap().iter().find(|row| row["what"] == "call").unwrap();
        assert_eq!([&row["begun"], &row["succeeded"]], [200, 200], "{told:#}: {}", server.said());
        // Each call is refreshed at 45, 90 and 135 s.
        assert_eq!([&told["refreshes_sent"], &told["refreshes_answered"]], [600, 600], "{told:#}");
    }
}

/// Each scenario of a mix has its own row.
#[test]
fn a_mix_through_kamailio_is_told_by_its_parts() {
    let Some(server) = Kamailio::start(&["PROXY"]) else { return };
    let mix = "call=60%,busy=10%,no-answer=10%,cancel=10%,register=10%";
    let told = server.load("udp", "", &["--callee", "own", "--ring", "20ms", "--mix", mix]);
    let rows = told["outcomes"].as_array().unwrap();
    let of = |what: &str, which: &str| {
        rows.iter().find(|row| row["what"] == what).map_or(0, |row| row[which].as_u64().unwrap())
    };
    let whats = ["call", "busy", "no-answer", "cancel", "register"];
    assert!(whats.iter().all(|what| of(what, "begun") > 0), "{told:#}");
    assert_eq!(whats.iter().map(|what| of(what, "succeeded")).sum::<u64>(), 200, "{told:#}");
}

#[test]
fn callers_are_redirected_by_kamailio_over_everything_that_it_speaks() {
    let Some(server) = Kamailio::start(&["REDIRECT"]) else { return };
    server.carries("redirect", "", &["--scenario", "redirect", "--callee", "own"]);
}

/// After Kamailio's 302 each caller calls its callee directly.
#[test]
fn callers_follow_the_redirections_of_kamailio() {
    let Some(server) = Kamailio::start(&["REDIRECT"]) else { return };
    for arguments in [&["--hold", "20ms"][..], &["--scenario", "cancel"], &["--scenario", "message"]] {
        let told = server.load("udp", "", &[&["--callee", "own", "--follow-redirects"], arguments].concat());
        let row = &told["outcomes"].as_array().unwrap()[0];
        assert_eq!([&row["begun"], &row["succeeded"]], [200, 200], "{arguments:?}: {told:#}");
        assert_eq!(told["redirects_followed"], 200, "{arguments:?}");
    }
}

/// RFC 3261 section 18.1.1: requests that are too long for a datagram are sent over TCP. Kamailio's Record-Route then
/// keeps these dialogs on TCP. Registrations and short requests are sent over UDP.
#[test]
fn large_requests_go_over_tcp_through_kamailio() {
    let Some(server) = Kamailio::start(&["PROXY"]) else { return };
    let own = ["--callee", "own", "--ring", "20ms", "--sdp", "2KB", "--large-requests", "tcp"];
    for scenario in ["call", "re-invite", "prack", "cancel", "busy"] {
        let keep = ["--keep", "all", "--keep-to", server.folder.path().join(scenario).to_str().unwrap()]
            .map(str::to_owned);
        let keep: Vec<&str> = keep.iter().map(String::as_str).collect();
        let told = server.load("udp", "", &[&own[..], &["--scenario", scenario], &keep].concat());
        let rows = told["outcomes"].as_array().unwrap();
        let row = rows.iter().find(|row| row["what"] == scenario).unwrap();
        assert_eq!([&row["begun"], &row["succeeded"]], [200, 200], "{scenario}: {told:#}: {}", server.said());
        let log = std::fs::read_to_string(server.folder.path().join(format!("{scenario}.log"))).unwrap();
        assert!(log.contains("\nVia: SIP/2.0/TCP ") && log.contains("\nVia: SIP/2.0/UDP "), "{scenario}");
    }
}

/// tshark parses the messages of calls through Kamailio, over UDP and TCP.
#[test]
fn tshark_finds_no_fault_in_calls_through_kamailio() {
    let Some(server) = Kamailio::start(&["PROXY"]) else { return };
    let port = server.port.to_string();
    skip_unless!(has("tshark"));
    let Some(capture) = Capture::start(server.folder.path(), &[&port]) else { return };
    for scenario in ["call", "cancel", "busy", "no-answer", "message"] {
        for transport in ["udp", "tcp"] {
            server.load(transport, "", &["--callee", "own", "--scenario", scenario]);
        }
    }
    // Wait for the last packets, which tshark writes until it ends.
    std::thread::sleep(Duration::from_millis(500));
    let file = capture.end();
    // Over UDP each message is a packet. Messages on both sides of the proxy are captured.
    assert!(found(&file, &port, "udp && sip") >= 200 * (4 * 6 + 4), "all of it is read as SIP");
    assert!(found(&file, &port, "tcp && sip") >= 200);
    assert_eq!(found(&file, &port, "_ws.malformed"), 0);
    assert_eq!(found(&file, &port, "udp && !sip"), 0);
}
