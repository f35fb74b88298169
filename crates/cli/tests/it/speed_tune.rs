//! `netrig speed tune` on this host, with any settings.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use serde_json::Value;

fn netrig(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netrig")).args(arguments).output().expect("netrig starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(output: &Output) -> Value {
    let text = text(output);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn its_document_keeps_to_its_schema() {
    let contract = json(&netrig(&["schema", "--of", "speed-tune"]));
    let contract = jsonschema::validator_for(&contract).expect("a schema");
    let path = ["--rate", "1 Gbit/s", "--rtt", "100 ms"];
    for order in [&[][..], &path, &["127.0.0.1"], &["::1", "--rate", "1 Gbit/s"]] {
        let told = json(&netrig(&[&["speed", "tune", "--json"], order].concat()));
        let wrong: Vec<_> = contract.iter_errors(&told).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{order:?}: {wrong:?}");
        assert_eq!(told["format"], 1);
    }
}

#[test]
fn what_a_path_needs_stands_beside_what_is() {
    let told = netrig(&["speed", "tune", "127.0.0.1", "--rate", "1 Gbit/s", "--rtt", "100 ms"]);
    let text = text(&told);
    assert!(
        text.starts_with("the path to 127.0.0.1 by lo: round trip 100 ms; rate 1 Gbit/s as given; "),
        "{text}"
    );
    assert!(text.contains("window 12500000 B") && text.contains("25 MB at most"), "{text}");
    // The output has the value of the setting as the kernel prints it.
    let rmem = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").expect("Linux has it");
    let rmem = rmem.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&rmem), "{text}");
}

#[test]
fn without_a_path_nothing_is_guessed() {
    let told = json(&netrig(&["speed", "tune", "--json"]));
    assert_eq!(
        (&told["window_bytes"], &told["host"], &told["round_trip_s"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let settings = told["settings"].as_array().expect("settings");
    let rmem = settings.iter().find(|one| one["name"] == "net.ipv4.tcp_rmem").expect("it is looked at");
    assert_eq!((&rmem["verdict"], &rmem["needs"]), (&"unknown".into(), &Value::Null));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    for (arguments, says) in [
        (&["--measure"][..], "HOST"),
        (&["192.0.2.1:x"], "not a target"),
        (&["127.0.0.1", "--rate", "fast"], "a rate such as"),
        (&["127.0.0.1", "--measure", "--rate", "1 Gbit/s"], "cannot be used with"),
    ] {
        let output = netrig(&[&["speed", "tune"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}
