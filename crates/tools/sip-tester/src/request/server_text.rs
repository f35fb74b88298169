//! Servers as users write them: `udp:192.0.2.1:5060`.

use std::net::SocketAddr;

use netrig_host::{is_public, resolve_target};
use netrig_sip::header::Transport;
use netrig_sip::settings::Connections;
use netrig_sip_net::LineTls;
use netrig_sip_net::load::{Carrier, LoadTls};

use super::carrier::carrier;
use super::error::RequestError;
use super::tester::TesterSettings;

/// A server that the user may test, with its transport and address.
pub struct TestedServer {
    /// The transport.
    pub transport: Transport,
    /// The host as the user wrote it, with the port if it has one.
    pub host: String,
    /// The address.
    pub address: SocketAddr,
    /// Whether `i_may_test` names this host.
    pub may_test: bool,
    /// The settings of TLS, if the server is reached over it.
    pub tls: Option<LineTls>,
}

impl TestedServer {
    /// The target of the settings. The rules of SIP for looking up a server (RFC 3263) are not used.
    ///
    /// # Errors
    /// If the target has no address or may not be tested, or if a setting does not apply to its transport.
    pub fn of(settings: &TesterSettings, connections: Option<Connections>) -> Result<Self, RequestError> {
        let (transport, host) = split_server(&settings.target)?;
        let address = server_address(host, transport)?;
        let may_test = check_consent(address, host, settings.i_may_test.as_deref())?;
        let tls = match carrier(settings, connections, transport, (host, address.ip()))? {
            Carrier::Tls(_, LoadTls { client, name, .. }) => Some((client, name)),
            Carrier::Udp | Carrier::Tcp(_) => None,
        };
        Ok(Self { transport, host: host.to_owned(), address, may_test, tls })
    }
}

/// The transport of `udp:HOST:PORT`, and `HOST:PORT`.
pub(super) fn split_server(text: &str) -> Result<(Transport, &str), RequestError> {
    match text.split_once(':') {
        Some(("udp", host)) => Ok((Transport::Udp, host)),
        Some(("tcp", host)) => Ok((Transport::Tcp, host)),
        Some(("tls", host)) => Ok((Transport::Tls, host)),
        Some(("sip" | "sips", _)) => Err(RequestError::NoNameSource(text.to_owned())),
        Some(("sctp", _)) => Err(RequestError::Sctp),
        _ => Err(RequestError::NoServer(text.to_owned())),
    }
}

/// The address of the host of a server.
pub(super) fn server_address(host: &str, transport: Transport) -> Result<SocketAddr, RequestError> {
    Ok(resolve_target(host, None, transport.default_port())?)
}

/// Whether the user's consent `named` (`i_may_test`) is for this host. A consent for another host is an error.
pub(super) fn may_test(named: Option<&str>, host: &str) -> Result<bool, RequestError> {
    match named {
        None => Ok(false),
        Some(named) if host == named || host.rsplit_once(':').is_some_and(|(host, _)| host == named) => {
            Ok(true)
        }
        Some(named) => Err(RequestError::OtherHost { named: named.to_owned(), host: host.to_owned() }),
    }
}

/// Whether the user's consent is for this server. For a public address, a missing consent is an error.
pub(super) fn check_consent(
    server: SocketAddr,
    host: &str,
    named: Option<&str>,
) -> Result<bool, RequestError> {
    let may_test = may_test(named, host)?;
    if is_public(server.ip()) && !may_test {
        return Err(RequestError::Public(server.ip()));
    }
    Ok(may_test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_its_transport() {
        assert_eq!(split_server("udp:[::1]:5060").unwrap(), (Transport::Udp, "[::1]:5060"));
        assert_eq!(split_server("tcp:[fe80::1%eth0]:5060").unwrap(), (Transport::Tcp, "[fe80::1%eth0]:5060"));
        assert_eq!(split_server("tls:example.com").unwrap(), (Transport::Tls, "example.com"));
        assert!(split_server("sctp:127.0.0.1").is_err() && split_server("127.0.0.1:5060").is_err());
    }
}
