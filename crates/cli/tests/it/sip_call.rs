//! `netrig sip call` against netrig's own servers, Kamailio and SIPp's user agent, with command-line options, with a
//! script and with keys.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use netrig_sip::digest::{DigestCredentials, Secret};
use netrig_sip::{Method, Name, Request};
use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::as_json;
use crate::common::free_port::free_port;
use crate::common::machine::has;
use crate::common::sip_peer::{SipPeer, response};
use crate::common::sip_server::SipServer;
use crate::common::terminal::Terminal;
use crate::common::words;

const PASSWORD: &str = "NETRIG_TEST_PASSWORD";

fn call(arguments: &[&str]) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command
        .args(["sip", "call"])
        .args(arguments)
        .args(["--json", "--hold", "50ms"])
        .env(PASSWORD, "zanzibar");
    let out = command.output().unwrap();
    (out.status.code().unwrap(), as_json(&out))
}

/// The messages in order, as methods and statuses, without retransmissions. `>` marks sent and `<` received messages.
fn ladder(told: &Value) -> Vec<String> {
    let messages = told["messages"].as_array().unwrap().iter().filter(|message| message["again"] == false);
    let word = |message: &Value| {
        let mut words = message["line"].as_str().unwrap().split(' ');
        let first = words.next().unwrap();
        let word = if first == "SIP/2.0" { words.next().unwrap() } else { first };
        let arrow = if message["direction"] == "sent" { ">" } else { "<" };
        format!("{arrow}{word}")
    };
    messages.map(word).collect()
}

/// Checks that the messages, without 100 and 180 responses, are the expected ones in this order.
fn assert_course(told: &Value, expected: &[&str]) {
    let steps = ladder(told);
    let steps: Vec<_> =
        steps.iter().map(String::as_str).filter(|step| !["<100", "<180"].contains(step)).collect();
    assert_eq!(steps, expected, "{told}");
}

#[test]
fn a_call_goes_its_course_over_each_transport() {
    let server = SipServer::start(&words(
        "uas --listen udp:127.0.0.1:0 --listen tcp:127.0.0.1:0 --listen tls:127.0.0.1:0",
    ));
    for transport in ["udp", "tcp", "tls"] {
        let target = format!("{transport}:{}", server.address(transport));
        let (code, told) = call(&[&target]);
        assert_eq!((code, &told["held"]), (0, &Value::from(true)), "{told}");
        assert_course(&told, &[">INVITE", "<200", ">ACK", ">BYE", "<200"]);
        for message in told["messages"].as_array().unwrap() {
            assert_eq!(message["breaks"], Value::Array(Vec::new()), "{message}");
            assert_eq!(message["after_ms"].is_number(), message["direction"] == "received", "{message}");
        }
    }
}

#[test]
fn who_is_challenged_proves_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.csv");
    std::fs::write(&users, "alice,zanzibar\n").unwrap();
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o600)).unwrap();
    let users = users.to_str().unwrap();
    let registrar = format!("registrar --listen udp:127.0.0.1:0 --users-file {users} --digest sha-256");
    let server = SipServer::start(&words(&registrar));
    let address = server.address("udp");
    let (target, from) = (format!("udp:{address}"), format!("sip:alice@{address}"));
    let script = folder.path().join("register.txt");
    std::fs::write(&script, "register\nwait 200\n").unwrap();
    let script = script.to_str().unwrap();
    let typed = ["--from", &from, "--script", script];
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        command.args(["sip", "call", &target, "--json"]).args(typed).args(more).env(PASSWORD, "zanzibar");
        let out = command.output().unwrap();
        (out.status.code().unwrap(), as_json(&out))
    };
    let (code, told) = run(&["--password-env", PASSWORD]);
    assert_eq!(code, 0, "{told}");
    assert_course(&told, &[">REGISTER", "<401", ">REGISTER", "<200"]);
    let (code, told) = run(&[]);
    assert_eq!(code, 1, "{told}");
    assert!(told["why"].as_str().unwrap().contains("answered with 401"), "{told}");
}

/// The realms for which a request has valid credentials.
fn proven(request: &Request) -> Vec<String> {
    let names = [Name::Authorization, Name::ProxyAuthorization];
    let all = names.iter().flat_map(|name| request.headers.credentials(name).unwrap());
    let answers = all.map(|credentials| DigestCredentials::read(&credentials).unwrap());
    let knows = |answer: &DigestCredentials| {
        let secret = Secret::new(answer.algorithm.hash, "alice", &answer.realm, "zanzibar");
        answer.proves(&request.method, &request.body, &secret)
    };
    let mut realms: Vec<_> = answers.filter(knows).map(|answer| answer.realm).collect();
    realms.sort_unstable();
    realms
}

