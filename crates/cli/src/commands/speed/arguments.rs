//! What may be typed behind `netrig speed`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use netrig_core::{Duration, Rate, Size};
use netrig_host::HostAddress;
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::protocol;

use crate::commands::probe::{KeyPlace, Target};
use crate::connection_limits::ConnectionLimits;

/// `netrig speed`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Speed {
    #[command(subcommand)]
    pub kind: Option<Kind>,
    #[command(flatten)]
    pub target: Option<Target>,
    #[command(flatten)]
    pub measure: Measure,
}

/// One of the two things that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Only {
    /// What connections of TCP, or with --sctp associations, carry
    Connections,
    /// What the line carries of datagrams, found by a search
    Capacity,
}

/// What is no measurement.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// The server: listens with TCP and UDP at one port, and lets in as many at once as it is told
    Serve(Serve),
    /// This terminal's settings beside what a path needs, with the command that mends each; it sets nothing
    Tune(Tune),
}

/// `netrig speed HOST`.
#[derive(Debug, Args)]
pub struct Measure {
    /// For how long connections, or datagrams of a rate, carry data each way
    #[arg(long, help_heading = "Measurement", value_name = "TIME", default_value = "3s")]
    pub time: Duration,
    /// For how long the idle path is watched first; 0s if it is not to be
    #[arg(long, help_heading = "Measurement", value_name = "TIME", default_value = "700ms")]
    pub idle: Duration,
    /// Only what connections carry, or only what the line carries of datagrams: each without the other tells less about what
    /// limits it
    #[arg(long, help_heading = "Measurement", value_name = "WHAT")]
    pub only: Option<Only>,
    /// Connections that carry data at once, 1 to 128
    #[arg(long, short = 'P', help_heading = "Measurement", value_name = "N", default_value_t = 4)]
    pub streams: u16,
    /// Only from the server to here
    #[arg(long, help_heading = "Measurement", conflicts_with_all = ["up", "both"])]
    pub down: bool,
    /// Only from here to the server
    #[arg(long, help_heading = "Measurement", conflicts_with = "both")]
    pub up: bool,
    /// Both ways at once, after each by itself
    #[arg(long, help_heading = "Measurement")]
    pub both: bool,
    /// Associations of netrig's own SCTP over UDP (RFC 6951) in the place of connections of TCP
    #[arg(long, help_heading = "Measurement", conflicts_with_all = ["udp", "iperf3", "congestion", "mss"])]
    pub sctp: bool,
    /// Datagrams at this rate of payload, in the place of all else
    #[arg(long, help_heading = "Measurement", value_name = "RATE", conflicts_with_all = ["streams", "only"])]
    pub udp: Option<Rate>,
    /// Exponential gaps between datagrams, in the place of constant ones
    #[arg(long, help_heading = "Measurement", requires = "udp", conflicts_with = "iperf3")]
    pub poisson: bool,
    /// The most that a search for the line's capacity may offer
    #[arg(
        long,
        help_heading = "Measurement",
        value_name = "RATE",
        default_value = "100Gbit/s",
        conflicts_with = "iperf3"
    )]
    pub most: Rate,
    /// Payload of each datagram: if not given as long as the path carries in a search, and 1200 B with --udp. With --sctp the longest
    /// packet, 1232 B if not given
    #[arg(long, help_heading = "Measurement", value_name = "SIZE")]
    pub size: Option<Size>,
    /// Congestion control of both ends: `cubic`, `reno`, `bbr`; what each has of itself if not given
    #[arg(long, help_heading = "Measurement", value_name = "NAME")]
    pub congestion: Option<String>,
    /// Make no new connections while others carry: how the path responds is not told, and they take nothing of it
    #[arg(long, help_heading = "Measurement")]
    pub no_rpm: bool,
    /// The largest segment that this end sends and announces (`TCP_MAXSEG`); of the kernel's choice if not given, as all
    /// that follows
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub mss: Option<Size>,
    /// The largest window that this end announces (`TCP_WINDOW_CLAMP`)
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub window: Option<Size>,
    /// The buffer that this end sends from (`SO_SNDBUF`)
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub send_buffer: Option<Size>,
    /// The buffer that this end receives into (`SO_RCVBUF`)
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub receive_buffer: Option<Size>,
    #[command(flatten)]
    pub key: KeyPlace,
    /// A file of PEM with the authorities that may have signed the server's certificate; if not given any is taken, and the key
    /// alone proves who it is
    #[arg(long, help_heading = "Key", value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// The server is one of iperf3, at its port 5201 if no other is named; --time is of whole seconds
    #[arg(long, help_heading = "Measurement", conflicts_with_all = ["key", "key_env", "trust"])]
    pub iperf3: bool,
    /// Print JSON instead of a table: one document, or with `iperf3` one for each phase, as `iperf3 -J` prints it, which
    /// has no place for --sctp
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "netrig")]
    pub json: Option<Form>,
}

