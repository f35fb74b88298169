//! Look-ups of a server, from a URI to the addresses that are tried.

use netrig_sip::settings::LookupSettings;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::SipUri;
use netrig_sip::header::Transport;
use netrig_sip::load::{Located, Unlocated};
use netrig_sip::location::{
    Abilities, Hop, Kind, LocationError, Locator, Question, Records, Zone, ZoneAnswer,
};

use super::asker::{Answered, Asker, Asking, DnsCounts};
use super::cache::Cache;
use crate::point::source_towards;
use netrig_host::RealtimeOffset;
use netrig_host::is_public;
use netrig_host::socket::SocketError;
use netrig_host::{Clock, Pacer, Watch};

/// Maximum number of servers of one look-up that are tried.
const MOST: usize = 8;

/// Interval between two checks of the stop flag during a look-up.
const LOOK: Duration = Duration::from_millis(20);

/// The source of records.
#[derive(Clone, Debug)]
pub enum NameSource {
    /// A table. Look-ups take no time.
    Table(Arc<Zone>),
    /// A DNS server.
    Server(Asking),
}

/// The URI of a server to be looked up, the source of the records, and when it is looked up.
#[derive(Clone, Debug)]
pub struct Location {
    /// The URI to be looked up.
    pub uri: SipUri,
    /// The source of the records.
    pub source: NameSource,
    /// Whether the load looks the URI up once, or for each attempt.
    pub lookup: LookupSettings,
}

/// The destinations that a load can use. Other results of a look-up are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Transports, the preferred first.
    pub transports: Vec<Transport>,
    /// [`Kind::A`] and [`Kind::Aaaa`], the preferred first.
    pub families: Vec<Kind>,
    /// Whether the owner of the load may test public addresses.
    pub may_test: bool,
}

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Hops in the order of trying, at least one.
    pub hops: Vec<Hop>,
    /// Time from the first query to the last response.
    pub took: Duration,
}

impl Found {
    /// The first hop, and the addresses of at most eight hops with its transport and IP version, in the order of
    /// trying. The first hop is among them.
    pub fn servers(&self) -> Option<(Hop, Vec<SocketAddr>)> {
        let first = *self.hops.first()?;
        let alike =
            |hop: &&Hop| hop.transport == first.transport && hop.address.is_ipv4() == first.address.is_ipv4();
        Some((first, self.hops.iter().filter(alike).take(MOST).map(|hop| hop.address).collect()))
    }

    /// The result in the form that an attempt uses.
    pub fn located(&self) -> Option<Arc<Located>> {
        let (_, servers) = self.servers()?;
        Some(Arc::new(Located { servers, took: self.took }))
    }
}

/// A look-up in progress.
struct ServerSearch {
    locator: Locator,
    began: Instant,
    /// The most severe error of the queries so far.
    worst: Option<Unlocated>,
}

/// Looks up one URI, in any number of simultaneous look-ups. Its methods never block.
pub struct Finder {
    uri: SipUri,
    reach: Reach,
    source: RecordSource,
    seeds: Seeds,
    cache: Option<Cache>,
    /// The look-ups that wait for the response to a pending query. The response is then cached.
    waiting: HashMap<Question, Vec<u64>>,
    searches: HashMap<u64, ServerSearch>,
    found: Vec<(u64, Result<Found, Unlocated>)>,
    kept: u64,
}

enum RecordSource {
    Table(Arc<Zone>),
    Server(Box<Asker>),
}

impl Finder {
    /// Opens the sockets. The random order of SRV records by weight is drawn from streams of `seeds`.
    ///
    /// # Errors
    /// If a socket cannot be opened.
    pub fn open(location: &Location, reach: Reach, seeds: Seeds) -> Result<Self, SocketError> {
        let source = match &location.source {
            NameSource::Table(zone) => RecordSource::Table(Arc::clone(zone)),
            NameSource::Server(asking) => RecordSource::Server(Box::new(Asker::open(*asking)?)),
        };
        Ok(Self {
            uri: location.uri.clone(),
            reach,
            source,
            seeds,
            cache: (location.lookup == LookupSettings::Cached).then(Cache::default),
            waiting: HashMap::new(),
            searches: HashMap::new(),
            found: Vec::new(),
            kept: 0,
        })
    }

