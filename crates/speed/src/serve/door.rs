//! Connections that have not said yet what they are.
//!
//! They are looked at by one thread, without waiting for any: whoever says nothing holds neither a thread nor the others up.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use super::tally::Failure;
use crate::admission::{Household, fits};
use crate::protocol::{MOST_STREAMS, Opening, PREAMBLE_LEN};
use crate::talk::PATIENCE;

/// Connections that may stand there, of all and of one household: the streams of a phase come together.
const MOST: usize = 1024;
const MOST_OF_ONE: usize = 2 * MOST_STREAMS as usize + 16;

/// How often those are looked at that have said too little: what is not whole soon comes by itself a byte at a time.
const SOON: StdDuration = StdDuration::from_millis(2);
const LATER: StdDuration = StdDuration::from_millis(50);
const PATIENT: StdDuration = StdDuration::from_millis(200);

/// Why a connection gets no further than the door.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stranger {
    #[error("a connection that says nothing")]
    Silent,
    #[error("a connection that ends before it says anything")]
    Gone,
    #[error("a connection that says nothing that is spoken here")]
    Unknown,
    #[error("more connections from one address than it may have")]
    Household,
    #[error("more connections than are allowed")]
    Crowd,
    #[error("data that belongs to no session")]
    NoSession,
    #[error("a client of iperf3, which can prove no key")]
    NoKey,
    #[error("a connection broke: {0}")]
    Broken(#[from] io::Error),
}

impl Failure for Stranger {
    fn kind(&self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Gone | Self::Broken(_) => "gone",
            Self::Unknown => "garbage",
            Self::Household | Self::Crowd => "crowd",
            Self::NoSession => "no-session",
            Self::NoKey => "key",
        }
    }
}

struct Newcomer {
    socket: TcpStream,
    peer: SocketAddr,
    until: StdInstant,
    /// When it had said something, which did not suffice.
    begun: Option<StdInstant>,
}

/// Those that stand at the door.
#[derive(Default)]
pub(super) struct Door(Vec<Newcomer>);

impl Door {
    /// Somebody comes.
    pub fn enter(&mut self, socket: TcpStream, peer: SocketAddr) -> Result<(), Stranger> {
        if self.0.len() >= MOST {
            return Err(Stranger::Crowd);
        }
        let others = self.0.iter().map(|other| Household::of(other.peer.ip()));
        if !fits(Household::of(peer.ip()), others, MOST_OF_ONE) {
            return Err(Stranger::Household);
        }
        socket.set_nonblocking(true)?;
        self.0.push(Newcomer { socket, peer, until: StdInstant::now() + PATIENCE, begun: None });
        Ok(())
    }

    /// Sockets that have said nothing: what they say is worth waking up for. What has begun would wake up again and again.
    pub fn silent(&self) -> impl Iterator<Item = &TcpStream> {
        self.0.iter().filter(|newcomer| newcomer.begun.is_none()).map(|newcomer| &newcomer.socket)
    }

    /// When to look again, at the latest.
    pub fn soon(&self, otherwise: StdDuration) -> StdDuration {
        let begun = self.0.iter().filter_map(|newcomer| newcomer.begun);
        match begun.map(|begun| begun.elapsed()).min() {
            Some(lately) if lately < PATIENT => SOON,
            Some(_) => LATER.min(otherwise),
            None => otherwise,
        }
    }

    /// Takes those of whom it is known now what they are, or that they are nobody.
    pub fn known(&mut self) -> Vec<(TcpStream, SocketAddr, Result<Opening, Stranger>)> {
        let (mut known, mut stay) = (Vec::new(), Vec::new());
        for mut newcomer in self.0.drain(..) {
            let mut bytes = [0; PREAMBLE_LEN];
            let told = match newcomer.socket.peek(&mut bytes) {
                Ok(0) => Some(Err(Stranger::Gone)),
                Ok(len) => {
                    newcomer.begun.get_or_insert_with(StdInstant::now);
                    match Opening::of(&bytes[..len]) {
                        Opening::More => None,
                        Opening::Unknown => Some(Err(Stranger::Unknown)),
                        opening => Some(Ok(opening)),
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
                Err(error) => Some(Err(error.into())),
            };
            let told = told.or_else(|| (StdInstant::now() > newcomer.until).then_some(Err(Stranger::Silent)));
            match told {
                Some(told) => known.push((newcomer.socket, newcomer.peer, told)),
                None => stay.push(newcomer),
            }
        }
        self.0 = stay;
        known
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream, SocketAddr) {
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, peer) = listener.accept().unwrap();
        (near, far, peer)
    }

    #[test]
    fn who_says_nothing_holds_nobody_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut door = Door::default();
        let (silent, far, peer) = pair(&listener);
        door.enter(far, peer).unwrap();
        let (mut slow, far, peer) = pair(&listener);
        door.enter(far, peer).unwrap();
        slow.write_all(b"GE").unwrap();
        let until = StdInstant::now() + PATIENCE;
        while door.silent().count() > 1 && StdInstant::now() < until {
            assert!(door.known().is_empty());
        }
        assert_eq!((door.silent().count(), door.soon(PATIENCE)), (1, SOON));
        slow.write_all(b"T / HTTP/1.1\r\n").unwrap();
        let known = std::iter::repeat_with(|| door.known()).find(|known| !known.is_empty()).unwrap();
        assert!(matches!(known[0].2, Ok(Opening::Http)));
        drop(silent);
        let known = std::iter::repeat_with(|| door.known()).find(|known| !known.is_empty()).unwrap();
        assert!(matches!(known[0].2, Err(Stranger::Gone)));
    }

    #[test]
    fn one_household_cannot_fill_the_door() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut door = Door::default();
        let mut ends = Vec::new();
        let turned_away = loop {
            let (near, far, peer) = pair(&listener);
            ends.push(near);
            if let Err(error) = door.enter(far, peer) {
                break error;
            }
        };
        assert!(matches!(turned_away, Stranger::Household));
        assert_eq!(ends.len(), MOST_OF_ONE + 1);
        let (near, far, _) = pair(&listener);
        ends.push(near);
        door.enter(far, "192.0.2.1:9".parse().unwrap()).unwrap();
    }
}