/// A proxy and the server behind it have different realms and algorithms. For the INVITE they send challenges one after
/// the other, and for the BYE together with new nonces.
#[test]
fn a_call_answers_all_who_ask() {
    let acknowledged: Arc<Mutex<Vec<Request>>> = Arc::default();
    let kept = Arc::clone(&acknowledged);
    let mut byes = 0;
    let peer = SipPeer::start(move |request| {
        let proxy =
            |nonce: &str| format!("Digest realm=\"p\", nonce=\"{nonce}\", qop=\"auth\", algorithm=MD5-sess");
        let server = |nonce: &str| {
            format!("Digest realm=\"u\", nonce=\"{nonce}\", qop=\"auth-int\", algorithm=SHA-256")
        };
        byes += u32::from(request.method == Method::Bye);
        Some(match (&request.method, proven(request)) {
            (Method::Ack, _) => {
                kept.lock().unwrap().push(request.clone());
                return None;
            }
            (Method::Bye, _) if byes == 1 => {
                let [proxy, server] = ["n3", "n4"].map(|nonce| (proxy(nonce), server(nonce)));
                let [proxy, server] = [proxy.0 + ", stale=true", server.1];
                let both =
                    [(Name::WwwAuthenticate, server.as_str()), (Name::ProxyAuthenticate, proxy.as_str())];
                response(request, 407, &both)
            }
            (_, realms) if realms == ["p", "u"] => response(request, 200, &[]),
            (_, realms) if realms == ["p"] => {
                response(request, 401, &[(Name::WwwAuthenticate, &server("n2"))])
            }
            _ => response(request, 407, &[(Name::ProxyAuthenticate, &proxy("n1"))]),
        })
    });
    let typed = ["--from", "sip:alice@127.0.0.1", "--password-env", PASSWORD];
    let (code, told) = call(&[&[peer.target().as_str()][..], &typed].concat());
    assert_eq!(code, 0, "{told}");
    let course = [">INVITE", "<407", ">ACK", ">INVITE", "<401", ">ACK", ">INVITE", "<200", ">ACK"];
    assert_course(&told, &[&course[..], &[">BYE", "<407", ">BYE", "<200"]].concat());
    // "The ACK MUST contain the same credentials as the INVITE" (RFC 3261 section 13.2.2.4).
    let acknowledged = acknowledged.lock().unwrap();
    let last = acknowledged.last().unwrap();
    let used = |name: &Name| last.headers.credentials(name).unwrap().len();
    assert_eq!((used(&Name::Authorization), used(&Name::ProxyAuthorization)), (1, 1), "{last:?}");
    drop(peer);
}

/// A rejected password is not sent again. The verdict names the realm that rejected it.
#[test]
fn a_call_that_is_refused_names_the_realm() {
    let peer = SipPeer::start(|request| {
        let challenge = "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"";
        (request.method != Method::Ack).then(|| response(request, 401, &[(Name::WwwAuthenticate, challenge)]))
    });
    let target = peer.target();
    let typed = [target.as_str(), "--from", "sip:alice@127.0.0.1"];
    let (code, told) = call(&[&typed[..], &["--password-env", PASSWORD]].concat());
    assert_eq!(code, 1, "{told}");
    assert_course(&told, &[">INVITE", "<401", ">ACK", ">INVITE", "<401", ">ACK"]);
    let why = "invite was answered with 401 Unauthorized: the credentials for the realm `r` were refused";
    assert_eq!(told["why"], why);
    let (code, told) = call(&typed);
    assert_eq!(code, 1, "{told}");
    let why = "invite was answered with 401 Unauthorized: no password is given with --password-env";
    assert_eq!(told["why"], why);
}

