//! Assignment of arriving iperf3 streams to their sessions.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::iperf3::{Cookie, MOST_STREAMS, OpeningTurns};

/// An arrival for a session.
#[derive(Debug)]
pub(super) enum TestArrival {
    /// A connection whose cookie has been read.
    Stream(TcpStream),
    /// The payload of the datagram that opens a UDP stream, and its source.
    Knock(SocketAddr, [u8; 4]),
}

/// Sessions of iperf3, by their cookies.
#[derive(Debug, Default)]
pub(super) struct Booths(Mutex<BoothTable>);

#[derive(Debug, Default)]
struct BoothTable {
    booths: BTreeMap<Cookie, OpenTest>,
    turns: OpeningTurns<Cookie>,
}

#[derive(Debug)]
struct OpenTest {
    /// The host of the control connection. Streams of other hosts are rejected.
    host: IpAddr,
    door: SyncSender<TestArrival>,
}

impl Booths {
    /// Whether a session has this cookie.
    pub fn has(&self, cookie: Cookie) -> bool {
        self.lock().booths.contains_key(&cookie)
    }

    /// Registers a session of this host.
    pub fn open(&self, cookie: Cookie, host: IpAddr) -> Receiver<TestArrival> {
        let (door, arrivals) = sync_channel(4 * MOST_STREAMS as usize);
        self.lock().booths.insert(cookie, OpenTest { host: host.to_canonical(), door });
        arrivals
    }

    /// Passes a connection to its session. False if the host differs or the queue of the session is full.
    pub fn visit(&self, cookie: Cookie, from: IpAddr, stream: TcpStream) -> bool {
        let table = self.lock();
        let booth = table.booths.get(&cookie).filter(|booth| booth.host == from.to_canonical());
        booth.is_some_and(|booth| booth.door.try_send(TestArrival::Stream(stream)).is_ok())
    }

    /// Passes a datagram that opens a UDP stream to the session of that host whose turn it is. False if there is none.
    pub fn knock(&self, from: SocketAddr, words: [u8; 4]) -> bool {
        let table = self.lock();
        let booth = table.turns.of(from.ip()).and_then(|cookie| table.booths.get(&cookie));
        booth.is_some_and(|booth| booth.door.try_send(TestArrival::Knock(from, words)).is_ok())
    }

    /// Requests the turn to open UDP streams. Returns whether the session has it.
    pub fn ask(&self, host: IpAddr, cookie: Cookie) -> bool {
        self.lock().turns.ask(host, cookie)
    }

    /// The UDP streams of a session are open.
    pub fn opened(&self, host: IpAddr, cookie: Cookie) {
        self.lock().turns.done(host, cookie);
    }

    /// Removes a session.
    pub fn close(&self, host: IpAddr, cookie: Cookie) {
        let mut table = self.lock();
        table.turns.done(host, cookie);
        table.booths.remove(&cookie);
    }

    fn lock(&self) -> MutexGuard<'_, BoothTable> {
        // After a panic the table is still consistent, because entries are inserted and removed in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [u8; 4] = crate::iperf3::datagram::CONNECT;

    #[test]
    fn a_datagram_opens_a_stream_only_of_the_host_whose_turn_it_is() {
        let booths = Booths::default();
        let [own, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let cookies = [[1; 36], [2; 36]].map(Cookie::new);
        let arrivals = cookies.map(|cookie| booths.open(cookie, own));
        assert!(!booths.knock((own, 9).into(), WORDS), "nobody has asked for it");
        assert!(booths.ask(own, cookies[0]) && !booths.ask(own, cookies[1]));
        assert!(!booths.knock((other, 9).into(), WORDS), "another host has no session");
        assert!(booths.knock((own, 9).into(), WORDS));
        booths.opened(own, cookies[0]);
        assert!(booths.ask(own, cookies[1]) && booths.knock((own, 8).into(), WORDS));
        assert_eq!(arrivals.each_ref().map(|arrivals| arrivals.try_iter().count()), [1, 1]);
        cookies.iter().for_each(|cookie| booths.close(own, *cookie));
        assert!(!booths.knock((own, 9).into(), WORDS) && !booths.has(cookies[0]));
    }
}
