//! Lookups of a server: from a URI to the places at which it is tried.

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

/// Servers of one lookup that are tried.
const MOST: usize = 8;

/// How often who waits for a lookup sees whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Who knows names.
#[derive(Clone, Debug)]
pub enum NameSource {
    /// A table, without any delay.
    Table(Arc<Zone>),
    /// A DNS server.
    Server(Asking),
}

/// When a load looks where its server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// Before it begins.
    #[default]
    Once,
    /// And again before the first request of each attempt.
    PerAttempt,
    /// The same, but answers are kept as long as they say, by each thread for itself.
    Cached,
}

impl Lookup {
    /// As it is typed and told: `once`, `per-attempt`, `cached`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::PerAttempt => "per-attempt",
            Self::Cached => "cached",
        }
    }
}

/// What is looked for, whom that is asked of, and when.
#[derive(Clone, Debug)]
pub struct Location {
    /// What is looked for.
    pub uri: SipUri,
    /// Who knows it.
    pub source: NameSource,
    /// When.
    pub lookup: Lookup,
}

/// Where a load can go. What else a name leads to is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// By these transports, the preferred first.
    pub transports: Vec<Transport>,
    /// [`Kind::A`] and [`Kind::Aaaa`], the preferred first.
    pub families: Vec<Kind>,
    /// Whether who has ordered it may test public addresses.
    pub may_test: bool,
}

/// What a lookup has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// In the order in which they are to be tried, one at least.
    pub hops: Vec<Hop>,
    /// From the first question to the last answer.
    pub took: Duration,
}

impl Found {
    /// The first place, and those that take over from it: of its transport and version of IP, eight in all at most.
    pub fn servers(&self) -> Option<(Hop, Vec<SocketAddr>)> {
        let first = *self.hops.first()?;
        let alike =
            |hop: &&Hop| hop.transport == first.transport && hop.address.is_ipv4() == first.address.is_ipv4();
        Some((first, self.hops.iter().filter(alike).take(MOST).map(|hop| hop.address).collect()))
    }

    /// As an attempt takes it.
    pub fn located(&self) -> Option<Arc<Located>> {
        let (_, servers) = self.servers()?;
        Some(Arc::new(Located { servers, took: self.took }))
    }
}

/// A lookup under way.
struct Search {
    locator: Locator,
    began: Instant,
    /// The worst that a question came to.
    worst: Option<Unlocated>,
}

/// Looks for one URI, as often and as many times at once as is wanted. It never blocks.
pub struct Finder {
    uri: SipUri,
    reach: Reach,
    source: Source,
    seeds: Seeds,
    cache: Option<Cache>,
    /// Who waits for an answer that is to be kept.
    waiting: HashMap<Question, Vec<u64>>,
    searches: HashMap<u64, Search>,
    found: Vec<(u64, Result<Found, Unlocated>)>,
    kept: u64,
}

enum Source {
    Table(Arc<Zone>),
    Server(Box<Asker>),
}

impl Finder {
    /// Opens the sockets that it needs. Weights are drawn from streams of `seeds`.
    ///
    /// # Errors
    /// A socket is not to be had.
    pub fn open(location: &Location, reach: Reach, seeds: Seeds) -> Result<Self, SocketError> {
        let source = match &location.source {
            NameSource::Table(zone) => Source::Table(Arc::clone(zone)),
            NameSource::Server(asking) => Source::Server(Box::new(Asker::open(*asking)?)),
        };
        Ok(Self {
            uri: location.uri.clone(),
            reach,
            source,
            seeds,
            cache: (location.lookup == Lookup::Cached).then(Cache::default),
            waiting: HashMap::new(),
            searches: HashMap::new(),
            found: Vec::new(),
            kept: 0,
        })
    }

    /// A descriptor that can be read from while there is something to be received, if anybody is asked.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Table(_) => None,
            Source::Server(asker) => Some(asker.fd()),
        }
    }

    /// Looks for it under this number, which is none of those that are under way.
    ///
    /// # Errors
    /// It cannot be reached, whatever the DNS says.
    pub fn begin(&mut self, now: Instant, number: u64) -> Result<(), LocationError> {
        let Reach { transports, families, .. } = self.reach.clone();
        let random = self.seeds.stream(&format!("sip/location/{number}"));
        let locator = Locator::new(&self.uri, Abilities { transports, families }, random)?;
        self.searches.insert(number, Search { locator, began: now, worst: None });
        self.go_on(now, number);
        Ok(())
    }

    /// Asks what a search wants to know now; if that is nothing, it is over.
    fn go_on(&mut self, now: Instant, number: u64) {
        while let Some(search) = self.searches.get_mut(&number) {
            let Some(question) = search.locator.poll_question() else { break };
            match &mut self.source {
                Source::Table(zone) => {
                    let records = match zone.answer(&question) {
                        ZoneAnswer::Records(records, _) => Some(records.clone()),
                        ZoneAnswer::NoRecords | ZoneAnswer::NoSuchName => None,
                    };
                    search.take(&question, Ok(records));
                }
                Source::Server(asker) => {
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

    /// When [`Finder::handle_timeout`] is to be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.source {
            Source::Table(_) => None,
            Source::Server(asker) => asker.next_deadline(),
        }
    }

    /// Asks again what was not answered in time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Source::Server(asker) = &mut self.source {
            asker.handle_timeout(now);
        }
        self.settle();
    }

    /// Takes what has arrived.
    ///
    /// # Errors
    /// The kernel refuses what it always grants.
    pub fn receive(&mut self, clock: &Clock, offset: &RealtimeOffset) -> io::Result<()> {
        if let Source::Server(asker) = &mut self.source {
            asker.receive(clock, offset)?;
        }
        self.settle();
        Ok(())
    }

    /// Lets those go on whose questions have come to an end.
    fn settle(&mut self) {
        loop {
            let Source::Server(asker) = &mut self.source else { return };
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

    /// Searches that have come to an end since this was last asked, by their numbers.
    pub fn take_found(&mut self) -> Vec<(u64, Result<Found, Unlocated>)> {
        self.settle();
        std::mem::take(&mut self.found)
    }

    /// What was asked since this was last asked.
    pub fn take_counts(&mut self) -> DnsCounts {
        let kept = std::mem::take(&mut self.kept);
        match &mut self.source {
            Source::Table(_) => DnsCounts::default(),
            Source::Server(asker) => DnsCounts { kept, ..asker.take_counts() },
        }
    }
}

impl Search {
    fn take(&mut self, question: &Question, found: Result<Option<Records>, Unlocated>) {
        // Whoever does not answer has no records (RFC 3263 section 4): what that came to counts if nothing is found.
        let records = found.unwrap_or_else(|why| {
            self.worst = self.worst.max(Some(why));
            None
        });
        self.locator.handle_answer(question, records.unwrap_or(Records::none_of(question.kind)));
    }

    /// What it has found of what is in reach.
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

/// Why a URI was not found.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// It cannot be reached, whatever the DNS says.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The DNS does not say where it is.
    #[error("{0}")]
    Unlocated(#[from] Unlocated),
    /// A socket is not to be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The kernel refused what it always grants.
    #[error(transparent)]
    Kernel(#[from] io::Error),
    /// It was to end before it knew.
    #[error("interrupted")]
    Interrupted,
}

/// Looks once, and waits for it until `stop` says not to. Places to which this machine has no route are left out.
///
/// # Errors
/// Nothing was found, or could be asked.
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
