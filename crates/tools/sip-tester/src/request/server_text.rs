//! Servers as users write them: `udp:192.0.2.1:5060`.

use std::net::SocketAddr;

use netrig_host::{is_public, resolve_target};
use netrig_sip::header::Transport;

use super::error::RequestError;

/// The transport of `udp:HOST:PORT`, and the rest.
///
/// # Errors
/// If the text names no server with its transport.
pub fn split_server(text: &str) -> Result<(Transport, &str), RequestError> {
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
///
/// # Errors
/// If it has none.
pub fn server_address(host: &str, transport: Transport) -> Result<SocketAddr, RequestError> {
    Ok(resolve_target(host, None, transport.default_port())?)
}

/// Whether the user has said that this host may be tested.
///
/// # Errors
/// If the user has named another host.
pub fn may_test(named: Option<&str>, host: &str) -> Result<bool, RequestError> {
    match named {
        None => Ok(false),
        Some(named) if host == named || host.rsplit_once(':').is_some_and(|(host, _)| host == named) => {
            Ok(true)
        }
        Some(named) => Err(RequestError::OtherHost { named: named.to_owned(), host: host.to_owned() }),
    }
}

/// Whether the user has said that this server may be tested. A public address needs it.
///
/// # Errors
/// If the address is public and the user has not, or has named another host.
pub fn check_consent(server: SocketAddr, host: &str, named: Option<&str>) -> Result<bool, RequestError> {
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
