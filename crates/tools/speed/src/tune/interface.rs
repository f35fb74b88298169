//! Findings on the outgoing interface: MTU, queues and offloads.

use std::net::IpAddr;

use netrig_host::{EgressInterface, HostSettings};

use super::finding::{SettingFinding, SettingVerdict};
use super::path::TunedPath;
use super::sysctl::{number, sysctl};

/// Minimum MTU of an IPv6 link (RFC 8200 section 5). An IPv4 link should have at least this MTU, too.
const LEAST_MTU: u32 = 1280;

/// Queue disciplines that separate flows and keep queues short, or have no queue.
const GOOD: [&str; 5] = ["fq", "fq_codel", "cake", "fq_pie", "noqueue"];

pub(super) fn findings(read: &HostSettings, path: &TunedPath) -> Vec<SettingFinding> {
    let mut findings = vec![backlog(read, path)];
    let Some(outlet) = &read.outlet else { return findings };
    findings.push(length(outlet, path));
    findings.push(discipline(read, outlet));
    findings.extend(queue(outlet, path));
    findings.extend(offloads(outlet, path));
    findings.extend(rings(outlet, path));
    findings
}

/// Number of packets that arrive while a processor is busy with other work.
fn packets_meanwhile(path: &TunedPath, mtu: u32) -> Option<u64> {
    path.meanwhile().map(|bytes| bytes.div_ceil(mtu.max(1).into()))
}

/// The finding on the queue of received packets that no processor has handled yet.
fn backlog(read: &HostSettings, path: &TunedPath) -> SettingFinding {
    let name = "net.core.netdev_max_backlog";
    let most = number(read, name);
    let why = "received packets that wait for a processor, if processors pass them on (RPS) or the driver has no queue of its own; \
               the excess is dropped";
    let finding = SettingFinding::new(name, most.map(|most| most.to_string()), why);
    let mtu = read.outlet.as_ref().and_then(|outlet| outlet.interface.mtu).unwrap_or(1500);
    let Some(needed) = packets_meanwhile(path, mtu) else { return finding };
    let finding = finding.needs(format!("{needed}: 10 ms of packets"));
    finding.at_least(path, needed, most, |most| sysctl(name, most))
}

/// The finding on the MTU and the resulting segment size.
fn length(outlet: &EgressInterface, path: &TunedPath) -> SettingFinding {
    let interface = &outlet.interface;
    let name = format!("mtu of {}", interface.name);
    let Some(mtu) = interface.mtu else {
        return SettingFinding::new(name, None::<String>, "how long packets may be");
    };
    let carried = outlet.path_mtu.unwrap_or(mtu).min(mtu);
    let headers = if path.host.is_some_and(|host| host.is_ipv6()) { 60 } else { 40 };
    let segments = format!("segments of {} B", carried.saturating_sub(headers));
    let finding = |why: String| SettingFinding::new(name, Some(format!("{mtu} B")), why);
    if mtu < LEAST_MTU {
        let mend = format!("ip link set {} mtu 1500", interface.name);
        return finding(segments)
            .needs(format!("{LEAST_MTU} B at least"))
            .mended(SettingVerdict::TooSmall, mend);
    }
    match path.host.filter(|_| carried < mtu) {
        None => finding(format!(
            "{segments}; the kernel has not learnt a smaller path MTU: `netrig probe mtu HOST` measures it"
        ))
        .needs(format!("{LEAST_MTU} B at least"))
        .fits(),
        // A limit that is set on the route, or the MTU of the interface itself, causes no loss.
        Some(_) if !outlet.route.is_learnt => {
            finding(format!("the kernel sends no more than {carried} B there: {segments}")).fits()
        }
        Some(host) => shortened(finding, outlet, host, carried, &segments),
    }
}

/// The finding on a path MTU below that of the interface. The kernel has learned it from ICMP and forgets it after a
/// time.
fn shortened(
    finding: impl FnOnce(String) -> SettingFinding,
    outlet: &EgressInterface,
    host: IpAddr,
    carried: u32,
    segments: &str,
) -> SettingFinding {
    let gateway = outlet.route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
    finding(format!(
        "a router on the way has said that the path carries {carried} B: {segments}. The kernel forgets it after ten minutes as a rule, \
         and loses longer packets until it is told again; where ICMP does not come through, nobody tells it, and {} helps",
        sysctl("net.ipv4.tcp_mtu_probing", 1)
    ))
    .needs(format!("{carried} B on this path"))
    .mended(
        SettingVerdict::Unfit,
        format!("ip route replace {host}{gateway} dev {} mtu {carried}", outlet.interface.name),
    )
}

