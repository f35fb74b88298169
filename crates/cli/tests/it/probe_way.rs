//! Probes of the path to another host: traces, path-MTU searches and trains of echoes, over netrig's own router with
//! known properties. The tests need root on Linux; otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::ops::Deref;
use std::process::{Command, Output};

use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::far_end;
use crate::common::far_end::FarEnd;
use crate::common::machine::has;
use crate::common::path_lab::{DiscardingSink, PathLab, near_to_far};
use crate::common::{open_folder, write_secret};

/// near – 100 Mbit/s, 1 ms – one – 10 Mbit/s, 4 ms – two – 40 Mbit/s, 2 ms – far. The link in the middle has an MTU of
/// 1400 B.
fn in_a_row() -> String {
    near_to_far("way")
        .nodes("near one two far")
        .fifo("a", "near one", ("100 Mbit/s", "1 ms", 200), "")
        .fifo("b", "one two", ("10 Mbit/s", "4 ms", 200), r#"mtu = "1400 B""#)
        .fifo("c", "two far", ("40 Mbit/s", "2 ms", 200), "")
        .build()
}

/// near – one, and from there two paths to far, over a and over b.
fn fork() -> String {
    let links =
        [("in", "near one"), ("to-a", "one a"), ("to-b", "one b"), ("from-a", "a far"), ("from-b", "b far")];
    let nodes = near_to_far("way").nodes("near one a b far");
    let line = ("100 Mbit/s", "1 ms", 200);
    links.into_iter().fold(nodes, |text, (name, ends)| text.fifo(name, ends, line, "")).build()
}

/// Addresses of the hops as seen from near, the last being that of far: IPv4 and IPv6.
const HOPS: [[&str; 3]; 2] =
    [["10.0.0.2", "10.0.0.6", "10.0.0.10"], ["fd00::2", "fd00:0:0:1::2", "fd00:0:0:2::2"]];

/// Maximum number of attempts in tests that a busy machine may disturb.
const ATTEMPTS: usize = 4;

/// A path built for a test.
struct Way(PathLab<DiscardingSink>);

impl Deref for Way {
    type Target = PathLab<DiscardingSink>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Way {
    /// Builds the path `in_a_row`. If this is not possible, prints the reason directly to stderr and returns `None`.
    fn build() -> Option<Self> {
        Self::of(&in_a_row(), &["one", "two", "far"])
    }

    /// As [`Self::build`], with links at a tenth of the rate, so that the lateness of netrig's router is small in
    /// comparison with transmission times.
    fn slow() -> Option<Self> {
        Self::of(&in_a_row().replace(" Mbit/s", "00 kbit/s"), &["one", "two", "far"])
    }

    /// Builds the path of this text. The nodes in `talkative` send ICMP messages without a rate limit.
    fn of(text: &str, talkative: &[&str]) -> Option<Self> {
        let way = Self(PathLab::build_if_possible("way", text)?);
        for router in talkative {
            // By default a kernel sends at most one ICMP message per second to a host
            // (Documentation/networking/ip-sysctl).
            way.run(router, "sysctl", &["-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0"]);
        }
        Some(way)
    }

    fn probe(&self, arguments: &[&str]) -> Output {
        let mut command = self.inside("near", env!("CARGO_BIN_EXE_netrig"));
        command.arg("probe").args(arguments).output().expect("netrig starts")
    }

    /// The document of a probe that runs on near.
    fn document(&self, arguments: &[&str]) -> Value {
        far_end::document(&self.probe(&[arguments, &["--json"]].concat()))
    }

    fn close(self) {
        self.0.close();
    }
}

fn addresses(told: &Value) -> Vec<&str> {
    let hops = told["hops"].as_array().expect("there are hops");
    hops.iter().map(|hop| hop["addresses"][0]["address"].as_str().unwrap_or("*")).collect()
}

#[test]
fn a_trace_tells_the_hosts_on_the_way_and_no_round_trip_is_shorter_than_the_links() {
    let Some(way) = Way::build() else { return };
    for hops in HOPS {
        for method in ["udp", "icmp", "tcp"] {
            let told = way.document(&["trace", hops[2], "--method", method]);
            assert_eq!(addresses(&told), hops, "{method}: {told:#}");
            assert_eq!((&told["reached"], &told["method"]), (&true.into(), &method.into()));
            for (hop, least) in told["hops"].as_array().expect("hops").iter().zip([0.002, 0.010, 0.014]) {
                let trips = hop["round_trips"].as_array().expect("round trips");
                assert_eq!(trips.len(), 3);
                assert!(
                    trips.iter().all(|trip| trip.as_f64().is_some_and(|trip| trip >= least)),
                    "{method}: {hop}"
                );
                assert_eq!(hop["measures"]["loss_ratio"]["value"], 0.0);
            }
            let stamps = &told["stamps"];
            assert_eq!(
                (&stamps["sent"], &stamps["received"]),
                (&stamps["sent_by_kernel"], &stamps["received_by_kernel"])
            );
        }
    }
    if has("traceroute") {
        let out = way.run("near", "traceroute", &["-n", "-q", "1", HOPS[0][2]]);
        let theirs: Vec<_> = out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(theirs, HOPS[0], "{out}");
    }
    way.close();
}

/// All packets of a trace have the same values in the fields by which a load balancer distinguishes flows.
#[test]
fn all_packets_of_a_trace_are_one_flow() {
    skip_unless!(has("tshark"));
    let Some(way) = Way::build() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("near.pcapng");
    let fields = |target: &str, method: &str, filter: &str, fields: &[&str]| -> Vec<String> {
        let _ = std::fs::remove_file(&file);
        let mut tshark = way.inside("near", "tshark");
        // The capture ends after nine packets. One trace sends at least nine, and up to twelve with requests beyond the
        // target.
        tshark.args(["-q", "-i", "any", "-f", filter, "-a", "duration:30", "-c", "9", "-w"]).arg(&file);
        let mut tshark = tshark.stderr(std::process::Stdio::null()).spawn().expect("tshark starts");
        // Traces are repeated until the capture has its packets.
        far_end::until("tshark captures", || {
            let _ = way.probe(&["trace", target, "--method", method]);
            tshark.try_wait().expect("it is ours").is_some()
        });
        let mut read = Command::new("tshark");
        read.arg("-r").arg(&file).args(["-n", "-T", "fields", "-E", "separator=|"]);
        let out = read.args(fields.iter().flat_map(|field| ["-e", field])).output().expect("tshark starts");
        let mut lines: Vec<_> = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 9, "{out:?}");
        lines.sort();
        lines.dedup();
        lines
    };
    // Because each trace has at least nine packets, nine packets belong to at most two traces.
    let [v4, v6] = HOPS.map(|hops| hops[2]);
    for (target, method, filter, of_flow) in [
        (
            v4,
            "udp",
            "udp and dst port 33434",
            &["udp.srcport", "udp.dstport", "udp.checksum", "ip.flags.df"][..],
        ),
        (v6, "udp", "udp and dst port 33434", &["udp.srcport", "udp.dstport", "udp.checksum", "ipv6.flow"]),
        (v4, "tcp", "tcp and dst port 80", &["tcp.srcport", "tcp.dstport", "ip.flags.df"]),
        (v6, "tcp", "tcp and dst port 80", &["tcp.srcport", "tcp.dstport", "ipv6.flow"]),
        (v4, "icmp", "icmp[icmptype] = 8", &["icmp.ident", "icmp.checksum"]),
        (v6, "icmp", "icmp6[icmp6type] = 128", &["icmpv6.echo.identifier", "icmpv6.checksum", "ipv6.flow"]),
    ] {
        let flows = fields(target, method, filter, of_flow);
        assert!(flows.len() <= 2 && flows.iter().all(|flow| !flow.starts_with('|')), "{method}: {flows:?}");
    }
    way.close();
}

/// The kernel of the node `one` balances its load by flow, including ports. It sends all packets of one trace over the
/// same path, and those of different traces over different paths.
#[test]
fn a_router_that_shares_its_load_sees_one_flow() {
    let Some(way) = Way::of(&fork(), &["one", "a", "b", "far"]) else { return };
    let address = |node: &str, link: usize| {
        let told = way.run(node, "ip", &["-4", "-o", "address", "show", "scope", "global"]);
        let all: Vec<_> = told.split_whitespace().filter(|word| word.starts_with("10.")).collect();
        all[link].split('/').next().expect("an address").to_owned()
    };
    let (far, a, b) = (address("far", 0), address("a", 0), address("b", 0));
    way.run("one", "sysctl", &["-qw", "net.ipv4.fib_multipath_hash_policy=1"]);
    way.run("one", "ip", &["route", "replace", &far, "nexthop", "via", &a, "nexthop", "via", &b]);
    // The forwarding and the routes of b are not part of the experiment, because no flow passes it.
    way.run("b", "sysctl", &["-qw", "net.ipv4.ip_forward=1"]);
    way.run("b", "ip", &["route", "replace", &far, "via", &address("far", 1)]);
    way.run("b", "ip", &["route", "replace", &address("near", 0), "via", &address("one", 2)]);
    let mut ways = std::collections::BTreeSet::new();
    for _ in 0..24 {
        let told = way.document(&["trace", &far, "--count", "8"]);
        let second = told["hops"][1]["addresses"].as_array().expect("it answers");
        assert_eq!((second.len(), &told["reached"]), (1, &true.into()), "{told:#}");
        ways.insert(second[0]["address"].as_str().expect("an address").to_owned());
    }
    // Each trace takes one of two paths at random. The probability that 24 traces take the same path is 1 in 8 million.
    assert_eq!(ways, [a, b].into());
    way.close();
}

#[test]
fn the_speed_of_links_is_estimated_from_here() {
    let Some(way) = Way::slow() else { return };
    let mut told = Value::Null;
    for _ in 0..ATTEMPTS {
        told = way.document(&["trace", HOPS[0][2], "--speed", "--gap", "2ms"]);
        assert_eq!(addresses(&told), HOPS[0]);
        assert!(
            told["notes"].to_string().contains("576 B to 1400 B"),
            "the link in the middle says so: {told:#}"
        );
        let near = |hop: usize, rate: f64| {
            let speed = &told["hops"][hop]["measures"]["speed"];
            let [value, low, high] = ["value", "low", "high"].map(|of| speed[of].as_f64());
            value.is_some_and(|value| (value / rate - 1.0).abs() < 0.1)
                && low.zip(high).is_some_and(|(low, high)| (low..=high).contains(&rate))
        };
        if near(0, 10e6) && near(1, 1e6) && near(2, 4e6) {
            return way.close();
        }
    }
    panic!("{ATTEMPTS} times: {told:#}");
}

#[test]
fn trains_of_two_sizes_tell_the_way_there_and_back() {
    let Some(way) = Way::slow() else { return };
    let mut told = Value::Null;
    // An octet takes 0.8, 8 and 2 µs on the three links, the same as on one link of 741 kbit/s.
    let rate = 8.0 / (0.8e-6 + 8e-6 + 2e-6);
    for _ in 0..ATTEMPTS {
        told = way.document(&["train", HOPS[0][2], "--interval", "20ms"]);
        assert_eq!(far_end::value(&told, "100_B", "packets"), 11.0);
        assert_eq!(far_end::value(&told, "1000_B", "packets"), 10.0);
        let fastest = far_end::value(&told, "slope", "two_way_rate_of_fastest");
        if (fastest / rate - 1.0).abs() < 0.1 {
            return way.close();
        }
    }
    panic!("{ATTEMPTS} times: {told:#}");
}

#[test]
fn why_a_way_ends_is_told() {
    let Some(way) = Way::build() else { return };
    for (kind, code, says) in
        [("unreachable", "!H", "the host does not answer"), ("prohibit", "!X", "a filter rule forbids it")]
    {
        let nowhere = "192.0.2.1/32";
        for (node, gateway) in [("near", "10.0.0.2"), ("one", "10.0.0.6")] {
            way.run(node, "ip", &["route", "replace", nowhere, "via", gateway]);
        }
        way.run("two", "ip", &["route", "replace", kind, nowhere]);
        let told = way.document(&["trace", "192.0.2.1"]);
        assert_eq!(told["reached"], false);
        // Linux looks up the route before it checks the TTL, so the error is not that of a hop.
        assert_eq!(addresses(&told), HOPS[0][..2], "{told:#}");
        assert_eq!(told["hops"][1]["unreachable"][0], code);
        assert!(told["found"].as_str().expect("a sentence").contains(says), "{told:#}");
    }
    let told = way.document(&["trace", HOPS[0][2], "--size", "1450B"]);
    assert_eq!(told["hops"][1]["unreachable"][0], "!F-1400");
    assert!(
        told["found"]
            .as_str()
            .expect("a sentence")
            .contains("10.0.0.2 reports that the next link carries 1400 B")
    );
    way.close();
}

#[test]
fn who_has_no_rights_may_trace_with_datagrams() {
    skip_unless!(has("setpriv"));
    let Some(way) = Way::build() else { return };
    let (_folder, program) = open_folder();
    let trace = |method: &str| {
        let mut command = way.inside("near", "setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"])
            .arg(&program);
        command
            .args(["probe", "trace", HOPS[0][2], "--method", method, "--json"])
            .output()
            .expect("setpriv starts")
    };
    assert_eq!(addresses(&far_end::document(&trace("udp"))), HOPS[0]);
    let refused = trace("tcp");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("CAP_NET_RAW"), "{refused:?}");
    way.close();
}

