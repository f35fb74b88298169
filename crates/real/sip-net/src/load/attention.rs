//! Decides when a thread of a load reads its sockets.

use std::os::fd::BorrowedFd;

use netrig_core::{Duration, Instant};

use super::order::LoadError;
use super::wire::ShardSocket;
use netrig_host::{Clock, Pacer, SPIN, Watch};

/// Longest time that messages wait in the sockets of a thread that reads at intervals.
pub(super) const REST: Duration = Duration::from_micros(200);

/// If at least this many messages arrive per interval [`REST`], deadlines are handled only at the next read.
const MANY: u64 = 4;

/// Length of the window in which messages are counted.
const WINDOW: Duration = Duration::from_millis(10);

/// Waits for the next deadline or received message of a thread.
///
/// A wake-up costs more than handling a message, and on a virtual machine as much as a call. A thread that wakes up for
/// each of thousands of messages per second does little else. Therefore, if more than one message arrives per interval,
/// only deadlines and periodic reads wake the thread. The kernel's time stamps do not depend on when a message is read.
/// If many messages arrive per interval, only the periodic reads wake the thread. Deadlines are then handled up to one
/// interval late, unless the thread must be punctual.
pub(super) struct Attention {
    clock: Clock,
    pacer: Pacer,
    rest: Duration,
    /// Whether more messages may be waiting in the sockets.
    more: bool,
    /// Time of the last read.
    looked: Instant,
    /// Start of the window, and the number of messages in it.
    window: (Instant, u64),
    mode: WakeMode,
    is_punctual: bool,
}

/// The events that wake the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WakeMode {
    /// Each message and each deadline wakes the thread.
    Calm,
    /// Deadlines and periodic reads wake the thread.
    Busy,
    /// Only periodic reads wake the thread.
    Full,
}

impl Attention {
    /// Watches the sockets of `wire`. Messages may wait in them for at most `rest`; with zero, each message wakes the
    /// thread. A punctual thread spins before each deadline.
    pub fn to(
        wire: &ShardSocket,
        clock: Clock,
        rest: Duration,
        is_punctual: bool,
    ) -> Result<Self, LoadError> {
        let tail = if is_punctual { SPIN } else { Duration::ZERO };
        let pacer = Pacer::new(clock, tail).map_err(LoadError::kernel("epoll_create"))?;
        pacer.watch(wire.fd(), 0, Watch::Reading).map_err(LoadError::kernel("epoll_ctl"))?;
        Ok(Self {
            clock,
            pacer,
            rest,
            more: false,
            looked: Instant::ZERO,
            window: (Instant::ZERO, 0),
            mode: WakeMode::Calm,
            is_punctual,
        })
    }

    /// Also watches another descriptor. It is read together with the sockets.
    pub fn also(&self, fd: BorrowedFd<'_>) -> Result<(), LoadError> {
        self.pacer.watch(fd, 1, Watch::Reading).map_err(LoadError::kernel("epoll_ctl"))
    }

    /// Waits until the deadline `next`, or until the sockets must be read.
    pub fn wait(&mut self, next: Instant) -> Result<(), LoadError> {
        // The poller reports readiness once. Messages that were left in the sockets are read without a report.
        if self.more {
            return Ok(());
        }
        if self.mode != WakeMode::Calm {
            let (now, rested) = (self.clock.now(), self.looked + self.rest);
            let next = if self.mode == WakeMode::Full { rested } else { next };
            // If there is no deadline before the end of the interval, and half of the interval has passed, the sockets
            // are read now, which saves a wake-up.
            self.more = rested <= next.max(now);
            if !self.more || now < self.looked + Duration::from_nanos(self.rest.as_nanos() / 2) {
                self.pacer.rest(next.min(rested)).map_err(LoadError::kernel("ppoll"))?;
            }
        } else {
            self.more = !self.pacer.wait(next).map_err(LoadError::kernel("epoll_wait"))?.is_empty();
        }
        Ok(())
    }

