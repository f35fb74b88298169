//! Connections whose protocol is not known yet.
//!
//! One thread polls them without blocking. A silent connection occupies no thread and delays no other connection.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_host::{ConnectionSlots, SlotId, SlotLimits, SlotRefusal, dismiss, is_transient};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::response;
use super::tally::ServiceFailure;
use crate::admission::HOUSEHOLDS_OF_A_SITE;
use crate::control::PATIENCE;
use crate::iperf3::TestState;
use crate::protocol::{ConnectionOpening, MOST_STREAMS, PREAMBLE_LEN, TLS_ACCESS_DENIED};

/// Maximum number of connections whose protocol is not known yet.
pub(super) const MOST: usize = 1024;

/// Maximum number of pending data connections from one address: all streams of a phase arrive together.
const STREAMS_OF_ONE: usize = 2 * MOST_STREAMS as usize;

/// Default maximum number of other pending connections from one address.
const OTHERS_OF_ONE: usize = 16;

/// Maximum number of connections without a slot that wait for a busy message in their own protocol. When there are
/// more, the oldest is closed without a message.
pub(super) const MOST_TURNED_AWAY: usize = 64;

/// Time in which a connection without a slot must send its first bytes.
const LAST_CHANCE: StdDuration = StdDuration::from_secs(1);

/// Interval of checks of connections that have sent too few bytes: short at first, and longer after `PATIENT`.
const SOON: StdDuration = StdDuration::from_millis(2);
const LATER: StdDuration = StdDuration::from_millis(50);
const PATIENT: StdDuration = StdDuration::from_millis(200);

