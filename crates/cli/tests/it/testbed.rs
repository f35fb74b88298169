//! Experiments and third-party programs on the testbed of namespaces. The tests need root on Linux; otherwise each test
//! prints that it was skipped.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netrig_core::{Direction, Dscp, Instant, PacketEvent, Sample, Seeds, Sink, Step, Subject};
use netrig_experiment::RunError;
use netrig_netns::{Journals, Namespaces};
use netrig_test_support::{ExperimentText, Tape, skip_unless};
use serde_json::Value;

use crate::common::carried_out::{carry_out, recorded, run};
use crate::common::machine::{can, folder};
use crate::common::spoilt;
use crate::common::{netrig, text};

/// A host sends through a policer at the router R to a host on a slower line.
fn experiment() -> String {
    ExperimentText::new("policed", "2 s")
        .table("replications", "count = 1")
        .nodes("a R b")
        .fifo("access", "a R", ("100 Mbit/s", "1 ms", 100), "")
        .fifo("line", "R b", ("4 Mbit/s", "5 ms", 50), "")
        .table(
            "[link.line.condition]",
            r#"match = { dst = "b" },
            meter = { kind = "token-bucket", rate = "1 Mbit/s", burst = "5 KB" }, green = "ef",
            red = "drop""#,
        )
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "load",
            "a b",
            r#"transport = "udp",
            application = { kind = "poisson", size = { constant = "512 B" }, rate = "1.5 Mbit/s" }"#,
        )
        .response("goodput", "flow.load", "goodput")
        .response("offered", "flow.load", "offered_load")
        .response("loss", "flow.load", "datagram_loss")
        .response("packets", "flow.load", "data_packets_sent")
        .build()
}

/// The value of a response on a substrate.
fn measured(document: &Value, substrate: &str, response: &str) -> Option<f64> {
    let points = document["points"].as_array().expect("there are points");
    let point = points.iter().find(|point| point["substrate"] == substrate).expect("the substrate ran");
    point["responses"][response]["runs"][0]["value"].as_f64()
}

