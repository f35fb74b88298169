//! The output of `netrig sip load --json` and `netrig sip capacity --json` is a contract. The schema is stored with the
//! code, the output conforms to it, and older documents can still be read.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::as_json;
use crate::common::sip_server::SipServer;
use crate::common::{netrig, text};

/// The documents whose output and older versions are checked.
const DOCUMENTS: [&str; 2] = ["sip-load", "sip-capacity"];

/// The documents whose schemas are stored.
const SCHEMAS: [&str; 5] = ["sip-load", "sip-capacity", "sip-conform", "sip-scenario", "sip-show"];

/// The current `format` of a document.
fn format_of(of: &str) -> u64 {
    if of == "sip-load" { 1 } else { 2 }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema(of: &str) -> PathBuf {
    here().join(format!("schema/{of}.schema.json"))
}

fn golden(of: &str) -> PathBuf {
    here().join(format!("../../tests/golden/{of}-{}.json", format_of(of)))
}

fn json_of(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap()
}

fn contract(of: &str) -> jsonschema::Validator {
    jsonschema::validator_for(&json_of(&schema(of))).unwrap()
}

/// The JSON document of a `netrig sip` command.
fn told(arguments: &[&str]) -> Value {
    let output = netrig(here(), &[&["sip"][..], arguments, &["--json"]].concat());
    as_json(&output)
}

#[track_caller]
fn assert_keeps(of: &str, document: &Value) {
    contract(of).validate(document).unwrap_or_else(|error| panic!("{}: {error}", error.instance_path()));
}

/// With `NETRIG_UPDATE_PAGES=1` the test writes the present schema. If a key is removed or changes its meaning, the
/// document needs another `format`.
#[test]
fn the_schema_that_is_kept_is_the_one_that_is_printed() {
    for of in SCHEMAS {
        let output = netrig(here(), &["schema", "--of", of]);
        let (now, file) = (text(&output.stdout), schema(of));
        if std::env::var_os("NETRIG_UPDATE_PAGES").is_some() {
            std::fs::write(&file, &now).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap();
        assert_eq!(now, kept, "NETRIG_UPDATE_PAGES=1 writes it down");
    }
}

#[test]
fn a_load_keeps_its_contract() {
    let (_server, target) = SipServer::answering();
    let quick = ["--count", "20", "--rate", "50/s", "--for", "1s", "--warm-up", "100ms"];
    let calls = told(&[&["load", &*target, "--hold", "20ms"][..], &quick].concat());
    assert_keeps("sip-load", &calls);
    let mix = ["--mix", "call=50%,busy=50%"];
    let mixed = told(&[&["load", &*target][..], &quick, &mix].concat());
    assert_keeps("sip-load", &mixed);
    assert!(mixed["failures"].as_array().is_some_and(|rows| !rows.is_empty()), "nobody is busy: {mixed}");
    // No server listens at this address.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_keeps("sip-load", &told(&[&["load", &*format!("tcp:{nobody}")][..], &quick].concat()));
}

#[test]
fn a_search_keeps_its_contract() {
    let (_server, target) = SipServer::answering();
    let options = ["capacity", &*target, "--scenario", "options", "--start", "40/s", "--highest", "50/s"];
    for mode in [
        &["--mode", "sequential", "--success", "90%", "--least", "1s", "--confirm", "1s"][..],
        &["--mode", "rfc7502", "--sessions", "20"],
        &["--mode", "design-objective", "--step", "1s"],
    ] {
        assert_keeps("sip-capacity", &told(&[&options[..], mode].concat()));
    }
}

#[test]
fn the_contracts_refuse_what_breaks_them() {
    for (of, pointer, value) in [
        ("sip-load", "/format", json!("one")),
        ("sip-load", "/outcomes/0/begun", json!(-1)),
        ("sip-load", "/tester/lateness/p95_us", json!("late")),
        ("sip-load", "/failures/0/kind", json!("bad luck")),
        ("sip-capacity", "/verdict", json!({ "fast": true })),
        ("sip-capacity", "/journal/entries/0/step/decision/outcome", json!("fine")),
    ] {
        let mut document = json_of(&golden(of));
        assert_keeps(of, &document);
        *document.pointer_mut(pointer).expect(pointer) = value;
        assert!(contract(of).validate(&document).is_err(), "{of}: {pointer}");
        let top = pointer.split('/').nth(1).unwrap();
        document.as_object_mut().unwrap().remove(top);
        assert!(contract(of).validate(&document).is_err(), "{of}: no {top}");
    }
}

#[test]
fn what_was_printed_once_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    for of in DOCUMENTS {
        let file = golden(of);
        let compared = |now: &Path| {
            netrig(folder.path(), &["sip", "compare", file.to_str().unwrap(), now.to_str().unwrap()])
        };
        let output = compared(&file);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let mut other = json_of(&file);
        let known = format_of(of);
        other["format"] = json!(known + 1);
        let later = folder.path().join("later.json");
        std::fs::write(&later, other.to_string()).unwrap();
        let output = compared(&later);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let words = format!("its `format` is {}, and this netrig knows {known}", known + 1);
        assert!(said.contains(&words), "{said}");
    }
}
