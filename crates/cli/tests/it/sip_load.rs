//! `netrig sip load`.

use std::time::{Duration, Instant};

use netrig_sip::Method;
use serde_json::Value;

use crate::common;
use crate::common::as_json;
use crate::common::sip_peer::{SipPeer, response};
use crate::common::sip_server::SipServer;
use crate::common::text;

/// A server that answers calls, and the target argument for it.
fn answering() -> (SipServer, String) {
    let server = SipServer::start(&["uas", "--ring", "1ms", "--listen", "udp:127.0.0.1:0"]);
    let target = format!("udp:{}", server.address("udp"));
    (server, target)
}

fn load(arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    common::netrig(folder.path(), &[&["sip", "load"][..], arguments].concat())
}

/// The expected exit status of a load: `code`, or 3 if the tester was the limit on a busy machine.
fn ended(told: &Value, code: i32) -> Option<i32> {
    Some(if told["valid"] == true { code } else { 3 })
}

#[test]
fn calls_are_told_in_a_document_and_in_tables() {
    let (_server, target) = answering();
    let quick = [&*target, "--rate", "100/s", "--arrivals", "constant", "--count", "30", "--cpus", "1"];
    let output = load(&[&quick[..], &["--json"]].concat());
    let told = as_json(&output);
    let calls = &told["outcomes"][0];
    assert_eq!(calls["what"], "call", "{}", text(&output.stderr));
    assert_eq!([&calls["begun"], &calls["succeeded"], &calls["open"]], [30, 30, 0]);
    assert_eq!((&told["ratios"]["ser"], &told["kept"]), (&Value::from(1.0), &Value::from(true)));
    assert_eq!(output.status.code(), ended(&told, 0));
    assert!(text(&output.stderr).contains("1 s: 30 begun"), "{}", text(&output.stderr));

    let table = text(&load(&quick).stdout);
    for said in ["begun", "SRD", "p99.9", "kept", "SER 100 %", "tester: 1 thread,"] {
        assert!(table.contains(said), "{said}: {table}");
    }
}

/// Attempts per user and hour are converted into a total rate, which is printed.
#[test]
fn busy_hour_call_attempts_are_a_rate() {
    let (_server, target) = answering();
    // 720 × 100 / 3600 = 20 per second, one every 50 ms.
    let arguments =
        ["--bhca", "720", "--users", "100", "--arrivals", "constant", "--for", "1s", "--cpus", "1"];
    let output = load(&[&[&*target][..], &arguments, &["--json"]].concat());
    let told = as_json(&output);
    assert_eq!(told["outcomes"][0]["begun"], 20, "{}", text(&output.stderr));
    let (hour, each) = (told["per_hour"].as_f64().unwrap(), told["per_user_and_hour"].as_f64().unwrap());
    assert_eq!(hour, each * 100.0);
    let table = text(&load(&[&[&*target][..], &arguments].concat()).stdout);
    assert!(table.contains("BHCA (in an hour)"), "{table}");
}

/// All stages and the whole trace are offered. With `--for`, the output names the part that is not offered.
#[test]
fn stages_and_traces_are_offered_to_their_ends() {
    let (_server, target) = answering();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace"), "0\n0.5\n11\n").unwrap();
    let offered = |arguments: &[&str]| -> Value {
        let all =
            [&["sip", "load", &target, "--scenario", "options", "--cpus", "1", "--json"], arguments].concat();
        let output = common::netrig(folder.path(), &all);
        as_json(&output)
    };
    let staged = ["--arrivals", "constant", "--stage", "10/s,1s", "--stage", "20/s,11s"];
    let told = offered(&staged);
    assert_eq!((&told["offered"]["duration"], &told["outcomes"][0]["begun"]), (&12.0.into(), &230.into()));
    assert!(!told["notes"].to_string().contains("not offered"), "{}", told["notes"]);
    let short = offered(&[&staged[..], &["--for", "2s"]].concat());
    assert_eq!((&short["offered"]["duration"], &short["outcomes"][0]["begun"]), (&2.0.into(), &30.into()));
    assert!(short["notes"].to_string().contains("last 12 s, but its duration is 2 s"), "{}", short["notes"]);
    let traced = offered(&["--trace", "trace"]);
    assert_eq!((&traced["offered"]["duration"], &traced["outcomes"][0]["begun"]), (&12.0.into(), &3.into()));
}

