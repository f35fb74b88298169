//! Other programs and servers, and real video, in experiments on the testbed of namespaces. The tests need root on
//! Linux; otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use netrig_test_support::{ExperimentText, skip_unless};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::far_end::interrupt;
use crate::common::machine::{can, folder};
use crate::common::{netrig, text, time_lines};

/// An experiment with the host `a`, and a line to the host `b`, which a test adds.
fn experiment(duration: &str) -> ExperimentText {
    ExperimentText::new("applied", duration)
        .table("replications", "count = 1")
        .nodes("a")
        .fifo("line", "a b", ("4 Mbit/s", "5 ms", 50), "")
        .table("transport.tcp", r#"kind = "tcp", profile = "linux", congestion = "reno""#)
}

fn run(folder: &Path, on: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let ended = netrig(folder, &[&["run", "applied.toml", "--on", on, "--json"], more].concat());
    let document = serde_json::from_str(&text(&ended.stdout)).unwrap_or(Value::Null);
    (ended.status.code(), document, text(&ended.stderr))
}

/// The result of the only point on a substrate.
fn point<'a>(document: &'a Value, substrate: &str) -> &'a Value {
    let points = document["points"].as_array().expect("there are points");
    points.iter().find(|point| point["substrate"] == substrate).expect("the substrate has the point")
}

/// The value of a response, even if the run is invalid.
fn value(document: &Value, substrate: &str, response: &str) -> Option<f64> {
    point(document, substrate)["responses"][response]["runs"][0]["value"].as_f64()
}

