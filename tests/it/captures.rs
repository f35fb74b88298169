//! Captures of simulated runs, checked with tshark: it finds no errors in the packets, and its analysis counts the same
//! retransmissions as netrig.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use netrig_core::quantity::{FAST_RETRANSMISSIONS, TIMEOUT_RETRANSMISSIONS};
use netrig_core::{Heading, Instant, Sample, Subject};
use netrig_test_support::{ExperimentText, has, skip_unless};
use netrig_tests::{Tape, dissect, watch};

/// Two hosts with two links, and a third route over the router `middle` without loss.
fn experiment(loss: &str, transport: &str, application: &str) -> String {
    ExperimentText::new("captured", "120 s")
        .nodes("near middle far")
        .fifo(
            "first",
            "near far",
            ("2 Mbit/s", "20 ms", 50),
            &format!(r#"loss = {{ kind = "bernoulli", probability = "{loss}" }}"#),
        )
        .fifo(
            "second",
            "near far",
            ("2 Mbit/s", "35 ms", 50),
            &format!(r#"loss = {{ kind = "bernoulli", probability = "{loss}" }}"#),
        )
        .fifo("left", "near middle", ("2 Mbit/s", "20 ms", 50), "")
        .fifo("right", "middle far", ("2 Mbit/s", "20 ms", 50), "")
        .table("transport.subject", transport)
        .flow("data", "near far", &format!(r#"transport = "subject", application = {application}"#))
        .response("fast", "flow.data", "fast_retransmissions")
        .build()
}

const BULK: &str = "{ kind = \"bulk\" }";
const SACK: &str = "kind = \"tcp\"\nprofile = \"linux\"\nrecovery = \"sack\"\npaths = [\"first\"]";
const RACK: &str = "kind = \"tcp\"\nprofile = \"linux\"\nrecovery = \"rack\"\npaths = [\"first\"]";
const SCTP: &str = "kind = \"sctp\"\nprofile = \"linux\"\npaths = [\"first\"]";
const ROUTED: &str = "kind = \"tcp\"\npaths = [[\"left\", \"right\"]]";

/// The groups and severities of tshark's expert information (epan/proto.h: PI_MALFORMED, PI_ERROR).
const MALFORMED: &str = "117440512";
const ERROR: &str = "8388608";

/// A capture at one node, and the number of retransmissions that netrig has counted.
struct Capture {
    file: Vec<u8>,
    /// Lengths of the packets, bytes.
    lengths: Vec<usize>,
    retransmissions: f64,
}

/// Simulates an experiment with one point and one flow, and captures at `node`.
fn capture(text: &str, node: &str) -> Capture {
    let (run, tape) = watch(text, 1, &[node]);
    let place =
        run.scenario.nodes.iter().position(|known| known.name == node).expect("a node of the file") as u32;
    Capture {
        file: tape.capture(place),
        lengths: tape.all_frames().iter().map(|seen| seen.bytes.len()).collect(),
        retransmissions: retransmissions(&tape),
    }
}

fn retransmissions(tape: &Tape) -> f64 {
    let of = |quantity| tape.values(Subject::Flow(0), quantity).iter().sum::<f64>();
    of(&FAST_RETRANSMISSIONS) + of(&TIMEOUT_RETRANSMISSIONS)
}

/// Checks that every checksum is correct (status 1; 0 is bad and 2 is unverified), and that no packet is malformed or
/// has another error (PI_MALFORMED and PI_ERROR of Wireshark).
fn assert_sound(capture: &Capture, protocol: &str) {
    let status = format!("{protocol}.checksum.status");
    let fields = ["ip.checksum.status", &status, "_ws.expert.group", "_ws.expert.severity", "frame.len"];
    let packets = dissect(&capture.file, "frame", &fields);
    assert_eq!(packets.len(), capture.lengths.len());
    for (packet, len) in packets.iter().zip(&capture.lengths) {
        let [ip, body, groups, severities, frame_len] = &packet[..] else { panic!("{packet:?}") };
        assert_eq!((ip.concat(), body.concat()), ("1".to_owned(), "1".to_owned()), "{packet:?}");
        assert!(!groups.iter().any(|group| group == MALFORMED), "malformed: {packet:?}");
        assert!(!severities.iter().any(|severity| severity == ERROR), "error: {packet:?}");
        assert_eq!(frame_len.concat(), len.to_string());
    }
}

/// Checks that the retransmission counts of tshark and netrig agree within 1 %, and that netrig's is not zero if there
/// is loss.
fn assert_counted(case: &str, loss: &str, theirs: usize, ours: f64) {
    assert!(loss == "0 %" || ours >= 5.0, "{case} at {loss}: only {ours} retransmissions");
    let theirs = theirs as f64;
    assert!((theirs - ours).abs() <= 0.01 * ours, "{case} at {loss}: tshark {theirs}, netrig {ours}");
    println!("{case} at {loss}: tshark {theirs}, netrig {ours}");
}

/// tshark classifies a retransmitted segment as a retransmission or as "out of order". It uses the latter within the
/// first round-trip time after the highest sequence number, because it cannot know that segments are never reordered
/// between a host and its own interface. netrig does not count retransmitted SYNs.
#[test]
fn tcp_retransmissions_are_those_that_tshark_finds() {
    skip_unless!(has("tshark"));
    let again = "tcp.flags.syn == 0 && ip.src == 10.0.0.1 && \
        (tcp.analysis.retransmission || tcp.analysis.fast_retransmission || \
        tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order)";
    for (case, transport) in [("sack", SACK), ("rack", RACK)] {
        for loss in ["0 %", "1 %", "10 %", "20 %"] {
            let capture = capture(&experiment(loss, transport, BULK), "near");
            assert_sound(&capture, "tcp");
            let theirs = dissect(&capture.file, again, &["frame.number"]).len();
            assert_counted(case, loss, theirs, capture.retransmissions);
        }
    }
}

/// A packet may have several retransmitted chunks.
#[test]
fn sctp_retransmissions_are_those_that_tshark_finds() {
    skip_unless!(has("tshark"));
    let five = "{ kind = \"bulk\", streams = 5 }";
    let two_paths = "kind = \"sctp\"\nprofile = \"rfc\"\npaths = [\"first\", \"second\"]";
    for (case, transport, application) in
        [("one stream", SCTP, BULK), ("five streams", SCTP, five), ("two paths", two_paths, five)]
    {
        for loss in ["0 %", "1 %", "10 %", "20 %"] {
            let capture = capture(&experiment(loss, transport, application), "near");
            assert_sound(&capture, "sctp");
            let packets = dissect(&capture.file, "sctp.retransmission", &["sctp.retransmission"]);
            let theirs = packets.iter().flatten().flatten().count();
            assert_counted(case, loss, theirs, capture.retransmissions);
        }
    }
}

#[test]
fn datagrams_are_sound_and_leave_on_time() {
    skip_unless!(has("tshark"));
    // From 10 ms on, a packet with 500 B and 28 B of headers is sent every 10 ms.
    let cbr = "{ kind = \"cbr\", rate = \"422.4 kbit/s\", size = \"500 B\" }";
    let capture = capture(&experiment("0 %", "kind = \"udp\"\npaths = [\"first\"]", cbr), "near");
    assert_sound(&capture, "udp");
    let lengths =
        dissect(&capture.file, "udp", &["udp.length", "frame.time_epoch", "frame.packet_flags_direction"]);
    assert!(
        !lengths.is_empty() && lengths.iter().all(|packet| packet[0] == ["508"]),
        "{:?}",
        lengths.first()
    );
    for (packet, n) in lengths.iter().zip(1..) {
        assert_eq!(packet[1][0], format!("{}.{:02}0000000", n / 100, n % 100));
        assert!(packet[2][0].ends_with('2'), "outbound: {:?}", packet[2]);
    }
}

/// The packets that a router receives on one side are sent on the other side, and received by the far end.
#[test]
fn a_router_shows_what_arrives_and_what_leaves() {
    let (_, tape) = watch(&experiment("0 %", ROUTED, BULK), 1, &["near", "middle", "far"]);
    let mut count = BTreeMap::new();
    for seen in tape.all_frames() {
        *count.entry((seen.node, seen.link, seen.heading == Heading::Inbound)).or_insert(0_u32) += 1;
    }
    // Links 2 and 3 are `left` and `right`; the routes back are the same.
    let of = |node, link, inbound| *count.get(&(node, link, inbound)).unwrap_or(&0);
    assert_eq!(count.len(), 8, "{count:?}");
    assert_eq!(of(1, 2, true), of(1, 3, false), "to the far end");
    assert_eq!(of(1, 3, true), of(1, 2, false), "and back");
    // Packets on a link or in its queue at the end of the run have left, but not arrived.
    for (left, arrived) in [
        (of(0, 2, false), of(1, 2, true)),
        (of(1, 3, false), of(2, 3, true)),
        (of(2, 3, false), of(1, 3, true)),
        (of(1, 2, false), of(0, 2, true)),
    ] {
        assert!(arrived > 1000 && left >= arrived && left - arrived < 200, "{left} left, {arrived} arrived");
    }
}

/// On a WiFi link, and at a host with processing time, packets are captured as on a line, once each.
#[test]
fn stations_and_slow_hosts_are_captured_too() {
    let text = ExperimentText::new("air", "2 s")
        .nodes("phone")
        .table("node.ap", r#"receive = { per_packet = "100 us" }"#)
        .link(
            "wifi",
            "phone ap",
            r#"standard = "802.11n", rate = "65 Mbit/s", queue = { kind = "fifo", packets = 256 }"#,
        )
        .table("transport.tcp", r#"kind = "tcp""#)
        .flow("upload", "phone ap", r#"transport = "tcp", application = { kind = "bulk" }"#)
        .response("fast", "flow.upload", "fast_retransmissions")
        .build();
    let (_, tape) = watch(&text, 1, &["phone", "ap"]);
    let count = |node, heading| tape.frames(node, 0, heading).len();
    for (sender, receiver) in [(0, 1), (1, 0)] {
        let (left, arrived) = (count(sender, Heading::Outbound), count(receiver, Heading::Inbound));
        assert!(arrived > 500 && left >= arrived && left - arrived < 600, "{left} left, {arrived} arrived");
    }
    if has("tshark") {
        assert_sound(&capture(&text, "ap"), "tcp");
    }
}

/// All samples of a run, with the bits of their values.
fn measured(tape: &Tape) -> Vec<(Subject, Instant, &'static str, u64)> {
    let exact = |(subject, sample): &(Subject, Sample)| {
        (*subject, sample.at, sample.quantity.name, sample.value.to_bits())
    };
    tape.samples().iter().map(exact).collect()
}

/// A run has the same samples with and without a capture.
#[test]
fn a_capture_changes_nothing() {
    let text = experiment("1 %", RACK, BULK);
    let (_, watched) = watch(&text, 1, &["near", "far"]);
    let (_, unwatched) = watch(&text, 1, &[]);
    assert!(unwatched.all_frames().is_empty() && !watched.all_frames().is_empty());
    assert_eq!(measured(&watched), measured(&unwatched));
    let (_, again) = watch(&text, 1, &["near", "far"]);
    assert!(again.all_frames() == watched.all_frames(), "and the same bytes each time");
}

/// `capinfos` confirms that packets are in the order of time, and reads the time resolution.
#[test]
fn the_file_is_in_the_order_of_time() {
    skip_unless!(has("tshark"));
    let capture = capture(&experiment("1 %", ROUTED, BULK), "middle");
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("middle.pcapng");
    std::fs::write(&file, &capture.file).expect("the folder can be written");
    let said = capinfos(&file);
    for line in ["Strict time order:   True", "nanoseconds (9)", "Raw IP"] {
        assert!(said.contains(line), "{said}");
    }
}

fn capinfos(file: &Path) -> String {
    let out = Command::new("capinfos").arg(file).output().expect("capinfos comes with tshark");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}