#[test]
fn thresholds_that_are_not_kept_are_an_exit_code() {
    // The server answers every call, so no call gets a busy response.
    let (_server, target) = answering();
    let output = load(&[&*target, "--scenario", "busy", "--rate", "100/s", "--count", "10", "--json"]);
    let told = as_json(&output);
    assert_eq!(told["failures"][0]["why"], "answered with 200");
    assert_eq!(told["kept"], false);
    assert_eq!(output.status.code(), ended(&told, 1));
}

/// The tester may have one simultaneous call, but would need twenty. This is a limit of the tester and not a failure of
/// the server.
#[test]
fn a_tester_without_room_is_invalid() {
    let (_server, target) = answering();
    let output = load(&[
        &*target,
        "--rate",
        "100/s",
        "--arrivals",
        "constant",
        "--count",
        "20",
        "--hold",
        "1s",
        "--most-calls",
        "1",
        "--cpus",
        "1",
        "--json",
    ]);
    let told = as_json(&output);
    assert_eq!((output.status.code(), &told["valid"]), (Some(3), &Value::from(false)));
    assert!(
        told["faults"][0].as_str().unwrap().contains("as many calls as there may be"),
        "{}",
        told["faults"]
    );
    assert_eq!([&told["outcomes"][0]["begun"], &told["outcomes"][0]["failed"]], [1, 0]);
    assert_eq!(told["tester"]["omitted"], 19);
}

/// If the local port is in use, the request was wrong. The exit code differs from that of a failed load.
#[test]
fn a_port_that_is_taken_is_of_the_request() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = load(&["udp:127.0.0.1:9", "--local", "127.0.0.1", "--local-port", &port, "--cpus", "1"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("bind on 127.0.0.1"), "{}", text(&output.stderr));
}

