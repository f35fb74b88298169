//! A server that is looked for by its name (RFC 3263).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use netrig_core::{Duration, Seeds};
use netrig_host::{HostAddress, HostAddressError};
use netrig_sip::header::Transport;
use netrig_sip::location::{Kind, Zone};
use netrig_sip::{SipUri, Uri};
use netrig_sip_net::dns::{Asking, Found, LocateError, Location, Lookup, NameSource, Reach, locate};

use super::arguments::Subject;
use super::order::{may_test, read};
use crate::failure::Failure;

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

impl LocationArguments {
    /// Who knows names, if anybody is to be asked.
    fn source(&self) -> Result<Option<NameSource>, Failure> {
        if let Some(file) = &self.zone {
            let zone = Zone::parse(&read(file)?);
            let zone = zone.map_err(|error| Failure::request(format!("{}: {error}", file.display())))?;
            return Ok(Some(NameSource::Table(Arc::new(zone))));
        }
        let asking = |server| Asking { server, retry: self.dns_retry, tries: self.dns_tries };
        Ok(self.resolver.map(|resolver| NameSource::Server(asking(resolver.0))))
    }
}

/// A target that was looked for.
pub struct Looked {
    pub location: Location,
    pub found: Found,
    pub may_test: bool,
}

/// Looks for the target, if it is to be looked for: weights are drawn from this seed.
pub fn look(subject: &Subject, seed: u64) -> Result<Option<Looked>, Failure> {
    let typed = &subject.location;
    let Some(source) = typed.source()? else { return Ok(None) };
    let uri = uri(&subject.target)?;
    let may_test = may_test(subject.tester.i_may_test.as_deref(), &uri.host.to_string())?;
    let families = match subject.tester.local.map(HostAddress::ip) {
        Some(IpAddr::V4(_)) => vec![Kind::A],
        Some(IpAddr::V6(_)) => vec![Kind::Aaaa],
        None => vec![Kind::Aaaa, Kind::A],
    };
    let reach =
        Reach { transports: vec![Transport::Udp, Transport::Tcp, Transport::Tls], families, may_test };
    let lookup = match typed.lookup {
        None | Some(LookupName::Once) => Lookup::Once,
        Some(LookupName::PerAttempt) => Lookup::PerAttempt,
        Some(LookupName::Cached) => Lookup::Cached,
    };
    let location = Location { uri, source, lookup };
    // Without a server there is none that fails: also what the DNS does not say is of the request.
    let found = locate(&location, reach, Seeds::new(seed), || false).map_err(|error| match error {
        LocateError::Location(_) => Failure::request(error),
        LocateError::Kernel(_) => Failure::Tester(format!("where {} is: {error}", location.uri)),
        error => Failure::Request(format!("where {} is: {error}", location.uri)),
    })?;
    Ok(Some(Looked { location, found, may_test }))
}

/// A target as a URI: `sip:example.com`, or `tcp:example.com:5080` for `sip:example.com:5080;transport=tcp`.
fn uri(target: &str) -> Result<SipUri, Failure> {
    let text = match target.split_once(':') {
        Some(("udp", host)) => format!("sip:{host};transport=udp"),
        Some(("tcp", host)) => format!("sip:{host};transport=tcp"),
        Some(("tls", host)) => format!("sips:{host};transport=tcp"),
        _ => target.to_owned(),
    };
    let uri = text.parse::<Uri>().ok().and_then(|uri| uri.as_sip().cloned());
    uri.filter(|uri| uri.user.is_none()).ok_or_else(|| {
        Failure::request(format!(
            "`{target}` is no server: expected a name, as sip:example.com, sips:example.com or udp:example.com"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_uri_and_a_resolver_an_address() {
        for (target, expected) in [
            ("sip:example.com", "sip:example.com"),
            ("sips:example.com:5071", "sips:example.com:5071"),
            ("udp:example.com", "sip:example.com;transport=udp"),
            ("tls:example.com:5061", "sips:example.com:5061;transport=tcp"),
        ] {
            assert_eq!(uri(target).map(|uri| uri.to_string()).ok().as_deref(), Some(expected));
        }
        assert!(uri("example.com").is_err() && uri("sip:alice@example.com").is_err());
        for (typed, expected) in
            [("192.0.2.53", "192.0.2.53:53"), ("::1", "[::1]:53"), ("[::1]:5353", "[::1]:5353")]
        {
            assert_eq!(
                typed.parse::<TypedResolver>().map(|typed| typed.0.to_string()),
                Ok(expected.to_owned())
            );
        }
        assert!("example.com".parse::<TypedResolver>().is_err());
        let link = "fe80::53%lo".parse::<HostAddress>().unwrap();
        for (typed, port) in [("fe80::53%lo", 53), ("[fe80::53%lo]", 53), ("[fe80::53%lo]:5353", 5353)] {
            assert_eq!(typed.parse(), Ok(TypedResolver(link.at(port))));
        }
        let unscoped = "[fe80::53]:53".parse::<TypedResolver>().unwrap_err();
        assert!(unscoped.contains("expected its interface, too"), "{unscoped}");
    }
}
