//! The sections of an experiment file as Rust types. Their doc comments are the descriptions of the JSON
//! schema.

use std::collections::BTreeMap;

use netrig_core::{Direction, Dscp, Duration, Fraction, InFlight, Rate, Size, Waiting};
use netrig_transport::Profile;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::claim::selection::Selection;
use crate::program::NodeApplications;
use crate::{ArrivesAt, Fragmentation, Precision, RateLayer, Reception, WarmUp};

/// The settings of the whole experiment: keys above the first section.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileHeader {
    /// Name of the experiment: letters, digits, `-`, `_` and `.`.
    pub(crate) name: String,
    /// The question that the experiment answers, for the report.
    #[serde(default)]
    pub(crate) question: String,
    /// The start of each run that is left out of its responses: `"none"`, a time, or `"mser-5"` (White 1997).
    #[serde(default)]
    pub(crate) warm_up: WarmUp,
    /// Seed of the first replication. The n-th replication has this seed plus n − 1.
    #[serde(default = "first_seed")]
    pub(crate) seed: u64,
}

fn first_seed() -> u64 {
    1
}

/// The settings of a run: keys above the first section, whose values may depend on a factor.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunSection {
    /// Length of a run.
    pub(crate) duration: Duration,
    /// Sampling interval of counters.
    #[serde(default = "tenth_of_a_second")]
    pub(crate) sample_every: Duration,
    /// Version of IP: 4 or 6.
    #[serde(default)]
    pub(crate) ip: IpVersion,
    /// A run ends as soon as these flows are done, that is, all their data were delivered and their connections
    /// are closed. It ends after `duration` in any case.
    #[serde(default)]
    pub(crate) ends_with: Option<FlowNames>,
}

/// One flow or several: `"file"`, `["up", "down"]`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "not the name of a flow, nor a list of them")]
pub(crate) enum FlowNames {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl FlowNames {
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

fn tenth_of_a_second() -> Duration {
    Duration::from_millis(100)
}

/// Version of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "u8")]
#[schemars(with = "u8", extend("enum" = [4, 6]))]
pub(crate) enum IpVersion {
    #[default]
    V4,
    V6,
}

impl TryFrom<u8> for IpVersion {
    type Error = String;
    fn try_from(version: u8) -> Result<Self, String> {
        match version {
            4 => Ok(Self::V4),
            6 => Ok(Self::V6),
            other => Err(format!("there is no version {other} of IP here: 4 or 6")),
        }
    }
}

/// The number of runs of each point: `count`, or from `min` to `max` until the interval of a response is narrow
/// enough.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplicationsSection {
    /// Exact number of runs.
    pub(crate) count: Option<u32>,
    /// Least number of runs.
    pub(crate) min: Option<u32>,
    /// Greatest number of runs.
    pub(crate) max: Option<u32>,
    /// The stopping rule between `min` and `max`. It is evaluated for replications 1 to n in order.
    pub(crate) until: Option<Precision>,
    /// Confidence of every interval, 0.95 if not given.
    pub(crate) confidence: Option<Fraction>,
}

/// A host or router, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSection {
    /// Number of nodes, with names from `name#1` on. If not given, one node called `name`.
    #[serde(default)]
    pub(crate) count: Option<u32>,
    /// The cost of receiving packets; none if not given.
    #[serde(default)]
    pub(crate) receive: Option<Reception>,
    /// External programs on the node, one or a list.
    #[serde(default)]
    pub(crate) application: NodeApplications,
    /// The processors of a real machine, by number from 0, to which the node's agent and programs are bound. If
    /// not given, any.
    #[serde(default)]
    pub(crate) cpus: Vec<u32>,
    /// The share of each of its `cpus`, 0 to 100 %, that a load requests: a program that only computes. If not
    /// given, there is no load. With 0 % there is no load either, but the node's processors are part of the
    /// measurement.
    #[serde(default)]
    pub(crate) load: Option<Fraction>,
    /// The share of the time of its `cpus` that everything on the node may use together, above zero. If not
    /// given, all.
    #[serde(default)]
    pub(crate) quota: Option<Fraction>,
    /// The memory that everything on the node may use together, at least 16 MB. If not given, all of the
    /// machine's.
    #[serde(default)]
    pub(crate) memory: Option<Size>,
    /// The longest IP packet that it sends, independent of its links: at least 68 B, with IPv6 at least 1280 B.
    /// If not given, the longest that its links carry.
    #[serde(default)]
    pub(crate) mtu: Option<Size>,
    /// The longest segment that its TCP announces to accept, at least 48 B. If not given, the MTU decides.
    #[serde(default)]
    pub(crate) mss: Option<Size>,
    /// The largest window that its TCP offers, above zero. It replaces a larger `receive_buffer` of a flow's
    /// transport.
    #[serde(default)]
    pub(crate) window: Option<Size>,
    /// Treatment of a packet that is longer than a part of its path allows; `path-mtu` if not given.
    #[serde(default)]
    pub(crate) fragmentation: Fragmentation,
    /// Network settings of its kernel: `net.ipv4.tcp_rmem = "4096 65536 65536"`.
    #[serde(default)]
    pub(crate) net: BTreeMap<String, BTreeMap<String, KernelSetting>>,
}

