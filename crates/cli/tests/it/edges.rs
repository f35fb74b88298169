//! The program with unusual files, levels and stores.

use std::fs;
use std::path::Path;

use netrig_test_support::ExperimentText;

use crate::common::{as_json, machine, netrig, small, text};

fn experiment() -> String {
    small().build()
}

/// Standard output of a successful command.
fn ok(folder: &Path, arguments: &[&str]) -> String {
    let output = netrig(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a rejected command.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = netrig(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

fn folder_with(experiment: &str) -> tempfile::TempDir {
    machine::folder("small", experiment)
}

#[test]
fn a_level_that_is_set_is_refused_once() {
    let sizes = experiment()
        .replace("rate = [\"1 Mbit/s\", \"2 Mbit/s\"]", "size = [\"1 KB\"]")
        .replace("rate = \"${rate}\"", "rate = \"1 Mbit/s\"")
        .replace("kind = \"bulk\"", "kind = \"bulk\", bytes = \"${size}\"");
    let folder = folder_with(&sizes);
    let told = refused(folder.path(), &["plan", "small.toml", "--set", "size=1 Kb"]);
    assert!(told.starts_with("error: ") && told.matches("error").count() == 1, "{told}");
    assert!(told.contains("factor `size` has the level `1 Kb`"), "{told}");
}

/// An experiment may come from an untrusted author. It cannot use all memory, read files of other folders, or block on
/// a file.
#[cfg(unix)]
#[test]
fn what_an_experiment_names_is_a_regular_file_of_its_folder() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;
    let above = tempfile::tempdir().expect("a folder for the test");
    let own = above.path().join("own");
    fs::create_dir(&own).expect("our own folder");
    fs::write(above.path().join("secret"), "for nobody else").expect("our own folder");
    mknodat(CWD, own.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    symlink("../secret", own.join("link")).expect("a link");
    let program = |file: &str| {
        let words = "application = { kind = \"program\", command = [\"cat\"], files = { a = { file = ";
        experiment().replace("[node.b]", &format!("[node.b]\n{words}\"{file}\" }} }} }}"))
    };
    let traffic = |application: &str| experiment().replace("{ kind = \"bulk\" }", application);
    let outside = "outside of the experiment's folder";
    for (experiment, line, why) in [
        (program("/dev/zero"), 10, "it is a device, and only a regular file of the experiment's folder"),
        (program("pipe"), 10, "it is a pipe, and only a regular file"),
        (program("../secret"), 10, outside),
        (program("link"), 10, outside),
        (traffic(r#"{ kind = "trace", capture = "/dev/zero" }"#), 22, "it is a device"),
        (
            traffic(r#"{ kind = "sip", scenario = "call", trace = "link", server = { role = "uas" } }"#),
            22,
            outside,
        ),
    ] {
        fs::write(own.join("small.toml"), experiment).expect("our own folder");
        let told = refused(&own, &["check", "small.toml"]);
        assert!(told.contains(why) && told.contains(&format!("small.toml:{line}:")), "{told}");
        assert!(!told.contains("for nobody else"), "{told}");
    }
    // The same holds for files that netrig itself searches in the folder.
    fs::write(own.join("small.toml"), experiment()).expect("our own folder");
    symlink("../secret", own.join("README.md")).expect("a link");
    let told = refused(&own, &["check", "small.toml"]);
    assert!(told.contains("README.md") && told.contains(outside), "{told}");
    fs::remove_file(own.join("README.md")).expect("our own link");
    symlink("small.toml", own.join("also.toml")).expect("a link");
    ok(&own, &["check", "also.toml"]);
}

#[cfg(unix)]
#[test]
fn an_experiment_comes_from_a_file_or_a_pipe_but_from_no_device() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = folder_with(&experiment());
    let told = refused(folder.path(), &["check", "/dev/zero"]);
    assert!(
        told.contains("cannot read /dev/zero: it is a device, and only a regular file or a pipe"),
        "{told}"
    );
    mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(|| fs::write(folder.path().join("pipe"), experiment()).expect("netrig reads it"));
        ok(folder.path(), &["check", "pipe"]);
    });
}

/// Two points: a line with an unlimited queue that is offered many times its rate, and the same line with a low load.
fn flood() -> String {
    ExperimentText::new("small", "100 s")
        .with(r#"sample_every = "100 s""#)
        .table("factors", r#"gap = ["1 us", "50 ms"]"#)
        .table("replications", "count = 1")
        .nodes("a b")
        .link(
            "line",
            "a b",
            r#"rate = "1 Mbit/s", delay = "10 ms", queue = { kind = "fifo", unlimited = true }"#,
        )
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "f",
            "a b",
            r#"transport = "udp",
            application = { kind = "poisson", interarrival = "${gap}",
            size = { constant = "500 B" } }"#,
        )
        .response("wait", "link.line", "waiting_time")
        .build()
}

#[test]
fn a_run_whose_packets_take_too_much_memory_fails_with_a_sentence() {
    let folder = folder_with(&flood());
    let few = ["--memory", "32MB"];
    let lost = netrig(folder.path(), &[&["run", "small.toml", "--json"], &few[..]].concat());
    assert_eq!(lost.status.code(), Some(1), "{}", text(&lost.stderr));
    let told = text(&lost.stdout) + &text(&lost.stderr);
    assert!(told.contains("the run takes more memory than its limit (32 MB)"), "{told}");
    assert!(told.contains("bound the queues") && told.contains("raise the limit with --memory"), "{told}");
    // The failure has no effect on the other run.
    let document = as_json(&lost);
    let status = |place: usize| document["points"][place]["status"].as_str();
    assert_eq!([status(0), status(1)], [Some("failed"), Some("ok")], "{document:#}");
    let plan = netrig(folder.path(), &[&["plan", "small.toml", "--set", "gap=1 ns"], &few[..]].concat());
    let told = text(&plan.stderr);
    assert_eq!(plan.status.code(), Some(1), "{told}");
    assert!(told.contains("the point gap = 1 ns was tried: the run takes more memory"), "{told}");
    ok(folder.path(), &["plan", "small.toml", "--set", "gap=50 ms"]);
}

/// Two points: flows of a million and of twenty datagrams per second, whose delays are stored for a quantile. The queue
/// stays empty.
#[test]
fn a_run_whose_samples_take_too_much_memory_fails_alone_with_a_sentence() {
    let of_flow = "of = \"flow.f\"\nmetric = \"one_way_delay\"\nstatistic = \"p95\"";
    let folder = folder_with(
        &flood()
            .replace("1 Mbit/s", "10 Gbit/s")
            .replace("of = \"link.line\"\nmetric = \"waiting_time\"", of_flow),
    );
    let lost = netrig(folder.path(), &["run", "small.toml", "--memory", "10MB", "--json"]);
    assert_eq!(lost.status.code(), Some(1), "{}", text(&lost.stderr));
    let document = as_json(&lost);
    let status = |place: usize| document["points"][place]["status"].as_str();
    assert_eq!([status(0), status(1)], [Some("failed"), Some("ok")], "{document:#}");
    let told = text(&lost.stdout) + &text(&lost.stderr);
    assert!(told.contains("the run takes more memory than its limit (10 MB)"), "{told}");
    assert!(told.contains("its samples take") && told.contains("raise the limit with --memory"), "{told}");
    // Every run needs more than 1 KB.
    let least = netrig(
        folder.path(),
        &["run", "small.toml", "--set", "gap=50 ms", "--memory", "1KB", "--store", "new.db"],
    );
    assert_eq!(least.status.code(), Some(1), "{}", text(&least.stdout));
    assert!(text(&least.stdout).contains("more memory than its limit (1 KB)"), "{}", text(&least.stdout));
}

/// Numbers in quotes are texts: they have no unit, and keep all their zeros in an exported file.
#[test]
fn a_number_in_quotes_is_a_text_in_each_document() {
    let file = experiment()
        .replace("rate = [\"1 Mbit/s\", \"2 Mbit/s\"]", "who = [\"100\", \"0200\"]\nsize = [10, 20]")
        .replace("\"${rate}\"", "\"1 Mbit/s\"")
        .replace("packets = 50", "packets = \"${size}\"")
        .replace("kind = \"tcp\"", "kind = \"tcp\"\nmss = \"${who} B\"")
        .replace("count = 3", "count = 1");
    let folder = folder_with(&file);
    let document: serde_json::Value =
        serde_json::from_str(&ok(folder.path(), &["run", "small.toml", "--json"])).expect("a document");
    let factors: Vec<_> =
        document["points"].as_array().expect("points").iter().map(|point| point["factors"].clone()).collect();
    let point = |who: &str, size: u32| serde_json::json!({ "who": who, "size": size });
    assert_eq!(factors, [point("100", 10), point("100", 20), point("0200", 10), point("0200", 20)]);
    ok(folder.path(), &["export", "small.toml", "--format", "csv", "--out", "x.csv", "--set", "who=0200"]);
    let table = fs::read_to_string(folder.path().join("x.csv")).expect("it was exported");
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("substrate,size,who,") && rows.len() == 3, "{table}");
    assert!(rows[1].starts_with("sim,10,0200,") && rows[2].starts_with("sim,20,0200,"), "{table}");
    let compared = ok(folder.path(), &["compare", "small.toml", "--with", "netrig.db", "--set", "who=0200"]);
    assert!(!compared.contains("\"0200\""), "{compared}");
}

/// A line that is offered more than its rate. The delay of its only flow grows until the run ends.
fn overload(head: &str, response: &str) -> String {
    let of_flow = format!("of = \"flow.f\"\nmetric = \"one_way_delay\"\nunit = \"ms\"\n{response}");
    flood()
        .replace("[\"1 us\", \"50 ms\"]", "\"3 ms\"")
        .replace("duration = \"100 s\"\nsample_every = \"100 s\"", &format!("duration = \"10 s\"\n{head}"))
        .replace("of = \"link.line\"\nmetric = \"waiting_time\"\n", &of_flow)
}

/// The output of `netrig run` in each of its forms. Each sequence of white space is replaced by one space.
fn told_in_each_form(folder: &Path) -> [(&'static str, String); 4] {
    let run = |more: &[&str]| ok(folder, &[&["run", "small.toml"], more].concat());
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a report");
    let (terminal, json) = (run(&[]), run(&["--json"]));
    run(&["--out", "small.md"]);
    let forms = [
        ("terminal", terminal),
        ("JSON", json),
        ("HTML", read("small.html")),
        ("Markdown", read("small.md")),
    ];
    forms.map(|(form, text)| (form, text.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[test]
fn a_run_that_is_too_short_for_its_warm_up_is_doubted_in_each_form() {
    let folder = folder_with(&overload("warm_up = \"mser-5\"", ""));
    for (form, told) in told_in_each_form(folder.path()) {
        for said in ["1 value of wait doubtful", "too short to show a steady state: MSER-5 leaves out"] {
            assert!(told.contains(said), "{form}: {told}");
        }
    }
}

#[test]
fn each_form_names_the_definition_of_quantiles() {
    let folder = folder_with(&overload("", "statistic = \"p95\"\n"));
    for (form, told) in told_in_each_form(folder.path()) {
        assert!(told.contains(netrig_stats::quantile::DEFINITION), "{form}: {told}");
    }
}

#[test]
fn more_runs_than_can_be_handled_are_refused_before_they_are_made() {
    let folder = folder_with(&experiment());
    let told = refused(folder.path(), &["plan", "small.toml", "--replications", "4294967295"]);
    assert!(
        told.contains("2 points with 4294967295 replications of each are more than 10000000 runs"),
        "{told}"
    );
    let levels: Vec<_> = (1..=10_000).map(|rate| format!("\"{rate} Mbit/s\"")).collect();
    let wide = experiment()
        .replace("[\"1 Mbit/s\", \"2 Mbit/s\"]", &format!("[{}]", levels.join(", ")))
        .replace("count = 3", "count = 1000000");
    fs::write(folder.path().join("small.toml"), wide).expect("our own folder");
    let told = refused(folder.path(), &["plan", "small.toml"]);
    assert!(told.contains("10000 points with 1000000 replications of each"), "{told}");
}

const CSV: [&str; 4] = ["export", "small.toml", "--format", "csv"];

#[cfg(unix)]
#[test]
fn a_symbolic_link_stays_and_what_it_leads_to_is_replaced() {
    use std::os::unix::fs::symlink;
    let folder = folder_with(&experiment());
    let at = |name: &str| folder.path().join(name);
    ok(folder.path(), &["run", "small.toml"]);
    ok(folder.path(), &[&CSV[..], &["--out", "plain.csv"]].concat());
    let wanted = fs::read(at("plain.csv")).expect("it was exported");
    assert!(wanted.starts_with(b"substrate,"), "{}", text(&wanted));
    fs::create_dir(at("far")).expect("our own folder");
    fs::write(at("far/old.csv"), "old").expect("our own folder");
    symlink("far/old.csv", at("near.csv")).expect("a link");
    symlink("near.csv", at("link.csv")).expect("a link to a link");
    symlink("far/new.csv", at("dangling.csv")).expect("a link to nothing");
    for (link, target) in [("link.csv", "far/old.csv"), ("dangling.csv", "far/new.csv")] {
        ok(folder.path(), &[&CSV[..], &["--out", link]].concat());
        assert!(at(link).is_symlink() && !at(target).is_symlink(), "{link}");
        assert_eq!(fs::read(at(target)).expect("it was exported"), wanted, "{link}");
    }
    assert!(at("near.csv").is_symlink());
    symlink("loop.csv", at("loop.csv")).expect("a link to itself");
    let lost = netrig(folder.path(), &[&CSV[..], &["--out", "loop.csv"]].concat());
    assert_eq!(lost.status.code(), Some(1), "{}", text(&lost.stdout));
    assert!(at("loop.csv").is_symlink() && text(&lost.stderr).contains("cannot write loop.csv"));
    ok(folder.path(), &["report", "small.toml", "--out", "report.md"]);
    let left = fs::read_dir(folder.path()).expect("our own folder").map(|file| file.expect("a file").path());
    assert!(left.into_iter().all(|file| file.extension().is_none_or(|ending| ending != "part")));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_written_to_and_stays_a_pipe() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::FileTypeExt as _;
    let folder = folder_with(&experiment());
    ok(folder.path(), &["run", "small.toml"]);
    ok(folder.path(), &[&CSV[..], &["--out", "plain.csv"]].concat());
    let pipe = folder.path().join("pipe.csv");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    std::os::unix::fs::symlink("pipe.csv", folder.path().join("link.csv")).expect("a link");
    for out in ["pipe.csv", "link.csv"] {
        let pipe_of_reader = pipe.clone();
        let reader = std::thread::spawn(move || fs::read(pipe_of_reader).expect("what comes through"));
        let output = netrig(folder.path(), &[&CSV[..], &["--out", out]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        // Nothing is printed on stdout, because it may lead to the same pipe.
        assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), format!("6 runs: {out}\n")));
        let kind = fs::symlink_metadata(&pipe).expect("it is there").file_type();
        assert!(kind.is_fifo() && folder.path().join("link.csv").is_symlink());
        let read = reader.join().expect("the reader ends");
        assert_eq!(read, fs::read(folder.path().join("plain.csv")).expect("it was exported"));
    }
}

#[test]
fn agreement_takes_the_whole_interval_within_the_margin() {
    let folder = folder_with(&experiment());
    let other = experiment().replace("\"1 %\"", "\"2 %\"");
    ok(folder.path(), &["run", "small.toml", "--store", "a.db"]);
    fs::write(folder.path().join("small.toml"), other).expect("our own folder");
    ok(folder.path(), &["run", "small.toml", "--store", "b.db", "--replications", "2"]);
    let stores = ["compare", "small.toml", "--store", "a.db", "--with"];
    let compare = |more: &[&str]| {
        let output = netrig(folder.path(), &[&stores[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (same, warned) = compare(&["a.db"]);
    assert!(same.lines().next().is_some_and(|heading| heading.contains("within 1 ± 5 %")), "{same}");
    assert_eq!(same.matches("[1.0000, 1.0000]  agrees").count(), 3, "{same}");
    assert!(
        same.contains("n = 6 and 6, 3 pairs  all points") && same.contains("n = 3 and 3, 3 pairs"),
        "{same}"
    );
    assert_eq!(warned.matches("in a.db belong to another version of its file").count(), 2, "{warned}");
    // With twice the loss and only two runs, the interval contains 1, but is wider than the margin.
    let (differs, warned) = compare(&["b.db", "--margin", "1 %"]);
    assert!(differs.contains("within 1 ± 1 %") && !differs.contains("  agrees"), "{differs}");
    assert!(differs.contains("inconclusive  n = 3 and 2, 2 pairs"), "{differs}");
    assert!(warned.contains("in a.db belong to another") && !warned.contains("in b.db"), "{warned}");
    let (one, _) = compare(&["b.db", "--set", "rate=2 Mbit/s"]);
    assert!(one.contains("rate = 2 Mbit/s") && !one.contains("rate = 1 Mbit/s"), "{one}");
    let (json, _) = compare(&["a.db", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json[0]["verdict"], &json[0]["n"][1], &json[0]["pairs"]),
        (&"agrees".into(), &6.into(), &3.into())
    );
    assert!(refused(folder.path(), &[&stores[..], &["a.db", "--margin", "5"]].concat()).contains("margin"));
    assert!(
        refused(folder.path(), &[&stores[..], &["a.db", "--set", "rate=3 Mbit/s"]].concat())
            .contains("--set")
    );
}

/// Margins are not part of a run, so one store serves all margins.
#[test]
fn without_a_margin_the_file_is_asked() {
    let folder = folder_with(&experiment());
    ok(folder.path(), &["run", "small.toml"]);
    ok(folder.path(), &["run", "small.toml", "--store", "b.db", "--seed", "100"]);
    let compare = |asked: &str, more: &[&str]| -> Vec<serde_json::Value> {
        let asking = experiment().replace("metric = \"goodput\"", &format!("metric = \"goodput\"\n{asked}"));
        fs::write(folder.path().join("small.toml"), asking).expect("our own folder");
        let told =
            ok(folder.path(), &[&["compare", "small.toml", "--with", "b.db", "--json"], more].concat());
        serde_json::from_str(&told).expect("JSON")
    };
    let told = |entries: &[serde_json::Value]| -> Vec<String> {
        entries.iter().map(|entry| format!("{} {}", entry["within"], entry["verdict"])).collect()
    };
    let near = "agreement = { within = [\"0 %\", \"1 MB/s\"], where = { rate = \"2 Mbit/s\" } }";
    let near_enough = r#"[{"unit":"%","value":0},{"unit":"MB/s","value":1}] "agrees""#;
    assert_eq!(told(&compare(near, &[])), ["null null", "null null", near_enough]);
    let usual = told(&compare("", &[]));
    assert!(
        usual.len() == 3 && usual.iter().all(|told| told.starts_with(r#"[{"unit":"%","value":5}] ""#)),
        "{usual:?}"
    );
    let all = told(&compare(near, &["--margin", "100 %"]));
    assert!(
        all.len() == 3 && all.iter().all(|told| told.starts_with(r#"[{"unit":"%","value":100}] ""#)),
        "{all:?}"
    );
    let lines = ok(folder.path(), &["compare", "small.toml", "--with", "b.db"]);
    assert!(
        lines.starts_with("first: netrig.db, second: b.db; they agree by the margins of the file;"),
        "{lines}"
    );
    assert!(
        lines.contains("agrees        n = 3 and 3, 3 pairs  rate = 2 Mbit/s  (second − first = "),
        "{lines}"
    );
    assert!(lines.contains("; 0 % or 1 MB/s)") && lines.matches("; nothing asked)").count() == 2, "{lines}");
}

#[test]
fn what_was_different_when_two_sides_were_made_is_told() {
    let folder = folder_with(&experiment());
    ok(folder.path(), &["run", "small.toml"]);
    let listed = ok(folder.path(), &["list"]);
    let first =
        listed.split_once(", file ").and_then(|(_, rest)| rest.get(..8)).expect("a version is listed");
    let lossier = experiment().replace("\"1 %\"", "\"2 %\"");
    fs::write(folder.path().join("small.toml"), lossier).expect("our own folder");
    ok(folder.path(), &["run", "small.toml"]);
    ok(folder.path(), &["run", "small.toml", "--store", "b.db", "--seed", "100"]);

    // Two versions of the file in one store.
    let earlier = format!("@{first}");
    let told = ok(folder.path(), &["compare", "small.toml", "--with", &earlier]);
    let changed = |what: &str| {
        let mut lines = told.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
        lines.find(|(name, _)| *name == what).map(|(_, values)| values.trim().to_owned())
    };
    assert!(changed("file").is_some_and(|values| values.contains(&format!("  {first}"))), "{told}");
    assert_eq!((changed("seeds"), changed("build")), (None, None), "{told}");
    let same = told.lines().find_map(|line| line.strip_prefix("the same: ")).expect("most is the same");
    assert!(same.starts_with("build 0.1.0") && same.contains("; substrate sim; seeds 1 to 3; "), "{same}");
    // The same version, given by its path and by its digest alone.
    let by_path = format!("netrig.db@{first}");
    let unnamed = ok(folder.path(), &["compare", "small.toml", "--store", &earlier, "--with", "b.db"]);
    assert!(unnamed.contains(&format!("first: {earlier}, second: b.db")), "{unnamed}");
    let again = ok(folder.path(), &["compare", "small.toml", "--store", &by_path, "--with", &earlier]);
    assert!(!again.contains("  file ") && again.matches("  agrees").count() == 3, "{again}");

    // The other store has other seeds. Each point lists the differences of its own runs.
    let told = ok(folder.path(), &["compare", "small.toml", "--with", "b.db", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    for entry in json.as_array().expect("a list") {
        let changes = entry["changed"].as_array().expect("a list");
        let seeds = changes.iter().find(|change| change["what"] == "seeds").expect("the seeds");
        assert_eq!((&seeds["first"], &seeds["second"]), (&"1 to 3".into(), &"100 to 102".into()));
        assert!(!changes.is_empty() && changes.iter().all(|change| change["what"] != "file"), "{entry}");
        assert_eq!(entry.get("made").is_some(), entry["factors"] == serde_json::json!({}));
    }
    assert_eq!(
        (&json[0]["made"][0]["substrate"], &json[0]["made"][1]["seeds"]),
        (&"sim".into(), &"100 to 102".into())
    );

    // Another level of a constant is listed as a difference, unless a level is requested with `--set`.
    let factors = "rate = [\"1 Mbit/s\", \"2 Mbit/s\"]\nmss = \"1000 B\"\n";
    let with_constant = experiment()
        .replace("rate = [\"1 Mbit/s\", \"2 Mbit/s\"]\n", factors)
        .replace("kind = \"tcp\"", "kind = \"tcp\"\nmss = \"${mss}\"");
    fs::write(folder.path().join("small.toml"), &with_constant).expect("our own folder");
    ok(folder.path(), &["run", "small.toml", "--store", "c.db"]);
    ok(folder.path(), &["run", "small.toml", "--store", "d.db", "--set", "mss=500 B"]);
    for (other, level) in [("netrig.db", "–"), ("d.db", "500 B")] {
        let told = ok(folder.path(), &["compare", "small.toml", "--store", "c.db", "--with", other]);
        let line = told.lines().find_map(|line| line.trim_start().strip_prefix("factor mss "));
        let line = line.expect("the constant").trim_start();
        assert!(line.starts_with("1000 B") && line.ends_with(level), "{told}");
        assert!(told.contains("pairs  rate = 1 Mbit/s"), "{told}");
        let told =
            ok(folder.path(), &["compare", "small.toml", "--store", "c.db", "--with", other, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let changes = json[0]["changed"].as_array().expect("a list");
        let constant = changes.iter().find(|change| change["what"] == "factor mss").expect("the constant");
        let amount = |value: u32| serde_json::json!({ "value": value, "unit": "B" });
        let second = if other == "d.db" { amount(500) } else { serde_json::Value::Null };
        assert_eq!((&constant["first"], &constant["second"]), (&amount(1000), &second));
    }
    let asked = ["compare", "small.toml", "--store", "c.db", "--with", "d.db", "--set", "mss=1000 B"];
    assert!(refused(folder.path(), &asked).contains("d.db has no runs"));

    for (version, why) in
        [("@12", "at least four"), ("@zzzz", "no version of the file and no build begins with it")]
    {
        let refused = refused(folder.path(), &["compare", "small.toml", "--with", version]);
        assert!(refused.contains(why) && refused.contains("netrig list --store netrig.db"), "{refused}");
    }
}

#[test]
fn what_cannot_be_is_refused_where_it_stands() {
    let transport =
        |constants: &str| experiment().replace("kind = \"tcp\"", &format!("kind = \"tcp\"\n{constants}"));
    let sctp =
        |constants: &str| experiment().replace("kind = \"tcp\"", &format!("kind = \"sctp\"\n{constants}"));
    let bulk = |settings: &str| experiment().replace("\"bulk\"", &format!("\"bulk\", {settings}"));
    let datagrams = |size: &str| {
        let cbr = format!("kind = \"cbr\", interval = \"1 ms\", size = \"{size}\"");
        experiment().replace("transport = \"tcp\"\n", "").replace("kind = \"bulk\"", &cbr)
    };
    for (experiment, place, wanted) in [
        (transport("mss = \"0 B\""), "small.toml:18:7", "`mss` must be from 28 B to 65495 B"),
        (transport("initial_window = 0"), "small.toml:18:18", "`initial_window` must be at least 1"),
        (transport("rto_min = \"2 min\""), "small.toml:18:11", "`rto_min` must not be above `rto_max`"),
        (transport("rto_max = \"10 ms\""), "small.toml:18:11", "`rto_max` must not be below `rto_min`"),
        (sctp("rto_min = \"2 min\""), "small.toml:18:11", "`rto_min` must not be above `rto_max`"),
        (sctp("streams = 0"), "small.toml:18:11", "`streams` must be at least 1"),
        (sctp("streams = 65536"), "small.toml:18:11", "expected a whole number from 0 to 65535"),
        (bulk("streams = 0"), "small.toml:22:42", "`streams`: at least one is needed"),
        (bulk("streams = 65536"), "small.toml:22:42", "expected a whole number from 0 to 65535"),
        (sctp("max_chunk = \"65520 B\""), "small.toml:18:13", "`max_chunk` must be at most 65519 B"),
        (experiment().replace("\"1 %\"", "\"101 %\""), "small.toml:15:44", "between 0 and 1 (0 % and 100 %)"),
        (bulk("bytes = \"20000000000 GB\""), "small.toml:22:40", "it is too large"),
        (datagrams("4000000001 B"), "small.toml:21:57", "a datagram of 4000000.001 KB is too large"),
        (experiment().replace("\"2 s\"", "\"100000 h\""), "small.toml:3:12", "more than 10000000 intervals"),
        (
            experiment().replace("\"2 s\"", "\"2 s\"\nsample_every = \"1 ns\""),
            "small.toml:4:16",
            "more than 10000000 intervals",
        ),
    ] {
        let folder = folder_with(&experiment);
        let error = refused(folder.path(), &["check", "small.toml"]);
        assert!(error.contains(place) && error.contains(wanted), "{error}");
    }
}

/// Settings that do not fit together are reported by `check` with the line and a remedy, and by `run` in a sentence.
#[test]
fn what_does_not_fit_together_is_told_where_it_stands() {
    let sctp = |constants: &str, settings: &str| {
        let sctp = experiment().replace("kind = \"tcp\"", &format!("kind = \"sctp\"\n{constants}"));
        sctp.replace("\"bulk\"", &format!("\"bulk\"{settings}"))
    };
    let line = "loss = { kind = \"bernoulli\", probability = \"1 %\" }";
    let lossy = |more: &str| experiment().replace(line, &line.replace("1 %\" }", more));
    for (experiment, place, told, help) in [
        (
            sctp("", ", streams = 11"),
            "small.toml:23:42",
            "11 streams, but an association of transport `tcp` opens 10: they share these",
            "`streams = 11` in [transport.tcp] opens as many",
        ),
        (
            sctp("receive_buffer = \"50 KB\"", ", message = \"50001 B\""),
            "small.toml:23:42",
            "a message of 50.001 KB does not fit the receive buffer of 50 KB: it is delivered in parts",
            "if `receive_buffer` of [transport.tcp] is no smaller",
        ),
        (
            sctp("max_chunk = \"1456 B\"", ""),
            "small.toml:18:13",
            "chunks of 1456 B do not fit a packet: an `mtu` of 1500 B leaves 1452 B",
            "without `max_chunk` a chunk takes what the MTU leaves",
        ),
        (
            lossy("100 %\" }"),
            "small.toml:15:8",
            "the link loses every packet from `a`: nothing arrives, and no connection opens",
            "a link that is down for a time is an [[event]] with `down_for`",
        ),
        (
            lossy("0 %\" }\nreverse = { loss = { kind = \"periodic\", every = 1 } }"),
            "small.toml:15:8",
            "the link loses every packet from `b`",
            "`down_for`",
        ),
    ] {
        let folder = folder_with(&experiment);
        let checked = ok(folder.path(), &["check", "small.toml"]);
        assert!(checked.contains("sim: can run 2 of 2 points"), "{checked}");
        assert!([place, told, help].iter().all(|what| checked.contains(what)), "{told}: {checked}");
        let ran = netrig(folder.path(), &["run", "small.toml", "--replications", "1"]);
        assert!(ran.status.success() && text(&ran.stderr).contains(told), "{}", text(&ran.stderr));
    }
    // The largest values that fit.
    for fits in [
        sctp("streams = 65535", ", streams = 65535"),
        sctp("receive_buffer = \"50 KB\"", ", message = \"50 KB\""),
        sctp("max_chunk = \"1452 B\"", ""),
        lossy("99 %\" }"),
    ] {
        let folder = folder_with(&fits);
        let ran = netrig(folder.path(), &["run", "small.toml", "--replications", "1"]);
        assert!(ran.status.success() && !text(&ran.stderr).contains("warning"), "{}", text(&ran.stderr));
    }
}

/// If nothing arrives, the run does not fail: it ends at its end, and a response without measurements has no value.
#[test]
fn a_run_in_which_nothing_arrives_ends() {
    let transfer = "[response.time]\nof = \"flow.transfer\"\nmetric = \"transfer_time\"\n";
    for kind in ["tcp", "sctp"] {
        let lossy = experiment().replace("\"1 %\"", "\"100 %\"").replace("\"2 s\"", "\"1000 s\"");
        let folder =
            folder_with(&(lossy.replace("kind = \"tcp\"", &format!("kind = \"{kind}\"")) + transfer));
        let told = ok(folder.path(), &["run", "small.toml", "--replications", "1", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let point = &json["points"][0];
        assert_eq!((&point["status"], &point["responses"]["goodput"]["mean"]), (&"ok".into(), &0.0.into()));
        assert_eq!(point["responses"]["time"]["mean"], serde_json::Value::Null, "{kind}");
    }
}

/// Bulk data are only counted and take no memory.
#[cfg(unix)]
#[test]
fn a_file_larger_than_memory_is_no_larger_than_another() {
    use std::process::Command;
    for application in [
        "kind = \"bulk\", bytes = \"100000 GB\"",
        "kind = \"bulk\", message = \"100000 GB\"",
        "kind = \"file\", size = { constant = \"100000 GB\" }",
        "kind = \"web\", interarrival = { constant = \"10 ms\" }, size = { constant = \"100000 GB\" }",
    ] {
        for kind in ["tcp", "sctp"] {
            let experiment = experiment().replace("kind = \"bulk\"", application);
            let folder = folder_with(&experiment.replace("kind = \"tcp\"", &format!("kind = \"{kind}\"")));
            // The limit is in KiB of address space, including the program itself.
            let limited = "ulimit -v 2000000; exec \"$0\" run small.toml --replications 1 --jobs 1";
            let output = Command::new("sh")
                .args(["-c", limited, env!("CARGO_BIN_EXE_netrig")])
                .current_dir(folder.path())
                .output()
                .expect("a shell");
            assert!(output.status.success(), "{kind}, {application}: {}", text(&output.stderr));
            assert!(
                !text(&output.stdout).contains("failed"),
                "{kind}, {application}: {}",
                text(&output.stdout)
            );
        }
    }
}

#[test]
fn a_substrate_is_named_once() {
    let folder = folder_with(&experiment());
    for twice in [&["--on", "sim,sim"][..], &["--on", "sim", "--on", "sim"]] {
        let error = refused(folder.path(), &[&["run", "small.toml"], twice].concat());
        assert!(error.contains("--on names `sim` twice"), "{error}");
    }
}

/// An unknown form is refused before any run is made. The help lists all valid forms.
#[test]
fn a_form_that_nobody_knows_is_refused_before_anything_runs() {
    let folder = folder_with(&experiment());
    for verb in ["run", "report"] {
        let error = refused(folder.path(), &[verb, "small.toml", "--out", "x.txt"]);
        assert!(error.contains("use .html, .md, .csv or .json"), "{error}");
        let help = ok(folder.path(), &[verb, "--help"]);
        assert!([".html", ".md", ".csv", ".json"].iter().all(|form| help.contains(form)), "{help}");
    }
    assert!(!folder.path().join("netrig.db").exists());
}

/// The seed after the largest one is 0.
#[test]
fn no_two_replications_share_a_seed() {
    let folder = folder_with(&experiment());
    ok(folder.path(), &["run", "small.toml", "--seed", &u64::MAX.to_string(), "--out", "r.json"]);
    let report = fs::read(folder.path().join("r.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let runs = report["points"][0]["responses"]["goodput"]["runs"].as_array().expect("runs");
    let seeds: Vec<_> = runs.iter().map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [Some(u64::MAX), Some(0), Some(1)]);
}

#[test]
fn every_listed_name_of_a_study_can_be_shown() {
    let folder = folder_with(&experiment());
    let file = ok(folder.path(), &["show", "study", "link-down/failover"]);
    assert!(file.contains("name = \"link-down/failover\"") && file.contains("[factors]"), "{file}");
    assert!(ok(folder.path(), &["show", "study", "mm1"]).contains("netrig run mm1"));
    assert!(refused(folder.path(), &["show", "study", "moon"]).contains("link-down/failover"));
}

/// Without `--force`, results of the whole experiment are not replaced by those of a part or of fewer runs.
#[test]
fn a_part_takes_the_place_of_nothing_that_was_made_of_the_whole() {
    let folder = folder_with(&format!("{}[figure.f]\nx = \"rate\"\ny = \"goodput\"\n", experiment()));
    let at = |name: &str| folder.path().join(name);
    let read = |name: &str| fs::read(at(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    ok(folder.path(), &["run", "small.toml"]);
    let whole = read("small.html");
    ok(folder.path(), &["run", "small.toml", "--set", "rate=1 Mbit/s"]);
    ok(folder.path(), &["run", "small.toml", "--replications", "2"]);
    assert!(read("small.html") == whole, "the report of the whole stays");
    assert!(at("small-rate-1-Mbit-s.html").is_file() && at("small-replications-2.html").is_file());
    let reports = ["all.html", "all.md", "all.json", "all.csv"];
    let exports = [("csv", "runs.csv"), ("parquet", "runs.parquet"), ("svg", "figures")];
    let commands = || {
        let reports = reports.map(|out| vec!["report", "small.toml", "--out", out]);
        let exports = exports.map(|(form, out)| vec!["export", "small.toml", "--format", form, "--out", out]);
        reports.into_iter().chain(exports)
    };
    let files = || {
        reports.map(&read).into_iter().chain(["runs.csv", "runs.parquet", "figures/small-f.svg"].map(&read))
    };
    for command in commands() {
        ok(folder.path(), &command);
    }
    let wholes: Vec<Vec<u8>> = files().collect();
    for part in [["--set", "rate=1 Mbit/s"], ["--replications", "2"]] {
        for command in commands() {
            let asked = [&command[..], &part].concat();
            // Figures of a part have other file names.
            if asked.contains(&"svg") {
                ok(folder.path(), &asked);
                continue;
            }
            let told = refused(folder.path(), &asked);
            assert!(told.contains("was made from") && told.contains("--force"), "{asked:?}: {told}");
        }
        assert!(files().eq(wholes.iter().cloned()), "{part:?}");
    }
    assert!(at("figures/small-rate-1-Mbit-s-f.svg").is_file());
    // A repeated part replaces the files of this part, and a repeated whole those of the whole.
    ok(folder.path(), &["run", "small.toml", "--set", "rate=1 Mbit/s"]);
    for command in commands() {
        ok(folder.path(), &command);
    }
    assert!(files().eq(wholes.iter().cloned()), "the same results give the same bytes");
    // A store with fewer runs also counts as a part, even without `--replications`.
    let less = refused(
        folder.path(),
        &["run", "small.toml", "--store", "less.db", "--replications", "1", "--out", "all.html"],
    );
    assert!(less.contains("all.html was made from 2 points and 6 runs on sim"), "{less}");
    assert!(!at("less.db").exists(), "it is refused before anything is run");
    for command in commands() {
        let forced = [&command[..], &["--set", "rate=1 Mbit/s", "--force"]].concat();
        ok(folder.path(), &forced);
    }
    assert!(reports.map(&read).iter().zip(&wholes).all(|(now, whole)| now != whole), "--force replaces");
    fs::write(at("own.html"), "<p>my own page</p>").expect("our own folder");
    let own = ["report", "small.toml", "--set", "rate=1 Mbit/s", "--out", "own.html"];
    assert!(refused(folder.path(), &own).contains("does not say what it was made from"));
}

/// The given levels, replications, seeds and substrates select stored runs, in every format and command.
#[test]
fn an_export_obeys_what_is_set() {
    let queues = experiment()
        .replace("[replications]", "packets = [5, 20]\n[replications]")
        .replace("packets = 50", "packets = \"${packets}\"");
    let folder = folder_with(&queues);
    ok(folder.path(), &["run", "small.toml"]);
    let rows = |more: &[&str]| {
        ok(folder.path(), &[&CSV[..], &["--out", "x.csv", "--force"], more].concat());
        let text = fs::read_to_string(folder.path().join("x.csv")).expect("it was exported");
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rows(&[]).len(), 12);
    let set = rows(&["--set", "packets=20"]);
    assert_eq!(set.len(), 6);
    assert!(set.iter().all(|row| row.starts_with("sim,20,")), "{set:?}");
    assert_eq!(
        rows(&["--set", "packets=20", "--set", "rate=1000 kbit/s"]).len(),
        3,
        "equal levels are equal"
    );
    assert_eq!(rows(&["--replications", "2"]).len(), 8);
    assert_eq!(rows(&["--on", "sim"]).len(), 12);
    let told = refused(folder.path(), &[&CSV[..], &["--out", "y.csv", "--seed", "77"]].concat());
    assert!(told.contains("has no runs of `small` at the levels, replications, seeds"), "{told}");
    let parquet =
        ["export", "small.toml", "--format", "parquet", "--out", "x.parquet", "--set", "packets=20"];
    assert!(ok(folder.path(), &parquet).contains("6 runs: x.parquet"));
    let svg = ["export", "small.toml", "--format", "svg", "--out", ".", "--set", "packets=20"];
    ok(folder.path(), &svg);
    let plan = |store: &str| ok(folder.path(), &["plan", "small.toml", "--store", store]);
    assert!(plan("netrig.db").contains("the store netrig.db has all runs that are needed"));
    assert!(!plan("none.db").contains("none.db"));
    let compared = |more: &[&str]| {
        let stores = ["compare", "small.toml", "--with", "netrig.db"];
        ok(folder.path(), &[&stores[..], more].concat())
    };
    assert!(compared(&[]).contains("n = 3 and 3"));
    assert!(compared(&["--replications", "2"]).contains("n = 2 and 2"));
    assert!(compared(&["--seed", "77"]).contains("no point in common"));
}

/// Table 3 of the paper is over all outages. Results for a single outage are not compared with it.
#[test]
fn a_part_of_a_study_is_not_compared_with_the_papers_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = ["down_for=10s", "transport=tcp", "interarrival=45ms", "shape=1.5"];
    let set: Vec<&str> = set.iter().flat_map(|level| ["--set", level]).collect();
    let told = ok(
        folder.path(),
        &[&["run", "link-down", "--replications", "2", "--out", "x.html"], &set[..]].concat(),
    );
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("the paper's values depend on levels that were not run (down_for = 0 s, 5 s, 20 s"),
        "{told}"
    );
    assert!(!told.contains("50.71"), "{told}");
}

/// The duration of real-time runs is estimated without starting a program, so `--allow-programs` is not needed.
#[test]
fn a_plan_starts_no_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = ok(folder.path(), &["plan", "sip-server"]);
    assert!(told.contains("netns: in real time") || told.contains("cannot run any"), "{told}");
}
