//! What became of everything that was begun.

use std::collections::BTreeMap;

use super::{Delay, Histogram, RegistrationCounts, SessionCounts};
use crate::record::{Failure, Record, Side, What};

/// What became of things of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// That were begun.
    pub begun: u64,
    /// That went as they should.
    pub succeeded: u64,
    /// That did not.
    pub failed: u64,
    /// That found no server to ask, which is held against none.
    pub unlocated: u64,
}

impl Outcomes {
    /// That have not come to an end.
    pub const fn open(&self) -> u64 {
        self.begun - self.succeeded - self.failed - self.unlocated
    }

    /// The share of what has come to an end at a server that went as it should, 0 to 1; `None` of none.
    pub fn success(&self) -> Option<f64> {
        let ended = self.succeeded + self.failed;
        (ended > 0).then(|| self.succeeded as f64 / ended as f64)
    }

    const fn merge(&mut self, other: &Self) {
        self.begun += other.begun;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.unlocated += other.unlocated;
    }
}

/// How often something was not as it should be, without being a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repetitions {
    /// Requests sent again because nobody answered in time.
    pub requests: u64,
    /// Final responses sent again because nobody acknowledged in time.
    pub responses: u64,
    /// ACKs sent again because the final response came again.
    pub acknowledgements: u64,
    /// Requests that came again to who is called.
    pub received: u64,
    /// Responses that came again, beside those that are acknowledged again.
    pub responses_received: u64,
    /// Provisional responses that came behind those sent after them.
    pub reordered: u64,
    /// Challenges that were answered.
    pub challenges: u64,
    /// Dialogs beside the first that forked calls came to, acknowledged and hung up.
    pub surplus: u64,
    /// Servers that were given up for the next.
    pub failed_over: u64,
    /// Contacts of 3xx that were asked.
    pub redirected: u64,
    /// Requests that were sent again after the time of a `Retry-After`.
    pub retried: u64,
    /// INVITEs within a dialog that crossed one of the other side and were sent again later.
    pub pending: u64,
    /// Requests that refreshed a session, or were to.
    pub refreshes_sent: u64,
    /// Requests of the other side that refreshed a session.
    pub refreshes_answered: u64,
}

impl Repetitions {
    fn record(&mut self, record: &Record) {
        let counts = record.counts;
        self.requests += u64::from(counts.requests_again);
        self.responses += u64::from(counts.responses_again);
        self.acknowledgements += u64::from(counts.acknowledgements_again);
        let received =
            if record.side == Side::Callee { &mut self.received } else { &mut self.responses_received };
        *received += u64::from(counts.repeated);
        self.pending += u64::from(counts.pending);
        self.refreshes_sent += u64::from(counts.refreshes_sent);
        self.refreshes_answered += u64::from(counts.refreshes_answered);
        self.reordered += u64::from(counts.reordered);
        self.challenges += u64::from(counts.challenges);
        self.surplus += u64::from(counts.surplus);
        self.failed_over += u64::from(counts.failed_over);
        self.redirected += u64::from(counts.redirected);
        self.retried += u64::from(counts.retried);
    }

    const fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.responses += other.responses;
        self.acknowledgements += other.acknowledgements;
        self.received += other.received;
        self.responses_received += other.responses_received;
        self.pending += other.pending;
        self.refreshes_sent += other.refreshes_sent;
        self.refreshes_answered += other.refreshes_answered;
        self.reordered += other.reordered;
        self.challenges += other.challenges;
        self.surplus += other.surplus;
        self.failed_over += other.failed_over;
        self.redirected += other.redirected;
        self.retried += other.retried;
    }
}

/// What the records of a part of a load say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    outcomes: [Outcomes; What::ALL.len()],
    delays: [Histogram; Delay::ALL.len()],
    failures: BTreeMap<(What, Failure), u64>,
    sessions: SessionCounts,
    registrations: RegistrationCounts,
    repetitions: Repetitions,
    unrequested: BTreeMap<(&'static str, u16), u64>,
}

impl Tally {
    /// The other side has asked for something of its own within a dialog, and was answered with this status.
    pub fn unrequested(&mut self, method: &'static str, status: u16) {
        *self.unrequested.entry((method, status)).or_insert(0) += 1;
    }

    /// What the other side asked for of its own within dialogs: the method, the status of the answer, and how often.
    pub fn all_unrequested(&self) -> impl Iterator<Item = (&'static str, u16, u64)> {
        self.unrequested.iter().map(|((method, status), count)| (*method, *status, *count))
    }

    /// Something was begun, whose record is to come.
    pub const fn begun(&mut self, what: What) {
        self.outcomes[what as usize].begun += 1;
    }

    /// Something has come to an end. What the machines begin by themselves, and what others begin, was begun with its
    /// record ([`What::is_unasked`]).
    pub fn record(&mut self, record: &Record) {
        let what = record.what;
        let outcomes = &mut self.outcomes[what as usize];
        outcomes.begun += u64::from(what.is_unasked());
        match record.failure {
            None => outcomes.succeeded += 1,
            Some(failure @ Failure::Unlocated(_)) => {
                outcomes.unlocated += 1;
                *self.failures.entry((what, failure)).or_insert(0) += 1;
                // No server was asked: nothing else is said of one.
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
        if what.is_invite() {
            self.sessions.record(record);
        }
        if matches!(what, What::Register | What::Renew) {
            self.registrations.record(record);
        }
        self.repetitions.record(record);
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        self.outcomes.iter_mut().zip(&other.outcomes).for_each(|(own, more)| own.merge(more));
        self.delays.iter_mut().zip(&other.delays).for_each(|(own, more)| own.merge(more));
        for (key, count) in &other.failures {
            *self.failures.entry(*key).or_insert(0) += count;
        }
        self.sessions.merge(&other.sessions);
        self.registrations.merge(&other.registrations);
        self.repetitions.merge(&other.repetitions);
        for (method, status, count) in other.all_unrequested() {
            *self.unrequested.entry((method, status)).or_insert(0) += count;
        }
    }

    /// What became of things of this kind.
    pub const fn outcomes(&self, what: What) -> Outcomes {
        self.outcomes[what as usize]
    }

    /// A delay.
    pub const fn delay(&self, delay: Delay) -> &Histogram {
        &self.delays[delay as usize]
    }

    /// Failures by what failed and why.
    pub fn failures(&self) -> impl Iterator<Item = (What, Failure, u64)> {
        self.failures.iter().map(|((what, failure), count)| (*what, *failure, *count))
    }

    /// Calls, for the ratios of RFC 6076.
    pub const fn sessions(&self) -> SessionCounts {
        self.sessions
    }

    /// Registrations and their renewals, for the ratios of RFC 6076.
    pub const fn registrations(&self) -> RegistrationCounts {
        self.registrations
    }

    /// What came or was sent more than once.
    pub const fn repetitions(&self) -> Repetitions {
        self.repetitions
    }
}
