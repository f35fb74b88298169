//! The sections of an experiment file as Rust types. Their words are the descriptions of the JSON schema.

use std::collections::BTreeMap;

use netrig_core::{Direction, Dscp, Duration, Fraction, InFlight, Rate, Size, Waiting};
use netrig_transport::Profile;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::claim::selection::Selection;
use crate::program::NodeApplications;
use crate::{ArrivesAt, Fragmentation, Precision, RateLayer, Reception, WarmUp};

/// What holds for the whole experiment: the keys above the first section.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// Name of the experiment: letters, digits, `-`, `_` and `.`.
    pub(crate) name: String,
    /// The question that it answers, for the report.
    #[serde(default)]
    pub(crate) question: String,
    /// What is taken off the start of each run before it is reduced: `"none"`, a time, or `"mser-5"` (White
    /// 1997).
    #[serde(default)]
    pub(crate) warm_up: WarmUp,
    /// Seed of the first replication; the n-th has this plus n − 1.
    #[serde(default = "first_seed")]
    pub(crate) seed: u64,
}

fn first_seed() -> u64 {
    1
}

/// What holds for one point: keys above the first section in which a varied factor may stand.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunSection {
    /// How long a run lasts.
    pub(crate) duration: Duration,
    /// Interval of counted samples.
    #[serde(default = "tenth_of_a_second")]
    pub(crate) sample_every: Duration,
    /// Version of IP: 4 or 6.
    #[serde(default)]
    pub(crate) ip: IpVersion,
    /// A run ends as soon as these flows are done: all that they send was delivered and their connections have closed.
    /// After `duration` it ends in any case.
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

/// How many runs each point gets: `count` of them, or from `min` to `max` until the interval of a response is
/// narrow enough.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplicationsSection {
    /// Exactly so many.
    pub(crate) count: Option<u32>,
    /// At least so many.
    pub(crate) min: Option<u32>,
    /// At most so many.
    pub(crate) max: Option<u32>,
    /// When to stop between the two. Judged on replications 1 to n in order.
    pub(crate) until: Option<Precision>,
    /// Confidence of every interval: 0.95 if not given.
    pub(crate) confidence: Option<Fraction>,
}

/// A host or router, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSection {
    /// So many of them, `name#1` and on; one, called `name`, if not given.
    #[serde(default)]
    pub(crate) count: Option<u32>,
    /// What it costs to receive packets; nothing if not given.
    #[serde(default)]
    pub(crate) receive: Option<Reception>,
    /// Programs of others that it runs, one or a list.
    #[serde(default)]
    pub(crate) application: NodeApplications,
    /// The processors of a real machine to which its agent and its programs are bound, by their numbers from 0; any if not
    /// given.
    #[serde(default)]
    pub(crate) cpus: Vec<u32>,
    /// The share of each of its `cpus` that a load asks for, a program that computes and nothing else: 0 to 100 %. None if not
    /// given; with 0 % there is none, on a host whose processors are part of what is measured all the same.
    #[serde(default)]
    pub(crate) load: Option<Fraction>,
    /// The share of the time of its `cpus` that all that runs on it may have together, above zero. All if not given.
    #[serde(default)]
    pub(crate) quota: Option<Fraction>,
    /// The memory that all that runs on it may have together, at least 16 MB. As much as there is if not given.
    #[serde(default)]
    pub(crate) memory: Option<Size>,
    /// The longest IP packet that it sends, whatever its links carry: from 68 B on, with IPv6 from 1280 B. As long as its links
    /// carry if not given.
    #[serde(default)]
    pub(crate) mtu: Option<Size>,
    /// The longest segment that its TCP announces to take, from 48 B on. What its MTU leaves if not given.
    #[serde(default)]
    pub(crate) mss: Option<Size>,
    /// The largest window that its TCP offers, above zero: of flows, in the place of a larger `receive_buffer` of their
    /// transports.
    #[serde(default)]
    pub(crate) window: Option<Size>,
    /// What becomes of a packet that it sends and that is too long for a part of its path: `path-mtu` if not given.
    #[serde(default)]
    pub(crate) fragmentation: Fragmentation,
    /// Settings of its kernel's network: `net.ipv4.tcp_rmem = "4096 65536 65536"`.
    #[serde(default)]
    pub(crate) net: BTreeMap<String, BTreeMap<String, KernelSetting>>,
}

