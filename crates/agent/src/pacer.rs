//! Waiting for a moment of the schedule, or for a socket.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use netrig_core::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use crate::Clock;

/// How long before a deadline a precise loop stops sleeping: longer than it takes to wake up, so that only the spinning
/// decides when it is over.
pub const SPIN: Duration = Duration::from_micros(60);

/// Sockets are looked at this often while deadlines follow each other too closely to sleep.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// No wait is longer, so that who waits can look at what else there is.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Sockets that one wait can report.
const REPORTS: usize = 64;

/// Waits for absolute moments: sleeps, then spins for the rest.
///
/// Sleeping is `ppoll` on an epoll set, in nanoseconds, with a timer slack of 1 ns instead of the 50 µs that a thread has
/// at first; make it on the thread that waits.
#[derive(Debug)]
pub struct Pacer {
    clock: Clock,
    tail: Duration,
    sockets: OwnedFd,
    ready: Vec<(u64, epoll::EventFlags)>,
    looked: Instant,
}

impl Pacer {
    /// A pacer that spins for `tail` before each deadline; with no tail it sleeps until the end and is later.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new(clock: Clock, tail: Duration) -> std::io::Result<Self> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let sockets = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { clock, tail, sockets, ready: Vec::with_capacity(REPORTS), looked: Instant::ZERO })
    }

    /// Reports each change of `socket`'s readiness (edge-triggered) under the number `key`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn watch(&self, socket: impl AsFd, key: u64) -> std::io::Result<()> {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.sockets, socket, epoll::EventData::new_u64(key), flags)?)
    }

    /// Waits until `deadline` has come, a watched socket has something to say or 50 ms have passed, and gives the keys of
    /// such sockets. Closely following deadlines do not starve the sockets, nor sockets a deadline.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn wait(&mut self, deadline: Instant) -> std::io::Result<&[(u64, epoll::EventFlags)]> {
        self.ready.clear();
        let left = self.clock.left_until(deadline);
        if left > self.tail {
            self.sleep((left - self.tail).min(LONGEST_SLEEP))?;
            self.look()?;
            if !self.ready.is_empty() {
                return Ok(&self.ready);
            }
        } else if self.clock.now() - self.looked >= LOOK_EVERY {
            self.look()?;
        }
        if self.clock.left_until(deadline) <= self.tail {
            while !self.clock.left_until(deadline).is_zero() {
                std::hint::spin_loop();
            }
        }
        Ok(&self.ready)
    }

    /// Sleeps for `span`, or until a socket has something to say.
    fn sleep(&self, span: Duration) -> std::io::Result<()> {
        let nanos = span.as_nanos();
        let timeout = Timespec {
            tv_sec: (nanos / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos % 1_000_000_000).cast_signed(),
        };
        match poll(&mut [PollFd::new(&self.sockets, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks which sockets have something to say, without waiting.
    fn look(&mut self) -> std::io::Result<()> {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; REPORTS];
        let timeout = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.sockets, &mut events[..], Some(&timeout)) {
            Ok(count) => {
                self.ready.extend(events[..count].iter().map(|event| (event.data.u64(), event.flags)))
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.looked = self.clock.now();
        Ok(())
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
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let clock = Clock::starting_in(Duration::ZERO);
        let mut pacer = Pacer::new(clock, SPIN).unwrap();
        pacer.watch(&near, 7).unwrap();
        rustix::io::write(&far, b"x").unwrap();
        let ready = pacer.wait(clock.now() + Duration::from_secs(3600)).unwrap();
        assert!(ready.iter().any(|(key, flags)| *key == 7 && flags.contains(epoll::EventFlags::IN)));
    }

    #[test]
    fn deadlines_that_have_passed_do_not_starve_a_socket() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let clock = Clock::starting_in(Duration::ZERO);
        let mut pacer = Pacer::new(clock, SPIN).unwrap();
        pacer.watch(&near, 7).unwrap();
        rustix::io::write(&far, b"x").unwrap();
        assert!((0..10_000_000).any(|_| !pacer.wait(Instant::ZERO).unwrap().is_empty()));
    }
}