#[test]
fn the_same_seed_offers_the_same_traffic_to_a_model_and_to_a_kernel() {
    skip_unless!(can(&[]));
    let folder = folder("policed", &experiment());
    let arguments = ["run", "policed.toml", "--on", "sim,netns", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    let of = |response: &str| {
        let value = |substrate| measured(&document, substrate, response).expect("it was measured");
        (value("sim"), value("netns"))
    };
    let (sim, netns) = of("offered");
    assert_eq!(sim, netns, "every datagram of the one is a datagram of the other");
    let (sim, netns) = of("packets");
    assert!(netns > 0.0 && (sim - netns).abs() <= 1.0, "{sim} packets sent in the simulator, {netns} here");
    // The loss is determined by the token buckets of the policer. It differs slightly, because late packets find fuller
    // buckets.
    let (sim, netns) = of("loss");
    assert!((sim - netns).abs() < 0.03, "loss {sim} in the simulator, {netns} in namespaces");
}

#[test]
fn programs_of_others_run_through_the_router_unchanged() {
    skip_unless!(can(&[]));
    let lab = |node: &str, words: &str| {
        let folder = folder("policed", &experiment());
        let ended = netrig(folder.path(), &["lab", "policed.toml", "--node", node, "--", "sh", "-c", words]);
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        assert!(ended.status.success(), "{words}: {out}{err}");
        (out, err)
    };
    if can(&["ping"]) {
        let (out, err) = lab("a", "ping -c 5 -i 0.05 10.0.0.6 && ping -c 5 -i 0.05 fd00:0:0:1::2");
        assert_eq!(out.matches(" 0% packet loss").count(), 2, "{out}");
        // Five packets in each direction over two links, with both IP versions.
        assert!(err.contains("links took 40 packets and dropped 0"), "{err}");
    }
    // One command runs both ends. It finds the other node by the name of its namespace. The command waits until a
    // program on the other node has bound the port, which the kernel lists in hexadecimal digits.
    let in_b = r#"B=$(ip netns identify | sed s/-a$/-b/);
        until_has() {
            for look in $(seq 1000); do
                ip netns exec $B grep -qs ":$2 00000000" /proc/net/$1 /proc/net/${1}6 && return; sleep 0.02
            done; return 1
        }; "#;
    if can(&["iperf3", "ip"]) {
        let words = format!(
            "{in_b} ip netns exec $B iperf3 -s -1 -D && until_has tcp 1451 && iperf3 -c 10.0.0.6 -t 1 -J"
        );
        let (out, _) = lab("a", &words);
        let answer: Value = serde_json::from_str(&out).expect("iperf3 answers in JSON");
        let rate = answer["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
        assert!(rate > 0.0 && rate < 4e6, "{rate} bit/s over a line of 4 Mbit/s with a policer of 1");
    }
    if can(&["irtt", "ip"]) {
        let words = format!(
            "{in_b} ip netns exec $B irtt server -b 10.0.0.6:2112 >/dev/null & until_has udp 0840; \
             irtt client -i 50ms -d 500ms -q 10.0.0.6:2112; code=$?; kill $!; exit $code"
        );
        lab("a", &words);
    }
    if can(&["mgen", "ip"]) {
        let words = format!(
            "{in_b} (ip netns exec $B timeout 3 mgen event 'listen udp 5000' output received; true) & until_has udp 1388; \
             timeout 2 mgen event 'on 1 udp dst 10.0.0.6/5000 periodic [20 200]' >/dev/null 2>&1; wait; cat received"
        );
        let (out, _) = lab("a", &words);
        assert!(out.matches(" RECV ").count() >= 15, "{out}");
    }
}

/// Two hosts with separate links to R send more than the line after R carries.
fn contention() -> String {
    ExperimentText::new("contention", "3 s")
        .table("replications", "count = 1")
        .nodes("a c R b")
        .fifo("first", "a R", ("100 Mbit/s", "0 s", 100), "")
        .fifo("second", "c R", ("100 Mbit/s", "0 s", 100), "")
        .fifo("line", "R b", ("20 Mbit/s", "0 s", 50), "")
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "one",
            "a b",
            r#"transport = "udp",
            application = { kind = "poisson", size = { constant = "512 B" }, rate = "14 Mbit/s" }"#,
        )
        .flow(
            "other",
            "c b",
            r#"transport = "udp",
            application = { kind = "poisson", size = { constant = "512 B" }, rate = "17 Mbit/s" }"#,
        )
        .response("one", "flow.one", "datagram_loss")
        .response("other", "flow.other", "datagram_loss")
        .build()
}

#[test]
fn whom_a_full_queue_refuses_does_not_depend_on_the_interface() {
    skip_unless!(can(&[]));
    let folder = folder("contention", &contention());
    let arguments = ["run", "contention.toml", "--on", "netns", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    let loss = |flow| measured(&document, "netns", flow).expect("it was measured");
    let (one, other) = (loss("one"), loss("other"));
    // Poisson arrivals see time averages, so both flows lose the same share: the third that the line cannot carry.
    assert!(one > 0.25 && (one - other).abs() < 0.03, "one loses {one}, the other {other}");
}

/// The namespaces in the journals of a folder, and the processes, by identifier and start time.
fn named_in(journals: &Path) -> (BTreeSet<String>, BTreeSet<(String, String)>) {
    let (mut namespaces, mut processes) = (BTreeSet::new(), BTreeSet::new());
    for file in std::fs::read_dir(journals).into_iter().flatten().flatten() {
        for line in text_of(&file.path()).lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["namespace", name, ..] => {
                    namespaces.insert(name.to_owned());
                }
                ["process", number, start] => {
                    processes.insert((number.to_owned(), start.to_owned()));
                }
                _ => {}
            }
        }
    }
    (namespaces, processes)
}

fn is_bound(namespace: &str) -> bool {
    Path::new("/run/netns").join(namespace).exists()
}

