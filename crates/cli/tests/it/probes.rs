//! Probes over the loopback interface.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netrig_host::realtime_nanos;
use netrig_probe::stamp::Format;
use rustix::process::Signal;

use crate::common::as_json;
use crate::common::far_end::{FarEnd, document, interrupt, notes, until_it_slept, value};
use crate::common::{connect_from, write_secret};

/// Arguments for few packets at short intervals.
const QUICK: [&str; 5] = ["--count", "40", "--interval", "3ms", "--json"];

fn probe(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netrig")).arg("probe").args(arguments).output().expect("netrig starts")
}

fn quick(arguments: &[&str]) -> Output {
    probe(&[arguments, &QUICK].concat())
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The document of a probe without answers. On a busy machine the tester may also have been the limit.
fn unanswered(output: &Output) -> serde_json::Value {
    assert!(matches!(output.status.code(), Some(1 | 3)), "{}: {}", output.status, err(output));
    as_json(output)
}

#[test]
fn stamp_measures_both_ways_over_both_versions_of_ip() {
    let far_end = FarEnd::start(&[]);
    assert_eq!(far_end.stamp.len(), 2, "127.0.0.1 and ::1");
    for target in &far_end.stamp {
        let told =
            document(&quick(&["stamp", target, "--dscp", "ef", "--answer-dscp", "af11", "--size", "200B"]));
        assert_eq!(value(&told, "round_trip", "packets"), 40.0);
        assert_eq!(value(&told, "round_trip", "lost"), 0.0);
        // The round-trip time of a packet, without the time at the reflector, is the sum of its one-way delays. The
        // same holds for the means.
        let mean = |section| value(&told, section, "delay_mean_of_arrived");
        let (round, there, back) = (mean("round_trip"), mean("there"), mean("back"));
        assert!((round - there - back).abs() < 1e-9, "{round} {there} {back}");
        assert!(there > 0.0 && back > 0.0, "one clock: no packet arrives before it was sent");
        let notes = notes(&told);
        for said in [
            "DSCP with which packets arrived there (sent with 46): 46",
            "DSCP with which answers arrived here (asked for 10): 10",
            "TTL with which packets arrived there: 64",
            "both ends read one clock",
        ] {
            assert!(notes.contains(said), "{said}: {notes}");
        }
    }
    assert_eq!(far_end.finish()["answered"], 80);
}

#[test]
fn one_way_probes_measure_either_direction() {
    let far_end = FarEnd::start(&[]);
    for target in &far_end.probes {
        for (reverse, section) in [(&[][..], "there"), (&["--reverse"], "back")] {
            let told = document(&quick(&[&["owd", target, "--dscp", "af41"], reverse].concat()));
            assert_eq!((value(&told, section, "packets"), value(&told, section, "lost")), (40.0, 0.0));
            assert!(value(&told, section, "delay_min") > 0.0);
            assert!(notes(&told).contains("(sent with 34): 34"), "{}", notes(&told));
            let told = document(&quick(&[&["loss", target, "--gaps", "periodic"], reverse].concat()));
            assert_eq!(value(&told, section, "loss_ratio"), 0.0);
            assert_eq!(value(&told, "pattern", "reordered_ratio"), 0.0);
            assert!(
                told["sections"][section]["delay_min"].is_null(),
                "loss needs no clock, and tells of none"
            );
        }
    }
    assert_eq!(far_end.finish()["streams"], 8);
}

#[test]
fn a_stateful_reflector_tells_loss_there_from_loss_back() {
    let far_end = FarEnd::start(&["--stateful"]);
    let told = document(&quick(&["stamp", &far_end.stamp[0], "--stateful", "--timestamps", "ptp"]));
    assert_eq!(value(&told, "by_direction", "loss_there"), 0.0);
    assert_eq!(value(&told, "by_direction", "loss_back"), 0.0);
}

/// What the path does with a packet.
enum Fate {
    Passes,
    Lost,
    Twice,
    /// Delayed until the next one has passed.
    Overtaken,
}

/// One direction of a path. `fate` decides about each packet by its number, which is at octet `at`. It ends after a
/// second without packets.
fn pass(from: &UdpSocket, to: &UdpSocket, at: usize, delay: Duration, fate: impl Fn(u32) -> Fate) {
    let (mut buffer, mut held) = ([0; 2000], None);
    while let Ok(len) = from.recv(&mut buffer) {
        std::thread::sleep(delay);
        let packet = buffer[..len].to_vec();
        let number = u32::from_be_bytes(packet[at..at + 4].try_into().expect("four octets"));
        let times = match fate(number) {
            Fate::Passes => 1,
            Fate::Lost => 0,
            Fate::Twice => 2,
            Fate::Overtaken => {
                held = Some(packet);
                continue;
            }
        };
        for packet in std::iter::repeat_n(packet, times).chain(held.take()) {
            to.send(&packet).expect("it is sent");
        }
    }
}

/// A path with known properties. It decides about each STAMP packet by its number, and delays packets to the reflector
/// by `delay`. It ends after a second without packets.
fn path(
    far_end: &str,
    delay: Duration,
    there: impl Fn(u32) -> Fate + Send + 'static,
    back: impl Fn(u32) -> Fate + Send + 'static,
) -> (String, std::thread::JoinHandle<()>) {
    let bound = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (near, far) = (bound(), bound());
    far.connect(far_end).expect("it is there");
    let address = near.local_addr().expect("it is bound").to_string();
    let passes = std::thread::spawn(move || {
        let (_, sender) = near.peek_from(&mut [0; 2000]).expect("a packet");
        near.connect(sender).expect("it is there");
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a time-out");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| pass(&far, &near, 24, Duration::ZERO, back));
            pass(&near, &far, 0, delay, there);
        });
    });
    (address, passes)
}

