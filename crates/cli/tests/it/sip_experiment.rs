//! SIP users of an experiment file, in the simulator and in namespaces. The tests need root on Linux; otherwise each
//! test prints that it was skipped.
#![cfg(target_os = "linux")]

use netrig_test_support::{ExperimentText, skip_unless};
use serde_json::Value;

use crate::common::kamailio::kamailio_node;
use crate::common::machine::{can, folder};
use crate::common::spoilt;
use crate::common::{netrig, sip_users, text};

/// An experiment with these users and these metrics of them as responses with the same names.
fn experiment(duration: &str, delay: &str, flow: &str, metrics: &[&str]) -> ExperimentText {
    sip_users("sip", duration, delay, flow).responses("flow.users", metrics)
}

/// A level in a JSON document, as text in the form of experiment files.
fn shown_level(level: &Value) -> String {
    match level {
        Value::String(text) => text.clone(),
        Value::Object(_) => {
            format!("{} {}", level["value"], level["unit"].as_str().expect("a unit is a text"))
        }
        other => other.to_string(),
    }
}

/// The value of a response on a substrate at the first point with this level.
fn measured(document: &Value, substrate: &str, level: &str, response: &str) -> f64 {
    let points = document["points"].as_array().expect("there are points");
    let has = |point: &&Value| {
        let levels = point["factors"].as_object().expect("a point has levels");
        point["substrate"] == substrate
            && (level.is_empty() || levels.values().any(|own| shown_level(own) == level))
    };
    let point = points.iter().find(has).expect("the substrate ran");
    let run = &point["responses"][response]["runs"][0];
    run["value"].as_f64().unwrap_or_else(|| panic!("{substrate} {level} {response}: {point}"))
}

