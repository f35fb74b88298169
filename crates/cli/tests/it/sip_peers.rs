//! `netrig sip serve` with SIPp as a third-party caller and callee, and with tshark, which parses the messages. If they
//! are not installed, each test prints that it was skipped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::Guarded;
use crate::common::as_json;
use crate::common::capture::{Capture, found};
use crate::common::free_port::free_port;
use crate::common::machine::has;
use crate::common::sip_server::{PASSWORD_ENV, SipServer};

/// Number of calls of each test.
const CALLS: u64 = 200;

/// Time limit for the calls of a test.
const PATIENCE: Duration = Duration::from_secs(120);

/// The addresses of servers, at ports that the system chooses.
const POINTS: [&str; 4] = ["--listen", "udp:127.0.0.1:0", "--listen", "tcp:127.0.0.1:0"];

/// A process that ends with the test.
struct Peer {
    child: Guarded,
    folder: tempfile::TempDir,
}

impl Peer {
    /// Starts SIPp at this port, over UDP or TCP.
    fn sipp(transport: &str, port: u16, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = |name: &str| File::create(folder.path().join(name)).expect("a file");
        let mut command = Command::new("sipp");
        command.current_dir(folder.path()).args(["-i", "127.0.0.1", "-p", &port.to_string()]);
        command.args(["-t", if transport == "udp" { "u1" } else { "t1" }, "-nostdin", "-trace_err"]);
        // With the default buffer of 64 KiB, SIPp drops messages that arrive while a busy machine delays it.
        command.args(["-buff_size", "4000000"]);
        command.args(arguments).stdin(Stdio::null()).stdout(log("out")).stderr(log("err"));
        Self { child: Guarded(command.spawn().expect("sipp starts")), folder }
    }

    /// Starts SIPp as a callee and waits until it listens. Also returns its address.
    fn callee(transport: &str, arguments: &[&str]) -> (Self, String) {
        let port = free_port();
        let mut peer = Self::sipp(transport, port, arguments);
        let until = Instant::now() + PATIENCE;
        // Checks in /proc (proc(5)), without sending to the port, that a socket at 127.0.0.1 has no remote end.
        let entry = format!("0100007F:{port:04X} 00000000:0000");
        let is_taken = || {
            let table = std::fs::read_to_string(format!("/proc/net/{transport}")).unwrap_or_default();
            table.contains(&entry)
        };
        while !is_taken() {
            assert!(Instant::now() < until && peer.ended().is_none(), "{}", peer.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        (peer, format!("127.0.0.1:{port};transport={transport}"))
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is a child")
    }

    /// The text of all files that SIPp has written.
    fn said(&self) -> String {
        let files = std::fs::read_dir(self.folder.path()).expect("a folder");
        let text = |file: std::fs::DirEntry| std::fs::read_to_string(file.path()).unwrap_or_default();
        files.flatten().map(text).collect::<Vec<_>>().join("\n")
    }

    /// Waits for the end of SIPp and checks that its exit code is 0, which means that every call has succeeded.
    fn succeeds(mut self) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.ended() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}: {}", self.said());
    }
}

fn scenario(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/sipp").join(name);
    path.to_str().expect("a name").to_owned()
}

/// Starts a server over UDP and TCP that prints its counts when it ends.
fn serve(arguments: &[&str]) -> SipServer {
    SipServer::start(&[arguments, &["--json"], &POINTS].concat())
}

/// Starts SIPp as a caller that makes [`CALLS`] calls at 200/s.
fn calls(transport: &str, server: &SipServer, arguments: &[&str]) -> Peer {
    let count = CALLS.to_string();
    let bounds = [server.address(transport), "-m", &count, "-r", "200"];
    Peer::sipp(transport, free_port(), &[&bounds[..], arguments].concat())
}

/// Writes a file of users with their passwords for SIPp.
fn users(folder: &Path, names: &[String]) -> String {
    let line = |name: &String| format!("{name};[authentication username={name} password=zanzibar]\n");
    let file = folder.join("users.csv");
    std::fs::write(&file, format!("SEQUENTIAL\n{}", names.iter().map(line).collect::<String>()))
        .expect("a file");
    file.to_str().expect("a name").to_owned()
}

