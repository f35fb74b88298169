//! Start times of calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use netrig_core::{Duration, Instant, Seeds, SpanDistribution, Stream};
use netrig_sip::load::{Pace, Schedule};

/// The start times of calls, and their users.
#[derive(Debug)]
pub(super) struct Beginnings {
    kind: BeginningKind,
    /// Calls that may still start.
    left: u64,
    until: Instant,
}

#[derive(Debug)]
enum BeginningKind {
    /// The tester starts no calls, because the other side does.
    Never,
    Open(Peekable<Schedule>),
    /// Each user starts the next call a random time after the end of the previous one.
    Closed {
        rested: BinaryHeap<Reverse<(Instant, usize)>>,
        pause: SpanDistribution,
        draws: Stream,
    },
}

impl Beginnings {
    /// `pace`: `None` if the other side starts calls. `count`: the largest number of calls. `lasts`: no call starts
    /// after this time.
    pub fn new(pace: Option<&Pace>, users: usize, count: Option<u64>, lasts: Duration, seed: u64) -> Self {
        let kind = match pace {
            None => BeginningKind::Never,
            Some(Pace::Open(arrivals)) => BeginningKind::Open(arrivals.schedule(seed).peekable()),
            Some(Pace::Closed(pause)) => {
                let mut draws = Seeds::new(seed).stream("scenario/users");
                // A random first pause prevents a burst of the first calls of all users.
                let rested = (0..users).map(|user| Reverse((Instant::ZERO + pause.draw(&mut draws), user)));
                let rested = rested.collect();
                BeginningKind::Closed { rested, pause: pause.clone(), draws }
            }
        };
        Self { kind, left: count.unwrap_or(u64::MAX), until: Instant::ZERO + lasts }
    }

    /// When the next call starts; `None` if no call is scheduled at present.
    pub fn next_due(&mut self) -> Option<Instant> {
        if self.left == 0 {
            return None;
        }
        let due = match &mut self.kind {
            BeginningKind::Never => None,
            BeginningKind::Open(schedule) => schedule.peek().copied(),
            BeginningKind::Closed { rested, .. } => rested.peek().map(|Reverse((due, _))| *due),
        };
        due.filter(|due| *due < self.until)
    }

    /// Removes the next call if it is due. Returns its scheduled time and its user.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, Option<usize>)> {
        self.next_due().filter(|due| *due <= now)?;
        self.left -= 1;
        match &mut self.kind {
            BeginningKind::Never => None,
            BeginningKind::Open(schedule) => schedule.next().map(|due| (due, None)),
            BeginningKind::Closed { rested, .. } => {
                rested.pop().map(|Reverse((due, user))| (due, Some(user)))
            }
        }
    }

    /// Schedules the next call of a user whose call has ended.
    pub fn rest(&mut self, now: Instant, user: usize) {
        if let BeginningKind::Closed { rested, pause, draws } = &mut self.kind {
            rested.push(Reverse((now + pause.draw(draws), user)));
        }
    }

    /// Prevents all further starts.
    pub const fn end(&mut self) {
        self.left = 0;
    }

    /// Whether no more calls start. In a closed loop, the end of each of the `open` calls may start another call.
    pub fn is_over(&mut self, now: Instant, open: usize) -> bool {
        match &self.kind {
            BeginningKind::Never => false,
            BeginningKind::Closed { .. } if open > 0 => self.left == 0 || now >= self.until,
            _ => self.next_due().is_none(),
        }
    }
}