    /// A descriptor that is readable while there is something to receive. `None` for a table.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            RecordSource::Table(_) => None,
            RecordSource::Server(asker) => Some(asker.fd()),
        }
    }

    /// Starts a look-up with this number. The number must not be that of a look-up in progress.
    ///
    /// # Errors
    /// If the URI cannot be reached, whatever the DNS answers.
    pub fn begin(&mut self, now: Instant, number: u64) -> Result<(), LocationError> {
        let Reach { transports, families, .. } = self.reach.clone();
        let random = self.seeds.stream(&format!("sip/location/{number}"));
        let locator = Locator::new(&self.uri, Abilities { transports, families }, random)?;
        self.searches.insert(number, ServerSearch { locator, began: now, worst: None });
        self.go_on(now, number);
        Ok(())
    }

    /// Sends the next queries of a look-up. If there are none, the look-up ends.
    fn go_on(&mut self, now: Instant, number: u64) {
        while let Some(search) = self.searches.get_mut(&number) {
            let Some(question) = search.locator.poll_question() else { break };
            match &mut self.source {
                RecordSource::Table(zone) => {
                    let records = match zone.answer(&question) {
                        ZoneAnswer::Records(records, _) => Some(records.clone()),
                        ZoneAnswer::NoRecords | ZoneAnswer::NoSuchName => None,
                    };
                    search.take(&question, Ok(records));
                }
                RecordSource::Server(asker) => {
                    if let Some(cache) = &self.cache {
                        if let Some(records) = cache.get(now, &question) {
                            self.kept += 1;
                            search.take(&question, Ok(records.clone()));
                            continue;
                        }
                        let waiting = self.waiting.entry(question.clone()).or_default();
                        waiting.push(number);
                        if waiting.len() > 1 {
                            continue;
                        }
                    }
                    asker.ask(now, number, question);
                }
            }
        }
        if self.searches.get(&number).is_some_and(|search| search.locator.is_done())
            && let Some(search) = self.searches.remove(&number)
        {
            self.found.push((number, search.end(now, &self.reach)));
        }
    }

    /// The latest time for the next call of [`Finder::handle_timeout`].
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.source {
            RecordSource::Table(_) => None,
            RecordSource::Server(asker) => asker.next_deadline(),
        }
    }

    /// Retransmits queries that were not answered in time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let RecordSource::Server(asker) = &mut self.source {
            asker.handle_timeout(now);
        }
        self.settle();
    }

    /// Receives the responses that have arrived.
    ///
    /// # Errors
    /// If a system call fails that succeeds in normal operation.
    pub fn receive(&mut self, clock: &Clock, offset: &RealtimeOffset) -> io::Result<()> {
        if let RecordSource::Server(asker) = &mut self.source {
            asker.receive(clock, offset)?;
        }
        self.settle();
        Ok(())
    }

    /// Continues the look-ups whose queries have ended.
    fn settle(&mut self) {
        loop {
            let RecordSource::Server(asker) = &mut self.source else { return };
            let answers = asker.take_answers();
            if answers.is_empty() {
                return;
            }
            for Answered { of, question, found, ttl, at } in answers {
                let mut waiting = vec![of];
                if let Some(cache) = &mut self.cache {
                    waiting = self.waiting.remove(&question).unwrap_or_default();
                    if let Ok(records) = &found {
                        cache.put(at, question.clone(), records.clone(), ttl);
                    }
                }
                for number in waiting {
                    if let Some(search) = self.searches.get_mut(&number) {
                        search.take(&question, found.clone());
                        self.go_on(at, number);
                    }
                }
            }
        }
    }

    /// Look-ups that have ended since the last call, by their numbers.
    pub fn take_found(&mut self) -> Vec<(u64, Result<Found, Unlocated>)> {
        self.settle();
        std::mem::take(&mut self.found)
    }

    /// Counts since the last call.
    pub fn take_counts(&mut self) -> DnsCounts {
        let kept = std::mem::take(&mut self.kept);
        match &mut self.source {
            RecordSource::Table(_) => DnsCounts::default(),
            RecordSource::Server(asker) => DnsCounts { kept, ..asker.take_counts() },
        }
    }
}