/// If the limit of descriptors is too low, the message states what needs them: sockets over UDP, connections over TCP.
#[test]
fn descriptors_are_wanted_for_what_the_load_has() {
    for (target, said) in [("udp:127.0.0.1:9", "sockets"), ("tcp:127.0.0.1:9", "connection of each user")] {
        let connections = if target.starts_with("tcp") { "--connections=per-user" } else { "--cpus=1" };
        let output = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 12; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_netrig")])
            .args(["sip", "load", target, connections, "--count", "1"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let error = text(&output.stderr);
        assert!(error.contains(said) && error.contains("descriptors are needed"), "{said}: {error}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (arguments, said) in [
        (&["udp:8.8.8.8"][..], "--i-may-test"),
        (&["udp:8.8.8.8", "--i-may-test", "9.9.9.9"], "names `9.9.9.9`"),
        (&["sctp:127.0.0.1"], "needs a kernel that has it"),
        (&["udp:127.0.0.1", "--connections", "per-user"], "is for TCP and TLS"),
        (&["tcp:127.0.0.1", "--authorities", "nobody.pem"], "is for TLS"),
        (&["tls:127.0.0.1", "--authorities", "nobody.pem"], "cannot read the certificate"),
        (&["127.0.0.1"], "its transport first"),
        (&["udp:127.0.0.1", "--rate", "100"], "expected a rate such as 1000/s"),
        (&["udp:127.0.0.1", "--rate", "1/s", "--interval", "1s"], "cannot be used with"),
        (&["udp:127.0.0.1", "--rate", "1/s", "--pause", "1s"], "cannot be used with"),
        (&["udp:127.0.0.1", "--interval", "0s"], "--interval: it must be above zero"),
        (&["udp:127.0.0.1", "--pause", "0s"], "its mean must be above zero"),
        (&["udp:127.0.0.1", "--pause", "1s", "--arrivals", "constant"], "in a closed loop --pause sets"),
        (&["udp:127.0.0.1", "--warm-up", "10s"], "warm-up"),
        (&["udp:127.0.0.1", "--scenario", "register", "--callee", "own"], "scenarios with calls"),
        (&["udp:127.0.0.1", "--scenario", "register", "--users", "5", "--rate", "100/s"], "users are needed"),
        (&["udp:127.0.0.1", "--names", "user"], "ends with zeros"),
        (&["udp:127.0.0.1", "--mix", "call=70%"], "100 % together"),
        (&["udp:127.0.0.1", "--mix", "call=70%,nothing=30%"], "expected one of register"),
        (&["udp:127.0.0.1", "--mix", "call=100%", "--scenario", "busy"], "cannot be used with"),
        (&["udp:127.0.0.1", "--hold", "normal:3s"], "is neither a time"),
        (&["udp:127.0.0.1", "--hold", "pareto:3s,1"], "a mean only if its shape is above 1"),
        (&["udp:127.0.0.1", "--bhca", "0"], "above zero"),
        (&["udp:127.0.0.1", "--reconnect", "never"], "is for TCP and TLS"),
        (&["udp:127.0.0.1", "--fail-over", "tcp:127.0.0.2"], "not of the transport"),
        (&["udp:127.0.0.1", "--fail-over", "udp:8.8.8.8"], "public address"),
        (
            &["udp:127.0.0.1", "--scenario", "fork", "--callee", "own"],
            "--contacts: `fork` needs peers with two contacts or more",
        ),
        (&["udp:127.0.0.1", "--contacts", "2"], "several contacts"),
        (&["udp:127.0.0.1", "--scenario", "re-invite", "--sdp", "0B"], "session description"),
        (&["udp:127.0.0.1", "--users-from", "nobody.csv"], "nobody.csv"),
        (&["udp:127.0.0.1", "--count", "0"], "must be above zero"),
        (&["udp:127.0.0.1", "--sdp", "100MB"], "at most 60 KB"),
        (&["udp:127.0.0.1", "--t1", "0ms"], "must be above zero"),
        (&["udp:nosuch.invalid"], "cannot find `nosuch.invalid`"),
        (&["udp:127.0.0.1", "--fail-over", "udp:nosuch.invalid"], "cannot find `nosuch.invalid`"),
        (&["udp:127.0.0.1", "--local", "203.0.113.9"], "bind on 203.0.113.9"),
    ] {
        let output = load(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{said}: {}", text(&output.stderr));
    }
}

/// Without a server, the load fails because users cannot be registered before it.
#[test]
fn a_server_that_is_not_there_registers_nobody() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = &*format!("udp:{}", nobody.local_addr().unwrap());
    let output = load(&[target, "--scenario", "re-register", "--t1", "10ms"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    // Several requests are sent at the same time, and any of them may time out first.
    assert!(
        said.contains("error: user user0000") && said.contains("could not be registered before the load"),
        "{said}"
    );
    assert!(said.contains("timer F") && said.contains("; --t1 sets the time"), "{said}");
}

/// A failure caused by a time limit names the flag of the limit. The test changes the limit with this flag.
#[test]
fn a_failure_names_the_flag_of_the_time_that_has_decided_it() {
    let quick = ["--rate", "100/s", "--count", "1", "--cpus", "1"];
    let failed = |target: &str, times: &[&str]| {
        let begun = Instant::now();
        let table = text(&load(&[&[target][..], times, &quick].concat()).stdout);
        (table, begun.elapsed())
    };
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = format!("udp:{}", silent.local_addr().unwrap());
    let (table, took) = failed(&silent, &["--t1", "10ms"]);
    assert!(table.contains("no answer in time (timer B); --t1 sets the time"), "{table}");
    assert!((Duration::from_millis(640)..Duration::from_secs(32)).contains(&took), "{took:?}");
    let output = load(&[&[&*silent, "--t1", "10ms", "--json"][..], &quick].concat());
    let told = as_json(&output);
    assert_eq!(told["failures"][0]["limit"], "t1", "{told}");

    let trying = SipPeer::start(|request| match request.method {
        Method::Invite => Some(response(request, 100, &[])),
        Method::Cancel => Some(response(request, 200, &[])),
        _ => None,
    });
    let (table, took) = failed(&trying.target(), &["--longest-ringing", "300ms", "--t1", "10ms"]);
    let why = "only 100 Trying within the longest ringing time; --longest-ringing sets the time";
    assert!(table.contains(why), "{table}");
    assert!((Duration::from_millis(300)..Duration::from_secs(180)).contains(&took), "{took:?}");

    let (_server, answers) = answering();
    let (table, _) = failed(&answers, &["--scenario", "no-answer", "--patience", "1min"]);
    assert!(table.contains("answered with 200; --patience sets the time"), "{table}");
}

/// INVITE and its response with session descriptions of 20 KB pass a proxy. Over UDP a message may be as long as a
/// datagram (RFC 3261 section 18.1.1), and over TCP as long as the tester's limit.
#[test]
fn calls_with_long_descriptions_succeed_through_a_proxy() {
    let points = ["--listen", "udp:127.0.0.1:0", "--listen", "tcp:127.0.0.1:0"];
    let server = SipServer::start(&[&["proxy", "--record-route"][..], &points].concat());
    for transport in ["tcp", "udp"] {
        let target = format!("{transport}:{}", server.address(transport));
        let calls = ["--callee", "own", "--sdp", "20KB", "--users", "3", "--count", "3"];
        let quick = ["--rate", "20/s", "--cpus", "1", "--json"];
        let output = load(&[&[&*target][..], &calls, &quick].concat());
        let told = as_json(&output);
        let outcomes = told["outcomes"].as_array().unwrap();
        let calls = outcomes.iter().find(|row| row["what"] == "call").unwrap();
        assert_eq!([&calls["begun"], &calls["succeeded"]], [3, 3], "{transport}: {told}");
        assert_eq!(told["failures"], Value::Array(Vec::new()), "{transport}");
    }
}

/// The median anonymous memory of a load with this number of registered users, bytes (proc(5): `RssAnon`). The maximum
/// is not used, because a program may need more memory while it starts or ends.
fn memory_of(users: u32) -> u64 {
    let all = users.to_string();
    // A short T1, so that the registrar forgets its transactions soon.
    let forgetful = ["--max-transactions", "1000000", "--t1", "20ms"];
    let server = SipServer::start(
        &[&["registrar", "--listen", "udp:127.0.0.1:0", "--max-users", &*all][..], &forgetful].concat(),
    );
    let target = format!("udp:{}", server.address("udp"));
    let load = ["sip", "load", &target, "--scenario", "re-register", "--users", &all, "--rate", "100/s"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_netrig"));
    let command = command.args(load).args(["--for", "1s", "--cpus", "1", "--json"]);
    let piped = || std::process::Stdio::piped();
    let mut tester = command.stdout(piped()).stderr(piped()).spawn().unwrap();
    let mut seen = Vec::new();
    while tester.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", tester.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        seen.extend(kib.map(|kib| kib * 1024));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = tester.wait_with_output().unwrap();
    // If not all users could be registered, no memory was allocated for them.
    let told = as_json(&output);
    assert_eq!(output.status.code(), ended(&told, 0), "{}", text(&output.stderr));
    seen.sort_unstable();
    seen[seen.len() / 2]
}

/// A million registered users take at most 512 MiB.
#[test]
fn a_registered_user_takes_little_memory() {
    let (few, many) = (1000, 100_000);
    let each = memory_of(many).saturating_sub(memory_of(few)) / u64::from(many - few);
    assert!(each > 0 && each < (512 << 20) / 1_000_000, "{each} B for each user");
}
