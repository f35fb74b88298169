//! One resolved point of an experiment: every `${factor}` is replaced, every `count` expanded, and every name looked
//! up. It contains everything that a substrate needs.

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

/// Input of a run. Nodes, links and flows are referred to by their indices in these lists, which are also the numbers
/// in [`netrig_core::Subject`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Greatest length of the run.
    pub duration: Duration,
    /// Flows that end the run early. The run ends as soon as all these flows are done, that is, their applications are
    /// finished and their connections are closed. If empty, the run lasts for `duration`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ends_with: Vec<usize>,
    /// Sampling interval of counters.
    pub sample_every: Duration,
    /// Hosts and routers. A router is a node that a route passes through.
    pub nodes: Vec<Node>,
    /// Links, each of two directions.
    pub links: Vec<LinkSpec>,
    /// Traffic between nodes.
    pub flows: Vec<Flow>,
    /// Events in the order of time. Of events at the same time, ends of changes are before beginnings; otherwise the
    /// order of the file is kept.
    pub events: Vec<TimedEvent>,
}

/// A host or router.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// `client`, or `client#3` for the third of several.
    pub name: String,
    /// The name in the file.
    pub group: String,
    /// The cost of receiving a packet as a host; no cost if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Reception>,
    /// External programs on the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// The processors of a real machine, by number, to which everything on the node is bound. If empty, any processor
    /// may be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// The settings of the node as a host.
    #[serde(skip_serializing_if = "Host::is_usual")]
    pub host: Host,
}

impl Node {
    /// The measurable counters of its programs. The position in this order is the number of a counter in samples.
    pub fn counters(&self) -> impl Iterator<Item = &str> {
        let counters = self.programs.iter().filter_map(|program| program.counters.as_ref());
        counters.flat_map(|counters| &counters.names).map(String::as_str)
    }
}

/// The cost of receiving packets on a host. Packets wait for one processor, which serves them one after
/// another. Each takes `per_packet`, plus `per_stream` for every stream of its association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reception {
    /// Time for each packet, up to 1 s.
    pub per_packet: Duration,
    /// Time for each packet and each stream of its association, up to 1 ms: the cost of sorting into streams.
    /// TCP has one stream. Zero if not given.
    #[serde(default)]
    pub per_stream: Duration,
    /// Greatest number of waiting packets, 1000 if not given. Further packets are dropped.
    #[serde(default = "backlog")]
    pub queue: u32,
}

/// The default of `queue`: Linux's net.core.netdev_max_backlog.
fn backlog() -> u32 {
    1000
}

impl Reception {
    /// Service time of a packet of an association with `streams` streams.
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
    /// The addresses of the interfaces at both ends.
    pub addresses: [IpAddr; 2],
    /// From the first node to the second.
    pub forward: LinkSettings,
    /// From the second node to the first.
    pub backward: LinkSettings,
    /// The channel of a WiFi link. Links with the same channel share its air time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

impl LinkSpec {
    /// The settings of one direction.
    pub fn towards(&self, direction: Direction) -> &LinkSettings {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// Whether the link is a cable, for which there is no model.
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
    /// Index in [`Scenario::links`].
    pub link: usize,
    /// Direction along the link.
    pub direction: Direction,
    /// Index of the sending node in [`Scenario::nodes`].
    pub station: usize,
    /// The name of the link and the direction, as in the names of its random streams: `wifi/forward`.
    pub name: String,
    /// The settings of the sender.
    pub settings: &'a WifiSettings,
}

impl WifiLane<'_> {
    /// The lane in the form that the model of a medium takes.
    pub fn as_lane(&self) -> LaneSettings<'_> {
        LaneSettings { station: self.station, name: &self.name, settings: self.settings }
    }
}

/// The WiFi channels by name, each with its lanes in the order of the links, forward before backward.
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

/// The port on which the second end of flow `number` listens, unless its application sets another one. The port is in
/// the range of user ports (RFC 6335).
pub const fn server_port(number: u32) -> u16 {
    5001 + (number % 20_000) as u16
}

/// Traffic from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// `web`, or `web#3` for the third of several. It is part of the names of the flow's random streams:
    /// `flow/web#3/…`.
    pub name: String,
    /// The name in the file.
    pub group: String,
    /// The node whose application opens the connection or sends the datagrams.
    pub from: usize,
    /// The node at the other end.
    pub to: usize,
    /// The name of its `[transport.*]` table in the file, for tables and notes of a report.
    pub transport: String,
    /// The transport protocol.
    pub carrier: Carrier,
    /// Options of the kernel's sockets at both ends.
    #[serde(skip_serializing_if = "Sockets::is_usual")]
    pub sockets: Sockets,
    /// The DiffServ code point of all packets. If `answer_dscp` is set, only of the packets that the first end sends.
    #[serde(skip_serializing_if = "is_best_effort")]
    pub dscp: Dscp,
    /// The code point of the packets that the second end sends, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_dscp: Option<Dscp>,
    /// The layer at which the rate of datagrams is counted.
    #[serde(skip_serializing_if = "RateLayer::is_ip")]
    pub layer: RateLayer,
    /// Its paths from `from` to `to`, the primary first; at least one.
    pub paths: Vec<Route>,
    /// The application: which data are sent, and when.
    pub application: netrig_traffic::Settings,
    /// The reading rate of the receiving end. If absent, the receiving end reads immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<netrig_traffic::Reads>,
    /// Start of the flow.
    #[serde(serialize_with = "write_moment")]
    pub start: Instant,
    /// End of new activity: from this time on, the application starts nothing new.
    #[serde(serialize_with = "write_moment")]
    pub stop: Instant,
}

