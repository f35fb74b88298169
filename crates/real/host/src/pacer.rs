//! Waiting for deadlines and sockets.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use netrig_core::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use crate::{Clock, CpuLatencyLimit};

/// Initial time for which a pacer spins before a deadline. It exceeds the wake-up delay, so that the end of the wait
/// depends only on spinning. The pacer then adapts the time.
pub const SPIN: Duration = Duration::from_micros(60);

/// Bounds of the adapted spinning time.
const SHORTEST_SPIN: Duration = Duration::from_micros(20);
const LONGEST_SPIN: Duration = Duration::from_micros(150);

/// The spinning time is adapted to this percentile of the wake-up delays.
const EARLY_ENOUGH: u64 = 97;

/// A hundredth of the adaptation step.
const LESSON: Duration = Duration::from_nanos(10);

/// While deadlines are so close that the pacer does not sleep, it polls the sockets at this interval, or after this
/// many deadlines.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const LOOK_AFTER: u32 = 64;

/// Maximum duration of a wait. The caller can then check other conditions.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Resolution of `epoll_wait` in this loop.
const MILLISECOND: Duration = Duration::from_millis(1);

/// Maximum number of sockets that one wait reports.
const REPORTS: usize = 64;

/// Waits for deadlines: it sleeps first and spins for the rest (the tail).
///
/// If a thread wakes up late, the packets after the wake-up are late too. Spinning avoids this, but costs processor
/// time. The spinning time therefore follows the 97th percentile of this machine's wake-up delays. That is 30 µs on a
/// busy machine, and 50 µs on an idle virtual machine, which the hypervisor must wake up first.
///
/// While there is a pacer that spins, no processor of this machine halts ([`CpuLatencyLimit`]).
///
/// A pacer with a tail sleeps in `ppoll` on an epoll set, with a resolution of nanoseconds and a timer slack of 1 ns
/// instead of the initial 50 µs. A pacer without a tail sleeps for whole milliseconds in `epoll_wait`, which saves a
/// call for each ready socket. Create the pacer on the thread that waits.
#[derive(Debug)]
pub struct Pacer {
    clock: Clock,
    tail: Duration,
    _awake: Option<CpuLatencyLimit>,
    sockets: OwnedFd,
    ready: Vec<(u64, epoll::EventFlags)>,
    watches: Cell<bool>,
    looked: Instant,
    /// Number of waits since the sockets were polled.
    unlooked: u32,
}

/// Which events of a socket are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Readable, writable, or closed by the peer.
    Both,
    /// Readable.
    Reading,
    /// Readable, reported only once until [`Pacer::watch_again`] is called.
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
    /// Creates a pacer that spins before each deadline, initially for the time `tail`. With a tail of zero, it only
    /// sleeps and is less precise.
    ///
    /// # Errors
    /// The error of the kernel.
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
    /// The error of the kernel.
    pub fn watch(&self, socket: impl AsFd, key: u64, what: Watch) -> std::io::Result<()> {
        self.watches.set(true);
        Ok(epoll::add(&self.sockets, socket, epoll::EventData::new_u64(key), what.flags())?)
    }

    /// Reports a watched socket again. If it is ready already, the next wait reports it.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn watch_again(&self, socket: impl AsFd, key: u64, what: Watch) -> std::io::Result<()> {
        Ok(epoll::modify(&self.sockets, socket, epoll::EventData::new_u64(key), what.flags())?)
    }

    /// Waits until `deadline`, until a watched socket is ready, or for 50 ms, whichever is first. Returns the keys of
    /// the ready sockets. Frequent deadlines do not prevent sockets from being reported, and ready sockets do not delay
    /// a deadline. Without a tail, a wait may end up to 1 ms before the deadline, without a ready socket.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn wait(&mut self, deadline: Instant) -> std::io::Result<&[(u64, epoll::EventFlags)]> {
        self.ready.clear();
        self.unlooked += 1;
        let mut left = self.clock.left_until(deadline);
        if self.tail.is_zero() && self.watches.get() && left >= MILLISECOND {
            // The next call sleeps for the remaining fraction of a millisecond.
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

    /// Adapts the spinning time to a wake-up delay. The steps up and down are balanced when the spinning time covers
    /// [`EARLY_ENOUGH`] of 100 wake-ups (Robbins and Monro 1951).
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

    /// Waits like [`wait`](Self::wait), but does not poll sockets, so arriving data does not wake up the thread.
    ///
    /// # Errors
    /// The error of the kernel.
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

    /// Waits until a socket is ready, at most for the time `patience`, of which only whole milliseconds count.
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
    /// The whole time has passed.
    Rested,
    /// A socket is ready.
    Called,
    /// A signal interrupted the sleep.
    Disturbed,
}

fn timespec(span: Duration) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000).cast_signed(), tv_nsec: (nanos % 1_000_000_000).cast_signed() }
}

/// Sleeps for `span`, or until one of `sockets` is ready.
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
                // No socket is watched, so only the deadline can end the wait.
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
