//! Progress of the execution of a plan, for a terminal or a page.

use std::time::Duration;

use netrig_experiment::Point;

/// Receives the events of [`carry_out`](crate::carry_out) on the calling thread. `()` ignores them.
pub trait ProgressListener {
    /// Handles an event. `tally` has the numbers of runs immediately after this event.
    fn event(&mut self, event: &RunEvent<'_>, tally: &RunTally);
}

impl ProgressListener for () {
    fn event(&mut self, _: &RunEvent<'_>, _: &RunTally) {}
}

/// An event during the execution of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunEvent<'a> {
    /// The execution on a substrate begins. The store has been searched for existing runs.
    Began {
        /// The substrate.
        substrate: &'a str,
    },
    /// A run was handed to a worker.
    Started {
        /// The levels of the run.
        point: &'a Point,
        /// The replication, from 1.
        replication: u32,
    },
    /// A run ended and was recorded in the store.
    Ended {
        /// The levels of the run.
        point: &'a Point,
        /// The replication, from 1.
        replication: u32,
        /// The wall-clock duration of the run.
        took: Duration,
        /// Why the run failed or is invalid; `None` if it is valid.
        why: Option<&'a str>,
    },
    /// No run ended for a tenth of a second.
    Tick,
}

/// The numbers of runs on one substrate, and the elapsed and estimated time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunTally {
    /// Runs that the store already had.
    pub found: u64,
    /// Runs that were executed and have ended.
    pub ran: u64,
    /// Executed runs that failed.
    pub failed: u64,
    /// Runs in progress.
    pub running: u64,
    /// Runs that wait for a worker. A stopping rule may later add or remove runs.
    pub waiting: u64,
    /// Time since the first event.
    pub elapsed: Duration,
    /// Estimated time until all known runs have ended; `None` before the first run has ended.
    pub left: Option<Duration>,
}

impl RunTally {
    /// All known runs: found, executed, in progress and waiting.
    pub const fn total(&self) -> u64 {
        self.found + self.ran + self.running + self.waiting
    }
}

/// Estimates the remaining time from the mean duration of a run. `busy` is the sum of the durations of the `ran` runs,
/// and `jobs` runs are executed concurrently. A run in progress counts half. Every point has its first replication
/// before any point has its second, so after the first round the mean covers all points.
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
