//! What a load is told.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use netrig_core::Duration;
use netrig_sip::header::Transport;
use netrig_sip::index::Thresholds;
use netrig_sip::load::{Directory, Scenario, TemplateError, What};
use netrig_sip::transaction::Timing;
use netrig_traffic::SpanDistribution;

use super::arrivals::Arrivals;
use super::streams::LoadTls;
use crate::SocketError;

/// What users do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Each registers, once.
    Register,
    /// All are registered beforehand, and register again.
    ReRegister,
    /// All are registered beforehand, and take that back, once each.
    Unregister,
    /// Each calls its peer, or asks it something.
    Call(Scenario),
}

impl Work {
    /// What its records say that was done.
    pub const fn what(self) -> What {
        match self {
            Self::Register | Self::ReRegister => What::Register,
            Self::Unregister => What::Unregister,
            Self::Call(scenario) => scenario.what(),
        }
    }

    /// Whether each user does it once only.
    pub const fn is_once(self) -> bool {
        matches!(self, Self::Register | Self::Unregister)
    }
}

/// When users begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// Whatever became of those before: open loop.
    Open(Arrivals),
    /// Each again so long after it was done: closed loop, of all users.
    Closed(SpanDistribution),
}

/// Who is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalleeOrder {
    /// The server itself, or somebody behind it.
    Foreign,
    /// The tester: each user has a peer that is registered with the server beforehand and answers after ringing so long.
    Own {
        /// From the INVITE to the 200, zero for an answer without ringing.
        ringing: Duration,
    },
}

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

/// A load.
#[derive(Clone, Debug)]
pub struct LoadOrder {
    /// Where all requests go.
    pub target: SocketAddr,
    /// By what.
    pub carrier: Carrier,
    /// The address that the tester's sockets have; the one from which the kernel would send if not given.
    pub local: Option<IpAddr>,
    /// The port of the first thread's socket, the next for the next; chosen by the kernel if zero.
    pub local_port: u16,
    /// Whether who gives the order may test what has a public address.
    pub may_test: bool,
    /// What users do.
    pub work: Work,
    /// When.
    pub pace: Pace,
    /// How long they begin.
    pub duration: Duration,
    /// How many begin at most.
    pub count: Option<u64>,
    /// What begins in the first so much of the time is not measured.
    pub warm_up: Duration,
    /// How many users there are.
    pub users: u32,
    /// Their names; those of their peers follow behind them.
    pub names: Directory,
    /// Their passwords.
    pub passwords: Directory,
    /// Behind the `@` of all names; the target's address if not given, with its port if that is not 5060.
    pub domain: Option<String>,
    /// For how long is registered, s.
    pub expires: u32,
    /// Who is called.
    pub callee: CalleeOrder,
    /// The size of the session descriptions, bytes; none if zero.
    pub description: usize,
    /// T1, T2 and T4.
    pub timing: Timing,
    /// How long it may ring.
    pub longest_ringing: Duration,
    /// The most calls at once, in each thread.
    pub calls: u32,
    /// Threads, 1 at least.
    pub shards: u16,
    /// Of the arrivals.
    pub seed: u64,
    /// What the server has to keep to.
    pub thresholds: Thresholds,
    /// What is open for longer than it lasts by itself and this is overdue.
    pub patience: Duration,
}

impl LoadOrder {
    /// Users named `user000000` and so on without passwords, who call at these moments for so long; one thread less than
    /// the process has cores.
    pub fn new(target: SocketAddr, work: Work, pace: Pace, duration: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Self {
            target,
            carrier: Carrier::Udp,
            local: None,
            local_port: 0,
            may_test: false,
            work,
            pace,
            duration,
            count: None,
            warm_up: Duration::ZERO,
            users: 1000,
            names: Directory::pattern("user", 6),
            passwords: Directory::Fixed(Box::new([])),
            domain: None,
            expires: 3600,
            callee: CalleeOrder::Foreign,
            description: 0,
            timing: Timing::default(),
            longest_ringing: Duration::from_secs(180),
            calls: 1 << 20,
            shards: u16::try_from(cores.saturating_sub(1)).unwrap_or(u16::MAX).max(1),
            seed: 1,
            thresholds: Thresholds::default(),
            // Connection, answer signal and disconnect, each as long as it may be.
            patience: Duration::from_millis(2500),
        }
    }

    /// How long one lasts by itself: ringing, holding, waiting before it gives up.
    pub fn own_span(&self) -> Duration {
        let ringing = match self.callee {
            CalleeOrder::Own { ringing } => ringing,
            CalleeOrder::Foreign => Duration::ZERO,
        };
        match self.work {
            Work::Call(Scenario::Call { hold }) => ringing + hold,
            Work::Call(Scenario::Cancel { after }) => after,
            Work::Call(Scenario::NoAnswer { patience }) => patience,
            _ => Duration::ZERO,
        }
    }

    /// Whether who is called is the tester's.
    pub const fn has_own_callees(&self) -> bool {
        matches!(self.callee, CalleeOrder::Own { .. })
    }

    /// How many things begin per second at most, about.
    pub fn peak(&self) -> f64 {
        match &self.pace {
            Pace::Open(arrivals) => arrivals.peak(),
            Pace::Closed(pause) => f64::from(self.users) / pause.mean().as_secs_f64().max(1e-3),
        }
    }

