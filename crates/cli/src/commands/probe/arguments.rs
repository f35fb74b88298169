//! What may be typed behind `netrig probe`.

use super::common::{Form, KeyPlace, Target};
use super::media::arguments::{Transfer, Video, Voice};
use crate::choice::{Choice, choice};
use crate::connection_limits::ConnectionLimits;
use clap::{Args, Subcommand, ValueEnum};
use netrig_core::{Dscp, Duration, Prefix, Rate, Size};
use netrig_host::HostAddress;
use netrig_probe::flow::packet::FlowMethod;
use netrig_probe::{Gaps, ProbePlan, control, stamp, train};

/// The packets of a trace.
const METHODS: &[Choice<FlowMethod>] = &[
    ("udp", "Datagrams to a port that nobody should have (33434); needs no rights", FlowMethod::Udp),
    ("icmp", "Echoes", FlowMethod::Icmp),
    ("tcp", "Openings of a connection (port 80), which is never made; needs CAP_NET_RAW", FlowMethod::Tcp),
];

/// The formats of time stamps (RFC 8762 section 4.2.1).
const FORMATS: &[Choice<stamp::Format>] = &[
    ("ntp", "Seconds since 1900 and a fraction", stamp::Format::Ntp),
    ("ptp", "Seconds since 1970 and nanoseconds", stamp::Format::Ptp),
];

/// `netrig probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// Which probe
    #[command(subcommand)]
    pub kind: Kind,
}

/// The probes, and their far end.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// One-way delay and loss in one quantile, with delay variation (RFC 7679, RFC 7680, RFC 3393); needs `probe reflect` there
    Owd(OneWay),
    /// Loss and its pattern, reordering and duplicates, one way (RFC 7680, RFC 3357, RFC 4737, RFC 5560); needs `probe reflect`
    /// there
    Loss(OneWay),
    /// Round trip and two-way loss by ICMP echo (RFC 2681, RFC 6673)
    Ping(Ping),
    /// The hosts on the way, by packets of one flow, and how fast the links between them are
    Trace(Trace),
    /// How long packets may be on the way (RFC 8899), whether longer ones vanish, and whether TCP's segments fit
    Mtu(Mtu),
    /// Trains of echoes of several sizes, and how much longer the longer ones take
    Train(Train),
    /// Bytes over seconds of one object by HTTP
    Web(Web),
    /// Round trip and both directions against a STAMP or TWAMP Light reflector of anybody (RFC 8762, RFC 8972)
    Stamp(Stamp),
    /// TCP throughput with the metrics of RFC 6349, or a file by FTP; needs `probe reflect` there, or an FTP server
    Transfer(Transfer),
    /// A call: rating and opinion score by the E-model (ITU-T G.107); needs `probe reflect` there
    Voice(Voice),
    /// Video by RTP, compared picture by picture as it came; needs `probe reflect` there, and ffmpeg here
    Video(Video),
    /// The far end of every probe, and a STAMP reflector
    Reflect(Reflect),
}

/// How many packets, and when.
#[derive(Debug, Args)]
pub struct Packets {
    /// Packets to send, 1 to 1000000
    #[arg(long, help_heading = "Packets", value_name = "N", default_value_t = 100)]
    pub count: u32,
    /// Mean time between two packets
    #[arg(long, help_heading = "Packets", value_name = "TIME", default_value = "100ms")]
    pub interval: Duration,
    /// Whether the gaps are exponential or all the same
    #[arg(long, help_heading = "Packets", value_enum, default_value_t = GapsName::Poisson)]
    pub gaps: GapsName,
    /// A packet that takes longer is lost (RFC 7680 section 2.6)
    #[arg(long, help_heading = "Packets", value_name = "TIME", default_value = "2s")]
    pub wait: Duration,
    /// Seed of the gaps: the same one gives the same schedule
    #[arg(long, help_heading = "Packets", value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, help_heading = "Packets", value_name = "DSCP", default_value_t = Dscp::BE)]
    pub dscp: Dscp,
}

