//! Timers.

use netrig_core::{Duration, Instant};

/// A timer that runs or is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Default for Deadline {
    /// A stopped timer.
    fn default() -> Self {
        Self(Instant::NEVER)
    }
}

impl Deadline {
    pub(crate) fn after(now: Instant, span: Duration) -> Self {
        Self(now + span)
    }

    pub(crate) const fn at(self) -> Option<Instant> {
        if self.0.as_nanos() == Instant::NEVER.as_nanos() { None } else { Some(self.0) }
    }

    pub(crate) const fn stop(&mut self) {
        self.0 = Instant::NEVER;
    }

    /// Whether the timer runs.
    pub(crate) fn is_running(self) -> bool {
        self.at().is_some()
    }

    /// Whether the timer has expired. An expired timer is stopped.
    pub(crate) fn has_come(&mut self, now: Instant) -> bool {
        let due = self.at().is_some_and(|at| at <= now);
        if due {
            self.stop();
        }
        due
    }
}

/// A retransmission timer. Each pause is twice the last one, up to a maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repetition {
    next: Deadline,
    pause: Duration,
}

impl Repetition {
    /// A timer that expires for the first time `pause` after `now`.
    pub(crate) fn after(now: Instant, pause: Duration) -> Self {
        Self { next: Deadline::after(now, pause), pause }
    }

    pub(crate) const fn at(self) -> Option<Instant> {
        self.next.at()
    }

    pub(crate) fn stop(&mut self) {
        self.next.stop();
    }

    /// Keeps the next expiry; all later pauses are `longest`.
    pub(crate) const fn slow_down(&mut self, longest: Duration) {
        self.pause = longest;
    }

    /// Whether the timer has expired. If so, it starts again with twice the pause, at most `longest`.
    pub(crate) fn has_come(&mut self, now: Instant, longest: Option<Duration>) -> bool {
        let due = self.next.has_come(now);
        if due {
            let double = self.pause.saturating_mul(2);
            self.pause = longest.map_or(double, |longest| double.min(longest));
            self.next = Deadline::after(now, self.pause);
        }
        due
    }
}

/// The earliest of the given times.
pub(crate) fn earliest(deadlines: impl IntoIterator<Item = Option<Instant>>) -> Option<Instant> {
    deadlines.into_iter().flatten().min()
}
