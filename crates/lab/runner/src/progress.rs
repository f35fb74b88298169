//! What a person (or a page) who waits is told.

use std::time::Duration;

use netrig_experiment::Point;

/// Is told what happens, on the thread that called [`carry_out`](crate::carry_out). `()` does not listen.
pub trait ProgressListener {
    /// Something happened, and how far we are now.
    fn event(&mut self, event: &RunEvent<'_>, tally: &RunTally);
}

impl ProgressListener for () {
    fn event(&mut self, _: &RunEvent<'_>, _: &RunTally) {}
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunEvent<'a> {
    /// A substrate's turn has come, and the store was asked what it has.
    Began {
        /// The substrate.
        substrate: &'a str,
    },
    /// A run was given to a worker.
    Started {
        /// Its levels.
        point: &'a Point,
        /// From 1.
        replication: u32,
    },
    /// A run ended and is in the store.
    Ended {
        /// Its levels.
        point: &'a Point,
        /// From 1.
        replication: u32,
        /// How long it took.
        took: Duration,
        /// Why it does not count, if it does not.
        why: Option<&'a str>,
    },
    /// Nothing but time passed: a tenth of a second.
    Tick,
}

/// How far the runs on one substrate are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunTally {
    /// Runs that the store had already.
    pub found: u64,
    /// Runs that ended since we began.
    pub ran: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Runs that are going on.
    pub running: u64,
    /// Runs that are waiting. A stopping rule may ask for more later, or for fewer.
    pub waiting: u64,
    /// Since we began.
    pub elapsed: Duration,
    /// Until all that is known to be wanted is done; absent before the first run ended.
    pub left: Option<Duration>,
}

impl RunTally {
    /// Runs that are known to be wanted, done or not.
    pub const fn total(&self) -> u64 {
        self.found + self.ran + self.running + self.waiting
    }
}

/// What is left, from what runs took so far: `busy` is the sum over `ran` runs, and `jobs` go on at once.
/// Those that are running count half. Points take their turns round by round, so after the first round the
/// mean is over all of them.
pub(crate) fn time_left(tally: &RunTally, busy: Duration, jobs: usize) -> Option<Duration> {
    if tally.ran == 0 {
        return None;
    }
    let each = busy.as_secs_f64() / tally.ran as f64;
    let runs = tally.waiting as f64 + tally.running as f64 / 2.0;
    Duration::try_from_secs_f64(each * runs / jobs as f64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_the_mean_times_what_waits_over_the_workers() {
        let tally = RunTally { ran: 4, running: 2, waiting: 9, ..RunTally::default() };
        assert_eq!(time_left(&tally, Duration::from_secs(8), 2), Some(Duration::from_secs(10)));
        assert_eq!(time_left(&RunTally { ran: 0, ..tally }, Duration::ZERO, 2), None);
    }
}
