//! `netrig sip serve`.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::as_json;
use crate::common::sip_server::SipServer;
use crate::common::words;

fn serve(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["sip", "serve"]).args(arguments).output().expect("netrig starts")
}

fn options(number: u32, more: &str) -> String {
    format!(
        "OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;rport;branch=z9hG4bK{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: {number}\r\nCSeq: 1 OPTIONS\r\n{more}\
         Content-Length: 0\r\n\r\n"
    )
}

/// Sends a request to the server over UDP. Returns the first line of the response.
fn asked(server: &SipServer, request: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
    let mut buffer = [0; 65_535];
    // The request is retransmitted, because a server under a flood may drop it.
    for _ in 0..10 {
        socket.send_to(request.as_bytes(), server.address("udp")).expect("it is sent");
        if let Ok(len) = socket.recv(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..len]);
            return text.lines().next().unwrap_or_default().to_owned();
        }
    }
    panic!("no answer comes");
}

#[test]
fn a_server_ends_when_it_is_told_and_sums_up() {
    let points = ["--listen", "udp:127.0.0.1:0", "--listen", "tcp:[::1]:0", "--listen", "tls:127.0.0.1:0"];
    let server = SipServer::start(&[&["registrar", "--json"][..], &points].concat());
    assert!(
        ["udp:127.0.0.1:", "tcp:[::1]:", "tls:127.0.0.1:"]
            .iter()
            .zip(&server.points)
            .all(|(expected, point)| point.starts_with(expected) && !point.ends_with(":0"))
    );
    assert_eq!(asked(&server, &options(1, "")), "SIP/2.0 200 OK");
    let points = server.points.clone();
    let told = server.finish();
    assert_eq!(told["server"], "registrar");
    assert_eq!(told["listens"], serde_json::json!(points));
    assert_eq!(told["received"]["requests"], serde_json::json!({ "OPTIONS": 1 }));
    assert_eq!(told["sent"]["responses"], serde_json::json!({ "2xx": 1 }));
    assert_eq!(told["connections"]["refused"], 0);
    let server = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0"]);
    asked(&server, &options(1, ""));
    let told = server.end();
    assert!(told.contains("OPTIONS         1     0\n"), "{told}");
    assert!(told.contains("datagrams that the sockets had no room for: 0\n"), "{told}");
}

#[test]
fn a_server_ends_by_itself_after_its_time() {
    for role in ["registrar", "proxy", "stateless-proxy", "redirect", "uas"] {
        let output = serve(&[role, "--listen", "udp:127.0.0.1:0", "--for", "50ms", "--json"]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{role}: {err}");
        assert!(
            err.starts_with(&format!("ready: {role} at udp:127.0.0.1:")) && err.lines().count() == 1,
            "{err}"
        );
        let told = as_json(&output);
        assert_eq!(told["server"], role);
    }
}

#[test]
fn what_cannot_be_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x");
    std::fs::write(&file, "not,a,certificate\n,\n").expect("a file");
    let file = file.to_str().expect("a name");
    let here = ["--listen", "udp:127.0.0.1:0"];
    for (arguments, expected) in [
        (&["uas", "--listen", "sctp:127.0.0.1:1"][..], "`sctp` is no transport to listen at"),
        (&["uas", "--listen", "udp:0.0.0.0:1"], "0.0.0.0 stands for every address of this machine"),
        (
            &["uas", "--listen", "udp:192.0.2.1:5060"],
            "udp:192.0.2.1:5060 is reached over a network: this server does not authenticate users",
        ),
        (
            &["proxy", "--listen", "udp:192.0.2.1:5060"],
            "udp:192.0.2.1:5060 is reached over a network: authenticate users with --digest",
        ),
        (&["uas", "--open", "--listen", "udp:192.0.2.1:5060"], "this machine has no such address"),
        (
            &["registrar", here[0], here[1], "--digest", "md5"],
            "--digest asks for passwords: give --users and",
        ),
        (
            &["registrar", here[0], here[1], "--digest", "md5", "--users", "5"],
            "give that of all --users with --password-env",
        ),
        (&["registrar", here[0], here[1], "--users", "0"], "--users 0: expected 1 to 1000000"),
        (&["registrar", here[0], here[1], "--users-file", "nowhere"], "cannot read the users nowhere"),
        (&["registrar", here[0], here[1], "--users-file", file], ":2: `` cannot be the user of a SIP URI"),
        (&["registrar", here[0], here[1], "--domain", "a b"], "`a b` is no domain"),
        (
            &["redirect", here[0], here[1], "--users", "1", "--contact", "{user}"],
            "`user000000` is not a contact",
        ),
        (
            &["redirect", here[0], here[1], "--hosts", "x"],
            "`x` is not NAME=ADDRESS, for example `example.com=192.0.2.1`",
        ),
        (
            &["uas", here[0], here[1], "--delay", "soon"],
            "`soon` is neither a time such as 30s nor a distribution",
        ),
        (
            &["uas", "--listen", "tls:127.0.0.1:0", "--certificate", file, "--private-key", file],
            "has no certificate: expected PEM",
        ),
        (
            &["uas", "--listen", "tls:127.0.0.1:0", "--client-authorities", file],
            "has no certificate: expected PEM",
        ),
    ] {
        let output = serve(arguments);
        let err = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (udp, tcp) = (udp.expect("a socket"), tcp.expect("a socket"));
    for (transport, address) in [("udp", udp.local_addr()), ("tcp", tcp.local_addr())] {
        let point = format!("{transport}:{}", address.expect("an address"));
        let output = serve(&["uas", "--listen", &point]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert_eq!(err, format!("error: {point} is taken: another program listens there\n"));
    }
}

#[test]
fn a_password_on_the_command_line_is_warned_of() {
    let here = ["--listen", "udp:127.0.0.1:0", "--users", "2", "--digest", "md5", "--for", "10ms"];
    for role in ["registrar", "proxy", "redirect"] {
        for (flag, value) in [("--password", "zanzibar"), ("--password-env", "SECRET")] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
            command.args(["sip", "serve", role]).args(here).args([flag, value]).env("SECRET", "zanzibar");
            let output = command.output().expect("netrig starts");
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{role} {flag}: {err}");
            let warning = "warning: other users of this machine can read --password in the list of processes";
            assert_eq!(err.contains(warning), flag == "--password", "{role} {flag}: {err}");
        }
    }
}

/// A certificate and a key made by another program are accepted.
#[test]
fn a_certificate_may_be_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost".split(' '))
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: needs openssl");
        return;
    }
    let files = ["--certificate", &certificate, "--private-key", &key];
    let output = serve(&[&words("uas --listen tls:127.0.0.1:0 --for 10ms")[..], &files].concat());
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !err.contains("SHA-256"), "{err}");
}

