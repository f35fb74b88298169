//! The configuration of a server, and the errors of a server.

use std::io;
use std::net::{IpAddr, SocketAddr};

use netrig_host::tls::TlsError;
use netrig_host::{ConnectionLimits, loopback_addresses};

use crate::admission::AdmissionLimits;
use crate::iperf3;
use crate::protocol::Keyring;
use crate::request::SpeedServerSettings;

/// The configuration of a server.
#[derive(Debug)]
pub struct ServerOrder {
    /// Its settings.
    pub settings: SpeedServerSettings,
    /// The limits of admission.
    pub limits: AdmissionLimits,
    /// The user's limits on connections in addition to data connections. Those that the user has not set are derived
    /// from the limits of admission.
    pub connections: ConnectionLimits,
    /// The keys. If there are any, a client must have one.
    pub keys: Keyring,
}

/// Why a server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server could be reached from other hosts without a key.
    #[error(
        "{0} can be reached from other hosts: give a key that the clients have, too, or allow all clients (--open)"
    )]
    Open(IpAddr),
    /// The additional port for iperf3 could be reached by clients that the server must refuse.
    #[error(
        "{0} can be reached from other hosts, whose clients of iperf3 cannot prove a key: allow all clients (--open)"
    )]
    Iperf3(IpAddr),
    /// A port is not available.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The certificate could not be loaded or created.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A system call failed that normally succeeds.
    #[error("{what}: {source}")]
    Kernel {
        /// The system call.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl ServerOrder {
    /// The addresses at which the server listens: first those of its port, then those of its port for iperf3 clients.
    ///
    /// # Errors
    /// If clients can reach the server that must not use it.
    pub(super) fn addresses(&self) -> Result<Vec<SocketAddr>, ServerError> {
        let SpeedServerSettings { listen, port, iperf3_port, open, .. } = &self.settings;
        let hosts = if listen.is_empty() { loopback_addresses() } else { listen.clone() };
        let at = |port: u16| hosts.iter().map(|host| host.at(port)).collect::<Vec<_>>();
        let iperf3_port = iperf3_port.or(open.then_some(iperf3::PORT)).filter(|other| other != port);
        let (own, iperf3) = (at(*port), iperf3_port.map(at).unwrap_or_default());
        let reachable =
            |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).find(|ip| !ip.is_loopback());
        match (reachable(&own), reachable(&iperf3)) {
            _ if *open => Ok([own, iperf3].concat()),
            (Some(address), _) if self.keys.is_empty() => Err(ServerError::Open(address)),
            (_, Some(address)) => Err(ServerError::Iperf3(address)),
            _ => Ok([own, iperf3].concat()),
        }
    }
}