/// The keys of a link besides those of its line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkSection {
    /// The two nodes. `forward` is from the first to the second.
    pub(crate) between: [String; 2],
    /// So many of them, `name#1` and on. If not given, as many as the larger of its two ends has nodes.
    #[serde(default)]
    pub(crate) count: Option<u32>,
    /// Of WiFi, the channel: links with the same one share its air. If not given, each link has a channel of its own.
    #[serde(default)]
    pub(crate) channel: Option<String>,
}

/// The keys of [`LinkSection`], `preset` and `reverse`, which are not the line's.
pub(crate) const LINE_KEYS: &[&str] = &["between", "count", "preset", "reverse"];
/// The same of WiFi, which has no presets and also has a channel.
pub(crate) const WIFI_KEYS: &[&str] = &["between", "count", "reverse", "channel"];
/// The same of a cable, which has no way back of its own.
pub(crate) const DIRECT_KEYS: &[&str] = &["between", "count"];

/// The keys of a transport besides its constants.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransportSection {
    /// The protocol.
    pub(crate) kind: Protocol,
    /// Where constants come from that are not given here: `rfc` if not given.
    #[serde(default)]
    pub(crate) profile: Option<Profile>,
    /// The paths of its flows, the primary first: each a link that joins the two ends, or a list of links from
    /// one end to the other. The shortest way if not given.
    #[serde(default)]
    pub(crate) paths: Option<Vec<PathSpec>>,
    /// For UDP: what is added to a datagram's payload.
    #[serde(default)]
    pub(crate) headers: Option<Headers>,
    /// For UDP: what a `rate` of its applications counts, `ip` packets or their `payload`.
    #[serde(default)]
    pub(crate) layer: Option<RateLayer>,
    /// For Multipath TCP: whether the paths after the first carry data only while the first cannot. Without it all carry
    /// data at all times.
    #[serde(default)]
    pub(crate) backup: Option<bool>,
    /// For Multipath TCP: settings of the kernels at both ends.
    #[serde(default)]
    pub(crate) net: Option<NetSettings>,
}

/// The keys of [`TransportSection`], which are not constants of an endpoint.
pub(crate) const TRANSPORT_KEYS: &[&str] = &["kind", "profile", "paths", "headers", "layer", "backup", "net"];

/// Settings of a kernel's network, by the names of sysctl: `net.mptcp.stale_loss_cnt = 2`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetSettings {
    /// Those of Multipath TCP (Documentation/networking/mptcp-sysctl.rst), by name.
    #[serde(default)]
    pub(crate) mptcp: BTreeMap<String, KernelSetting>,
}

/// What a setting of the kernel is to be.
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

/// What a kernel's sockets for connections are told beside the constants of TCP.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StreamSockets {
    /// The send buffer (SO_SNDBUF). The kernel allots twice as much, of which its book-keeping takes a part; without it the
    /// buffer grows as the kernel likes.
    pub(crate) send_buffer: Option<Size>,
}

/// The keys of [`TransportSection`] and [`StreamSockets`], which are not constants of TCP.
pub(crate) const TCP_KEYS: &[&str] =
    &["kind", "profile", "paths", "headers", "layer", "backup", "net", "send_buffer"];

/// What a kernel's sockets for datagrams are told.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DatagramSockets {
    /// The send buffer (SO_SNDBUF), of which the kernel allots twice as much; the kernel's own if not given.
    pub(crate) send_buffer: Option<Size>,
    /// The receive buffer (SO_RCVBUF), of which the kernel allots twice as much: what finds no room is lost, and that is no
    /// fault. Without it there is room for whatever a scheduler keeps a reader waiting, and a loss is one.
    pub(crate) receive_buffer: Option<Size>,
    /// What of a host a datagram has reached when it has arrived.
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

/// What is added to a datagram's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Headers {
    /// Headers of UDP and IP, as on a real network.
    #[default]
    Udp,
    /// Nothing: the payload is the packet, as queueing theory has it.
    None,
}

