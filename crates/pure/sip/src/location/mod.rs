//! Location of a SIP URI (RFC 3263): its transports, addresses and ports in the order of use.
//!
//! Start from [`Locator::new`]. It asks the DNS [`Question`]s, takes the answers, and returns [`Hop`]s in the order
//! in which to try them. A [`Zone`] is a table that answers such questions.

#[cfg(test)]
mod tests;
mod zone;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use netrig_core::{Stream, named};

use crate::header::Transport;
use crate::server::{Source, transport_of};
use crate::{Host, Scheme, SipUri};

pub use zone::{Zone, ZoneAnswer, ZoneError, ZoneFault};

/// The most records of one answer that are read.
const MOST_RECORDS: usize = 32;

/// The most names whose addresses are queried.
const MOST_NAMES: usize = 64;

/// A question to the DNS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// The type of the records.
    pub kind: Kind,
    /// The name of the records.
    pub name: String,
}

named! {
    /// A type of DNS records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Kind {
        /// Services of a domain (RFC 3403).
        Naptr = "NAPTR",
        /// Hosts of a service (RFC 2782).
        Srv = "SRV",
        /// IPv4 addresses.
        A = "A",
        /// IPv6 addresses.
        Aaaa = "AAAA",
    }
}

/// The records of an answer. They are empty if the name has no records of this type, if it does not exist, or if there
/// was no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Records {
    /// Services.
    Naptr(Vec<Naptr>),
    /// Hosts.
    Srv(Vec<Srv>),
    /// Addresses.
    Addresses(Vec<IpAddr>),
}

/// A service of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naptr {
    /// The lowest comes first.
    pub order: u16,
    /// Within one order, the lowest comes first.
    pub preference: u16,
    /// `s`: the replacement has SRV records.
    pub flags: String,
    /// The service, such as `SIP+D2U`.
    pub service: String,
    /// Empty if there is a replacement.
    pub regexp: String,
    /// The name of the next query.
    pub replacement: String,
}

/// A host of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srv {
    /// The lowest comes first.
    pub priority: u16,
    /// Relative share within one priority.
    pub weight: u16,
    /// The port of the service.
    pub port: u16,
    /// Name of the host. `.` means that the service is not available.
    pub target: String,
}

/// The transports and IP versions that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Transports, the preferred one first.
    pub transports: Vec<Transport>,
    /// [`Kind::A`] and [`Kind::Aaaa`], the preferred one first.
    pub families: Vec<Kind>,
}

/// A transport and an address to send to.
pub type Hop = Source;

/// The reason why a URI cannot be located, known before any DNS query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The URI names a transport that cannot be used.
    #[error("the transport `{0}` cannot be used here")]
    Transport(String),
    /// A SIPS URI and a transport without TLS.
    #[error("a SIPS URI over `{0}`, which has no TLS (RFC 3261 section 26.2.2)")]
    Insecure(String),
}

/// A service over one transport.
#[derive(Clone, Debug)]
struct Service {
    transport: Transport,
    name: String,
}

/// A host with a port, over one transport.
#[derive(Clone, Debug)]
struct HostTarget {
    transport: Transport,
    name: String,
    port: u16,
}

#[derive(Clone, Debug)]
enum LocatorStage {
    Naptr,
    Services(Vec<Service>),
    Hosts(Vec<HostTarget>),
    Found,
}

/// Locates a URI.
#[derive(Debug)]
pub struct Locator {
    abilities: Abilities,
    random: Stream,
    is_secure: bool,
    /// The name that is located: [`SipUri::target`].
    target: String,
    /// The transport that the URI has or implies.
    named: Option<Transport>,
    stage: LocatorStage,
    unasked: VecDeque<Question>,
    open: BTreeMap<Question, Option<Records>>,
    hops: VecDeque<Hop>,
    is_refused: bool,
}