/// The keys of a link besides those of its line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkSection {
    /// The two nodes. `forward` is the direction from the first to the second.
    pub(crate) between: [String; 2],
    /// Number of links, with names from `name#1` on. If not given, the larger of the numbers of nodes at its two ends.
    #[serde(default)]
    pub(crate) count: Option<u32>,
    /// The WiFi channel: links with the same channel share its air. If not given, each link has a channel of
    /// its own.
    #[serde(default)]
    pub(crate) channel: Option<String>,
}

/// The keys of [`LinkSection`], `preset` and `reverse`: the keys of a link that are not settings of a line.
pub(crate) const LINE_KEYS: &[&str] = &["between", "count", "preset", "reverse"];
/// The corresponding keys of WiFi, which has no presets but a channel.
pub(crate) const WIFI_KEYS: &[&str] = &["between", "count", "reverse", "channel"];
/// The corresponding keys of a cable, which has no `reverse`.
pub(crate) const DIRECT_KEYS: &[&str] = &["between", "count"];

/// The keys of a transport besides its constants.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransportSection {
    /// The protocol.
    pub(crate) kind: Protocol,
    /// The source of constants that are not given here; `rfc` if not given.
    #[serde(default)]
    pub(crate) profile: Option<Profile>,
    /// The paths of its flows, the primary first. Each is a link that joins the two ends, or a list of links
    /// from one end to the other. If not given, the shortest path.
    #[serde(default)]
    pub(crate) paths: Option<Vec<PathSpec>>,
    /// For UDP: the headers that are added to a datagram's payload.
    #[serde(default)]
    pub(crate) headers: Option<Headers>,
    /// For UDP: the bytes that a `rate` of its applications counts: `ip` packets or their `payload`.
    #[serde(default)]
    pub(crate) layer: Option<RateLayer>,
    /// For Multipath TCP: whether the paths after the first carry data only while the first cannot. If not
    /// given, all carry data at all times.
    #[serde(default)]
    pub(crate) backup: Option<bool>,
    /// For Multipath TCP: settings of the kernels at both ends.
    #[serde(default)]
    pub(crate) net: Option<NetSettings>,
}

/// The keys of [`TransportSection`], which are not constants of an endpoint.
pub(crate) const TRANSPORT_KEYS: &[&str] = &["kind", "profile", "paths", "headers", "layer", "backup", "net"];

/// Network settings of a kernel, by sysctl name: `net.mptcp.stale_loss_cnt = 2`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetSettings {
    /// Settings of Multipath TCP (Documentation/networking/mptcp-sysctl.rst), by name.
    #[serde(default)]
    pub(crate) mptcp: BTreeMap<String, KernelSetting>,
}

/// The value of a kernel setting.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum KernelSetting {
    /// On or off, which the kernel writes as 1 and 0.
    Switch(bool),
    /// A number.
    Number(u32),
    /// A word.
    Word(String),
}

impl std::fmt::Display for KernelSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Switch(on) => write!(f, "{}", u8::from(*on)),
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// Options of a kernel's sockets for connections, beside the constants of TCP.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StreamSockets {
    /// The send buffer (SO_SNDBUF). The kernel allocates twice as much, a part of it for its own book-keeping.
    /// If not given, the kernel adapts the buffer's size.
    pub(crate) send_buffer: Option<Size>,
}

/// The keys of [`TransportSection`] and [`StreamSockets`], which are not constants of TCP.
pub(crate) const TCP_KEYS: &[&str] =
    &["kind", "profile", "paths", "headers", "layer", "backup", "net", "send_buffer"];

/// Options of a kernel's sockets for datagrams.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DatagramSockets {
    /// The send buffer (SO_SNDBUF), of which the kernel allocates twice as much. If not given, the kernel's
    /// default.
    pub(crate) send_buffer: Option<Size>,
    /// The receive buffer (SO_RCVBUF), of which the kernel allocates twice as much. If given, a datagram that does not
    /// fit is lost, which is not a fault. If not, the buffer is large enough for any scheduling delay of the reader,
    /// and such a loss is a fault.
    pub(crate) receive_buffer: Option<Size>,
    /// The place at which a datagram counts as received.
    pub(crate) arrives_at: Option<ArrivesAt>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 9260.
    Sctp,
    /// RFC 8684; its constants are those of TCP.
    Mptcp,
    /// RFC 768.
    Udp,
}

/// The headers that are added to a datagram's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Headers {
    /// Headers of UDP and IP, as on a real network.
    #[default]
    Udp,
    /// No headers: the payload is the packet, as in queueing theory.
    None,
}

/// A path as the file writes it.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum PathSpec {
    /// A link that joins the two ends.
    Link(String),
    /// Links from one end to the other.
    Route(Vec<String>),
}

