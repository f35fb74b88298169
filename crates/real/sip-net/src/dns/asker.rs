//! Queries to one DNS server, over UDP and, if a response is truncated, over TCP.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Duration, Instant, Seeds, Stream, counts};
use netrig_sip::load::Unlocated;
use netrig_sip::location::{Question, Records};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use super::message::{Reading, query, read};
use super::tcp_query::TcpQuery;
use crate::datagrams::DatagramSocket;
use crate::send_batch::OutgoingDatagram;
use netrig_host::RealtimeOffset;
use netrig_host::socket::SocketError;
use netrig_host::socket::TimestampMode;
use netrig_host::sys::{MESSAGES, ReceiveBatch};
use netrig_host::{Clock, HostAddress};

/// Number of sockets. Each query uses a random one, whose port the kernel has chosen at random.
const SOCKETS: usize = 8;

/// Maximum number of pending queries.
const MOST: usize = SOCKETS << 12;

/// Maximum number of aliases that are followed with one query after the other.
const MOST_ALIASES: u8 = 8;

/// Number of bytes that are read of a datagram.
const KEPT: usize = 4096;

/// A socket's receive buffer, bytes.
const ROOM: u32 = 1 << 20;

/// Maximum number of sockets that one poll reports.
const REPORTS: usize = 64;

/// The poller's keys of TCP connections start at this number.
const FIRST_TCP_KEY: u64 = 1 << 32;

/// A DNS server and the parameters of queries to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The DNS server to which all queries are sent.
    pub server: SocketAddr,
    /// Retransmission interval of a query. For servers of others, "the minimum retransmission interval should be 2-5
    /// seconds" (RFC 1035 section 4.2.1).
    pub retry: Duration,
    /// Number of transmissions of a query after which it fails; at least 1.
    pub tries: u32,
}

impl Asking {
    /// Retransmission after two seconds, three transmissions in all.
    pub const fn new(server: SocketAddr) -> Self {
        Self { server, retry: Duration::from_secs(2), tries: 3 }
    }
}

counts! {
    /// Counts of DNS queries.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct DnsCounts {
        /// Queries.
        pub asked: u64,
        /// Retransmissions.
        pub again: u64,
        /// Queries that were repeated over TCP, because the response was truncated.
        pub over_tcp: u64,
        /// Queries that were answered from the cache.
        pub kept: u64,
        /// Datagrams that answer no query: of other senders, with other IDs, or with other questions.
        pub foreign: u64,
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// The number of the look-up.
    pub of: u64,
    /// The original question.
    pub question: Question,
    /// The records; `None` if there are none.
    pub found: Result<Option<Records>, Unlocated>,
    /// How long the result may be cached, s.
    pub ttl: u32,
    /// When the response arrived.
    pub at: Instant,
}

struct Pending {
    of: u64,
    question: Question,
    /// The question of the pending query: the original one, or one for the name to which an alias leads.
    current: Question,
    aliases: u8,
    id: u16,
    socket: usize,
    message: Vec<u8>,
    tries: u32,
    due: Instant,
    tcp: Option<TcpQuery>,
}

/// A DNS client that never blocks.
pub(super) struct Asker {
    asking: Asking,
    sockets: Vec<DatagramSocket>,
    batch: ReceiveBatch,
    watched: OwnedFd,
    random: Stream,
    number: u64,
    pending: HashMap<u64, Pending>,
    by_id: HashMap<(usize, u16), u64>,
    due: BTreeSet<(Instant, u64)>,
    answers: Vec<Answered>,
    counts: DnsCounts,
}

