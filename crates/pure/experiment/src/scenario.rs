//! One point of an experiment with every `${factor}` replaced, every `count` expanded and every name
//! resolved: all that a substrate needs to know.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use netrig_core::{Direction, Dscp, Duration, Instant, LinkEvent, Size, Subject};
use netrig_link::wifi::LaneSettings;
use netrig_link::{LinkSettings, WifiSettings};
use netrig_transport::{sctp, tcp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::program::Program;

/// What a run simulates or builds. Nodes, links and flows are known by their places in these lists, which
/// are also the numbers of [`netrig_core::Subject`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// How long the run lasts.
    pub duration: Duration,
    /// Flows with which it ends before that, as soon as all of them are done: their applications want nothing more and
    /// all their connections have closed. None, if it lasts for `duration` whatever they do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ends_with: Vec<usize>,
    /// Interval of counted samples.
    pub sample_every: Duration,
    /// Hosts and routers: a node through which a route passes forwards.
    pub nodes: Vec<Node>,
    /// Links, each of two directions.
    pub links: Vec<LinkSpec>,
    /// Who sends what to whom, over what.
    pub flows: Vec<Flow>,
    /// What happens when, in the order of time; ties in the order of the file.
    pub events: Vec<TimedEvent>,
}

/// A host or router.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// `client`, or `client#3` for the third of several.
    pub name: String,
    /// The name in the file.
    pub group: String,
    /// What it takes as a host to receive a packet; no time, if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Reception>,
    /// Programs of others that it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// The processors of a real machine to which all that runs on it is bound, by their numbers; any if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// What of it as a host is varied.
    #[serde(skip_serializing_if = "Host::is_usual")]
    pub host: Host,
}

impl Node {
    /// The names of its programs' counters that can be measured, in the order in which samples number them.
    pub fn counters(&self) -> impl Iterator<Item = &str> {
        let counters = self.programs.iter().filter_map(|program| program.counters.as_ref());
        counters.flat_map(|counters| &counters.names).map(String::as_str)
    }
}

/// What it costs a host to receive packets: they wait for one processor and are served one after the other, each for
/// `per_packet` and, for every stream of its association, `per_stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reception {
    /// For each packet, up to 1 s.
    pub per_packet: Duration,
    /// For each packet and each stream of its association, up to 1 ms: what sorting into streams costs. TCP has one
    /// stream. Nothing if not given.
    #[serde(default)]
    pub per_stream: Duration,
    /// So many packets may wait, 1000 if not given; what comes beyond is dropped.
    #[serde(default = "backlog")]
    pub queue: u32,
}

/// Linux's net.core.netdev_max_backlog.
fn backlog() -> u32 {
    1000
}

impl Reception {
    /// How long a packet of an association with so many streams takes.
    pub fn takes(&self, streams: u16) -> Duration {
        self.per_packet + self.per_stream.saturating_mul(streams.into())
    }
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkSpec {
    /// `primary`, or `access#3` for the third of several.
    pub name: String,
    /// The name in the file.
    pub group: String,
    /// The two nodes, in the order of the file.
    pub ends: [usize; 2],
    /// The address of each end's interface.
    pub addresses: [IpAddr; 2],
    /// From the first node to the second.
    pub forward: LinkSettings,
    /// From the second node to the first.
    pub backward: LinkSettings,
    /// Of WiFi, which channel's air it shares: links with the same name share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

impl LinkSpec {
    /// One of its directions.
    pub fn towards(&self, direction: Direction) -> &LinkSettings {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Whether it is a cable and nothing more.
    pub const fn is_direct(&self) -> bool {
        self.forward.is_direct()
    }

    /// The node that sends in this direction.
    pub fn sender(&self, direction: Direction) -> usize {
        self.ends[direction as usize]
    }
}

/// One direction of a WiFi link.
#[derive(Clone, Debug)]
pub struct WifiLane<'a> {
    /// Place in [`Scenario::links`].
    pub link: usize,
    /// Which way.
    pub direction: Direction,
    /// The node that sends.
    pub station: usize,
    /// The link's name and the direction, as its random streams have them: `wifi/forward`.
    pub name: String,
    /// How it sends.
    pub settings: &'a WifiSettings,
}

impl WifiLane<'_> {
    /// As a medium takes it.
    pub fn as_lane(&self) -> LaneSettings<'_> {
        LaneSettings { station: self.station, name: &self.name, settings: self.settings }
    }
}

