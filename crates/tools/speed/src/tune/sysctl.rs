//! Names of kernel settings, their values, and the commands that set them.

use netrig_host::HostSettings;

/// The kernel settings that are checked.
pub const SYSCTLS: [&str; 18] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_congestion_control",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
];

/// The value of a numeric setting. `None` if it cannot be read.
pub(super) fn number(read: &HostSettings, name: &str) -> Option<u64> {
    read.sysctls.get(name)?.parse().ok()
}

/// The values of a setting that has a minimum, a default and a maximum. `None` if they cannot be read.
pub(super) fn three(read: &HostSettings, name: &str) -> Option<[u64; 3]> {
    let mut words = read.sysctls.get(name)?.split_whitespace().map(str::parse);
    let mut next = || words.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The command that sets a kernel setting.
pub(super) fn sysctl(name: &str, value: impl std::fmt::Display) -> String {
    let value = value.to_string();
    if value.contains(' ') {
        format!("sysctl -w {name}=\"{value}\"")
    } else {
        format!("sysctl -w {name}={value}")
    }
}
