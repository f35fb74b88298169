//! What a load is told.

use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::{Duration, Instant};
use netrig_sip::header::Transport;
use netrig_sip::load::{Plan, PlanError, TemplateError};
use netrig_sip::location::Kind;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use super::kind::TimeLimit;
use crate::dns::{Found, LocateError, Location, Lookup, NameSource, Reach};
use netrig_host::socket::SocketError;
use netrig_host::{Clock, HostAddress, is_public};

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connecting {
    /// All of a thread.
    #[default]
    One,
    /// Those of a user.
    PerUser,
    /// Those of one call, registration or question: it is opened with the first and closed with the last.
    PerAttempt,
}

/// When a connection that is gone may be opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnecting {
    /// By the next request that is sent so long after.
    After(Duration),
    /// Not in this load.
    Never,
}

impl Default for Reconnecting {
    /// By the next request.
    fn default() -> Self {
        Self::After(Duration::ZERO)
    }
}

/// What messages are carried by.
#[derive(Clone, Debug, Default)]
pub enum Carrier {
    /// Datagrams.
    #[default]
    Udp,
    /// Connections.
    Tcp(Connecting),
    /// Connections in TLS.
    Tls(Connecting, LoadTls),
}

impl Carrier {
    /// Its name in messages.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp(_) => Transport::Tcp,
            Self::Tls(..) => Transport::Tls,
        }
    }

    /// How it connects, if it does.
    pub const fn connecting(&self) -> Option<Connecting> {
        match self {
            Self::Udp => None,
            Self::Tcp(connecting) | Self::Tls(connecting, _) => Some(*connecting),
        }
    }
}

/// A load over real sockets.
#[derive(Clone, Debug)]
pub struct LoadOrder {
    /// Where all requests go.
    pub target: SocketAddr,
    /// Where they go instead, one after the other, when that fails: seven at most (RFC 3263 section 4.3).
    pub others: Vec<SocketAddr>,
    /// How these are looked for: before the load begins, unless `located` says what that has found, and before each attempt if it
    /// says so. What is found for an attempt stands in the place of all of them.
    pub location: Option<Location>,
    /// What was found already.
    pub located: Option<Found>,
    /// When a connection that is gone may be opened again.
    pub reconnecting: Reconnecting,
    /// Whether the load ends when nothing comes from the server any more.
    pub ends_without_server: bool,
    /// By what.
    pub carrier: Carrier,
    /// The address that the tester's sockets have; the one from which the kernel would send if not given.
    pub local: Option<HostAddress>,
    /// The port of the first thread's socket, the next for the next; chosen by the kernel if zero.
    pub local_port: u16,
    /// Whether who gives the order may test what has a public address, also where a name leads there.
    pub may_test: bool,
    /// Threads, 1 at least.
    pub shards: u16,
    /// Whether threads keep their processors busy before each arrival, so as not to be late by a wake-up.
    pub punctual: bool,
    /// What users do, and when.
    pub plan: Plan,
}

impl LoadOrder {
    /// What a plan says, over UDP; one thread less than the process has cores.
    pub fn new(target: SocketAddr, plan: Plan) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Self {
            target,
            others: Vec::new(),
            location: None,
            located: None,
            reconnecting: Reconnecting::default(),
            ends_without_server: false,
            carrier: Carrier::Udp,
            local: None,
            local_port: 0,
            may_test: false,
            shards: u16::try_from(cores.saturating_sub(1)).unwrap_or(u16::MAX).max(1),
            punctual: false,
            plan,
        }
    }

    /// Whether requests that are too long for a datagram go over TCP, and the others over UDP.
    pub(super) fn has_two_transports(&self) -> bool {
        self.plan.sends_large_over_tcp && self.carrier.transport() == Transport::Udp
    }

    /// Where the servers that are looked for can be: by its transport and version of IP.
    pub(super) fn reach(&self) -> Reach {
        let family = if self.target.is_ipv4() { Kind::A } else { Kind::Aaaa };
        let transports = vec![self.carrier.transport()];
        Reach { transports, families: vec![family], may_test: self.may_test }
    }

    /// Refuses what cannot be carried out.
    ///
    /// # Errors
    /// [`LoadError::Request`], in a sentence.
    pub fn check(&self) -> Result<(), LoadError> {
        let refuse = |why: String| Err(LoadError::Request(why));
        let targets = std::iter::once(&self.target).chain(&self.others);
        if let Some(public) =
            targets.map(SocketAddr::ip).find(|address| is_public(*address) && !self.may_test)
        {
            return refuse(format!(
                "{public} is a public address: a load of SIP is sent there only with the word of who may test it"
            ));
        }
        if let Some(Location { source: NameSource::Server(asking), lookup, .. }) = &self.location
            && *lookup != Lookup::Once
            && is_public(asking.server.ip())
        {
            return refuse(format!(
                "{} is a public address: a DNS server of others is asked once before a load, and not by each attempt",
                asking.server.ip()
            ));
        }
        if self.others.len() > 7 {
            return refuse("there are seven servers at most that take over".to_owned());
        }
        if let Some(other) = self.others.iter().find(|other| other.is_ipv4() != self.target.is_ipv4()) {
            let [other, target] = [*other, self.target].map(HostAddress::text_with_port);
            return refuse(format!("{other} is of another version of IP than {target}"));
        }
        let users = self.plan.users;
        if self.shards == 0 || u32::from(self.shards) > users {
            return refuse(format!("{} threads need as many users at least, not {users}", self.shards));
        }
        if self.shards >= 1 << 12 {
            return refuse("there are 4095 threads at most".to_owned());
        }
        Ok(self.plan.check()?)
    }
}