fn text_of(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// The start time of a process (proc_pid_stat(5)); `None` if it has ended.
fn start_of(number: &str) -> Option<String> {
    let stat = text_of(&Path::new("/proc").join(number).join("stat"));
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    (!["Z", "X"].contains(&state)).then(|| start.to_owned())
}

#[test]
fn what_a_killed_run_leaves_doctor_reports_and_removes() {
    skip_unless!(can(&[]));
    let folder = folder("policed", &experiment());
    // The test has its own folder of journals, so that testbeds of other tests are not found.
    let journals = folder.path().join("journals");
    let netrig = |arguments: &[&str]| {
        let mut netrig = Command::new(env!("CARGO_BIN_EXE_netrig"));
        netrig.args(arguments).current_dir(folder.path()).env("NETRIG_RUN_DIR", &journals);
        netrig
    };
    let mut moments = Seeds::new(1).stream("test/kill");
    let mut left_something = false;
    for kill in 0..10 {
        // The run is killed at a random time within the 2.5 s that it takes.
        let after = moments.below(2500);
        // Each run has its own store: a run that ended before it was killed would not be made again.
        let store = format!("killed-{kill}.db");
        let mut run =
            netrig(&["run", "policed.toml", "--on", "netns", "--store", &store, "--out", "killed.html"]);
        run.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = run.spawn().expect("netrig starts");
        std::thread::sleep(Duration::from_millis(after));
        run.kill().expect("it is ours");
        run.wait().expect("it ends");
        let (named, processes) = named_in(&journals);
        let left: Vec<_> = named.iter().filter(|name| is_bound(name)).collect();
        left_something |= !left.is_empty();
        let told = text(&netrig(&["doctor"]).output().expect("netrig starts").stdout);
        let told_of = left.iter().filter(|name| told.contains(name.as_str())).count();
        assert_eq!(told_of, left.len(), "killed after {after} ms it left {left:?}: {told}");
        let count = told.matches("netrig-").count();
        assert!(count <= left.len(), "killed after {after} ms it left no more than {left:?}: {told}");
        let bound = named.iter().find(|name| is_bound(name));
        assert_eq!(bound, None, "killed after {after} ms: {told}");
        let alive = processes.iter().find(|(number, start)| start_of(number).as_ref() == Some(start));
        assert_eq!(alive, None, "killed after {after} ms: {told}");
        assert_eq!(named_in(&journals), Default::default(), "killed after {after} ms: {told}");
    }
    assert!(left_something, "no kill met a testbed");
}

/// A sink that stores the events of packets on the line towards b.
#[derive(Default)]
struct Trace(Vec<PacketEvent>);

impl Sink for Trace {
    fn sample(&mut self, _subject: Subject, _sample: Sample) {}

    fn wants_packets(&self, link: u32, direction: Direction) -> bool {
        (link, direction) == (1, Direction::Forward)
    }

    fn packet(&mut self, event: &PacketEvent) {
        self.0.push(*event);
    }
}

/// A sink that cancels the run at the first event of a packet.
struct Hasty<'a> {
    cancel: &'a AtomicBool,
    last: Instant,
    packets: usize,
}

impl Sink for Hasty<'_> {
    fn sample(&mut self, _subject: Subject, _sample: Sample) {}

    fn wants_packets(&self, link: u32, direction: Direction) -> bool {
        (link, direction) == (0, Direction::Forward)
    }

    fn packet(&mut self, event: &PacketEvent) {
        self.cancel.store(true, Ordering::Relaxed);
        self.last = self.last.max(event.at);
        self.packets += 1;
    }
}

