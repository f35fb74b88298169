//! Assigns arriving connections and datagrams to their sessions.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::iperf3::{Cookie, OpeningTurns};
use crate::protocol::Preamble;

/// An arrival for a session of netrig's own protocol.
#[derive(Debug)]
pub(super) enum SessionArrival {
    /// A connection whose preamble has been read.
    Stream(Preamble, TcpStream),
    /// A request for datagrams, with its source.
    Datagrams(Preamble, SocketAddr),
    /// An echo, with its source.
    Echo(SocketAddr),
}

/// An arrival for a session of iperf3.
#[derive(Debug)]
pub(super) enum TestArrival {
    /// A connection whose cookie has been read.
    Stream(TcpStream),
    /// The payload of the datagram that opens a UDP stream, and its source.
    Datagram(SocketAddr, [u8; 4]),
}

/// Registered sessions by their keys.
#[derive(Debug)]
pub(super) struct SessionRegistry<K, A>(Mutex<BTreeMap<K, RegisteredSession<A>>>);

#[derive(Debug)]
struct RegisteredSession<A> {
    /// The host of the control connection. Arrivals from other hosts are rejected.
    host: IpAddr,
    queue: SyncSender<A>,
}

impl<K: Ord, A> SessionRegistry<K, A> {
    /// Whether a session has this key.
    pub fn has(&self, key: &K) -> bool {
        lock(&self.0).contains_key(key)
    }

    /// Registers a session of this host. At most `most` arrivals are queued for the session.
    pub fn open(&self, key: K, host: IpAddr, most: u32) -> Receiver<A> {
        let (queue, arrivals) = sync_channel(most as usize);
        lock(&self.0).insert(key, RegisteredSession { host: host.to_canonical(), queue });
        arrivals
    }

    /// Passes an arrival to its session. Returns false if no session of the host has the key, or if the queue of the
    /// session is full.
    pub fn pass(&self, key: &K, from: IpAddr, arrival: A) -> bool {
        let sessions = lock(&self.0);
        let session = sessions.get(key).filter(|session| session.host == from.to_canonical());
        session.is_some_and(|session| session.queue.try_send(arrival).is_ok())
    }

    /// Removes a session.
    pub fn close(&self, key: &K) {
        lock(&self.0).remove(key);
    }
}

impl<K, A> Default for SessionRegistry<K, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// Sessions of iperf3 by their cookies, and, for each host, the session whose turn it is to open UDP streams.
#[derive(Debug, Default)]
pub(super) struct TestRegistry {
    pub sessions: SessionRegistry<Cookie, TestArrival>,
    turns: Mutex<OpeningTurns<Cookie>>,
}

impl TestRegistry {
    /// Passes a datagram that opens a UDP stream to the session of its host whose turn it is. Returns false if there is
    /// none.
    pub fn pass_datagram(&self, from: SocketAddr, payload: [u8; 4]) -> bool {
        let cookie = lock(&self.turns).of(from.ip());
        cookie.is_some_and(|cookie| {
            self.sessions.pass(&cookie, from.ip(), TestArrival::Datagram(from, payload))
        })
    }

    /// Requests the turn to open UDP streams. Returns whether the session has it.
    pub fn ask(&self, host: IpAddr, cookie: Cookie) -> bool {
        lock(&self.turns).ask(host, cookie)
    }

    /// Ends the turn of a session whose UDP streams are all open.
    pub fn opened(&self, host: IpAddr, cookie: Cookie) {
        lock(&self.turns).done(host, cookie);
    }

    /// Removes a session.
    pub fn close(&self, host: IpAddr, cookie: Cookie) {
        self.opened(host, cookie);
        self.sessions.close(&cookie);
    }
}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    // A table is consistent even after a panic in another thread, because entries are inserted and removed in one step.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SessionToken;

    const CONNECT: [u8; 4] = crate::iperf3::datagram::CONNECT;

    #[test]
    fn only_the_sessions_own_host_gets_in_and_only_while_it_is_open() {
        let sessions = SessionRegistry::default();
        let (own, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let at = SocketAddr::new(own, 9);
        let token = SessionToken([1; 16]);
        let arrivals = sessions.open(token, own, 256);
        assert!(sessions.pass(&token, own, SessionArrival::Echo(at)));
        assert!(!sessions.pass(&token, other, SessionArrival::Echo(at)), "another's token is of no use");
        assert!(!sessions.pass(&SessionToken([2; 16]), own, SessionArrival::Echo(at)));
        assert_eq!(arrivals.try_iter().count(), 1);
        // Arrivals beyond the length of the queue are rejected and not stored.
        let taken = (0..1000).filter(|_| sessions.pass(&token, own, SessionArrival::Echo(at))).count();
        assert_eq!(taken, 256);
        sessions.close(&token);
        assert!(!sessions.pass(&token, own, SessionArrival::Echo(at)));
    }

    #[test]
    fn a_datagram_opens_a_stream_only_of_the_host_whose_turn_it_is() {
        let tests = TestRegistry::default();
        let [own, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let cookies = [[1; 36], [2; 36]].map(Cookie::new);
        let arrivals = cookies.map(|cookie| tests.sessions.open(cookie, own, 4));
        assert!(!tests.pass_datagram((own, 9).into(), CONNECT), "no session has asked for it");
        assert!(tests.ask(own, cookies[0]) && !tests.ask(own, cookies[1]));
        assert!(!tests.pass_datagram((other, 9).into(), CONNECT), "another host has no session");
        assert!(tests.pass_datagram((own, 9).into(), CONNECT));
        tests.opened(own, cookies[0]);
        assert!(tests.ask(own, cookies[1]) && tests.pass_datagram((own, 8).into(), CONNECT));
        assert_eq!(arrivals.each_ref().map(|arrivals| arrivals.try_iter().count()), [1, 1]);
        cookies.iter().for_each(|cookie| tests.close(own, *cookie));
        assert!(!tests.pass_datagram((own, 9).into(), CONNECT) && !tests.sessions.has(&cookies[0]));
    }
}
