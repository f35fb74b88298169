//! How a server is reached, and whether it may be tested.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use netrig_host::{HostAddress, is_public, tls};
use netrig_sip_net::{LineTls, Transport, server_name};

use super::subject::{may_test, name_of, target};
use crate::commands::probe::{Target, resolve};
use crate::failure::Failure;

/// Options of a server that is reached without a load.
#[derive(Debug, Args)]
pub struct ServerReach {
    /// The server must show a certificate that one of these authorities has signed, in PEM; without them any is taken
    #[arg(long, value_name = "FILE")]
    pub authorities: Option<PathBuf>,
    /// The address to send from, one of a link with its interface (`fe80::1%eth0`); the one that the system chooses if not given
    #[arg(long, value_name = "ADDRESS")]
    pub local: Option<HostAddress>,
    /// You may test this host: needed for a target with a public address, with the same name as the target
    #[arg(long, value_name = "HOST")]
    pub i_may_test: Option<String>,
}

impl ServerReach {
    /// The transport and the address of a target, and the settings of TLS if it is reached over TLS.
    pub fn server(&self, typed: &str) -> Result<(Transport, SocketAddr, Option<LineTls>), Failure> {
        let (transport, host) = target(typed)?;
        let named = Target { target: host.to_owned(), ipv4: false, ipv6: false };
        let server = resolve(&named, transport.default_port())?;
        permit(server.ip(), host, self.i_may_test.as_deref())?;
        if transport == Transport::Tls {
            return Ok((transport, server, Some(self.tls(host, server.ip())?)));
        }
        if self.authorities.is_some() {
            return Err(Failure::request(format!("--authorities is of TLS, not of {}", transport.name())));
        }
        Ok((transport, server, None))
    }

    fn tls(&self, host: &str, address: IpAddr) -> Result<LineTls, Failure> {
        let trust = match &self.authorities {
            Some(file) => tls::Trust::Authorities(tls::authorities(file).map_err(Failure::request)?),
            None => tls::Trust::Anyone,
        };
        let client = tls::client(&trust, None).map_err(Failure::request)?;
        let name = name_of(host, address);
        let certified = server_name(&name)
            .ok_or_else(|| Failure::request(format!("no certificate can be for `{name}`")))?;
        Ok((client, certified))
    }
}

/// Refuses a public address, unless the user names the host as one that may be tested. Returns whether the user does so.
pub fn permit(address: IpAddr, host: &str, i_may_test: Option<&str>) -> Result<bool, Failure> {
    let may_test = may_test(i_may_test, host)?;
    if is_public(address) && !may_test {
        return Err(Failure::request(format!(
            "{address} is a public address: if you may test it, say so with --i-may-test HOST"
        )));
    }
    Ok(may_test)
}