impl Locator {
    /// Locates `uri`. `random` selects among weighted records.
    ///
    /// # Errors
    /// If the URI cannot be reached with these abilities, whatever the DNS answers.
    pub fn new(uri: &SipUri, abilities: Abilities, random: Stream) -> Result<Self, LocationError> {
        let is_secure = uri.scheme == Scheme::Sips;
        let host = uri.target();
        // "If the URI specifies a transport protocol in the transport parameter, that transport protocol SHOULD be used.
        // Otherwise, if no transport protocol is specified, but the TARGET is a numeric IP address, the client SHOULD use UDP for
        // a SIP URI, and TCP for a SIPS URI. Similarly, if no transport protocol is specified, and the TARGET is not numeric, but
        // an explicit port is provided" (RFC 3263 section 4.1; over TCP a SIPS URI has TLS).
        let is_named = uri.parameters.has("transport");
        let short = is_named || uri.port.is_some() || matches!(host, Host::Address(_));
        let named = if short { Some(usable(uri, is_secure, &abilities)?) } else { None };
        let mut locator = Self {
            abilities,
            random,
            is_secure,
            target: host.to_string(),
            named,
            stage: LocatorStage::Naptr,
            unasked: VecDeque::new(),
            open: BTreeMap::new(),
            hops: VecDeque::new(),
            is_refused: false,
        };
        locator.begin(&host, uri.port);
        Ok(locator)
    }

    fn begin(&mut self, host: &Host, port: Option<u16>) {
        match (host, self.named, port) {
            // "If TARGET is a numeric IP address, the client uses that address."
            (Host::Address(ip), Some(transport), port) => {
                let port = port.unwrap_or(transport.default_port());
                self.hops.push_back(Hop { transport, address: SocketAddr::new(*ip, port) });
                self.stage = LocatorStage::Found;
            }
            // "If the TARGET was not a numeric IP address, but a port is present in the URI, the client performs an A or AAAA
            // record lookup of the domain name."
            (Host::Name(name), Some(transport), Some(port)) => {
                self.ask_hosts(vec![HostTarget { transport, name: name.clone(), port }]);
            }
            // "because a transport was specified explicitly, the client performs an SRV query for that specific transport".
            (Host::Name(name), Some(transport), None) => {
                let name = service_name(transport, self.is_secure, name);
                self.ask_services(vec![Service { transport, name }]);
            }
            // "Otherwise, if no transport protocol or port is specified, and the target is not a numeric IP address, the client
            // SHOULD perform a NAPTR query for the domain in the URI."
            (_, None, _) => self.ask(Kind::Naptr, self.target.clone()),
        }
    }

    fn ask(&mut self, kind: Kind, name: String) {
        let question = Question { kind, name };
        if self.open.insert(question.clone(), None).is_none() {
            self.unasked.push_back(question);
        }
    }

    fn ask_services(&mut self, services: Vec<Service>) {
        self.open.clear();
        for service in &services {
            self.ask(Kind::Srv, service.name.clone());
        }
        self.stage = LocatorStage::Services(services);
        self.go_on();
    }

    fn ask_hosts(&mut self, mut servers: Vec<HostTarget>) {
        self.open.clear();
        servers.truncate(MOST_NAMES);
        for server in &servers {
            // A target that is an address needs no query.
            if server.name.parse::<IpAddr>().is_err() {
                for kind in self.abilities.families.clone() {
                    self.ask(kind, server.name.clone());
                }
            }
        }
        self.stage = LocatorStage::Hosts(servers);
        self.go_on();
    }

    /// The next question. `None` if no question is left to ask now. All questions may be asked at the same time.
    pub fn poll_question(&mut self) -> Option<Question> {
        self.unasked.pop_front()
    }

    /// Takes the answer to a question. An answer to another question is ignored. Records of another type count as no
    /// records.
    pub fn handle_answer(&mut self, question: &Question, records: Records) {
        let Some(place) = self.open.get_mut(question) else { return };
        *place = Some(records);
        self.go_on();
    }

