//! The program as its users meet it: what it prints, what it leaves, how it exits.

use std::path::Path;
use std::process::{Command, Output};

const EXPERIMENT: &str = r#"
format = 1
name = "small"
question = "Does a faster line carry more?"
duration = "2 s"
[factors]
rate = ["1 Mbit/s", "2 Mbit/s"]
[replications]
count = 3
[node.a]
[node.b]
[link.line]
between = ["a", "b"]
rate = "${rate}"
delay = "10 ms"
queue = { kind = "fifo", packets = 50 }
loss = { kind = "bernoulli", probability = "1 %" }
[transport.tcp]
kind = "tcp"
[flow.transfer]
from = "a"
to = "b"
transport = "tcp"
application = { kind = "bulk" }
[response.goodput]
of = "flow.transfer"
metric = "goodput"
[claim.faster-is-more]
says = "The faster line carries more"
response = "goodput"
compare = { rate = ["2 Mbit/s", "1 Mbit/s"] }
expect = "greater"
[figure.goodput]
x = "rate"
y = "goodput"
"#;

fn netrig(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netrig"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("netrig starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn folder_with(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join(name), text).expect("the folder can be written");
    folder
}

#[test]
fn a_run_prints_decides_and_leaves_a_report() {
    let folder = folder_with("small.toml", EXPERIMENT);
    let output = netrig(folder.path(), &["run", "small.toml"]);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    assert!(out.contains("goodput") && out.contains("The faster line carries more"), "{out}");
    assert!(out.contains("6 runs made, 0 found"), "{out}");
    assert!(folder.path().join("small.html").is_file() && folder.path().join("netrig.db").is_file());
    let again = text(&netrig(folder.path(), &["run", "small.toml"]).stdout);
    assert!(again.contains("0 runs made, 6 found"), "{again}");
}

#[test]
fn the_same_bytes_for_any_number_of_jobs() {
    let folder = folder_with("small.toml", EXPERIMENT);
    let json = |jobs: &str, store: &str| {
        let output =
            netrig(folder.path(), &["run", "small.toml", "--json", "--jobs", jobs, "--store", store]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let (one, two) = (json("1", "one.db"), json("2", "two.db"));
    assert_eq!(one, two);
    let document: serde_json::Value = serde_json::from_str(&one).expect("one JSON document");
    assert_eq!(document["points"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["claims"][0]["verdict"], "supported");
}

/// The pure crates use the pure-Rust libm, so a processor without FMA and AVX2 gives the same bytes.
#[test]
fn the_same_bytes_without_fma() {
    let folder = folder_with("small.toml", EXPERIMENT);
    let json = |store: &str, tunables: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_netrig"))
            .args(["run", "small.toml", "--json", "--store", store])
            .env("GLIBC_TUNABLES", tunables)
            .current_dir(folder.path())
            .output()
            .expect("netrig starts");
        text(&output.stdout)
    };
    let plain = json("plain.db", "");
    assert!(plain.contains("goodput"));
    assert_eq!(plain, json("old.db", "glibc.cpu.hwcaps=-FMA,-AVX2"));
}

#[test]
fn a_wrong_request_exits_with_2_and_one_clear_sentence() {
    let folder = folder_with("bad.toml", &EXPERIMENT.replace("\"2 Mbit/s\"]", "\"2 Mb\"]"));
    for (arguments, wanted) in [
        (vec!["run", "bad.toml"], "did you mean Mbit/s?"),
        (vec!["run", "nothing.toml"], "there is no file and no study `nothing.toml`"),
        (vec!["run", "link-down", "--set", "colour=red"], "colour"),
        (vec!["run", "link-down", "--on", "moon"], "there is no substrate `moon`"),
        (vec!["report", "mm1"], "there is no store"),
        (vec!["show", "run", "abc", "--store", "bad.toml"], "bad.toml"),
    ] {
        let output = netrig(folder.path(), &arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
}

#[test]
fn claims_that_are_not_supported_exit_with_1_if_required() {
    let folder = folder_with("small.toml", &EXPERIMENT.replace("expect = \"greater\"", "expect = \"less\""));
    assert_eq!(netrig(folder.path(), &["run", "small.toml"]).status.code(), Some(0));
    let output = netrig(folder.path(), &["run", "small.toml", "--require-claims"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
}

#[test]
fn every_shipped_experiment_can_be_run() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let listed = text(&netrig(folder.path(), &["list"]).stdout);
    let names: Vec<_> =
        listed.lines().filter_map(|l| l.strip_prefix("  ")).filter_map(|l| l.split(' ').next()).collect();
    assert!(names.contains(&"link-down/failover"), "{listed}");
    for name in names {
        let output = netrig(folder.path(), &["check", name]);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{name}: {out}{}", text(&output.stderr));
        assert!(!out.contains("unsupported"), "{name}: {out}");
    }
}
