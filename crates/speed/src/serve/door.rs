//! Connections that have not said yet what they are.
//!
//! They are looked at by one thread, without waiting for any: whoever says nothing holds neither a thread nor the others up.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_agent::{Busy, ConnectionSlots, SlotId, SlotLimits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::tally::Failure;
use crate::admission::HOUSEHOLDS_OF_A_SITE;
use crate::protocol::{MOST_STREAMS, Opening, PREAMBLE_LEN};
use crate::talk::PATIENCE;

/// Connections that may stand there, of all and of one household: the streams of a phase come together.
pub(super) const MOST: usize = 1024;
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
    #[error("a connection too many: {0}")]
    Busy(#[from] Busy),
    #[error("a connection that said nothing, and gave way to others")]
    GaveWay,
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
            Self::Busy(_) | Self::GaveWay => "crowd",
            Self::NoSession => "no-session",
            Self::NoKey => "key",
        }
    }
}

struct Newcomer {
    socket: TcpStream,
    peer: SocketAddr,
    slot: SlotId,
    until: StdInstant,
    /// When it had said something, which did not suffice.
    begun: Option<StdInstant>,
}

/// Those that stand at the door.
pub(super) struct Door {
    newcomers: Vec<Newcomer>,
    slots: ConnectionSlots,
    /// Newcomers that had to give way to others.
    gone: u64,
}

/// A newcomer with what it is, or why it is hung up on.
pub(super) type Known = (TcpStream, SocketAddr, Result<Opening, Stranger>);

impl Door {
    /// A door at which at most so many stand.
    pub fn new(most: usize) -> Self {
        let limits = SlotLimits {
            strangers: most.min(MOST),
            known: 0,
            total: most.min(MOST),
            per_address: MOST_OF_ONE,
            per_group: MOST_OF_ONE * HOUSEHOLDS_OF_A_SITE,
            on_loopback: true,
        };
        Self { newcomers: Vec::new(), slots: ConnectionSlots::new(limits), gone: 0 }
    }

    /// Somebody comes.
    pub fn enter(&mut self, socket: TcpStream, peer: SocketAddr) -> Result<(), Stranger> {
        socket.set_nonblocking(true)?;
        let entered = self.slots.enter(peer.ip())?;
        if let Some(gives_way) = entered.gives_way {
            self.newcomers.retain(|newcomer| newcomer.slot != gives_way);
            self.gone += 1;
        }
        let until = StdInstant::now() + PATIENCE;
        self.newcomers.push(Newcomer { socket, peer, slot: entered.slot, until, begun: None });
        Ok(())
    }

    /// How many newcomers have had to give way since this was asked last.
    pub fn take_gone(&mut self) -> u64 {
        std::mem::take(&mut self.gone)
    }

    /// Sockets that have said nothing: what they say is worth waking up for. What has begun would wake up again and again.
    pub fn silent(&self) -> impl Iterator<Item = &TcpStream> {
        self.newcomers.iter().filter(|newcomer| newcomer.begun.is_none()).map(|newcomer| &newcomer.socket)
    }

    /// When to look again, at the latest.
    pub fn soon(&self, otherwise: StdDuration) -> StdDuration {
        let begun = self.newcomers.iter().filter_map(|newcomer| newcomer.begun);
        match begun.map(|begun| begun.elapsed()).min() {
            Some(lately) if lately < PATIENT => SOON,
            Some(_) => LATER.min(otherwise),
            None => otherwise,
        }
    }

    /// Takes those of whom it is known now what they are, or that they are nobody.
    pub fn known(&mut self) -> Vec<Known> {
        let (mut known, mut stay) = (Vec::new(), Vec::new());
        for mut newcomer in self.newcomers.drain(..) {
            let mut bytes = [0; PREAMBLE_LEN];
            let told = match newcomer.socket.peek(&mut bytes) {
                Ok(0) => Some(Err(Stranger::Gone)),
                Ok(len) => {
                    newcomer.begun.get_or_insert_with(StdInstant::now);
                    match Opening::of(&bytes[..len]) {
                        // What is missing does not come any more.
                        Opening::More if has_finished(&newcomer.socket) => Some(Err(Stranger::Gone)),
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
                Some(told) => {
                    self.slots.leave(newcomer.slot);
                    known.push((newcomer.socket, newcomer.peer, told));
                }
                None => stay.push(newcomer),
            }
        }
        self.newcomers = stay;
        known
    }
}

/// Whether the peer has said all that it will, also if some of that is still unread.
fn has_finished(socket: &TcpStream) -> bool {
    let mut ready = [PollFd::new(socket, PollFlags::RDHUP)];
    let over = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && ready[0].revents().intersects(over)
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
        let mut door = Door::new(MOST);
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
        let mut door = Door::new(MOST);
        let mut ends = Vec::new();
        let turned_away = loop {
            let (near, far, peer) = pair(&listener);
            ends.push(near);
            if let Err(error) = door.enter(far, peer) {
                break error;
            }
        };
        assert!(matches!(turned_away, Stranger::Busy(Busy::Address(MOST_OF_ONE))));
        assert_eq!(ends.len(), MOST_OF_ONE + 1);
        let (near, far, _) = pair(&listener);
        ends.push(near);
        door.enter(far, "192.0.2.1:9".parse().unwrap()).unwrap();
    }

    #[test]
    fn who_has_gone_after_a_byte_leaves_its_place_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut door = Door::new(MOST);
        for _ in 0..3 {
            let (mut near, far, peer) = pair(&listener);
            door.enter(far, peer).unwrap();
            near.write_all(b"G").unwrap();
        }
        let until = StdInstant::now() + PATIENCE / 2;
        let mut known = Vec::new();
        while known.len() < 3 {
            assert!(StdInstant::now() < until, "{} have been dropped", known.len());
            known.extend(door.known());
        }
        assert!(known.iter().all(|(.., told)| matches!(told, Err(Stranger::Gone))));
        assert!(door.slots.is_empty());
    }

    #[test]
    fn the_largest_group_at_a_full_door_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut door = Door::new(4);
        let mut enter = |from: &str| {
            let (near, far, _) = pair(&listener);
            door.enter(far, from.parse().unwrap()).map(|()| near)
        };
        let _crowd = [1, 2, 3, 4].map(|host| enter(&format!("192.0.2.{host}:9")).unwrap());
        let mut honest = enter("198.51.100.1:9").unwrap();
        honest.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let known = std::iter::repeat_with(|| door.known()).find(|known| !known.is_empty()).unwrap();
        assert!(matches!(known[0].2, Ok(Opening::Http)));
        assert_eq!((door.take_gone(), door.slots.len()), (1, 3));
    }
}