/// Why a connection is closed before it becomes a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpeningError {
    #[error("a connection that sends nothing")]
    Silent,
    #[error("a connection that closes before it sends anything")]
    Gone,
    #[error("a connection with an unsupported protocol")]
    Unknown,
    #[error("a connection above the limit: {0}")]
    Busy(#[from] SlotRefusal),
    #[error("a silent connection that was closed for another one")]
    GaveWay,
    #[error("data that belongs to no session")]
    NoSession,
    #[error("a client of iperf3, which cannot prove a key")]
    NoKey,
    #[error("a connection failed: {0}")]
    Broken(#[from] io::Error),
}

impl ServiceFailure for OpeningError {
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

struct PendingConnection {
    socket: TcpStream,
    peer: SocketAddr,
    slot: SlotId,
    until: StdInstant,
    /// Time of its first bytes, if they were too few to detect the protocol.
    begun: Option<StdInstant>,
}

/// A connection for which there is no slot. It waits for its busy message.
struct TurnedAway {
    socket: TcpStream,
    why: SlotRefusal,
    until: StdInstant,
    /// Whether it has sent bytes that were too few to detect the protocol.
    has_begun: bool,
}

impl TurnedAway {
    /// Sends the busy message once the protocol is known. Returns whether the connection is finished.
    fn is_done(&mut self) -> bool {
        let mut bytes = [0; PREAMBLE_LEN];
        let is_known = match self.socket.peek(&mut bytes) {
            Ok(len) => {
                self.has_begun = true;
                len == 0 || !matches!(ConnectionOpening::of(&bytes[..len]), ConnectionOpening::More)
            }
            Err(error) => !is_transient(&error),
        };
        if is_known {
            send_busy(&self.socket, self.why);
        }
        is_known || StdInstant::now() > self.until
    }
}

/// Sends a client the busy message of its protocol, if it can be sent without blocking.
pub(super) fn send_busy(socket: &TcpStream, why: SlotRefusal) {
    let mut said = [0; PREAMBLE_LEN];
    let Ok(len) = socket.peek(&mut said) else { return };
    let message = match ConnectionOpening::of(&said[..len]) {
        ConnectionOpening::Http => response::busy(why),
        ConnectionOpening::Control => TLS_ACCESS_DENIED.to_vec(),
        ConnectionOpening::Iperf3(_) => vec![TestState::AccessDenied.byte()],
        ConnectionOpening::Data(_) | ConnectionOpening::More | ConnectionOpening::Unknown => return,
    };
    dismiss(socket, &message);
}

/// The limits of pending connections. `most` is the total, and the other arguments are limits per address and per
/// group, if they are set.
pub(super) fn limits(most: usize, per_address: Option<usize>, per_group: Option<usize>) -> SlotLimits {
    let most = most.min(MOST);
    let of_address = |others: usize| others.saturating_add(STREAMS_OF_ONE);
    let of_group = |others: usize| others.saturating_add(STREAMS_OF_ONE * HOUSEHOLDS_OF_A_SITE);
    let limits = SlotLimits {
        strangers: most,
        known: 0,
        total: most,
        per_address: of_address(OTHERS_OF_ONE),
        per_group: of_group(OTHERS_OF_ONE * HOUSEHOLDS_OF_A_SITE),
        on_loopback: false,
    };
    limits.set(per_address.map(of_address), per_group.map(of_group))
}

/// The connections whose protocol is not known yet.
pub(super) struct PendingConnections {
    newcomers: Vec<PendingConnection>,
    turned_away: VecDeque<TurnedAway>,
    slots: ConnectionSlots,
    /// Number of connections that were closed to make room for others.
    gone: u64,
}

/// A connection and its peer, with the detected protocol or the reason to close the connection.
pub(super) type Known = (TcpStream, SocketAddr, Result<ConnectionOpening, OpeningError>);

impl PendingConnections {
    /// An empty set of connections with these [`limits`].
    pub fn new(limits: SlotLimits) -> Self {
        let (newcomers, turned_away) = (Vec::new(), VecDeque::new());
        Self { newcomers, turned_away, slots: ConnectionSlots::new(limits), gone: 0 }
    }

    /// Adds a connection. If there is no slot for it, it gets a busy message once its protocol is known.
    pub fn enter(&mut self, socket: TcpStream, peer: SocketAddr) -> Result<(), OpeningError> {
        socket.set_nonblocking(true)?;
        let entered = match self.slots.enter(peer.ip()) {
            Ok(entered) => entered,
            Err(why) => {
                if self.turned_away.len() >= MOST_TURNED_AWAY {
                    self.turned_away.pop_front();
                }
                let until = StdInstant::now() + LAST_CHANCE;
                self.turned_away.push_back(TurnedAway { socket, why, until, has_begun: false });
                return Err(why.into());
            }
        };
        if let Some(gives_way) = entered.gives_way {
            self.newcomers.retain(|newcomer| newcomer.slot != gives_way);
            self.gone += 1;
        }
        let until = StdInstant::now() + PATIENCE;
        self.newcomers.push(PendingConnection { socket, peer, slot: entered.slot, until, begun: None });
        Ok(())
    }

    /// Number of connections that were closed to make room for others since the last call.
    pub fn take_gone(&mut self) -> u64 {
        std::mem::take(&mut self.gone)
    }

    /// Sockets without received bytes, to be polled. A socket with unread bytes would wake the poll continuously.
    pub fn silent(&self) -> impl Iterator<Item = &TcpStream> {
        let newcomers = self.newcomers.iter().filter(|newcomer| newcomer.begun.is_none());
        let turned_away = self.turned_away.iter().filter(|turned_away| !turned_away.has_begun);
        newcomers.map(|newcomer| &newcomer.socket).chain(turned_away.map(|turned_away| &turned_away.socket))
    }

    /// Maximum time until the next check.
    pub fn soon(&self, otherwise: StdDuration) -> StdDuration {
        let begun = self.newcomers.iter().filter_map(|newcomer| newcomer.begun);
        match begun.map(|begun| begun.elapsed()).min() {
            Some(lately) if lately < PATIENT => SOON,
            Some(_) => LATER.min(otherwise),
            None => otherwise,
        }
    }

    /// Takes the connections whose protocol is now known, and those that must be closed.
    pub fn known(&mut self) -> Vec<Known> {
        self.turned_away.retain_mut(|turned_away| !turned_away.is_done());
        let (mut known, mut stay) = (Vec::new(), Vec::new());
        for mut newcomer in self.newcomers.drain(..) {
            let mut bytes = [0; PREAMBLE_LEN];
            let told = match newcomer.socket.peek(&mut bytes) {
                Ok(0) => Some(Err(OpeningError::Gone)),
                Ok(len) => {
                    newcomer.begun.get_or_insert_with(StdInstant::now);
                    match ConnectionOpening::of(&bytes[..len]) {
                        // The peer has closed its sending side, so the missing bytes will not arrive.
                        ConnectionOpening::More if has_finished(&newcomer.socket) => {
                            Some(Err(OpeningError::Gone))
                        }
                        ConnectionOpening::More => None,
                        ConnectionOpening::Unknown => Some(Err(OpeningError::Unknown)),
                        opening => Some(Ok(opening)),
                    }
                }
                Err(error) if is_transient(&error) => None,
                Err(error) => Some(Err(error.into())),
            };
            let told =
                told.or_else(|| (StdInstant::now() > newcomer.until).then_some(Err(OpeningError::Silent)));
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

/// Whether the peer has closed its sending side, even if some bytes are unread.
fn has_finished(socket: &TcpStream) -> bool {
    let mut ready = [PollFd::new(socket, PollFlags::RDHUP)];
    let over = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && ready[0].revents().intersects(over)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
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
        let mut pending = PendingConnections::new(limits(MOST, None, None));
        let (silent, far, peer) = pair(&listener);
        pending.enter(far, peer).unwrap();
        let (mut slow, far, peer) = pair(&listener);
        pending.enter(far, peer).unwrap();
        slow.write_all(b"GE").unwrap();
        let until = StdInstant::now() + PATIENCE;
        while pending.silent().count() > 1 && StdInstant::now() < until {
            assert!(pending.known().is_empty());
        }
        assert_eq!((pending.silent().count(), pending.soon(PATIENCE)), (1, SOON));
        slow.write_all(b"T / HTTP/1.1\r\n").unwrap();
        let known = std::iter::repeat_with(|| pending.known()).find(|known| !known.is_empty()).unwrap();
        assert!(matches!(known[0].2, Ok(ConnectionOpening::Http)));
        drop(silent);
        let known = std::iter::repeat_with(|| pending.known()).find(|known| !known.is_empty()).unwrap();
        assert!(matches!(known[0].2, Err(OpeningError::Gone)));
    }

    #[test]
    fn one_household_cannot_fill_the_door() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pending = PendingConnections::new(limits(MOST, None, None));
        const MOST_OF_ONE: usize = STREAMS_OF_ONE + OTHERS_OF_ONE;
        let [crowd, honest] = ["192.0.2.1:9", "192.0.2.2:9"].map(|peer| peer.parse().unwrap());
        let mut ends = Vec::new();
        let turned_away = loop {
            let (near, far, _) = pair(&listener);
            ends.push(near);
            if let Err(error) = pending.enter(far, crowd) {
                break error;
            }
        };
        assert!(matches!(turned_away, OpeningError::Busy(SlotRefusal::Address(MOST_OF_ONE))));
        assert_eq!(ends.len(), MOST_OF_ONE + 1);
        let (near, far, _) = pair(&listener);
        ends.push(near);
        pending.enter(far, honest).unwrap();
    }

    #[test]
    fn a_loopback_address_has_a_limit_only_if_it_is_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ends = Vec::new();
        let mut most_of_loopback = |per_address| {
            let mut pending = PendingConnections::new(limits(MOST, per_address, None));
            (0..STREAMS_OF_ONE + OTHERS_OF_ONE + 8)
                .take_while(|_| {
                    let (near, far, peer) = pair(&listener);
                    ends.push(near);
                    pending.enter(far, peer).is_ok()
                })
                .count()
        };
        assert_eq!(most_of_loopback(None), STREAMS_OF_ONE + OTHERS_OF_ONE + 8);
        assert_eq!(most_of_loopback(Some(2)), STREAMS_OF_ONE + 2);
    }

    /// Each protocol has its own busy message, so the client is answered once its first bytes have arrived.
    #[test]
    fn a_connection_without_a_slot_is_told_that_the_server_is_busy() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pending = PendingConnections::new(limits(1, None, None));
        let (_silent, far, peer) = pair(&listener);
        pending.enter(far, peer).unwrap();
        let (mut asks, far, peer) = pair(&listener);
        assert!(matches!(pending.enter(far, peer), Err(OpeningError::Busy(SlotRefusal::Full))));
        assert_eq!((pending.known().len(), pending.silent().count()), (0, 2));
        asks.write_all(b"GE").unwrap();
        while pending.silent().count() > 1 {
            assert!(pending.known().is_empty());
        }
        asks.write_all(b"T / HTTP/1.1\r\n\r\n").unwrap();
        while !pending.turned_away.is_empty() {
            assert!(pending.known().is_empty());
        }
        let mut said = String::new();
        asks.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("as many connections"), "{said}");
        // The number of such connections is limited, regardless of what they send.
        let ends: Vec<_> = (0..2 * MOST_TURNED_AWAY)
            .map(|_| {
                let (near, far, peer) = pair(&listener);
                assert!(pending.enter(far, peer).is_err());
                near
            })
            .collect();
        assert_eq!(pending.turned_away.len(), MOST_TURNED_AWAY);
        drop(ends);
        while !pending.turned_away.is_empty() {
            assert!(pending.known().is_empty());
        }
    }

    #[test]
    fn who_has_gone_after_a_byte_leaves_its_place_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pending = PendingConnections::new(limits(MOST, None, None));
        for _ in 0..3 {
            let (mut near, far, peer) = pair(&listener);
            pending.enter(far, peer).unwrap();
            near.write_all(b"G").unwrap();
        }
        let until = StdInstant::now() + PATIENCE / 2;
        let mut known = Vec::new();
        while known.len() < 3 {
            assert!(StdInstant::now() < until, "{} have been dropped", known.len());
            known.extend(pending.known());
        }
        assert!(known.iter().all(|(.., told)| matches!(told, Err(OpeningError::Gone))));
        assert!(pending.slots.is_empty());
    }

    #[test]
    fn the_largest_group_at_a_full_door_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut pending = PendingConnections::new(limits(4, None, None));
        let mut enter = |from: &str| {
            let (near, far, _) = pair(&listener);
            pending.enter(far, from.parse().unwrap()).map(|()| near)
        };
        let _crowd = [1, 2, 3, 4].map(|host| enter(&format!("192.0.2.{host}:9")).unwrap());
        let mut honest = enter("198.51.100.1:9").unwrap();
        honest.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let known = std::iter::repeat_with(|| pending.known()).find(|known| !known.is_empty()).unwrap();
        assert!(matches!(known[0].2, Ok(ConnectionOpening::Http)));
        assert_eq!((pending.take_gone(), pending.slots.len()), (1, 3));
    }
}