/// The channels of WiFi by name, each with its lanes in the order of the links, forward before backward.
pub fn channels(links: &[LinkSpec]) -> BTreeMap<&str, Vec<WifiLane<'_>>> {
    let mut channels: BTreeMap<&str, Vec<WifiLane<'_>>> = BTreeMap::new();
    for (link, spec) in links.iter().enumerate() {
        let Some(channel) = spec.channel.as_deref() else { continue };
        for direction in [Direction::Forward, Direction::Backward] {
            let LinkSettings::Wifi(settings) = spec.towards(direction) else { continue };
            let name = format!("{}/{direction}", spec.name);
            let station = spec.sender(direction);
            channels.entry(channel).or_default().push(WifiLane { link, direction, station, name, settings });
        }
    }
    channels
}

/// The port on which the second end of a flow with this number listens, unless its application says otherwise: of RFC 6335's
/// user ports.
pub const fn server_port(number: u32) -> u16 {
    5001 + (number % 20_000) as u16
}

/// Traffic from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// `web`, or `web#3` for the third of several. Names its random streams: `flow/web#3/…`.
    pub name: String,
    /// The name in the file.
    pub group: String,
    /// The node whose application opens the connection or sends the datagrams.
    pub from: usize,
    /// The node at the other end.
    pub to: usize,
    /// The name of its `[transport.*]` table, for tables and notes.
    pub transport: String,
    /// What carries it.
    pub carrier: Carrier,
    /// What the kernel's sockets at both of its ends are told.
    #[serde(skip_serializing_if = "Sockets::is_usual")]
    pub sockets: Sockets,
    /// The DiffServ code point with which both ends send all its packets, unless the second has one of its own.
    #[serde(skip_serializing_if = "is_best_effort")]
    pub dscp: Dscp,
    /// The code point with which the second end sends what it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_dscp: Option<Dscp>,
    /// What a rate of its datagrams counts.
    #[serde(skip_serializing_if = "RateLayer::is_ip")]
    pub layer: RateLayer,
    /// Its paths from `from` to `to`, the primary first; at least one.
    pub paths: Vec<Route>,
    /// Who sends what, when.
    pub application: netrig_traffic::Settings,
    /// How fast the end that gets the data reads them; at once, if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<netrig_traffic::Reads>,
    /// When it starts.
    #[serde(serialize_with = "write_moment")]
    pub start: Instant,
    /// When it begins nothing new any more.
    #[serde(serialize_with = "write_moment")]
    pub stop: Instant,
}

impl Flow {
    /// The code points with which its first and its second end send.
    pub fn code_points(&self) -> [Dscp; 2] {
        [self.dscp, self.answer_dscp.unwrap_or(self.dscp)]
    }

    /// The port on which its second end listens, where this is its number.
    pub const fn server_port(&self, number: u32) -> u16 {
        match self.application.sip() {
            Some(sip) => sip.port,
            None => server_port(number),
        }
    }

    /// The video that it carries, if it carries one.
    pub fn video(&self) -> Option<&netrig_traffic::Video> {
        match &self.application {
            netrig_traffic::Settings::Video(video) => Some(video),
            _ => None,
        }
    }

    /// What a rate of its datagrams counts of a packet beside the payload, bytes.
    pub fn rate_headers(&self) -> u32 {
        match (&self.carrier, self.layer) {
            (Carrier::Udp { headers: true }, RateLayer::Ip) => netrig_traffic::UDP_IPV4_HEADERS,
            _ => 0,
        }
    }
}

