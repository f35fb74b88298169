//! `netrig sip conform` as the DNS server of a proxy (RFC 3263): tests of Kamailio with correct and with faulty
//! configurations. Without Kamailio or without root, each test prints that it was skipped.

use std::net::Ipv4Addr;
use std::process::Command;

use serde_json::Value;

use crate::common::as_json;
use crate::common::kamailio::Kamailio;
use crate::common::sip_server::{PASSWORD_ENV, SipServer};

/// An address for the DNS server of one test. Each test has its own address, because a resolver queries only port 53.
fn resolver(number: u8) -> Ipv4Addr {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    Ipv4Addr::new(127, 64 | (number & 0x3f), high, low.clamp(1, 254))
}

/// The document of a run of the test purposes in the group `location`.
fn document(target: &str, domain: &str, listen: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["sip", "conform", target, "--role", "proxy", "--domain", domain, "--group", "location"]);
    command.args(["--jobs", "10", "--json", "--dns-listen", listen]).args(arguments);
    let output = command.args(["--password-env", PASSWORD_ENV]).env(PASSWORD_ENV, "zanzibar").output();
    let output = output.unwrap();
    as_json(&output)
}

/// Runs the tests against a Kamailio that queries the tester's DNS server. `None` if that is not possible.
fn of_kamailio(number: u8, defines: &[&str], arguments: &[&str]) -> Option<Value> {
    let resolver = resolver(number);
    let server = Kamailio::start_asking(resolver, "conformance.cfg", &[&["PROXY"], defines].concat())?;
    let target = format!("udp:127.0.0.1:{}", server.port);
    Some(document(&target, "example.com", &format!("{resolver}:53"), arguments))
}

/// The numbers of the test purposes with this verdict. A deviation from a recommendation counts as a failure.
fn numbers(document: &Value, verdict: &str) -> Vec<String> {
    let rows = document["purposes"].as_array().unwrap().iter();
    let is_wanted = |row: &&Value| {
        let is_deviation =
            row["observation"].as_str().is_some_and(|text| text.starts_with("only recommended"));
        row["verdict"] == verdict && !is_deviation || is_deviation && verdict == "FAIL"
    };
    rows.filter(is_wanted).map(|row| row["id"].as_str().unwrap().replace("PRX-DNS-", "")).collect()
}

#[test]
fn kamailio_with_names_finds_targets_as_rfc_3263_has_it() {
    let Some(document) = of_kamailio(1, &["WITH_NAMES"], &[]) else { return };
    assert_eq!(document["counts"]["pass"], 20, "{:?}", numbers(&document, "FAIL"));
    let rows = document["purposes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == "PRX-DNS-08").unwrap();
    let asked: Vec<_> = row["questions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asked| (asked["record_type"].as_str().unwrap(), asked["records"].as_u64()))
        .collect();
    assert_eq!(asked, [("NAPTR", Some(2)), ("SRV", Some(1)), ("A", Some(1))]);
}

#[test]
fn kamailio_by_itself_asks_for_no_naptr_records_and_does_not_go_on() {
    // The observations after a timeout take half a minute.
    let without = ["--without", "PRX-DNS-12", "--without", "PRX-DNS-13"];
    let Some(document) = of_kamailio(2, &[], &without) else { return };
    assert_eq!(numbers(&document, "FAIL"), ["07", "14", "15", "19"]);
    assert_eq!(numbers(&document, "INCONC"), ["08", "09", "10"]);
}

/// For each fault, the purposes that fail with it and pass without it.
#[test]
fn faults_of_a_proxy_with_names_are_caught() {
    let faults: [(&str, &[&str]); 4] = [
        ("OWN_TRANSPORTS", &["09"]),
        ("NO_FAILOVER", &["14", "15"]),
        ("OWN_PORT", &["01", "02"]),
        ("NO_PARAMETERS", &["03", "06"]),
    ];
    // With a claim, the purposes are tested although a fault may suppress the query.
    let claims = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(claims.path(), "dns = true\n").unwrap();
    let claimed = ["--capabilities", claims.path().to_str().unwrap()];
    for (number, (fault, expected)) in (3..).zip(faults) {
        let ids: Vec<String> = expected.iter().map(|number| format!("PRX-DNS-{number}")).collect();
        let only: Vec<&str> = ids.iter().flat_map(|id| ["--only", id]).collect();
        let arguments = [&claimed[..], &only].concat();
        let Some(document) = of_kamailio(number, &["WITH_NAMES", fault], &arguments) else { return };
        assert_eq!(numbers(&document, "FAIL"), expected, "{fault}");
    }
    let only = ["16", "17", "18", "20"].map(|number| format!("PRX-DNS-{number}"));
    let only: Vec<&str> = only.iter().flat_map(|id| ["--only", id]).collect();
    let Some(document) = of_kamailio(7, &["WITH_NAMES", "STATELESS"], &only) else { return };
    let failed = numbers(&document, "FAIL");
    // The purposes before 20 may pass by chance, if each message happens to be sent to the expected target.
    assert!(failed.len() >= 2 && failed.contains(&"20".to_owned()), "{failed:?}");
}

/// netrig's own proxy uses a table of hosts instead of the DNS.
#[test]
fn purposes_of_names_are_left_out_for_a_proxy_that_does_not_ask_the_tester() {
    let server = SipServer::start(&["proxy", "--listen", "udp:127.0.0.1:0", "--domain", "lab.test"]);
    let target = format!("udp:{}", server.address("udp"));
    let document = document(&target, "lab.test", "127.0.0.1:0", &[]);
    assert_eq!(document["counts"]["run"], 0);
    let told = document["purposes"][0]["observation"].as_str().unwrap();
    assert!(told.contains("no question for that host came to 127.0.0.1:"), "{told}");
    server.end();
}
