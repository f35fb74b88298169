//! Deadlines with one fixed delay.

use std::collections::VecDeque;

use netrig_core::{Duration, Instant};

use crate::slab::Key;

/// Deadlines with one delay, so they expire in the order in which they were set. All operations take constant time.
#[derive(Debug)]
pub(super) struct DeadlineQueue {
    after: Duration,
    entries: VecDeque<(Instant, Key)>,
}

impl DeadlineQueue {
    pub const fn new(after: Duration) -> Self {
        Self { after, entries: VecDeque::new() }
    }

    /// Sets a deadline. `now` must not decrease.
    pub fn push(&mut self, now: Instant, key: Key) {
        self.entries.push_back((now + self.after, key));
    }

    /// The earliest deadline with its key.
    pub fn first(&self) -> Option<(Instant, Key)> {
        self.entries.front().copied()
    }

    /// Removes the earliest deadline.
    pub fn pop(&mut self) {
        self.entries.pop_front();
    }

    /// Removes the earliest deadline if it has expired. Returns its key.
    pub fn pop_expired(&mut self, now: Instant) -> Option<Key> {
        self.entries.pop_front_if(|(at, _)| *at <= now).map(|(_, key)| key)
    }
}