impl Packets {
    /// As the agent takes it.
    pub fn plan(&self) -> ProbePlan {
        let gaps = match self.gaps {
            GapsName::Poisson => Gaps::Poisson(self.interval),
            GapsName::Periodic => Gaps::Periodic(self.interval),
        };
        ProbePlan { count: self.count, gaps, wait: self.wait, seed: self.seed }
    }
}

/// The gaps between packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GapsName {
    /// Exponential: sees what a random moment sees (RFC 2330)
    Poisson,
    /// All the same (RFC 3432)
    Periodic,
}

/// `netrig probe owd` and `netrig probe loss`.
#[derive(Debug, Args)]
pub struct OneWay {
    #[command(flatten)]
    pub target: Target,
    /// Packets come from the far end to here
    #[arg(long)]
    pub reverse: bool,
    /// UDP payload of each packet: 24 B at least
    #[arg(long, value_name = "SIZE", default_value = "64B", help_heading = "Packets")]
    pub size: Size,
    #[command(flatten)]
    pub packets: Packets,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe ping`.
#[derive(Debug, Args)]
pub struct Ping {
    #[command(flatten)]
    pub target: Target,
    /// Data of each packet: 12 B at least
    #[arg(long, value_name = "SIZE", default_value = "56B", help_heading = "Packets")]
    pub size: Size,
    #[command(flatten)]
    pub packets: Packets,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe trace`.
#[derive(Debug, Args)]
pub struct Trace {
    #[command(flatten)]
    pub target: Target,
    /// By which packets
    #[arg(long, value_parser = choice(METHODS), default_value = "udp")]
    pub method: FlowMethod,
    /// The first TTL
    #[arg(long, value_name = "TTL", default_value_t = 1, help_heading = "Packets")]
    pub first: u8,
    /// The last TTL
    #[arg(long, value_name = "TTL", default_value_t = 30, help_heading = "Packets")]
    pub hops: u8,
    /// Packets to each hop
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Packets")]
    pub count: u32,
    /// Length of each packet with the header of IP; 60 B if not given. Packets are never cut on the way
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub size: Option<Size>,
    /// A packet that takes longer is lost
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "Packets")]
    pub wait: Duration,
    /// Time between two packets, at least
    #[arg(long, value_name = "TIME", default_value = "10ms", help_heading = "Packets")]
    pub gap: Duration,
    /// Packets on their way at once, at most
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Packets")]
    pub in_flight: usize,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, value_name = "DSCP", default_value_t = Dscp::BE, help_heading = "Packets")]
    pub dscp: Dscp,
    /// Estimate the speed of every link, by how much longer longer packets take
    #[arg(long, help_heading = "Speed")]
    pub speed: bool,
    /// Different lengths of packets that tell speed, 5 at least
    #[arg(long, value_name = "N", default_value_t = 8, requires = "speed", help_heading = "Speed")]
    pub lengths: usize,
    /// Packets of each of these lengths to each hop: the fastest counts
    #[arg(long, value_name = "N", default_value_t = 8, requires = "speed", help_heading = "Speed")]
    pub each: u32,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe mtu`.
#[derive(Debug, Args)]
pub struct Mtu {
    #[command(flatten)]
    pub target: Target,
    /// `probe reflect` answers there, in the place of echoes: only the way there decides, and both ends tell of TCP's segments
    #[arg(long)]
    pub far_end: bool,
    /// See at this port of the target how long TCP's segments may be
    #[arg(long, value_name = "PORT", conflicts_with = "far_end", value_parser = clap::value_parser!(u16).range(1..))]
    pub tcp_port: Option<u16>,
    /// Where packets vanish, find behind which hop
    #[arg(long)]
    pub locate: bool,
    /// What every path should carry, with the header of IP: 1200 B if not given, 1280 B of IPv6
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub base: Option<Size>,
    /// Longer packets are not tried
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub most: Option<Size>,
    /// Packets of one size that must be lost before it counts as too long
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Packets")]
    pub count: u32,
    /// A packet that takes longer is lost; less once round trips are known
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Packets")]
    pub wait: Duration,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, value_name = "DSCP", default_value_t = Dscp::BE, help_heading = "Packets")]
    pub dscp: Dscp,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe train`.
