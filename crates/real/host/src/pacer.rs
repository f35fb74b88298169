//! Waiting for a moment of the schedule, or for a socket.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use netrig_core::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use crate::{Clock, CpuLatencyLimit};

/// How long before a deadline a precise loop stops sleeping at first: longer than it takes to wake up, so that only the
/// spinning decides when it is over. How long that takes it then learns.
pub const SPIN: Duration = Duration::from_micros(60);

/// Between these it learns how long to spin.
const SHORTEST_SPIN: Duration = Duration::from_micros(20);
const LONGEST_SPIN: Duration = Duration::from_micros(150);

/// It spins for as long as so many of a hundred wake-ups take.
const EARLY_ENOUGH: u64 = 97;

/// A hundredth of the step by which it learns.
const LESSON: Duration = Duration::from_nanos(10);

/// Sockets are looked at this often while deadlines follow each other too closely to sleep, or after so many deadlines.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const LOOK_AFTER: u32 = 64;

/// No wait is longer, so that who waits can look at what else there is.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Resolution of `epoll_wait` as this loop uses it.
const MILLISECOND: Duration = Duration::from_millis(1);

/// Sockets that one wait can report.
const REPORTS: usize = 64;

/// Waits for absolute moments: sleeps, then spins for the rest.
///
/// What follows a wake-up that came too late is late, and spinning costs processor time: how long it spins follows the
/// 97th percentile of how late the wake-ups of this machine are, which is 30 µs on a busy one and, on a virtual one that
/// has to be woken up itself, 50 µs on an idle one.
///
/// While there is a pacer that spins, no processor of this machine halts ([`CpuLatencyLimit`]).
///
/// Sleeping is `ppoll` on an epoll set, in nanoseconds, with a timer slack of 1 ns instead of the 50 µs that a thread has
/// at first; make it on the thread that waits. Without a tail whole milliseconds are slept in `epoll_wait` itself, which saves
/// a call for each socket that has something to say.
#[derive(Debug)]
pub struct Pacer {
    clock: Clock,
    tail: Duration,
    _awake: Option<CpuLatencyLimit>,
    sockets: OwnedFd,
    ready: Vec<(u64, epoll::EventFlags)>,
    watches: Cell<bool>,
    looked: Instant,
    /// Waits since sockets were looked at.
    unlooked: u32,
}

/// What of a socket is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// That it can be read from or written to, or that the peer has finished.
    Both,
    /// That it can be read from.
    Reading,
    /// The same, until it is reported; then not before [`Pacer::watch_again`].
    ReadingOnce,
}

impl Watch {
    /// The flags for `epoll_ctl`.
    pub const fn flags(self) -> epoll::EventFlags {
        let edges = epoll::EventFlags::ET;
        match self {
            Self::Both => edges
                .union(epoll::EventFlags::IN)
                .union(epoll::EventFlags::OUT)
                .union(epoll::EventFlags::RDHUP),
            Self::Reading => edges.union(epoll::EventFlags::IN),
            Self::ReadingOnce => edges.union(epoll::EventFlags::IN).union(epoll::EventFlags::ONESHOT),
        }
    }
}

