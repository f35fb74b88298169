//! Arrival times of datagrams that remain correct if the wall clock is stepped.

use std::io;
use std::os::fd::AsFd;

use netrig_core::Duration;
use netrig_host::socket::is_loss;
use netrig_host::sys::{Incoming, MESSAGES, ReceiveBatch};
use netrig_host::{RealtimeOffset, monotonic_nanos};

/// Receives datagrams in batches, with their arrival times.
pub(super) struct StampedBatch {
    batch: ReceiveBatch,
    pub(super) arrivals: ArrivalClock,
}

impl StampedBatch {
    /// A receiver that keeps only the first `keep` bytes of each datagram.
    pub(super) fn new(keep: usize) -> Self {
        let arrivals = ArrivalClock::new(RealtimeOffset::measure(), monotonic_nanos());
        Self { batch: ReceiveBatch::new(keep), arrivals }
    }

    /// Receives one batch and returns its number of messages. Passes each message to `each` with its arrival time (ns
    /// of `CLOCK_MONOTONIC`) and whether that time is certain. If the message has no time stamp, the arrival time is
    /// the time at which it was read.
    pub(super) fn receive(
        &mut self,
        socket: impl AsFd,
        mut each: impl FnMut(Incoming<'_>, u64, bool),
    ) -> io::Result<usize> {
        let count = match self.batch.receive(socket) {
            Ok(count) => count,
            // A signal, or an ICMP error that an earlier datagram caused.
            Err(error) if error.kind() == io::ErrorKind::Interrupted || is_loss(&error) => return Ok(1),
            Err(error) => return Err(error),
        };
        let now = monotonic_nanos();
        self.arrivals.update(RealtimeOffset::glance(), RealtimeOffset::measure);
        for at in 0..count {
            let Some(message) = self.batch.get(at) else { continue };
            let moment = |stamp| self.arrivals.moment(stamp, now);
            let (at, is_certain) = message.stamp.map_or((now, true), moment);
            each(message, at, is_certain);
        }
        if count < MESSAGES {
            self.arrivals.emptied(now);
        }
        Ok(count)
    }
}

/// Converts the kernel's wall-clock time stamps into times of `CLOCK_MONOTONIC`, ns. After each read of the socket, the
/// caller passes the current offset between the clocks. All time stamps of that read are older than this offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalClock {
    offset: RealtimeOffset,
    /// The offset before the last step of the wall clock. `None` once the socket can hold no time stamps from before
    /// the step.
    before: Option<RealtimeOffset>,
    /// All datagrams that arrived before this time have been read, ns.
    since: u64,
    /// The largest step of the wall clock so far.
    largest: Option<Duration>,
}

impl ArrivalClock {
    pub(super) const fn new(offset: RealtimeOffset, since: u64) -> Self {
        Self { offset, before: None, since, largest: None }
    }

    /// Compares a quick reading of the offset with the known offset. If the wall clock was stepped, `measure` returns a
    /// precise offset.
    pub(super) fn update(&mut self, glance: RealtimeOffset, measure: impl FnOnce() -> RealtimeOffset) {
        let Some(step) = glance.stepped_since(&self.offset) else { return };
        self.before = Some(std::mem::replace(&mut self.offset, measure()));
        self.largest = self.largest.max(Some(step));
    }

    /// The arrival time for a time stamp that was read at `now`. The second value is true if only one offset is
    /// possible, so the time is certain.
    pub(super) fn moment(&self, stamp: u64, now: u64) -> (u64, bool) {
        let Some(before) = self.before else { return (self.offset.monotonic(stamp), true) };
        // Of the two times, the correct one is between the previous read and this read.
        let [new, old] = [self.offset, before].map(|offset| offset.monotonic(stamp));
        let possible = |at: &u64| (self.since..=now).contains(at);
        let at = [new, old].into_iter().find(possible).unwrap_or(now);
        (at, false)
    }

    /// Records that all datagrams that arrived before `now` have been read.
    pub(super) const fn emptied(&mut self, now: u64) {
        (self.before, self.since) = (None, now);
    }

    /// The largest step of the wall clock; `None` without a step.
    pub(super) const fn largest_step(&self) -> Option<Duration> {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;

    /// The offset of a wall clock that is `ns` nanoseconds ahead of the monotonic clock.
    fn ahead(ns: u64) -> RealtimeOffset {
        RealtimeOffset::between(1000, 1000 + ns, 1000)
    }

    /// Datagrams arrive every 10 ms and are read at most 30 ms later. After 95 ms, the wall clock is stepped by one
    /// second, forward or backward.
    #[test]
    fn a_step_moves_no_arrival() {
        for after in [HOUR + 1000 * MS, HOUR - 1000 * MS] {
            let mut clock = ArrivalClock::new(ahead(HOUR), 0);
            let stepped = 95 * MS;
            let wall = |at: u64| at + if at < stepped { HOUR } else { after };
            let mut doubtful = 0;
            for look in (0..10).map(|n| n * 30 * MS) {
                let now = look + 30 * MS;
                let offset = ahead(if now < stepped { HOUR } else { after });
                clock.update(offset, || offset);
                for at in [look, look + 10 * MS, look + 20 * MS] {
                    let (moment, is_certain) = clock.moment(wall(at), now);
                    assert_eq!(moment, at, "{after}");
                    doubtful += u32::from(!is_certain);
                }
                clock.emptied(now);
            }
            assert_eq!(doubtful, 3, "those of the look in which it was set");
            assert_eq!(clock.largest_step(), Some(Duration::from_secs(1)));
        }
    }

    #[test]
    fn what_fits_neither_time_came_when_it_was_read() {
        let mut clock = ArrivalClock::new(ahead(HOUR), 100 * MS);
        assert_eq!(clock.largest_step(), None);
        clock.update(ahead(2 * HOUR), || ahead(2 * HOUR));
        assert_eq!(clock.moment(5 * HOUR, 130 * MS), (130 * MS, false));
    }
}