#[test]
fn what_a_known_path_does_is_what_is_told() {
    let far_end = FarEnd::start(&["--stateful"]);
    let there = |number| if (5..8).contains(&number) { Fate::Lost } else { Fate::Passes };
    let back = |number| match number {
        20 => Fate::Lost,
        10 => Fate::Twice,
        30 => Fate::Overtaken,
        _ => Fate::Passes,
    };
    let (address, passes) = path(&far_end.stamp[0], Duration::from_millis(2), there, back);
    let arguments =
        ["stamp", &address, "--stateful", "--wait", "500ms", "--count", "40", "--interval", "10ms", "--json"];
    let told = document(&probe(&[&arguments[..], &["--gaps", "periodic"]].concat()));
    passes.join().expect("the path ends");
    let of = |section, measure| value(&told, section, measure);
    assert_eq!((of("round_trip", "packets"), of("round_trip", "lost")), (40.0, 4.0));
    // Of 40 sent packets, 37 reached the far end, and 36 of these returned.
    assert!((of("by_direction", "loss_there") - 3.0 / 40.0).abs() < 1e-12);
    assert!((of("by_direction", "loss_back") - 1.0 / 37.0).abs() < 1e-12);
    assert_eq!((of("pattern", "loss_periods"), of("pattern", "loss_period_max")), (2.0, 3.0));
    assert_eq!(of("pattern", "loss_period_mean"), 2.0);
    // Packets 6 and 7 have a loss distance of 1. Packet 20 has a loss distance of 13.
    assert_eq!(of("pattern", "loss_noticeable_rate"), 0.5);
    assert!((of("pattern", "reordered_ratio") - 1.0 / 36.0).abs() < 1e-12);
    assert_eq!(of("pattern", "reordering_extent_max"), 1.0);
    assert!((of("pattern", "duplication_fraction") - 1.0 / 36.0).abs() < 1e-12);
    // One packet in ten is lost, so the 90th percentile of the delay is known and the 99th is undefined.
    assert!(told["sections"]["round_trip"]["delay_p90"]["value"].is_number());
    assert!(told["sections"]["round_trip"]["delay_p99"]["undefined"].is_string());
    // The delay of the path to the reflector is at least 2 ms.
    assert!(of("there", "delay_min") >= 0.002);
    assert!(of("round_trip", "delay_min") >= 0.002);
}