impl Pacer {
    /// A pacer that spins before each deadline, at first for `tail`; with no tail it sleeps until the end and is later.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new(clock: Clock, tail: Duration) -> std::io::Result<Self> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let sockets = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            clock,
            tail,
            _awake: if tail.is_zero() { None } else { CpuLatencyLimit::keep() },
            sockets,
            ready: Vec::with_capacity(REPORTS),
            watches: Cell::new(false),
            looked: Instant::ZERO,
            unlooked: 0,
        })
    }

    /// Reports each change of `socket`'s readiness (edge-triggered) under the number `key`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn watch(&self, socket: impl AsFd, key: u64, what: Watch) -> std::io::Result<()> {
        self.watches.set(true);
        Ok(epoll::add(&self.sockets, socket, epoll::EventData::new_u64(key), what.flags())?)
    }

    /// Reports a watched socket again, at once if it is ready.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn watch_again(&self, socket: impl AsFd, key: u64, what: Watch) -> std::io::Result<()> {
        Ok(epoll::modify(&self.sockets, socket, epoll::EventData::new_u64(key), what.flags())?)
    }

    /// Waits until `deadline` has come, a watched socket has something to say or 50 ms have passed, and gives the keys of
    /// such sockets. Closely following deadlines do not starve the sockets, nor sockets a deadline. Without a tail a wait may end up to 1 ms
    /// early, without a socket that has something to say.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn wait(&mut self, deadline: Instant) -> std::io::Result<&[(u64, epoll::EventFlags)]> {
        self.ready.clear();
        self.unlooked += 1;
        let mut left = self.clock.left_until(deadline);
        if self.tail.is_zero() && self.watches.get() && left >= MILLISECOND {
            // What is left beside whole milliseconds is slept through by the next call.
            let whole = left.min(LONGEST_SLEEP).as_nanos() / MILLISECOND.as_nanos();
            self.look(Duration::from_nanos(whole * MILLISECOND.as_nanos()))?;
            return Ok(&self.ready);
        }
        if left > self.tail {
            let span = (left - self.tail).min(LONGEST_SLEEP);
            let awake = self.clock.now() + span;
            match sleep(&mut [PollFd::new(&self.sockets, PollFlags::IN)], span)? {
                SleepEnd::Rested => {
                    (self.looked, self.unlooked) = (self.clock.now(), 0);
                    self.learn(self.looked - awake);
                }
                SleepEnd::Called => self.look(Duration::ZERO)?,
                SleepEnd::Disturbed => {}
            }
            left = self.clock.left_until(deadline);
        } else if self.unlooked >= LOOK_AFTER || deadline - self.looked >= LOOK_EVERY {
            self.look(Duration::ZERO)?;
        }
        if self.ready.is_empty() && left <= self.tail && !left.is_zero() {
            self.clock.spin_until(deadline);
        }
        Ok(&self.ready)
    }

    /// A wake-up was so late: a step up or down, such that as many of a hundred are one as are the other where the spin is
    /// long enough for [`EARLY_ENOUGH`] of them (Robbins and Monro 1951).
    fn learn(&mut self, late: Duration) {
        if self.tail.is_zero() {
            return;
        }
        let next = if late > self.tail {
            self.tail + LESSON * EARLY_ENOUGH
        } else {
            self.tail - LESSON * (100 - EARLY_ENOUGH)
        };
        self.tail = next.clamp(SHORTEST_SPIN, LONGEST_SPIN);
    }

    /// Waits as [`wait`](Self::wait) does, but looks at no socket: what comes meanwhile wakes nobody up.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn rest(&mut self, until: Instant) -> std::io::Result<()> {
        let left = self.clock.left_until(until);
        if left > self.tail {
            let span = (left - self.tail).min(LONGEST_SLEEP);
            let awake = self.clock.now() + span;
            if sleep(&mut [], span)? == SleepEnd::Rested {
                self.learn(self.clock.now() - awake);
            }
        }
        let left = self.clock.left_until(until);
        if left <= self.tail && !left.is_zero() {
            self.clock.spin_until(until);
        }
        Ok(())
    }

    /// Waits at most `patience`, in whole milliseconds, until a socket has something to say.
    fn look(&mut self, patience: Duration) -> std::io::Result<()> {
        self.looked = self.clock.now();
        self.unlooked = 0;
        if !self.watches.get() {
            return Ok(());
        }
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; REPORTS];
        match epoll::wait(&self.sockets, &mut events[..], Some(&timespec(patience))) {
            Ok(count) => {
                self.ready.extend(events[..count].iter().map(|event| (event.data.u64(), event.flags)))
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SleepEnd {
    /// The whole span is over.
    Rested,
    /// A socket has something to say.
    Called,
    /// By a signal.
    Disturbed,
}

fn timespec(span: Duration) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000).cast_signed(), tv_nsec: (nanos % 1_000_000_000).cast_signed() }
}

/// Sleeps for `span`, or until one of `sockets` has something to say.
fn sleep(sockets: &mut [PollFd<'_>], span: Duration) -> std::io::Result<SleepEnd> {
    match poll(sockets, Some(&timespec(span))) {
        Ok(0) => Ok(SleepEnd::Rested),
        Ok(_) => Ok(SleepEnd::Called),
        Err(Errno::INTR) => Ok(SleepEnd::Disturbed),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_ends_before_its_deadline() {
        let clock = Clock::starting_in(Duration::from_millis(2));
        for tail in [Duration::ZERO, SPIN] {
            let mut pacer = Pacer::new(clock, tail).unwrap();
            for step in 0..20 {
                let deadline = clock.now() + Duration::from_micros(37 * step);
                // Nothing is watched, so only the deadline can end it.
                while !clock.left_until(deadline).is_zero() {
                    assert!(pacer.wait(deadline).unwrap().is_empty());
                }
                assert!(clock.now() >= deadline);
            }
        }
    }

    #[test]
    fn a_socket_ends_a_wait_before_its_deadline() {
        for tail in [Duration::ZERO, SPIN] {
            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let clock = Clock::starting_in(Duration::ZERO);
            let mut pacer = Pacer::new(clock, tail).unwrap();
            pacer.watch(&near, 7, Watch::Both).unwrap();
            rustix::io::write(&far, b"x").unwrap();
            let ready = pacer.wait(clock.now() + Duration::from_secs(3600)).unwrap();
            assert!(ready.iter().any(|(key, flags)| *key == 7 && flags.contains(epoll::EventFlags::IN)));
        }
    }

    #[test]
    fn a_deadline_comes_while_a_silent_socket_is_watched() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let clock = Clock::starting_in(Duration::ZERO);
        let mut pacer = Pacer::new(clock, Duration::ZERO).unwrap();
        pacer.watch(&near, 7, Watch::Reading).unwrap();
        for micros in [200, 1000, 2500, 61_300] {
            let deadline = clock.now() + Duration::from_micros(micros);
            while !clock.left_until(deadline).is_zero() {
                assert!(pacer.wait(deadline).unwrap().is_empty());
            }
            assert!(clock.now() >= deadline);
        }
    }

    #[test]
    fn deadlines_that_have_passed_do_not_starve_a_socket() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let clock = Clock::starting_in(Duration::ZERO);
        let mut pacer = Pacer::new(clock, SPIN).unwrap();
        pacer.watch(&near, 7, Watch::Both).unwrap();
        rustix::io::write(&far, b"x").unwrap();
        assert!((0..10_000_000).any(|_| !pacer.wait(Instant::ZERO).unwrap().is_empty()));
    }
}
