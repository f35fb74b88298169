//! Findings for hosts with various settings and paths.

use netrig_core::{Duration, Rate};
use netrig_host::netlink::{Interface, RingSizes, Route};
use netrig_host::{EgressInterface, HostSettings};

use super::{RateFrom, SYSCTLS, SettingFinding, SettingVerdict, TunedPath, Tuning};
use SettingVerdict::{Fits, TooSmall, Unfit, Unknown};

/// A current Linux host on Ethernet with default settings, except for those in `otherwise`.
fn host(otherwise: &[(&str, &str)]) -> HostSettings {
    let usual = [
        ("net.ipv4.tcp_rmem", "4096\t131072\t6291456"),
        ("net.ipv4.tcp_wmem", "4096\t16384\t4194304"),
        ("net.ipv4.tcp_mem", "46914\t62552\t93828"),
        ("net.ipv4.tcp_adv_win_scale", "1"),
        ("net.ipv4.tcp_moderate_rcvbuf", "1"),
        ("net.ipv4.tcp_window_scaling", "1"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("net.ipv4.tcp_sack", "1"),
        ("net.ipv4.tcp_ecn", "2"),
        ("net.ipv4.tcp_mtu_probing", "0"),
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("net.core.rmem_max", "212992"),
        ("net.core.wmem_max", "212992"),
        ("net.core.rmem_default", "212992"),
        ("net.core.default_qdisc", "fq_codel"),
        ("net.core.netdev_max_backlog", "1000"),
    ];
    let settings = usual.iter().chain(otherwise).map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let interface = Interface {
        index: 2,
        name: "eth0".to_owned(),
        mtu: Some(1500),
        queue: Some(1000),
        discipline: Some("fq_codel".to_owned()),
    };
    let on = ["rx-gro", "tx-generic-segmentation", "tx-tcp-segmentation"].map(str::to_owned);
    HostSettings {
        sysctls: settings.collect(),
        page: Some(4096),
        processors: Some(4),
        governor: None,
        disciplines: Some(["fq", "fq_codel"].map(str::to_owned).into()),
        outlet: Some(EgressInterface {
            interface,
            route: Route { interface: 2, gateway: Some([192, 0, 2, 254].into()), is_learnt: false },
            path_mtu: Some(1500),
            bits_per_s: Some(1_000_000_000),
            offloads: Some(on.into()),
            rings: Some(RingSizes { receive: Some([256, 4096]), send: None }),
            steering: vec!["0".to_owned()],
        }),
        unread: Vec::new(),
    }
}

fn path(mbit_per_s: u64, milliseconds: u64) -> TunedPath {
    TunedPath {
        host: Some([192, 0, 2, 1].into()),
        round_trip: Some(Duration::from_millis(milliseconds)),
        rate: Some((Rate::from_bits_per_s(mbit_per_s * 1_000_000), RateFrom::Told)),
    }
}

fn finding(tuning: &Tuning, name: &str) -> SettingFinding {
    let found = tuning.settings.iter().find(|finding| finding.name.starts_with(name));
    found.unwrap_or_else(|| panic!("{name}: {tuning:#?}")).clone()
}

/// The verdict on one setting for one path, and the command that corrects the setting.
fn told(otherwise: &[(&str, &str)], path: TunedPath, name: &str) -> (SettingVerdict, Option<String>) {
    let finding = finding(&Tuning::of(&host(otherwise), path), name);
    (finding.verdict, finding.mend)
}

#[test]
fn buffers_hold_the_window_of_the_path_and_their_bookkeeping() {
    // 100 Mbit/s for 40 ms are 500 KB. A buffer needs twice as much.
    let tuning = Tuning::of(&host(&[]), path(100, 40));
    assert_eq!(tuning.window_bytes, Some(500_000));
    let [rmem, wmem] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].map(|name| finding(&tuning, name));
    assert_eq!((rmem.verdict, rmem.needs.as_deref()), (Fits, Some("1 MB at most")));
    assert_eq!((wmem.verdict, wmem.mend), (Fits, None));
    // 1 Gbit/s for 100 ms are 12.5 MB: a buffer of 25 MB. The next power of two is 33 554 432.
    for (name, mend) in [
        ("net.ipv4.tcp_rmem", "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 33554432\""),
        ("net.ipv4.tcp_wmem", "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 33554432\""),
        ("net.core.rmem_max", "sysctl -w net.core.rmem_max=16777216"),
    ] {
        assert_eq!(told(&[], path(1000, 100), name), (TooSmall, Some(mend.to_owned())));
    }
    // With a scale of 2, three quarters of the buffer are the window; with -2, a quarter.
    for (scale, needs) in [("2", "666.7 KB at most"), ("-2", "2 MB at most")] {
        let rmem = finding(
            &Tuning::of(&host(&[("net.ipv4.tcp_adv_win_scale", scale)]), path(100, 40)),
            "net.ipv4.tcp_rmem",
        );
        assert!(
            rmem.needs.as_deref().is_some_and(|told| told == needs || told.starts_with("667")),
            "{rmem:?}"
        );
    }
}

