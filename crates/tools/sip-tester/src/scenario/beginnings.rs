//! When calls begin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use netrig_core::{Duration, Instant, Seeds, SpanDistribution, Stream};
use netrig_sip::load::{Pace, Schedule};

/// The moments at which calls begin, and of which user.
#[derive(Debug)]
pub(super) struct Beginnings {
    kind: BeginningKind,
    /// Calls that may begin yet.
    left: u64,
    until: Instant,
}

#[derive(Debug)]
enum BeginningKind {
    /// None: the other side begins calls.
    Never,
    Open(Peekable<Schedule>),
    /// Each user again, so long after the call before.
    Closed {
        rested: BinaryHeap<Reverse<(Instant, usize)>>,
        pause: SpanDistribution,
        draws: Stream,
    },
}

impl Beginnings {
    /// `pace`: nothing if the other side begins calls. `count`: calls at most. `lasts`: no call begins after that.
    pub fn new(pace: Option<&Pace>, users: usize, count: Option<u64>, lasts: Duration, seed: u64) -> Self {
        let kind = match pace {
            None => BeginningKind::Never,
            Some(Pace::Open(arrivals)) => BeginningKind::Open(arrivals.schedule(seed).peekable()),
            Some(Pace::Closed(pause)) => {
                let mut draws = Seeds::new(seed).stream("scenario/users");
                // The first calls of all users are not one burst.
                let rested = (0..users).map(|user| Reverse((Instant::ZERO + pause.draw(&mut draws), user)));
                let rested = rested.collect();
                BeginningKind::Closed { rested, pause: pause.clone(), draws }
            }
        };
        Self { kind, left: count.unwrap_or(u64::MAX), until: Instant::ZERO + lasts }
    }

    /// When the next call begins; nothing if none does for now.
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

    /// The call that is due: when it was, and whose it is.
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

    /// The call of this user is over.
    pub fn rest(&mut self, now: Instant, user: usize) {
        if let BeginningKind::Closed { rested, pause, draws } = &mut self.kind {
            rested.push(Reverse((now + pause.draw(draws), user)));
        }
    }

    /// No more calls begin.
    pub const fn end(&mut self) {
        self.left = 0;
    }

    /// Whether no call begins any more. Of a closed loop `open` says how many calls may still let one begin.
    pub fn is_over(&mut self, now: Instant, open: usize) -> bool {
        match &self.kind {
            BeginningKind::Never => false,
            BeginningKind::Closed { .. } if open > 0 => self.left == 0 || now >= self.until,
            _ => self.next_due().is_none(),
        }
    }
}