/// What a kernel's sockets are told; a buffer that is not given is the kernel's own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sockets {
    /// SO_SNDBUF, of which the kernel allots twice as much (socket(7)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// SO_RCVBUF of sockets for datagrams; of TCP the window says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// When a datagram has arrived.
    #[serde(skip_serializing_if = "ArrivesAt::is_kernel")]
    pub arrives_at: ArrivesAt,
}

/// What of a host a datagram has reached when it has arrived. A simulated host is one with what runs on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivesAt {
    /// Its kernel, by whose stamp it has arrived: what a host's program is kept from is no delay.
    #[default]
    Kernel,
    /// The program, which has read it: how late that is, is a part of what is measured.
    Program,
}

impl ArrivesAt {
    const fn is_kernel(&self) -> bool {
        matches!(self, Self::Kernel)
    }
}

impl Sockets {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What a rate of datagrams counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateLayer {
    /// IP packets.
    #[default]
    Ip,
    /// Their payload alone, as traffic generators count.
    Payload,
}

impl RateLayer {
    fn is_ip(&self) -> bool {
        *self == Self::Ip
    }
}

/// The transport of a flow with all its constants.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// A TCP connection.
    Tcp(Arc<tcp::Config>),
    /// An SCTP association over all paths.
    Sctp(Arc<sctp::Config>),
    /// A Multipath TCP connection (RFC 8684) over all paths.
    Mptcp(Mptcp),
    /// Datagrams. Without headers a datagram's payload is the packet, as queueing theory has it.
    Udp {
        /// Whether IP and UDP headers count.
        headers: bool,
    },
}

/// Multipath TCP: how each subflow is, and what becomes of the paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mptcp {
    /// The constants of each subflow.
    pub tcp: Arc<tcp::Config>,
    /// Whether the paths after the first carry data only while the first cannot (RFC 8684 section 3.3.8).
    pub backup: bool,
    /// Settings of the kernel below `net.mptcp`, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

impl Carrier {
    /// Streams in one direction, as asked for.
    pub fn streams(&self) -> u16 {
        match self {
            Self::Sctp(config) => config.streams,
            Self::Tcp(_) | Self::Mptcp(_) | Self::Udp { .. } => 1,
        }
    }
}

/// A way through the topology. Packets back take the same links in reverse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The name of its link, or of its links joined by `>`.
    pub name: String,
    /// Links in the order of travel.
    pub hops: Vec<Hop>,
}

/// One link of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Place in [`Scenario::links`].
    pub link: usize,
    /// Which way along it.
    #[serde(serialize_with = "write_direction")]
    pub direction: Direction,
}

/// Something that happens at a moment of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedEvent {
    /// When.
    #[serde(serialize_with = "write_moment")]
    pub at: Instant,
    /// What.
    pub action: Action,
}

impl TimedEvent {
    /// The change of this direction of link number `number`, if the event is one.
    pub fn change_of(&self, number: usize, towards: Direction) -> Option<LinkEvent> {
        match self.action {
            Action::Link { link, direction, event } if link == number && direction == towards => Some(event),
            _ => None,
        }
    }
}

/// What an event does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A link changes, in one direction.
    Link {
        /// Place in [`Scenario::links`].
        link: usize,
        /// Which way.
        #[serde(serialize_with = "write_direction")]
        direction: Direction,
        /// The change.
        #[serde(serialize_with = "write_link_event")]
        event: LinkEvent,
    },
    /// A node's own interface goes down or up: its endpoints are told at once. The link's own outage is
    /// an event beside it.
    Interface {
        /// Place in [`Scenario::nodes`].
        node: usize,
        /// Place in [`Scenario::links`]: the interface to this link.
        link: usize,
        /// Up or down.
        up: bool,
    },
    /// The user at a node sets the primary path of its multi-homed flows to the one whose first link (seen
    /// from that node) this is.
    SetPrimary {
        /// Place in [`Scenario::nodes`].
        node: usize,
        /// Place in [`Scenario::links`].
        link: usize,
    },
}

