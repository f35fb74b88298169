//! `netrig sip capacity` against a server with a known capacity.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common;
use crate::common::as_json;
use crate::common::text;

/// Rate of requests that the server answers with 200, 1/s. It answers all others with 503.
const CAPACITY: f64 = 200.0;

/// Starts a server that limits its 200 responses to OPTIONS by a token bucket. It ends after a minute without messages.
/// Returns its target.
fn limited() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let target = format!("udp:{}", socket.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut tokens, mut filled) = (20.0, Instant::now());
        let mut buffer = [0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let now = Instant::now();
            tokens = f64::min(tokens + CAPACITY * now.duration_since(filled).as_secs_f64(), 20.0);
            filled = now;
            let status = if tokens >= 1.0 { "200 OK" } else { "503 Service Unavailable" };
            tokens -= f64::from(u8::from(tokens >= 1.0));
            let asked = String::from_utf8_lossy(&buffer[..len]).into_owned();
            let copied: String = asked
                .lines()
                .filter(|line| {
                    ["Via:", "From:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name))
                })
                .chain(asked.lines().filter(|line| line.starts_with("To:")))
                .map(|line| {
                    format!("{line}{}\r\n", if line.starts_with("To:") { ";tag=limited" } else { "" })
                })
                .collect();
            let answer = format!("SIP/2.0 {status}\r\n{copied}Content-Length: 0\r\n\r\n");
            socket.send_to(answer.as_bytes(), from).unwrap();
        }
    });
    target
}

/// Arguments for a quick search: only 90 % of the requests must succeed, so that few requests suffice for a decision.
fn arguments(target: &str) -> Vec<&str> {
    let quick = "--scenario options --success 90% --start 60/s --least 1s --confirm 2s --arrivals constant --cpus 1 --highest 1000/s";
    ["sip", "capacity", target].into_iter().chain(quick.split(' ')).collect()
}

/// Whether the tester was the limit, which is possible on a busy machine. The verdict then has no capacity.
fn is_of_the_tester(told: &Value) -> bool {
    let is = !told["verdict"]["tester-limit"].is_null();
    if is {
        eprintln!("skipped: {}", told["sentence"]);
    }
    is
}

#[track_caller]
fn assert_holds(told: &Value, known: f64) {
    let found = &told["verdict"]["capacity"];
    let (low, high) = (found["low"].as_f64().unwrap(), found["high"].as_f64().unwrap());
    assert!(low <= 1.03 * known && known <= 1.03 * high && high <= 1.3 * low, "{}", told["sentence"]);
}

#[test]
fn a_capacity_is_found_and_its_steps_are_told() {
    let (target, folder) = (limited(), tempfile::tempdir().unwrap());
    let output = common::netrig(folder.path(), &[&arguments(&target)[..], &["--json"]].concat());
    let told = as_json(&output);
    if is_of_the_tester(&told) {
        return assert_eq!(output.status.code(), Some(3));
    }
    // A tenth of the requests may fail, so a rate of up to 222/s meets the criterion with 200 answers per second.
    assert_holds(&told, 222.0);
    assert_eq!((output.status.code(), &told["unit"]), (Some(0), &Value::from("requests")));
    let entries = told["journal"]["entries"].as_array().unwrap();
    let steps: Vec<_> = entries.iter().filter_map(|entry| entry.get("step")).collect();
    assert_eq!((&steps[0]["rate"], &steps[0]["purpose"]), (&Value::from(60.0), &Value::from("ramp")));
    assert!(steps.iter().any(|step| step["decision"]["outcome"] == "failed"));
    let said = text(&output.stderr);
    assert!(said.contains("60.0/s for") && said.contains("s left"), "{said}");
    // The server is a thread of this test with little load, so the cause is elsewhere.
    assert!(!told["causes"][0]["cause"]["elsewhere"].is_null(), "{}", told["sentence"]);
}

