//! Samples of a run, made of a record.

use netrig_core::{Instant, Quantity, Sample, quantity};

use super::{Delay, RegistrationCounts, SessionCounts};
use crate::record::{Failure, Record, What};

/// Passes the samples of a record that ended at `at` to `each`: its outcome and its delays.
pub fn samples_of(record: &Record, at: Instant, mut each: impl FnMut(Sample)) {
    let mut count = |quantity: &'static Quantity, value: u64| {
        if value > 0 {
            each(Sample { at, quantity, value: value as f64 });
        }
    };
    let what = record.what;
    if let Some(Failure::Unlocated(_)) = record.failure {
        count(&quantity::SIP_UNLOCATED, 1);
        return;
    }
    let well = u64::from(record.failure.is_none());
    if !matches!(what, What::Renew | What::Answer) {
        count(&quantity::SIP_SUCCEEDED, well);
        count(&quantity::SIP_FAILED, 1 - well);
    }
    if matches!(what, What::Register | What::Renew) {
        let mut of_one = RegistrationCounts::default();
        of_one.record(record);
        count(&quantity::SIP_REGISTRATIONS, of_one.requests);
        count(&quantity::SIP_REGISTERED, of_one.succeeded);
        count(&quantity::SIP_REGISTRATIONS_INEFFECTIVE, of_one.ineffective);
    }
    let done = match what {
        What::Redirect => Some((&quantity::SIP_REDIRECTS, &quantity::SIP_REDIRECTED)),
        what if what.is_call() => Some((&quantity::SIP_CALLS, &quantity::SIP_CALLS_COMPLETED)),
        _ => None,
    };
    if let Some((all, good)) = done {
        count(all, 1);
        count(good, well);
    }
    if what.is_invite() {
        let mut of_one = SessionCounts::default();
        of_one.record(record);
        count(&quantity::SIP_SESSIONS, of_one.requests);
        count(&quantity::SIP_SESSIONS_ESTABLISHED, of_one.established);
        count(&quantity::SIP_SESSIONS_REDIRECTED, of_one.redirected);
        count(&quantity::SIP_SESSIONS_REFUSED, of_one.refused_by_user);
        count(&quantity::SIP_SESSIONS_INEFFECTIVE, of_one.ineffective);
        count(&quantity::SIP_SESSIONS_COMPLETED, of_one.completed);
    }
    count(&quantity::SIP_REQUESTS_AGAIN, record.counts.requests_again.into());
    count(&quantity::SIP_REORDERED, record.counts.reordered.into());
    for delay in Delay::ALL {
        if let Some(span) = delay.of(record) {
            each(Sample { at, quantity: delay.quantity(), value: span.as_secs_f64() });
        }
    }
}
