//! Flows: their ends, their transports and their paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use netrig_core::{Duration, Instant, Seeds, Size};
use netrig_traffic::Settings;
use netrig_transport::{Profile, SettingsError, sctp, tcp};

use super::groups::{MAX_FLOWS, MAX_HOPS, between, check_name, made_of, tables, wired};
use super::hosts::is_setting;
use super::routes::{PathError, PathFinder};
use super::topology::Topology;
use crate::file::document::{Entry, Value};
use crate::file::read::Reader;
use crate::file::sections::{
    DatagramSockets, FlowSection, Headers, PathSpec, Protocol, StreamSockets, TCP_KEYS, TRANSPORT_KEYS,
    TransportSection,
};
use crate::{Carrier, Flow, Mptcp, RateLayer, Route, Sockets};

/// The most paths that a flow may have.
const MAX_PATHS: usize = 16;

/// A `[transport.*]` with all its constants.
pub(super) struct FlowTransport<'v> {
    carrier: Carrier,
    sockets: Sockets,
    layer: RateLayer,
    paths: Option<Vec<PathSpec>>,
    /// The table of the transport in the file.
    value: &'v Value,
}

/// Transports by name.
pub(super) type Transports<'v> = BTreeMap<&'v str, FlowTransport<'v>>;

/// Reads `[transport.*]`.
pub(super) fn transports<'v>(root: &'v Value, reader: &Reader<'_>) -> Option<Transports<'v>> {
    let read = tables(root, "transport", reader).map(|entry| {
        let named = check_name(entry, reader);
        let transport = transport(&entry.value, reader)?;
        named.then_some((entry.key.as_str(), transport))
    });
    // Reads all transports before an error returns, so that the faults of all transports are reported together.
    let read: Vec<_> = read.collect();
    read.into_iter().collect()
}

fn transport<'v>(value: &'v Value, reader: &Reader<'_>) -> Option<FlowTransport<'v>> {
    let table = value.table()?;
    let own = made_of(value, table.only(TRANSPORT_KEYS));
    let section: TransportSection = reader.read(&own)?;
    check_keys(&section, value, reader)?;
    let constants = made_of(value, table.without(TRANSPORT_KEYS));
    let profile = section.profile.unwrap_or(Profile::Rfc);
    let tcp = || {
        let constants = made_of(value, table.without(TCP_KEYS));
        let settings: tcp::Settings = reader.read_beside(&constants, TCP_KEYS)?;
        checked(tcp::Config::checked(profile, &settings), &constants, reader)
    };
    let mut sockets = Sockets::default();
    let carrier = match section.kind {
        Protocol::Tcp => Carrier::Tcp(tcp()?),
        Protocol::Mptcp => Carrier::Mptcp(Mptcp {
            tcp: tcp()?,
            backup: section.backup.unwrap_or_default(),
            sysctls: sysctls(&section, value, reader)?,
        }),
        Protocol::Sctp => {
            let settings: sctp::Settings = reader.read_beside(&constants, TRANSPORT_KEYS)?;
            Carrier::Sctp(checked(sctp::Config::checked(profile, &settings), &constants, reader)?)
        }
        Protocol::Udp => {
            let options: DatagramSockets = reader.read_beside(&constants, TRANSPORT_KEYS)?;
            let DatagramSockets { send_buffer, receive_buffer, arrives_at } = options;
            sockets = Sockets { send_buffer, receive_buffer, arrives_at: arrives_at.unwrap_or_default() };
            Carrier::Udp { headers: section.headers.unwrap_or_default() == Headers::Udp }
        }
    };
    if matches!(section.kind, Protocol::Tcp | Protocol::Mptcp) {
        let options: StreamSockets = reader.read(&made_of(value, table.only(&["send_buffer"])))?;
        sockets.send_buffer = options.send_buffer;
    }
    check_buffers(&sockets, value, reader)?;
    Some(FlowTransport {
        carrier,
        sockets,
        layer: section.layer.unwrap_or_default(),
        paths: section.paths,
        value,
    })
}