fn is_best_effort(dscp: &Dscp) -> bool {
    *dscp == Dscp::BE
}

fn write_direction<S: serde::Serializer>(direction: &Direction, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(direction.name())
}

fn write_moment<S: serde::Serializer>(at: &Instant, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&at.since(Instant::ZERO))
}

fn write_link_event<S: serde::Serializer>(event: &LinkEvent, s: S) -> Result<S::Ok, S::Error> {
    // The debug form is complete and stable, and this text only feeds the run's identity.
    s.collect_str(&format_args!("{event:?}"))
}

impl Scenario {
    /// How many things it is made of, for what keeps or visits many scenarios: with nodes, links and flows also what
    /// these hold lists of.
    pub(crate) fn parts(&self) -> usize {
        let lists = |link: &LinkSettings| link.drop().len() + link.rules();
        let drops = self.links.iter().map(|link| lists(&link.forward) + lists(&link.backward));
        let hops = self.flows.iter().flat_map(|flow| &flow.paths).map(|path| path.hops.len());
        self.nodes.len()
            + self.links.len()
            + self.flows.len()
            + self.events.len()
            + drops.sum::<usize>()
            + hops.sum::<usize>()
    }

    /// The first program of others that a node runs, with the node.
    pub fn first_program(&self) -> Option<(&Node, &Program)> {
        self.nodes.iter().find_map(|node| Some((node, node.programs.first()?)))
    }

    /// The address of `node`'s interface on `link`, if it has one there.
    pub fn address(&self, node: usize, link: usize) -> Option<IpAddr> {
        let spec = self.links.get(link)?;
        let end = spec.ends.iter().position(|n| *n == node)?;
        Some(spec.addresses[end])
    }

    /// A subject by the names of the file, as it stands in the store: `flow/web`, `flow/web/path/primary`,
    /// `link/primary/forward`, `link/primary/forward/class/premium`, `link/primary/forward/rule/1`, `node/client`,
    /// `node/client/counter/requests`, `run`. One that the scenario does not have keeps its number.
    pub fn name_of(&self, subject: Subject) -> String {
        let or_number = |name: Option<&str>, number: u32| name.map_or(number.to_string(), str::to_owned);
        let flow = |number: u32| self.flows.get(number as usize);
        match subject {
            Subject::Run => "run".to_owned(),
            Subject::Flow(f) => format!("flow/{}", or_number(flow(f).map(|flow| flow.name.as_str()), f)),
            Subject::Path(f, p) => {
                let path = flow(f).and_then(|flow| flow.paths.get(usize::from(p)));
                let path = or_number(path.map(|path| path.name.as_str()), u32::from(p));
                format!("{}/path/{path}", self.name_of(Subject::Flow(f)))
            }
            Subject::Link(l, direction) => {
                let link = or_number(self.links.get(l as usize).map(|link| link.name.as_str()), l);
                format!("link/{link}/{direction}")
            }
            Subject::Class(l, direction, c) => {
                let link = self.links.get(l as usize);
                let class = link.and_then(|link| link.towards(direction).classes().get(usize::from(c)));
                let class = or_number(class.map(|class| class.name()), c.into());
                format!("{}/class/{class}", self.name_of(Subject::Link(l, direction)))
            }
            Subject::Rule(l, direction, r) => {
                let link = self.links.get(l as usize);
                let rule = link.and_then(|link| link.towards(direction).conditions().get(usize::from(r)));
                let rule = or_number(rule.map(|rule| rule.name(r.into())).as_deref(), r.into());
                format!("{}/rule/{rule}", self.name_of(Subject::Link(l, direction)))
            }
            Subject::Node(n) => {
                format!("node/{}", or_number(self.nodes.get(n as usize).map(|node| node.name.as_str()), n))
            }
            Subject::Counter(n, place) => {
                let counter = self.nodes.get(n as usize).and_then(|node| node.counters().nth(place.into()));
                let counter = or_number(counter, place.into());
                format!("{}/counter/{counter}", self.name_of(Subject::Node(n)))
            }
        }
    }
}
