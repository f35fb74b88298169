//! The study `sip-server`: one point of each of its figures with the real server, and the effect of loss in theory.
#![cfg(target_os = "linux")]

use netrig_test_support::skip_unless;
use serde_json::{Value, json};

use crate::common::as_json;
use crate::common::machine::can;
use crate::common::spoilt;
use crate::common::{netrig, text};

const KAMAILIO: [&str; 3] =
    ["/usr/sbin/kamailio", "sqlite3", "/usr/share/kamailio/db_sqlite/usrloc-create.sql"];

/// The mean of a response at the only point with these levels.
fn mean(document: &Value, levels: &[(&str, Value)], response: &str) -> f64 {
    let points = document["points"].as_array().expect("there are points");
    let has = |point: &&Value| levels.iter().all(|(factor, level)| point["factors"][factor] == *level);
    let found: Vec<&Value> = points.iter().filter(has).collect();
    let [point] = found[..] else { panic!("{levels:?} are of {} points: {document:#}", found.len()) };
    let mean = &point["responses"][response]["mean"];
    mean.as_f64().unwrap_or_else(|| panic!("{response} at {levels:?} is {mean}: {point:#}"))
}

/// In virtual time with netrig's own servers, the effect of loss follows from the timers of RFC 3261.
#[test]
fn what_loss_costs_is_what_the_timers_say() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let arguments =
        ["run", "sip-server/loss", "--set", "loss=10 %,t1=500 ms,delay=1 ms,role=registrar", "--json"];
    let ended = netrig(folder.path(), &arguments);
    let document = as_json(&ended);
    let claims = document["claims"].as_array().expect("there are claims");
    let computed = claims.iter().find(|claim| claim["id"] == "as-computed").expect("it is claimed");
    assert_eq!(computed["verdict"], "supported", "{computed:#}");
    assert_eq!(mean(&document, &[("role", json!("registrar"))], "registration_success"), 100.0);
}

#[test]
fn each_of_its_experiments_has_a_substrate_that_can_run_all_of_it() {
    skip_unless!(can(&KAMAILIO));
    let folder = tempfile::tempdir().expect("there is room for a folder");
    for name in [
        "sip-server",
        "sip-server/avalanche",
        "sip-server/connection-limit",
        "sip-server/connections",
        "sip-server/database",
        "sip-server/overload",
        "sip-server/own",
        "sip-server/proxy-effects",
        "sip-server/proxy-security",
        "sip-server/registrar-effects",
    ] {
        let ended = netrig(folder.path(), &["check", name, "--on", "netns"]);
        let said = text(&ended.stdout);
        assert!(
            ended.status.success() && !said.contains("unsupported"),
            "{name}: {said}{}",
            text(&ended.stderr)
        );
    }
}

/// Tests that need a processor without other processes.
mod alone {
    use super::*;

    /// An idle server serves all registrations over UDP and TCP, calls and redirections.
    #[test]
    fn a_point_of_each_figure_is_measured_with_the_real_server() {
        skip_unless!(can(&KAMAILIO));
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let arguments =
            ["run", "sip-server", "--set", "interval=1 ms,population=0", "--replications", "1", "--json"];
        let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
        for (role, transport, success, delay) in [
            ("registrar", "udp", "registration_success", "registration_delay"),
            ("registrar", "tcp", "registration_success", "registration_delay"),
            ("proxy", "udp", "call_success", "connection_delay"),
            ("redirect", "udp", "redirect_success", "redirect_delay"),
        ] {
            let levels = [("role", json!(role)), ("transport", json!(transport))];
            let of = |response| mean(&document, &levels, response);
            assert_eq!(of(success), 100.0, "{role} over {transport}");
            assert!(of(delay) > 0.0 && of("cpu") > 0.0, "{role} over {transport}");
        }
    }

    /// Calls with digest authentication (407) over each transport, with and without a DNS look-up.
    #[test]
    fn calls_with_a_digest_through_the_proxy_are_set_up() {
        skip_unless!(can(&[&KAMAILIO[..], &["openssl"]].concat()));
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let arguments =
            ["run", "sip-server/proxy-security", "--set", "auth=memory", "--replications", "1", "--json"];
        let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
        for (transport, secure) in [("udp", false), ("tcp", false), ("tcp", true)] {
            for dns in ["none", "server"] {
                let of = |response| {
                    let levels =
                        [("transport", json!(transport)), ("secure", json!(secure)), ("dns", json!(dns))];
                    mean(&document, &levels, response)
                };
                assert_eq!(of("success"), 100.0, "{transport} {secure} {dns}");
            }
        }
    }

    /// If users keep their connections, the registrar serves 256 of them and rejects all others.
    #[test]
    fn a_registrar_has_no_more_connections_than_it_may() {
        skip_unless!(can(&KAMAILIO));
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let arguments =
            ["run", "sip-server/connection-limit", "--set", "limit=256", "--replications", "1", "--json"];
        let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
        let success = |connections| mean(&document, &[("connections", json!(connections))], "success");
        assert_eq!(success("per-attempt"), 100.0);
        let kept = success("per-user");
        assert!((10.0..20.0).contains(&kept), "256 of some 1,500 users are 17 %: {kept} %");
    }
}