impl<'de> Deserialize<'de> for PathSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathVisitor;
        impl<'de> serde::de::Visitor<'de> for PathVisitor {
            type Value = PathSpec;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a link, or a list of links from one end to the other")
            }
            fn visit_str<E: serde::de::Error>(self, link: &str) -> Result<PathSpec, E> {
                Ok(PathSpec::Link(link.to_owned()))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut links: A) -> Result<PathSpec, A::Error> {
                let mut route = Vec::new();
                while let Some(link) = links.next_element()? {
                    route.push(link);
                }
                Ok(PathSpec::Route(route))
            }
        }
        deserializer.deserialize_any(PathVisitor)
    }
}

/// Traffic from one node to another.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowSection {
    /// The node whose application opens the connection or sends the datagrams.
    pub(crate) from: String,
    /// The node at the other end.
    pub(crate) to: String,
    /// The name of a `[transport.*]`. Applications that send datagrams may omit it and then use UDP.
    #[serde(default)]
    pub(crate) transport: Option<String>,
    /// The application: which data are sent, and when.
    pub(crate) application: netrig_traffic::Settings,
    /// The reading rate of the application at the receiving end of connections. If not given, it reads without delay.
    #[serde(default)]
    pub(crate) reads: Option<netrig_traffic::Reads>,
    /// The DiffServ code point with which both ends send all packets of the flow: `ef`, `af41`, `cs1`, or a number from
    /// 0 to 63. Best effort, `be`, if not given.
    #[serde(default)]
    pub(crate) dscp: Dscp,
    /// The code point of the packets that the second end sends; `dscp` if not given.
    #[serde(default)]
    pub(crate) answer_dscp: Option<Dscp>,
    /// The points that have this flow; all if not given.
    #[serde(default, rename = "where")]
    pub(crate) at: Selection,
    /// Number of flows, with names from `name#1` on. If not given, the larger of the numbers of nodes at its two ends.
    #[serde(default)]
    pub(crate) count: Option<u32>,
    /// Start of the flow; the start of the run if not given.
    #[serde(default)]
    pub(crate) start: Duration,
    /// For several flows: the delay of each start after the previous one.
    #[serde(default)]
    pub(crate) stagger: Duration,
    /// End of new activity: the application starts nothing new after this time. If not given, the end of the run.
    #[serde(default)]
    pub(crate) stop: Option<Duration>,
    /// Its paths, instead of those of its transport.
    #[serde(default)]
    pub(crate) paths: Option<Vec<PathSpec>>,
}

/// An event of the run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventSection {
    /// Time from the start of the run.
    pub(crate) at: Duration,
    /// The link that changes.
    #[serde(default)]
    pub(crate) link: Option<String>,
    /// The node whose primary path changes.
    #[serde(default)]
    pub(crate) node: Option<String>,
    /// The effect.
    #[serde(rename = "do")]
    pub(crate) change: LinkChange,
}

/// The effect of an event: an outage (`down_for` or `flap`), other values of a line (`rate`, `delay`, `loss`),
/// or another primary path (`primary`).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LinkChange {
    /// Length of an outage of the link; `0 s` has no effect.
    pub(crate) down_for: Option<Duration>,
    /// Several outages of the link.
    pub(crate) flap: Option<Flap>,
    /// The line's rate from now on, above zero.
    pub(crate) rate: Option<Rate>,
    /// The line's propagation delay from now on.
    pub(crate) delay: Option<Duration>,
    /// Independent random loss with this probability from now on.
    pub(crate) loss: Option<Fraction>,
    /// The link whose path becomes the primary one of the node's multi-homed flows.
    pub(crate) primary: Option<String>,
    /// For `rate`, `delay`, `loss` and `primary`: time until the values of the file are restored; `0 s` has no
    /// effect. If not given, the change is permanent.
    #[serde(rename = "for")]
    pub(crate) lasting: Option<Duration>,
    /// Direction along the link; both if not given.
    pub(crate) direction: Option<Ways>,
    /// For outages: treatment of queued packets, `drop` if not given.
    pub(crate) queue: Option<Waiting>,
    /// For outages: treatment of packets on the line, `lose` if not given.
    pub(crate) in_flight: Option<InFlight>,
    /// For outages: where the link fails. `path` (default): somewhere along the link. A node's name: the node's
    /// interface to the link goes down, and the node is notified immediately.
    #[serde(rename = "where")]
    pub(crate) place: Option<String>,
}

/// Several outages.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flap {
    /// Length of each outage.
    pub(crate) down: Duration,
    /// Time between two outages.
    pub(crate) up: Duration,
    /// Number of outages.
    pub(crate) times: u32,
}

/// Direction along a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ways {
    /// Both directions.
    #[default]
    Both,
    /// From the first node of `between` to the second.
    Forward,
    /// From the second to the first.
    Backward,
}

impl Ways {
    pub(crate) fn directions(self) -> &'static [Direction] {
        match self {
            Self::Both => &[Direction::Forward, Direction::Backward],
            Self::Forward => &[Direction::Forward],
            Self::Backward => &[Direction::Backward],
        }
    }
}
