//! Probes between two network namespaces over a real kernel, and against third-party programs.
//!
//! The tests need root. A test prints which requirements are missing. The third-party STAMP implementation is the crate
//! `stamp-suite` (`cargo install stamp-suite`).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use netrig_core::text::hex;
use netrig_test_support::skip_unless;
use rustix::process::Signal;

use crate::common::as_json;
use crate::common::far_end::{FarEnd, document, interrupt, notes, until, value};
use crate::common::namespace::{Namespace, can};
use crate::common::{Guarded, open_folder, words, write_secret};

const TOOLS: [&str; 4] = ["unshare", "nsenter", "ip", "sleep"];
const QUICK: [&str; 5] = ["--count", "40", "--interval", "3ms", "--json"];
const KEY: &str = "0123456789abcdef0123456789abcdef";

fn key(folder: &Path) -> String {
    let path = folder.join("key");
    write_secret(&path, KEY);
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn a_path_between_two_hosts_is_measured_in_both_directions() {
    skip_unless!(can(&TOOLS));
    let (near, far) = Namespace::pair();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let key = key(folder.path());
    let listen = ["--listen", "10.0.0.2,2001:db8::2", "--key", &key, "--allow", "10.0.0.1,2001:db8::/64"];
    let far_end = FarEnd::start_by(far.command(env!("CARGO_BIN_EXE_netrig")), &listen);
    for target in &far_end.stamp {
        let arguments = ["probe", "stamp", target, "--dscp", "af31", "--answer-dscp", "ef"];
        let told = document(&near.netrig(&[&arguments[..], &QUICK].concat()));
        assert_eq!(value(&told, "round_trip", "lost"), 0.0);
        let notes = notes(&told);
        assert!(notes.contains("(sent with 26): 26") && notes.contains("(asked for 46): 46"), "{notes}");
        // Without the option for a common clock, the round-trip time bounds the offset of the clocks. The true offset
        // of zero is within the bounds.
        assert!(notes.contains("half of the shortest round-trip time"), "{notes}");
        let (low, least) =
            (&told["sections"]["there"]["delay_min"]["low"], value(&told, "there", "delay_min"));
        assert!(low.as_f64().is_some_and(|low| low < least), "the bound widens the interval: {low}");
    }
    for target in &far_end.probes {
        let told = document(&near.netrig(&[&["probe", "owd", target, "--key", &key][..], &QUICK].concat()));
        assert_eq!(value(&told, "there", "lost"), 0.0);
        assert!(notes(&told).contains("both ends read one clock"), "one boot: {}", notes(&told));
    }
    for target in ["10.0.0.2", "2001:db8::2"] {
        let told =
            document(&near.netrig(&[&["probe", "ping", target, "--dscp", "cs6"][..], &QUICK].concat()));
        assert_eq!(value(&told, "round_trip", "lost"), 0.0);
        assert!(notes(&told).contains("DSCP with which answers arrived here: 48"), "{}", notes(&told));
    }
    assert_eq!(far_end.finish()["answered"], 80);
}

#[test]
fn who_is_not_on_the_list_is_not_answered() {
    skip_unless!(can(&TOOLS));
    let (near, far) = Namespace::pair();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let listen = ["--listen", "10.0.0.2", "--key", &key(folder.path()), "--allow", "10.0.0.128/25"];
    let far_end = FarEnd::start_by(far.command(env!("CARGO_BIN_EXE_netrig")), &listen);
    let output =
        near.netrig(&[&["probe", "stamp", &far_end.stamp[0], "--wait", "100ms"][..], &QUICK].concat());
    assert!(matches!(output.status.code(), Some(1 | 3)), "no answer at all: {output:?}");
    assert_eq!(far_end.finish()["unanswered"]["its sender is not on the list"], 40);
}

#[test]
fn where_there_is_no_route_it_says_so() {
    skip_unless!(can(&TOOLS));
    let namespace = Namespace::new();
    for probe in ["stamp", "ping", "owd"] {
        for target in ["192.0.2.1", "2001:db8::1"] {
            let output = namespace.netrig(&["probe", probe, target]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{probe} {target}: {said}");
            assert!(said.contains("nreachable"), "{probe} {target}: {said}");
        }
    }
}

/// A router reports a target as unreachable or as prohibited. Each probe names the error and its sender, and counts the
/// packets as lost.
#[test]
fn an_icmp_error_is_named_with_its_sender() {
    skip_unless!(can(&TOOLS) && can(&["sysctl"]));
    let words = [("unreachable", "host unreachable"), ("prohibit", "administratively prohibited")];
    for (kind, says) in words {
        for probe in ["ping", "stamp", "mtu"] {
            // The kernel limits the rate of ICMP errors to a host, so each probe has its own hosts.
            let (near, _router) = behind_a_router_that_refuses(kind);
            for (target, from) in [("10.99.0.1", "10.0.0.2"), ("2001:db8:99::1", "2001:db8::2")] {
                // For an unreachable route, Linux reports over IPv6 that there is no route (RFC 4443: code 0).
                let is_no_route = target.contains(':') && kind == "unreachable";
                let says = if is_no_route { "network unreachable" } else { says };
                let options = if probe == "mtu" { &["--wait", "50ms", "--json"][..] } else { &QUICK };
                let output = near.netrig(&[&["probe", probe, target][..], options].concat());
                assert!(matches!(output.status.code(), Some(1 | 3)), "{probe} {target}: {output:?}");
                let told = as_json(&output);
                let errors = told["icmp_errors"].as_array().expect("a list");
                assert_eq!(errors.len(), 1, "{probe} {target}: {errors:?}");
                assert_eq!((&errors[0]["from"], &errors[0]["error"]), (&from.into(), &says.into()));
                assert!(
                    errors[0]["count"].as_u64().is_some_and(|count| (1..=40).contains(&count)),
                    "{errors:?}"
                );
                let notes = notes(&told);
                let [begins, ends] =
                    [format!("{from} refused packets "), format!(" with the ICMP error “{says}”")];
                assert!(notes.contains(&begins) && notes.contains(&ends), "{notes}");
                if probe != "mtu" {
                    assert_eq!(value(&told, "round_trip", "lost"), 40.0);
                    assert!(!notes.contains("there was no answer from"), "{notes}");
                }
            }
        }
    }
}

/// If a host answers one echo request per second (icmp_ratelimit), unanswered requests look like loss. The probe says
/// so.
#[test]
fn a_host_that_limits_its_answers_is_no_lossy_path() {
    skip_unless!(can(&TOOLS) && can(&["sysctl"]));
    let (near, far) = Namespace::pair();
    let echo_replies = ["net.ipv4.icmp_ratemask=1", "net.ipv4.icmp_ratelimit=1000"];
    let set = far.command("sysctl").arg("-qw").args(echo_replies).status().expect("sysctl starts");
    assert!(set.success(), "{set}");
    let told = document(&near.netrig(&[&["probe", "ping", "10.0.0.2"][..], &QUICK].concat()));
    let lost = value(&told, "round_trip", "lost");
    assert!(lost > 20.0 && lost < 40.0, "{lost}");
    let says = format!("{lost} of 40 echo requests were not answered. Many hosts answer a limited number");
    assert!(notes(&told).contains(&says), "{}", notes(&told));
}

/// A host sends five echo replies or port-unreachable errors per second and gets 20 packets. Its answers are evenly
/// spaced, which random losses would not cause, and the probe reports the rate. A trace reports the same for a hop.
#[test]
fn evenly_spaced_answers_are_told_as_a_limit_of_the_target() {
    skip_unless!(can(&TOOLS) && can(&["sysctl"]));
    let (near, far) = Namespace::pair();
    let limits = ["net.ipv4.icmp_ratemask=9", "net.ipv4.icmp_ratelimit=200"];
    let set = far.command("sysctl").arg("-qw").args(limits).status().expect("sysctl starts");
    assert!(set.success(), "{set}");
    let ping = ["probe", "ping", "10.0.0.2", "--count", "100", "--interval", "50ms", "--gaps", "periodic"];
    let told = document(&near.netrig(&[&ping[..], &["--json"]].concat()));
    let said = notes(&told);
    let rates = said.split_once(" echo requests per second were answered, at even intervals.");
    let rates = rates.unwrap_or_else(|| panic!("{said}")).0.rsplit('\n').next().expect("a line");
    let (answered, sent) = rates.split_once(" of ").expect("two rates");
    let [answered, sent]: [f64; 2] = [answered, sent].map(|rate| rate.parse().expect("a rate"));
    assert!((4.0..6.0).contains(&answered) && (15.0..21.0).contains(&sent), "{rates}");
    assert!(said.contains("with --interval ") && said.contains("`netrig probe stamp`"), "{said}");
    let table = String::from_utf8_lossy(&near.netrig(&ping).stdout).into_owned();
    let in_a_line = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_a_line.contains("were answered, at even intervals."), "{table}");
    let trace = near.netrig(&["probe", "trace", "10.0.0.2", "--count", "20", "--gap", "1ms", "--json"]);
    let told = as_json(&trace);
    let said = notes(&told);
    assert!(said.contains("of 20 packets, which need not be loss on the path"), "{said}");
    assert!(said.contains("a host that limits its ICMP messages looks like this"), "{said}");
}

/// A host, and its router, whose route to 10.99.0.1 and 2001:db8:99::1 has this type.
fn behind_a_router_that_refuses(kind: &str) -> (Namespace, Namespace) {
    let (near, router) = Namespace::pair();
    let settings = [
        "net.ipv4.ip_forward=1",
        "net.ipv4.icmp_ratelimit=0",
        "net.ipv6.conf.all.forwarding=1",
        "net.ipv6.icmp.ratelimit=0",
    ];
    let set = router.command("sysctl").arg("-qw").args(settings).status().expect("sysctl starts");
    assert!(set.success(), "{set}");
    near.ip(&["route", "add", "10.99.0.0/24", "via", "10.0.0.2"]);
    near.ip(&["-6", "route", "add", "2001:db8:99::/64", "via", "2001:db8::2"]);
    for target in ["10.99.0.1", "2001:db8:99::1"] {
        router.ip(&["route", "add", kind, target]);
    }
    // Over IPv6, a link that is up is not ready immediately.
    let answers = |host: &&str| {
        let told = near.netrig(&[&["probe", "ping", host][..], &QUICK].concat());
        told.status.success()
    };
    for host in ["10.0.0.2", "2001:db8::2"] {
        assert!((0..30).any(|_| answers(&host)), "{host} does not answer");
    }
    (near, router)
}

/// Probes and the speed meter between two hosts that have only link-local addresses. Such an address needs its
/// interface (RFC 4007 section 11) in arguments, in output, when a socket is bound, and when it sends.
#[test]
fn addresses_of_a_link_keep_their_interface() {
    skip_unless!(can(&TOOLS));
    let (near, far) = Namespace::pair();
    for (end, own) in [(&near, "fe80::1/64"), (&far, "fe80::2/64")] {
        end.ip(&["address", "add", own, "dev", "eth", "nodad"]);
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let key = key(folder.path());
    let listen = ["--listen", "fe80::2%eth", "--key", &key, "--allow", "fe80::/64"];
    let far_end = FarEnd::start_by(far.command(env!("CARGO_BIN_EXE_netrig")), &listen);
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned()).expect("a port");
    let (stamp, probes) = (port(&far_end.stamp[0]), port(&far_end.probes[0]));
    let measured = |arguments: &[&str]| document(&near.netrig(&[arguments, &QUICK].concat()));
    for target in ["fe80::2%eth", "[fe80::2%eth]"] {
        let told = measured(&["probe", "ping", target]);
        assert_eq!((&told["target"], value(&told, "round_trip", "lost")), (&"fe80::2%eth".into(), 0.0));
    }
    let told = measured(&["probe", "stamp", &format!("[fe80::2%eth]:{stamp}")]);
    assert_eq!(value(&told, "round_trip", "lost"), 0.0);
    let far_probes = format!("[fe80::2%eth]:{probes}");
    for way in [&[][..], &["--reverse"]] {
        let told = measured(&[&["probe", "owd", &far_probes, "--key", &key][..], way].concat());
        assert_eq!(value(&told, if way.is_empty() { "there" } else { "back" }, "lost"), 0.0);
    }
    let of_far_end = [&far_probes[..], "--far-end", "--key", &key];
    for of in [&["fe80::2%eth"][..], &of_far_end] {
        let told = document(&near.netrig(&[&["probe", "mtu"][..], of, &["--json"]].concat()));
        assert_eq!((&told["path_mtu"], &told["target"]), (&1500.into(), &"fe80::2%eth".into()));
    }
    let told = document(&near.netrig(&["probe", "trace", "fe80::2%eth", "--json"]));
    assert_eq!(told["target"], "fe80::2%eth");
    let unscoped = near.netrig(&["probe", "ping", "fe80::2"]);
    assert_eq!(unscoped.status.code(), Some(2));
    let said = String::from_utf8_lossy(&unscoped.stderr);
    assert!(said.contains("needs an interface: expected `fe80::2%eth0`"), "{said}");
    far_end.finish();
    let mut command = far.command(env!("CARGO_BIN_EXE_netrig"));
    command.args(["speed", "serve", "--listen", "fe80::2%eth", "--open", "--json"]);
    let meter = FarEnd::wait_for(command);
    assert!(meter.probes[0].starts_with("[fe80::2%"), "{:?}", meter.probes);
    for (host, what) in [
        ("fe80::2%eth", &["--only", "connections", "--down"][..]),
        ("[fe80::2%eth]", &["--udp", "5Mbit/s", "--up"]),
        ("[fe80::2%eth]:8621", &["--udp", "5Mbit/s", "--down"]),
        ("[fe80::2%eth]", &["--iperf3", "--only", "connections", "--down"]),
    ] {
        let quick = ["--time", "1s", "--idle", "100ms", "--json"];
        let output = near.netrig(&[&["speed", host][..], what, &quick].concat());
        let told = as_json(&output);
        let server = told["server"].as_str().unwrap_or_default();
        assert!(server.starts_with("[fe80::2%"), "{host}, {what:?}: {told:#}");
        let carried = &told["phases"][0]["throughput"]["bytes"];
        assert!(carried.as_u64() > Some(0), "{host}, {what:?}: {told:#}");
    }
    let told = meter.finish();
    let sessions = ["netrig", "iperf3"].map(|protocol| told["protocols"][protocol]["sessions"].as_u64());
    assert_eq!(sessions, [Some(3), Some(1)]);
}

#[test]
fn an_outage_is_one_loss_period() {
    skip_unless!(can(&TOOLS));
    let (near, far) = Namespace::pair();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let key = key(folder.path());
    let far_end =
        FarEnd::start_by(far.command(env!("CARGO_BIN_EXE_netrig")), &["--listen", "10.0.0.2", "--key", &key]);
    let probe = near
        .command(env!("CARGO_BIN_EXE_netrig"))
        .args(["probe", "loss", &far_end.probes[0], "--key", &key, "--json", "--gaps", "periodic"])
        .args(["--count", "600", "--interval", "5ms", "--wait", "500ms"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("netrig starts");
    let leave = |more: u64| {
        let now = near.transmitted("eth");
        until("packets leave", || near.transmitted("eth") >= now + more);
    };
    leave(100);
    // The link stays up; only packets in one direction are dropped.
    far.ip(&["route", "add", "blackhole", "10.0.0.1/32"]);
    near.ip(&words("neighbour replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev eth nud permanent"));
    leave(50);
    near.ip(&["neighbour", "delete", "10.0.0.2", "dev", "eth"]);
    far.ip(&["route", "delete", "blackhole", "10.0.0.1/32"]);
    let told = document(&probe.wait_with_output().expect("it ends"));
    assert_eq!(value(&told, "there", "packets"), 600.0);
    let lost = value(&told, "there", "lost");
    assert!(lost > 0.0 && lost < 600.0, "{lost}");
    assert_eq!(value(&told, "pattern", "loss_periods"), 1.0);
    assert_eq!(value(&told, "pattern", "loss_period_mean"), lost);
    // For a single burst: its length divided by the expected length with independent losses, 1/(1 - p).
    let burst = lost * (600.0 - lost) / 600.0;
    assert!((value(&told, "pattern", "loss_burst_ratio") - burst).abs() < 1e-9);
}

#[test]
fn ping_without_rights_works_where_the_system_lets_it_and_says_what_to_do_where_not() {
    skip_unless!(can(&[&TOOLS[..], &["setpriv", "sysctl"]].concat()));
    let namespace = Namespace::new();
    let (_folder, program) = open_folder();
    let ping = |target: &str| {
        let mut command = namespace.command("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"])
            .arg(&program);
        command.args(["probe", "ping", target]).args(QUICK).output().expect("setpriv starts")
    };
    let refused = ping("127.0.0.1");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("ping_group_range"), "{refused:?}");
    let sysctl = ["-qw", "net.ipv4.ping_group_range=0 2147483647"];
    assert!(namespace.command("sysctl").args(sysctl).status().expect("sysctl starts").success());
    for target in ["127.0.0.1", "::1"] {
        let told = document(&ping(target));
        assert_eq!((value(&told, "round_trip", "packets"), value(&told, "round_trip", "lost")), (40.0, 0.0));
    }
}

/// Unused UDP ports. Packets to them mark the start and the end of the relevant part of a capture (RFC 863, RFC 862).
const BEFORE: &str = "9";
const AFTER: &str = "7";

/// tshark on the loopback interface of a namespace.
struct Capture {
    child: Guarded,
    file: std::path::PathBuf,
}

impl Capture {
    fn start(namespace: &Namespace, folder: &Path) -> Self {
        let file = folder.join("capture.pcapng");
        let mut command = namespace.command("tshark");
        command
            .args(["-q", "-i", "lo", "-f", "udp", "-w"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let capture = Self { child: Guarded(command.spawn().expect("tshark starts")), file };
        capture.until_it_has(namespace, BEFORE);
        capture
    }

    /// Sends packets until the capture has one of them. It then has all earlier packets too.
    fn until_it_has(&self, namespace: &Namespace, port: &str) {
        let filter = format!("udp.dstport=={port}");
        until("tshark captures", || {
            let nobody = format!("127.0.0.1:{port}");
            // No program answers there.
            let _ = namespace.netrig(&["probe", "stamp", &nobody, "--count", "1", "--wait", "1ms"]);
            let mut command = Command::new("tshark");
            let read = command
                .arg("-r")
                .arg(&self.file)
                .args(["-n", "-Y", &filter])
                .output()
                .expect("tshark starts");
            !read.stdout.is_empty()
        });
    }

    /// These fields of the dissector for each packet of port 862.
    fn fields(mut self, namespace: &Namespace, fields: &[&str]) -> Vec<Vec<String>> {
        self.until_it_has(namespace, AFTER);
        interrupt(&self.child, Signal::INT);
        self.child.wait().expect("it ends");
        let mut command = Command::new("tshark");
        command
            .args("-n -d udp.port==862,twamp.test -Y udp.port==862 -T fields -E separator=| -r".split(' '));
        command.arg(&self.file).args(fields.iter().flat_map(|field| ["-e", field]));
        let out = command.output().expect("tshark starts");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
    }
}

#[test]
fn wireshark_reads_an_exchange_as_it_was_meant() {
    skip_unless!(can(&[&TOOLS[..], &["tshark"]].concat()));
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mut far_end = namespace.command(env!("CARGO_BIN_EXE_netrig"));
    far_end.args("probe reflect --json --listen 127.0.0.1 --control-port 0 --stateful".split(' '));
    let far_end = FarEnd::wait_for(far_end);
    let capture = Capture::start(&namespace, folder.path());
    let probe = ["probe", "stamp", "127.0.0.1", "--dscp", "ef", "--answer-dscp", "af11"];
    let told = document(&namespace.netrig(&[&probe[..], &QUICK].concat()));
    assert_eq!(value(&told, "round_trip", "lost"), 0.0);
    assert_eq!(far_end.finish()["answered"], 40);
    let packets = capture.fields(
        &namespace,
        &[
            "udp.dstport",
            "twamp.test.seq_number",
            "twamp.test.sender_seq_number",
            "twamp.test.sender_ttl",
            "ip.dsfield.dscp",
            "twamp.test.error_estimate.z",
            "_ws.malformed",
            "_ws.expert.severity",
            "frame.time_epoch",
            "twamp.test.timestamp",
        ],
    );
    assert_eq!(packets.len(), 80);
    let (there, back): (Vec<_>, Vec<_>) = packets.iter().partition(|packet| packet[0] == "862");
    let numbers: BTreeSet<_> = (0..40).map(|number| number.to_string()).collect();
    for (packets, dscp) in [(&there, "46"), (&back, "10")] {
        assert_eq!(packets.iter().map(|packet| packet[1].clone()).collect::<BTreeSet<_>>(), numbers);
        for packet in packets {
            assert_eq!((packet[4].as_str(), packet[6].as_str()), (dscp, ""), "{packet:?}");
            assert_eq!(packet[7], "", "the dissector finds fault with nothing: {packet:?}");
        }
    }
    for packet in back {
        assert_eq!((packet[2].as_str(), packet[3].as_str()), (packet[1].as_str(), "64"), "{packet:?}");
    }
    // The time stamps are of the day of the capture.
    let day = |time: &str| time.split(',').next().map(str::to_owned);
    assert!(
        !there.is_empty() && there.iter().all(|packet| day(&packet[9]).is_some_and(|day| !day.is_empty())),
        "{:?}",
        there[0]
    );
}

/// A third-party STAMP program with these arguments, which ends with the test.
fn stamp_suite(namespace: &Namespace, arguments: &[&str]) -> Guarded {
    let mut command = namespace.command("stamp-suite");
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
    Guarded(command.spawn().expect("stamp-suite starts"))
}

/// The variants of an exchange with the third-party program: netrig's arguments, and those of the third-party program.
fn modes(key_file: &str) -> [(Vec<&str>, Vec<&str>); 3] {
    [
        (vec![], vec![]),
        (vec!["--timestamps", "ptp"], vec!["--clock-source", "PTP"]),
        (vec!["--key", key_file], vec!["--auth-mode", "A", "--hmac-key-file", "hex"]),
    ]
}

#[test]
fn a_third_party_reflector_answers() {
    skip_unless!(can(&[&TOOLS[..], &["stamp-suite"]].concat()));
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let key = key(folder.path());
    let hex = hex_key(folder.path());
    for (ours, theirs) in modes(&key) {
        let theirs: Vec<_> =
            theirs.iter().map(|word| if *word == "hex" { hex.as_str() } else { word }).collect();
        let arguments =
            [&["-i", "-S", "127.0.0.1", "-o", "862", "--stateful-reflector"][..], &theirs].concat();
        let _reflector = stamp_suite(&namespace, &arguments);
        wait_for_port(&namespace, 862);
        let probe = words("probe stamp 127.0.0.1 --stateful --dscp cs3 --answer-dscp af11 --size 300B");
        let told = document(&namespace.netrig(&[&probe[..], &ours, &QUICK].concat()));
        assert_eq!(value(&told, "round_trip", "lost"), 0.0, "{ours:?}");
        assert_eq!(value(&told, "by_direction", "loss_there"), 0.0);
        let notes = notes(&told);
        assert!(notes.contains("(sent with 24): 24"), "{ours:?}: {notes}");
        assert!(notes.contains("(asked for 10): 10"), "{ours:?}: {notes}");
    }
}

#[test]
fn a_third_party_sender_is_answered() {
    skip_unless!(can(&[&TOOLS[..], &["stamp-suite"]].concat()));
    let namespace = Namespace::new();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let key = key(folder.path());
    let hex = hex_key(folder.path());
    for (ours, theirs) in modes(&key) {
        let authenticated = ours.contains(&"--key");
        let mut far_end = namespace.command(env!("CARGO_BIN_EXE_netrig"));
        far_end
            .args(["probe", "reflect", "--json", "--listen", "127.0.0.1", "--control-port", "0"])
            .args(&ours);
        far_end.args(authenticated.then_some("--authenticated"));
        let far_end = FarEnd::wait_for(far_end);
        let theirs: Vec<_> =
            theirs.iter().map(|word| if *word == "hex" { hex.as_str() } else { word }).collect();
        let sender = words("-r 127.0.0.1 -p 862 -c 20 -d 5 --cos --dscp 46 --output-format json");
        let output =
            namespace.command("stamp-suite").args(sender).args(&theirs).output().expect("stamp-suite starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(
            (&last["packets_sent"], &last["packets_received"]),
            (&20.into(), &20.into()),
            "{theirs:?}: {said}"
        );
        assert_eq!(far_end.finish()["answered"], 20);
    }
}

/// The third-party program takes the same key as hexadecimal digits.
fn hex_key(folder: &Path) -> String {
    let path = folder.join("key.hex");
    write_secret(&path, &hex(KEY.as_bytes()));
    path.to_str().expect("a plain path").to_owned()
}

/// Waits until a program has bound a UDP port.
fn wait_for_port(namespace: &Namespace, port: u16) {
    let wanted = format!(":{port:04X} ");
    until("somebody listens", || {
        let out = namespace.command("cat").arg("/proc/net/udp").output().expect("cat starts");
        String::from_utf8_lossy(&out.stdout).contains(&wanted)
    });
}