impl ServerSearch {
    fn take(&mut self, question: &Question, found: Result<Option<Records>, Unlocated>) {
        // A failed query is treated as one without records (RFC 3263 section 4). Its error is reported if the look-up
        // finds nothing.
        let records = found.unwrap_or_else(|why| {
            self.worst = self.worst.max(Some(why));
            None
        });
        self.locator.handle_answer(question, records.unwrap_or(Records::none_of(question.kind)));
    }

    /// The result of the look-up: the hops that the load can use.
    fn end(mut self, now: Instant, reach: &Reach) -> Result<Found, Unlocated> {
        let all: Vec<Hop> = std::iter::from_fn(|| self.locator.next_hop()).collect();
        let may = |hop: &Hop| reach.may_test || !is_public(hop.address.ip());
        let goes = |hop: &Hop| {
            let family = if hop.address.is_ipv4() { Kind::A } else { Kind::Aaaa };
            hop.address.port() != 0
                && reach.transports.contains(&hop.transport)
                && reach.families.contains(&family)
        };
        let hops: Vec<Hop> = all.iter().filter(|hop| may(hop) && goes(hop)).copied().collect();
        match (hops.is_empty(), all.is_empty()) {
            (false, _) => Ok(Found { hops, took: now - self.began }),
            (true, true) if self.locator.is_refused() => Err(Unlocated::NoService),
            (true, true) => Err(self.worst.unwrap_or(Unlocated::NoSuchName)),
            (true, false) if all.iter().all(may) => Err(Unlocated::Elsewhere),
            (true, false) => Err(Unlocated::Forbidden),
        }
    }
}

/// Why a look-up failed.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The URI cannot be reached, whatever the DNS answers.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The look-up had no usable result.
    #[error("{0}")]
    Unlocated(#[from] Unlocated),
    /// A socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A system call failed that succeeds in normal operation.
    #[error(transparent)]
    Kernel(#[from] io::Error),
    /// The look-up was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Looks a URI up. Blocks until there is a result or `stop` is set. Addresses to which this machine has no route are
/// ignored.
///
/// # Errors
/// If nothing was found, or no query could be sent.
pub fn locate(
    location: &Location,
    reach: Reach,
    seeds: Seeds,
    stop: impl Fn() -> bool,
) -> Result<Found, LocateError> {
    let (clock, offset) = (Clock::starting_in(Duration::ZERO), RealtimeOffset::measure());
    let mut finder = Finder::open(location, reach, seeds)?;
    let mut pacer = Pacer::new(clock, Duration::ZERO)?;
    if let Some(fd) = finder.fd() {
        pacer.watch(fd, 0, Watch::Reading)?;
    }
    finder.begin(clock.now(), 0)?;
    loop {
        if let Some((_, found)) = finder.take_found().pop() {
            let mut found = found?;
            found.hops.retain(|hop| source_towards(hop.address).is_ok());
            return if found.hops.is_empty() { Err(Unlocated::Elsewhere.into()) } else { Ok(found) };
        }
        if stop() {
            return Err(LocateError::Interrupted);
        }
        let look = clock.now() + LOOK;
        pacer.wait(finder.next_deadline().map_or(look, |due| due.min(look)))?;
        finder.receive(&clock, &offset)?;
        finder.handle_timeout(clock.now());
    }
}
