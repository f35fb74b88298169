//! The output of the program, the files that it leaves, and its exit status.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use netrig_store::Store;
use netrig_test_support::ExperimentText;

use crate::common::far_end::interrupt;
use crate::common::machine::has;
use crate::common::{machine, netrig, small, text};

fn experiment() -> String {
    small()
        .table(
            "claim.faster-is-more",
            r#"says = "The faster line carries more", response = "goodput",
            compare = { rate = ["2 Mbit/s", "1 Mbit/s"] }, expect = "greater""#,
        )
        .table("figure.goodput", r#"x = "rate", y = "goodput""#)
        .build()
}

#[test]
fn a_run_prints_decides_and_leaves_a_report() {
    let folder = machine::folder("small", &experiment());
    let output = netrig(folder.path(), &["run", "small.toml"]);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    assert!(out.contains("goodput") && out.contains("The faster line carries more"), "{out}");
    assert!(out.contains("6 runs made, 0 found"), "{out}");
    assert!(folder.path().join("small.html").is_file() && folder.path().join("netrig.db").is_file());
    let again = text(&netrig(folder.path(), &["run", "small.toml"]).stdout);
    assert!(again.contains("0 runs made, 6 found"), "{again}");
}

/// An experiment with both protocols and all parts that use random numbers or floating-point arithmetic: random
/// intervals and sizes, loss, jitter, CUBIC, and an outage.
fn traced() -> String {
    ExperimentText::new("traced", "8 s")
        .table("factors", r#"transport = ["tcp", "sctp"]"#)
        .table("replications", "count = 3")
        .nodes("a b")
        .link(
            "one",
            "a b",
            r#"rate = "1 Mbit/s", delay = "10 ms",
            queue = { kind = "red", packets = 50, thresholds = { packets = { min = 5,
            max = 20 } } }, loss = { kind = "gilbert-elliott", p = "1 %", r = "40 %" },
            jitter = { spread = { normal = "2 ms" } }"#,
        )
        .fifo("two", "a b", ("1 Mbit/s", "30 ms", 50), "")
        .table("transport.tcp", r#"kind = "tcp", profile = "linux", paths = ["one"]"#)
        .table("transport.sctp", r#"kind = "sctp", paths = ["one", "two"], path_max_retrans = 0"#)
        .table("[event]", r#"at = "4 s", link = "one", do = { down_for = "2 s" }"#)
        .flow(
            "web",
            "a b",
            r#"transport = "${transport}",
            application = { kind = "web", interarrival = { exponential = "50 ms" },
            size = { pareto = { mean = "8 KB", shape = 1.5 } } }"#,
        )
        .response("goodput", "flow.web", "goodput")
        .table("response.object_time", r#"of = "flow.web", metric = "object_time", statistic = "p95""#)
        .table("figure.window", r#"x = "time", y = "cwnd", of = "flow.web", series = "transport""#)
        .build()
}

/// All output and stored data of netrig with this number of jobs and these settings of the C library
/// (`GLIBC_TUNABLES`): the JSON document, the exported table and figure, every stored time series, and every stored and
/// shown time line.
fn everything_of(jobs: &str, tunables: &str) -> Vec<String> {
    let folder = machine::folder("traced", &traced());
    let run = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_netrig"))
            .args(arguments.split(' '))
            .env("GLIBC_TUNABLES", tunables)
            .current_dir(folder.path())
            .output()
            .expect("netrig starts");
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let mut all = vec![run(&format!("run traced.toml --json --traces --jobs {jobs}"))];
    for (format, out) in [("csv", "runs.csv"), ("svg", ".")] {
        run(&format!("export traced.toml --format {format} --out {out}"));
    }
    for file in ["runs.csv", "traced-window.svg"] {
        all.push(std::fs::read_to_string(folder.path().join(file)).expect("it was exported"));
    }
    let store = Store::open_read_only(&folder.path().join("netrig.db")).expect("the store opens");
    let experiment = store.experiments().expect("it can be read").remove(0).id;
    for replication in store.replications(experiment).expect("it can be read") {
        let identity = &replication.run.identity;
        let (series, notes) =
            (store.series(identity).expect("series"), store.notes(identity).expect("notes"));
        assert!(series.iter().any(|series| series.quantity == "cwnd") && !notes.is_empty());
        // Debug output has the shortest text that is read back as the same number, so different bits give different
        // texts.
        all.push(format!("{series:?}"));
        all.push(format!("{notes:?}"));
        all.push(run(&format!("show run {identity}")));
    }
    all
}

#[test]
fn the_same_bytes_for_any_number_of_jobs() {
    let one = everything_of("1", "");
    let document: serde_json::Value = serde_json::from_str(&one[0]).expect("one JSON document");
    assert_eq!(document["points"].as_array().map(Vec::len), Some(2));
    assert_eq!(one.len(), 3 + 2 * 3 * 3);
    assert_eq!(one, everything_of("2", ""));
}

/// The pure crates use the pure-Rust libm, so that a processor without FMA and AVX2 gives the same bytes.
#[test]
fn the_same_bytes_without_fma() {
    assert_eq!(everything_of("2", ""), everything_of("1", "glibc.cpu.hwcaps=-FMA,-AVX2"));
}

#[test]
fn a_wrong_request_exits_with_2_and_one_clear_sentence() {
    let folder = machine::folder("bad", &experiment().replace("\"2 Mbit/s\"]", "\"2 Mb\"]"));
    for (arguments, wanted) in [
        (vec!["run", "bad.toml"], "did you mean Mbit/s?"),
        (vec!["run", "nothing.toml"], "there is no file and no study `nothing.toml`"),
        (vec!["run", "link-down", "--set", "colour=red"], "colour"),
        (vec!["run", "link-down", "--set", "shape=1.5", "--set", "shape=1.2"], "`shape` is set twice"),
        (
            vec!["run", "link-down", "--set", "down_for=5"],
            "`5` is a number without a unit, but `down_for` is a number in s",
        ),
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
    let folder = machine::folder("small", &experiment().replace("expect = \"greater\"", "expect = \"less\""));
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
        // The reasons for which experiments with real kernels cannot be simulated.
        let of_kernels = [
            "the simulator has no Multipath TCP",
            "hosts have no processors, memory or kernels of their own",
        ];
        let lacking = out.lines().filter(|line| line.contains("unsupported"));
        let lacking: Vec<_> =
            lacking.filter(|line| !of_kernels.iter().any(|why| line.contains(why))).collect();
        // An experiment that needs Kamailio cannot be run if it is not installed.
        if lacking.iter().any(|line| line.contains("runs `kamailio`")) && !has("kamailio") {
            continue;
        }
        assert!(lacking.is_empty(), "{name}: {lacking:?}");
    }
}

/// An experiment that takes very long: 200 long runs.
fn long_sweep() -> String {
    experiment().replace("duration = \"2 s\"", "duration = \"2000 s\"").replace("count = 3", "count = 100")
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_was_done_and_exits_with_130() {
    let folder = machine::folder("small", &long_sweep());
    let child = Command::new(env!("CARGO_BIN_EXE_netrig"))
        .args(["run", "small.toml"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("netrig starts");
    let store = folder.path().join("netrig.db");
    let runs = || Store::open_read_only(&store).ok()?.experiments().ok()?.first().map(|entry| entry.runs);
    while runs().unwrap_or(0) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{out}{error}");
    assert!(error.contains("the same command continues with the others"), "{error}");
    assert!(folder.path().join("small.html").is_file(), "the report of what there is");
    let kept = runs().expect("the store is whole");
    assert!((1..200).contains(&kept), "{kept}");
    let again = text(&netrig(folder.path(), &["report", "small.toml"]).stdout);
    assert!(again.contains("goodput"), "{again}");
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    let folder = machine::folder("small", &experiment());
    for arguments in [&["run", "small.toml"][..], &["show", "profile", "linux"], &["schema"], &["list"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_netrig"))
            .args(arguments)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("netrig starts");
        drop(child.stdout.take());
        let error = text(&child.wait_with_output().expect("it ends").stderr);
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    }
}

#[test]
fn what_the_simulator_cannot_run_is_said_before_anything_runs() {
    let folder = machine::folder("small", &experiment().replace("kind = \"tcp\"", "kind = \"mptcp\""));
    let check = netrig(folder.path(), &["check", "small.toml"]);
    let wanted = "the simulator has no Multipath TCP, and flow `transfer` wants it";
    assert!(text(&check.stdout).contains(wanted), "{}", text(&check.stdout));
    let run = netrig(folder.path(), &["run", "small.toml"]);
    // The sentence is broken at the width of the terminal.
    let out = text(&run.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(out.contains(wanted) && out.contains("0 runs made"), "{out}{}", text(&run.stderr));
    let of_kernels = experiment().replace("kind = \"tcp\"", "kind = \"tcp\"\ncongestion = \"bbr\"");
    let folder = machine::folder("small", &of_kernels);
    let check = netrig(folder.path(), &["check", "small.toml"]);
    let wanted = "the simulator has no congestion control `bbr` (transport `tcp`); it has tahoe, reno, cubic, scalable";
    assert!(text(&check.stdout).contains(wanted), "{}", text(&check.stdout));
}

/// Every command can read the store after runs of a part of a study.
#[test]
fn every_verb_reads_what_a_run_left() {
    let folder = machine::folder("small", &experiment());
    let ok = |arguments: &[&str]| {
        let output = netrig(folder.path(), arguments);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {out}{}", text(&output.stderr));
        out
    };
    ok(&["run", "link-down", "--set", "shape=1.5", "--set", "down_for=5 s", "--replications", "2"]);
    let listed = ok(&["list"]);
    let run = listed
        .lines()
        .find_map(|line| line.trim_start().split_once("    1  ").or(line.trim_start().split_once("  1  ")));
    let identity = run.map(|(identity, _)| identity.trim()).expect("a run is listed");
    let shown = ok(&["show", "run", identity]);
    assert!(shown.contains("connection established") && shown.contains("down: queue"), "{shown}");
    assert!(ok(&["plan", "small.toml"]).contains("rate"));
    assert!(ok(&["doctor"]).contains("sim"));
    assert!(ok(&["compare", "link-down", "--with", "netrig.db"]).contains("agrees"));
    assert!(ok(&["show", "study", "link-down"]).contains("netrig run link-down/failover"));
    let markdown =
        ok(&["report", "link-down", "--replications", "2", "--set", "shape=1.5", "--set", "down_for=5 s"]);
    assert!(markdown.contains("throughput"), "{markdown}");
}

#[test]
fn the_json_document_keeps_its_contract_and_files_keep_theirs() {
    let folder = machine::folder("small", &experiment());
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let contract = json(include_str!("../../../lab/report/schema/results.schema.json"));
    let contract = jsonschema::validator_for(&contract).expect("a schema");
    for experiment in ["small.toml", "link-down"] {
        let output = netrig(folder.path(), &["run", experiment, "--replications", "2", "--json"]);
        let document = json(&text(&output.stdout));
        contract.validate(&document).unwrap_or_else(|e| panic!("{experiment} {}: {e}", e.instance_path()));
    }
}

/// Root can write to every file. So the test runs netrig as an ordinary user, and is skipped if that is not possible.
#[cfg(unix)]
#[test]
fn a_report_needs_no_right_to_write() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: needs root");
    }
    let folder = machine::folder("small", &experiment());
    assert!(netrig(folder.path(), &["run", "small.toml"]).status.success());
    let mode = |path: &Path, bits| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).expect("our own file");
    };
    for file in folder.path().read_dir().expect("our own folder") {
        mode(&file.expect("a file").path(), 0o444);
    }
    mode(folder.path(), 0o555);
    let program = folder.path().with_extension("netrig");
    std::fs::copy(env!("CARGO_BIN_EXE_netrig"), &program).expect("a copy that others may start");
    let report = |arguments: &[&str]| {
        let output =
            Command::new(&program).args(arguments).current_dir(folder.path()).uid(65534).gid(65534).output();
        output.expect("netrig starts")
    };
    let (read, write) =
        (report(&["report", "small.toml"]), report(&["run", "small.toml", "--replications", "4"]));
    let new = report(&["run", "small.toml", "--store", "new.db"]);
    std::fs::remove_file(&program).expect("our own copy");
    assert!(text(&read.stdout).contains("goodput"), "{}", text(&read.stderr));
    for (output, store) in [(write, "netrig.db"), (new, "new.db")] {
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        let wanted = format!("the store {store} cannot be written; make the file and its folder writable");
        assert!(error.contains(&wanted), "{error}");
    }
}
