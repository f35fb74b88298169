//! When what came has come, whatever is done to the wall clock meanwhile.

use netrig_core::Duration;

use netrig_host::RealtimeOffset;

/// Stamps of the wall clock as moments of `CLOCK_MONOTONIC`, ns. It has to hear after each look at the socket where the one clock
/// stands against the other: all stamps that were read are older than that.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalClock {
    offset: RealtimeOffset,
    /// As it was before the last step, as long as stamps from then may still lie in the socket.
    before: Option<RealtimeOffset>,
    /// Until then all that had come was read.
    since: u64,
    largest: Option<Duration>,
}

impl ArrivalClock {
    pub(super) const fn new(offset: RealtimeOffset, since: u64) -> Self {
        Self { offset, before: None, since, largest: None }
    }

    /// Hears where the clocks stand now, by a glance; `measure` measures it well, where somebody has set the wall clock.
    pub(super) fn update(&mut self, glance: RealtimeOffset, measure: impl FnOnce() -> RealtimeOffset) {
        let Some(step) = glance.stepped_since(&self.offset) else { return };
        self.before = Some(std::mem::replace(&mut self.offset, measure()));
        self.largest = self.largest.max(Some(step));
    }

    /// The moment of a stamp that was read at `now`, and whether it is so by one clock beyond doubt.
    pub(super) fn moment(&self, stamp: u64, now: u64) -> (u64, bool) {
        let Some(before) = self.before else { return (self.offset.monotonic(stamp), true) };
        // Of two moments the one is right in which the datagram could have come.
        let [new, old] = [self.offset, before].map(|offset| offset.monotonic(stamp));
        let possible = |at: &u64| (self.since..=now).contains(at);
        let at = [new, old].into_iter().find(possible).unwrap_or(now);
        (at, false)
    }

    /// All that had come by `now` was read.
    pub(super) const fn emptied(&mut self, now: u64) {
        (self.before, self.since) = (None, now);
    }

    /// By how much the wall clock was set, at most; nothing if nobody has set it.
    pub(super) const fn largest_step(&self) -> Option<Duration> {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const HOUR: u64 = 3_600_000 * MS;

    /// The wall clock stands so far ahead of the other.
    fn ahead(ns: u64) -> RealtimeOffset {
        RealtimeOffset::between(1000, 1000 + ns, 1000)
    }

    /// Datagrams come every 10 ms and are read 30 ms later at most; in the middle of it the wall clock is set by a second, either way.
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
                    let (told, is_certain) = clock.moment(wall(at), now);
                    assert_eq!(told, at, "{after}");
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
