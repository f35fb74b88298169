//! The command line of `netrig speed`.

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

/// One of the two measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Only {
    /// What TCP connections carry, or SCTP associations with --sctp
    Connections,
    /// The capacity of the line for datagrams, found by a search
    Capacity,
}

/// The subcommands beside a measurement.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// The server: listens at one port of TCP and UDP, and limits the number of sessions at once
    Serve(Serve),
    /// Compare this host's settings with what a path needs, and print the command that mends each; changes nothing
    Tune(Tune),
}

/// `netrig speed HOST`.
#[derive(Debug, Args)]
pub struct Measure {
    /// Time for which connections, or datagrams at a rate, carry data in each direction
    #[arg(long, help_heading = "Measurement", value_name = "TIME", default_value = "3s")]
    pub time: Duration,
    /// Time for which the idle path is observed first; 0s for none
    #[arg(long, help_heading = "Measurement", value_name = "TIME", default_value = "700ms")]
    pub idle: Duration,
    /// Only the connections, or only the capacity for datagrams; either alone says less about what limits the line
    #[arg(long, help_heading = "Measurement", value_name = "WHAT")]
    pub only: Option<Only>,
    /// Number of connections that carry data at once, 1 to 128
    #[arg(long, short = 'P', help_heading = "Measurement", value_name = "N", default_value_t = 4)]
    pub streams: u16,
    /// Only download
    #[arg(long, help_heading = "Measurement", conflicts_with_all = ["up", "both"])]
    pub down: bool,
    /// Only upload
    #[arg(long, help_heading = "Measurement", conflicts_with = "both")]
    pub up: bool,
    /// Both directions at once, after each by itself
    #[arg(long, help_heading = "Measurement")]
    pub both: bool,
    /// Associations of netrig's own SCTP over UDP (RFC 6951) instead of TCP connections
    #[arg(long, help_heading = "Measurement", conflicts_with_all = ["udp", "iperf3", "congestion", "mss"])]
    pub sctp: bool,
    /// Datagrams at this rate of payload, instead of all else
    #[arg(long, help_heading = "Measurement", value_name = "RATE", conflicts_with_all = ["streams", "only"])]
    pub udp: Option<Rate>,
    /// Exponential gaps between datagrams instead of constant ones
    #[arg(long, help_heading = "Measurement", requires = "udp", conflicts_with = "iperf3")]
    pub poisson: bool,
    /// Highest rate that a search for the line's capacity offers
    #[arg(
        long,
        help_heading = "Measurement",
        value_name = "RATE",
        default_value = "100Gbit/s",
        conflicts_with = "iperf3"
    )]
    pub most: Rate,
    /// Payload of each datagram; default: the largest that the path carries in a search, 1200 B with --udp. With --sctp: size
    /// of the longest packet, default 1232 B
    #[arg(long, help_heading = "Measurement", value_name = "SIZE")]
    pub size: Option<Size>,
    /// Congestion control of both ends: `cubic`, `reno`, `bbr`; default: that of each end
    #[arg(long, help_heading = "Measurement", value_name = "NAME")]
    pub congestion: Option<String>,
    /// Do not open new connections during the load: no responsiveness is measured, and no capacity is used for it
    #[arg(long, help_heading = "Measurement")]
    pub no_rpm: bool,
    /// Largest segment that this end sends and announces (`TCP_MAXSEG`); default for this and the next three: the kernel's
    /// choice
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub mss: Option<Size>,
    /// Largest window that this end announces (`TCP_WINDOW_CLAMP`)
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub window: Option<Size>,
    /// Send buffer of this end (`SO_SNDBUF`)
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub send_buffer: Option<Size>,
    /// Receive buffer of this end (`SO_RCVBUF`)
    #[arg(long, help_heading = "This end's connections", value_name = "SIZE", conflicts_with = "iperf3")]
    pub receive_buffer: Option<Size>,
    #[command(flatten)]
    pub key: KeyPlace,
    /// PEM file with the authorities that may have signed the server's certificate; default: any certificate is accepted, and
    /// only the key authenticates the server
    #[arg(long, help_heading = "Key", value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// Measure against an iperf3 server, by default at port 5201; --time must be whole seconds
    #[arg(long, help_heading = "Measurement", conflicts_with_all = ["key", "key_env", "trust"])]
    pub iperf3: bool,
    /// Print JSON instead of a table: one document, or with `iperf3` one per phase as `iperf3 -J` prints it (not with --sctp)
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
    /// Address to listen at, may be repeated; a link-local one with its interface: `fe80::1%eth0`. Default: the loopback
    /// addresses
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<HostAddress>,
    /// Port for TCP and UDP
    #[arg(long, value_name = "PORT", default_value_t = protocol::PORT)]
    pub port: u16,
    /// Listen for iperf3 clients at this port too; default with `--open`: 5201. They are served at all ports
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    pub iperf3_port: Option<u16>,
    /// Let any host measure without a key: clients of iperf3, ndt7 and HTTP, which cannot authenticate, are otherwise served on
    /// the loopback addresses only
    #[arg(long)]
    pub open: bool,
    /// Allow web pages of this origin (`https://example.com`; `*` for any) to measure by ndt7; default: only pages of the
    /// server itself
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    #[command(flatten)]
    pub key: KeyPlace,
    /// File with a key for each client: lines of a name, a space and a key of at least 16 bytes
    #[arg(long, help_heading = "Key", value_name = "FILE", conflicts_with_all = ["key", "key_env"])]
    pub keys: Option<PathBuf>,
    /// Certificate of the server, a PEM file; default: a new self-signed one
    #[arg(long, help_heading = "Key", value_name = "FILE", requires = "certificate_key")]
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate, a PEM file
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
    /// Sessions with one key that measure at the same time; default: no limit of its own
    #[arg(long, help_heading = "Limits", value_name = "N", value_parser = one_or_more())]
    pub per_key: Option<usize>,
    /// Rate of all sessions together in one direction; a session that does not state its rate is limited to an equal share
    #[arg(long, help_heading = "Limits", value_name = "RATE")]
    pub max_rate: Option<Rate>,
    /// Longest duration of a session
    #[arg(long, help_heading = "Limits", value_name = "TIME", default_value_t = AdmissionLimits::default().lasts)]
    pub max_time: Duration,
    /// Bytes that a session may carry in both directions together
    #[arg(long, help_heading = "Limits", value_name = "SIZE", default_value_t = Size::from_bytes(AdmissionLimits::default().bytes))]
    pub max_size: Size,
    #[command(flatten)]
    pub connections: ConnectionLimits,
    /// At the end, print one JSON document about the sessions
    #[arg(long)]
    pub json: bool,
}

/// `netrig speed tune`.
#[derive(Debug, Args)]
pub struct Tune {
    /// The other end of the path, a name or an address; without it, settings that depend on the round trip are not judged
    #[arg(value_name = "HOST")]
    pub target: Option<String>,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Rate of the path in its faster direction
    #[arg(long, help_heading = "Path", value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Round-trip time of the idle path; default: measured by echoes
    #[arg(long = "rtt", help_heading = "Path", value_name = "TIME")]
    pub round_trip: Option<Duration>,
    /// Measure the rate of the path for some seconds; HOST must run `netrig speed serve`
    #[arg(long, help_heading = "Path", requires = "target", conflicts_with = "rate")]
    pub measure: bool,
    #[command(flatten)]
    pub key: KeyPlace,
    /// Print one JSON document instead of a table: `netrig schema --of speed-tune`
    #[arg(long)]
    pub json: bool,
}

/// A count of at least one.
fn one_or_more() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
