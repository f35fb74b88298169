//! `netrig sip conform` against netrig's own servers: its output, its files, and its exit status.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::sip_server::{PASSWORD_ENV, SipServer};
use crate::common::{as_json, text, words};

fn conform(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["sip", "conform"]).args(arguments).current_dir(folder);
    command.env("COLUMNS", "80").env(PASSWORD_ENV, "zanzibar").output().unwrap()
}

/// Runs conformance tests against a server, and returns the document.
fn document(server: &SipServer, transport: &str, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("{transport}:{}", server.address(transport));
    let output = conform(
        folder.path(),
        &[&[&*target, "--domain", "lab.test", "--password-env", PASSWORD_ENV, "--json"], arguments].concat(),
    );
    as_json(&output)
}

const NONE: [(&str, &str); 0] = [];

/// The test purposes with this verdict: their ids and observations.
fn observed<'a>(document: &'a Value, verdict: &str) -> Vec<(&'a str, &'a str)> {
    let rows = document["purposes"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["verdict"] == verdict);
    rows.map(|row| (row["id"].as_str().unwrap(), row["observation"].as_str().unwrap_or_default())).collect()
}

fn with_verdict<'a>(document: &'a Value, verdict: &str) -> Vec<&'a str> {
    observed(document, verdict).into_iter().map(|(id, _)| id).collect()
}

/// The transports and the numbers of server threads that are tested.
const WAYS: [(&str, &str); 4] = [("udp", "1"), ("tcp", "1"), ("udp", "3"), ("tcp", "3")];

fn registrar(threads: &str) -> SipServer {
    let arguments =
        ["registrar", "--listen", "udp:127.0.0.1:0", "--listen", "tcp:127.0.0.1:0", "--domain", "lab.test"];
    SipServer::start(
        &[
            &arguments[..],
            &["--users", "6", "--digest", "md5", "--password-env", PASSWORD_ENV, "--threads", threads],
        ]
        .concat(),
    )
}

#[test]
fn an_own_registrar_passes() {
    for (transport, threads) in WAYS {
        let server = registrar(threads);
        let document = document(&server, transport, &["--role", "registrar", "--jobs", "2"]);
        assert_eq!(observed(&document, "FAIL"), NONE);
        // The server keeps bindings for at least a minute, and sends no Date header field. INVITE and OPTIONS of RFC
        // 4475 do not apply to a registrar.
        let others = ["REG-TORTURE-UNKSCM", "REG-TORTURE-NOVELSC", "REG-TORTURE-BEXT01"];
        let inconclusive = with_verdict(&document, "INCONC");
        assert_eq!(inconclusive, [&["REG-BIND-13", "REG-EXPIRE-07"][..], &others].concat());
        assert!(with_verdict(&document, "PASS").len() > 70);
        server.end();
    }
}

#[test]
fn an_own_proxy_passes() {
    let arguments =
        ["proxy", "--listen", "udp:127.0.0.1:0", "--listen", "tcp:127.0.0.1:0", "--domain", "lab.test"];
    let users = ["--users", "3", "--digest", "sha-256", "--password-env", PASSWORD_ENV];
    for (transport, threads) in WAYS {
        let more = ["--record-route", "--threads", threads];
        let server = SipServer::start(&[&arguments[..], &users, &more].concat());
        let document = document(&server, transport, &["--role", "proxy"]);
        assert_eq!(observed(&document, "FAIL"), NONE);
        assert_eq!(observed(&document, "INCONC"), NONE);
        assert!(with_verdict(&document, "PASS").len() > 65);
        server.end();
    }
}

#[test]
fn an_own_redirect_server_passes() {
    let arguments =
        ["redirect", "--listen", "udp:127.0.0.1:0", "--listen", "tcp:127.0.0.1:0", "--domain", "lab.test"];
    for (transport, threads) in WAYS {
        let server = SipServer::start(&[&arguments[..], &["--threads", threads]].concat());
        let document = document(&server, transport, &["--role", "redirect"]);
        assert_eq!(observed(&document, "FAIL"), NONE);
        assert_eq!(observed(&document, "INCONC"), NONE);
        assert!(with_verdict(&document, "PASS").len() >= 28);
        server.end();
    }
}

#[test]
fn an_own_user_agent_passes() {
    // A call without an ACK is abandoned after 64 times T1.
    let arguments =
        words("uas --listen udp:127.0.0.1:0 --listen tcp:127.0.0.1:0 --ring 900ms --t1 100ms --threads");
    let passes = |(transport, threads)| {
        let server = SipServer::start(&[&arguments[..], &[threads]].concat());
        let document = document(&server, transport, &["--role", "uas", "--jobs", "4"]);
        assert_eq!(observed(&document, "FAIL"), NONE);
        assert_eq!(observed(&document, "INCONC"), NONE);
        assert!(with_verdict(&document, "PASS").len() >= 74);
        server.end();
    };
    // The tests run in parallel, because each mostly waits for timers.
    std::thread::scope(|scope| WAYS.into_iter().for_each(|way| drop(scope.spawn(move || passes(way)))));
}