    fn go_on(&mut self) {
        if self.open.values().any(Option::is_none) {
            return;
        }
        match std::mem::replace(&mut self.stage, LocatorStage::Found) {
            LocatorStage::Naptr => {
                let services = self.of_naptr();
                // "If no NAPTR records are found, the client constructs SRV queries for those transport protocols it supports".
                let services = if services.is_empty() { self.of_transports() } else { services };
                self.ask_services(services);
            }
            LocatorStage::Services(services) => {
                let servers = self.of_services(&services);
                if let Some(servers) = servers {
                    self.ask_hosts(servers);
                }
            }
            LocatorStage::Hosts(servers) => self.of_hosts(&servers),
            LocatorStage::Found => {}
        }
    }

    /// "First, a client resolving a SIPS URI MUST discard any services that do not contain "SIPS" as the protocol in the service
    /// field. The converse is not true, however."
    fn of_naptr(&self) -> Vec<Service> {
        let question = Question { kind: Kind::Naptr, name: self.target.clone() };
        let Some(Some(Records::Naptr(records))) = self.open.get(&question) else { return Vec::new() };
        let mut found: Vec<(u16, u16, Service)> = Vec::new();
        for record in records.iter().take(MOST_RECORDS) {
            let transport = transport_of_service(&record.service)
                .filter(|transport| self.abilities.transports.contains(transport))
                .filter(|transport| transport.is_secure() || !self.is_secure);
            if let Some(transport) = transport
                && record.flags.eq_ignore_ascii_case("s")
                && record.regexp.is_empty()
            {
                let name = without_dot(&record.replacement);
                found.push((record.order, record.preference, Service { transport, name }));
            }
        }
        found.sort_by_key(|(order, preference, _)| (*order, *preference));
        found.into_iter().map(|(_, _, service)| service).collect()
    }

    fn of_transports(&self) -> Vec<Service> {
        let usable =
            self.abilities.transports.iter().filter(|transport| transport.is_secure() || !self.is_secure);
        let service = |transport: &Transport| Service {
            transport: *transport,
            name: service_name(*transport, transport.is_secure(), &self.target),
        };
        usable.map(service).collect()
    }

    /// The hosts of all services in their order. `None` if the services are explicitly not available.
    fn of_services(&mut self, services: &[Service]) -> Option<Vec<HostTarget>> {
        let (mut servers, mut is_refused) = (Vec::new(), false);
        for Service { transport, name } in services {
            let question = Question { kind: Kind::Srv, name: name.clone() };
            let Some(Some(Records::Srv(records))) = self.open.get(&question) else { continue };
            let mut records: Vec<Srv> = records.iter().take(MOST_RECORDS).cloned().collect();
            // "A Target of "." means that the service is decidedly not available at this domain" (RFC 2782).
            let before = records.len();
            records.retain(|record| !without_dot(&record.target).is_empty());
            is_refused |= records.len() < before;
            for Srv { port, target, .. } in drawn(records, &mut self.random) {
                servers.push(HostTarget { transport: *transport, name: without_dot(&target), port });
            }
        }
        if servers.is_empty() && is_refused {
            self.is_refused = true;
            return None;
        }
        if servers.is_empty() {
            // "If no SRV records were found, the client performs an A or AAAA record lookup of the domain name", and takes the
            // default: "UDP for a SIP URI, and TCP for a SIPS URI".
            let default = if self.is_secure { Transport::Tls } else { Transport::Udp };
            let transport = self.named.unwrap_or(default);
            let (name, port) = (self.target.clone(), transport.default_port());
            servers.push(HostTarget { transport, name, port });
        }
        Some(servers)
    }

