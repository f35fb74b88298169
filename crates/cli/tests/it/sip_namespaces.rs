//! SIP between two network namespaces over a real kernel.
//!
//! The tests need root. A test prints which requirements are missing.

use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::namespace::{Namespace, can};
use crate::common::sip_server::SipServer;
use crate::common::{as_json, text};

const TOOLS: [&str; 4] = ["unshare", "nsenter", "ip", "sleep"];

/// The numbers of started and of successful calls of a load.
fn calls(told: &Value) -> [&Value; 2] {
    let outcomes = told["outcomes"].as_array().expect("a list");
    let row = outcomes.iter().find(|row| row["what"] == "call").expect("calls");
    [&row["begun"], &row["succeeded"]]
}

/// SIP over UDP and TCP between two hosts that have only link-local addresses. Such an address needs its interface (RFC
/// 4007 section 11) in arguments, in output, when a socket is bound, and when it sends. SIP messages must not contain
/// the interface.
#[test]
fn sip_between_addresses_of_a_link_keeps_their_interface_and_writes_it_into_no_message() {
    skip_unless!(can(&TOOLS));
    let (near, far) = Namespace::pair();
    for (end, own) in [(&near, "fe80::1/64"), (&far, "fe80::2/64")] {
        end.ip(&["address", "add", own, "dev", "eth", "nodad"]);
    }
    let netrig = far.command(env!("CARGO_BIN_EXE_netrig"));
    let points = ["udp:[fe80::2%eth]:5060", "tcp:[fe80::2%eth]:5060"];
    let listen = ["--listen", points[0], "--listen", "tcp:fe80::2%eth"];
    let server = SipServer::start_by(netrig, &[&["uas", "--open", "--json"][..], &listen].concat());
    assert_eq!(server.points, points);
    for target in points {
        for local in [&[][..], &["--local", "fe80::1%eth"]] {
            let quick = ["sip", "load", target, "--rate", "50/s", "--count", "10", "--cpus", "1", "--json"];
            let told = as_json(&near.netrig(&[&quick[..], local].concat()));
            assert_eq!((calls(&told), &told["target"]), ([&Value::from(10); 2], &target.into()), "{told:#}");
        }
        let told = as_json(&near.netrig(&["sip", "call", target, "--json", "--hold", "10ms"]));
        assert_eq!((&told["held"], &told["target"]), (&true.into(), &target.into()), "{told:#}");
        let local = told["local"].as_str().unwrap_or_default();
        assert!(local.starts_with("[fe80::1%eth]:"), "{local}");
        assert!(!told["messages"].to_string().contains('%'), "{}", told["messages"]);
    }
    let unscoped = near.netrig(&["sip", "load", "udp:[fe80::2]:5060"]);
    let said = text(&unscoped.stderr);
    assert_eq!(unscoped.status.code(), Some(2), "{said}");
    assert!(said.contains("needs an interface: expected `fe80::2%eth0`"), "{said}");
    let told = server.finish();
    assert_eq!(told["listens"], Value::from(points.to_vec()));
    // Over UDP a retransmitted BYE may have arrived twice.
    assert!(told["received"]["requests"]["BYE"].as_u64() >= Some(42), "{told:#}");
}

/// A proxy reaches a user whose contact has a link-local address without an interface: it uses the link on which it
/// listens.
#[test]
fn a_proxy_on_a_link_calls_users_of_its_link() {
    skip_unless!(can(&TOOLS));
    let (near, far) = Namespace::pair();
    for (end, own) in [(&near, "fe80::1/64"), (&far, "fe80::2/64")] {
        end.ip(&["address", "add", own, "dev", "eth", "nodad"]);
    }
    let listen = ["--listen", "udp:[fe80::2%eth]:5060", "--listen", "tcp:[fe80::2%eth]:5060"];
    let role = ["proxy", "--record-route", "--open", "--json"];
    let netrig = far.command(env!("CARGO_BIN_EXE_netrig"));
    let proxy = SipServer::start_by(netrig, &[&role[..], &listen].concat());
    for target in ["udp:[fe80::2%eth]:5060", "tcp:[fe80::2%eth]:5060"] {
        let own = ["--callee", "own", "--users", "5", "--count", "5", "--rate", "20/s"];
        let quick = ["sip", "load", target, "--cpus", "1", "--json"];
        let told = as_json(&near.netrig(&[&quick[..], &own].concat()));
        assert_eq!(calls(&told), [&Value::from(5); 2], "{target}: {told:#}");
    }
    assert!(proxy.finish()["sent"]["requests"]["INVITE"].as_u64() >= Some(10), "each call passed it");
}
