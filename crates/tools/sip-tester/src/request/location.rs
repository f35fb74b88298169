//! A server that is looked up by its name (RFC 3263).

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use netrig_core::Seeds;
use netrig_host::{HostAddress, user_file};
use netrig_sip::header::Transport;
use netrig_sip::location::{Kind, Zone};
use netrig_sip::{SipUri, Uri};
use netrig_sip_net::dns::{Asking, Found, Location, NameSource, Reach, locate};

use super::error::RequestError;
use super::server_text::may_test;
use super::tester::TesterSettings;

/// A server that was looked up by the rules of SIP.
pub(super) struct LocatedServer {
    pub location: Location,
    pub found: Found,
    pub may_test: bool,
}

/// Looks up the target. `None` if the settings have no source of names. The random choice between weighted records uses
/// the seed of the settings.
pub(super) fn look_up(settings: &TesterSettings) -> Result<Option<LocatedServer>, RequestError> {
    let Some(source) = name_source(settings)? else { return Ok(None) };
    let uri = uri(&settings.target)?;
    let may_test = may_test(settings.i_may_test.as_deref(), &uri.host.to_string())?;
    let families = match settings.local.map(HostAddress::ip) {
        Some(IpAddr::V4(_)) => vec![Kind::A],
        Some(IpAddr::V6(_)) => vec![Kind::Aaaa],
        None => vec![Kind::Aaaa, Kind::A],
    };
    let reach =
        Reach { transports: vec![Transport::Udp, Transport::Tcp, Transport::Tls], families, may_test };
    let location = Location { uri, source, lookup: settings.lookup.unwrap_or_default() };
    let found = locate(&location, reach, Seeds::new(settings.seed), || false)
        .map_err(|error| RequestError::Location { uri: location.uri.to_string(), error })?;
    Ok(Some(LocatedServer { location, found, may_test }))
}

/// The source of names: a zone file or a DNS server. `None` if the settings have none.
fn name_source(settings: &TesterSettings) -> Result<Option<NameSource>, RequestError> {
    if let Some(file) = &settings.zone {
        let zone = Zone::parse(&read_text(file)?)
            .map_err(|error| RequestError::File { file: file.clone(), why: format!(": {error}") })?;
        return Ok(Some(NameSource::Table(Arc::new(zone))));
    }
    let asking = |server| Asking { server, retry: settings.dns_retry, tries: settings.dns_tries };
    Ok(settings.resolver.map(|resolver| NameSource::Server(asking(resolver.0))))
}

/// The text of a file that the user gave.
pub(super) fn read_text(file: &Path) -> Result<String, RequestError> {
    user_file::read_text(file, user_file::LONGEST_DATA)
        .map_err(|error| RequestError::Unreadable { file: file.to_owned(), error })
}

/// The target as a URI: `sip:example.com`, or `tcp:example.com:5080` for `sip:example.com:5080;transport=tcp`.
fn uri(target: &str) -> Result<SipUri, RequestError> {
    let text = match target.split_once(':') {
        Some(("udp", host)) => format!("sip:{host};transport=udp"),
        Some(("tcp", host)) => format!("sip:{host};transport=tcp"),
        Some(("tls", host)) => format!("sips:{host};transport=tcp"),
        _ => target.to_owned(),
    };
    let uri = text.parse::<Uri>().ok().and_then(|uri| uri.as_sip().cloned());
    uri.filter(|uri| uri.user.is_none()).ok_or_else(|| RequestError::NoName(target.to_owned()))
}

#[cfg(test)]
mod tests {
    use netrig_host::HostAddress;

    use super::super::tester::ResolverAddress;
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
                typed.parse::<ResolverAddress>().map(|typed| typed.0.to_string()),
                Ok(expected.to_owned())
            );
        }
        assert!("example.com".parse::<ResolverAddress>().is_err());
        let link = "fe80::53%lo".parse::<HostAddress>().unwrap();
        for (typed, port) in [("fe80::53%lo", 53), ("[fe80::53%lo]", 53), ("[fe80::53%lo]:5353", 5353)] {
            assert_eq!(typed.parse(), Ok(ResolverAddress(link.at(port))));
        }
        let unscoped = "[fe80::53]:53".parse::<ResolverAddress>().unwrap_err();
        assert!(unscoped.contains("needs an interface"), "{unscoped}");
    }
}
