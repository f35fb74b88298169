//! The server of a single call or of test purposes, from the words of the command line.

use std::net::SocketAddr;
use std::path::Path;

use netrig_host::tls::{self, Trust};
use netrig_sip_net::{LineTls, Transport, server_name};

use netrig_sip_tester::request::{certified_name, check_consent, server_address, split_server};

use super::refusal::refused;
use crate::failure::Failure;

/// A server that the user may test.
pub struct TestedServer<'a> {
    pub transport: Transport,
    /// As it was typed, with the port if one was.
    pub host: &'a str,
    pub address: SocketAddr,
}

impl<'a> TestedServer<'a> {
    /// Looks the server up. A public address needs the consent of `--i-may-test`.
    pub fn of(text: &'a str, consent: Option<&str>) -> Result<Self, Failure> {
        let (transport, host) = split_server(text).map_err(refused)?;
        let address = server_address(host, transport).map_err(refused)?;
        check_consent(address, host, consent).map_err(refused)?;
        Ok(Self { transport, host, address })
    }

    /// How a connection to it is in TLS: with a certificate of one of the authorities, or with any.
    pub fn tls(&self, authorities: Option<&Path>) -> Result<Option<LineTls>, Failure> {
        if self.transport != Transport::Tls {
            return match authorities {
                None => Ok(None),
                Some(_) => Err(Failure::request(format!(
                    "--authorities is of calls over TLS, not over {}",
                    self.transport.name()
                ))),
            };
        }
        let trust = Trust::of(authorities).map_err(Failure::request)?;
        let client = tls::client(&trust, None).map_err(Failure::request)?;
        let name = certified_name(self.host, self.address.ip());
        let name = server_name(&name)
            .ok_or_else(|| Failure::request(format!("no certificate can be for `{name}`")))?;
        Ok(Some((client, name)))
    }
}
