//! What may be typed behind `netrig probe`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::media::arguments::{Listen, Transfer, Video, Voice};

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
    /// TCP throughput with the metrics of RFC 6349, or a file by FTP; needs `probe listen` there, or an FTP server
    Transfer(Transfer),
    /// A call: rating and opinion score by the E-model (ITU-T G.107); needs `probe listen` there
    Voice(Voice),
    /// Video by RTP, decoded there as it came and compared picture by picture; needs `probe listen` there, and ffmpeg here
    Video(Video),
    /// The far end of transfers, calls and video
    Listen(Listen),
}

/// Where the far end is.
#[derive(Debug, Args)]
pub struct Target {
    /// A name or an address, with a port behind a colon if it is not the usual one: `192.0.2.1:862`, `[2001:db8::1]:862`
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
}

/// Where a key is.
#[derive(Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Key")]
pub struct KeyPlace {
    /// A file with a key of at least 16 bytes; space around it is left out
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// A variable of the environment with the key
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
}

/// How it is told.
#[derive(Clone, Copy, Debug, Args)]
pub struct Form {
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}
