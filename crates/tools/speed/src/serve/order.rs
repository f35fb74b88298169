//! The configuration of a server, and its errors.

use std::io;
use std::net::{IpAddr, SocketAddr};

use netrig_host::tls::{Identity, TlsError};

use crate::admission::AdmissionLimits;
use crate::protocol::Keyring;

/// The configuration of a server.
#[derive(Debug)]
pub struct ServerOrder {
    /// The addresses at which it listens, with TCP and UDP.
    pub listen: Vec<SocketAddr>,
    /// Additional addresses for clients of iperf3 that know no other port. All protocols are served at all addresses.
    pub iperf3: Vec<SocketAddr>,
    /// The keys. If there are any, a client must have one.
    pub keys: Keyring,
    /// Whether any client may measure, including those of iperf3, ndt7 and HTTP, which cannot prove a key. If false, these are served on
    /// loopback addresses only, and a server without keys listens only there.
    pub open: bool,
    /// Origins of web pages, such as `https://example.com`, that may measure by ndt7 in addition to its own. `*` allows all.
    pub origins: Vec<String>,
    /// The certificate and its key. A new self-signed one if absent.
    pub identity: Option<Identity>,
    /// The limits of admission.
    pub limits: AdmissionLimits,
    /// The limit of connections from one address (for IPv6 from a /64), in addition to data connections. If absent, an address has as many
    /// as its sessions and some requests need, and a loopback address has no limit.
    pub connections_per_address: Option<usize>,
    /// The limit of connections from one IPv4 /24 or IPv6 /48.
    pub connections_per_group: Option<usize>,
}

/// Why a server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server would be public.
    #[error(
        "{0} can be reached from other hosts: give a key that the clients have, too, or allow all clients (--open)"
    )]
    Open(IpAddr),
    /// Clients of iperf3 could not use it.
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
    /// The certificate failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A basic system call failed.
    #[error("{what}: {source}")]
    Kernel {
        /// The system call.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl ServerOrder {
    /// Checks that all clients that can reach the server may use it.
    pub(super) fn check(&self) -> Result<(), ServerError> {
        let reachable =
            |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).find(|ip| !ip.is_loopback());
        match (reachable(&self.listen), reachable(&self.iperf3)) {
            _ if self.open => Ok(()),
            (Some(address), _) if self.keys.is_empty() => Err(ServerError::Open(address)),
            (_, Some(address)) => Err(ServerError::Iperf3(address)),
            _ => Ok(()),
        }
    }
}
