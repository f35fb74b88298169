//! The configuration of a server, and the errors of a server.

use std::io;
use std::net::{IpAddr, SocketAddr};

use netrig_host::tls::{Identity, TlsError};

use crate::admission::AdmissionLimits;
use crate::protocol::Keyring;

/// The configuration of a server.
#[derive(Debug)]
pub struct ServerOrder {
    /// The addresses at which the server listens, with TCP and UDP.
    pub listen: Vec<SocketAddr>,
    /// Additional addresses for iperf3 clients that use their default port. All protocols are served at all addresses.
    pub iperf3: Vec<SocketAddr>,
    /// The keys. If there are any, a client must have one.
    pub keys: Keyring,
    /// Whether any client may measure, including those of iperf3, ndt7 and HTTP, which cannot prove a key. If false,
    /// clients without a key are served on loopback addresses only, and a server without keys may listen only on these
    /// addresses.
    pub open: bool,
    /// Origins of web pages, such as `https://example.com`, that may measure by ndt7, in addition to the server's own
    /// pages. `*` allows all.
    pub origins: Vec<String>,
    /// The certificate and its key. `None` stands for a new self-signed certificate.
    pub identity: Option<Identity>,
    /// The limits of admission.
    pub limits: AdmissionLimits,
    /// Maximum number of connections from one address (for IPv6: from a /64), in addition to data connections. If
    /// `None`, the limit of an address is derived from the limits of its sessions, and a loopback address has no limit.
    pub connections_per_address: Option<usize>,
    /// Maximum number of connections from one IPv4 /24 or IPv6 /48. If `None`, it is derived from the limit of an
    /// address.
    pub connections_per_group: Option<usize>,
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