/// Checks that at least these numbers of requests and responses were received and sent, and that none was lost or
/// invalid.
fn balanced(told: &Value, expected: &[(&str, &str, u64)]) {
    for (way, kind, count) in expected {
        let group = if kind.ends_with("xx") { "responses" } else { "requests" };
        // On a busy machine there may be retransmissions.
        assert!(told[way][group][kind].as_u64() >= Some(*count), "{way} {kind}: {told:#}");
    }
    for nothing in [&told["unsent"], &told["unreadable"]] {
        assert_eq!(nothing, &serde_json::json!({}), "{told:#}");
    }
    // If SIPp ends with unread data, its connection is reset.
    let broken = told["connections"]["broken"].as_object().expect("reasons");
    assert!(broken.keys().all(|why| why == "connection reset"), "{told:#}");
    assert_eq!(told["socket_drops"], 0, "{told:#}");
}

#[test]
fn a_user_agent_answers_sipp() {
    skip_unless!(has("sipp"));
    let caller = scenario("caller.xml");
    for transport in ["udp", "tcp"] {
        let server = serve(&["uas"]);
        calls(transport, &server, &["-sf", &caller, "-d", "20"]).succeeds();
        let expected = ["INVITE", "ACK", "BYE"].map(|method| ("received", method, CALLS));
        balanced(&server.finish(), &expected);
        // The callee rings for 30 ms with early media, and ends the call.
        let arguments = ["uas", "--ring", "30ms", "--early-media"];
        let server = serve(&arguments);
        calls(transport, &server, &["-sf", &caller, "-d", "20"]).succeeds();
        balanced(&server.finish(), &[("sent", "1xx", 2 * CALLS), ("sent", "2xx", 2 * CALLS)]);
    }
}

#[test]
fn users_of_sipp_register_with_their_passwords() {
    skip_unless!(has("sipp"));
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<String> = (0..CALLS).map(|number| format!("user{number:06}")).collect();
    let file = users(folder.path(), &names);
    for transport in ["udp", "tcp"] {
        let asks = ["registrar", "--users", "200", "--password-env", PASSWORD_ENV, "--digest", "md5"];
        let server = serve(&asks);
        let arguments =
            ["-sf", &scenario("register.xml"), "-inf", &file, "-key", "contact", "192.0.2.1:5060"];
        calls(transport, &server, &arguments).succeeds();
        let expected = [("received", "REGISTER", 2 * CALLS), ("sent", "4xx", CALLS), ("sent", "2xx", CALLS)];
        balanced(&server.finish(), &expected);
    }
}

#[test]
fn proxies_stand_between_callers_and_callees_of_sipp() {
    skip_unless!(has("sipp"));
    let caller = scenario("caller.xml");
    for transport in ["udp", "tcp"] {
        for role in ["proxy", "stateless-proxy"] {
            let (_callee, at) = Peer::callee(transport, &["-sf", &scenario("callee.xml")]);
            let contact = format!("sip:{{user}}@{at}");
            let arguments = [role, "--users", "1", "--contact", &contact];
            let server = serve(&arguments);
            calls(transport, &server, &["-sf", &caller, "-s", "user000000", "-d", "20"]).succeeds();
            let both = |name| [("received", name, CALLS), ("sent", name, CALLS)];
            balanced(&server.finish(), &["INVITE", "ACK", "BYE", "1xx", "2xx"].map(both).concat());
        }
    }
}