#[test]
fn who_has_little_memory_for_all_is_told() {
    let small = [("net.ipv4.tcp_mem", "100\t200\t300")];
    let (verdict, mend) = told(&small, path(1000, 100), "net.ipv4.tcp_mem");
    // 4 · 12.5 MB are 12 208 pages of 4096 B.
    assert_eq!(
        (verdict, mend.as_deref()),
        (TooSmall, Some("sysctl -w net.ipv4.tcp_mem=\"100 16384 32768\""))
    );
    assert_eq!(told(&small, path(1, 10), "net.ipv4.tcp_mem").0, Fits);
}

#[test]
fn options_matter_where_windows_are_large() {
    for name in ["net.ipv4.tcp_window_scaling", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_sack"] {
        let off = [(name, "0")];
        assert_eq!(told(&off, path(100, 40), name), (Unfit, Some(format!("sysctl -w {name}=1"))));
        // 5 Mbit/s for 10 ms are 6250 B.
        assert_eq!(told(&off, path(5, 10), name), (Fits, None));
        assert_eq!(told(&off, TunedPath::default(), name), (Unknown, None), "nobody knows the window");
        assert_eq!(told(&[], path(100, 40), name), (Fits, None));
    }
    // A buffer that does not grow is sufficient if its initial size is.
    let fixed = [("net.ipv4.tcp_moderate_rcvbuf", "0")];
    assert_eq!(told(&fixed, path(5, 10), "net.ipv4.tcp_moderate").0, Fits);
    assert_eq!(told(&fixed, path(100, 40), "net.ipv4.tcp_moderate").0, Unfit);
    assert_eq!(told(&[("net.ipv4.tcp_ecn", "0")], path(5, 10), "net.ipv4.tcp_ecn").0, Unfit);
}

#[test]
fn congestion_controls_are_judged_by_the_path() {
    let name = "net.ipv4.tcp_congestion_control";
    for (control, at, verdict) in [
        ("cubic", path(1000, 100), Fits),
        // 62.5 KB are 43 segments. To regain half of them takes 0.21 s.
        ("reno", path(50, 10), Fits),
        // 12.5 MB are 8632 segments. It takes 4316 round trips of 100 ms until the path is full again.
        ("reno", path(1000, 100), Unfit),
        ("reno", TunedPath::default(), Unknown),
        ("dctcp", path(50, 10), Unfit),
        ("vegas", path(50, 10), Unknown),
    ] {
        assert_eq!(told(&[(name, control)], at, name).0, verdict, "{control}");
    }
}

