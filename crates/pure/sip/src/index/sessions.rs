//! The ratios of RFC 6076.

use netrig_core::counts;

use crate::record::{Failure, Record};
use crate::transaction::Timer;

/// Kind of the final response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerClass {
    /// 2xx.
    Accepted,
    /// 3xx.
    Redirected,
    /// 4xx to 6xx, other than a challenge.
    Refused,
    /// 401, 402 and 407, which RFC 6076 does not count as failures.
    Challenged,
    /// No final response.
    Never,
}

impl AnswerClass {
    pub(super) const fn of(record: &Record) -> Self {
        match record.status {
            200..300 => Self::Accepted,
            300..400 => Self::Redirected,
            401 | 402 | 407 => Self::Challenged,
            400.. => Self::Refused,
            _ => Self::Never,
        }
    }
}

counts! {
    /// Counts of requested sessions. Retransmissions and challenges do not count as sessions.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SessionCounts {
        /// Sessions whose attempt has ended.
        pub requests: u64,
        /// Answered with 2xx.
        pub established: u64,
        /// Answered with 3xx.
        pub redirected: u64,
        /// Refused by the user: 480, 486, 600, 603.
        pub refused_by_user: u64,
        /// Failed by a failing or overloaded server: 408, 500, 503, 504, no response, or a lost connection. No response
        /// counts as 408, and a lost connection as 503 (RFC 3261 section 8.1.3.1).
        pub ineffective: u64,
        /// Established, and ended by an answered BYE.
        pub completed: u64,
    }
}

impl SessionCounts {
    pub(super) fn record(&mut self, record: &Record) {
        let is = |holds: bool| u64::from(holds);
        let answer = AnswerClass::of(record);
        let is_established = answer == AnswerClass::Accepted;
        let is_left = matches!(record.failure, Some(Failure::TimedOut(Timer::B) | Failure::Connection(_)));
        self.requests += 1;
        self.established += is(is_established);
        self.redirected += is(answer == AnswerClass::Redirected);
        self.refused_by_user += is(matches!(record.status, 480 | 486 | 600 | 603));
        self.ineffective += is(matches!(record.status, 408 | 500 | 503 | 504) || is_left);
        self.completed += is(is_established && record.stamps.ended != netrig_core::Instant::NEVER);
    }

    /// Session establishment ratio (RFC 6076 section 4.6), 0 to 1: the share of established sessions among the sessions
    /// that were not redirected. `None` without sessions.
    pub fn establishment(&self) -> Option<f64> {
        ratio(self.established, self.requests - self.redirected)
    }

    /// Session establishment effectiveness ratio (section 4.7): the same ratio, but refusals by the user count as
    /// successes.
    pub fn effectiveness(&self) -> Option<f64> {
        ratio(self.established + self.refused_by_user, self.requests - self.redirected)
    }

    /// Share of ineffective session attempts (section 4.8).
    pub fn ineffective(&self) -> Option<f64> {
        ratio(self.ineffective, self.requests)
    }

    /// Session completion ratio (section 4.9): share of completed sessions.
    pub fn completion(&self) -> Option<f64> {
        ratio(self.completed, self.requests)
    }
}

counts! {
    /// Counts of requested registrations. Retransmissions and challenges do not count as registrations.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RegistrationCounts {
        /// Registrations whose attempt has ended.
        pub requests: u64,
        /// Answered with 2xx.
        pub succeeded: u64,
        /// Answered with 4xx (other than 401, 402 and 407), 5xx or 6xx, timed out by timer F, or failed with a
        /// connection.
        pub ineffective: u64,
    }
}

impl RegistrationCounts {
    pub(super) fn record(&mut self, record: &Record) {
        let is_left = matches!(record.failure, Some(Failure::TimedOut(Timer::F) | Failure::Connection(_)));
        self.requests += 1;
        self.succeeded += u64::from(record.failure.is_none());
        self.ineffective += u64::from(is_left || AnswerClass::of(record) == AnswerClass::Refused);
    }

    /// The share that succeeded, 0 to 1. `None` without registrations.
    pub fn success(&self) -> Option<f64> {
        ratio(self.succeeded, self.requests)
    }

    /// Share of ineffective registration attempts (RFC 6076 section 4.2).
    pub fn ineffective(&self) -> Option<f64> {
        ratio(self.ineffective, self.requests)
    }
}

fn ratio(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}
