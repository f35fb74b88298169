//! Arguments about a server that is looked for by its name (RFC 3263).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use netrig_core::Duration;
use netrig_host::{HostAddress, HostAddressError};

/// The port of the DNS.
const PORT: u16 = 53;

/// How a target that is a name is found.
#[derive(Debug, Args)]
#[command(next_help_heading = "Names")]
pub struct LocationArguments {
    /// Look for the target as RFC 3263 says in a table: NAPTR, SRV, A and AAAA records as a zone file has them
    #[arg(long, value_name = "FILE", group = "name_source", conflicts_with = "fail_over")]
    pub zone: Option<PathBuf>,
    /// Look for the target as RFC 3263 says by asking this DNS server, and no other: `192.0.2.53`, `[2001:db8::53]:5353`,
    /// `[fe80::1%eth0]:53`; port 53 if none is given
    #[arg(long, value_name = "IP[:PORT]", group = "name_source", conflicts_with = "fail_over")]
    pub resolver: Option<TypedResolver>,
    /// When it is looked for
    #[arg(long, value_enum, requires = "name_source", value_name = "WHEN")]
    pub lookup: Option<LookupName>,
    /// A question to the DNS that is not answered is sent again after it
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub dns_retry: Duration,
    /// How often a question is sent before it is given up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub dns_tries: u32,
}

/// When a server is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LookupName {
    /// Before the load; this is what is done if nothing is said
    Once,
    /// And again before the first request of each attempt
    PerAttempt,
    /// The same, but answers are kept as long as they say, by each thread for itself
    Cached,
}

/// A DNS server: `192.0.2.53`, `[2001:db8::53]:5353`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedResolver(pub SocketAddr);

impl FromStr for TypedResolver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        HostAddress::with_port(text, Some(PORT)).map(Self).map_err(|why| match why {
            HostAddressError::Form => {
                format!(
                    "`{text}` is no DNS server: expected its address, as 192.0.2.53 or [2001:db8::53]:5353"
                )
            }
            why => format!("`{text}`: {why}"),
        })
    }
}
