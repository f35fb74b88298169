//! `netrig export --run`: selection of nodes and packets, output files, and rejected arguments.

use std::fs;
use std::path::Path;
use std::process::Command;

use netrig_test_support::ExperimentText;

use crate::common::{machine, netrig, run_ids, text};

fn experiment() -> String {
    ExperimentText::new("small", "2 s")
        .nodes("a router b")
        .fifo("near", "a router", ("1 Mbit/s", "10 ms", 50), "")
        .fifo("far", "b router", ("2 Mbit/s", "10 ms", 50), "")
        .table("transport.tcp", r#"kind = "tcp", paths = [["near", "far"]]"#)
        .flow("transfer", "a b", r#"transport = "tcp", application = { kind = "bulk" }"#)
        .response("goodput", "flow.transfer", "goodput")
        .build()
}

/// A folder with a store of one run, and the identity of the run.
fn folder_with_run(experiment: &str) -> (tempfile::TempDir, String) {
    let folder = machine::folder("small", experiment);
    let made = netrig(folder.path(), &["run", "small.toml", "--json"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let identity = run_ids(folder.path()).remove(0);
    (folder, identity)
}

/// Exports a capture of the run with further arguments, and returns stdout.
fn export(folder: &Path, run: &str, more: &[&str]) -> String {
    let output = netrig(folder, &[&["export", "--run", run, "--pcapng"], more].concat());
    assert!(output.status.success(), "{more:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A packet of a capture: interface, time in ns, captured bytes, original length, and whether it is inbound.
type Packet = (u32, u64, Vec<u8>, u32, bool);

/// Reads a capture by the pcapng draft: the names of its interfaces, and its packets.
fn read(file: &[u8]) -> (Vec<String>, Vec<Packet>) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let (mut interfaces, mut packets, mut at) = (Vec::new(), Vec::new(), 0);
    assert_eq!((word(0), word(8)), (0x0A0D_0D0A, 0x1A2B_3C4D));
    while at < file.len() {
        let len = word(at + 4) as usize;
        assert_eq!(word(at + len - 4) as usize, len, "the length stands at both ends of a block");
        match word(at) {
            0x0A0D_0D0A => {}
            1 => {
                assert_eq!(word(at + 16) & 0xFFFF, 2, "if_name is the first option");
                let name = at + 20..at + 20 + (word(at + 16) >> 16) as usize;
                interfaces.push(text(&file[name]));
            }
            6 => {
                let (kept, data) = (word(at + 20) as usize, at + 28);
                let moment = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                let flags = data + kept.next_multiple_of(4) + 4;
                let bytes = file[data..data + kept].to_vec();
                packets.push((word(at + 8), moment, bytes, word(at + 24), word(flags) == 1));
            }
            other => panic!("a block of type {other}"),
        }
        at += len;
    }
    (interfaces, packets)
}

fn capture(folder: &Path, file: &str) -> (Vec<String>, Vec<Packet>) {
    read(&fs::read(folder.join(file)).expect("it was exported"))
}

#[test]
fn the_sender_is_captured_if_no_node_is_named() {
    let (folder, run) = folder_with_run(&experiment());
    let said = export(folder.path(), &run, &["--out", "x.pcapng"]);
    let (interfaces, packets) = capture(folder.path(), "x.pcapng");
    assert_eq!(interfaces, ["near"]);
    assert_eq!(said, format!("{} packets at a: x.pcapng\n", packets.len()));
    // The first packet is a TCP SYN over IPv4, sent when the flow starts.
    let (_, moment, first, _, inbound) = &packets[0];
    assert_eq!((*moment, first[0], first[9], first[33] & 2, *inbound), (0, 0x45, 6, 2, false));
    assert!(packets.iter().all(|(_, _, bytes, len, _)| bytes.len() == *len as usize), "all of each packet");
    export(folder.path(), &run, &["--node", "a", "--out", "a.pcapng"]);
    assert_eq!(capture(folder.path(), "a.pcapng"), (interfaces, packets));
}

#[test]
fn one_form_is_asked_for_whatever_it_is_called() {
    let (folder, run) = folder_with_run(&experiment());
    export(folder.path(), &run, &["--out", "short.pcapng"]);
    let asked = |more: &[&str]| netrig(folder.path(), &[&["export", "--run", &run], more].concat());
    assert!(asked(&["--format", "pcapng", "--out", "long.pcapng"]).status.success());
    assert_eq!(capture(folder.path(), "short.pcapng"), capture(folder.path(), "long.pcapng"));
    for (more, wanted) in [
        (&["--pcapng", "--format", "pcapng"][..], "cannot be used with"),
        (&["--pcapng", "--figure", "sequence"], "cannot be used with"),
        (&["--format", "sequence"], "[possible values: csv, parquet, svg, pcapng, events]"),
        (&[], "<--format <FORMAT>|--pcapng|--figure <FIGURE>>"),
    ] {
        let output = asked(&[more, &["--out", "x"]].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(text(&output.stderr).contains(wanted), "{more:?}: {}", text(&output.stderr));
    }
}

#[test]
fn several_nodes_get_a_file_each() {
    let (folder, run) = folder_with_run(&experiment());
    let said = export(folder.path(), &run, &["--node", "b,router", "--out", "both"]);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert_eq!(capture(folder.path(), "both/b.pcapng").0, ["far"]);
    let (interfaces, packets) = capture(folder.path(), "both/router.pcapng");
    assert_eq!(interfaces, ["near", "far"]);
    // A packet that arrives over one link leaves over the other at the same time and unchanged.
    for pair in packets.chunks(2) {
        let [(from, arrived, came, _, true), (to, left, went, _, false)] = pair else { panic!("{pair:?}") };
        assert!(from != to && arrived == left && came == went);
    }
}

#[test]
fn a_window_and_a_length_cut_what_is_kept() {
    let (folder, run) = folder_with_run(&experiment());
    export(folder.path(), &run, &["--out", "all.pcapng"]);
    export(folder.path(), &run, &["--from", "0.5s", "--to", "900 ms", "--out", "part.pcapng"]);
    let inside = |(_, moment, ..): &Packet| (500_000_000..=900_000_000).contains(moment);
    let wanted: Vec<_> = capture(folder.path(), "all.pcapng").1.into_iter().filter(inside).collect();
    assert!(wanted.len() > 20);
    assert_eq!(capture(folder.path(), "part.pcapng").1, wanted);
    export(folder.path(), &run, &["--snap", "40 B", "--out", "short.pcapng"]);
    let short = capture(folder.path(), "short.pcapng").1;
    assert!(!short.is_empty() && short.iter().all(|(_, _, bytes, ..)| bytes.len() == 40));
    assert!(short.iter().any(|(_, _, _, len, _)| *len == 1500));
}

/// 20 KB at 1 Mbit/s take less than half of the 2 s, and then the run ends.
#[test]
fn a_run_is_as_long_as_it_lasted() {
    let ends = experiment()
        .replace("duration = \"2 s\"", "duration = \"2 s\"\nends_with = \"transfer\"")
        .replace("kind = \"bulk\"", "kind = \"bulk\", bytes = \"20 KB\"");
    let (folder, run) = folder_with_run(&ends);
    let shown = text(&netrig(folder.path(), &["show", "run", &run]).stdout);
    let told = shown.lines().find_map(|line| line.strip_prefix("  ended at ")).expect("when it ended");
    let length = told.split(':').next().expect("a time");
    let seconds = length.parse::<netrig_core::Duration>().expect("a time").as_secs_f64();
    assert!((0.16..1.0).contains(&seconds), "{told}");
    let window = |more: &[&str]| {
        let asked = [&["export", "--run", &run, "--pcapng", "--out", "part.pcapng"], more].concat();
        netrig(folder.path(), &asked)
    };
    export(folder.path(), &run, &["--out", "all.pcapng"]);
    let all = capture(folder.path(), "all.pcapng");
    assert!(all.1.last().is_some_and(|(_, moment, ..)| *moment as f64 <= seconds * 1e9));
    let beyond = window(&["--to", "1.9 s"]);
    assert!(beyond.status.success());
    let note = format!("--to 1.9 s is after the end of the run, which is from 0 s to {length}");
    assert!(text(&beyond.stderr).contains(&note), "{}", text(&beyond.stderr));
    assert_eq!(capture(folder.path(), "part.pcapng"), all);
    let behind = window(&["--from", "1.9 s"]);
    assert_eq!(behind.status.code(), Some(2));
    let why = format!("the run is from 0 s to {length}");
    assert!(text(&behind.stderr).contains(&why), "{}", text(&behind.stderr));
}

#[test]
fn what_cannot_be_captured_is_refused_with_what_can() {
    let (folder, run) = folder_with_run(&experiment());
    let pcapng = ["--pcapng", "--out", "x.pcapng"];
    for (arguments, wanted) in [
        (&["--run", &run, "--node", "c"][..], "the run has no node `c`; it has: a, router, b"),
        (&["--run", "nobody"], "the store has no run `nobody`"),
        (&["small.toml"], "--pcapng, --figure and --format events are for one run: give --run ID"),
        (&["--run", &run, "small.toml"], "cannot be used with"),
        (&["--run", &run, "--set", "x=1"], "cannot be used with"),
        (&["small.toml", "--node", "a"], "cannot be used with"),
        (&["--run", &run, "--from", "3 s"], "the run is from 0 s to 2 s"),
        (&["--run", &run, "--from", "1 s", "--to", "500 ms"], "there is nothing from 1 s to 500 ms"),
        (&["--run", &run, "--snap", "0 B"], "from 1 B to 4 GB"),
        (&["--run", &run, "--from", "soon"], "soon"),
    ] {
        let output = netrig(folder.path(), &[&["export"], arguments, &pcapng].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(wanted), "{arguments:?}: {}", text(&output.stderr));
    }
    let csv = netrig(folder.path(), &["export", "--run", &run, "--format", "csv", "--out", "x.csv"]);
    assert_eq!(csv.status.code(), Some(2), "{}", text(&csv.stderr));
    assert!(text(&csv.stderr).contains("csv, parquet and svg take an experiment"), "{}", text(&csv.stderr));
    assert!(!folder.path().join("x.pcapng").exists() && !folder.path().join("x.csv").exists());
}

/// A lossy line with a retransmission. The axes name their quantity and unit.
#[test]
fn sequence_numbers_are_drawn_against_time() {
    let lossy =
        "queue = { kind = \"fifo\", packets = 50 }\nloss = { kind = \"bernoulli\", probability = \"5 %\" }";
    let lossy = experiment().replace("queue = { kind = \"fifo\", packets = 50 }", lossy);
    let over = |transport: &str| lossy.replace("kind = \"tcp\"", transport);
    let (tcp, sctp) = ("sequence number, relative (B)", "TSN, relative (chunks)");
    for (transport, y, window) in [
        // About 200 KB are sent. A window of 60 KB is drawn. One that would flatten all other curves is only mentioned
        // in the text.
        ("kind = \"tcp\"\nreceive_buffer = \"60 KB\"", tcp, Some(">window<")),
        ("kind = \"tcp\"\nreceive_buffer = \"6 MB\"", tcp, Some("window reached")),
        // The window of SCTP is not drawn, because it has other units.
        ("kind = \"sctp\"", sctp, None),
    ] {
        let experiment = over(transport);
        let (folder, run) = folder_with_run(&experiment);
        let more = ["export", "--run", &run, "--figure", "sequence", "--out", "x.svg"];
        let output = netrig(folder.path(), &more);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        assert!(said.contains(" sent, ") && !said.contains(" 0 sent again"), "{said}");
        let svg = fs::read_to_string(folder.path().join("x.svg")).expect("it was drawn");
        for wanted in [
            y,
            "time since the start of the run (s)",
            "seen at a",
            ">sent<",
            ">sent again<",
            ">acknowledged<",
        ] {
            assert!(svg.contains(wanted), "no {wanted}");
        }
        for way in [">window<", "window reached"] {
            assert_eq!(svg.contains(way), window == Some(way), "{transport}: {way}");
        }
    }
    let (folder, run) = folder_with_run(&experiment());
    for (more, wanted) in [
        (["--node", "a,b"], "shows one node"),
        (["--snap", "9 B"], "--snap is for --pcapng"),
        (["--to", "0 s"], "no data of TCP or SCTP passes a"),
    ] {
        let all = [&["export", "--run", &run, "--figure", "sequence", "--out", "x.svg"], &more[..]].concat();
        let output = netrig(folder.path(), &all);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(text(&output.stderr).contains(wanted), "{more:?}: {}", text(&output.stderr));
    }
}

/// With one stream, every message after a lost one waits. With four streams, only the messages of the same stream wait.
#[test]
fn what_waits_for_an_earlier_message_is_drawn_by_stream() {
    let lossy =
        "queue = { kind = \"fifo\", packets = 50 }\nloss = { kind = \"bernoulli\", probability = \"3 %\" }";
    let sctp = experiment()
        .replace("queue = { kind = \"fifo\", packets = 50 }", lossy)
        .replace(
            "kind = \"tcp\"",
            "kind = \"sctp\"\nmessage_size = \"1000 B\"\nstreams = 4\nscheduler = \"round-robin\"",
        )
        .replace("2 s", "20 s");
    let mut waited = Vec::new();
    for streams in [1, 4] {
        let bulk = format!("kind = \"bulk\", streams = {streams}");
        let (folder, run) = folder_with_run(&sctp.replace("kind = \"bulk\"", &bulk));
        let more = ["export", "--run", &run, "--figure", "delivery", "--out", "x.svg"];
        let output = netrig(folder.path(), &more);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        let numbers: Vec<f64> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [delivered, waiting] = numbers[..] else { panic!("{said}") };
        waited.push(waiting / delivered);
        let svg = fs::read_to_string(folder.path().join("x.svg")).expect("it was drawn");
        assert_eq!(svg.matches(">stream ").count(), streams, "a panel for each stream");
        for wanted in
            ["time until delivery (s)", "message sent, since the start of the run (s)", ">on the way<"]
        {
            assert!(svg.contains(wanted), "no {wanted}");
        }
        let named = netrig(folder.path(), &[&more[..], &["--node", "a,b"]].concat());
        assert_eq!(text(&named.stdout), said);
    }
    assert!(waited[1] < waited[0], "{waited:?}");
    let (folder, run) = folder_with_run(&experiment());
    for (node, wanted) in [("a", "between two nodes"), ("a,b", "no message over SCTP goes from a to b")] {
        let more = ["--figure", "delivery", "--out", "x.svg", "--node", node];
        let output = netrig(folder.path(), &[&["export", "--run", &run], &more[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{node}");
        assert!(text(&output.stderr).contains(wanted), "{}", text(&output.stderr));
    }
}

#[cfg(unix)]
mod unix {
    use std::io::Read as _;
    use std::process::{Child, Stdio};
    use std::time::Duration;

    use super::*;

    /// An experiment with half a million packets.
    fn long() -> String {
        experiment()
            .replace("1 Mbit/s", "100 Mbit/s")
            .replace("2 Mbit/s", "100 Mbit/s")
            .replace("2 s", "40 s")
    }

    fn left_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("our own folder");
        let names = entries.map(|entry| text(entry.expect("an entry").file_name().as_encoded_bytes()));
        names.filter(|name| name.contains("pcapng")).collect()
    }

    fn start(folder: &Path, run: &str, out: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_netrig"))
            .args(["export", "--run", run, "--pcapng", "--snap", "60B", "--out", out])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("netrig starts")
    }

    #[test]
    fn the_next_program_reads_it_from_a_pipe() {
        let (folder, run) = folder_with_run(&experiment());
        export(folder.path(), &run, &["--out", "x.pcapng"]);
        let piped = netrig(folder.path(), &["export", "--run", &run, "--pcapng", "--out", "/dev/stdout"]);
        assert!(piped.status.success(), "{}", text(&piped.stderr));
        assert_eq!(piped.stdout, fs::read(folder.path().join("x.pcapng")).expect("it was exported"));
        assert!(text(&piped.stderr).contains("packets at a"), "{}", text(&piped.stderr));
    }

    #[test]
    fn a_reader_that_has_enough_is_no_error() {
        let (folder, run) = folder_with_run(&long());
        let mut child = start(folder.path(), &run, "/dev/stdout");
        let mut front = [0; 100];
        child.stdout.take().expect("it is piped").read_exact(&mut front).expect("the front of a capture");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    }

    /// A limit of the file size simulates a full disk.
    #[test]
    fn what_does_not_fit_is_not_left_behind() {
        let (folder, run) = folder_with_run(&long());
        let export = format!("export --run {run} --pcapng --out");
        let limited = format!("trap '' XFSZ; ulimit -f 100; exec \"$0\" {export} x.pcapng");
        let output = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_netrig")])
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).starts_with("error: cannot write x.pcapng: "),
            "{}",
            text(&output.stderr)
        );
        assert!(text(&output.stderr).contains("`--from`, `--to` and `--snap` make a smaller capture"));
        assert_eq!(left_in(folder.path()), [""; 0]);
        // The stored run is unchanged: a smaller capture of it can be exported.
        let small = limited.replace("--out x", "--from 1s --to 1.01s --snap 60B --out x");
        let output = Command::new("sh")
            .args(["-c", &small, env!("CARGO_BIN_EXE_netrig")])
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(left_in(folder.path()), ["x.pcapng"]);
        let full = netrig(folder.path(), &["export", "--run", &run, "--pcapng", "--out", "/dev/full"]);
        assert_eq!(full.status.code(), Some(1));
        assert!(
            text(&full.stderr).contains("cannot write /dev/full: No space left"),
            "{}",
            text(&full.stderr)
        );
    }

    #[test]
    fn an_interrupted_capture_is_not_left_behind() {
        let (folder, run) = folder_with_run(&long());
        let child = start(folder.path(), &run, "x.pcapng");
        while !folder.path().join("x.pcapng.part").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        crate::common::far_end::interrupt(&child, rustix::process::Signal::INT);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
        assert_eq!(left_in(folder.path()), [""; 0]);
    }
}
