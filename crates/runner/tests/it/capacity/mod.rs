//! The search for a capacity against servers whose capacity is known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod baseline;
mod design_objective;
mod form;
mod judging;
mod refusing;
mod resuming;
mod rfc7502;
mod sequential;
mod server;

use netrig_runner::capacity::{Mode, Sequential, Settings, Statistic, Threshold, Verdict};

/// A search for calls whose connection takes at most 1.5 s in the mean, from 100 per second, once.
fn settings() -> Settings {
    let connection = Threshold { delay: "connection".to_owned(), statistic: Statistic::Mean, most_s: 1.5 };
    with(Settings::sequential("calls", 100.0, vec![connection]), |sequential| sequential.repeats = 1)
}

/// The same with other settings of its mode.
fn with(mut settings: Settings, change: impl FnOnce(&mut Sequential)) -> Settings {
    if let Mode::Sequential(sequential) = &mut settings.mode {
        change(sequential);
    }
    settings
}

/// The capacity that was found.
#[track_caller]
fn rate(verdict: &Verdict) -> f64 {
    verdict.rate().unwrap_or_else(|| panic!("no number: {}", verdict.sentence("calls")))
}