/// A path as it is written.
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
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
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
        deserializer.deserialize_any(Either)
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
    /// The name of a `[transport.*]`. May be left out by applications that send datagrams: UDP.
    #[serde(default)]
    pub(crate) transport: Option<String>,
    /// Who sends what, when.
    pub(crate) application: netrig_traffic::Settings,
    /// How fast the application at the end that gets the data reads them from its connections: at once if not given.
    #[serde(default)]
    pub(crate) reads: Option<netrig_traffic::Reads>,
    /// The DiffServ code point with which both ends send all packets of the flow: `ef`, `af41`, `cs1`, or a number from
    /// 0 to 63. Best effort, `be`, if not given.
    #[serde(default)]
    pub(crate) dscp: Dscp,
    /// The code point with which the second end sends what it sends: `dscp` if not given.
    #[serde(default)]
    pub(crate) answer_dscp: Option<Dscp>,
    /// The points at which there is such a flow: all if not given.
    #[serde(default, rename = "where")]
    pub(crate) at: Selection,
    /// So many of them, `name#1` and on. If not given, as many as the larger of its two ends has nodes.
    #[serde(default)]
    pub(crate) count: Option<u32>,
    /// When it starts: at once if not given.
    #[serde(default)]
    pub(crate) start: Duration,
    /// Of several flows each starts this much later than the one before it.
    #[serde(default)]
    pub(crate) stagger: Duration,
    /// When it begins nothing new any more: at the end of the run if not given.
    #[serde(default)]
    pub(crate) stop: Option<Duration>,
    /// Its paths, in the place of those of its transport.
    #[serde(default)]
    pub(crate) paths: Option<Vec<PathSpec>>,
}

/// Something that happens at a moment of the run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventSection {
    /// When.
    pub(crate) at: Duration,
    /// The link that changes.
    #[serde(default)]
    pub(crate) link: Option<String>,
    /// The node whose primary path changes.
    #[serde(default)]
    pub(crate) node: Option<String>,
    /// What happens.
    #[serde(rename = "do")]
    pub(crate) change: Change,
}

/// What an event does: an outage (`down_for` or `flap`), other values of a line (`rate`, `delay`, `loss`), or
/// another primary path (`primary`).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Change {
    /// The link is down for this long; for `0 s` nothing happens.
    pub(crate) down_for: Option<Duration>,
    /// The link goes down and up again, several times.
    pub(crate) flap: Option<Flap>,
    /// The line's rate from now on, above zero.
    pub(crate) rate: Option<Rate>,
    /// The line's propagation delay from now on.
    pub(crate) delay: Option<Duration>,
    /// Independent random loss with this probability from now on.
    pub(crate) loss: Option<Fraction>,
    /// The link whose path becomes the primary one of the node's multi-homed flows.
    pub(crate) primary: Option<String>,
    /// For `rate`, `delay`, `loss` and `primary`: after this long it is again as the file had it; for `0 s`
    /// nothing happens. For good if not given.
    #[serde(rename = "for")]
    pub(crate) lasting: Option<Duration>,
    /// Which way along the link: both if not given.
    pub(crate) direction: Option<Ways>,
    /// For outages: what becomes of packets that wait, `drop` if not given.
    pub(crate) queue: Option<Waiting>,
    /// For outages: what becomes of packets on the line, `lose` if not given.
    pub(crate) in_flight: Option<InFlight>,
    /// For outages: where. `path` (somewhere along the link, as if not given), or the node whose own interface
    /// to the link goes down, which it notices at once.
    #[serde(rename = "where")]
    pub(crate) place: Option<String>,
}

/// Down and up again, several times.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flap {
    /// How long it is down each time.
    pub(crate) down: Duration,
    /// How long it is up between.
    pub(crate) up: Duration,
    /// How many times it goes down.
    pub(crate) times: u32,
}

/// Which way along a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ways {
    /// Both ways.
    #[default]
    Both,
    /// From the first node of `between` to the second.
    Forward,
    /// From the second to the first.
    Backward,
}

impl Ways {
    /// The directions that it means.
    pub(crate) fn directions(self) -> &'static [Direction] {
        match self {
            Self::Both => &[Direction::Forward, Direction::Backward],
            Self::Forward => &[Direction::Forward],
            Self::Backward => &[Direction::Backward],
        }
    }
}
