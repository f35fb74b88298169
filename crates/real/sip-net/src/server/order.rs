//! What a server's sockets are to be, and why they cannot be had.

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

/// Connections at once, if nothing is said.
const CONNECTIONS: usize = 10_000;

/// Descriptors beside those of connections with a slot: files, sockets, the pacer's, and connections that wait for a 503.
const OTHER_DESCRIPTORS: u64 = 64 + MOST_REFUSED as u64;

/// What a server's sockets are to be.
#[derive(Clone, Debug)]
pub struct SocketsOrder {
    /// Where it listens.
    pub listen: Vec<ListeningPoint>,
    /// As whom it speaks TLS; needed to listen for it.
    pub identity: Option<Identity>,
    /// Clients over TLS must show a certificate of one of these authorities.
    pub clients: Option<Arc<RootCertStore>>,
    /// Whom it takes at their word when it opens connections over TLS; nobody if it is not said.
    pub trust: Option<Trust>,
    /// Which addresses names have.
    pub names: Names,
    /// How long each response waits before it is sent.
    pub delay: Option<SpanDistribution>,
    /// How many connections there may be, and how long.
    pub limits: Limits,
    /// Of what is drawn.
    pub seeds: Seeds,
}

/// Why a server cannot live.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another one listens there.
    #[error("{0} is taken: another program listens there")]
    Taken(ListeningPoint),
    /// The address is not of this machine.
    #[error("{0} cannot be listened at: this machine has no such address")]
    NotOurs(ListeningPoint),
    /// The kernel refuses to listen there.
    #[error("{point} cannot be listened at: {source}")]
    Refused {
        /// Where.
        point: ListeningPoint,
        /// Why.
        source: SocketError,
    },
    /// The system allows too few open files.
    #[error(
        "{connections} connections need {needed} file descriptors, and {allowed} are allowed; `ulimit -n {needed}` before it, \
         or fewer connections"
    )]
    Descriptors {
        /// That there may be.
        connections: usize,
        /// For them and all else.
        needed: u64,
        /// That the process may have.
        allowed: u64,
    },
    /// There is TLS, and nobody as whom to speak it.
    #[error("{0} needs a certificate and its key")]
    NoIdentity(ListeningPoint),
    /// TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The kernel refuses what it always grants.
    #[error("{what}: {source}")]
    Kernel {
        /// The call.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

pub(super) fn kernel(what: &'static str) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Kernel { what, source }
}

/// How many connections there may be, for which the process is given the descriptors.
pub(super) fn allowed_connections(
    wanted: Option<usize>,
) -> Result<(usize, Option<DescriptorShortage>), ServeError> {
    let connections = wanted.unwrap_or(CONNECTIONS);
    match connections_within(connections, 1, OTHER_DESCRIPTORS) {
        // A server that could hold none is none.
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

/// What can be reached from where it listens.
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