/// A callee registers. All requests of its calls follow the route that the proxy has recorded.
#[test]
fn a_proxy_finds_who_has_registered_and_stays_in_the_way() {
    skip_unless!(has("sipp"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = users(folder.path(), &["user000000".to_owned()]);
    for transport in ["udp", "tcp"] {
        let (_callee, at) = Peer::callee(transport, &["-sf", &scenario("routed-callee.xml")]);
        let asks =
            ["proxy", "--record-route", "--users", "1", "--password-env", PASSWORD_ENV, "--digest", "md5"];
        let server = serve(&asks);
        let register = scenario("register.xml");
        let once =
            ["-sf", &register, "-inf", &file, "-key", "contact", &at, "-m", "1", server.address(transport)];
        Peer::sipp(transport, free_port(), &once).succeeds();
        let caller = scenario("routed-caller.xml");
        calls(transport, &server, &["-sf", &caller, "-s", "user000000"]).succeeds();
        balanced(&server.finish(), &["INVITE", "ACK", "BYE"].map(|method| ("sent", method, CALLS)));
    }
}

#[test]
fn callers_of_sipp_are_redirected() {
    skip_unless!(has("sipp"));
    for transport in ["udp", "tcp"] {
        let arguments = ["redirect", "--users", "1", "--contact", "sip:elsewhere@192.0.2.1"];
        let server = serve(&arguments);
        calls(transport, &server, &["-sf", &scenario("redirected.xml"), "-s", "user000000"]).succeeds();
        let expected = [("received", "INVITE", CALLS), ("received", "ACK", CALLS), ("sent", "3xx", CALLS)];
        balanced(&server.finish(), &expected);
    }
}

#[test]
fn tshark_finds_no_fault_in_what_is_said() {
    skip_unless!(has("sipp") && has("tshark"));
    let folder = tempfile::tempdir().expect("a folder");
    let (_callee, at) = Peer::callee("udp", &["-sf", &scenario("callee.xml")]);
    let contact = format!("sip:{{user}}@{at}");
    let arguments = ["proxy", "--record-route", "--users", "1", "--contact", &contact];
    let proxy = serve(&arguments);
    let machine = serve(&["uas", "--early-media"]);
    let port = |server: &SipServer, transport: &str| {
        server.address(transport).rsplit(':').next().unwrap_or_default().to_owned()
    };
    let ports = [port(&proxy, "udp"), port(&machine, "udp"), port(&machine, "tcp")];
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let Some(capture) = Capture::start(folder.path(), &ports) else { return };
    let caller = scenario("caller.xml");
    calls("udp", &proxy, &["-sf", &caller, "-s", "user000000"]).succeeds();
    calls("udp", &machine, &["-sf", &caller]).succeeds();
    calls("tcp", &machine, &["-sf", &caller]).succeeds();
    // Wait for the last packets, which tshark writes until it ends.
    std::thread::sleep(Duration::from_millis(500));
    let file = capture.end();
    for (port, at_least) in ports.iter().zip([10 * CALLS, 5 * CALLS, CALLS]) {
        let of_port = |filter: &str| format!("({filter}) && (udp.port=={port} || tcp.port=={port})");
        // Over TCP a frame may have several messages.
        assert!(found(&file, port, &of_port("sip")) as u64 >= at_least, "all of it is read as SIP");
        assert_eq!(found(&file, port, &of_port("_ws.malformed")), 0);
    }
    proxy.finish();
    machine.finish();
}

/// tshark sees a deliberate fault on the wire, and netrig reports it with the broken rule.
#[test]
fn tshark_sees_faults_as_they_are_meant() {
    let server = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0"]);
    let target = server.address("udp");
    let port = target.rsplit(':').next().expect("a port").to_owned();
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    // The capture may lack the packets just before its end.
    std::fs::write(&script, "options\npause 1s\n").expect("a file");
    skip_unless!(has("tshark"));
    let Some(capture) = Capture::start(folder.path(), &[&port]) else { return };
    let faults = [
        ("missing-max-forwards", "8.1.1.6", "!sip.Max-Forwards"),
        ("missing-call-id", "8.1.1", "!sip.Call-ID"),
        ("repeated-from", "7.3.1", "count(sip.From) == 2"),
        ("large-cseq", "20.16", "sip.CSeq.seq == 2147483648"),
        ("branch-without-cookie", "8.1.1.7", "!(sip.Via.branch contains \"z9hG4bK\")"),
    ];
    for (fault, section, _) in faults {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        command.args(["sip", "call", &format!("udp:{target}"), "--json", "--fault", fault, "--script"]);
        let output = command.arg(&script).output().expect("it starts");
        let told = as_json(&output);
        let rule = &told["messages"][0]["breaks"][0]["rule"];
        assert_eq!(*rule, format!("RFC 3261 section {section}"), "{fault}: {told}");
    }
    let file = capture.end();
    for (fault, _, filter) in faults {
        let filter = format!("sip.Method == \"OPTIONS\" && udp.dstport == {port} && {filter}");
        assert!(found(&file, &port, &filter) > 0, "{fault}: {filter}");
    }
}