/// On both substrates the same users start at the same times, and all are served. The median delay is that of the line;
/// in namespaces the time of a busy machine is added.
#[test]
fn users_meet_the_same_in_a_model_and_in_namespaces() {
    skip_unless!(can(&[]));
    // 32 callees register at the same time, each in two round trips, so all 450 take 1.2 s.
    let flow = r#"start = "2 s", stop = "4 s"
application = { kind = "sip", scenario = "${scenario}", rate = 40, users = "${users}", population = 50, password = "zanzibar", callee = "${callee}", ring = "100 ms", server = { role = "proxy", record_route = true, digest = "md5" } }"#;
    let text = experiment("5 s", "20 ms", flow, &["attempts_begun", "attempt_success", "attempts_failed"])
        .table("factors", r#"scenario = ["register", "call"], users = [400], callee = ["server", "own"]"#)
        .table("[points]", r#"scenario = "register", callee = "server""#)
        .table("[points]", r#"scenario = "call", callee = "own""#)
        .table(
            "response.registration",
            r#"of = "flow.users", metric = "registration_delay", statistic = "p50""#,
        )
        .table("response.connection", r#"of = "flow.users", metric = "connection_delay", statistic = "p50""#)
        .build();
    let folder = folder("sip", &text);
    let arguments = ["run", "sip.toml", "--on", "sim,netns", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    for (scenario, delay, expected) in [("register", "registration", 0.080), ("call", "connection", 0.120)] {
        let of = |substrate, response| measured(&document, substrate, scenario, response);
        assert_eq!(of("sim", "attempts_begun"), of("netns", "attempts_begun"), "{scenario}");
        for substrate in ["sim", "netns"] {
            assert_eq!(
                (of(substrate, "attempt_success"), of(substrate, "attempts_failed")),
                (1.0, 0.0),
                "{scenario} on {substrate}"
            );
        }
        let (model, real) = (of("sim", delay), of("netns", delay));
        assert!((model - expected).abs() < 0.001, "{scenario}: {model}");
        assert!(real >= expected && real < expected + 0.040, "{scenario}: {real}");
    }
}

/// With T1 = 20 ms, REGISTER is sent at 0, 20, 60, 140, 300, 620 and 1260 ms and times out at 1280 ms. Half of the
/// messages in each direction are lost, so a transmission is answered with probability q = 1/4, and 0.75⁷ = 13 % of the
/// registrations fail.
#[test]
fn registrations_die_of_loss_as_computed() {
    skip_unless!(can(&[]));
    let flow = r#"stop = "6 s"
application = { kind = "sip", scenario = "register", rate = 100, t1 = "20 ms", server = { role = "registrar" } }"#;
    let text = experiment("8 s", "1 ms", flow, &["attempts_begun"])
        .table("link.line.loss", r#"kind = "bernoulli", probability = "50 %""#)
        .response("success", "flow.users", "registration_success")
        .response("again", "flow.users", "retransmissions_per_attempt")
        .build();
    let folder = folder("sip", &text);
    let arguments = ["run", "sip.toml", "--on", "sim,netns", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    let q = 0.25_f64;
    let lost = (0..7).fold(1.0, |lost, _| lost * (1.0 - q));
    // The expected number of retransmissions is Σ k·q(1 − q)^k for k below 7, plus six for each registration that
    // fails.
    let (mut again, mut still) = (6.0 * lost, 1.0);
    for k in 0..7 {
        again += f64::from(k) * q * still;
        still *= 1.0 - q;
    }
    for substrate in ["sim", "netns"] {
        let of = |response| measured(&document, substrate, "", response);
        let count = of("attempts_begun");
        // The tolerance is five standard errors. The standard deviation of a number between 0 and 6 is at most 3.
        let share = 5.0 * (lost * (1.0 - lost) / count).sqrt();
        assert!((of("success") - (1.0 - lost)).abs() < share, "{substrate}: {}", of("success"));
        assert!((of("again") - again).abs() < 5.0 * 3.0 / count.sqrt(), "{substrate}: {}", of("again"));
    }
}

#[test]
fn users_come_over_connections_too() {
    skip_unless!(can(&[]));
    let flow = r#"start = "1 s", stop = "3 s", transport = "tcp"
application = { kind = "sip", scenario = "call", arrivals = "constant", rate = 20, users = 40, callee = "own", connections = "${connections}", secure = "${secure}", threads = 2, server = { role = "proxy", record_route = true } }"#;
    let file = experiment("4 s", "1 ms", flow, &["call_success", "calls_per_second"])
        .table("transport.tcp", r#"kind = "tcp", profile = "linux""#)
        .table("factors", r#"connections = ["one", "per-attempt"], secure = [false, true]"#)
        .table("[points]", r#"connections = "one", secure = true"#)
        .table("[points]", r#"connections = "per-attempt", secure = false"#)
        .build();
    let folder = folder("sip", &file);
    let Some(document) = spoilt::valid(folder.path(), &["run", "sip.toml", "--on", "netns", "--json"]) else {
        return;
    };
    for connections in ["one", "per-attempt"] {
        let of = |response| measured(&document, "netns", connections, response);
        assert_eq!((of("call_success"), of("calls_per_second")), (1.0, 20.0), "{connections}");
    }
    let ended = netrig(folder.path(), &["run", "sip.toml", "--on", "sim", "--json"]);
    assert!(text(&ended.stdout).contains("SIP over UDP only"), "{}", text(&ended.stdout));
}

/// An experiment file has all features of `netrig sip load`. On both substrates, a forking proxy serves all calls, and
/// the additional messages of each scenario are measured.
#[test]
fn every_scenario_is_one_of_files_too() {
    skip_unless!(can(&[]));
    let own = [
        ("early-media", "connection_delay"),
        ("delayed-offer", "connection_delay"),
        ("re-invite", "reinvite_delay"),
        ("prack", "prack_delay"),
        ("fork", "connection_delay"),
        ("subscribe", "notification_delay"),
    ];
    for (scenario, delay) in own {
        let contacts = if scenario == "prack" { 1 } else { 2 };
        let flow = format!(
            "start = \"500 ms\"\nstop = \"1600 ms\"\napplication = {{ kind = \"sip\", scenario = \"{scenario}\", \
             arrivals = {{ burst = 5 }}, rate = 20, users = 20, callee = \"own\", contacts = {contacts}, ring = \"20 ms\", \
             hold = \"60 ms\", t2 = \"2 s\", t4 = \"2 s\", server = {{ role = \"proxy\", record_route = true }} }}"
        );
        let text = experiment("3 s", "5 ms", &flow, &["attempts_begun", "attempt_success", delay]);
        let folder = folder("sip", &text.build());
        let arguments = ["run", "sip.toml", "--on", "sim,netns", "--json"];
        let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
        for substrate in ["sim", "netns"] {
            let of = |response| measured(&document, substrate, "", response);
            // There are five bursts of five users; the first is at the start.
            assert_eq!(
                (of("attempts_begun"), of("attempt_success")),
                (25.0, 1.0),
                "{scenario} on {substrate}"
            );
            // The delay is at least one round-trip time.
            assert!(of(delay) >= 0.010, "{scenario} on {substrate}: {}", of(delay));
        }
    }
}

/// On each substrate, users start at the times of the trace, with the scenarios of the mix.
#[test]
fn a_trace_and_a_mix_are_those_of_the_file() {
    skip_unless!(can(&[]));
    let flow = r#"start = "500 ms", stop = "2500 ms"
application = { kind = "sip", mix = { call = "50 %", busy = "25 %", register = "25 %" }, trace = "busy.txt", users = 40, callee = "own", hold = { lognormal = { mean = "50 ms", sigma = 1 } }, server = { role = "proxy", record_route = true } }"#;
    let text = experiment("5 s", "1 ms", flow, &["attempts_begun", "attempt_success", "calls_per_second"])
        .table("response.held", r#"of = "flow.users", metric = "session_duration", statistic = "max""#)
        .build();
    let folder = folder("sip", &text);
    // The trace has no arrival at time 0, because the window of the starts does not include it.
    let moments: String = (1..=60).map(|n| format!("{}\n", f64::from(n) / 40.0)).collect();
    std::fs::write(folder.path().join("busy.txt"), moments).expect("the folder is ours");
    let arguments = ["run", "sip.toml", "--on", "sim,netns", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    let of = |substrate, response| measured(&document, substrate, "", response);
    for substrate in ["sim", "netns"] {
        assert_eq!(
            (of(substrate, "attempts_begun"), of(substrate, "attempt_success")),
            (60.0, 1.0),
            "{substrate}"
        );
        assert!(of(substrate, "held") > 0.050, "it is drawn: {substrate}");
    }
    // On both substrates the same random numbers select about half of the arrivals as calls.
    let calls = of("sim", "calls_per_second");
    assert_eq!(calls, of("netns", "calls_per_second"));
    assert!((calls - 15.0).abs() < 8.0, "{calls}");
}

/// If a user that must be registered at the start is not yet registered, the run fails with this reason, on each
/// substrate.
#[test]
fn users_who_are_not_registered_in_time_fail_the_run() {
    skip_unless!(can(&[]));
    let flow = r#"start = "50 ms"
application = { kind = "sip", scenario = "options", rate = 20, population = 1000, server = { role = "registrar" } }"#;
    let file = experiment("1 s", "20 ms", flow, &["attempts_begun"]).build();
    for substrate in ["sim", "netns"] {
        let folder = folder("sip", &file);
        let ended = netrig(folder.path(), &["run", "sip.toml", "--on", substrate]);
        let said = format!("{}{}", text(&ended.stdout), text(&ended.stderr));
        assert_eq!(ended.status.code(), Some(1), "{substrate}: {said}");
        assert!(
            said.contains("registered at its start") && !said.contains("panicked"),
            "{substrate}: {said}"
        );
    }
}

/// A third-party registrar, started by its node.
#[test]
fn kamailio_registers_the_users_of_a_file() {
    skip_unless!(can(&["/usr/sbin/kamailio"]));
    let config = include_str!("kamailio/node.cfg");
    let flow = r#"start = "1 s", stop = "3 s"
application = { kind = "sip", scenario = "re-register", arrivals = "constant", rate = 50, users = 50, population = "${population}", password = "zanzibar", server = "program" }"#;
    let text = experiment("4 s", "5 ms", flow, &["attempts_begun", "registration_success"])
        .table("factors", "population = [0, 200]")
        .table("response.delay", r#"of = "flow.users", metric = "registration_delay", statistic = "p50""#)
        .build();
    let folder = folder("sip", &text.replace("[node.server]\n", &kamailio_node(config)));
    let arguments = ["run", "sip.toml", "--on", "netns", "--allow-programs", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    for population in ["0", "200"] {
        let of = |response| measured(&document, "netns", population, response);
        // A user starts every 20 ms during two seconds. None starts at the end.
        assert_eq!((of("attempts_begun"), of("registration_success")), (100.0, 1.0), "{population}");
        // The challenge adds a round trip.
        assert!(of("delay") >= 0.020, "{}", of("delay"));
    }
}

/// The DNS as a factor with the levels: known addresses, a table, and a server that takes 20 ms for each of three
/// answers, or does not answer. The simulator has no DNS, and says so.
#[test]
fn the_dns_is_a_factor() {
    skip_unless!(can(&[]));
    let flow = r#"start = "1 s", stop = "2 s"
application = { kind = "sip", scenario = "options", rate = 50, server = { role = "uas" }, location = { name = "example.test", dns = "${dns}", lookup = "per-attempt", node = "names", delay = { constant = "20 ms" }, loss = "${loss}", retry = "200 ms" } }"#;
    // The DNS server is at a separate node with a link to the users' node.
    let text = experiment("4 s", "5 ms", flow, &["attempts_begun"])
        .nodes("names")
        .fifo("side", "tester names", ("100 Mbit/s", "5 ms", 100), "")
        .table("factors", r#"dns = ["none", "table", "server"], loss = ["0 %", "100 %"]"#)
        .table("[points]", r#"dns = ["none", "table", "server"], loss = ["0 %"]"#)
        .table("[points]", r#"dns = ["server"], loss = ["100 %"]"#)
        .response("failed", "flow.users", "attempts_failed")
        .response("unlocated", "flow.users", "attempts_unlocated")
        .response("served", "flow.users", "attempts_served")
        .table("response.lookup", r#"of = "flow.users", metric = "lookup_delay", statistic = "p50""#)
        .build();
    let folder = folder("sip", &text);
    let arguments = ["run", "sip.toml", "--on", "sim,netns", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    let points = document["points"].as_array().expect("there are points");
    let point = |substrate: &str, dns: &str, loss: &str| {
        let is = |point: &&Value| {
            point["substrate"] == substrate
                && point["factors"]["dns"] == dns
                && shown_level(&point["factors"]["loss"]) == loss
        };
        points.iter().find(is).unwrap_or_else(|| panic!("{substrate} {dns} {loss}: {document}"))
    };
    for dns in ["table", "server"] {
        let unsupported = point("sim", dns, "0 %");
        assert_eq!(unsupported["status"], "unsupported", "{unsupported}");
        assert!(unsupported["why"].as_str().is_some_and(|why| why.contains("the simulator has no DNS")));
    }
    assert_eq!(point("sim", "none", "0 %")["status"], "ok");
    let of = |dns, loss, response: &str| {
        point("netns", dns, loss)["responses"][response]["runs"][0]["value"].as_f64()
    };
    for (dns, least, most) in [("table", 0.0, 0.02), ("server", 0.090, 0.130)] {
        assert_eq!((of(dns, "0 %", "failed"), of(dns, "0 %", "unlocated")), (Some(0.0), Some(0.0)), "{dns}");
        let lookup = of(dns, "0 %", "lookup").unwrap_or_else(|| panic!("{dns}: {document}"));
        assert!((least..most).contains(&lookup), "{dns}: {lookup}");
    }
    assert_eq!(of("none", "0 %", "served"), Some(1.0));
    let begun = of("server", "100 %", "attempts_begun");
    assert_eq!((of("server", "100 %", "unlocated"), of("server", "100 %", "failed")), (begun, Some(0.0)));
}
