//! Findings on the buffers of connections and of datagram sockets.

use netrig_host::HostSettings;

use super::finding::{SettingFinding, SettingVerdict};
use super::path::TunedPath;
use super::sysctl::{number, sysctl, three};
use netrig_core::number::{rate, size, time};

/// Round-trip time that is assumed if that of the path is not known, s. It serves only to state the rate that a buffer
/// permits.
const FAR: f64 = 0.1;

/// Share of a send buffer for unacknowledged data. The rest is overhead of the segments (`tcp_sndbuf_expand` in Linux's
/// net/ipv4/tcp_input.c).
const SEND_SHARE: f64 = 0.5;

pub(super) fn findings(read: &HostSettings, path: &TunedPath) -> Vec<SettingFinding> {
    vec![
        of_connections(read, path, "net.ipv4.tcp_rmem", receive_share(read), "receives"),
        of_connections(read, path, "net.ipv4.tcp_wmem", SEND_SHARE, "sends"),
        growing(read, path),
        in_all(read, path),
        asked_for(read, path, "net.core.rmem_max"),
        asked_for(read, path, "net.core.wmem_max"),
        of_datagrams(read, path),
    ]
}

/// Share of a receive buffer that is offered as the window (`tcp_adv_win_scale`, ip-sysctl). Since Linux 6.6 each
/// connection starts with a half and adapts it.
fn receive_share(read: &HostSettings) -> f64 {
    let scale = read.sysctls.get("net.ipv4.tcp_adv_win_scale").and_then(|text| text.parse::<i32>().ok());
    match scale.unwrap_or(1).clamp(-31, 31) {
        scale @ 1.. => 1.0 - 1.0 / (1_u64 << scale) as f64,
        scale => 1.0 / (1_u64 << -scale) as f64,
    }
}

/// The finding on the maximum buffer of a connection. `share` is the share of the buffer that holds the window.
fn of_connections(
    read: &HostSettings,
    path: &TunedPath,
    name: &str,
    share: f64,
    does: &str,
) -> SettingFinding {
    let set = three(read, name);
    let Some([least, usual, most]) = set else {
        return SettingFinding::new(
            name,
            None::<String>,
            format!("how much memory a connection that {does} may have"),
        );
    };
    let reach = most as f64 * share;
    let round_trip = path.round_trip.map_or(FAR, |span| span.as_secs_f64().max(1e-6));
    let finding = SettingFinding::new(
        name,
        Some(format!("{least} {usual} {most}")),
        format!(
            "a connection that {does} has {} underway at most, which is {} at a round trip of {}",
            size(reach),
            rate(reach * 8.0 / round_trip),
            time(round_trip)
        ),
    );
    let Some(window) = path.window() else { return finding };
    let needed = (window as f64 / share).ceil() as u64;
    let finding = finding.needs(format!("{} at most", size(needed as f64)));
    finding.at_least(path, needed, Some(most), |most| sysctl(name, format!("{least} {usual} {most}")))
}

/// The finding on whether receive buffers grow.
fn growing(read: &HostSettings, path: &TunedPath) -> SettingFinding {
    let name = "net.ipv4.tcp_moderate_rcvbuf";
    let (on, first) = (number(read, name), three(read, "net.ipv4.tcp_rmem"));
    let why = "receive buffers grow with the received data; otherwise they keep their first size";
    let finding = SettingFinding::new(name, on.map(|on| on.to_string()), why).needs("1");
    let begins = first.map(|[_, usual, _]| (usual as f64 * receive_share(read)) as u64);
    match (on, begins.zip(path.window())) {
        (None, _) => finding,
        (Some(1..), _) => finding.fits(),
        (Some(0), Some((begins, window))) if begins >= window => finding.fits(),
        (Some(0), _) => finding.lacks(path, SettingVerdict::Unfit, sysctl(name, 1)),
    }
}

/// The finding on the memory limit of all connections together, which is in pages.
fn in_all(read: &HostSettings, path: &TunedPath) -> SettingFinding {
    let name = "net.ipv4.tcp_mem";
    let why = "all connections together: above the second number their buffers are limited, above the third they get no memory";
    let Some([least, pressure, most]) = three(read, name) else {
        return SettingFinding::new(name, None::<String>, why);
    };
    let finding = SettingFinding::new(name, Some(format!("{least} {pressure} {most} pages")), why);
    let Some((window, page)) = path.window().zip(read.page) else { return finding };
    // One window in each direction, each doubled for its overhead.
    let needed = (4 * window).div_ceil(page.max(1) as u64);
    finding.needs(format!("{needed} pages as the second number")).at_least(
        path,
        needed,
        Some(pressure),
        |pressure| sysctl(name, format!("{least} {pressure} {}", 2 * pressure)),
    )
}

/// The finding on the maximum buffer that a program may request. The kernel doubles it for its overhead.
fn asked_for(read: &HostSettings, path: &TunedPath, name: &str) -> SettingFinding {
    let most = number(read, name);
    let why = "the limit of buffers that a program chooses itself; other connections are not affected";
    let finding = SettingFinding::new(name, most.map(|most| most.to_string()), why);
    let Some(window) = path.window() else { return finding };
    finding.needs(size(window as f64)).at_least(path, window, most, |most| sysctl(name, most))
}

/// The finding on the default buffer of a UDP socket. It must hold the datagrams that arrive while the program has no
/// processor.
fn of_datagrams(read: &HostSettings, path: &TunedPath) -> SettingFinding {
    let name = "net.core.rmem_default";
    let usual = number(read, name);
    let why =
        "datagrams wait here, with overhead, while their program has no processor; the excess is dropped";
    let finding = SettingFinding::new(name, usual.map(|usual| usual.to_string()), why);
    let Some(needed) = path.meanwhile().map(|bytes| 2 * bytes) else { return finding };
    let finding = finding.needs(format!("{}: 10 ms of datagrams", size(needed as f64)));
    finding.at_least(path, needed, usual, |usual| sysctl(name, usual))
}
