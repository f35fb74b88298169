//! Reads the nodes and links, and assigns addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netrig_core::Direction;
use netrig_link::{LinkSettings, Preset, SettingsError, wifi};

use super::groups::{
    GroupSize, Groups, MAX_DROPS, MAX_LINKS, MAX_NODES, MAX_RULES, between, check_name, made_of, members,
    tables, wired,
};
use super::hosts;
use crate::file::diagnostic::Diagnostic;
use crate::file::document::{Entry, Kind, Table, Value};
use crate::file::read::Reader;
use crate::file::sections::{DIRECT_KEYS, IpVersion, LINE_KEYS, LinkSection, NodeSection, WIFI_KEYS};
use crate::program::{MOST, NodeApplication, NodeApplications, Program};
use crate::{LinkSpec, Node, WifiLane, channels};

/// The nodes and links of a scenario, and the groups that name them.
pub(super) struct Topology {
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<LinkSpec>,
    node_groups: Groups,
    link_groups: Groups,
    /// Number of packets that all links list to be dropped by number.
    drops: usize,
    /// Number of rules, classes and curves of all links.
    rules: usize,
}

impl Topology {
    /// Reads `[node.*]` and `[link.*]`.
    pub(super) fn read(root: &Value, reader: &Reader<'_>, ip: IpVersion) -> Option<Self> {
        let mut topology = Self {
            nodes: Vec::new(),
            links: Vec::new(),
            node_groups: Groups::new(),
            link_groups: Groups::new(),
            drops: 0,
            rules: 0,
        };
        let mut whole = true;
        for entry in tables(root, "node", reader) {
            whole &= topology.read_node(entry, reader, ip).is_some();
        }
        let entries: Vec<_> = tables(root, "node", reader).collect();
        whole &= hosts::check_own_processors(&topology.nodes, &entries, reader).is_some();
        for entry in tables(root, "link", reader) {
            whole &= topology.read_link(entry, reader, ip, whole).is_some();
        }
        whole &= topology.check_channels(root, reader).is_some();
        whole &= topology.resolve_hosts(root, reader).is_some();
        whole.then_some(topology)
    }

    /// The index range of the nodes that `reference` names.
    pub(super) fn node(&self, reference: &str) -> Option<std::ops::Range<usize>> {
        members(&self.node_groups, reference)
    }

    /// The index range of the links that `reference` names.
    pub(super) fn link(&self, reference: &str) -> Option<std::ops::Range<usize>> {
        members(&self.link_groups, reference)
    }

    /// The fault that there is no node `reference`, which is at `path` in `value`.
    pub(super) fn unknown_node(
        &self,
        reader: &Reader<'_>,
        value: &Value,
        path: &[&str],
        name: &str,
    ) -> Diagnostic {
        unknown(reader, value, path, "node", name, &self.node_groups)
    }

    /// The fault that there is no link `reference`, which is at `path` in `value`.
    pub(super) fn unknown_link(
        &self,
        reader: &Reader<'_>,
        value: &Value,
        path: &[&str],
        name: &str,
    ) -> Diagnostic {
        unknown(reader, value, path, "link", name, &self.link_groups)
    }

    fn read_node(&mut self, entry: &Entry, reader: &Reader<'_>, ip: IpVersion) -> Option<()> {
        let named = check_name(entry, reader);
        let section: NodeSection = reader.read(&entry.value)?;
        let receive = section.receive.as_ref().map_or(Ok(()), hosts::check_reception);
        let host =
            receive.and_then(|()| hosts::check_cpus(&section.cpus)).and_then(|()| hosts::host(&section, ip));
        let host = match host {
            Ok(host) => host,
            Err((path, why)) => {
                reader.report(reader.about(&entry.value, &path, why));
                return None;
            }
        };
        hosts::check_sysctls(&section, &entry.value, reader)?;
        let programs = programs(&section.application, entry, reader)?;
        let number = section.count.unwrap_or(1) as usize;
        let total = (self.nodes.len() as u64).saturating_add(number as u64);
        if number == 0 || total > MAX_NODES {
            let why = match number {
                0 => "a count of 0 makes none: it must be at least 1".to_owned(),
                _ => format!("{total} nodes; at most {MAX_NODES} can be handled"),
            };
            reader.report(reader.about(&entry.value, &["count"], why));
            return None;
        }
        let count = GroupSize { number, numbered: section.count.is_some() };
        let first = self.nodes.len();
        self.nodes.extend((0..number).map(|i| Node {
            name: count.name(&entry.key, i),
            group: entry.key.clone(),
            receive: section.receive,
            programs: programs.clone(),
            cpus: section.cpus.clone(),
            host: host.clone(),
        }));
        self.node_groups.insert(entry.key.clone(), first..self.nodes.len());
        named.then_some(())
    }