/// The search is killed between two steps or during a step.
#[test]
fn a_search_goes_on_from_its_journal() {
    let (target, folder) = (limited(), tempfile::tempdir().unwrap());
    let all = [&arguments(&target)[..], &["--journal", "steps.json", "--json"]].concat();
    let mut killed = Command::new(env!("CARGO_BIN_EXE_netrig"))
        .args(&all)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let journal = folder.path().join("steps.json");
    let until = Instant::now() + Duration::from_secs(60);
    while !journal.exists() {
        assert!(Instant::now() < until, "no step in a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before: Value = serde_json::from_str(&std::fs::read_to_string(&journal).unwrap()).unwrap();
    let output = common::netrig(folder.path(), &all);
    let told = as_json(&output);
    assert!(text(&output.stderr).contains("the search goes on from there"), "{}", text(&output.stderr));
    let kept = before["journal"]["entries"].as_array().unwrap();
    assert!(told["journal"]["entries"].as_array().unwrap().starts_with(kept));
    if !is_of_the_tester(&told) {
        assert_holds(&told, 222.0);
    }
    // A journal of a search with other settings or another server is refused.
    let other = common::netrig(folder.path(), &[&all[..], &["--precision", "5%"]].concat());
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("was written with other settings"), "{}", text(&other.stderr));
    let elsewhere = [&arguments("udp:127.0.0.1:9")[..], &["--journal", "steps.json"]].concat();
    let other = common::netrig(folder.path(), &elsewhere);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("belongs to another server"), "{}", text(&other.stderr));
}

#[test]
fn what_makes_no_search_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, said) in [
        (
            &["udp:127.0.0.1", "--start", "10/s", "--highest", "5/s"][..],
            "--start is 10/s; expected: between --lowest, which is 1/s, and --highest, which is 5/s",
        ),
        (&["udp:127.0.0.1", "--precision", "0%"], "above 0 and below 1"),
        (
            &["udp:127.0.0.1", "--mode", "rfc7502", "--start", "5/s"],
            "high enough that --increase, which is 0.1, raises it",
        ),
        (&["udp:8.8.8.8"], "--i-may-test"),
        (&["udp:127.0.0.1", "--journal", "."], "the journal ."),
    ] {
        let output = common::netrig(folder.path(), &[&["sip", "capacity"][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{said}: {}", text(&output.stderr));
    }
}

#[test]
fn without_any_answer_the_first_step_ends_the_search() {
    let folder = tempfile::tempdir().unwrap();
    // A server that does not read its socket is silent. A missing socket is reported by ICMP.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let silent = format!("udp:{}", silent.local_addr().unwrap());
    let unreachable = format!("udp:127.0.0.1:{port}");
    for (target, scenario, words) in [
        (&*unreachable, "options", "ICMP"),
        (&*unreachable, "re-register", "could not be registered"),
        (&*silent, "options", "no answer in time"),
        (&*silent, "re-register", "could not be registered"),
        (&*format!("tcp:127.0.0.1:{closed}"), "options", "had a response"),
    ] {
        let quick = ["--t1", "50ms", "--cpus", "1", "--json"];
        let asked = [&["sip", "capacity", target, "--scenario", scenario][..], &quick].concat();
        let output = common::netrig(folder.path(), &asked);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let told = as_json(&output);
        let sentence = told["sentence"].as_str().unwrap();
        assert!(sentence.starts_with("no answer") && sentence.contains(words), "{sentence}");
        assert_eq!(told["journal"]["entries"].as_array().unwrap().len(), 1, "{sentence}");
    }
}

#[test]
fn an_older_journal_is_refused_with_its_form() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("old.json"), r#"{"version": "0.1.0", "asked": "", "journal": {}}"#)
        .unwrap();
    let output =
        common::netrig(folder.path(), &["sip", "capacity", "udp:127.0.0.1:9", "--journal", "old.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("it has form 1"), "{}", text(&output.stderr));
}
