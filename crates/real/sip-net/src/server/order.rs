//! The configuration of a server's sockets, and errors when they are opened.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::{Seeds, SpanDistribution};
use netrig_sip::header::Transport;
use netrig_sip::location::{Abilities, Kind};
use rustls::RootCertStore;

use super::connections::{Limits, MOST_REFUSED, Tls};
use super::names::Names;
use crate::ListeningPoint;
use netrig_host::socket::SocketError;
use netrig_host::tls::{self, Identity, TlsError, Trust};
use netrig_host::{DescriptorShortage, connections_within};

/// Default limit of simultaneous connections.
const CONNECTIONS: usize = 10_000;

/// Number of descriptors in addition to those of connections with a slot: files, sockets, the pacer, and connections
/// without a slot that wait for a 503.
const OTHER_DESCRIPTORS: u64 = 64 + MOST_REFUSED as u64;

/// The configuration of a server's sockets.
#[derive(Clone, Debug)]
pub struct SocketsOrder {
    /// The listening addresses.
    pub listen: Vec<ListeningPoint>,
    /// The server's certificate and key; needed to listen over TLS.
    pub identity: Option<Identity>,
    /// If given, TLS clients must present a certificate of one of these authorities.
    pub clients: Option<Arc<RootCertStore>>,
    /// Trusted authorities for TLS connections that the server opens. Without them it opens none.
    pub trust: Option<Trust>,
    /// The table of host names and their addresses.
    pub names: Names,
    /// Distribution of the delay of each response.
    pub delay: Option<SpanDistribution>,
    /// Limits of connections.
    pub limits: Limits,
    /// Seeds of all random streams.
    pub seeds: Seeds,
}

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another program listens at the address.
    #[error("{0} is taken: another program listens there")]
    Taken(ListeningPoint),
    /// The address is not of this machine.
    #[error("{0} cannot be listened at: this machine has no such address")]
    NotOurs(ListeningPoint),
    /// The kernel refuses the address.
    #[error("{point} cannot be listened at: {source}")]
    Refused {
        /// The address.
        point: ListeningPoint,
        /// The error.
        source: SocketError,
    },
    /// The system allows too few open files.
    #[error(
        "{connections} connections need {needed} file descriptors, and {allowed} are allowed; `ulimit -n {needed}` before it, \
         or fewer connections"
    )]
    Descriptors {
        /// Number of connections.
        connections: usize,
        /// Number of descriptors that the process needs.
        needed: u64,
        /// Number of descriptors that the process may have.
        allowed: u64,
    },
    /// A TLS listening address is given, but no certificate and key.
    #[error("{0} needs a certificate and its key")]
    NoIdentity(ListeningPoint),
    /// The TLS configuration is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A system call failed that succeeds in normal operation.
    #[error("{what}: {source}")]
    Kernel {
        /// The system call.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

pub(super) fn kernel(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Kernel { what, source }
}

/// Requests the descriptors for `wanted` connections, and returns the limit of connections that they allow. A shortage
/// is an error if `wanted` is given.
pub(super) fn allowed_connections(
    wanted: Option<usize>,
) -> Result<(usize, Option<DescriptorShortage>), ServeError> {
    let connections = wanted.unwrap_or(CONNECTIONS);
    match connections_within(connections, 1, OTHER_DESCRIPTORS) {
        // The default limit may be reduced, but not to zero.
        (held, Some(DescriptorShortage { allowed, needed, .. })) if wanted.is_some() || held == 0 => {
            Err(ServeError::Descriptors { connections, needed, allowed })
        }
        (held, shortage) => Ok((held, shortage)),
    }
}

pub(super) fn not_had(point: ListeningPoint, error: SocketError) -> ServeError {
    let code = match &error {
        SocketError::Refused { source, .. } => source.raw_os_error(),
        SocketError::DidNotTake { .. } => None,
    };
    match code {
        Some(libc::EADDRINUSE) => ServeError::Taken(point),
        Some(libc::EADDRNOTAVAIL) => ServeError::NotOurs(point),
        _ => ServeError::Refused { point, source: error },
    }
}

/// Transports and IP versions that can be reached from the listening addresses.
pub(super) fn abilities(listens: &[(Transport, SocketAddr)]) -> Abilities {
    let transports = [Transport::Udp, Transport::Tcp, Transport::Tls];
    let has = |transport: &Transport| listens.iter().any(|(own, _)| own == transport);
    let has_ip = |v4: bool| listens.iter().any(|(_, address)| address.is_ipv4() == v4);
    let families = [(Kind::A, has_ip(true)), (Kind::Aaaa, has_ip(false))];
    Abilities {
        transports: transports.into_iter().filter(has).collect(),
        families: families.into_iter().filter_map(|(kind, has)| has.then_some(kind)).collect(),
    }
}

pub(super) fn speaking(order: &SocketsOrder) -> Result<Tls, TlsError> {
    let Some(identity) = &order.identity else { return Ok(Tls::default()) };
    let trust = order.trust.clone();
    let trust = trust.unwrap_or_else(|| Trust::Authorities(Arc::new(RootCertStore::empty())));
    Ok(Tls {
        server: Some(tls::server(identity, order.clients.clone())?),
        client: Some(tls::client(&trust, Some(identity))?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: i32) -> SocketError {
        let address = "127.0.0.1:5060".parse().unwrap();
        SocketError::Refused { what: "bind", address, source: io::Error::from_raw_os_error(code) }
    }

    #[test]
    fn what_the_kernel_says_of_an_address_is_told_in_its_words() {
        let point: ListeningPoint = "udp:127.0.0.1:5060".parse().unwrap();
        assert!(matches!(not_had(point, refused(libc::EADDRINUSE)), ServeError::Taken(own) if own == point));
        assert!(matches!(not_had(point, refused(libc::EADDRNOTAVAIL)), ServeError::NotOurs(_)));
        let other = not_had(point, refused(libc::EACCES));
        assert!(matches!(other, ServeError::Refused { .. }), "{other}");
    }

    #[test]
    fn a_server_reaches_what_it_listens_like() {
        let at = |transport, address: &str| (transport, address.parse().unwrap());
        let own = abilities(&[at(Transport::Tcp, "127.0.0.1:1"), at(Transport::Udp, "127.0.0.1:1")]);
        assert_eq!(own.transports, [Transport::Udp, Transport::Tcp]);
        assert_eq!(own.families, [Kind::A]);
        let both = abilities(&[at(Transport::Tls, "[::1]:1"), at(Transport::Tls, "127.0.0.1:1")]);
        assert_eq!((both.transports, both.families), (vec![Transport::Tls], vec![Kind::A, Kind::Aaaa]));
    }

    #[test]
    fn more_connections_than_descriptors_are_refused() {
        assert_eq!(allowed_connections(Some(1)).unwrap(), (1, None));
        assert!(allowed_connections(None).unwrap().0 <= CONNECTIONS);
        let error = allowed_connections(Some(1 << 40)).unwrap_err();
        assert!(matches!(error, ServeError::Descriptors { .. }), "{error}");
    }
}
