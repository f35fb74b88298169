//! Assignment of arriving data connections and datagrams to their sessions.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::{MOST_STREAMS, Preamble, SessionToken};

/// An arrival for a session.
#[derive(Debug)]
pub enum SessionArrival {
    /// A connection whose preamble has been read.
    Stream(Preamble, TcpStream),
    /// A request for datagrams, with its source.
    Knock(Preamble, SocketAddr),
    /// An echo, with its source.
    Echo(SocketAddr),
}

/// Registered sessions by their tokens.
#[derive(Debug, Default)]
pub struct Rooms(Mutex<BTreeMap<SessionToken, OpenSession>>);

#[derive(Debug)]
struct OpenSession {
    /// The host of the control connection. Arrivals from other hosts are rejected.
    host: IpAddr,
    door: SyncSender<SessionArrival>,
}

impl Rooms {
    /// Registers a session of this host.
    pub fn open(&self, token: SessionToken, host: IpAddr) -> Receiver<SessionArrival> {
        let (door, arrivals) = sync_channel(2 * MOST_STREAMS as usize);
        self.lock().insert(token, OpenSession { host: host.to_canonical(), door });
        arrivals
    }

    /// Removes a session.
    pub fn close(&self, token: SessionToken) {
        self.lock().remove(&token);
    }

    /// Passes an arrival to its session. False if no session of that host has the token, or its queue is full.
    pub fn visit(&self, token: SessionToken, from: IpAddr, arrival: SessionArrival) -> bool {
        let rooms = self.lock();
        let room = rooms.get(&token).filter(|room| room.host == from.to_canonical());
        room.is_some_and(|room| room.door.try_send(arrival).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionToken, OpenSession>> {
        // After a panic the table is still consistent, because entries are inserted and removed in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sessions_own_host_gets_in_and_only_while_it_is_open() {
        let rooms = Rooms::default();
        let (own, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let at = SocketAddr::new(own, 9);
        let token = SessionToken([1; 16]);
        let arrivals = rooms.open(token, own);
        assert!(rooms.visit(token, own, SessionArrival::Echo(at)));
        assert!(!rooms.visit(token, other, SessionArrival::Echo(at)), "another's token is of no use");
        assert!(!rooms.visit(SessionToken([2; 16]), own, SessionArrival::Echo(at)));
        assert_eq!(arrivals.try_iter().count(), 1);
        // Arrivals beyond the length of the queue are rejected and not stored.
        let taken = (0..1000).filter(|_| rooms.visit(token, own, SessionArrival::Echo(at))).count();
        assert_eq!(taken, 2 * MOST_STREAMS as usize);
        rooms.close(token);
        assert!(!rooms.visit(token, own, SessionArrival::Echo(at)));
    }
}