#[derive(Debug, Args)]
pub struct Train {
    #[command(flatten)]
    pub target: Target,
    /// How many packets with how much data, one train after the other, with commas between
    #[arg(
        long,
        value_name = "COUNTxSIZE[,..]",
        value_delimiter = ',',
        default_value = "11x100B,10x1KB",
        help_heading = "Packets"
    )]
    pub trains: Vec<train::Train>,
    /// Time between two packets
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Packets")]
    pub interval: Duration,
    /// A packet that takes longer is lost
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "Packets")]
    pub wait: Duration,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, value_name = "DSCP", default_value_t = Dscp::BE, help_heading = "Packets")]
    pub dscp: Dscp,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe web`.
#[derive(Debug, Args)]
pub struct Web {
    /// Where the object is: http://HOST[:PORT]/PATH
    #[arg(value_name = "URL")]
    pub url: String,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// How long the server may take for anything
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub wait: Duration,
    /// After so long it is left at what came until then
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub limit: Duration,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe stamp`.
#[derive(Debug, Args)]
pub struct Stamp {
    #[command(flatten)]
    pub target: Target,
    /// UDP payload of each packet, filled up with padding (RFC 8972 section 4.1); the shortest that there is if not given
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub size: Option<Size>,
    /// Ask for answers with this code point, and for what arrived (RFC 8972 section 4.4)
    #[arg(long, value_name = "DSCP", help_heading = "Packets")]
    pub answer_dscp: Option<Dscp>,
    #[command(flatten)]
    pub packets: Packets,
    /// Format of this end's timestamps
    #[arg(long, value_parser = choice(FORMATS), default_value = "ntp")]
    pub timestamps: stamp::Format,
    /// The reflector is known to number its answers itself (RFC 8762: stateful): tell loss there from loss back
    #[arg(long)]
    pub stateful: bool,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}

/// `netrig probe reflect`.
#[derive(Debug, Args)]
pub struct Reflect {
    /// Addresses of this host to listen at, with commas between; one of a link has its interface behind it: `fe80::1%eth0`. Those
    /// of the loopback interface if not given. Any other needs a key
    #[arg(long, value_name = "ADDRESS[,..]", value_delimiter = ',')]
    pub listen: Vec<HostAddress>,
    /// UDP port for STAMP
    #[arg(long, value_name = "PORT", default_value_t = stamp::PORT)]
    pub stamp_port: u16,
    /// TCP port for netrig's own probes; their UDP ports are chosen by the system
    #[arg(long, value_name = "PORT", default_value_t = control::PORT)]
    pub control_port: u16,
    /// Whom STAMP answers, with commas between; this host itself if not given
    #[arg(long, value_name = "PREFIX[,..]", value_delimiter = ',')]
    pub allow: Vec<Prefix>,
    /// Code points that a STAMP sender may ask for, with commas between; all if not given
    #[arg(long, value_name = "DSCP[,..]", value_delimiter = ',')]
    pub allow_dscp: Option<Vec<Dscp>>,
    /// Number STAMP's answers here, so that senders can tell loss there from loss back (RFC 8762: stateful)
    #[arg(long)]
    pub stateful: bool,
    /// STAMP is authenticated with the key too: other packets are not answered
    #[arg(long)]
    pub authenticated: bool,
    /// Format of this end's STAMP timestamps
    #[arg(long, value_parser = choice(FORMATS), default_value = "ntp")]
    pub timestamps: stamp::Format,
    /// The most that a probe may have sent to itself
    #[arg(long, value_name = "RATE", default_value = "100Mbit/s")]
    pub max_rate: Rate,
    #[command(flatten)]
    pub slots: ConnectionLimits,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}