#[test]
fn authenticated_stamp_needs_the_key() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let key = |name: &str, text: &str| {
        let path = folder.path().join(name);
        write_secret(&path, text);
        path.to_str().expect("a plain path").to_owned()
    };
    let (right, wrong) = (key("right", "0123456789abcdef\n"), key("wrong", "0123456789abcdeF"));
    let far_end = FarEnd::start(&["--key", &right, "--authenticated"]);
    let target = &far_end.stamp[0];
    let told =
        document(&quick(&["stamp", target, "--key", &right, "--answer-dscp", "cs1", "--size", "300B"]));
    assert_eq!(value(&told, "round_trip", "lost"), 0.0);
    assert!(notes(&told).contains("(asked for 8): 8"), "{}", notes(&told));
    for other in [&["--key", &wrong][..], &[]] {
        let told = unanswered(&quick(&[&["stamp", target, "--wait", "200ms"], other].concat()));
        assert!(notes(&told).contains("there was no answer from"), "{}", notes(&told));
        let sent = if other.is_empty() { "without an HMAC" } else { "with the HMAC of this key" };
        assert!(notes(&told).contains(&format!("these were sent {sent}")), "{}", notes(&told));
    }
    // netrig's own probes and the far end must also prove that they have the key.
    let target = &far_end.probes[0];
    assert_eq!(value(&document(&quick(&["owd", target, "--key", &right])), "there", "lost"), 0.0);
    let output = quick(&["owd", target, "--key", &wrong]);
    assert!(
        output.status.code() == Some(1) && err(&output).contains("its key is different"),
        "{}",
        err(&output)
    );
    let output = quick(&["owd", target]);
    assert!(
        output.status.code() == Some(1) && err(&output).contains("give the same --key"),
        "{}",
        err(&output)
    );
    let tally = far_end.finish();
    assert_eq!(tally["unanswered"]["the packet's HMAC is wrong: it was changed, or the keys differ"], 40);
    let open = FarEnd::start(&[]);
    // The answers of a reflector without authentication have no HMAC.
    for more in [&[][..], &["--size", "300B"], &["--answer-dscp", "cs1"]] {
        let told = unanswered(&quick(
            &[&["stamp", &open.stamp[0], "--key", &right, "--wait", "200ms"], more].concat(),
        ));
        let notes = notes(&told);
        assert!(notes.contains("packets that arrived were answers without an HMAC"), "{notes}");
        assert!(!notes.contains("there was no answer from"), "{notes}");
    }
    let output = quick(&["owd", &open.probes[0], "--key", &right]);
    assert!(
        output.status.code() == Some(1) && err(&output).contains("cannot authenticate itself"),
        "{}",
        err(&output)
    );
}

