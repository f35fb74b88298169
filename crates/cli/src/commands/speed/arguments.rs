//! The arguments of `netrig speed`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use netrig_core::{Duration, Rate};
use netrig_host::ConnectionLimits;
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::request::{SpeedServerSettings, SpeedSettings};

use crate::commands::probe::{IpVersionFlags, KeyPlace, TARGET_HELP};
use crate::typed::Typed;

/// `netrig speed`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Speed {
    #[command(subcommand)]
    pub kind: Option<Kind>,
    #[arg(value_name = "TARGET", help = TARGET_HELP)]
    pub target: Option<String>,
    #[command(flatten)]
    pub version: IpVersionFlags,
    #[command(flatten)]
    pub measure: Measure,
}

/// The subcommands beside a measurement.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Run the server, which listens at one port for TCP and UDP and limits the number of concurrent sessions
    Serve(Box<Serve>),
    /// Compare this host's settings with the needs of a path, and print a command that corrects each; changes nothing
    Tune(Tune),
}

/// `netrig speed HOST`.
#[derive(Debug, Args)]
pub struct Measure {
    #[command(flatten)]
    pub speed: Typed<SpeedSettings>,
    #[command(flatten)]
    pub key: KeyPlace,
    /// PEM file with the authorities that may have signed the server's certificate; default: any certificate is accepted, and
    /// only the key authenticates the server
    #[arg(long, help_heading = "Key", value_name = "FILE")]
    pub trust: Option<PathBuf>,
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
    #[command(flatten)]
    pub key: KeyPlace,
    /// File with a key for each client: lines of a name, a space and a key of at least 16 bytes
    #[arg(long, help_heading = "Key", value_name = "FILE", conflicts_with_all = ["key", "key_env"])]
    pub keys: Option<PathBuf>,
    #[command(flatten)]
    pub server: Typed<SpeedServerSettings>,
    #[command(flatten)]
    pub limits: Typed<AdmissionLimits>,
    #[command(flatten)]
    pub connections: Typed<ConnectionLimits>,
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
    #[command(flatten)]
    pub version: IpVersionFlags,
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