    fn of_hosts(&mut self, servers: &[HostTarget]) {
        for HostTarget { transport, name, port } in servers {
            let mut addresses = Vec::new();
            addresses.extend(name.parse::<IpAddr>());
            for kind in &self.abilities.families {
                let question = Question { kind: *kind, name: name.clone() };
                if let Some(Some(Records::Addresses(records))) = self.open.get(&question) {
                    let of_kind = records.iter().filter(|ip| ip.is_ipv4() == (*kind == Kind::A));
                    addresses.extend(of_kind.take(MOST_RECORDS));
                }
            }
            for ip in addresses {
                let hop = Hop { transport: *transport, address: SocketAddr::new(ip, *port) };
                if !self.hops.contains(&hop) {
                    self.hops.push_back(hop);
                }
            }
        }
    }

    /// Whether all answers were received. [`Locator::next_hop`] then returns the hops, if there are any.
    pub const fn is_done(&self) -> bool {
        matches!(self.stage, LocatorStage::Found)
    }

    /// Whether the domain has no such service: its only SRV record has the target ".".
    pub const fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The next hop to try. Each hop is returned once. "failure occurs if the transaction layer reports a 503 error
    /// response or a transport failure of some sort", and "if the transaction layer times out without ever having
    /// received any response" (RFC 3263 section 4.3). The request is then sent to the next hop with a new branch.
    pub fn next_hop(&mut self) -> Option<Hop> {
        self.hops.pop_front()
    }
}

fn usable(uri: &SipUri, is_secure: bool, abilities: &Abilities) -> Result<Transport, LocationError> {
    let named = uri.parameters.value("transport").unwrap_or_default().to_owned();
    let transport = transport_of(uri).ok_or_else(|| LocationError::Transport(named.clone()))?;
    if is_secure && !transport.is_secure() {
        return Err(LocationError::Insecure(named));
    }
    if !abilities.transports.contains(&transport) {
        return Err(LocationError::Transport(transport.name().to_owned()));
    }
    Ok(transport)
}

/// RFC 3263 section 4.1, RFC 4168 section 5, RFC 7118 section 9.
fn transport_of_service(service: &str) -> Option<Transport> {
    let known = [
        ("SIP+D2U", Transport::Udp),
        ("SIP+D2T", Transport::Tcp),
        ("SIPS+D2T", Transport::Tls),
        ("SIP+D2S", Transport::Sctp),
        ("SIP+D2W", Transport::Ws),
        ("SIPS+D2W", Transport::Wss),
    ];
    known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(service)).map(|(_, transport)| transport)
}

/// `_sips._tcp.example.com`.
fn service_name(transport: Transport, is_secure: bool, domain: &str) -> String {
    let service = if is_secure || transport.is_secure() { "_sips" } else { "_sip" };
    let protocol = match transport {
        Transport::Udp => "_udp",
        Transport::Tcp | Transport::Tls => "_tcp",
        Transport::Sctp => "_sctp",
        Transport::Ws | Transport::Wss => "_ws",
    };
    format!("{service}.{protocol}.{}", without_dot(domain))
}

fn without_dot(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

/// The order of RFC 2782: by priority; of one priority "arrange all SRV RRs ... in any order, except that all those with weight
/// 0 are placed at the beginning of the list. Compute the sum of the weights of those RRs, and with each RR associate the
/// running sum in the selected order. Then choose a uniform random number between 0 and the sum computed (inclusive), and
/// select the RR whose running sum value is the first in the selected order which is greater than or equal to the random number
/// selected."
fn drawn(mut records: Vec<Srv>, random: &mut Stream) -> Vec<Srv> {
    records.sort_by_key(|record| (record.priority, record.weight != 0));
    let mut order = Vec::with_capacity(records.len());
    while let Some(priority) = records.first().map(|record| record.priority) {
        let end = records.iter().take_while(|record| record.priority == priority).count();
        let sum: u64 = records[..end].iter().map(|record| u64::from(record.weight)).sum();
        let chosen = random.below(sum + 1);
        let mut running = 0;
        let place = records[..end].iter().position(|record| {
            running += u64::from(record.weight);
            running >= chosen
        });
        order.push(records.remove(place.unwrap_or(0)));
    }
    order
}