/// The HTML report is well-formed, begins with the result, and has a ladder diagram for each test purpose that did not
/// pass.
#[test]
fn a_page_tells_what_a_conformance_report_has_to() {
    let (server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let output =
        conform(folder.path(), &[&target, "--role", "uas", "--group", "options", "--html", "report.html"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
    let headings: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("h2"))
        .filter_map(|node| node.text())
        .collect();
    assert_eq!(headings.len(), 7, "{headings:?}");
    for words in ["UAS-OPT-01", "netrig 0.", "Static conformance review", "test purposes were run"] {
        assert!(page.contains(words), "{words}");
    }
    server.end();
}

/// A comparison of two runs reports a new failure with exit code 1. In the opposite order it reports a correction.
#[test]
fn two_runs_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let right = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0"]);
    let wrong = SipServer::start(&["redirect", "--listen", "udp:127.0.0.1:0", "--domain", "lab.test"]);
    for (server, out) in [(&right, "right.json"), (&wrong, "wrong.json")] {
        let target = format!("udp:{}", server.address("udp"));
        conform(
            folder.path(),
            &[&target, "--role", "uas", "--only", "UAS-OPT", "--only", "UAS-MSG", "--out", out],
        );
    }
    let compare = |before: &str, now: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        command
            .args(["sip", "compare", before, now])
            .current_dir(folder.path())
            .env("COLUMNS", "80")
            .output()
            .unwrap()
    };
    let same = compare("right.json", "right.json");
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert!(text(&same.stdout).starts_with("no rule is newly broken\n"));
    let other = text(&compare("right.json", "wrong.json").stdout);
    assert!(other.contains("PASS -> ") && other.lines().all(|line| line.chars().count() <= 80), "{other}");
    right.end();
    wrong.end();
}

/// The test purposes pass while the server handles a load of calls.
#[test]
fn a_server_is_tested_beside_a_load() {
    let server = SipServer::start(&["uas", "--listen", "udp:127.0.0.1:0", "--ring", "10ms"]);
    let document = document(
        &server,
        "udp",
        &["--role", "uas", "--set", "basic-call", "--beside", "50/s", "--beside-users", "20"],
    );
    assert_eq!(observed(&document, "FAIL"), NONE);
    let load = &document["background"];
    assert!(load["begun"].as_u64() > Some(5) && load["failed"] == 0 && load["what"] == "call", "{load}");
    server.end();
}

/// With `--conform`, a capacity search first reports the result of the conformance test.
#[test]
fn a_search_can_begin_with_conformance() {
    let (server, target) = SipServer::answering();
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["sip", "capacity", &target, "--conform", "--json", "--start", "20/s", "--highest", "20/s"]);
    command.args(["--least", "1s", "--most", "1s", "--confirm", "1s"]);
    let output = command.output().unwrap();
    let document = as_json(&output);
    let gate = &document["conformance"];
    assert!(gate["role"] == "uas" && gate["failed"] == serde_json::json!([]), "{gate}");
    assert!(gate["pass"].as_u64() > Some(10), "{gate}");
    assert!(text(&output.stderr).contains("breaks none of the tried rules"), "{}", text(&output.stderr));
    server.end();
}

/// The report has the result first, the broken rule with its observation, and the names of the written files. The exit
/// code is 1.
#[test]
fn a_server_that_breaks_rules_is_told() {
    // The server has another role than the tested one: it accepts no registrations.
    let (server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let files = ["--junit", "report.xml", "--messages", "messages.log", "--out", "report.json"];
    let output = conform(
        folder.path(),
        &[&[&*target, "--role", "registrar", "--only", "REG-BIND-01", "--only", "REG-MSG-01"][..], &files]
            .concat(),
    );
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.starts_with("no verdict: udp:127.0.0.1:"), "{told}");
    assert!(
        told.contains(
            "REG-BIND-01, REG-MSG-01\n    the role requires registration, but the server does not show it"
        ),
        "{told}"
    );
    let progress = text(&output.stderr);
    assert!(progress.contains("INCONC REG-BIND-01"), "{progress}");
    assert!(told.lines().chain(progress.lines()).all(|line| line.chars().count() <= 80), "{told}{progress}");
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    assert!(junit.contains("tests=\"2\" failures=\"0\" skipped=\"2\""), "{junit}");
    assert!(folder.path().join("report.json").exists() && folder.path().join("messages.log").exists());
    server.end();
}

#[test]
fn a_run_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("claims.toml"), "forkin = true\n").unwrap();
    for (arguments, why) in [
        (&["--role", "registrar"][..], "required arguments were not provided"),
        (
            &["udp:127.0.0.1:9", "--role", "registrar", "--only", "X-1"],
            "no test purpose of this role has an id",
        ),
        (
            &["udp:127.0.0.1:9", "--role", "registrar", "--group", "x"],
            "there is no group \"x\"; there are: bindings, ",
        ),
        (
            &["udp:127.0.0.1:9", "--role", "registrar", "--names", "alice"],
            "expected a name that ends with as many zeros",
        ),
        (
            &["udp:127.0.0.1:9", "--role", "proxy", "--capabilities", "claims.toml"],
            "there is no capability \"forkin\"",
        ),
        (&["udp:127.0.0.1:9", "--role", "proxy", "--domain", "a b"], "--domain `a b` is no domain"),
        (
            &["udp:127.0.0.1:9", "--role", "uas", "--dns-listen", "127.0.0.1:0"],
            "--dns-listen is of the role proxy",
        ),
        (
            &words("udp:127.0.0.1:9 --role proxy --dns-listen 127.0.0.1:0 --dns-domain 127.0.0.1"),
            "--dns-domain `127.0.0.1` is no domain name",
        ),
    ] {
        let output = conform(folder.path(), arguments);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{arguments:?}: {told}");
    }
}

#[test]
fn the_purposes_of_a_role_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let output = conform(folder.path(), &["--role", "proxy", "--list", "--set", "basic-call"]);
    let told = text(&output.stdout);
    assert!(told.contains("  PRX-FWD-01      RFC 3261 section 16.6  (basic-call)\n"), "{told}");
    assert!(!told.contains("PRX-FORK-01") && told.lines().all(|line| line.chars().count() <= 80), "{told}");
    let output = conform(folder.path(), &["--role", "proxy", "--capability-template"]);
    assert!(text(&output.stdout).contains("# forking = true\n"), "{}", text(&output.stdout));
}
