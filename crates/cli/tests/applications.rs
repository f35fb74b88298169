//! Servers and programs of others, and real video, in experiments on the testbed of namespaces. As root on Linux; elsewhere
//! each test says that it was skipped.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of a program starts it and reads what it writes"
)]

mod common;

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use common::{netrig, text};
use netrig_netns::lacks;
use serde_json::Value;

/// Two hosts on a line, and what `rest` adds.
fn experiment(rest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = format!(
        r#"
format = 1
name = "applied"
duration = "8 s"
[replications]
count = 1
[node.a]
[link.line]
between = ["a", "b"]
rate = "4 Mbit/s"
delay = "5 ms"
queue = {{ kind = "fifo", packets = 50 }}
[transport.tcp]
kind = "tcp"
profile = "linux"
congestion = "reno"
{rest}"#
    );
    std::fs::write(folder.path().join("applied.toml"), file).expect("the folder can be written");
    folder
}

/// Real time is shared: one testbed at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether the machine can hold a testbed and has these files; says what is missing, past the harness.
fn can(files: &[&str]) -> bool {
    let mut lacking: Vec<_> = lacks().iter().map(ToString::to_string).collect();
    lacking.extend(files.iter().filter(|file| !Path::new(file).exists()).map(ToString::to_string));
    if let Some(lack) = lacking.first() {
        let _ = writeln!(std::io::stderr(), "skipped: needs {lack}");
    }
    lacking.is_empty()
}

fn run(folder: &Path, on: &str, more: &[&str]) -> (Option<i32>, Value, String) {
    let ended = netrig(folder, &[&["run", "applied.toml", "--on", on, "--json"], more].concat());
    let document = serde_json::from_str(&text(&ended.stdout)).unwrap_or(Value::Null);
    (ended.status.code(), document, text(&ended.stderr))
}

/// What one substrate made of the only point.
fn point<'a>(document: &'a Value, substrate: &str) -> &'a Value {
    let points = document["points"].as_array().expect("there are points");
    points.iter().find(|point| point["substrate"] == substrate).expect("the substrate has the point")
}

/// What was measured, also if the run does not count.
fn value(document: &Value, substrate: &str, response: &str) -> Option<f64> {
    point(document, substrate)["responses"][response]["runs"][0]["value"].as_f64()
}

/// The time lines of all runs of the store.
fn time_lines(folder: &Path) -> String {
    let list = text(&netrig(folder, &["list"]).stdout);
    let is_id = |word: &&str| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ids = list.split_whitespace().filter(is_id);
    ids.map(|id| text(&netrig(folder, &["show", "run", id]).stdout)).collect()
}

/// One million bytes take 2 s on a line of 4 Mbit/s, and with 52 B of headers to each 1448 of them 3.6 % more; the rest is
/// how a window opens, and what was lost on the way.
#[test]
fn a_file_by_ftp_takes_as_long_by_vsftpd_as_modelled() {
    if !can(&["/usr/sbin/vsftpd"]) {
        return;
    }
    let _alone = ALONE.lock();
    for direction in ["store", "fetch"] {
        let folder = experiment(&format!(
            r#"
[node.b]
[flow.file]
from = "a"
to = "b"
transport = "tcp"
application = {{ kind = "ftp", size = "1 MB", direction = "{direction}" }}
[response.time]
of = "flow.file"
metric = "response_time"
[response.again]
of = "flow.file"
metric = "retransmission_share"
[response.wire]
of = "flow.file"
metric = "wire_throughput"
[response.sent]
of = "flow.file"
metric = "packets_sent"
"#
        ));
        let (_, document, told) = run(folder.path(), "sim,netns", &[]);
        let times = ["sim", "netns"].map(|on| value(&document, on, "time"));
        let [Some(modelled), Some(real)] = times else { panic!("{times:?}: {document:#} {told}") };
        for time in [modelled, real] {
            assert!((2.0..2.4).contains(&time), "{direction}: {modelled} s modelled, {real} s real");
        }
        // The window opens beyond what the queue holds, so both send something again.
        let shares = ["sim", "netns"].map(|on| value(&document, on, "again"));
        for share in shares {
            assert!(share.is_some_and(|share| (0.01..0.2).contains(&share)), "{direction}: {shares:?}");
        }
        // What the network carries of the file is known by the server's port for data; the commands are none of it.
        let [modelled, real] = ["sim", "netns"].map(|on| value(&document, on, "wire").unwrap_or(0.0));
        let ratio = real / modelled;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{direction}: {modelled} B/s on the modelled wire, {real} on this"
        );
        // Only the client's end is asked.
        assert!(value(&document, "sim", "sent").is_some() && value(&document, "netns", "sent").is_none());
        let line = time_lines(folder.path());
        assert!(line.contains("vsftpd") && line.contains("SHA-256"), "{line}");
    }
}