/// A form of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// netrig's own.
    Netrig,
    /// iperf3's.
    Iperf3,
}

/// `netrig speed serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address at which to listen, repeated for several; one of a link has its interface behind it: `fe80::1%eth0`. The loopback
    /// addresses if not given
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<HostAddress>,
    /// Port of TCP and UDP
    #[arg(long, value_name = "PORT", default_value_t = protocol::PORT)]
    pub port: u16,
    /// Listen for clients of iperf3 at this port, too; with `--open` at 5201 if not given. They are served at all ports
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    pub iperf3_port: Option<u16>,
    /// Let anybody measure who can reach it, also without a key: clients of iperf3, ndt7 and HTTP, which can prove none, are
    /// served on the loopback addresses only otherwise
    #[arg(long)]
    pub open: bool,
    /// Let web pages of this origin (`https://example.com`; `*` is any) measure by ndt7; without it only those of the server itself
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    #[command(flatten)]
    pub key: KeyPlace,
    /// A file with a key for each client: lines of a name, a space and a key of at least 16 bytes
    #[arg(long, help_heading = "Key", value_name = "FILE", conflicts_with_all = ["key", "key_env"])]
    pub keys: Option<PathBuf>,
    /// Its certificate, a file of PEM; a new one that has signed itself if not given
    #[arg(long, help_heading = "Key", value_name = "FILE", requires = "certificate_key")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, a file of PEM
    #[arg(long, help_heading = "Key", value_name = "FILE", requires = "certificate")]
    pub certificate_key: Option<PathBuf>,
    /// Sessions that measure at the same time
    #[arg(long, help_heading = "Limits", value_name = "N", default_value_t = AdmissionLimits::default().sessions, value_parser = one_or_more())]
    pub sessions: usize,
    /// Sessions that may wait for their turn
    #[arg(long, help_heading = "Limits", value_name = "N", default_value_t = AdmissionLimits::default().queue)]
    pub queue: usize,
    /// Sessions of one address (of IPv6: of one /64) that measure at the same time
    #[arg(long, help_heading = "Limits", value_name = "N", default_value_t = AdmissionLimits::default().per_household, value_parser = one_or_more())]
    pub per_address: usize,
    /// Sessions of one address that may wait for their turn
    #[arg(long, help_heading = "Limits", value_name = "N", default_value_t = AdmissionLimits::default().queue_per_household)]
    pub queue_per_address: usize,
    /// Sessions with one key that measure at the same time; as many as there may be if not given
    #[arg(long, help_heading = "Limits", value_name = "N", value_parser = one_or_more())]
    pub per_key: Option<usize>,
    /// What all sessions together may carry in one direction: a session that does not say how much it needs is held to an equal
    /// part
    #[arg(long, help_heading = "Limits", value_name = "RATE")]
    pub max_rate: Option<Rate>,
    /// How long a session may take
    #[arg(long, help_heading = "Limits", value_name = "TIME", default_value_t = AdmissionLimits::default().lasts)]
    pub max_time: Duration,
    /// What a session may carry in all, both directions together
    #[arg(long, help_heading = "Limits", value_name = "SIZE", default_value_t = Size::from_bytes(AdmissionLimits::default().bytes))]
    pub max_size: Size,
    #[command(flatten)]
    pub connections: ConnectionLimits,
    /// Print one JSON document about what was done when it ends
    #[arg(long)]
    pub json: bool,
}

/// `netrig speed tune`.
#[derive(Debug, Args)]
pub struct Tune {
    /// To whom the path leads: a name or an address; nothing is judged by a round trip if not given
    #[arg(value_name = "HOST")]
    pub target: Option<String>,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// What the path carries in its faster direction
    #[arg(long, help_heading = "Path", value_name = "RATE")]
    pub rate: Option<Rate>,
    /// How long a packet and its answer take on the idle path; measured by echoes if not given
    #[arg(long = "rtt", help_heading = "Path", value_name = "TIME")]
    pub round_trip: Option<Duration>,
    /// Measure what the path carries, for some seconds: HOST must be a server of `netrig speed serve`
    #[arg(long, help_heading = "Path", requires = "target", conflicts_with = "rate")]
    pub measure: bool,
    #[command(flatten)]
    pub key: KeyPlace,
    /// Print one JSON document instead of a table: `netrig schema --of speed-tune`
    #[arg(long)]
    pub json: bool,
}

/// A count of what there has to be at least one of.
fn one_or_more() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