/// The finding on the queue discipline of the interface.
fn discipline(read: &HostSettings, outlet: &EgressInterface) -> SettingFinding {
    let interface = &outlet.interface;
    let name = format!("queue discipline of {}", interface.name);
    let control = read.sysctls.get("net.ipv4.tcp_congestion_control").map_or("", String::as_str);
    let usual = read.sysctls.get("net.core.default_qdisc").map(String::as_str);
    // `mq` has one queue discipline of the default kind per transmit queue.
    let of_several = interface.discipline.as_deref() == Some("mq");
    let judged = if of_several { usual } else { interface.discipline.as_deref() };
    let command = |kind: &str| {
        let replace = format!("tc qdisc replace dev {} root", interface.name);
        if of_several {
            format!("{}; {replace} mq", sysctl("net.core.default_qdisc", kind))
        } else {
            format!("{replace} {kind}")
        }
    };
    let now = interface.discipline.as_ref().map(|kind| match (of_several, usual) {
        (true, Some(usual)) => format!("{kind} ({usual} by default)"),
        _ => kind.clone(),
    });
    let finding = SettingFinding::new(name, now, "where packets wait before they leave");
    match judged {
        None => finding,
        Some(kind) if control.starts_with("bbr") && !matches!(kind, "fq" | "noqueue") => SettingFinding {
            why: format!("{control} spaces its packets, which fq does at the least cost"),
            ..finding
        }
        .wants(read, "fq", &command),
        Some(kind) if GOOD.contains(&kind) => finding.fits(),
        Some("pfifo_fast" | "pfifo" | "bfifo") => SettingFinding {
            why: "one queue for all: where this interface is the bottleneck, everything waits behind what is sent in bulk (RFC 7567 \
                  section 2)"
                .to_owned(),
            ..finding
        }
        .wants(read, "fq_codel", &command),
        Some(_) => finding,
    }
}

impl SettingFinding {
    /// Completes a finding: the queue discipline `kind` is needed. The command is added if the kernel has this
    /// discipline. If the kernel's list cannot be read, the command is added with a condition.
    fn wants(self, read: &HostSettings, kind: &str, command: &dyn Fn(&str) -> String) -> Self {
        let known = read.disciplines.as_ref().map(|all| all.iter().any(|one| one == kind));
        let finding = self.needs(kind);
        match known {
            Some(true) => finding.mended(SettingVerdict::Unfit, command(kind)),
            None => {
                finding.mended(SettingVerdict::Unfit, format!("if the kernel has {kind}: {}", command(kind)))
            }
            Some(false) => {
                let why = format!("{}; this kernel has no {kind}", finding.why);
                Self { why, verdict: SettingVerdict::Unfit, ..finding }
            }
        }
    }
}

/// The finding on the length of a queue that is limited in packets. `None` for other queue disciplines.
fn queue(outlet: &EgressInterface, path: &TunedPath) -> Option<SettingFinding> {
    let interface = &outlet.interface;
    let counts = matches!(interface.discipline.as_deref(), Some("pfifo_fast" | "pfifo" | "bfifo"));
    let length = interface.queue.filter(|_| counts)?;
    let finding = SettingFinding::new(
        format!("txqueuelen of {}", interface.name),
        Some(length.to_string()),
        "packets that wait for transmission; if it is too small, bursts of TCP are dropped",
    );
    let Some(needed) = packets_meanwhile(path, interface.mtu.unwrap_or(1500)) else { return Some(finding) };
    let finding = finding.needs(format!("{needed}: 10 ms of packets"));
    let command = |length| format!("ip link set {} txqueuelen {length}", interface.name);
    Some(finding.at_least(path, needed, Some(length.into()), command))
}

/// The findings on segmentation and receive offloads.
fn offloads(outlet: &EgressInterface, path: &TunedPath) -> Vec<SettingFinding> {
    let interface = &outlet.interface.name;
    let segmentation = if path.host.is_some_and(|host| host.is_ipv6()) {
        "tx-tcp6-segmentation"
    } else {
        "tx-tcp-segmentation"
    };
    let one = |name: &str, short: &str, does: &str| {
        let is_on = outlet.offloads.as_ref().map(|on| on.iter().any(|known| known == name));
        let now = is_on.map(|on| if on { "on" } else { "off" });
        let why = format!("{does}: it saves processor time per byte");
        let finding = SettingFinding::new(format!("{name} of {interface}"), now, why);
        match (is_on, path.is_fast()) {
            (Some(true), _) => finding.fits(),
            (Some(false), Some(true)) => finding
                .needs("on")
                .mended(SettingVerdict::Unfit, format!("ethtool -K {interface} {short} on")),
            (Some(false), Some(false)) => finding.fits(),
            _ => finding.needs("on from 500 Mbit/s"),
        }
    };
    vec![
        one("rx-gro", "gro", "successive received packets are handled as one"),
        one("tx-generic-segmentation", "gso", "long pieces are cut as late as possible"),
        one(segmentation, "tso", "the interface itself cuts long pieces"),
    ]
}

/// The findings on the rings between the interface and its driver.
fn rings(outlet: &EgressInterface, path: &TunedPath) -> Vec<SettingFinding> {
    let interface = &outlet.interface.name;
    let Some(rings) = outlet.rings else { return Vec::new() };
    let one = |name: &str, short: &str, ring: Option<[u32; 2]>| {
        let [now, most] = ring.filter(|[_, most]| *most > 0)?;
        let why = "packets between the interface and its driver; if it is full, packets are dropped";
        let finding =
            SettingFinding::new(format!("{name} of {interface}"), Some(format!("{now} of {most}")), why);
        let mtu = outlet.interface.mtu.unwrap_or(1500);
        let Some(needed) = packets_meanwhile(path, mtu) else { return Some(finding) };
        let needed = needed.min(most.into());
        let finding = finding.needs(needed.to_string());
        let command = |better: u64| format!("ethtool -G {interface} {short} {}", better.min(most.into()));
        Some(finding.at_least(path, needed, Some(now.into()), command))
    };
    [one("receive ring", "rx", rings.receive), one("send ring", "tx", rings.send)]
        .into_iter()
        .flatten()
        .collect()
}
