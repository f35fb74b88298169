//! The command line of `netrig probe`.

use super::common::{Form, KeyPlace, Target};
use super::media::arguments::{Transfer, Video, Voice};
use crate::choice::{Choice, choice};
use clap::{Args, Subcommand, ValueEnum};
use netrig_core::{Dscp, Duration, Prefix, Rate, Size};
use netrig_host::ConnectionLimits;
use netrig_host::HostAddress;
use netrig_probe::flow::packet::FlowMethod;
use netrig_probe::{Gaps, ProbePlan, control, stamp, train};

/// The packets of a trace.
const METHODS: &[Choice<FlowMethod>] = &[
    ("udp", "Datagrams to a port where no service should listen (33434); needs no rights", FlowMethod::Udp),
    ("icmp", "Echoes", FlowMethod::Icmp),
    ("tcp", "TCP SYNs to port 80, without completing a connection; needs CAP_NET_RAW", FlowMethod::Tcp),
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

/// The probes, and the far end.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Quantiles of the one-way delay, in which a lost packet counts as an infinite delay, and delay variation (RFC 7679, RFC
    /// 7680, RFC 3393); needs `probe reflect` at the target
    Owd(OneWay),
    /// One-way loss and its pattern, reordering and duplicates (RFC 7680, RFC 3357, RFC 4737, RFC 5560); needs `probe reflect`
    /// at the target
    Loss(OneWay),
    /// Round-trip time and two-way loss by ICMP echo (RFC 2681, RFC 6673)
    Ping(Ping),
    /// The hops of a path, by packets of one flow, and the speed of the links between them
    Trace(Trace),
    /// The path MTU (RFC 8899), whether longer packets are lost silently, and whether TCP's segments fit
    Mtu(Mtu),
    /// Trains of echoes of several sizes: how the round-trip time grows with the length of the packets
    Train(Train),
    /// Rate of fetching one object by HTTP
    Web(Web),
    /// Round-trip and one-way delay and loss with any STAMP or TWAMP Light reflector (RFC 8762, RFC 8972)
    Stamp(Stamp),
    /// TCP throughput with the metrics of RFC 6349, or a file by FTP; needs `probe reflect` or an FTP server at the target
    Transfer(Transfer),
    /// A call: rating and opinion score by the E-model (ITU-T G.107); needs `probe reflect` at the target
    Voice(Voice),
    /// Video by RTP: each received picture is compared with the sent one; needs `probe reflect` at the target, and ffmpeg here
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
    /// Distribution of the gaps
    #[arg(long, help_heading = "Packets", value_enum, default_value_t = GapsName::Poisson)]
    pub gaps: GapsName,
    /// Time after which a packet counts as lost (RFC 7680 section 2.6)
    #[arg(long, help_heading = "Packets", value_name = "TIME", default_value = "2s")]
    pub wait: Duration,
    /// Seed of the gaps; the same seed gives the same schedule
    #[arg(long, help_heading = "Packets", value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, help_heading = "Packets", value_name = "DSCP", default_value_t = Dscp::BE)]
    pub dscp: Dscp,
}

impl Packets {
    /// The probe plan.
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
    /// Exponential: samples at random times (RFC 2330)
    Poisson,
    /// Constant (RFC 3432)
    Periodic,
}