/// The largest buffer that a socket can request. Twice its size must fit a C `int` (socket(7)).
const LARGEST_BUFFER: Size = Size::from_bytes(i32::MAX as u64 / 2);

/// Checks the requested socket buffers.
fn check_buffers(sockets: &Sockets, value: &Value, reader: &Reader<'_>) -> Option<()> {
    for (key, size) in [("send_buffer", sockets.send_buffer), ("receive_buffer", sockets.receive_buffer)] {
        let wrong = |size: &Size| *size == Size::default() || *size > LARGEST_BUFFER;
        if size.as_ref().is_some_and(wrong) {
            let why = format!("`{key}` must be above zero and at most {LARGEST_BUFFER}");
            reader.report(reader.about(value, &[key], why));
            return None;
        }
    }
    Some(())
}

/// Refuses keys that belong to other kinds of transport.
fn check_keys(section: &TransportSection, value: &Value, reader: &Reader<'_>) -> Option<()> {
    let keys = [
        ("headers", section.headers.is_some(), Protocol::Udp, "datagrams, and so for the kind `udp` only"),
        (
            "layer",
            section.layer.is_some(),
            Protocol::Udp,
            "rates of datagrams, and so for the kind `udp` only",
        ),
        ("backup", section.backup.is_some(), Protocol::Mptcp, "subflows, and so for the kind `mptcp` only"),
        (
            "net",
            section.net.is_some(),
            Protocol::Mptcp,
            "a kernel's Multipath TCP, and so for the kind `mptcp` only",
        ),
    ];
    match keys.iter().find(|(_, given, kind, _)| *given && section.kind != *kind) {
        Some((key, _, _, about)) => {
            reader.report(reader.about(value, &[key], format!("`{key}` is about {about}")));
            None
        }
        None => Some(()),
    }
}

/// The settings below `net.mptcp`. Reports invalid names.
fn sysctls(
    section: &TransportSection,
    value: &Value,
    reader: &Reader<'_>,
) -> Option<BTreeMap<String, String>> {
    let settings = section.net.iter().flat_map(|net| &net.mptcp);
    if let Some((name, _)) = settings.clone().find(|(name, _)| !is_setting(name)) {
        let why = format!(
            "`net.mptcp.{name}` is no setting of a kernel: these are of small letters, digits and `_`"
        );
        reader.report(reader.about(value, &["net", "mptcp", name], why));
        return None;
    }
    Some(settings.map(|(name, value)| (name.clone(), value.to_string())).collect())
}

/// The constants of an endpoint. Reports constants that the file sets to invalid values.
fn checked<C>(config: Result<C, SettingsError>, constants: &Value, reader: &Reader<'_>) -> Option<Arc<C>> {
    let refuse = |error: SettingsError| {
        reader.report(reader.about(constants, &[error.field.as_str()], error.to_string()));
    };
    config.map(Arc::new).map_err(refuse).ok()
}

/// Reads `[flow.*]`.
pub(super) fn flows(
    root: &Value,
    reader: &Reader<'_>,
    topology: &Topology,
    transports: &Transports<'_>,
    end: Duration,
) -> Option<Vec<Flow>> {
    let mut finder = PathFinder::new(topology);
    let mut flows = Vec::new();
    let (mut whole, mut hops) = (true, 0);
    for entry in tables(root, "flow", reader) {
        let mut file =
            FlowFile { entry, reader, topology, transports, end, finder: &mut finder, hops: &mut hops };
        whole &= file.read(&mut flows).is_some();
    }
    whole.then_some(flows)
}

