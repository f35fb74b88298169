//! Arguments that several probes have in common.

use std::path::PathBuf;

use clap::Args;

/// The target of a probe.
#[derive(Debug, Args)]
pub struct Target {
    /// A name or an address, with a port after a colon unless it is the default: `192.0.2.1:862`, `[2001:db8::1]:862`. A
    /// link-local address has its interface behind it: `fe80::1%eth0`, `[fe80::1%eth0]:862`
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Args)]
pub struct Form {
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The source of a key.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct KeyPlace {
    /// File with a key of at least 16 bytes; surrounding white space is ignored
    #[arg(long, help_heading = "Key", value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Environment variable with the key
    #[arg(long, help_heading = "Key", value_name = "NAME")]
    pub key_env: Option<String>,
}
