//! Arguments and errors that several probes share.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use netrig_host::user_file::read_secret;
use netrig_host::{IpFamily, TargetError, resolve_target};
use netrig_probe::ProbeError;
use netrig_probe::stamp::HmacKey;

use crate::failure::Failure;

/// The help text of a target.
pub const TARGET_HELP: &str = "A name or an address, with a port after a colon unless it is the default: `192.0.2.1:862`, \
`[2001:db8::1]:862`. A link-local address is followed by its interface: `fe80::1%eth0`, `[fe80::1%eth0]:862`";

/// The target of a probe.
#[derive(Debug, Args)]
pub struct Target {
    #[arg(value_name = "TARGET", help = TARGET_HELP)]
    pub target: String,
    #[command(flatten)]
    pub version: IpVersionFlags,
}

impl Target {
    /// The address of the target. Its port is `port` if the target has none.
    pub fn resolve(&self, port: u16) -> Result<SocketAddr, Failure> {
        self.version.resolve(&self.target, port)
    }
}

/// The permitted version of IP.
#[derive(Clone, Copy, Debug, Args)]
pub struct IpVersionFlags {
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
}

impl IpVersionFlags {
    /// The address of a target. Its port is `port` if the target has none.
    pub fn resolve(self, target: &str, port: u16) -> Result<SocketAddr, Failure> {
        let version = match (self.ipv4, self.ipv6) {
            (true, _) => Some(IpFamily::V4),
            (_, true) => Some(IpFamily::V6),
            _ => None,
        };
        resolve_target(target, version, port).map_err(|error| match error {
            TargetError::Form(_) | TargetError::Address(..) => Failure::request(error),
            TargetError::Unknown(..) | TargetError::NoAddress { .. } => Failure::failed(error),
        })
    }
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

impl KeyPlace {
    /// Reads the key. `None` if no key is given.
    pub fn read(&self) -> Result<Option<HmacKey>, Failure> {
        let (whence, octets) = match (&self.key, &self.key_env) {
            (Some(file), _) => {
                let octets = read_secret(file).map_err(|error| {
                    Failure::request(format!("cannot read the key {}: {error}", file.display()))
                })?;
                (format!("the file {}", file.display()), octets)
            }
            (None, Some(name)) => {
                let text = std::env::var(name).map_err(|_| {
                    Failure::request(format!("there is no variable {name} with a key in the environment"))
                })?;
                (format!("the variable {name}"), text.into_bytes())
            }
            (None, None) => return Ok(None),
        };
        let key = octets.trim_ascii();
        let made = HmacKey::new(key).ok_or_else(|| {
        let (len, least) = (key.len(), HmacKey::LEAST);
        Failure::request(format!(
            "the key in {whence} has {len} bytes: expected at least {least}; `openssl rand -hex 32` makes one"
        ))
    });
        made.map(Some)
    }
}

/// The failure of a probe that could not measure.
pub fn failure(error: ProbeError) -> Failure {
    match error {
        ProbeError::Request(why) => Failure::Request(why),
        ProbeError::Clip(_) => Failure::request(error),
        ProbeError::Interrupted => Failure::Interrupted,
        other => Failure::failed(other),
    }
}
