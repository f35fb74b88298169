//! Counts of outcomes, failures and delays of all attempts.

use std::collections::BTreeMap;

use netrig_core::{Histogram, Quantity, counts};
use schemars::JsonSchema;
use serde::Serialize;

use super::Delay;
use super::events::{Repetitions, ToleratedEvents};
use super::quantity::COUNTED;
use crate::record::{Failure, Record, What};

counts! {
    /// Outcomes of the attempts of one kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
    pub struct Outcomes {
        /// Attempts started.
        pub begun: u64,
        /// Successful attempts.
        pub succeeded: u64,
        /// Failed attempts.
        pub failed: u64,
        /// Attempts whose DNS lookup found no server. They are not attributed to a server.
        pub unlocated: u64,
    }
}

impl Outcomes {
    /// Attempts that have not ended.
    pub const fn open(&self) -> u64 {
        self.begun - self.succeeded - self.failed - self.unlocated
    }

    /// The share of successes among the attempts that ended at a server, 0 to 1. `None` without such attempts.
    pub fn success(&self) -> Option<f64> {
        let ended = self.succeeded + self.failed;
        (ended > 0).then(|| self.succeeded as f64 / ended as f64)
    }
}

/// Counts of the records of a part of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    outcomes: [Outcomes; What::ALL.len()],
    delays: [Histogram; Delay::ALL.len()],
    failures: BTreeMap<(What, Failure), u64>,
    counts: [u64; COUNTED.len()],
    repetitions: Repetitions,
    tolerated: ToleratedEvents,
    unrequested: BTreeMap<(&'static str, u16), u64>,
}

impl Tally {
    /// Counts an unexpected request of the other side within a dialog, and the status of its response.
    pub fn unrequested(&mut self, method: &'static str, status: u16) {
        *self.unrequested.entry((method, status)).or_insert(0) += 1;
    }

    /// The unexpected requests of the other side within dialogs: the method, the status of the response, and the
    /// count.
    pub fn all_unrequested(&self) -> impl Iterator<Item = (&'static str, u16, u64)> {
        self.unrequested.iter().map(|((method, status), count)| (*method, *status, *count))
    }

    /// Counts the start of an attempt, whose record follows.
    pub const fn begun(&mut self, what: What) {
        self.outcomes[what as usize].begun += 1;
    }

    /// Counts the end of an attempt. If the schedule did not start the attempt ([`What::is_unasked`]), its start is
    /// counted too.
    pub fn record(&mut self, record: &Record) {
        let what = record.what;
        let outcomes = &mut self.outcomes[what as usize];
        outcomes.begun += u64::from(what.is_unasked());
        match record.failure {
            None => outcomes.succeeded += 1,
            Some(failure @ Failure::Unlocated(_)) => {
                outcomes.unlocated += 1;
                *self.failures.entry((what, failure)).or_insert(0) += 1;
                // The attempt has reached no server, so there is nothing else to count.
                return;
            }
            Some(failure) => {
                outcomes.failed += 1;
                *self.failures.entry((what, failure)).or_insert(0) += 1;
            }
        }
        for (delay, spans) in Delay::ALL.iter().zip(&mut self.delays) {
            if let Some(span) = delay.of(record) {
                spans.record(span);
            }
        }
        for (counted, total) in COUNTED.iter().zip(&mut self.counts) {
            *total += (counted.of)(record);
        }
        self.repetitions.record(record);
        self.tolerated.record(record);
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Self) {
        self.outcomes.iter_mut().zip(&other.outcomes).for_each(|(own, more)| *own += more);
        self.delays.iter_mut().zip(&other.delays).for_each(|(own, more)| *own += more);
        for (key, count) in &other.failures {
            *self.failures.entry(*key).or_insert(0) += count;
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
        self.repetitions += &other.repetitions;
        self.tolerated += &other.tolerated;
        for (method, status, count) in other.all_unrequested() {
            *self.unrequested.entry((method, status)).or_insert(0) += count;
        }
    }

    /// The outcomes of one kind of attempt.
    pub const fn outcomes(&self, what: What) -> Outcomes {
        self.outcomes[what as usize]
    }

    /// The histogram of a delay.
    pub const fn delay(&self, delay: Delay) -> &Histogram {
        &self.delays[delay as usize]
    }

    /// Failures by kind of attempt and reason.
    pub fn failures(&self) -> impl Iterator<Item = (What, Failure, u64)> {
        self.failures.iter().map(|((what, failure), count)| (*what, *failure, *count))
    }

    /// The total of a quantity that is counted in records; 0 for any other quantity.
    pub fn total(&self, quantity: &Quantity) -> u64 {
        let mut totals = COUNTED.iter().zip(&self.counts);
        totals.find(|(counted, _)| std::ptr::eq(counted.quantity, quantity)).map_or(0, |(_, total)| *total)
    }

    /// Messages that were sent or received again, and session refreshes.
    pub const fn repetitions(&self) -> Repetitions {
        self.repetitions
    }

    /// Other abnormal events that are not failures.
    pub const fn tolerated(&self) -> ToleratedEvents {
        self.tolerated
    }
}