#[test]
fn what_cannot_be_is_said_in_a_sentence_with_code_2() {
    for (arguments, said) in [
        (&["stamp", "127.0.0.1", "--count", "0"][..], "0 packets: expected 1 to 1000000"),
        (&["stamp", "127.0.0.1", "--interval", "0s"], "expected more than 0 s between packets"),
        (&["stamp", "127.0.0.1", "--wait", "2h"], "at most 1 h"),
        (&["stamp", "127.0.0.1", "--size", "45B"], "44 B, or 48 B to 65507 B with padding"),
        (&["stamp", "127.0.0.1", "--dscp", "64"], "DiffServ code point"),
        (&["stamp", "127.0.0.1:99999"], "not a target"),
        (&["ping", "127.0.0.1", "--size", "4B"], "expected 12 B"),
        (&["owd", "127.0.0.1", "--size", "4B"], "expected 24 B"),
        (&["owd", "127.0.0.1", "--key", "/nonexistent"], "cannot read the key"),
        (&["owd", "127.0.0.1", "--key-env", "NETRIG_NO_SUCH_KEY"], "no variable NETRIG_NO_SUCH_KEY"),
        (&["reflect", "--listen", "0.0.0.0"], "give the key"),
        (&["reflect", "--authenticated"], "needs a key"),
        (&["reflect", "--listen", "192.0.2.77", "--key-env", "PATH"], "no such address"),
        (&["reflect", "--allow", "10.0.0.0/33"], "not an address, nor a prefix"),
    ] {
        let output = probe(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn who_is_not_there_is_told_apart_from_who_does_not_answer() {
    // A free port: the system assigned it to a socket that is closed again.
    let nobody = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let told = unanswered(&quick(&["stamp", &nobody.to_string(), "--wait", "100ms"]));
    assert!(notes(&told).contains("refused"), "{}", notes(&told));
    assert_eq!(value(&told, "round_trip", "loss_ratio"), 1.0);
    assert!(told["sections"]["there"]["delay_p50"]["undefined"].is_string());
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = silent.local_addr().expect("it is bound").to_string();
    let told = unanswered(&quick(&["stamp", &target, "--wait", "100ms"]));
    assert!(notes(&told).contains("there was no answer from"), "{}", notes(&told));
    let output = quick(&["owd", &nobody.to_string()]);
    assert!(output.status.code() == Some(1) && err(&output).contains("probe reflect"), "{}", err(&output));
}

#[test]
fn an_interruption_tells_what_had_been_measured() {
    let far_end = FarEnd::start(&[]);
    for (section, arguments) in [
        ("round_trip", ["stamp", &far_end.stamp[0], "--json"].to_vec()),
        ("there", ["loss", &far_end.probes[0], "--json"].to_vec()),
        ("back", ["loss", &far_end.probes[0], "--json", "--reverse"].to_vec()),
    ] {
        let child = Command::new(env!("CARGO_BIN_EXE_netrig"))
            .arg("probe")
            .args(&arguments)
            .args(["--count", "100000", "--interval", "2ms"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("netrig starts");
        until_it_slept(&child, 200);
        interrupt(&child, Signal::INT);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{arguments:?}");
        let told = as_json(&output);
        assert_eq!(told["interrupted"], true);
        let packets = value(&told, section, "packets");
        assert!((1.0..100_000.0).contains(&packets), "{packets}");
        // Packets in transit at the end are not lost.
        assert_eq!(value(&told, section, "lost"), 0.0);
    }
}

/// A STAMP sender packet of 44 octets.
fn packet(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; 44];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    // A time in 2026, in seconds since 1900.
    bytes[4..8].copy_from_slice(&3_998_988_800_u32.to_be_bytes());
    bytes[13] = 1;
    bytes
}

#[test]
fn hostile_packets_get_no_more_than_they_bring_and_reflections_nothing() {
    let far_end = FarEnd::start(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(&far_end.stamp[0]).expect("it is there");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let mut answer = vec![0; 70_000];
    // Truncated packets of any length get no answer. The valid packets after them show that the reflector still
    // answers.
    for len in 0..41 {
        socket.send(&packet(1)[..len]).expect("it is sent");
    }
    let mut long = packet(2);
    long.resize(60_000, 0xFF);
    for sent in [&packet(3)[..41], &packet(4), &long] {
        socket.send(sent).expect("it is sent");
        let len = socket.recv(&mut answer).expect("an answer");
        assert_eq!(len, sent.len());
        assert_eq!(answer[24..28], sent[..4], "the sender's number, copied");
    }
    // The reflector's own answer is sent back to it, as if it came from another reflector.
    socket.send(&packet(5)).expect("it is sent");
    let len = socket.recv(&mut answer).expect("an answer");
    socket.send(&answer[..len]).expect("it is sent");
    socket.send(&packet(6)).expect("it is sent");
    let len = socket.recv(&mut answer).expect("an answer");
    assert_eq!(
        (len, &answer[..4]),
        (44, &6_u32.to_be_bytes()[..]),
        "the reflection was not answered, the next packet was"
    );
    let tally = far_end.finish();
    assert_eq!(tally["answered"], 5);
    assert_eq!(tally["unanswered"]["it is a reflection"], 1);
    assert_eq!(tally["unanswered"]["it has fewer than 41 octets"], 41);
}

#[test]
fn hostile_words_over_tcp_end_their_connection_and_nothing_else() {
    let far_end = FarEnd::start(&[]);
    let target = &far_end.probes[0];
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; 64], &[0, 0, 0, 2, b'{', b'}'], &[]] {
        let mut stream = TcpStream::connect(target).expect("it is there");
        stream.write_all(words).expect("it listens");
        // The far end may already have reset the connection, because it does not read all data.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 1000, "a greeting at most");
    }
    assert_eq!(value(&document(&quick(&["owd", target])), "there", "lost"), 0.0);
    // A stream from the far end at a rate above the permitted one.
    let output =
        probe(&["loss", target, "--reverse", "--size", "60KB", "--interval", "100us", "--count", "10"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("--max-rate"), "{}", err(&output));
}

#[test]
fn a_document_has_what_its_readers_expect() {
    let far_end = FarEnd::start(&[]);
    let told = document(&quick(&["stamp", &far_end.stamp[0]]));
    let keys: Vec<_> = told.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = vec![
        "probe",
        "target",
        "confidence",
        "valid",
        "faults",
        "interrupted",
        "sections",
        "icmp_errors",
        "notes",
        "source",
        "stamps",
    ];
    expected.sort_unstable();
    let mut sorted = keys;
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    let p50 = &told["sections"]["round_trip"]["delay_p50"];
    assert_eq!((&p50["unit"], &p50["n"]), (&"s".into(), &40.into()));
    let number = |end: &str| p50[end].as_f64().unwrap_or_else(|| panic!("{p50}"));
    assert!(number("low") <= number("value") && number("value") <= number("high"));
}

#[test]
fn ping_measures_or_says_what_it_lacks() {
    for target in ["127.0.0.1", "::1"] {
        let output = quick(&["ping", target, "--dscp", "cs2"]);
        if output.status.code() == Some(2) {
            assert!(err(&output).contains("ping_group_range"), "{}", err(&output));
            continue;
        }
        let told = document(&output);
        assert_eq!((value(&told, "round_trip", "packets"), value(&told, "round_trip", "lost")), (40.0, 0.0));
        assert!(value(&told, "round_trip", "delay_min") > 0.0);
    }
}

/// The document of a probe to a reflector on this host. The reflector answers 20 packets. `times` computes its receive
/// and send times from the sender's time (NTP format).
fn reflected(times: impl Fn(u64) -> [u64; 2] + Send + 'static) -> serde_json::Value {
    let reflector = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = reflector.local_addr().expect("its address").to_string();
    reflector.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
    let answering = std::thread::spawn(move || {
        let mut packet = [0; 100];
        for _ in 0..20 {
            let Ok((len, from)) = reflector.recv_from(&mut packet) else { return };
            assert_eq!(len, 44, "the base packet");
            let (sequence, time, rest) = (&packet[..4], &packet[4..12], &packet[12..16]);
            let [received, sent] =
                times(u64::from_be_bytes(time.try_into().expect("eight octets"))).map(u64::to_be_bytes);
            let answer = [sequence, &sent, rest, &received, sequence, time, rest, &[63, 0, 0, 0]].concat();
            reflector.send_to(&answer, from).expect("the answer leaves");
        }
    });
    let ended = probe(&["stamp", &target, "--count", "20", "--interval", "5ms", "--wait", "5s", "--json"]);
    answering.join().expect("it answers");
    as_json(&ended)
}

/// The reflector states that it held each packet for 5 s (RFC 8762 section 4.3.1), but answers immediately.
#[test]
fn a_reflector_whose_times_cannot_be_is_not_believed() {
    let document = reflected(|sent| [sent, sent + (5 << 32)]);
    assert_eq!(document["valid"], false, "{document}");
    assert!(document["faults"].to_string().contains("20 of 20 answers"), "{document}");
    assert!(!document.to_string().contains(":-"), "nothing takes less than nothing: {document}");
}

/// A reflector at an address of this host has a clock that is an hour fast or slow. The round-trip time bounds the
/// offset.
#[test]
fn an_address_of_this_host_is_not_its_clock() {
    const HOUR: i64 = 3_600_000_000_000;
    for ahead in [HOUR, -HOUR] {
        let document =
            reflected(move |_| [Format::Ntp.encode(realtime_nanos().wrapping_add_signed(ahead)); 2]);
        let notes = notes(&document);
        assert!(!notes.contains("one clock") && notes.contains("its clock is another"), "{notes}");
        assert!(notes.contains("half of the shortest round-trip time"), "{notes}");
        let delay = |section| value(&document, section, "delay_p50");
        let longest = value(&document, "round_trip", "delay_max_of_arrived");
        for section in ["there", "back"] {
            assert!(0.0 <= delay(section) && delay(section) <= longest, "{section}: {document}");
        }
    }
}

/// A reflector without a clock sends times of zero. The probe reports no one-way delays.
#[test]
fn a_reflector_that_tells_no_times_is_said_to() {
    let document = reflected(|_| [0; 2]);
    assert_eq!((&document["valid"], value(&document, "round_trip", "lost")), (&false.into(), 0.0));
    let faults = document["faults"].to_string();
    assert!(faults.contains("20 of 20 answers do not state when"), "{faults}");
    for section in ["there", "back"] {
        assert!(document["sections"][section]["delay_p50"]["value"].is_null(), "{document}");
    }
    assert!(notes(&document).contains("nothing bounds the offset of the clocks"), "{document}");
}

/// Many silent connections from another address do not keep a client with the key from connecting.
#[test]
fn strangers_that_say_nothing_shut_out_nobody_who_has_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    write_secret(&key, "0123456789abcdef");
    let key = key.to_str().expect("a plain path");
    let far_end = FarEnd::start(&["--key", key]);
    let address = &far_end.probes[0];
    let silent: Vec<_> = (0..200).map(|_| connect_from("127.0.0.2", address).expect("it listens")).collect();
    let told = quick(&["loss", address, "--key", key]);
    assert!(told.status.success(), "{}", err(&told));
    // A client at the address with the most connections gets the message that the far end is busy.
    let mut last = silent.last().expect("there are some");
    last.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
    let mut said = [0; 300];
    let len = last.read(&mut said).expect("it is told");
    assert!(String::from_utf8_lossy(&said[..len]).contains("as many connections as it can hold"), "{said:?}");
    drop(silent);
    let told = far_end.finish();
    assert_eq!(told["streams"], 1, "{told:#}");
}

#[test]
fn a_probe_that_finds_no_room_says_that_the_far_end_is_busy() {
    let far_end = FarEnd::start(&["--connections-per-address", "1"]);
    let address = &far_end.probes[0];
    let silent = TcpStream::connect(address).expect("it listens");
    // The connection has a slot when it gets the greeting.
    (&silent).read_exact(&mut [0]).expect("it is greeted");
    let told = quick(&["loss", address]);
    assert_eq!(told.status.code(), Some(1), "{}", err(&told));
    assert!(
        err(&told).contains("it is busy: your address has reached its limit of connections (1)"),
        "{}",
        err(&told)
    );
    drop(silent);
    let mut tries = 0;
    while !quick(&["loss", address]).status.success() {
        tries += 1;
        assert!(tries < 100, "its slot is not free again");
    }
    far_end.finish();
}