/// A server that says who it is once it listens.
const PROGRAM: &str = r#"
[node.b]
application = { kind = "program", command = ["sh", "{folder}/serve", "{address:a}"], ready = "says:ready", packages = ["dash"], files = { serve = "echo ready at {address} for $1; exec sleep 1000" } }
[flow.load]
from = "a"
to = "b"
stop = "500 ms"
application = { kind = "cbr", interval = "10 ms", size = "100 B" }
[response.loss]
of = "flow.load"
metric = "datagram_loss"
"#;

#[test]
fn a_program_runs_on_its_node_if_it_is_allowed_to() {
    if !can(&[]) {
        return;
    }
    let _alone = ALONE.lock();
    let folder = experiment(PROGRAM);
    let path = folder.path().join("applied.toml");
    let file = std::fs::read_to_string(&path).expect("it was written");
    std::fs::write(&path, file.replace("8 s", "1 s")).expect("it can be written");
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
    // Journals tell of a folder before it is made, so nothing of it is left when they are gone.
    let left = netrig(folder.path(), &["doctor"]);
    assert!(!text(&left.stdout).contains("left behind"), "{}", text(&left.stdout));
}

#[test]
fn a_program_that_is_not_here_is_named_with_its_packages() {
    if !can(&[]) {
        return;
    }
    let missing =
        PROGRAM.replace("\"sh\",", "\"no-such-server\",").replace("\"dash\"", "\"no-such-package\"");
    let folder = experiment(&missing);
    let (code, document, told) = run(folder.path(), "netns", &["--allow-programs"]);
    assert_eq!(code, Some(0), "{told}");
    let why = point(&document, "netns")["why"].as_str().unwrap_or_default();
    assert!(why.contains("`no-such-server`") && why.contains("apt-get install no-such-package"), "{why}");
}

#[test]
fn a_program_that_ends_before_it_is_ready_fails_its_run() {
    if !can(&[]) {
        return;
    }
    let _alone = ALONE.lock();
    let folder = experiment(&PROGRAM.replace("exec sleep 1000", "exit 3").replace("says:ready", "tcp:5060"));
    let (code, document, told) = run(folder.path(), "netns", &["--allow-programs"]);
    assert_eq!(code, Some(1), "{told}");
    let said = document.to_string() + &told + &time_lines(folder.path());
    assert!(
        said.contains("before it was ready (tcp:5060)") && said.contains("its last words: ready at"),
        "{said}"
    );
}

/// The line loses every 20th packet of the same stream on both substrates, so both viewers miss the same packets.
#[test]
fn received_pictures_of_a_real_run() {
    if !can(&["/usr/bin/ffmpeg"]) {
        return;
    }
    let _alone = ALONE.lock();
    let folder = experiment(
        r#"
[node.b]
[flow.video]
from = "a"
to = "b"
start = "20 ms"
application = { kind = "video" }
[response.intact]
of = "flow.video"
metric = "video_intact"
[figure.seen]
x = "picture"
y = "ssim"
of = "flow.video"
"#,
    );
    let path = folder.path().join("applied.toml");
    let file = std::fs::read_to_string(&path).expect("it was written");
    let lossy = "packets = 50 }\nloss = { kind = \"periodic\", every = 20 }";
    std::fs::write(&path, file.replace("8 s", "3 s").replace("packets = 50 }", lossy))
        .expect("it can be written");
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
    // As it was sent, as it came in the simulation, as it came in real time: what two decoders made of the same packets.
    let pictures = ["seen-1.png", "seen-2.png", "seen-3.png"]
        .map(|name| std::fs::read(folder.path().join(name)).unwrap_or_else(|_| panic!("no {name}: {told}")));
    assert!(pictures[0].starts_with(b"\x89PNG\r\n\x1a\n") && pictures[0] != pictures[1]);
    assert_eq!(pictures[1], pictures[2]);
}
