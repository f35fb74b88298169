//! What a load is carried by.

use std::net::IpAddr;

use netrig_host::HostAddress;
use netrig_host::tls::{self, Identity, Trust};
use netrig_sip::Host;
use netrig_sip::header::Transport;
use netrig_sip_net::load::{Carrier, Connecting, LoadTls};
use netrig_sip_net::{LineTls, server_name};

use super::arguments::{Connections, ConnectionsName};
use crate::failure::Failure;

/// `udp:HOST:PORT` as its transport and the rest.
pub fn target(text: &str) -> Result<(Transport, &str), Failure> {
    match text.split_once(':') {
        Some(("udp", host)) => Ok((Transport::Udp, host)),
        Some(("tcp", host)) => Ok((Transport::Tcp, host)),
        Some(("tls", host)) => Ok((Transport::Tls, host)),
        Some(("sip" | "sips", _)) => Err(Failure::request(format!(
            "`{text}` is looked for by the DNS: say where, with --resolver IP:PORT, or in which table, with --zone FILE"
        ))),
        Some(("sctp", _)) => Err(Failure::request(
            "a load is carried over UDP, TCP or TLS: SCTP needs a kernel that has it".to_owned(),
        )),
        _ => Err(Failure::request(format!(
            "`{text}` is no server: expected its transport first, as udp:192.0.2.1:5060"
        ))),
    }
}

/// Whether the person has said that this host may be tested.
pub fn may_test(named: Option<&str>, host: &str) -> Result<bool, Failure> {
    match named {
        None => Ok(false),
        Some(named) if host == named || host.rsplit_once(':').is_some_and(|(host, _)| host == named) => {
            Ok(true)
        }
        Some(named) => {
            Err(Failure::request(format!("--i-may-test names `{named}`, and the target is `{host}`")))
        }
    }
}

/// What the load is carried by.
pub(super) fn carrier(
    typed: &Connections,
    transport: Transport,
    host: &str,
    address: IpAddr,
) -> Result<Carrier, Failure> {
    let refuse = |flag: &str, needs: &str| {
        Err(Failure::request(format!("--{flag} is of loads over {needs}, not over {}", transport.name())))
    };
    let in_tls = [("authorities", &typed.authorities), ("certificate", &typed.certificate)];
    if let Some((flag, _)) = in_tls.iter().find(|(_, file)| file.is_some() && transport != Transport::Tls) {
        return refuse(flag, "TLS");
    }
    if typed.reconnect.is_some() && transport == Transport::Udp {
        return refuse("reconnect", "TCP and TLS");
    }
    let connecting = match typed.connections {
        Some(_) if transport == Transport::Udp => return refuse("connections", "TCP and TLS"),
        None | Some(ConnectionsName::One) => Connecting::One,
        Some(ConnectionsName::PerUser) => Connecting::PerUser,
        Some(ConnectionsName::PerAttempt) => Connecting::PerAttempt,
    };
    match transport {
        Transport::Udp => Ok(Carrier::Udp),
        Transport::Tls => Ok(Carrier::Tls(connecting, in_tls_with(typed, host, address)?)),
        _ => Ok(Carrier::Tcp(connecting)),
    }
}

/// How a connection to the server is in TLS; nothing over another transport.
pub fn client_tls(
    typed: &Connections,
    transport: Transport,
    host: &str,
    address: IpAddr,
) -> Result<Option<LineTls>, Failure> {
    Ok(match carrier(typed, transport, host, address)? {
        Carrier::Tls(_, LoadTls { client, name, .. }) => Some((client, name)),
        Carrier::Udp | Carrier::Tcp(_) => None,
    })
}

fn in_tls_with(typed: &Connections, host: &str, address: IpAddr) -> Result<LoadTls, Failure> {
    let trust = Trust::of(typed.authorities.as_deref()).map_err(Failure::request)?;
    let identity = match (&typed.certificate, &typed.private_key) {
        (Some(certificate), Some(key)) => Some(Identity::read(certificate, key).map_err(Failure::request)?),
        _ => None,
    };
    let client = tls::client(&trust, identity.as_ref()).map_err(Failure::request)?;
    let name = name_of(host, address);
    let own = match identity {
        Some(own) => own,
        None => Identity::self_signed(vec!["localhost".to_owned()]).map_err(Failure::request)?,
    };
    Ok(LoadTls {
        client,
        name: server_name(&name)
            .ok_or_else(|| Failure::request(format!("no certificate can be for `{host}`")))?,
        server: Some(tls::server(&own, None).map_err(Failure::request)?),
    })
}

/// What a certificate has to be for: the name that was typed, or the address.
pub fn name_of(host: &str, address: IpAddr) -> Host {
    if HostAddress::with_port(host, Some(0)).is_ok() {
        return Host::Address(address);
    }
    Host::Name(host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_its_transport() {
        assert_eq!(target("udp:[::1]:5060").unwrap(), (Transport::Udp, "[::1]:5060"));
        assert_eq!(target("tcp:[fe80::1%eth0]:5060").unwrap(), (Transport::Tcp, "[fe80::1%eth0]:5060"));
        assert_eq!(target("tls:example.com").unwrap(), (Transport::Tls, "example.com"));
        assert!(target("sctp:127.0.0.1").is_err() && target("127.0.0.1:5060").is_err());
    }

    #[test]
    fn a_certificate_is_for_what_was_typed() {
        let address = "192.0.2.1".parse().unwrap();
        for typed in ["192.0.2.1", "192.0.2.1:5061", "[::1]", "[::1]:5061", "fe80::1%lo", "[fe80::1%lo]:5061"]
        {
            assert_eq!(name_of(typed, address), Host::Address(address), "{typed}");
        }
        for typed in ["example.com", "example.com:5061"] {
            assert_eq!(name_of(typed, address), Host::Name("example.com".to_owned()));
        }
    }
}