impl Flow {
    /// The code points of the first and of the second end.
    pub fn code_points(&self) -> [Dscp; 2] {
        [self.dscp, self.answer_dscp.unwrap_or(self.dscp)]
    }

    /// The port on which the second end listens. `number` is the index of the flow.
    pub const fn server_port(&self, number: u32) -> u16 {
        match self.application.sip() {
            Some(sip) => sip.port,
            None => server_port(number),
        }
    }

    /// The settings of the video, if the application is a video.
    pub fn video(&self) -> Option<&netrig_traffic::Video> {
        match &self.application {
            netrig_traffic::Settings::Video(video) => Some(video),
            _ => None,
        }
    }

    /// Bytes of headers that the rate counts for each datagram in addition to the payload.
    pub fn rate_headers(&self) -> u32 {
        match (&self.carrier, self.layer) {
            (Carrier::Udp { headers: true }, RateLayer::Ip) => netrig_traffic::UDP_IPV4_HEADERS,
            _ => 0,
        }
    }
}

/// Options of a kernel's sockets. If a buffer is not given, the kernel chooses its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sockets {
    /// SO_SNDBUF. The kernel allocates twice as much (socket(7)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// SO_RCVBUF of datagram sockets. For TCP, the largest window determines the buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// The place at which a datagram counts as received.
    #[serde(skip_serializing_if = "ArrivesAt::is_kernel")]
    pub arrives_at: ArrivesAt,
}

/// The place at which a datagram counts as received. On a simulated host both are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivesAt {
    /// The kernel, by its time stamp: delays of the receiving program do not count.
    #[default]
    Kernel,
    /// The program, when it has read the datagram: its lateness is part of the measurement.
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

/// The layer at which the rate of datagrams is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateLayer {
    /// IP packets.
    #[default]
    Ip,
    /// The payload alone, as traffic generators count.
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
    /// UDP datagrams. Without headers, a packet is the payload of a datagram, as in queueing theory.
    Udp {
        /// Whether IP and UDP headers count.
        headers: bool,
    },
}

/// Multipath TCP: its subflows and the use of its paths.
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
    /// Number of requested streams in one direction; 1 for transports without streams.
    pub fn streams(&self) -> u16 {
        match self {
            Self::Sctp(config) => config.streams,
            Self::Tcp(_) | Self::Mptcp(_) | Self::Udp { .. } => 1,
        }
    }
}

/// A path through the topology. Packets in the other direction take the same links in reverse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The name of the only link, or the names of the links joined by `>`.
    pub name: String,
    /// Links in the order of travel.
    pub hops: Vec<Hop>,
}

/// One link of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Index in [`Scenario::links`].
    pub link: usize,
    /// Direction along the link.
    #[serde(serialize_with = "write_direction")]
    pub direction: Direction,
}

/// An event of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimedEvent {
    /// Time from the start of the run.
    #[serde(serialize_with = "write_moment")]
    pub at: Instant,
    /// The effect.
    pub action: Action,
}

impl TimedEvent {
    /// The change of link `number` in this direction, if the event is such a change.
    pub fn change_of(&self, number: usize, towards: Direction) -> Option<LinkEvent> {
        match self.action {
            Action::Link { link, direction, event } if link == number && direction == towards => Some(event),
            _ => None,
        }
    }
}

/// The effect of an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A change of one direction of a link.
    Link {
        /// Index in [`Scenario::links`].
        link: usize,
        /// Direction along the link.
        #[serde(serialize_with = "write_direction")]
        direction: Direction,
        /// The change.
        #[serde(serialize_with = "write_link_event")]
        event: LinkEvent,
    },
    /// An interface of a node goes down or up, and the endpoints on the node are notified immediately. The outage of
    /// the link is a separate event.
    Interface {
        /// Index in [`Scenario::nodes`].
        node: usize,
        /// The link of the interface, as an index in [`Scenario::links`].
        link: usize,
        /// Whether the interface comes up.
        up: bool,
    },
    /// The user at a node sets the primary path of its multi-homed flows. It is the path whose link at the node is
    /// `link`.
    SetPrimary {
        /// Index in [`Scenario::nodes`].
        node: usize,
        /// Index in [`Scenario::links`].
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
    // The debug form is complete and stable. The text is used only for the identity of the run.
    s.collect_str(&format_args!("{event:?}"))
}

impl Scenario {
    /// Number of parts of the scenario: nodes, links, flows, events, and the entries of their lists. It is a measure of
    /// the cost to store or visit the scenario.
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

    /// The first external program, with its node.
    pub fn first_program(&self) -> Option<(&Node, &Program)> {
        self.nodes.iter().find_map(|node| Some((node, node.programs.first()?)))
    }

    /// The address of `node`'s interface on `link`; `None` if the node is not an end of the link.
    pub fn address(&self, node: usize, link: usize) -> Option<IpAddr> {
        let spec = self.links.get(link)?;
        let end = spec.ends.iter().position(|n| *n == node)?;
        Some(spec.addresses[end])
    }

    /// The name of a subject in the store, with the names of the file: `flow/web`, `flow/web/path/primary`,
    /// `link/primary/forward`, `link/primary/forward/class/premium`, `link/primary/forward/rule/1`, `node/client`,
    /// `node/client/counter/requests`, `run`. If the scenario does not have the subject, the name contains its number.
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