#[test]
fn a_flood_leaves_a_server_answering_and_its_memory_bounded() {
    let limits = words("--listen udp:127.0.0.1:0 --listen tcp:127.0.0.1:0 --max-transactions 2000 --json");
    let server = SipServer::start(&[&["registrar"][..], &limits].concat());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let long = format!("X: {}\r\n", "x".repeat(50_000));
    for number in 0..4000 {
        socket.send_to(options(number, &long).as_bytes(), server.address("udp")).expect("it is sent");
        socket.send_to(&number.to_le_bytes(), server.address("udp")).expect("it is sent");
    }
    assert!(asked(&server, &options(5000, "")).starts_with("SIP/2.0 "), "200, or 503 while there is no room");
    // All received data together would take 200 MB.
    assert!(server.most_memory() < 120 << 20, "{} B", server.most_memory());
    let told = server.finish();
    assert!(!told["unreadable"].as_object().expect("reasons").is_empty(), "{told}");
}

/// Sends OPTIONS over a connection. Returns the response.
fn asked_along(mut stream: &TcpStream, number: u32) -> String {
    use std::io::{Read as _, Write as _};
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
    stream.write_all(options(number, "").replace("/UDP", "/TCP").as_bytes()).expect("it is sent");
    let mut text = String::new();
    let mut piece = [0; 4096];
    while !text.contains("\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(1..) => text.push_str(&String::from_utf8_lossy(&piece)),
            _ => break,
        }
    }
    text
}

#[test]
fn a_connection_for_which_there_is_no_room_is_answered_with_503() {
    let server =
        SipServer::start(&["uas", "--json", "--listen", "tcp:127.0.0.1:0", "--max-connections", "8"]);
    let connect = || TcpStream::connect(server.address("tcp")).expect("it listens");
    // An eighth of the connections is reserved for peers that have not sent a message.
    let known: Vec<_> = (0..7).map(|_| connect()).collect();
    for (stream, number) in known.iter().zip(1..) {
        assert!(asked_along(stream, number).starts_with("SIP/2.0 200 "));
    }
    let last = connect();
    let told = asked_along(&last, 8);
    assert!(told.starts_with("SIP/2.0 503 ") && told.contains("\r\nRetry-After: 10\r\n"), "{told}");
    // Peers with a connection are still served. After a connection is closed, a new peer is accepted.
    assert!(asked_along(&known[0], 9).starts_with("SIP/2.0 200 "));
    drop(known);
    let mut number = 10;
    while !asked_along(&connect(), number).starts_with("SIP/2.0 200 ") {
        number += 1;
        assert!(number < 1000, "no room comes");
    }
    let told = server.finish();
    assert!(told["connections"]["refused"].as_u64() >= Some(1), "{told:#}");
}

/// If the limit of open files allows no connection, the server must fail at its start instead of rejecting all
/// connections.
#[test]
fn a_server_that_the_system_allows_too_few_files_says_so() {
    let bare = ["--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"];
    let limited = |words: &str| {
        let script = format!("ulimit -n 64 && exec {} {words} < /dev/null", env!("CARGO_BIN_EXE_netrig"));
        let is_root = rustix::process::geteuid().is_root();
        let mut command = Command::new(if is_root { "setpriv" } else { "sh" });
        if is_root {
            command.args(bare).arg("sh");
        }
        command.arg("-c").arg(script).output()
    };
    let Ok(output) = limited("sip serve uas --listen tcp:127.0.0.1:0 --for 10ms") else {
        eprintln!("skipped: needs setpriv");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("64 are allowed; `ulimit -n 10128` before it") && !said.contains("ready"),
        "{said}"
    );
    let output =
        limited("probe reflect --stamp-port 0 --control-port 0 & sleep 1; kill $!").expect("as before");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("warning: the system allows 64 open files"), "{said}");
}