/// How TLS is spoken.
#[derive(Clone, Debug)]
pub struct LoadTls {
    /// To the server.
    pub client: Arc<ClientConfig>,
    /// The name that the server's certificate is to have.
    pub name: ServerName<'static>,
    /// With a server that calls back; none if nobody is to.
    pub server: Option<Arc<ServerConfig>>,
}

/// The run of an experiment of which a load is a part.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Whose time it is.
    pub clock: Clock,
    /// When the load begins: until then all is prepared.
    pub begins: Instant,
    /// When it ends, whatever is open.
    pub ends: Instant,
}

/// Why a load could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be what was meant.
    #[error("{0}")]
    Request(String),
    /// Its users cannot do what was meant.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A socket is not to be had as it was asked for.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The kernel refused what it always grants.
    #[error("{what}: {source}")]
    Kernel {
        /// Which call.
        what: &'static str,
        /// What it answered.
        source: std::io::Error,
    },
    /// Nobody says where the server is.
    #[error("where `{name}` is: {why}")]
    Unlocated {
        /// What was looked for.
        name: String,
        /// Why it was not found.
        why: LocateError,
    },
    /// The domain cannot stand in a message.
    #[error("the domain of the users: {0}")]
    Domain(#[from] TemplateError),
    /// Users that have to be registered beforehand are not.
    #[error("user {user} could not be registered before the load: {why}")]
    Preparation {
        /// Its name.
        user: String,
        /// Why.
        why: String,
        /// The time of the order that has decided it, if one has.
        limit: Option<TimeLimit>,
        /// Whether anything has come from the server.
        is_answered: bool,
    },
    /// They are not registered when the load is to begin.
    #[error(
        "its users were not all registered when it was to start: a later `start` gives them more time, and a server that \
         answers slowly or not at all needs it"
    )]
    Late,
    /// A thread ended in a panic.
    #[error("a thread of the load panicked")]
    Panicked,
    /// It was ended before anything was measured.
    #[error("interrupted before the load began")]
    Interrupted,
}

impl LoadError {
    pub(super) fn kernel(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Kernel { what, source }
    }
}

#[cfg(test)]
mod tests {
    use netrig_sip::load::{Arrivals, Gaps, Pace, Work};

    use super::*;

    #[test]
    fn what_cannot_be_is_refused_beforehand() {
        let pace = Pace::Open(Arrivals::at(100.0, Gaps::Poisson));
        let plan = Plan::new(Work::Register, pace, Duration::from_secs(10));
        let order = LoadOrder::new("127.0.0.1:5060".parse().unwrap(), plan);
        let refused = |order: LoadOrder, words: &str| {
            let why = order.check().unwrap_err().to_string();
            assert!(why.contains(words), "{why}");
        };
        order.check().unwrap();
        let public = LoadOrder { target: "8.8.8.8:5060".parse().unwrap(), ..order.clone() };
        refused(public.clone(), "public address");
        LoadOrder { may_test: true, ..public }.check().unwrap();
        refused(LoadOrder { shards: 1001, ..order.clone() }, "as many users");
        refused(LoadOrder { plan: Plan { users: 999, ..order.plan.clone() }, ..order }, "about 1000 users");
    }
}