    /// Reads one `[link.*]`. Looks up its ends only if all nodes are known (`nodes_known`), to avoid follow-up errors.
    fn read_link(
        &mut self,
        entry: &Entry,
        reader: &Reader<'_>,
        ip: IpVersion,
        nodes_known: bool,
    ) -> Option<()> {
        let named = check_name(entry, reader);
        let lines = read_lines(&entry.value, reader);
        let table = entry.value.table().map(|table| table.only(&["between", "count", "channel"]))?;
        let section: LinkSection = reader.read(&made_of(&entry.value, table))?;
        let (true, true, Some([forward, backward])) = (named, nodes_known, lines) else { return None };
        let [a, b] = self.ends(&section, &entry.value, reader)?;
        let wiring = between(section.count, [a.len(), b.len()]);
        let count = match wiring {
            Ok(count) => count,
            Err(why) => {
                let key = if section.count.is_some() { "count" } else { "between" };
                reader.report(reader.about(&entry.value, &[key], why));
                return None;
            }
        };
        let total = (self.links.len() as u64).saturating_add(count.number as u64);
        if total > MAX_LINKS {
            let why = format!("{total} links; at most {MAX_LINKS} can be handled");
            reader.report(reader.about(&entry.value, &["count"], why));
            return None;
        }
        self.drops += count.number.saturating_mul(forward.drop().len() + backward.drop().len());
        if self.drops > MAX_DROPS {
            let why = format!("{} packets to be dropped; at most {MAX_DROPS} can be handled", self.drops);
            reader.report(reader.about(&entry.value, &["drop"], why));
            return None;
        }
        self.rules += count.number.saturating_mul(forward.rules() + backward.rules());
        if self.rules > MAX_RULES {
            let why = format!("{} rules, classes and curves; at most {MAX_RULES} can be handled", self.rules);
            reader.report(reader.about(&entry.value, &[], why));
            return None;
        }
        let first = self.links.len();
        let is_wifi = matches!(forward, LinkSettings::Wifi(_));
        let channel =
            |i| is_wifi.then(|| section.channel.clone().unwrap_or_else(|| count.name(&entry.key, i)));
        self.links.extend((0..count.number).map(|i| LinkSpec {
            name: count.name(&entry.key, i),
            group: entry.key.clone(),
            ends: [wired(&a, i), wired(&b, i)],
            addresses: addresses(first + i, ip),
            forward: forward.clone(),
            backward: backward.clone(),
            channel: channel(i),
        }));
        self.link_groups.insert(entry.key.clone(), first..self.links.len());
        Some(())
    }

    /// Checks that the links of each channel can share the channel.
    fn check_channels(&self, root: &Value, reader: &Reader<'_>) -> Option<()> {
        for (channel, lanes) in channels(&self.links) {
            let settings: Vec<_> = lanes.iter().map(WifiLane::as_lane).collect();
            let Err((place, error)) = wifi::check(&settings) else { continue };
            let WifiLane { link, direction, .. } = lanes[place];
            let of_link = root.at(&["link", &self.links[link].group]);
            let value = place_of(of_link, direction == Direction::Backward, &error);
            reader.report(about_setting(value, reader, &error).note(format!("the channel is `{channel}`")));
            return None;
        }
        Some(())
    }

