//! What a server is to do, and why it cannot be.

use std::io;
use std::net::{IpAddr, SocketAddr};

use netrig_host::tls::{Identity, TlsError};

use crate::admission::AdmissionLimits;
use crate::protocol::Keyring;

/// What a server is to do.
#[derive(Debug)]
pub struct ServerOrder {
    /// Where it listens, with TCP and UDP.
    pub listen: Vec<SocketAddr>,
    /// Where it listens beside that, for clients of iperf3 that know no other port. All is spoken at all of them.
    pub iperf3: Vec<SocketAddr>,
    /// The keys of which clients must have one.
    pub keys: Keyring,
    /// Whoever reaches it may measure, also who can prove no key: iperf3, ndt7 and HTTP. Without it these are served on the
    /// loopback addresses only, and a server without keys can be reached there only.
    pub open: bool,
    /// Origins of web pages, as `https://example.com`, that may measure by ndt7 beside its own; `*` is any.
    pub origins: Vec<String>,
    /// As whom it answers; a new one that has signed itself if not given.
    pub identity: Option<Identity>,
    /// Whom it lets in.
    pub limits: AdmissionLimits,
    /// Connections from one address (of IPv6 from a /64), beside those that carry a session's data. If it is not given, an address
    /// has as many as its sessions and some requests need, and a loopback address as many as there are.
    pub connections_per_address: Option<usize>,
    /// The same from one /24 of IPv4 or /48 of IPv6.
    pub connections_per_group: Option<usize>,
}

/// Why a server cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Anybody could use it.
    #[error(
        "{0} can be reached from other hosts: give a key that the clients have too, or say that anybody may measure (--open)"
    )]
    Open(IpAddr),
    /// Nobody could use it.
    #[error(
        "{0} can be reached from other hosts, whose clients of iperf3 can prove no key: say that anybody may measure (--open)"
    )]
    Iperf3(IpAddr),
    /// A port cannot be had.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The kernel refuses what it always grants.
    #[error("{what}: {source}")]
    Kernel {
        /// What.
        what: &'static str,
        /// What it answered.
        source: io::Error,
    },
}

impl ServerOrder {
    /// Whether all that can reach it may use it.
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