/// The sampling interval is as long as the run. Events of packets must be passed on earlier, so that they do not fill
/// the memory.
#[test]
fn what_happens_to_packets_is_told_long_before_an_interval_of_samples_is_over() {
    skip_unless!(can(&[]));
    let text = experiment()
        .replace("duration = \"2 s\"", "duration = \"20 s\"\nsample_every = \"20 s\"")
        .replace("rate = \"1.5 Mbit/s\"", "rate = \"20 Mbit/s\"");
    let cancel = AtomicBool::new(false);
    let mut hasty = Hasty { cancel: &cancel, last: Instant::ZERO, packets: 0 };
    assert_eq!(carry_out(&run(&text, 0), &mut hasty, &cancel).map(|_| ()), Err(RunError::Cancelled));
    let bytes = hasty.packets * size_of::<PacketEvent>();
    assert!((1 << 19..1 << 24).contains(&bytes), "{bytes} B were told");
    assert!(hasty.last < Instant::ZERO + netrig_core::Duration::from_secs(10), "{}", hasty.last);
}

#[test]
fn tshark_sees_the_code_points_and_drops_that_the_router_claims() {
    skip_unless!(can(&["tshark", "ping"]));
    let run = run(&experiment(), 0);
    let journals = tempfile::tempdir().unwrap();
    let substrate = Namespaces::new(env!("CARGO_BIN_EXE_netrig"), Journals::at(journals.path()));
    let mut lab = substrate.lab(&run, Trace::default(), |_, _, _| {}, &AtomicBool::new(false)).unwrap();
    let mut tshark = Command::new("tshark");
    let file = journals.path().join("line.pcapng");
    tshark.args(["-i", "line", "-q", "-f", "icmp[0] = 8", "-w"]).arg(&file);
    tshark.stdout(Stdio::null()).stderr(Stdio::null());
    let mut tshark = lab.spawn("b", tshark).unwrap();
    // tshark writes the header of the file when it starts to capture.
    while std::fs::metadata(&file).map_or(0, |file| file.len()) == 0 {
        assert!(tshark.wait(Duration::from_millis(10)).unwrap().is_none(), "tshark captures");
    }
    let mut ping = |arguments: &[&str]| {
        let mut ping = Command::new("ping");
        ping.args(arguments).args(["-W", "1", "-q", "10.0.0.6"]).stdout(Stdio::null());
        let status = lab.spawn("a", ping).unwrap().wait(Duration::from_secs(60)).unwrap();
        assert!(status.is_some(), "ping ends");
    };
    // 30 KB arrive at the same time, of which the token bucket of 5 KB lets a sixth pass. For the last, shorter packet
    // the bucket is full again.
    ping(&["-c", "59", "-l", "59", "-s", "472"]);
    ping(&["-c", "1", "-s", "100"]);
    // Packets are in the order of time, so the capture is complete when it has the last one.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let seen = loop {
        let mut read = Command::new("tshark");
        read.args(["-n", "-T", "fields", "-e", "ip.dsfield.dscp", "-e", "ip.len", "-r"]).arg(&file);
        let out = text(&read.stderr(Stdio::null()).output().expect("tshark starts").stdout);
        if out.trim_end().ends_with("\t128") {
            break out;
        }
        assert!(std::time::Instant::now() < deadline, "the last packet is not captured: {out}");
    };
    tshark.stop(Duration::from_secs(5)).unwrap();
    let (passed, trace) = lab.close().unwrap();
    let count = |is: fn(&Step) -> bool| trace.0.iter().filter(|event| is(&event.step)).count();
    let delivered: Vec<_> = trace.0.iter().filter(|event| event.step == Step::Delivered).collect();
    assert_eq!(count(|step| *step == Step::Arrived), 60);
    assert!(
        count(|step| matches!(step, Step::Dropped(_))) >= 30,
        "the policer dropped some: {:?}",
        passed.balance
    );
    assert_eq!(delivered.len() + count(|step| matches!(step, Step::Dropped(_))), 60);
    assert!(delivered.iter().all(|event| event.header.dscp == Dscp(46)));
    let seen: Vec<_> = seen.lines().collect();
    assert_eq!(seen.len(), delivered.len(), "tshark sees what the router says it delivered");
    assert!(
        seen.iter().all(|packet| packet.starts_with("46\t")),
        "and with the code point that it was given"
    );
}