fn far_end(way: &Way, folder: &tempfile::TempDir) -> (FarEnd, String) {
    let key = folder.path().join("key");
    write_secret(&key, "0123456789abcdef");
    let key = key.to_str().expect("a plain path").to_owned();
    let listen = ["--listen", "10.0.0.10,fd00:0:0:2::2", "--key", &key];
    (FarEnd::start_by(way.inside("far", env!("CARGO_BIN_EXE_netrig")), &listen), key)
}

#[test]
fn the_mtu_of_the_path_is_that_of_its_narrowest_link_and_who_says_so_is_told() {
    let Some(way) = Way::build() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (far, key) = far_end(&way, &folder);
    for (version, hops) in HOPS.iter().enumerate() {
        for by in ["echo", "far-end"] {
            let told = match by {
                "echo" => way.document(&["mtu", hops[2]]),
                _ => way.document(&["mtu", &far.probes[version], "--far-end", "--key", &key]),
            };
            assert_eq!((&told["path_mtu"], &told["answered_by"]), (&1400.into(), &by.into()), "{told:#}");
            assert_eq!(told["refused"]["size"], 1401);
            let by = &told["refused"]["why"]["told"];
            assert_eq!((&by["by"], &by["mtu"]), (&hops[0].into(), &1400.into()));
            assert_eq!((&told["black_hole"], &told["phase"]), (&false.into(), &"search-complete".into()));
        }
    }
    let told = way.document(&["mtu", HOPS[0][0]]);
    assert_eq!((&told["path_mtu"], &told["refused"]["why"]), (&1500.into(), &"here".into()));
    // The kernel has also accepted the MTU that the router reported.
    let route = way.run("near", "ip", &["route", "get", HOPS[0][2]]);
    assert!(route.contains("mtu 1400"), "{route}");
    if has("tracepath") {
        let out = way.run("near", "tracepath", &["-n", HOPS[0][2]]);
        assert!(out.contains("pmtu 1400"), "{out}");
    }
    assert_eq!(far.finish()["streams"], 2);
    way.close();
}