/// One `[flow.*]` table, and the parts of the file to which it may refer.
struct FlowFile<'a, 'b> {
    entry: &'a Entry,
    reader: &'a Reader<'a>,
    topology: &'b Topology,
    transports: &'a Transports<'a>,
    end: Duration,
    finder: &'a mut PathFinder<'b>,
    /// Number of links in all paths of the scenario so far.
    hops: &'a mut usize,
}

impl<'a> FlowFile<'a, '_> {
    fn read(&mut self, flows: &mut Vec<Flow>) -> Option<()> {
        let named = check_name(self.entry, self.reader);
        let section: FlowSection = self.reader.read(&self.entry.value)?;
        if !self.reader.is_at(&section.at) {
            return named.then_some(());
        }
        let can_be = self.check_application(&section.application);
        let checked = [can_be, self.check_reads(&section), self.check_times(&section), named];
        let [from, to] = [("from", &section.from), ("to", &section.to)].map(|(key, name)| {
            let nodes = self.topology.node(name);
            if nodes.is_none() {
                let value = &self.entry.value;
                self.reader.report(self.topology.unknown_node(self.reader, value, &[key], name));
            }
            nodes
        });
        let (carrier, transport) = self.carrier(&section)?;
        self.check_sip(&section, &carrier, can_be)?;
        let (from, to) = (from?, to?);
        if checked.contains(&false) {
            return None;
        }
        if from.start < to.end && to.start < from.end {
            return self.refuse(&["to"], "a flow goes from one node to another");
        }
        let count = match between(section.count, [from.len(), to.len()]) {
            Ok(count) => count,
            Err(why) => return self.refuse(&[if section.count.is_some() { "count" } else { "to" }], why),
        };
        let total = (flows.len() as u64).saturating_add(count.number as u64);
        if total > MAX_FLOWS {
            return self.refuse(&["count"], format!("{total} flows; at most {MAX_FLOWS} can be handled"));
        }
        let start = |i: usize| Instant::ZERO + section.start + section.stagger.saturating_mul(i as u64);
        let stop = Instant::ZERO + section.stop.unwrap_or(self.end);
        let last = start(count.number - 1);
        if last >= stop {
            let why = format!(
                "the last of the {} flows would start at {last}, not before their stop at {stop}",
                count.number
            );
            return self.refuse(&["stagger"], why);
        }
        for i in 0..count.number {
            if *self.hops > MAX_HOPS {
                return self.refuse(&["to"], format!("the paths have more than {MAX_HOPS} links together"));
            }
            let (from, to) = (wired(&from, i), wired(&to, i));
            let paths = self.paths(&section, transport, &carrier, i, from, to)?;
            *self.hops += paths.iter().map(|path| path.hops.len()).sum::<usize>();
            flows.push(Flow {
                name: count.name(&self.entry.key, i),
                group: self.entry.key.clone(),
                from,
                to,
                transport: section.transport.clone().unwrap_or_else(|| "udp".to_owned()),
                carrier: carrier.clone(),
                sockets: transport.map_or_else(Sockets::default, |transport| transport.sockets),
                dscp: section.dscp,
                answer_dscp: section.answer_dscp,
                layer: transport.map_or_else(RateLayer::default, |transport| transport.layer),
                paths,
                application: section.application.clone(),
                reads: section.reads,
                start: start(i),
                stop,
            });
        }
        Some(())
    }

    fn refuse<T>(&self, path: &[&str], why: impl Into<String>) -> Option<T> {
        self.reader.report(self.reader.about(&self.entry.value, path, why));
        None
    }

    fn check_application(&self, application: &Settings) -> bool {
        let Err(error) = application.check() else { return true };
        let path: Vec<&str> = std::iter::once("application").chain(error.field.split('.')).collect();
        self.refuse::<()>(&path, format!("`{}`: {}", error.field, error.why)).is_some()
    }

    /// Checks that the application of a flow with `reads` can limit its reading rate, and that `reads` is valid.
    fn check_reads(&self, section: &FlowSection) -> bool {
        let Some(reads) = &section.reads else { return true };
        if !section.application.may_read_slowly() {
            let why = "`reads` is about data over connections: an application of the kind `bulk`, `web`, `file` or `segments` \
                       may have it, and this one reads at once";
            return self.refuse::<()>(&["reads"], why).is_some();
        }
        let Err(error) = reads.check() else { return true };
        let path: Vec<&str> = ["reads", error.field].into_iter().filter(|key| !key.is_empty()).collect();
        let key = path.join(".");
        self.refuse::<()>(&path, format!("`{key}`: {}", error.why)).is_some()
    }

    /// Checks that SIP users with TLS use connections. If the settings are valid, also checks that the users have time
    /// to register before they start, and that there are enough users.
    fn check_sip(&self, section: &FlowSection, carrier: &Carrier, can_be: bool) -> Option<()> {
        let Some(sip) = section.application.sip() else { return Some(()) };
        let over_udp = matches!(carrier, Carrier::Udp { .. });
        if over_udp && sip.secure {
            let why = "TLS is over connections: give the flow a transport of kind `tcp`";
            return self.refuse(&["application", "secure"], why);
        }
        if !can_be {
            return None;
        }
        if sip.prepares() && section.start.is_zero() {
            let why = "users are registered before it starts, which takes its time: give it a `start`, such as \"5 s\"";
            return self.refuse(&["start"], why);
        }
        if sip.conform && section.start.is_zero() {
            let why = "its server is tested before it starts, which takes its time: give it a `start`, such as \"5 s\"";
            return self.refuse(&["start"], why);
        }
        if sip.located_by().is_some_and(|location| location.takes_time()) && section.start.is_zero() {
            let why = "its server is looked for before it starts, which takes its time: give it a `start`, such as \"5 s\"";
            return self.refuse(&["start"], why);
        }
        if let Some(name) = sip.location.as_ref().and_then(|location| location.node.as_deref())
            && self.topology.node(name).is_none()
        {
            let path = ["application", "location", "node"];
            self.reader.report(self.topology.unknown_node(self.reader, &self.entry.value, &path, name));
            return None;
        }
        let lasts = section.stop.unwrap_or(self.end).saturating_sub(section.start);
        // Some faults depend on the duration and are found only when the load is planned.
        match sip.plan(&self.entry.key, &Seeds::new(0), lasts) {
            Err(error) => self.refuse(&["application", error.field], error.why),
            Ok(_) => Some(()),
        }
    }

    fn check_times(&self, section: &FlowSection) -> bool {
        let stop = section.stop.unwrap_or(self.end);
        if section.start >= self.end {
            return self.refuse::<()>(&["start"], beyond("it starts", section.start, self.end)).is_some();
        }
        if stop > self.end {
            return self.refuse::<()>(&["stop"], beyond("it stops", stop, self.end)).is_some();
        }
        if stop <= section.start {
            let why = format!("it stops at {stop}, not after its start at {}", section.start);
            return self.refuse::<()>(&["stop"], why).is_some();
        }
        true
    }

    /// The carrier of the flow, and the `[transport.*]` that the flow names; `None` if it names none.
    fn carrier(&self, section: &FlowSection) -> Option<(Carrier, Option<&'a FlowTransport<'a>>)> {
        let datagrams = section.application.sends_datagrams();
        let either = section.application.goes_over_either();
        let Some(name) = &section.transport else {
            if datagrams {
                return Some((Carrier::Udp { headers: true }, None));
            }
            let problem = self.reader.about(&self.entry.value, &[], "the key `transport` is missing");
            self.reader.report(problem.expected("the name of a [transport.*] of this file"));
            return None;
        };
        let Some(transport) = self.transports.get(name.as_str()) else {
            let why = format!("unknown transport `{name}`");
            let problem = self.reader.about(&self.entry.value, &["transport"], why);
            self.reader.report(problem.among(name, self.transports.keys().copied()));
            return None;
        };
        match (&transport.carrier, datagrams) {
            (Carrier::Udp { .. } | Carrier::Tcp(_), _) if either => {
                Some((transport.carrier.clone(), Some(transport)))
            }
            (_, _) if either => self.refuse(
                &["transport"],
                "SIP goes over UDP or TCP here: give it a transport of kind `udp` or `tcp`, or none",
            ),
            (Carrier::Udp { .. }, false) => self.refuse(
                &["transport"],
                "this application needs a connection, and a transport of kind `udp` has none",
            ),
            (Carrier::Udp { .. }, true) | (_, false) => Some((transport.carrier.clone(), Some(transport))),
            (_, true) => self.refuse(
                &["transport"],
                "this application sends datagrams, which go over UDP: give it a transport of kind `udp`, or none",
            ),
        }
    }

    /// The paths of the `i`-th flow.
    fn paths(
        &mut self,
        section: &FlowSection,
        transport: Option<&FlowTransport<'_>>,
        carrier: &Carrier,
        i: usize,
        from: usize,
        to: usize,
    ) -> Option<Vec<Route>> {
        let of_transport = transport.and_then(|transport| Some((transport.paths.as_ref()?, transport.value)));
        let Some((specs, value)) =
            section.paths.as_ref().map(|paths| (paths, &self.entry.value)).or(of_transport)
        else {
            let Some(route) = self.finder.shortest(from, to) else {
                let [from, to] = [from, to].map(|node| self.topology.nodes[node].name.as_str());
                return self.refuse(&["to"], format!("no links lead from `{from}` to `{to}`"));
            };
            return Some(vec![route]);
        };
        if let Some(why) = unfit(specs.len(), carrier) {
            self.reader.report(self.reader.about(value, &["paths"], why));
            return None;
        }
        let mut routes: Vec<Route> = Vec::with_capacity(specs.len());
        for (n, spec) in specs.iter().enumerate() {
            let place = n.to_string();
            match self.finder.named(spec, i, from, to) {
                Ok(route) if routes.contains(&route) => {
                    let why = "the same path stands here twice";
                    self.reader.report(self.reader.about(value, &["paths", &place], why));
                    return None;
                }
                Ok(route) => routes.push(route),
                Err(error) => {
                    self.report_path(error, value, &place);
                    return None;
                }
            }
        }
        Some(routes)
    }

    fn report_path(&self, error: PathError, value: &Value, place: &str) {
        let path = |at: Option<usize>| {
            let mut path = vec!["paths".to_owned(), place.to_owned()];
            path.extend(at.map(|at| at.to_string()));
            path
        };
        let problem = match error {
            PathError::Unknown { link, at } => {
                let path = path(at);
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                self.topology.unknown_link(self.reader, value, &path, &link)
            }
            PathError::Broken { why, at } => {
                let path = path(at);
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let problem = self.reader.about(value, &path, why);
                problem.note_at(self.entry.key_span.clone(), format!("for flow `{}`", self.entry.key))
            }
        };
        self.reader.report(problem);
    }
}

/// The reason why the carrier cannot have this number of paths; `None` if it can.
fn unfit(paths: usize, carrier: &Carrier) -> Option<String> {
    match (paths, carrier) {
        (0, _) => Some("at least one path is needed; without the key it is the shortest".into()),
        (2.., Carrier::Tcp(_)) => {
            Some("TCP uses one path; a transport of kind `sctp` or `mptcp` uses several".into())
        }
        (2.., Carrier::Udp { .. }) => Some("UDP uses one path".into()),
        (n, _) if n > MAX_PATHS => Some(format!("{n} paths; at most {MAX_PATHS} can be handled")),
        _ => None,
    }
}

/// The message for a time beyond the end of the run.
pub(super) fn beyond(what: &str, at: Duration, end: Duration) -> String {
    format!("{what} at {at}, but the run ends at {end}")
}
