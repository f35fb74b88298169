//! The connections of a DNS server.
//!
//! A connection is unvalidated until a complete query has arrived over it. If there is no slot ([`ConnectionSlots`]) or
//! no memory, the server closes the connection. Servers may limit the connections of an address or subnet (RFC 7766
//! section 6.2.2), and a client repeats unanswered queries after its connection closed (section 6.2.4). The response
//! code REFUSED is not used, because it would mean that this server never answers the query.

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpStream};

use netrig_core::{Duration, Instant};

use super::tcp_query::{PREFIX, first_framed, framed};
use crate::byte_stream::{flush_bytes, read_bytes};
use netrig_host::{ConnectionSlots, EnteredSlot, SlotId, SlotLimits};
use netrig_host::{MemoryBudget, MemoryExhausted, MemoryReservation};

/// A connection without a complete query for this time is closed (RFC 7766 section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// Memory limit of all connections together, bytes. It includes incomplete queries, delayed responses, and responses
/// that peers have not received.
const MOST_KEPT: usize = 64 << 20;

/// No query of a connection is handled while this many bytes of responses wait to be sent to its peer.
const MOST_ANSWERS: usize = 256 << 10;

/// Maximum number of bytes of queries that are read from a connection before they are answered.
const MOST_ASKED: usize = 128 << 10;

/// All connections, by their slots.
pub(super) struct NameConnections {
    slots: ConnectionSlots,
    memory: MemoryBudget,
    open: BTreeMap<SlotId, NameConnection>,
    /// Connections that were closed because there was no slot or no memory.
    pub refused: u64,
}

struct NameConnection {
    stream: TcpStream,
    peer: IpAddr,
    /// Received bytes: queries that have not yet been handled, and perhaps an incomplete one.
    got: Vec<u8>,
    /// Number of bytes at the front of `got` that have been handled.
    taken: usize,
    unsent: Vec<u8>,
    /// Bytes of delayed responses.
    owed: usize,
    until: Instant,
    /// The peer has closed its sending direction, and may still receive.
    has_finished: bool,
    kept: MemoryReservation,
}

impl NameConnections {
    /// Without connections.
    pub fn new(limits: SlotLimits) -> Self {
        Self {
            slots: ConnectionSlots::new(limits),
            memory: MemoryBudget::of(MOST_KEPT),
            open: BTreeMap::new(),
            refused: 0,
        }
    }

    /// Accepts a connection. If there is no slot for it, it is closed.
    pub fn accept(&mut self, now: Instant, stream: TcpStream, from: IpAddr) {
        let Ok(EnteredSlot { slot, gives_way }) = self.slots.enter(from) else {
            self.refused += 1;
            return;
        };
        if let Some(gives_way) = gives_way {
            self.refuse(gives_way);
        }
        let connection = NameConnection {
            stream,
            peer: from,
            got: Vec::new(),
            taken: 0,
            unsent: Vec::new(),
            owed: 0,
            until: now + IDLE,
            has_finished: false,
            kept: self.memory.none(),
        };
        self.open.insert(slot, connection);
    }

    /// The slots of all connections.
    pub fn slots(&self) -> Vec<SlotId> {
        self.open.keys().copied().collect()
    }

    /// Sends and reads over a connection without blocking.
    pub fn carry(&mut self, slot: SlotId) {
        if let Some(connection) = self.open.get_mut(&slot)
            && !(connection.flush() && connection.read())
        {
            self.close(slot);
        }
    }

    /// The host at the other end of a connection; `None` if the connection is closed.
    pub fn peer(&self, slot: SlotId) -> Option<IpAddr> {
        self.open.get(&slot).map(|connection| connection.peer)
    }

    /// The next query of a connection; `None` if there is none, or too many bytes of responses wait for the peer.
    pub fn take_question(&mut self, now: Instant, slot: SlotId) -> Option<Vec<u8>> {
        let connection = self.open.get_mut(&slot)?;
        if connection.owed + connection.unsent.len() >= MOST_ANSWERS {
            return None;
        }
        let question = first_framed(&connection.got[connection.taken..])?.to_vec();
        connection.taken += PREFIX + question.len();
        connection.until = now + IDLE;
        if self.slots.prove(slot).is_err() {
            self.refuse(slot);
            return None;
        }
        Some(question)
    }

    /// Reserves memory for a delayed response. If there is none left, the connection is closed.
    pub fn owe(&mut self, slot: SlotId, bytes: usize) -> Option<MemoryReservation> {
        let connection = self.open.get_mut(&slot)?;
        match self.memory.reserve(bytes) {
            Ok(kept) => {
                connection.owed += bytes;
                Some(kept)
            }
            Err(MemoryExhausted { .. }) => {
                self.refuse(slot);
                None
            }
        }
    }

