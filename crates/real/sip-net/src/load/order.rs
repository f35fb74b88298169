//! The order of a load: all its settings.

use netrig_sip::settings::{Connections, LookupSettings};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use netrig_core::{Duration, Instant, setting_texts};
use netrig_sip::header::Transport;
use netrig_sip::load::{Plan, PlanError, TemplateError};
use netrig_sip::location::Kind;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use super::kind::TimeLimit;
use crate::dns::{Found, LocateError, Location, NameSource, Reach};
use netrig_host::socket::SocketError;
use netrig_host::{Clock, HostAddress, is_public};

/// When a lost connection may be reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnecting {
    /// The first request after this time opens it.
    After(Duration),
    /// Never in this load.
    Never,
}

impl Default for Reconnecting {
    /// The next request opens it.
    fn default() -> Self {
        Self::After(Duration::ZERO)
    }
}

impl FromStr for Reconnecting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            delay => {
                delay.parse().map(Self::After).map_err(|_| "expected a time such as 5s, or never".to_owned())
            }
        }
    }
}

impl fmt::Display for Reconnecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(delay) => write!(f, "{delay}"),
            Self::Never => f.write_str("never"),
        }
    }
}

setting_texts! {
    Reconnecting = "DELAY", "a time, or `never` in this load";
}

/// The transport of messages.
#[derive(Clone, Debug, Default)]
pub enum Carrier {
    /// UDP.
    #[default]
    Udp,
    /// TCP connections.
    Tcp(Connections),
    /// TLS connections.
    Tls(Connections, LoadTls),
}

impl Carrier {
    /// The transport that messages name.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp(_) => Transport::Tcp,
            Self::Tls(..) => Transport::Tls,
        }
    }

    /// Which requests share a connection; `None` over UDP.
    pub const fn connecting(&self) -> Option<Connections> {
        match self {
            Self::Udp => None,
            Self::Tcp(connecting) | Self::Tls(connecting, _) => Some(*connecting),
        }
    }
}

/// A load over real sockets.
#[derive(Clone, Debug)]
pub struct LoadOrder {
    /// The server's address, to which requests are sent.
    pub target: SocketAddr,
    /// Alternative addresses if the first fails, in order, at most seven (RFC 3263 section 4.3).
    pub others: Vec<SocketAddr>,
    /// How the server is looked up, if at all. It is looked up before the load starts, unless `located` has the result,
    /// and again for each attempt if so configured. The result for an attempt replaces all other addresses.
    pub location: Option<Location>,
    /// The result of an earlier look-up.
    pub located: Option<Found>,
    /// When a lost connection may be reopened.
    pub reconnecting: Reconnecting,
    /// Whether the load ends when the server has stopped sending.
    pub ends_without_server: bool,
    /// The transport.
    pub carrier: Carrier,
    /// The local address of the sockets. By default it is the source address that the kernel chooses.
    pub local: Option<HostAddress>,
    /// The port of the first thread's socket. Further threads have the following ports. With 0 the kernel chooses all
    /// ports.
    pub local_port: u16,
    /// Whether the user may test public addresses, including those that a name leads to.
    pub may_test: bool,
    /// Number of threads, at least 1.
    pub shards: u16,
    /// Whether threads spin before each start, so that a wake-up does not delay it.
    pub punctual: bool,
    /// The attempts of the users and their start times.
    pub plan: Plan,
}

impl LoadOrder {
    /// A load of this plan over UDP, with one thread fewer than the process has cores.
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

    /// Whether long requests are sent over TCP and all others over UDP (RFC 3261 section 18.1.1).
    pub(super) fn has_two_transports(&self) -> bool {
        self.plan.options.sends_large_over_tcp() && self.carrier.transport() == Transport::Udp
    }

    /// The servers of a look-up that the load can use: those with its transport and IP version.
    pub(super) fn reach(&self) -> Reach {
        let family = if self.target.is_ipv4() { Kind::A } else { Kind::Aaaa };
        let transports = vec![self.carrier.transport()];
        Reach { transports, families: vec![family], may_test: self.may_test }
    }

    /// Checks whether the order can be carried out.
    ///
    /// # Errors
    /// [`LoadError::Request`] with the reason.
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
            && *lookup != LookupSettings::Once
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
        if users == 0 {
            return refuse("there must be at least one user".to_owned());
        }
        if self.shards == 0 || u32::from(self.shards) > users {
            return refuse(format!(
                "each of {} threads needs a user, and there are {users} users",
                self.shards
            ));
        }
        if let Some(local) = self.local.filter(|local| local.ip().is_ipv4() != self.target.is_ipv4()) {
            let [local, target] = [local.to_string(), HostAddress::text_with_port(self.target)];
            return refuse(format!("the local address {local} is of another version of IP than {target}"));
        }
        if self.shards >= 1 << 12 {
            return refuse("there are 4095 threads at most".to_owned());
        }
        Ok(self.plan.check()?)
    }
}

/// The TLS configuration of a load.
#[derive(Clone, Debug)]
pub struct LoadTls {
    /// TLS to the server.
    pub client: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub name: ServerName<'static>,
    /// TLS for connections that the server opens; `None` if it may not open any.
    pub server: Option<Arc<ServerConfig>>,
}

/// The times of a load in a run of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The clock of the run.
    pub clock: Clock,
    /// When the load starts. Users are registered before.
    pub begins: Instant,
    /// When the load ends, even if attempts are pending.
    pub ends: Instant,
}

/// Why a load could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The order cannot be carried out.
    #[error("{0}")]
    Request(String),
    /// The plan of its users cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A socket cannot be opened with these options.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A system call failed that succeeds in normal operation.
    #[error("{what}: {source}")]
    Kernel {
        /// The system call.
        what: &'static str,
        /// Its error.
        source: std::io::Error,
    },
    /// The look-up of the server failed.
    #[error("where `{name}` is: {why}")]
    Unlocated {
        /// The name.
        name: String,
        /// The reason.
        why: LocateError,
    },
    /// The domain is not valid in a message.
    #[error("the domain of the users: {0}")]
    Domain(#[from] TemplateError),
    /// A user could not be registered before the load.
    #[error("user {user} could not be registered before the load: {why}")]
    Preparation {
        /// The user's name.
        user: String,
        /// The reason.
        why: String,
        /// The time limit of the order that caused the failure; `None` if none did.
        limit: Option<TimeLimit>,
        /// Whether any message of the server has arrived.
        is_answered: bool,
    },
    /// The users are not registered at the start of the load.
    #[error(
        "not all of its users were registered at its start: give it a later `start`, which a server that answers slowly needs"
    )]
    Late,
    /// A thread panicked.
    #[error("a thread of the load panicked")]
    Panicked,
    /// The load was interrupted before the first measurement.
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
    fn a_connection_is_opened_again_after_a_delay_or_never() {
        assert_eq!("never".parse(), Ok(Reconnecting::Never));
        assert_eq!("5s".parse(), Ok(Reconnecting::After(Duration::from_secs(5))));
        assert!("soon".parse::<Reconnecting>().is_err());
        for reconnecting in [Reconnecting::Never, Reconnecting::After(Duration::from_millis(1500))] {
            assert_eq!(reconnecting.to_string().parse(), Ok(reconnecting));
        }
    }

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
        refused(
            LoadOrder { shards: 1001, ..order.clone() },
            "each of 1001 threads needs a user, and there are 1000 users",
        );
        refused(LoadOrder { plan: Plan { users: 999, ..order.plan.clone() }, ..order }, "about 1000 users");
    }
}