    /// Calls `take` at most `times` times to read messages. `take` returns the number of messages and whether more may
    /// be waiting. Because of the limit, a fast sender does not delay deadlines.
    pub fn look(
        &mut self,
        times: usize,
        mut take: impl FnMut() -> Result<(u64, bool), LoadError>,
    ) -> Result<(), LoadError> {
        if !self.more {
            return Ok(());
        }
        let mut found = 0;
        for _ in 0..times {
            let (taken, more) = take()?;
            found += taken;
            self.more = more;
            if !more {
                break;
            }
        }
        self.looked = self.clock.now();
        let (since, came) = &mut self.window;
        *came += found;
        let span = self.looked - *since;
        if span >= WINDOW {
            self.mode = match self.rest * *came {
                all if all <= span => WakeMode::Calm,
                all if all <= span * MANY || self.is_punctual => WakeMode::Busy,
                _ => WakeMode::Full,
            };
            self.window = (self.looked, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::super::order::{Carrier, Reconnecting};
    use super::*;
    use netrig_host::RealtimeOffset;
    use netrig_host::sys::MESSAGES;

    struct WatchedSocket {
        wire: ShardSocket,
        clock: Clock,
        attention: Attention,
        peer: UdpSocket,
    }

    impl WatchedSocket {
        fn new(rest: Duration) -> Self {
            let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
            let wire = ShardSocket::open(&Carrier::Udp, Reconnecting::default(), any, 1.0).unwrap();
            let peer = UdpSocket::bind(any).unwrap();
            peer.connect(wire.local()).unwrap();
            let clock = Clock::starting_in(Duration::ZERO);
            Self { attention: Attention::to(&wire, clock, rest, false).unwrap(), wire, clock, peer }
        }

        /// Waits and reads. Returns the number of messages.
        fn turn(&mut self, span: Duration) -> u64 {
            self.attention.wait(self.clock.now() + span).unwrap();
            let mut all = 0;
            let look = || {
                let mut found = 0;
                let offset = RealtimeOffset::measure();
                let more = self.wire.receive(&self.clock, &offset, MESSAGES, |_, _, _, _| found += 1)?;
                all += found;
                Ok((found, more))
            };
            self.attention.look(4, look).unwrap();
            all
        }
    }

    #[test]
    fn what_comes_often_is_left_lying_until_the_rest_is_over() {
        let rest = Duration::from_secs(3600);
        let mut watched = WatchedSocket::new(rest);
        watched.attention.is_punctual = true;
        // The first read after the end of a window updates the mode.
        for _ in 0..2 {
            std::thread::sleep(WINDOW.into());
            watched.peer.send(b"x").unwrap();
            assert_eq!(watched.turn(rest), 1);
        }
        watched.peer.send(b"x").unwrap();
        assert_eq!(watched.turn(Duration::from_millis(1)), 0, "the deadline comes first");
        watched.attention.rest = Duration::ZERO;
        assert_eq!(watched.turn(rest), 1, "the rest is over");
        assert!(watched.attention.mode == WakeMode::Calm || watched.turn(Duration::ZERO) == 0);
    }

    #[test]
    fn where_very_much_comes_what_is_due_waits_for_the_look() {
        let rest = Duration::from_secs(3600);
        for is_punctual in [false, true] {
            let mut watched = WatchedSocket::new(rest);
            watched.attention.is_punctual = is_punctual;
            std::thread::sleep(WINDOW.into());
            (0..32).for_each(|_| assert_eq!(watched.peer.send(b"x").unwrap(), 1));
            assert_eq!(watched.turn(rest), 32);
            watched.attention.rest = Duration::from_secs(1);
            watched.peer.send(b"x").unwrap();
            let due = Duration::from_millis(1);
            assert_eq!(watched.turn(due), u64::from(!is_punctual), "it is due before the look");
        }
    }

    #[test]
    fn without_a_rest_each_message_is_seen_at_once() {
        let mut watched = WatchedSocket::new(Duration::ZERO);
        for _ in 0..100 {
            watched.peer.send(b"x").unwrap();
            assert_eq!(watched.turn(Duration::from_secs(3600)), 1);
        }
        assert_eq!(watched.attention.mode, WakeMode::Calm);
    }
}