#[test]
fn a_router_that_says_nothing_is_a_black_hole_and_its_place_is_found() {
    skip_unless!(has("nft"));
    let Some(way) = Way::build() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (far, key) = far_end(&way, &folder);
    let silent = "add table inet quiet
        add chain inet quiet out { type filter hook output priority 0; }
        add rule inet quiet out icmp type destination-unreachable icmp code frag-needed drop
        add rule inet quiet out icmpv6 type packet-too-big drop";
    way.run("one", "nft", &[silent]);
    for (version, hops) in HOPS.iter().enumerate() {
        let target = &far.probes[version];
        let told = way.document(&["mtu", target, "--far-end", "--key", &key, "--locate"]);
        assert_eq!((&told["path_mtu"], &told["black_hole"]), (&1400.into(), &true.into()), "{told:#}");
        assert_eq!((&told["refused"]["size"], &told["refused"]["why"]), (&1401.into(), &"vanished".into()));
        let place = &told["place"]["behind"];
        assert_eq!((&place["hop"], &place["address"]), (&1.into(), &hops[0].into()));
        let (segments, headers) = (&told["segments"], if version == 0 { 40 } else { 60 });
        assert_eq!((&segments["packet"], &segments["fits"]), (&1500.into(), &false.into()));
        let found = told["found"].as_str().expect("a sentence");
        let mend = format!("clamp the MSS to {} B", 1400 - headers);
        assert!(found.contains("a black hole") && found.contains(&mend), "{found}");
    }
    drop(far);
    way.close();
}