    /// Refuses what cannot be carried out.
    ///
    /// # Errors
    /// [`LoadError::Request`], in a sentence.
    pub fn check(&self) -> Result<(), LoadError> {
        let refuse = |why: String| Err(LoadError::Request(why));
        let is_call = matches!(self.work, Work::Call(_));
        if is_public(self.target.ip()) && !self.may_test {
            return refuse(format!(
                "{} is a public address: a load of SIP is sent there only with the word of who may test it",
                self.target.ip()
            ));
        }
        if self.users == 0 || self.shards == 0 || u32::from(self.shards) > self.users {
            return refuse(format!(
                "{} threads need as many users at least, not {}",
                self.shards, self.users
            ));
        }
        if self.shards >= 1 << 12 {
            return refuse("there are 4095 threads at most".to_owned());
        }
        if self.users > 1 << 30 {
            return refuse(format!("{} users are too many: {} at most", self.users, 1 << 30));
        }
        if self.has_own_callees() && !is_call {
            return refuse("who is called is of the tester's only in scenarios that call".to_owned());
        }
        if self.warm_up >= self.duration {
            return refuse("the warm-up takes all of the time".to_owned());
        }
        match &self.pace {
            Pace::Closed(_) if self.work == Work::Unregister => {
                refuse("who has unregistered has nothing to do again: no closed loop".to_owned())
            }
            Pace::Closed(pause) => {
                pause.check("interval").map_err(|error| LoadError::Request(error.to_string()))
            }
            Pace::Open(Arrivals::Rate { stages, .. }) if !stages.iter().all(is_rate) => {
                refuse("a rate is a number of zero or more, and not zero throughout".to_owned())
            }
            Pace::Open(arrivals) if arrivals.peak() <= 0.0 => {
                refuse("nobody arrives: the rate is zero throughout".to_owned())
            }
            Pace::Open(arrivals) => {
                let expected = arrivals.expected(self.duration).min(self.count.unwrap_or(u64::MAX) as f64);
                if self.work.is_once() && expected > f64::from(self.users) {
                    return refuse(format!(
                        "about {expected:.0} users will be wanted in {} s and there are {}: more users, a lower rate, or \
                         a count",
                        self.duration.as_secs_f64(),
                        self.users
                    ));
                }
                Ok(())
            }
        }
    }
}

fn is_rate(stage: &super::Stage) -> bool {
    [stage.from, stage.to].iter().all(|rate| rate.is_finite() && *rate >= 0.0)
}

/// Whether an address is of the public Internet: neither this host's, nor of a link, nor of a private network (RFC 1918, RFC
/// 6598, RFC 4193), nor for documentation and benchmarks (RFC 5737, RFC 3849, RFC 2544).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_benchmark = a == 198 && (18..20).contains(&b);
            !(v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_documentation()
                || v4 == Ipv4Addr::UNSPECIFIED
                || is_shared
                || is_benchmark)
        }
        IpAddr::V6(v6) => {
            if let Some(v4) = v6.to_ipv4_mapped() {
                return is_public(v4.into());
            }
            let is_documentation = v6.segments()[..2] == [0x2001, 0xdb8];
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || is_documentation)
        }
    }
}

/// Why a load could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be what was meant.
    #[error("{0}")]
    Request(String),
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
    },
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
    use super::super::Gaps;
    use super::*;

    #[test]
    fn public_addresses_are_told_from_others() {
        for own in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "::1",
            "fd00::1",
        ] {
            assert!(!is_public(own.parse().unwrap()), "{own}");
        }
        for public in ["8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8", "224.0.0.1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_beforehand() {
        let pace = Pace::Open(Arrivals::at(100.0, Gaps::Poisson));
        let order = LoadOrder::new(
            "127.0.0.1:5060".parse().unwrap(),
            Work::Register,
            pace.clone(),
            Duration::from_secs(10),
        );
        let refused = |order: LoadOrder, words: &str| {
            let why = order.check().unwrap_err().to_string();
            assert!(why.contains(words), "{why}");
        };
        order.check().unwrap();
        refused(LoadOrder { users: 999, ..order.clone() }, "about 1000 users will be wanted");
        LoadOrder { users: 999, count: Some(999), ..order.clone() }.check().unwrap();
        refused(LoadOrder { target: "8.8.8.8:5060".parse().unwrap(), ..order.clone() }, "public address");
        let consented =
            LoadOrder { target: "8.8.8.8:5060".parse().unwrap(), may_test: true, ..order.clone() };
        consented.check().unwrap();
        refused(LoadOrder { shards: 2, users: 1, ..order.clone() }, "as many users");
        refused(LoadOrder { warm_up: Duration::from_secs(10), ..order.clone() }, "warm-up");
        let own = CalleeOrder::Own { ringing: Duration::ZERO };
        refused(LoadOrder { callee: own, ..order.clone() }, "only in scenarios that call");
        let closed = Pace::Closed(SpanDistribution::Constant(Duration::from_secs(1)));
        refused(LoadOrder { pace: closed, work: Work::Unregister, ..order.clone() }, "closed loop");
        let none = Pace::Open(Arrivals::at(0.0, Gaps::Poisson));
        refused(LoadOrder { pace: none, ..order }, "nobody arrives");
    }
}