    /// Sends a response that is due. Bytes that the kernel does not take yet are kept and sent later.
    pub fn send(&mut self, now: Instant, slot: SlotId, message: &[u8], kept: MemoryReservation) {
        let Some(connection) = self.open.get_mut(&slot) else { return };
        connection.owed -= kept.bytes();
        drop(kept);
        connection.unsent.extend(framed(message));
        if connection.flush() {
            self.settle(now, slot);
        } else {
            self.close(slot);
        }
    }

    /// Updates the reserved memory of a connection, or closes the connection if it is finished.
    pub fn settle(&mut self, now: Instant, slot: SlotId) {
        let Some(connection) = self.open.get_mut(&slot) else { return };
        if connection.is_over(now) {
            self.close(slot);
        } else if connection.recount().is_err() {
            self.refuse(slot);
        }
    }

    fn refuse(&mut self, slot: SlotId) {
        self.refused += 1;
        self.close(slot);
    }

    fn close(&mut self, slot: SlotId) {
        self.open.remove(&slot);
        self.slots.leave(slot);
    }
}

impl NameConnection {
    /// Passes waiting bytes to the kernel. Returns false if the connection has failed.
    fn flush(&mut self) -> bool {
        flush_bytes(&mut self.stream, &mut self.unsent).is_ok()
    }

    /// Reads received bytes, up to a limit. Returns false if the connection has failed.
    fn read(&mut self) -> bool {
        if self.has_finished {
            return true;
        }
        let goes_on = read_bytes(&mut self.stream, &mut self.got, MOST_ASKED);
        self.has_finished = matches!(goes_on, Ok(false));
        goes_on.is_ok()
    }

    /// Whether the connection is finished: the peer has closed it and all its queries are answered, or it has been idle
    /// for too long.
    fn is_over(&self, now: Instant) -> bool {
        let asks = first_framed(&self.got[self.taken..]).is_some();
        let is_done = self.has_finished && !asks && self.owed == 0 && self.unsent.is_empty();
        is_done || now >= self.until
    }

    /// Updates the reserved memory to the allocated size of the buffers.
    ///
    /// # Errors
    /// If the memory of all connections exceeds the limit.
    fn recount(&mut self) -> Result<(), MemoryExhausted> {
        if self.taken > 0 {
            self.got.drain(..self.taken);
            self.got.shrink_to_fit();
            self.taken = 0;
        }
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
        self.kept.set(self.got.capacity() + self.unsent.capacity())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener};
    use std::time::Duration as StdDuration;

    use super::*;

    const LIMITS: SlotLimits =
        SlotLimits { strangers: 4, known: 1, total: 5, per_address: 3, per_group: 9, on_loopback: false };

    /// A listening socket for test peers.
    struct Peers(TcpListener);

    impl Peers {
        fn new() -> Self {
            Self(TcpListener::bind("127.0.0.1:0").unwrap())
        }

        /// Opens a connection that the server accepts as one from the address `from`.
        fn call(&self, connections: &mut NameConnections, from: &str) -> TcpStream {
            let near = TcpStream::connect(self.0.local_addr().unwrap()).unwrap();
            let (far, _) = self.0.accept().unwrap();
            far.set_nonblocking(true).unwrap();
            connections.accept(Instant::ZERO, far, from.parse().unwrap());
            near
        }
    }

    /// Serves all connections until a query has arrived. Returns its connection and the query.
    fn asked(connections: &mut NameConnections) -> (SlotId, Vec<u8>) {
        for _ in 0..10_000 {
            for slot in connections.slots() {
                connections.carry(slot);
                if let Some(question) = connections.take_question(Instant::ZERO, slot) {
                    return (slot, question);
                }
            }
            std::thread::sleep(StdDuration::from_millis(1));
        }
        panic!("no question comes");
    }

    /// Serves all connections until `count` of them are open.
    fn until_open(connections: &mut NameConnections, count: usize) {
        for _ in 0..10_000 {
            for slot in connections.slots() {
                connections.carry(slot);
                connections.settle(Instant::ZERO, slot);
            }
            if connections.open.len() == count {
                return;
            }
            std::thread::sleep(StdDuration::from_millis(1));
        }
        panic!("{} connections are open", connections.open.len());
    }

    fn is_closed(mut near: &TcpStream) -> bool {
        !matches!(near.read(&mut [0]), Ok(1..))
    }

