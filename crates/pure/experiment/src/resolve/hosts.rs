//! Settings of nodes as hosts, and their checks.

use std::collections::BTreeMap;

use netrig_core::{Duration, Size};

use crate::file::diagnostic::Diagnostic;
use crate::file::document::{Entry, Value};
use crate::file::read::Reader;
use crate::file::sections::{IpVersion, KernelSetting, NodeSection};
use crate::{Fragmentation, Host, Node, Reception};

/// The most processors that can be selected: CPU_SETSIZE of Linux's C library.
const MOST_CPUS: u32 = 1024;
/// Least memory of a node, which an agent needs to start and for its sockets.
const LEAST_MEMORY: Size = Size::from_bytes(16_000_000);
/// Every internet module must forward a datagram of 68 octets without fragmentation (RFC 791 section 3.2). Every link
/// of IPv6 must have an MTU of 1280 octets or greater (RFC 8200 section 5).
const LEAST_MTU: Size = Size::from_bytes(68);
const LEAST_MTU_OF_IPV6: Size = Size::from_bytes(1280);
/// The longest IP packet.
const MOST_MTU: Size = Size::from_bytes(65_535);
/// The least MSS: TCP_MIN_MSS of Linux's `tcp.h`.
const LEAST_MSS: Size = Size::from_bytes(48);

/// Kernel settings for which the file has separate keys, each with a hint.
const SAID_OTHERWISE: [(&str, &str); 2] = [
    ("net.ipv4.ip_no_pmtu_disc", "`fragmentation` says what becomes of packets that are too long"),
    ("net.ipv4.ip_forward", "a node forwards if a path of the file leads through it"),
];

/// A fault: the path of the key, and the reason.
type Wrong = (Vec<&'static str>, String);

fn wrong(key: &'static str, why: impl Into<String>) -> Wrong {
    (vec![key], why.into())
}

/// Checks the cost of reception.
pub(super) fn check_reception(receive: &Reception) -> Result<(), Wrong> {
    let most = [
        ("per_packet", receive.per_packet, Duration::from_secs(1)),
        ("per_stream", receive.per_stream, Duration::from_millis(1)),
    ];
    if let Some((key, _, most)) = most.into_iter().find(|(_, takes, most)| takes > most) {
        return Err((vec!["receive", key], format!("`{key}` must be at most {most}")));
    }
    if receive.queue == 0 {
        let why = "`queue` must be above zero: the packet that is served is not counted";
        return Err((vec!["receive", "queue"], why.into()));
    }
    Ok(())
}

/// Checks the processors of a node.
pub(super) fn check_cpus(cpus: &[u32]) -> Result<(), Wrong> {
    if let Some(cpu) = (1..cpus.len()).find(|n| cpus[..*n].contains(&cpus[*n])).map(|n| cpus[n]) {
        return Err(wrong("cpus", format!("processor {cpu} is named twice")));
    }
    if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= MOST_CPUS) {
        let why =
            format!("there is no processor {cpu}: they are numbered from 0, and {MOST_CPUS} can be named");
        return Err(wrong("cpus", why));
    }
    Ok(())
}