impl Asker {
    /// Opens the sockets.
    pub fn open(asking: Asking) -> Result<Self, SocketError> {
        let any = HostAddress::unspecified_for(asking.server).at(0);
        let failed = |source: io::Error| SocketError::Refused { what: "epoll", address: any, source };
        let watched = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut sockets = Vec::with_capacity(SOCKETS);
        for place in 0..SOCKETS {
            let socket = DatagramSocket::open(any, ROOM, Some(TimestampMode::Received))?;
            let data = epoll::EventData::new_u64(place as u64);
            epoll::add(&watched, socket.fd(), data, epoll::EventFlags::IN)
                .map_err(|error| failed(error.into()))?;
            sockets.push(socket);
        }
        let seed = netrig_host::random().map(u64::from_ne_bytes).map_err(failed)?;
        Ok(Self {
            asking,
            sockets,
            batch: ReceiveBatch::new(KEPT),
            watched,
            // The seed must not be predictable.
            random: Seeds::new(seed).stream("dns"),
            number: 0,
            pending: HashMap::new(),
            by_id: HashMap::new(),
            due: BTreeSet::new(),
            answers: Vec::new(),
            counts: DnsCounts::default(),
        })
    }

    /// A descriptor that is readable while there is something to receive.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }

    /// Counts since the last call.
    pub fn take_counts(&mut self) -> DnsCounts {
        std::mem::take(&mut self.counts)
    }