/// A message with a deliberate fault is sent unchanged, and its response is awaited.
#[test]
fn a_script_sends_what_is_wrong() {
    let server = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0", "--ring", "5s"]);
    let target = format!("udp:{}", server.address("udp"));
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("wrong.txt");
    std::fs::write(
        &script,
        "options\n  CSeq: 7 INVITE\nwait 400\ninvite\n  Subject: a test\nwait 180\ncancel\nwait 200\n",
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["sip", "call", &target, "--json", "--script", script.to_str().unwrap()]);
    let out = command.args(["--header", "X-Test: 1"]).output().unwrap();
    let told = as_json(&out);
    assert_eq!(out.status.code(), Some(0), "{told}");
    let messages = told["messages"].as_array().unwrap();
    let options = &messages[0];
    assert_eq!(options["breaks"][0]["rule"], "RFC 3261 section 8.1.1.5", "{options}");
    assert!(options["text"].as_str().unwrap().contains("\r\nX-Test: 1\r\n"), "{options}");
    let steps = ladder(&told);
    assert!(steps.contains(&"<487".to_owned()) && steps.contains(&">ACK".to_owned()), "{steps:?}");
}

#[test]
fn a_request_that_cannot_be_is_refused() {
    for (arguments, words) in [
        (&["127.0.0.1"][..], "is no server"),
        (&["udp:8.8.8.8"], "public address"),
        (&["udp:127.0.0.1", "--set", "x"], "is not a change"),
        (&["udp:127.0.0.1", "--fault", "BYE wrong"], "is not a fault: expected missing-via, "),
        (&["udp:127.0.0.1", "--script", "/nowhere"], "cannot read"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        let out = command.args(["sip", "call"]).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
}

/// A request to a server that does not answer is retransmitted as RFC 3261 specifies, and then times out.
#[test]
fn silence_is_not_held() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = format!("udp:{}", silent.local_addr().unwrap());
    let (code, told) = call(&[&target, "--t1", "100ms"]);
    assert_eq!(code, 1);
    // The request is sent at 0, 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s, and timer B expires at 6.4 s.
    assert_eq!(told["messages"].as_array().unwrap().len(), 7, "{told}");
    assert!(told["why"].as_str().unwrap().contains("not answered in time"));
}

#[test]
fn a_user_agent_of_sipp_is_called() {
    skip_unless!(has("sipp"));
    let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
    let port = port.to_string();
    let mut command = Command::new("sipp");
    command.args(["-sn", "uas", "-i", "127.0.0.1", "-p", &port, "-m", "1", "-nostdin"]);
    let mut peer =
        command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (code, told) =
        call(&[&format!("udp:127.0.0.1:{port}"), "--to", &format!("sip:service@127.0.0.1:{port}")]);
    assert_eq!(code, 0, "{told}");
    assert_course(&told, &[">INVITE", "<200", ">ACK", ">BYE", "<200"]);
    assert!(peer.wait().unwrap().success(), "its call went as it should");
}

#[test]
fn keys_compose_send_and_hang_up() {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let editor = folder.path().join("editor.sh");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/^Max-Forwards: .*/Max-Forwards: 5/' \"$1\"\n").unwrap();
    make_executable(&editor);
    let typed = format!("EDITOR={} {} sip call {target}; echo code=$?; stty -a", editor.display(), netrig());
    let mut terminal = Terminal::run(folder.path(), &typed);
    terminal.wait_for("[i] invite");
    terminal.press("i");
    terminal.wait_for("Max-Forwards: 70");
    terminal.wait_for("[Enter] send");
    terminal.press("e");
    terminal.wait_for("Max-Forwards: 5");
    terminal.wait_for("[Enter] send");
    terminal.press("s");
    terminal.wait_for("ms after invite");
    terminal.wait_for("[a] ack");
    terminal.press("a");
    terminal.wait_for("[Enter] send");
    terminal.press("s");
    terminal.wait_for("[b] bye");
    terminal.press("b");
    terminal.wait_for("[Enter] send");
    terminal.press("\u{1b}");
    terminal.wait_for("[b] bye");
    terminal.press("b");
    terminal.wait_for("[Enter] send");
    terminal.press("s");
    terminal.wait_for("ms after bye");
    terminal.wait_for("[i] invite");
    terminal.press("q");
    let shown = terminal.end();
    assert!(shown.contains("code=0") && shown.contains("isig icanon"), "{shown:?}");
}

fn netrig() -> &'static str {
    env!("CARGO_BIN_EXE_netrig")
}

fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_page_has_all_faults() {
    let page = include_str!("../../../../docs/sip-call.md");
    let rows = page.lines().skip_while(|line| *line != "## Faults").filter(|line| line.starts_with("| `"));
    let rows: Vec<String> = rows.map(str::to_owned).collect();
    let all = netrig_sip::fault::Fault::ALL;
    assert_eq!(rows, all.map(|fault| format!("| `{}` | {} |", fault.name(), fault.about())));
}
