//! Quantities of SIP users, measured at the user agent. Delays are in the table of [`Delay`](super::Delay).

use netrig_core::{Instant, Quantity};

use crate::record::{Failure, Record, What};
use crate::transaction::Timer;

/// A metric of an experiment that reports an index of a flow.
#[derive(Clone, Copy, Debug)]
pub struct IndexMetric {
    /// Its name in files.
    pub name: &'static str,
    /// Its definition, in one sentence.
    pub definition: &'static str,
}

/// A quantity that is counted in the record of an ended attempt.
pub(super) struct CountedQuantity {
    pub(super) quantity: &'static Quantity,
    /// The count in a record of an attempt that found a server.
    pub(super) of: fn(&Record) -> u64,
}

/// Declares the quantities, and the counts of those that are counted in records.
macro_rules! counted {
    (
        reported { $($reported:tt)+ }
        counted { $($(#[doc = $doc:literal])+ $id:ident = $name:literal: |$record:ident| $of:expr;)+ }
    ) => {
        netrig_core::quantities! {
            $($reported)+
            $($(#[doc = $doc])+ $id = $name, "1", Count;)+
        }

        /// The quantities that are counted in records.
        pub(super) static COUNTED: [CountedQuantity; [$($name),+].len()] =
            [$(CountedQuantity { quantity: &$id, of: |$record| u64::from($of) }),+];
    };
}

counted! {
    reported {
        /// Attempts of users that were started, each counted at its scheduled start.
        SIP_BEGUN = "sip_begun", "1", Count;
        /// Attempts of users that found no server; they count neither as succeeded nor as failed.
        SIP_UNLOCATED = "sip_unlocated", "1", Count;
        /// The server was tested before the first user started; the value is the number of executed test purposes.
        SIP_CONFORMANCE_RUN = "sip_conformance_run", "1", Mark;
        /// The server was tested before the first user started; the value is the number of failed test purposes.
        SIP_CONFORMANCE_FAILED = "sip_conformance_failed", "1", Mark;
        /// The first response time that the flow's own scenario measures.
        SIP_RESPONSE_TIME_1 = "sip_response_time_1", "s", Value;
        /// The second response time that the flow's own scenario measures.
        SIP_RESPONSE_TIME_2 = "sip_response_time_2", "s", Value;
        /// The third response time that the flow's own scenario measures.
        SIP_RESPONSE_TIME_3 = "sip_response_time_3", "s", Value;
        /// From the first to the last step of a call of the flow's own scenario, of calls that succeeded.
        SIP_SCENARIO_TIME = "sip_scenario_time", "s", Value;
    }
    counted {
        /// Attempts of users that succeeded.
        SIP_SUCCEEDED = "sip_succeeded": |record| is_of_user(record) && record.failure.is_none();
        /// Attempts of users that failed.
        SIP_FAILED = "sip_failed": |record| is_of_user(record) && record.failure.is_some();
        /// Registrations that ended, renewals included. Retransmissions and challenges do not count again.
        SIP_REGISTRATIONS = "sip_registrations": |record| is_registration(record);
        /// Registrations that succeeded.
        SIP_REGISTERED = "sip_registered": |record| is_registration(record) && record.failure.is_none();
        /// Registrations that were refused with 4xx (other than 401, 402 and 407), 5xx or 6xx, timed out, or lost their
        /// connection (RFC 6076 section 4.2).
        SIP_REGISTRATIONS_INEFFECTIVE = "sip_registrations_ineffective":
            |record| is_registration(record) && (is_left(record, Timer::F) || is_refused(record));
        /// Ended calls with a scenario that answers and hangs up.
        SIP_CALLS = "sip_calls": |record| record.what.is_call();
        /// Calls of these scenarios that were answered and hung up.
        SIP_CALLS_COMPLETED = "sip_calls_completed": |record| record.what.is_call() && record.failure.is_none();
        /// Ended calls with a scenario that redirects.
        SIP_REDIRECTS = "sip_redirects": |record| record.what == What::Redirect;
        /// Calls of these scenarios that were redirected.
        SIP_REDIRECTED = "sip_redirected": |record| record.what == What::Redirect && record.failure.is_none();
        /// INVITEs that ended. Retransmissions and challenges of an INVITE do not count again.
        SIP_SESSIONS = "sip_sessions": |record| record.what.is_invite();
        /// INVITEs that were answered with 2xx.
        SIP_SESSIONS_ESTABLISHED = "sip_sessions_established":
            |record| record.what.is_invite() && is_accepted(record);
        /// INVITEs that were answered with 3xx.
        SIP_SESSIONS_REDIRECTED = "sip_sessions_redirected":
            |record| record.what.is_invite() && matches!(record.status, 300..400);
        /// INVITEs that the callee refused: 480, 486, 600, 603.
        SIP_SESSIONS_REFUSED = "sip_sessions_refused":
            |record| record.what.is_invite() && matches!(record.status, 480 | 486 | 600 | 603);
        /// INVITEs that a server failed (408, 500, 503, 504), that timed out (which counts as 408), or that lost their
        /// connection (which counts as 503, RFC 3261 section 8.1.3.1). RFC 6076 section 4.8.
        SIP_SESSIONS_INEFFECTIVE = "sip_sessions_ineffective":
            |record| record.what.is_invite()
                && (matches!(record.status, 408 | 500 | 503 | 504) || is_left(record, Timer::B));
        /// INVITEs whose session was established and ended by an answered BYE.
        SIP_SESSIONS_COMPLETED = "sip_sessions_completed":
            |record| record.what.is_invite() && is_accepted(record) && record.stamps.ended != Instant::NEVER;
        /// Requests that users retransmitted because no response arrived in time.
        SIP_REQUESTS_AGAIN = "sip_requests_again": |record| record.counts.requests_again;
        /// Provisional responses that arrived after later ones.
        SIP_REORDERED = "sip_reordered": |record| record.counts.reordered;
    }
}

/// Whether the attempt is one of the users', and not a renewal or the callee's side of a call.
const fn is_of_user(record: &Record) -> bool {
    !matches!(record.what, What::Renew | What::Answer)
}

const fn is_registration(record: &Record) -> bool {
    matches!(record.what, What::Register | What::Renew)
}

/// Whether the request was answered with 2xx.
pub(super) const fn is_accepted(record: &Record) -> bool {
    matches!(record.status, 200..300)
}

/// Whether the request was answered with 4xx to 6xx. RFC 6076 does not count the challenges 401, 402 and 407 as failures.
pub(super) const fn is_refused(record: &Record) -> bool {
    record.status >= 400 && !matches!(record.status, 401 | 402 | 407)
}

/// Whether there was no final response: this timer expired, or the connection was lost.
fn is_left(record: &Record, timer: Timer) -> bool {
    match record.failure {
        Some(Failure::TimedOut(expired)) => expired == timer,
        Some(Failure::Connection(_)) => true,
        _ => false,
    }
}
