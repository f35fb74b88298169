//! `--save-environment` and `--environment` of `netrig sip load` and `netrig sip capacity`.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::as_json;
use crate::common::sip_server::SipServer;
use crate::common::{netrig, text};

fn offered(output: &Output) -> Value {
    let told = as_json(output);
    told["offered"].clone()
}

fn written(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

#[test]
fn what_is_saved_does_the_same_again_and_flags_override_it() {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let load = |more: &[&str]| netrig(folder, &[&["sip", "load"][..], more, &["--json"]].concat());
    let first = load(&[
        &*target,
        "--rate",
        "50/s",
        "--count",
        "5",
        "--for",
        "1s",
        "--hold",
        "10ms",
        "--sdp",
        "400B",
        "--statistic",
        "p95",
        "--success",
        "99.5%",
        "--i-may-test",
        "127.0.0.1",
        "--save-environment",
        "one.toml",
    ]);
    let one = written(folder, "one.toml");
    for line in [
        "of = \"sip load\"",
        &format!("[server]\ntarget = \"{target}\""),
        "scenario = \"call\"",
        "rate = \"50/s\"",
        "count = 5",
        "for = \"1 s\"",
        "hold = \"10 ms\"",
        "sdp = \"400 B\"",
        "success = \"99.5 %\"",
        "statistic = \"p95\"",
        "t1 = \"500 ms\"",
        "[arrivals]",
    ] {
        assert!(one.contains(line), "{line}: {one}");
    }
    // A file never contains the permission to test a host.
    assert!(!one.contains("may_test") && !one.contains("json") && !one.contains("environment ="), "{one}");

    let second = load(&["--environment", "one.toml", "--save-environment", "two.toml"]);
    assert_eq!(written(folder, "two.toml"), one);
    assert_eq!(offered(&second), offered(&first));
    assert_eq!(offered(&second)["pace"], "50/s; poisson");

    let third =
        load(&["--environment=one.toml", "--stage", "20/s,1s", "--hold", "0s", "--arrivals", "constant"]);
    let third = offered(&third);
    assert_eq!((&third["pace"], &third["own_span"]), (&Value::from("20/s; constant"), &Value::from(0.0)));
    let (_other, elsewhere) = SipServer::answering();
    let fourth = load(&[&elsewhere, "--environment", "one.toml"]);
    let told = as_json(&fourth);
    assert_eq!(told["target"], elsewhere);
}

#[test]
fn no_password_is_written() {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let mut load = std::process::Command::new(env!("CARGO_BIN_EXE_netrig"));
    load.current_dir(folder.path()).env("SECRET", "zanzibar").args(["sip", "load", &target, "--count", "1"]);
    load.args(["--password-env", "SECRET", "--stage", "5/s,1s", "--stage", "5/s..9/s,1s"]);
    load.args(["--for", "1s", "--save-environment", "e.toml"]).output().unwrap();
    let saved = written(folder.path(), "e.toml");
    assert!(saved.contains("password_env = \"SECRET\"") && !saved.contains("zanzibar"), "{saved}");
    assert!(saved.contains("stage = [\"5/s,1 s\", \"5/s..9/s,1 s\"]"), "{saved}");
    let again = ["sip", "load", "--environment", "e.toml", "--password-env", "PATH", "--json"];
    let again = netrig(folder.path(), &again);
    assert_eq!(offered(&again)["pace"], "5/s in 1 s, 5/s..9/s in 1 s; poisson");
}

#[test]
fn a_search_has_one_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // An invalid journal ends the search before the first call.
    std::fs::write(folder.join("journal.json"), "none").unwrap();
    let search = |more: &[&str]| {
        let output = netrig(folder, &[&["sip", "capacity", "--journal", "journal.json"][..], more].concat());
        assert!(text(&output.stderr).contains("journal.json"), "{}", text(&output.stderr));
    };
    search(&["tcp:127.0.0.1:9", "--start", "30/s", "--least", "2min", "--save-environment", "one.toml"]);
    search(&["--environment", "one.toml", "--save-environment", "two.toml"]);
    let one = written(folder, "one.toml");
    assert!(one.contains("least = \"120 s\"") && one.contains("[search]"), "{one}");
    assert_eq!(written(folder, "two.toml"), one);
}

#[test]
fn what_is_no_environment_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let head = "format = 1\nof = \"sip load\"\n";
    for (saved, said) in [
        (
            "[calls]\nholds = \"1 s\"\n",
            "e.toml:4: there is no `holds` in [calls]; there is longest_ringing, messages, callee, ring, contacts",
        ),
        (
            "[call]\nhold = \"1 s\"\n",
            "e.toml:4: there is no `hold` in [call]; there is [server], [names], [users]",
        ),
        ("[calls]\nhold = { a = 1 }\n", "e.toml:4: `hold` is no text"),
        ("hold = \"1 s\"\n", "e.toml:3: `hold` is not in a table"),
        ("[tester]\ni_may_test = \"example.com\"\n", "there is no `i_may_test`"),
        ("[calls]\nhold = \"1 parsec\"\n", "e.toml:4: `hold`: `1 parsec`"),
        ("[calls\n", "e.toml:3"),
    ] {
        std::fs::write(folder.join("e.toml"), format!("{head}{saved}")).unwrap();
        let output = netrig(folder, &["sip", "load", "udp:127.0.0.1", "--environment", "e.toml"]);
        assert_eq!(output.status.code(), Some(2), "{saved}");
        assert!(text(&output.stderr).contains(said), "{said}: {}", text(&output.stderr));
    }
    for (saved, said) in [
        ("of = \"sip load\"\n", "expected `format = 1`"),
        ("format = 1\nof = \"sip capacity\"\n", "it is of `netrig sip capacity`, not of `netrig sip load`"),
    ] {
        std::fs::write(folder.join("e.toml"), saved).unwrap();
        let output = netrig(folder, &["sip", "load", "--environment", "e.toml"]);
        assert_eq!(output.status.code(), Some(2), "{saved}");
        assert!(text(&output.stderr).contains(said), "{said}: {}", text(&output.stderr));
    }
    let output = netrig(folder, &["sip", "load", "--environment", "nobody.toml"]);
    assert!(text(&output.stderr).contains("nobody.toml"));
}