    #[test]
    fn the_oldest_silent_connection_of_the_largest_group_gives_way() {
        let (peers, mut connections) = (Peers::new(), NameConnections::new(LIMITS));
        let alone = peers.call(&mut connections, "198.51.100.1");
        let crowd = [(); 3].map(|()| peers.call(&mut connections, "192.0.2.1"));
        assert!(is_closed(&peers.call(&mut connections, "192.0.2.1")), "an address has a limit");
        let newcomer = peers.call(&mut connections, "203.0.113.1");
        assert!(is_closed(&crowd[0]));
        assert_eq!((connections.open.len(), connections.refused), (4, 2));
        // A peer that closes frees its slot at once.
        drop(alone);
        until_open(&mut connections, 3);
        drop(newcomer);
        until_open(&mut connections, 2);
        assert_eq!((connections.slots.len(), connections.refused), (2, 2));
    }

    #[test]
    fn a_question_for_which_there_is_no_slot_closes_its_connection_and_others_go_on() {
        let (peers, mut connections) = (Peers::new(), NameConnections::new(LIMITS));
        let mut known = peers.call(&mut connections, "192.0.2.1");
        known.write_all(&framed(b"first")).unwrap();
        let (slot, question) = asked(&mut connections);
        assert_eq!(question, b"first");
        let mut other = peers.call(&mut connections, "198.51.100.1");
        other.write_all(&framed(b"second")).unwrap();
        until_open(&mut connections, 2);
        while connections.open.len() > 1 {
            for slot in connections.slots() {
                connections.carry(slot);
                assert!(connections.take_question(Instant::ZERO, slot).is_none(), "there is no slot");
            }
        }
        assert!(is_closed(&other));
        assert_eq!(connections.refused, 1);
        known.write_all(&framed(b"third")).unwrap();
        assert_eq!(asked(&mut connections), (slot, b"third".to_vec()));
    }

    #[test]
    fn a_peer_that_takes_no_answers_is_asked_for_no_more_questions_and_has_all_answers_in_the_end() {
        const QUESTIONS: usize = 400;
        let (peers, mut connections) = (Peers::new(), NameConnections::new(LIMITS));
        let mut near = peers.call(&mut connections, "192.0.2.1");
        near.write_all(&framed(b"?").repeat(QUESTIONS)).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let answer = vec![7_u8; 60_000];
        let reader = std::thread::spawn(move || {
            // After this sleep the buffers of the kernel and of the server are full.
            std::thread::sleep(StdDuration::from_millis(500));
            let mut bytes = Vec::new();
            near.read_to_end(&mut bytes).map(|_| bytes)
        });
        let mut most = 0;
        while let Some(slot) = connections.slots().first().copied() {
            connections.carry(slot);
            while connections.take_question(Instant::ZERO, slot).is_some() {
                let kept = connections.owe(slot, answer.len()).unwrap();
                most = most.max(connections.open[&slot].owed + connections.open[&slot].unsent.len());
                connections.send(Instant::ZERO, slot, &answer, kept);
            }
            connections.settle(Instant::ZERO, slot);
            most = most.max(connections.open.get(&slot).map_or(0, |open| open.unsent.len()));
            std::thread::sleep(StdDuration::from_millis(1));
        }
        assert!(most > MOST_ANSWERS / 2, "answers wait: {most} B");
        assert!(most < MOST_ANSWERS + (1 << 16), "{most} B");
        let bytes = reader.join().unwrap().unwrap();
        assert_eq!(bytes.len(), QUESTIONS * (PREFIX + answer.len()));
        assert_eq!(connections.refused, 0);
    }

    #[test]
    fn a_connection_for_which_there_is_no_memory_is_closed() {
        let (peers, mut connections) = (Peers::new(), NameConnections::new(LIMITS));
        let _near = peers.call(&mut connections, "192.0.2.1");
        let _other = peers.call(&mut connections, "198.51.100.1");
        let [first, second] = connections.slots()[..] else { panic!("two are open") };
        let kept = connections.owe(first, MOST_KEPT - 10).unwrap();
        assert!(connections.owe(second, 11).is_none());
        assert_eq!((connections.slots(), connections.refused), (vec![first], 1));
        // The memory of a delayed response stays reserved until its sending time, even if the connection has ended.
        connections.close(first);
        assert!(connections.memory.reserve(11).is_err());
        connections.send(Instant::ZERO, first, b"", kept);
        assert!(connections.memory.reserve(MOST_KEPT).is_ok());
    }

    #[test]
    fn a_peer_that_asks_nothing_for_too_long_is_closed() {
        let (peers, mut connections) = (Peers::new(), NameConnections::new(LIMITS));
        let mut near = peers.call(&mut connections, "192.0.2.1");
        near.write_all(&[0, 9, 1]).unwrap();
        until_open(&mut connections, 1);
        let slot = connections.slots()[0];
        connections.settle(Instant::ZERO + IDLE, slot);
        assert!(connections.open.is_empty() && is_closed(&near));
    }
}