/// `netrig probe owd` and `netrig probe loss`.
#[derive(Debug, Args)]
pub struct OneWay {
    #[command(flatten)]
    pub target: Target,
    /// Send from the far end to here
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
    /// Kind of packets
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
    /// Length of each packet with the IP header; default: 60 B. Packets are never fragmented
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub size: Option<Size>,
    /// Time after which a packet counts as lost
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "Packets")]
    pub wait: Duration,
    /// Least time between two packets
    #[arg(long, value_name = "TIME", default_value = "10ms", help_heading = "Packets")]
    pub gap: Duration,
    /// Most packets in flight at once
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Packets")]
    pub in_flight: usize,
    /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63
    #[arg(long, value_name = "DSCP", default_value_t = Dscp::BE, help_heading = "Packets")]
    pub dscp: Dscp,
    /// Estimate the speed of every link from how the delay grows with the length of the packets
    #[arg(long, help_heading = "Speed")]
    pub speed: bool,
    /// Number of packet lengths for the speed, at least 5
    #[arg(long, value_name = "N", default_value_t = 8, requires = "speed", help_heading = "Speed")]
    pub lengths: usize,
    /// Packets of each of these lengths to each hop; only the shortest round-trip time of each length is used
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
    /// Let `probe reflect` at the target answer, and not ICMP echo: this measures only the path to the target, and both ends
    /// report TCP's segments
    #[arg(long)]
    pub far_end: bool,
    /// Find how long TCP's segments may be at this port of the target
    #[arg(long, value_name = "PORT", conflicts_with = "far_end", value_parser = clap::value_parser!(u16).range(1..))]
    pub tcp_port: Option<u16>,
    /// If packets are lost silently, find after which hop
    #[arg(long)]
    pub locate: bool,
    /// Size that every path should carry, with the IP header; default: 1200 B, 1280 B for IPv6
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub base: Option<Size>,
    /// Largest packet to try
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub most: Option<Size>,
    /// Packets of one size that must be lost before the size counts as too long
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Packets")]
    pub count: u32,
    /// Time after which a packet counts as lost; shorter once round-trip times are known
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
    /// Number of packets and data size of each train, separated by commas
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
    /// Time after which a packet counts as lost
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
    /// URL of the object: http://HOST[:PORT]/PATH
    #[arg(value_name = "URL")]
    pub url: String,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// How long the server may take for each answer
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub wait: Duration,
    /// Time after which the transfer is stopped
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
    /// UDP payload of each packet, filled up with padding (RFC 8972 section 4.1); default: the shortest possible
    #[arg(long, value_name = "SIZE", help_heading = "Packets")]
    pub size: Option<Size>,
    /// Ask the reflector to answer with this code point, and to report the code point that it received (RFC 8972 section 4.4)
    #[arg(long, value_name = "DSCP", help_heading = "Packets")]
    pub answer_dscp: Option<Dscp>,
    #[command(flatten)]
    pub packets: Packets,
    /// Format of this end's time stamps
    #[arg(long, value_parser = choice(FORMATS), default_value = "ntp")]
    pub timestamps: stamp::Format,
    /// Separate loss on the way there from loss on the way back; the reflector must number its answers (RFC 8762: stateful)
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
    /// Addresses of this host to listen at, separated by commas; a link-local one with its interface: `fe80::1%eth0`. Default:
    /// those of the loopback interface. Any other needs a key
    #[arg(long, value_name = "ADDRESS[,..]", value_delimiter = ',')]
    pub listen: Vec<HostAddress>,
    /// UDP port for STAMP
    #[arg(long, value_name = "PORT", default_value_t = stamp::PORT)]
    pub stamp_port: u16,
    /// TCP port for netrig's own probes; the system chooses their UDP ports
    #[arg(long, value_name = "PORT", default_value_t = control::PORT)]
    pub control_port: u16,
    /// Senders whose STAMP packets are answered, separated by commas; default: this host
    #[arg(long, value_name = "PREFIX[,..]", value_delimiter = ',')]
    pub allow: Vec<Prefix>,
    /// Code points that a STAMP sender may ask for, separated by commas; default: all
    #[arg(long, value_name = "DSCP[,..]", value_delimiter = ',')]
    pub allow_dscp: Option<Vec<Dscp>>,
    /// Number STAMP's answers here, so that senders can separate loss on the way there from loss on the way back (RFC 8762:
    /// stateful)
    #[arg(long)]
    pub stateful: bool,
    /// Authenticate STAMP with the key, too; packets that are not authenticated get no answer
    #[arg(long)]
    pub authenticated: bool,
    /// Format of this end's STAMP time stamps
    #[arg(long, value_parser = choice(FORMATS), default_value = "ntp")]
    pub timestamps: stamp::Format,
    /// Highest rate at which this end sends to a probe that asks for it
    #[arg(long, value_name = "RATE", default_value = "100Mbit/s")]
    pub max_rate: Rate,
    #[command(flatten)]
    pub slots: crate::typed::Typed<ConnectionLimits>,
    #[command(flatten)]
    pub key: KeyPlace,
    #[command(flatten)]
    pub form: Form,
}
