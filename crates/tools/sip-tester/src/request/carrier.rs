//! The transport of a load.

use std::net::IpAddr;

use netrig_host::HostAddress;
use netrig_host::tls::{self, Identity, Trust};
use netrig_sip::Host;
use netrig_sip::header::Transport;
use netrig_sip::settings::Connections;
use netrig_sip_net::load::{Carrier, LoadTls};
use netrig_sip_net::server_name;

use super::error::RequestError;
use super::tester::TesterSettings;

/// The transport of a load to a server with this address. `host` is the host as the user wrote it.
pub(super) fn carrier(
    settings: &TesterSettings,
    connections: Option<Connections>,
    transport: Transport,
    (host, address): (&str, IpAddr),
) -> Result<Carrier, RequestError> {
    let refuse =
        |setting, needs| Err(RequestError::WrongTransport { setting, needs, transport: transport.name() });
    let of_tls = [("authorities", &settings.authorities), ("certificate", &settings.certificate)];
    if let Some((setting, _)) = of_tls.iter().find(|(_, file)| file.is_some() && transport != Transport::Tls)
    {
        return refuse(setting, "TLS");
    }
    if settings.reconnect.is_some() && transport == Transport::Udp {
        return refuse("reconnect", "TCP and TLS");
    }
    if connections.is_some() && transport == Transport::Udp {
        return refuse("connections", "TCP and TLS");
    }
    let connections = connections.unwrap_or_default();
    match transport {
        Transport::Udp => Ok(Carrier::Udp),
        Transport::Tls => Ok(Carrier::Tls(connections, load_tls(settings, host, address)?)),
        _ => Ok(Carrier::Tcp(connections)),
    }
}

fn load_tls(settings: &TesterSettings, host: &str, address: IpAddr) -> Result<LoadTls, RequestError> {
    let trust = Trust::of(settings.authorities.as_deref())?;
    let identity = match (&settings.certificate, &settings.private_key) {
        (Some(certificate), Some(key)) => Some(Identity::read(certificate, key)?),
        _ => None,
    };
    let client = tls::client(&trust, identity.as_ref())?;
    let name = certified_name(host, address);
    let own = match identity {
        Some(own) => own,
        None => Identity::self_signed(vec!["localhost".to_owned()])?,
    };
    Ok(LoadTls {
        client,
        name: server_name(&name).ok_or_else(|| RequestError::NoCertificate(host.to_owned()))?,
        server: Some(tls::server(&own, None)?),
    })
}

/// The name that the certificate of a server must have: the host as the user wrote it, or the address.
fn certified_name(host: &str, address: IpAddr) -> Host {
    if HostAddress::with_port(host, Some(0)).is_ok() {
        return Host::Address(address);
    }
    Host::Name(host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_for_what_was_typed() {
        let address = "192.0.2.1".parse().unwrap();
        for typed in ["192.0.2.1", "192.0.2.1:5061", "[::1]", "[::1]:5061", "fe80::1%lo", "[fe80::1%lo]:5061"]
        {
            assert_eq!(certified_name(typed, address), Host::Address(address), "{typed}");
        }
        for typed in ["example.com", "example.com:5061"] {
            assert_eq!(certified_name(typed, address), Host::Name("example.com".to_owned()));
        }
    }
}
