//! `netrig sip compare`.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::as_json;
use crate::common::sip_server::SipServer;
use crate::common::{netrig, text};

/// Runs a load of registrations. Returns its document, marked as valid.
fn measured(folder: &Path) -> Value {
    let server = SipServer::start(&["registrar", "--users", "100", "--listen", "udp:127.0.0.1:0"]);
    let target = format!("udp:{}", server.address("udp"));
    let load =
        ["sip", "load", &target, "--scenario", "register", "--rate", "50/s", "--count", "20", "--json"];
    let output = netrig(folder, &load);
    let mut told: Value = as_json(&output);
    // On a busy machine the tester may be the limit, which does not matter for the comparison.
    told["valid"] = json!(true);
    told
}

/// Writes a document of a load of half a minute with this mean delay to a file. The seconds are copies of the first
/// second of `load`.
fn lasting(folder: &Path, file: &str, load: &Value, mean_us: f64) {
    let mut told = load.clone();
    let second = |number: usize| {
        let mut second = load["seconds"][0].clone();
        second["second"] = json!(number);
        for delay in second["delays"].as_array_mut().unwrap() {
            // The mean delay varies around `mean_us`, without correlation between successive seconds.
            let around = [0.97, 1.01, 1.03, 0.98, 1.02, 0.99, 1.0][number * number % 7];
            delay["mean_us"] = json!(mean_us * around);
        }
        second
    };
    for delay in told["delays"].as_array_mut().unwrap() {
        delay["mean_us"] = json!(mean_us);
    }
    told["seconds"] = (0..30).map(second).collect();
    std::fs::write(folder.join(file), told.to_string()).unwrap();
}

#[test]
fn a_slower_server_is_worse_and_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let load = measured(folder);
    lasting(folder, "before.json", &load, 20_000.0);
    lasting(folder, "now.json", &load, 25_000.0);
    let output = netrig(folder, &["sip", "compare", "before.json", "now.json", "--json"]);
    let told = as_json(&output);
    let index =
        |name: &str| told["indices"].as_array().unwrap().iter().find(|index| index["name"] == name).unwrap();
    let registration = index("registration, mean");
    assert_eq!((output.status.code(), &registration["verdict"]), (Some(1), &json!("worse")), "{told}");
    let [low, high] = ["low", "high"].map(|end| registration[end].as_f64().unwrap());
    assert!(
        low < 5000.0 && 5000.0 < high && registration["p_holm"].as_f64().unwrap() < 0.05,
        "{registration}"
    );
    assert_eq!(index("success of register")["verdict"], "no-difference");

    let table = netrig(folder, &["sip", "compare", "now.json", "before.json"]);
    let said = text(&table.stdout);
    assert_eq!(table.status.code(), Some(0), "{said}");
    assert!(said.contains("nothing is worse") && said.contains("better") && said.contains("Welch"), "{said}");
    let within = netrig(folder, &["sip", "compare", "before.json", "now.json", "--margin", "50%"]);
    assert_eq!(within.status.code(), Some(0), "{}", text(&within.stdout));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let before = measured(folder);
    std::fs::write(folder.join("before.json"), before.to_string()).unwrap();
    let mut other = before.clone();
    other["offered"]["transport"] = json!("tcp");
    other["offered"]["pace"] = json!("70/s; poisson");
    other["interrupted"] = json!(true);
    std::fs::write(folder.join("other.json"), other.to_string()).unwrap();
    std::fs::write(folder.join("none.json"), "{}").unwrap();
    let compared = |files: &[&str]| netrig(folder, &[&["sip", "compare"][..], files].concat());
    for (files, said) in [
        (&["before.json", "other.json"][..], "the transport was \"udp\" and is \"tcp\""),
        (&["before.json", "other.json"], "when users start was"),
        (&["before.json", "other.json"], "now: it was interrupted"),
        (&["before.json", "none.json"], "not a result of `netrig sip load`"),
        (&["before.json", "nobody.json"], "nobody.json"),
    ] {
        let output = compared(files);
        assert_eq!(output.status.code(), Some(2), "{files:?}");
        assert!(text(&output.stderr).contains(said), "{said}: {}", text(&output.stderr));
    }
    let output = compared(&["before.json", "other.json", "--anyway"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("note: the transport was") && said.contains("fewer than 10 seconds"), "{said}");
}

/// If a server answers only after the last attempt has started, the comparison has no verdict. The columns of each
/// index agree with each other.
#[test]
fn what_is_answered_after_the_last_arrival_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let load = measured(folder);
    lasting(folder, "before.json", &load, 20_000.0);
    let mut now: Value = serde_json::from_slice(&std::fs::read(folder.join("before.json")).unwrap()).unwrap();
    let mut last = now["seconds"][29].clone();
    (last["second"], last["begun"]) = (json!(32), json!(0));
    last["retransmissions"] = json!(113);
    for delay in last["delays"].as_array_mut().unwrap() {
        delay["mean_us"] = json!(2_000_000.0);
    }
    now["seconds"].as_array_mut().unwrap().push(last);
    std::fs::write(folder.join("now.json"), now.to_string()).unwrap();
    let output = netrig(folder, &["sip", "compare", "before.json", "now.json", "--json"]);
    let told = as_json(&output);
    assert_eq!((output.status.code(), &told["worse"]), (Some(2), &json!(false)), "{told}");
    let open = told["open"].as_array().unwrap();
    assert!(
        open.contains(&json!("registration, mean")) && open.contains(&json!("requests sent again")),
        "{told}"
    );
    for index in told["indices"].as_array().unwrap() {
        let [Some(before), Some(now), Some(difference)] =
            ["before", "now", "difference"].map(|column| index[column].as_f64())
        else {
            continue;
        };
        assert!((now - before - difference).abs() <= 1e-9 * now.abs(), "{index}");
    }
    let said = netrig(folder, &["sip", "compare", "before.json", "now.json"]);
    assert!(
        text(&said.stdout).contains("no verdict: more than twice as bad") && said.status.code() == Some(2)
    );
    let wide = netrig(folder, &["sip", "compare", "now.json", "before.json"]);
    assert_eq!(wide.status.code(), Some(0), "what is better by as much passes: {}", text(&wide.stdout));
}
