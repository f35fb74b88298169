//! Findings on TCP options and on congestion control.

use netrig_host::HostSettings;

use super::finding::{SettingFinding, SettingVerdict};
use super::path::TunedPath;
use super::sysctl::{number, sysctl};
use netrig_core::number::size;

/// Maximum window without window scaling (RFC 7323 section 1.1), bytes.
const UNSCALED: u64 = 65_535;

/// Payload of a full segment on most paths, bytes.
const SEGMENT: u64 = 1448;

/// If Reno takes longer than this to recover from a loss, it is unsuitable for the path, s.
const LONG: f64 = 10.0;

pub(super) fn findings(read: &HostSettings, path: &TunedPath) -> Vec<SettingFinding> {
    vec![
        wide(
            read,
            path,
            "net.ipv4.tcp_window_scaling",
            "without it no window is larger than 65535 B (RFC 7323 section 2)",
        ),
        wide(
            read,
            path,
            "net.ipv4.tcp_timestamps",
            "with a large window they tell new sequence numbers from old ones, and the round trip of each segment (RFC 7323 \
             sections 4 and 5)",
        ),
        wide(
            read,
            path,
            "net.ipv4.tcp_sack",
            "several losses of a large window can be retransmitted in one round trip (RFC 2018, RFC 6675)",
        ),
        marks(read),
        probing(read),
        congestion(read, path),
    ]
}

/// The finding on an option that is needed only for windows above 65535 B.
fn wide(read: &HostSettings, path: &TunedPath, name: &str, why: &str) -> SettingFinding {
    let on = number(read, name);
    let finding = SettingFinding::new(name, on.map(|on| on.to_string()), why).needs("1");
    match (on, path.window()) {
        (None, _) => finding,
        (Some(1..), _) => finding.fits(),
        (Some(0), Some(window)) if window <= UNSCALED => SettingFinding {
            needs: None,
            why: format!("{why}; this path needs {} only", size(window as f64)),
            ..finding
        }
        .fits(),
        (Some(0), Some(_)) => finding.lacks(path, SettingVerdict::Unfit, sysctl(name, 1)),
        (Some(0), None) => finding,
    }
}

/// The finding on explicit congestion notification.
fn marks(read: &HostSettings) -> SettingFinding {
    let name = "net.ipv4.tcp_ecn";
    let on = number(read, name);
    let why = "a queue on the path may mark packets instead of dropping them (RFC 3168); 2, the default, accepts the peer's request";
    let finding = SettingFinding::new(name, on.map(|on| on.to_string()), why).needs("1 or 2");
    match on {
        None => finding,
        Some(0) => finding.mended(SettingVerdict::Unfit, sysctl(name, 2)),
        Some(_) => finding.fits(),
    }
}

/// The finding on path MTU discovery by TCP itself.
fn probing(read: &HostSettings) -> SettingFinding {
    let name = "net.ipv4.tcp_mtu_probing";
    let on = number(read, name);
    let why =
        "if long packets are dropped without an ICMP message, connections detect it by themselves (RFC 4821)";
    let finding = SettingFinding::new(name, on.map(|on| on.to_string()), why);
    match on {
        None => finding,
        Some(0) => {
            let why = format!("{why}; it is needed only then: `netrig probe mtu HOST` tells");
            SettingFinding { why, ..finding }
        }
        Some(_) => finding.fits(),
    }
}

/// The finding on the congestion control of this host.
fn congestion(read: &HostSettings, path: &TunedPath) -> SettingFinding {
    let name = "net.ipv4.tcp_congestion_control";
    let Some(chosen) = read.sysctls.get(name) else {
        return SettingFinding::new(name, None::<String>, "how this host shares a path when it sends");
    };
    let finding = |why: String| SettingFinding::new(name, Some(chosen), why);
    match chosen.as_str() {
        "cubic" => {
            finding("it recovers from losses on fast and long paths, too (RFC 9438)".to_owned()).fits()
        }
        "bbr" | "bbr2" | "bbr3" => {
            finding("it follows the rate at which the path delivers, not its losses".to_owned()).fits()
        }
        "dctcp" => finding(
            "it expects queues that mark early: it takes more than its share elsewhere (RFC 8257 section 5)"
                .to_owned(),
        )
        .needs("cubic")
        .mended(SettingVerdict::Unfit, sysctl(name, "cubic")),
        "reno" => reno(path, finding, name),
        _ => finding("its behaviour on this path is not known to netrig".to_owned()),
    }
}

/// The finding on Reno. Its window grows by one segment per round trip. To regain half of the window after a loss, it
/// needs as many round trips as this half has segments (RFC 5681 section 3.1).
fn reno(path: &TunedPath, finding: impl Fn(String) -> SettingFinding, name: &str) -> SettingFinding {
    let Some((window, round_trip)) = path.window().zip(path.round_trip) else {
        return finding("after a loss it gains a segment in each round trip".to_owned());
    };
    let back = (window / SEGMENT / 2) as f64 * round_trip.as_secs_f64();
    let finding = finding(format!("after a loss it takes {back:.1} s until this path is full again"));
    if back > LONG {
        finding.needs("cubic").lacks(path, SettingVerdict::Unfit, sysctl(name, "cubic"))
    } else {
        finding.fits()
    }
}