    /// Replaces the nodes that rules and classes name by their addresses.
    fn resolve_hosts(&mut self, root: &Value, reader: &Reader<'_>) -> Option<()> {
        let (nodes, groups) = (self.addresses_of_nodes(), &self.node_groups);
        let addresses =
            |name: &str| members(groups, name).map_or(Vec::new(), |nodes_of| nodes[nodes_of].concat());
        for link in &mut self.links {
            for (back, settings) in [(false, &mut link.forward), (true, &mut link.backward)] {
                let LinkSettings::Line(line) = settings else { continue };
                let Err(error) = line.resolve(addresses) else { continue };
                let value = place_of(root.at(&["link", &link.group]), back, &error);
                reader.report(about_setting(value, reader, &error));
                return None;
            }
        }
        Some(())
    }

    /// For each node, the addresses of its interfaces.
    fn addresses_of_nodes(&self) -> Vec<Vec<IpAddr>> {
        let mut nodes = vec![Vec::new(); self.nodes.len()];
        for link in &self.links {
            for (node, address) in link.ends.iter().zip(link.addresses) {
                nodes[*node].push(address);
            }
        }
        nodes
    }

    fn ends(
        &self,
        section: &LinkSection,
        value: &Value,
        reader: &Reader<'_>,
    ) -> Option<[std::ops::Range<usize>; 2]> {
        let ends = [0, 1].map(|end| {
            let name = &section.between[end];
            let nodes = self.node(name);
            if nodes.is_none() {
                let path = ["between", if end == 0 { "0" } else { "1" }];
                reader.report(self.unknown_node(reader, value, &path, name));
            }
            nodes
        });
        let [Some(a), Some(b)] = ends else { return None };
        if a.start < b.end && b.start < a.end {
            reader.report(reader.about(value, &["between"], "a link joins two different nodes"));
            return None;
        }
        Some([a, b])
    }
}

fn unknown(
    reader: &Reader<'_>,
    value: &Value,
    path: &[&str],
    what: &str,
    name: &str,
    groups: &Groups,
) -> Diagnostic {
    // If `client` has only six members, the message for `client#9` gives the allowed numbers.
    if let Some(group) = name.split_once('#').and_then(|(group, _)| groups.get(group)) {
        return reader
            .about(value, path, format!("unknown {what} `{name}`"))
            .expected(format!("a number from 1 to {} after the `#`", group.len()));
    }
    reader
        .about(value, path, format!("unknown {what} `{name}`"))
        .among(name, groups.keys().map(String::as_str))
}

/// Both directions of a link. The settings of the link override its preset. For the reverse direction, the settings in
/// `reverse` override both.
fn read_lines(value: &Value, reader: &Reader<'_>) -> Option<[LinkSettings; 2]> {
    let table = value.table()?;
    let own = table.without(keys(table));
    let preset = table.get("preset").filter(|_| keys(table).contains(&"preset"));
    let [up, down] = match preset {
        Some(preset) => preset_lines(preset, reader)?,
        None => [Table::default(), Table::default()],
    };
    let forward = read_line(&made_of(value, up.overlaid(&own)), reader);
    let reverse = table.get("reverse").filter(|_| !is_direct(table));
    let none = Table::default();
    let over = match reverse.map(|reverse| &reverse.kind) {
        None if preset.is_none() => return forward.map(|line| [line.clone(), line]),
        None => &none,
        Some(Kind::Table(over)) => over,
        Some(_) => {
            reader.report(reader.about(value, &["reverse"], "expected a table of the values that differ"));
            return None;
        }
    };
    if let Some(entry) = over.entries.iter().find(|entry| entry.key == "preset") {
        let why = "a preset sets both directions: put it beside `reverse`, not into it";
        reader.report(Diagnostic::error(entry.key_span.clone(), why));
        return None;
    }
    // A fault of the link itself also affects its reverse direction; one report suffices.
    let forward = forward?;
    let backward = read_line(&made_of(value, down.overlaid(&own).overlaid(over)), reader)?;
    Some([forward, backward])
}