#[test]
fn queue_disciplines_are_judged_by_what_sends() {
    let judged = |discipline: &str, control: &str, usual: &str| {
        let mut host =
            host(&[("net.ipv4.tcp_congestion_control", control), ("net.core.default_qdisc", usual)]);
        host.outlet.as_mut().unwrap().interface.discipline = Some(discipline.to_owned());
        let finding = finding(&Tuning::of(&host, path(100, 40)), "queue discipline");
        (finding.verdict, finding.mend.unwrap_or_default())
    };
    assert_eq!(judged("fq_codel", "cubic", "fq_codel").0, Fits);
    assert_eq!(judged("noqueue", "bbr", "fq_codel").0, Fits);
    assert_eq!(
        judged("fq_codel", "bbr", "fq_codel"),
        (Unfit, "tc qdisc replace dev eth0 root fq".to_owned())
    );
    assert_eq!(
        judged("pfifo_fast", "cubic", "pfifo_fast"),
        (Unfit, "tc qdisc replace dev eth0 root fq_codel".to_owned())
    );
    assert_eq!(judged("mq", "cubic", "fq_codel").0, Fits);
    let (verdict, mend) = judged("mq", "bbr", "pfifo_fast");
    assert!(verdict == Unfit && mend.starts_with("sysctl -w net.core.default_qdisc=fq; tc"), "{mend}");
    assert_eq!(judged("htb", "cubic", "fq_codel").0, Unknown);
}

#[test]
fn nobody_is_told_to_take_a_queue_discipline_that_the_kernel_has_not() {
    let told = |disciplines: Option<&[&str]>| {
        let mut host = host(&[]);
        host.disciplines = disciplines.map(|all| all.iter().map(|kind| (*kind).to_owned()).collect());
        host.outlet.as_mut().unwrap().interface.discipline = Some("pfifo_fast".to_owned());
        finding(&Tuning::of(&host, path(100, 40)), "queue discipline")
    };
    let without = told(Some(&["fifo"]));
    assert_eq!((without.verdict, without.mend), (Unfit, None));
    assert!(without.why.ends_with("this kernel has no fq_codel"), "{}", without.why);
    let unread = told(None).mend.unwrap();
    assert_eq!(unread, "if the kernel has fq_codel: tc qdisc replace dev eth0 root fq_codel");
}

#[test]
fn what_the_path_carries_is_held_against_what_the_interface_sends() {
    let told = |path_mtu, is_learnt, gateway| {
        let mut host = host(&[]);
        let outlet = host.outlet.as_mut().unwrap();
        (outlet.path_mtu, outlet.route) = (path_mtu, Route { interface: 2, gateway, is_learnt });
        let finding = finding(&Tuning::of(&host, path(100, 40)), "mtu of eth0");
        (finding.verdict, finding.needs.unwrap_or_default(), finding.mend, finding.why)
    };
    let gateway = Some([192, 0, 2, 254].into());
    for path_mtu in [None, Some(1500), Some(9000)] {
        assert_eq!(told(path_mtu, false, gateway).0, Fits, "{path_mtu:?}");
    }
    let (verdict, needs, mend, why) = told(Some(1400), true, gateway);
    assert_eq!((verdict, needs.as_str()), (Unfit, "1400 B on this path"));
    assert_eq!(mend.as_deref(), Some("ip route replace 192.0.2.1 via 192.0.2.254 dev eth0 mtu 1400"));
    assert!(why.contains("segments of 1360 B") && why.contains("net.ipv4.tcp_mtu_probing=1"), "{why}");
    let (.., neighbour, _) = told(Some(1400), true, None);
    assert_eq!(neighbour.as_deref(), Some("ip route replace 192.0.2.1 dev eth0 mtu 1400"));
    // An MTU that is set on the route needs no change.
    let (verdict, _, mend, why) = told(Some(1400), false, gateway);
    assert!(verdict == Fits && mend.is_none() && why.contains("1360 B"), "{why}");
}

#[test]
fn what_comes_while_a_processor_is_away_is_held() {
    // 1 Gbit/s for 10 ms are 1.25 MB or 834 packets. At 10 Gbit/s there are ten times as many.
    assert_eq!(told(&[], path(1000, 1), "net.core.netdev_max_backlog").0, Fits);
    let (verdict, mend) = told(&[], path(10_000, 1), "net.core.netdev_max_backlog");
    assert_eq!((verdict, mend.as_deref()), (TooSmall, Some("sysctl -w net.core.netdev_max_backlog=16384")));
    assert_eq!(told(&[], path(50, 1), "net.core.rmem_default").0, Fits);
    assert_eq!(told(&[], path(100, 1), "net.core.rmem_default").0, TooSmall);
    assert_eq!(
        told(&[], path(1000, 1), "receive ring"),
        (TooSmall, Some("ethtool -G eth0 rx 1024".to_owned()))
    );
    assert_eq!(told(&[], path(100, 1), "receive ring").0, Fits);
}