/// The host settings of a node. A quota of 100 % has no effect and is left out.
pub(super) fn host(section: &NodeSection, ip: IpVersion) -> Result<Host, Wrong> {
    let processors = [("load", section.load), ("quota", section.quota)];
    if let Some((key, _)) = processors.iter().find(|(_, share)| share.is_some() && section.cpus.is_empty()) {
        return Err(wrong(
            key,
            format!("`{key}` is a share of the node's own processors: name them in `cpus`"),
        ));
    }
    if section.quota.is_some_and(|quota| quota.get() <= 0.0) {
        return Err(wrong("quota", "`quota` must be above zero: nothing would run on the node"));
    }
    let least_mtu = if ip == IpVersion::V6 { LEAST_MTU_OF_IPV6 } else { LEAST_MTU };
    let sizes = [
        ("memory", section.memory, LEAST_MEMORY, None),
        ("mtu", section.mtu, least_mtu, Some(MOST_MTU)),
        ("mss", section.mss, LEAST_MSS, Some(MOST_MTU)),
        ("window", section.window, Size::from_bytes(1), None),
    ];
    for (key, size, least, most) in sizes {
        let Some(size) = size else { continue };
        if size < least {
            return Err(wrong(key, format!("`{key}` must be at least {least}")));
        }
        if let Some(most) = most.filter(|most| size > *most) {
            return Err(wrong(key, format!("`{key}` must be at most {most}")));
        }
    }
    if section.fragmentation == Fragmentation::Allowed && ip == IpVersion::V6 {
        let why = "packets of IPv6 are never cut on their way (RFC 8200 section 5): `path-mtu` or `never`";
        return Err(wrong("fragmentation", why));
    }
    Ok(Host {
        load: section.load,
        quota: section.quota.filter(|quota| quota.get() < 1.0),
        memory: section.memory,
        mtu: section.mtu,
        mss: section.mss,
        window: section.window,
        fragmentation: section.fragmentation,
        sysctls: sysctls(&section.net),
    })
}

/// Kernel settings with their full names.
fn sysctls(net: &BTreeMap<String, BTreeMap<String, KernelSetting>>) -> BTreeMap<String, String> {
    let groups = net.iter().flat_map(|(group, settings)| settings.iter().map(move |one| (group, one)));
    groups.map(|(group, (name, value))| (format!("net.{group}.{name}"), value.to_string())).collect()
}

/// Refuses invalid kernel settings below `net`, and settings for which the file has separate keys.
pub(super) fn check_sysctls(section: &NodeSection, value: &Value, reader: &Reader<'_>) -> Option<()> {
    for (group, settings) in &section.net {
        for name in settings.keys() {
            let whole = format!("net.{group}.{name}");
            let why = if !is_setting(group) || !is_setting(name) {
                format!("`{whole}` is no setting of a kernel: these are of small letters, digits and `_`")
            } else if let Some((_, how)) = SAID_OTHERWISE.iter().find(|(other, _)| *other == whole) {
                format!("`{whole}` is not set by its name: {how}")
            } else {
                continue;
            };
            reader.report(reader.about(value, &["net", group, name], why));
            return None;
        }
    }
    Some(())
}

/// Whether a word can be part of a kernel setting's name.
pub(super) fn is_setting(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'0'..=b'9');
    !word.is_empty() && word.bytes().all(fits)
}

/// Checks that a node with a load or a quota shares no processor with another node, because the load or quota would
/// affect that node too.
pub(super) fn check_own_processors(nodes: &[Node], entries: &[&Entry], reader: &Reader<'_>) -> Option<()> {
    for (place, node) in nodes.iter().enumerate() {
        let Some(key) = ["load", "quota"].into_iter().find(|key| match *key {
            "load" => node.host.load.is_some(),
            _ => node.host.quota.is_some(),
        }) else {
            continue;
        };
        let others = nodes.iter().enumerate().filter(|(other, _)| *other != place);
        let shared = others
            .flat_map(|(_, other)| other.cpus.iter().map(move |cpu| (other, *cpu)))
            .find(|(_, cpu)| node.cpus.contains(cpu));
        let Some((other, cpu)) = shared else { continue };
        let entry = entries.iter().find(|entry| entry.key == node.group)?;
        let why = format!(
            "processor {cpu} is also that of node `{}`, and the `{key}` of node `{}` must be its own",
            other.name, node.name
        );
        reader.report(about(reader, &entry.value, &["cpus"], why));
        return None;
    }
    Some(())
}

fn about(reader: &Reader<'_>, value: &Value, path: &[&str], why: String) -> Diagnostic {
    reader.about(value, path, why).expected("processors that no other node has")
}