/// The values of a quantity between two times, s.
fn between(tape: &Tape, name: &str, from: f64, until: f64) -> Vec<f64> {
    let within = |at: Instant| (from..until).contains(&at.as_secs_f64());
    let of = tape.samples().iter().filter(|(_, sample)| sample.quantity.name == name && within(sample.at));
    of.map(|(_, sample)| sample.value).collect()
}

#[test]
fn an_interface_goes_down_and_up_at_its_time_and_traffic_with_it() {
    skip_unless!(can(&[]));
    let down = "[[event]]\nat = \"1 s\"\nlink = \"access\"\ndo = { down_for = \"1 s\", where = \"a\" }\n[transport.udp]";
    let text = experiment()
        .replace("duration = \"2 s\"", "duration = \"3 s\"")
        .replace("[transport.udp]", down)
        .replace("rate = \"1 Mbit/s\", burst", "rate = \"3 Mbit/s\", burst");
    for version in ["4", "6"] {
        // The flow passes R, because a node whose interface goes down also loses routes to hosts that are not its
        // neighbours.
        let text = text.replace("duration =", &format!("ip = {version}\nduration ="));
        let (tape, _) = recorded(&text, Tape::default());
        let received = |from, until| between(&tape, "received_bytes", from, until).iter().sum::<f64>();
        // The intervals allow for sampling intervals of 0.1 s and for packets in transit when the interface went down.
        let [before, meanwhile, after] = [received(0.0, 1.05), received(1.15, 1.95), received(2.15, 3.05)];
        assert!(
            before > 100e3 && meanwhile == 0.0 && after > 100e3,
            "IPv{version}: {before}, {meanwhile}, {after}"
        );
        let said = |at: f64, words: &str| {
            let mut notes = tape.notes().iter().filter(|note| note.text.starts_with(words));
            notes.any(|note| note.at.as_secs_f64() == at)
        };
        assert!(said(1.0, "interface access of a down, done "), "{:?}", tape.notes());
        assert!(said(2.0, "interface access of a up, done "), "{:?}", tape.notes());
    }
}