#[test]
fn only_a_fast_path_needs_help_of_the_hardware() {
    let judged = |at: TunedPath, name: &str| {
        let mut host = host(&[]);
        host.governor = Some("powersave".to_owned());
        host.outlet.as_mut().unwrap().offloads = Some(Vec::new());
        finding(&Tuning::of(&host, at), name).verdict
    };
    for name in ["rx-gro", "tx-generic", "tx-tcp", "frequency governor", "receive steering"] {
        assert_eq!(judged(path(1000, 1), name), Unfit, "{name}");
        assert_eq!(judged(path(100, 1), name), Fits, "{name}");
        assert_eq!(judged(TunedPath::default(), name), Unknown, "{name}: the interface alone tells nothing");
    }
}

#[test]
fn an_interface_bounds_what_a_path_needs_and_no_more() {
    // The rate is bounded by the 1 Gbit/s of the interface. A buffer that suffices for this rate fits; whether a
    // smaller one suffices is unknown.
    let near = TunedPath { round_trip: Some(Duration::from_millis(10)), ..TunedPath::default() };
    let far = TunedPath { round_trip: Some(Duration::from_millis(100)), ..TunedPath::default() };
    assert_eq!(told(&[], near, "net.ipv4.tcp_rmem"), (Fits, None));
    assert_eq!(told(&[], far, "net.ipv4.tcp_rmem"), (Unknown, None));
    assert_eq!(Tuning::of(&host(&[]), far).rate_from, Some(RateFrom::Interface));
}

#[test]
fn a_short_mtu_and_a_full_table_are_told() {
    let mut host =
        host(&[("net.netfilter.nf_conntrack_count", "950"), ("net.netfilter.nf_conntrack_max", "1000")]);
    host.outlet.as_mut().unwrap().interface.mtu = Some(576);
    let tuning = Tuning::of(&host, path(10, 10));
    let mtu = finding(&tuning, "mtu of eth0");
    assert_eq!((mtu.verdict, mtu.mend.as_deref()), (TooSmall, Some("ip link set eth0 mtu 1500")));
    assert!(mtu.why.contains("segments of 536 B"), "{mtu:?}");
    assert_eq!(finding(&tuning, "net.netfilter.nf_conntrack_max").verdict, TooSmall);
    assert!(
        tuning.found.ends_with("to be mended: mtu of eth0 and net.netfilter.nf_conntrack_max"),
        "{}",
        tuning.found
    );
}

/// If nothing can be read, no verdict is known and no change is recommended.
#[test]
fn what_cannot_be_read_is_unknown() {
    for at in [TunedPath::default(), path(1000, 100)] {
        let tuning = Tuning::of(&HostSettings::default(), at);
        assert!(!tuning.settings.is_empty());
        for finding in &tuning.settings {
            assert_eq!(
                (finding.verdict, &finding.now, &finding.mend),
                (Unknown, &None, &None),
                "{finding:?}"
            );
        }
    }
}

/// Every setting in [`SYSCTLS`] affects the findings.
#[test]
fn every_setting_that_is_read_is_looked_at() {
    let whole = host(&[("net.netfilter.nf_conntrack_count", "1"), ("net.netfilter.nf_conntrack_max", "9")]);
    let tuning = |read: &HostSettings| {
        let mut read = read.clone();
        // With `mq`, the default queue discipline decides.
        read.outlet.as_mut().unwrap().interface.discipline = Some("mq".to_owned());
        Tuning::of(&read, path(1000, 100))
    };
    for name in SYSCTLS {
        let mut without = whole.clone();
        without.sysctls.remove(name);
        let same = tuning(&without) == tuning(&whole);
        // Without this setting, the default share is used, so the findings are the same.
        assert!(!same || name == "net.ipv4.tcp_adv_win_scale", "{name}");
    }
}