#[test]
fn a_router_that_clamps_segments_is_found_in_both_directions() {
    skip_unless!(has("nft"));
    let Some(way) = Way::build() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (far, key) = far_end(&way, &folder);
    let probe = |target: &str| way.document(&["mtu", target, "--far-end", "--key", &key])["segments"].clone();
    for (version, target) in far.probes.iter().enumerate() {
        let open = probe(target);
        let mss = [1460, 1440][version];
        assert_eq!((&open["clamped_there"], &open["clamped_back"]), (&Value::Null, &Value::Null), "{open:#}");
        assert_eq!((&open["near"]["announced"], &open["far"]["received"]), (&mss.into(), &mss.into()));
    }
    let clamp = "add table inet clamp
        add chain inet clamp pass { type filter hook forward priority 0; }
        add rule inet clamp pass tcp flags syn tcp option maxseg size set 1300";
    way.run("one", "nft", &[clamp]);
    for target in &far.probes {
        let clamped = probe(target);
        // The MSS that near announces now depends on the path MTU that its kernel has learnt.
        for (direction, whose) in [("clamped_there", "near"), ("clamped_back", "far")] {
            let (announced, received) = (&clamped[direction]["announced"], &clamped[direction]["received"]);
            assert_eq!((announced, received), (&clamped[whose]["announced"], &1300.into()), "{clamped:#}");
        }
        assert_eq!(clamped["fits"], true);
    }
    // If the target is not netrig's far end, only its announced MSS is visible. It is smaller than the path allows.
    let port = far.probes[0].rsplit(':').next().expect("a port").to_owned();
    let told = way.document(&["mtu", HOPS[0][2], "--tcp-port", &port]);
    assert_eq!(
        (&told["segments"]["near"]["received"], &told["segments"]["near"]["exactly"]),
        (&1300.into(), &true.into())
    );
    let found = told["found"].as_str().expect("a sentence");
    assert!(found.contains("less than the path carries (1360 B)"), "{found}");
    drop(far);
    way.close();
}