/// A Multipath TCP connection over two links. The first link is down for 2 s.
fn two_paths() -> String {
    ExperimentText::new("two-paths", "6 s")
        .nodes("client server")
        .fifo("first", "client server", ("2 Mbit/s", "10 ms", 20), "")
        .fifo("second", "client server", ("2 Mbit/s", "10 ms", 20), "")
        .table(
            "transport.both",
            r#"kind = "mptcp", profile = "linux", paths = ["first", "second"],
            net.mptcp.stale_loss_cnt = 2"#,
        )
        .table("[event]", r#"at = "2 s", link = "first", do = { down_for = "2 s" }"#)
        .flow("file", "client server", r#"transport = "both", application = { kind = "bulk" }"#)
        .response("goodput", "flow.file", "goodput")
        .build()
}

#[test]
fn multipath_tcp_has_a_subflow_for_each_path_and_survives_the_outage_of_one() {
    skip_unless!(can(&["/proc/sys/net/mptcp"]));
    for text in [two_paths().to_owned(), two_paths().replace("duration =", "ip = 6\nduration =")] {
        let (tape, outcome) = recorded(&text, Tape::default());
        let invalid = outcome.invalid.unwrap_or_default();
        assert!(!invalid.contains("fell back"), "{invalid}");
        let subflows = between(&tape, "subflows", 1.0, 2.0);
        assert!(!subflows.is_empty() && subflows.iter().all(|subflows| *subflows == 2.0), "{subflows:?}");
        for link in 0..2 {
            let bytes = tape.samples().iter().filter(|(subject, sample)| {
                *subject == Subject::Link(link, Direction::Forward) && sample.quantity.name == "link_bytes"
            });
            let bytes: f64 = bytes.map(|(_, sample)| sample.value).sum();
            assert!(bytes > 100e3, "link {link} carried {bytes} B");
        }
        // The congestion window of each path is traced.
        for path in 0..2 {
            let of = Subject::Path(0, path);
            assert!(tape.samples().iter().any(|(subject, s)| *subject == of && s.quantity.name == "cwnd"));
        }
        let during: f64 = between(&tape, "received_bytes", 3.0, 4.0).iter().sum();
        assert!(during > 0.0, "nothing arrives while the first link is down");
    }
}

#[test]
fn multipath_tcp_is_fine_with_one_path() {
    skip_unless!(can(&["/proc/sys/net/mptcp"]));
    let text = two_paths()
        .replace("[\"first\", \"second\"]", "[\"first\"]")
        .replace("at = \"2 s\"", "at = \"1.9 s\"");
    let (tape, outcome) =
        recorded(&text.replace("duration = \"6 s\"", "duration = \"2 s\""), Tape::default());
    let invalid = outcome.invalid.unwrap_or_default();
    assert!(!invalid.contains("fell back"), "{invalid}");
    let subflows = between(&tape, "subflows", 0.5, 1.5);
    assert!(!subflows.is_empty() && subflows.iter().all(|subflows| *subflows == 1.0), "{subflows:?}");
    assert!(between(&tape, "received_bytes", 0.0, 2.0).iter().sum::<f64>() > 100e3);
}

/// The hop limit of packets allows two links on a path of three. The second router drops the packets, and its kernel
/// counts them.
#[test]
fn a_kernel_counts_the_packets_whose_hop_limit_runs_out_at_its_node() {
    skip_unless!(can(&[]));
    let text = ExperimentText::new("hops", "1 s")
        .with("replications = { count = 1 }")
        .table("node.a", "net.ipv4.ip_default_ttl = 2")
        .nodes("R S b")
        .fifo("first", "a R", ("10 Mbit/s", "1 ms", 50), "")
        .fifo("second", "R S", ("10 Mbit/s", "1 ms", 50), "")
        .fifo("third", "S b", ("10 Mbit/s", "1 ms", 50), "")
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "f",
            "a b",
            r#"transport = "udp", stop = "500 ms",
            application = { kind = "cbr", interval = "10 ms", size = "100 B" }"#,
        )
        .response("drops", "node.S", "hop_limit_drops")
        .build();
    let (tape, _) = recorded(&text, Tape::default());
    let sum = |subject: Subject, quantity: &str| -> f64 {
        let of = |(of, sample): &&(Subject, Sample)| *of == subject && sample.quantity.name == quantity;
        tape.samples().iter().filter(of).map(|(_, sample)| sample.value).sum()
    };
    let nodes = run(&text, 0).scenario.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let handed = sum(Subject::Link(1, Direction::Forward), "link_delivered");
    assert!(handed > 40.0, "the second link delivered {handed} packets");
    for (node, place) in nodes.iter().zip(0..) {
        let expected = if node == "S" { handed } else { 0.0 };
        assert_eq!(sum(Subject::Node(place), "hop_limit_drops"), expected, "node {node}");
    }
    assert_eq!(sum(Subject::Link(2, Direction::Forward), "link_offered"), 0.0);
}

/// The measurement of `bench/router`: the minimum delay must be the sum of 1 ms and the transmission time of 540 bytes
/// at 1 Gbit/s. A datagram that leaves too early would have a smaller delay. At this rate, some datagrams arrive while
/// the router reads those before them.
#[test]
fn no_frame_is_before_its_time() {
    skip_unless!(can(&[]));
    let folder = folder("router", include_str!("../../../../bench/netrig/router.toml"));
    let levels = ["--set", "lasts=4 s", "--set", "line=1 Gbit/s", "--set", "rate=81.92 Mbit/s"];
    let ended = netrig(
        folder.path(),
        &[&["run", "router.toml", "--on", "sim,netns", "--json"][..], &levels].concat(),
    );
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    let document = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let soonest = |substrate| measured(&document, substrate, "e_soonest").expect("it was measured");
    assert_eq!(soonest("sim"), 0.001_004_32);
    assert!(soonest("netns") >= 0.001_004_32, "{} s", soonest("netns"));
}
