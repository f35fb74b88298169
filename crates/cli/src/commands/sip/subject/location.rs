//! A server that is looked for by its name (RFC 3263).

use std::net::IpAddr;
use std::sync::Arc;

use netrig_core::Seeds;
use netrig_host::HostAddress;
use netrig_sip::header::Transport;
use netrig_sip::location::{Kind, Zone};
use netrig_sip::{SipUri, Uri};
use netrig_sip_net::dns::{Asking, Found, LocateError, Location, Lookup, NameSource, Reach, locate};

use super::arguments::Subject;
use super::carrier::may_test;
use super::location_arguments::{LocationArguments, LookupName};
use crate::failure::Failure;
use crate::input::read;

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
    use crate::commands::sip::subject::location_arguments::TypedResolver;

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
        assert!(unscoped.contains("needs an interface"), "{unscoped}");
    }
}
