//! The search for a capacity, against model servers of known capacity.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod baseline;
mod causes;
mod design_objective;
mod form;
mod judging;
mod refusing;
mod resuming;
mod rfc7502;
mod sequential;
mod server;

use netrig_sip::index::DelayStatistic;
use netrig_sip_tester::capacity::{
    CapacityEstimate, CapacityVerdict, Mode, SearchSettings, Sequential, Threshold,
};

/// Settings of a search from 100 calls per second, with a mean connection delay of at most 1.5 s and long time limits.
fn settings() -> SearchSettings {
    let connection =
        Threshold { delay: "connection".to_owned(), statistic: DelayStatistic::Mean, most_s: 1.5 };
    with(SearchSettings::sequential("calls", 100.0, vec![connection]), |sequential| {
        (sequential.most_s, sequential.within_s) = (120.0, 1e6);
    })
}

/// `settings` with settings of the sequential mode that `change` has changed.
fn with(mut settings: SearchSettings, change: impl FnOnce(&mut Sequential)) -> SearchSettings {
    if let Mode::Sequential(sequential) = &mut settings.mode {
        change(sequential);
    }
    settings
}

/// The capacity of a verdict. Fails for any other verdict.
#[track_caller]
fn capacity(verdict: &CapacityVerdict) -> &CapacityEstimate {
    let CapacityVerdict::Capacity(capacity) = verdict else {
        panic!("no number: {}", verdict.sentence("calls"))
    };
    capacity
}

/// Fails unless the interval contains `known` and the ratio of its ends is at most 1.3.
#[track_caller]
fn holds(verdict: &CapacityVerdict, known: f64) {
    let capacity = capacity(verdict);
    let sentence = verdict.sentence("calls");
    assert!(capacity.low <= known && known <= capacity.high, "{known}: {sentence}");
    assert!(capacity.high <= 1.3 * capacity.low, "{known}: {sentence}");
}