    /// Results of queries that have ended since the last call.
    pub fn take_answers(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answers)
    }

    /// Sends a query for look-up `of`.
    pub fn ask(&mut self, now: Instant, of: u64, question: Question) {
        self.counts.asked += 1;
        let pending = Pending {
            of,
            current: question.clone(),
            question,
            aliases: 0,
            id: 0,
            socket: 0,
            message: Vec::new(),
            tries: 0,
            due: now,
            tcp: None,
        };
        self.begin(now, pending);
    }

    /// Sends a query for the first time, with a random ID and from a random socket.
    fn begin(&mut self, now: Instant, mut pending: Pending) {
        if self.pending.len() >= MOST {
            return self.answer(pending, Err(Unlocated::NoRoom), 0, now);
        }
        loop {
            pending.socket = self.random.below(SOCKETS as u64) as usize;
            pending.id = self.random.bits() as u16;
            if !self.by_id.contains_key(&(pending.socket, pending.id)) {
                break;
            }
        }
        match query(pending.id, &pending.current) {
            Some(message) => pending.message = message,
            None => return self.answer(pending, Ok(None), 0, now),
        }
        self.number += 1;
        self.by_id.insert((pending.socket, pending.id), self.number);
        self.pending.insert(self.number, pending);
        self.send(now, self.number);
    }

    fn send(&mut self, now: Instant, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.tries += 1;
        self.due.remove(&(pending.due, number));
        pending.due = now + self.asking.retry;
        self.due.insert((pending.due, number));
        let (to, bytes) = (self.asking.server, pending.message.as_slice());
        // A datagram that the kernel refuses counts as lost in the network, and is sent again.
        self.sockets[pending.socket].send(now, &[OutgoingDatagram { to, bytes, order_key: None }], |_, _| ());
    }

    /// The latest time for the next call of [`Asker::handle_timeout`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Retransmits unanswered queries. Queries that were sent as often as allowed fail.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((due, number)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, number));
            let Some(pending) = self.pending.get(&number) else { continue };
            // Over TCP the kernel retransmits.
            if pending.tries < self.asking.tries && pending.tcp.is_none() {
                self.counts.again += 1;
                self.send(now, number);
            } else {
                self.end(number, Err(Unlocated::NoAnswer), 0, now);
            }
        }
    }

    /// Receives the responses that have arrived.
    pub fn receive(&mut self, clock: &Clock, offset: &RealtimeOffset) -> io::Result<()> {
        loop {
            let mut events = Vec::with_capacity(REPORTS);
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            match epoll::wait(&self.watched, rustix::buffer::spare_capacity(&mut events), Some(&at_once)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                let event: epoll::Event = event;
                match event.data.u64() {
                    number if number >= FIRST_TCP_KEY => self.tcp(number - FIRST_TCP_KEY, clock.now()),
                    place => self.receive_at(place as usize, clock, offset)?,
                }
            }
        }
    }

    fn receive_at(&mut self, place: usize, clock: &Clock, offset: &RealtimeOffset) -> io::Result<()> {
        let mut come = Vec::new();
        self.sockets[place].receive(&mut self.batch, MESSAGES, |incoming| {
            let now = clock.now();
            let stamped = incoming.stamp.map(|ns| clock.instant(offset.monotonic(ns)));
            come.push((incoming.from, incoming.head.to_vec(), stamped.unwrap_or(now).min(now)));
        })?;
        for (from, bytes, at) in come {
            let id = bytes.first_chunk().map(|id| u16::from_be_bytes(*id));
            let known = id.and_then(|id| self.by_id.get(&(place, id))).copied();
            match known.filter(|_| from == self.asking.server) {
                Some(number) => self.take(number, &bytes, at, clock.now()),
                None => self.counts.foreign += 1,
            }
        }
        Ok(())
    }

    /// Handles a message that may answer a query.
    fn take(&mut self, number: u64, bytes: &[u8], at: Instant, now: Instant) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        match read(bytes, pending.id, &pending.current) {
            Reading::Foreign => self.counts.foreign += 1,
            Reading::Truncated if pending.tcp.is_some() => {}
            Reading::Truncated => self.begin_tcp(number, now),
            Reading::Alias(name) => {
                let Some(mut pending) = self.remove(number) else { return };
                pending.aliases += 1;
                if pending.aliases > MOST_ALIASES {
                    return self.answer(pending, Err(Unlocated::Malformed), 0, at);
                }
                (pending.current.name, pending.tries, pending.tcp) = (name, 0, None);
                self.counts.asked += 1;
                self.begin(now, pending);
            }
            Reading::Records(records, ttl) => self.end(number, Ok(Some(records)), ttl, at),
            Reading::Nothing(ttl) => self.end(number, Ok(None), ttl, at),
            Reading::Failed(why) => self.end(number, Err(why), 0, at),
        }
    }

    /// Repeats the query over TCP.
    fn begin_tcp(&mut self, number: u64, now: Instant) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        self.counts.over_tcp += 1;
        let made = TcpQuery::open(self.asking.server, &pending.message).and_then(|tcp| {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(&self.watched, tcp.fd(), epoll::EventData::new_u64(FIRST_TCP_KEY + number), flags)?;
            Ok(tcp)
        });
        match made {
            Ok(tcp) => {
                pending.tcp = Some(tcp);
                self.due.remove(&(pending.due, number));
                pending.due = now + self.asking.retry * u64::from(self.asking.tries);
                self.due.insert((pending.due, number));
            }
            Err(_) => self.end(number, Err(Unlocated::NoAnswer), 0, now),
        }
    }

    fn tcp(&mut self, number: u64, now: Instant) {
        let Some(tcp) = self.pending.get_mut(&number).and_then(|pending| pending.tcp.as_mut()) else {
            return;
        };
        match tcp.go_on() {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                self.take(number, &bytes, now, now);
                // The connection is used by this query only. A response to another question is therefore malformed.
                let is_open = self.pending.get(&number).is_some_and(|pending| pending.tcp.is_some());
                if is_open {
                    self.end(number, Err(Unlocated::Malformed), 0, now);
                }
            }
            Err(_) => self.end(number, Err(Unlocated::NoAnswer), 0, now),
        }
    }

    fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        self.by_id.remove(&(pending.socket, pending.id));
        self.due.remove(&(pending.due, number));
        Some(pending)
    }

    fn end(&mut self, number: u64, found: Result<Option<Records>, Unlocated>, ttl: u32, at: Instant) {
        if let Some(pending) = self.remove(number) {
            self.answer(pending, found, ttl, at);
        }
    }

    fn answer(&mut self, pending: Pending, found: Result<Option<Records>, Unlocated>, ttl: u32, at: Instant) {
        self.answers.push(Answered { of: pending.of, question: pending.question, found, ttl, at });
    }
}