/// The settings of the two lines of a preset, as tables of the file: from the subscriber and to the subscriber.
fn preset_lines(value: &Value, reader: &Reader<'_>) -> Option<[Table; 2]> {
    let preset: Preset = reader.read(value)?;
    Some(preset.lines().map(|line| {
        // The settings of a line are a table, so they can be serialised.
        let written = serde_json::to_value(line).unwrap_or_default();
        Table::standing_at(&value.span, written)
    }))
}

/// Whether the link is a WiFi link, which has the key `standard`.
fn is_wifi(link: &Table) -> bool {
    link.get("standard").is_some()
}

/// Whether the link is a cable, the only kind of link with the key `kind`.
fn is_direct(link: &Table) -> bool {
    link.get("kind").is_some()
}

/// The keys of a link that are not settings of a direction.
fn keys(link: &Table) -> &'static [&'static str] {
    if is_direct(link) {
        DIRECT_KEYS
    } else if is_wifi(link) {
        WIFI_KEYS
    } else {
        LINE_KEYS
    }
}

fn read_line(value: &Value, reader: &Reader<'_>) -> Option<LinkSettings> {
    let line = if is_direct(value.table()?) {
        LinkSettings::Direct(reader.read_beside(value, DIRECT_KEYS)?)
    } else if is_wifi(value.table()?) {
        LinkSettings::Wifi(reader.read_beside(value, WIFI_KEYS)?)
    } else {
        LinkSettings::Line(reader.read_beside(value, LINE_KEYS)?)
    };
    if let Err(error) = line.check() {
        reader.report(about_setting(value, reader, &error));
        return None;
    }
    Some(line)
}

/// The table that contains the setting with the error. For the reverse direction, it is `reverse` if `reverse` contains
/// the setting.
fn place_of<'v>(link: &'v Value, back: bool, error: &SettingsError) -> &'v Value {
    let key = error.field.split('.').next().unwrap_or_default();
    let reverse = link.table().and_then(|table| table.get("reverse")).filter(|_| back);
    let has = |reverse: &&Value| reverse.table().is_some_and(|table| table.get(key).is_some());
    reverse.filter(has).unwrap_or(link)
}

fn about_setting(value: &Value, reader: &Reader<'_>, error: &SettingsError) -> Diagnostic {
    let path: Vec<&str> = error.field.split('.').collect();
    reader.about(value, &path, format!("`{}` {}", error.field, error.why))
}

/// The addresses of the two interfaces of the `n`-th link. Each link is a separate network: 10.0.0.0/30, 10.0.0.4/30
/// and so on, or fd00:0:0:n::/64.
fn addresses(n: usize, ip: IpVersion) -> [IpAddr; 2] {
    // `n` is less than `MAX_LINKS`, far below the 2²² networks in 10.0.0.0/8.
    let n = n as u32;
    [1, 2].map(|host: u8| match ip {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::from_bits(u32::from_be_bytes([10, 0, 0, host]) + (n << 2))),
        IpVersion::V6 => {
            let [high, low] = [(n >> 16) as u16, n as u16];
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, high, low, 0, 0, 0, u16::from(host)))
        }
    })
}

/// The programs of a node.
fn programs(applications: &NodeApplications, entry: &Entry, reader: &Reader<'_>) -> Option<Vec<Program>> {
    if applications.0.len() > MOST {
        let why = format!("{} programs; at most {MOST} can be run on a node", applications.0.len());
        reader.report(reader.about(&entry.value, &["application"], why));
        return None;
    }
    let mut programs = Vec::new();
    for NodeApplication::Program(program) in &applications.0 {
        if let Err((key, why)) = program.check() {
            reader.report(reader.about(&entry.value, &["application"], format!("`{key}`: {why}")));
            return None;
        }
        programs.push(program.clone());
    }
    Some(programs)
}