/// One million bytes take 2 s on a line of 4 Mbit/s, and 3.6 % more with 52 B of headers for each 1448 B of data. The
/// remaining time is slow start and retransmissions.
#[test]
fn a_file_by_ftp_takes_as_long_by_vsftpd_as_modelled() {
    skip_unless!(can(&["/usr/sbin/vsftpd"]));
    for direction in ["store", "fetch"] {
        let application = format!(r#"kind = "ftp", size = "1 MB", direction = "{direction}""#);
        let text = experiment("8 s")
            .nodes("b")
            .flow("file", "a b", &format!(r#"transport = "tcp", application = {{ {application} }}"#))
            .response("time", "flow.file", "response_time")
            .response("again", "flow.file", "retransmission_share")
            .response("wire", "flow.file", "wire_throughput")
            .response("sent", "flow.file", "packets_sent");
        let folder = folder("applied", &text.build());
        let (_, document, told) = run(folder.path(), "sim,netns", &[]);
        let times = ["sim", "netns"].map(|on| value(&document, on, "time"));
        let [Some(modelled), Some(real)] = times else { panic!("{times:?}: {document:#} {told}") };
        for time in [modelled, real] {
            assert!((2.0..2.4).contains(&time), "{direction}: {modelled} s modelled, {real} s real");
        }
        // The window grows beyond the size of the queue, so both substrates retransmit.
        let shares = ["sim", "netns"].map(|on| value(&document, on, "again"));
        for share in shares {
            assert!(share.is_some_and(|share| (0.01..0.2).contains(&share)), "{direction}: {shares:?}");
        }
        // The throughput on the wire is that of the data connection, without the FTP commands.
        let [modelled, real] = ["sim", "netns"].map(|on| value(&document, on, "wire").unwrap_or(0.0));
        let ratio = real / modelled;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{direction}: {modelled} B/s on the modelled wire, {real} on this"
        );
        // On the real substrate only the client is observed.
        assert!(value(&document, "sim", "sent").is_some() && value(&document, "netns", "sent").is_none());
        let line = time_lines(folder.path());
        assert!(line.contains("vsftpd") && line.contains("SHA-256"), "{line}");
    }
}

/// A server that prints a text when it listens.
fn program() -> String {
    experiment("8 s")
        .table(
            "node.b",
            r#"application = { kind = "program", command = ["sh", "{folder}/serve", "{address:a}"],
            ready = "says:ready", packages = ["dash"],
            files = { serve = "echo ready at {address} for $1; exec sleep 1000" } }"#,
        )
        .flow(
            "load",
            "a b",
            r#"stop = "500 ms", application = { kind = "cbr", interval = "10 ms", size = "100 B" }"#,
        )
        .response("loss", "flow.load", "datagram_loss")
        .build()
}

#[test]
fn a_program_runs_on_its_node_if_it_is_allowed_to() {
    skip_unless!(can(&[]));
    let folder = folder("applied", &program().replace("8 s", "1 s"));
    let (code, _, told) = run(folder.path(), "netns", &[]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("node `b` runs `sh`") && told.contains("--allow-programs"), "{told}");

    let (code, document, told) = run(folder.path(), "sim,netns", &["--allow-programs"]);
    assert_eq!(code, Some(0), "{told}");
    let why = point(&document, "sim")["why"].as_str().unwrap_or_default();
    assert!(why.contains("node `b` runs `sh`"), "{why}");
    assert_eq!(value(&document, "netns", "loss"), Some(0.0), "{document:#}");
    let line = time_lines(folder.path());
    assert!(line.contains("sh: ready at 10.0.0.2 for 10.0.0.1"), "{line}");
    // The journal names a folder before it is made, so that no folder can be left behind.
    let left = netrig(folder.path(), &["doctor"]);
    assert!(!text(&left.stdout).contains("left behind"), "{}", text(&left.stdout));
}

#[test]
fn a_program_that_is_not_here_is_named_with_its_packages() {
    skip_unless!(can(&[]));
    let missing =
        program().replace("\"sh\",", "\"no-such-server\",").replace("\"dash\"", "\"no-such-package\"");
    let folder = folder("applied", &missing);
    let (code, document, told) = run(folder.path(), "netns", &["--allow-programs"]);
    assert_eq!(code, Some(0), "{told}");
    let why = point(&document, "netns")["why"].as_str().unwrap_or_default();
    assert!(why.contains("`no-such-server`") && why.contains("apt-get install no-such-package"), "{why}");
}

#[test]
fn a_program_that_ends_before_it_is_ready_fails_its_run() {
    skip_unless!(can(&[]));
    let text_of = program().replace("exec sleep 1000", "exit 3").replace("says:ready", "tcp:5060");
    let folder = folder("applied", &text_of);
    let (code, document, told) = run(folder.path(), "netns", &["--allow-programs"]);
    assert_eq!(code, Some(1), "{told}");
    let said = document.to_string() + &told + &time_lines(folder.path());
    assert!(
        said.contains("before it was ready (tcp:5060)") && said.contains("its last line: ready at"),
        "{said}"
    );
}

/// The file of a node's namespace (`ip netns`).
fn namespace(id: &str, node: &str) -> PathBuf {
    Path::new("/run/netns").join(format!("netrig-{id}-{node}"))
}

/// Process identifiers of a testbed. Zombies are not found, because their environment is empty.
fn processes(id: &str) -> Vec<String> {
    let mark = format!("NETRIG_TESTBED={id}");
    let entries = std::fs::read_dir("/proc").expect("processes are listed").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_ours = |pid: &String| {
        let words = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    names.filter(is_ours).collect()
}

#[test]
fn a_lab_has_the_programs_of_its_nodes_if_it_is_allowed_to() {
    skip_unless!(can(&["/usr/sbin/ip"]));
    let text_of = program().replace("exec sleep 1000", "echo $NETRIG_TESTBED; exec sleep 1000");
    let folder = folder("applied", &text_of);
    let lab = |more: &[&str]| {
        let words = "ip netns pids $(ip netns identify | sed s/-a$/-b/) | wc -l";
        let ended = netrig(
            folder.path(),
            &[&["lab", "applied.toml", "--node", "a"], more, &["--", "sh", "-c", words]].concat(),
        );
        (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
    };
    let (code, _, refused) = lab(&[]);
    let (_, _, refused_run) = run(folder.path(), "netns", &[]);
    assert_eq!(code, Some(2), "{refused}");
    // `netrig run` prints a warning about the file first.
    assert!(refused_run.ends_with(&refused), "in the same words: {refused}{refused_run}");

    let (code, out, told) = lab(&["--allow-programs"]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(out.trim(), "1", "programs at b: {out}{told}");
    assert!(told.contains("b sh: ready at 10.0.0.2 for 10.0.0.1\n"), "{told}");
    assert!(told.contains("    runs dash ") && told.contains("(SHA-256 "), "{told}");
    let id =
        told.lines().filter_map(|line| line.strip_prefix("b sh: ")).next_back().expect("it said whose it is");
    assert!(!namespace(id, "b").exists() && processes(id).is_empty(), "{id} is still there");
}

#[test]
fn a_lab_says_which_of_its_programs_ended_and_how() {
    skip_unless!(can(&["/usr/sbin/ip"]));
    let scratch = tempfile::tempdir().expect("a folder for the test");
    let gate = scratch.path().join("gate").display().to_string();
    let text_of = program().replace("exec sleep 1000", &format!("read line < {gate}; exit 3"));
    let folder = folder("applied", &text_of);
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo starts").success());
    // The command lets the program end, waits for its end, and then ends.
    let words =
        "echo > $0; while [ -n \"$(ip netns pids $(ip netns identify | sed s/-a$/-b/))\" ]; do :; done";
    let ended = netrig(
        folder.path(),
        &["lab", "applied.toml", "--allow-programs", "--node", "a", "--", "sh", "-c", words, &gate],
    );
    let told = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{told}");
    assert!(told.contains("warning: `sh` ended with exit status: 3 before it was asked to"), "{told}");
}

#[test]
fn a_lab_that_is_interrupted_while_it_waits_for_a_program_leaves_nothing() {
    skip_unless!(can(&[]));
    let says = |name: &str| format!("echo $NETRIG_TESTBED; exec sleep 1000 # {name}");
    let text_of = program().replace("echo ready at {address} for $1; exec sleep 1000", &says("never"));
    let folder = folder("applied", &text_of);
    let mut lab = Command::new(env!("CARGO_BIN_EXE_netrig"));
    lab.args(["lab", "applied.toml", "--allow-programs"]).current_dir(folder.path()).stderr(Stdio::piped());
    let mut lab = lab.spawn().expect("netrig starts");
    let mut told = BufReader::new(lab.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let line = told.find_map(|line| line.strip_prefix("b sh: ").map(str::to_owned));
    let id = line.expect("the program has begun");
    assert!(namespace(&id, "a").exists(), "{id} is being built");
    // The environment of the shell cannot be read while it executes `sleep`.
    while processes(&id).is_empty() {
        assert!(lab.try_wait().expect("it is asked").is_none(), "{id} has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt(&lab, Signal::INT);
    assert_eq!(lab.wait().expect("it ends").code(), Some(130));
    // The lab was not built completely, and reports no links.
    assert_eq!(told.collect::<Vec<_>>(), ["interrupted before there was anything to show"]);
    for node in ["a", "b"] {
        assert!(!namespace(&id, node).exists(), "{node} of {id} is still there");
    }
    assert_eq!(processes(&id), [""; 0]);
    let journals = std::env::var_os("NETRIG_RUN_DIR").unwrap_or_else(|| "/run/netrig".into());
    let left = std::fs::read_dir(journals).expect("it is listed").flatten();
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().contains(&id)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A lab sets the same Multipath TCP settings in its kernels as a run.
#[test]
fn a_lab_has_the_paths_of_multipath_tcp() {
    skip_unless!(can(&["/proc/sys/net/mptcp", "/usr/sbin/ip"]));
    let text_of = experiment("8 s")
        .nodes("b")
        .fifo("other", "a b", ("4 Mbit/s", "5 ms", 50), "")
        .table(
            "transport.both",
            r#"kind = "mptcp", profile = "linux", paths = ["line", "other"], net.mptcp.stale_loss_cnt = 7"#,
        )
        .flow("file", "a b", r#"transport = "both", application = { kind = "bulk" }"#)
        .response("goodput", "flow.file", "goodput")
        .build();
    let folder = folder("applied", &text_of);
    let words = "ip mptcp endpoint show; ip mptcp limits show; cat /proc/sys/net/mptcp/stale_loss_cnt";
    let told = ["a", "b"].map(|node| {
        let ended = netrig(folder.path(), &["lab", "applied.toml", "--node", node, "--", "sh", "-c", words]);
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        text(&ended.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    });
    assert_eq!(told[0], "add_addr_accepted 1 subflows 1 7");
    assert_eq!(told[1], "10.0.0.6 id 1 signal add_addr_accepted 0 subflows 1 7");
}

/// The line loses every 20th packet of the same stream on both substrates, so that both viewers miss the same packets.
#[test]
fn received_pictures_of_a_real_run() {
    skip_unless!(can(&["/usr/bin/ffmpeg"]));
    let text_of = experiment("3 s")
        .table("link.line.loss", r#"kind = "periodic", every = 20"#)
        .nodes("b")
        .flow("video", "a b", r#"start = "20 ms", application = { kind = "video" }"#)
        .response("intact", "flow.video", "video_intact")
        .table("figure.seen", r#"x = "picture", y = "ssim", of = "flow.video""#)
        .build();
    let folder = folder("applied", &text_of);
    let (code, document, told) = run(folder.path(), "sim,netns", &[]);
    assert_eq!(code, Some(0), "{told}");
    let [modelled, real] = ["sim", "netns"].map(|on| value(&document, on, "intact"));
    assert!(modelled.is_some_and(|intact| intact < 0.9), "{modelled:?}");
    assert_eq!(modelled, real, "the same packets are lost");
    let export = netrig(
        folder.path(),
        &["export", "applied.toml", "--on", "sim,netns", "--format", "svg", "--out", "."],
    );
    let told = text(&export.stdout) + &text(&export.stderr);
    assert!(export.status.success(), "{told}");
    if point(&document, "netns")["status"] != "ok" {
        let _ = writeln!(std::io::stderr(), "the machine was too busy: {document:#}");
        return;
    }
    // The picture as sent, as received in the simulation, and as received in real time. The last two are decoded from
    // the same packets.
    let pictures = ["applied-seen-1.png", "applied-seen-2.png", "applied-seen-3.png"]
        .map(|name| std::fs::read(folder.path().join(name)).unwrap_or_else(|_| panic!("no {name}: {told}")));
    assert!(pictures[0].starts_with(b"\x89PNG\r\n\x1a\n") && pictures[0] != pictures[1]);
    assert_eq!(pictures[1], pictures[2]);
}
